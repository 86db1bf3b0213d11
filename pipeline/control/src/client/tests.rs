//! What the client writes, read by the routes of the API.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::api::{Guard, Peer, Rate, Tokens, respond, router};
use crate::*;

/// One of each call, with characters that mean something in a path.
fn calls() -> Vec<Call> {
    let text = |text: &str| text.to_owned();
    let page = || Page { after: Some(text("a b&c.example")), limit: 7 };
    let packets = || trace::PacketSearch {
        client: Some(text("10.0.0.0/8")),
        count: Some(3),
        answers: true,
        ..Default::default()
    };
    let entry = EntryRequest {
        name: text("*.a.example"),
        kind: EntryKind::Block,
        scope: EntryScope::Suffix,
        action: RuleAction::Null,
        views: vec![text("kids")],
    };
    let record =
        RecordRequest { name: text("p.lan"), r#type: text("TXT"), ttl: 60, data: text("\"a  b\"") };
    let list = NewList {
        name: text("ads"),
        url: text("https://a.example/l?x=1&y=2"),
        address: "2001:db8::1".parse().ok(),
        refresh_seconds: Some(60),
        views: vec![],
    };
    vec![
        Call::State,
        Call::Stats,
        Call::Health,
        Call::Drain,
        Call::Resume,
        Call::Standby,
        Call::Activate,
        Call::Reload,
        Call::Upgrade,
        Call::Config,
        Call::ConfigDiff,
        Call::Views,
        Call::Upstreams,
        Call::AddUpstream(NewUpstream { address: text("192.0.2.1:53"), group: None }),
        Call::SetUpstream(
            text("https://a.example/dns-query?x"),
            UpstreamState { drained: Some(true), weight: None },
        ),
        Call::RemoveUpstream(text("[2001:db8::1]:53")),
        Call::Lists,
        Call::RefreshList(text("ads/..%2f \u{e4}")),
        Call::AddList(list),
        Call::RemoveList(text("ads")),
        Call::Entries(page()),
        Call::AddEntries(vec![entry]),
        Call::RemoveEntry(EntryChoice { name: text("a.example suffix"), view: Some(text("a b")) }),
        Call::Records(page()),
        Call::AddRecords(vec![record]),
        Call::RemoveRecords(RecordChoice { name: text("p.lan"), r#type: Some(text("A")) }),
        Call::Clients(page()),
        Call::FindClient(text("2001:db8::1")),
        Call::ChangeClients(vec![ClientChange { prefix: text("::1"), view: Some(text("kids")) }]),
        Call::RemoveClient(text("192.0.2.0/24")),
        Call::Lookup(lookup::LookupRequest {
            name: text("a.example"),
            r#type: None,
            client: Some(text("::1")),
        }),
        Call::Log(query_log::LogSearch {
            since: "10m".parse().ok(),
            blocked: Some(true),
            limit: Some(5),
            ..Default::default()
        }),
        Call::Trace(packets()),
        Call::Capture(packets()),
        Call::Crashes,
        Call::Cache(cache::CacheSearch { name: Some(text("a.example")), r#type: None, limit: 20 }),
        Call::Purge(PurgeOrder { name: text("a.example"), suffix: true, r#type: Some(text("A")) }),
        Call::CacheDump,
        Call::CacheLoad,
        Call::Hitters(HittersQuery { what: Hitter::Nxdomain, window: Window::Hour, n: 3 }),
        Call::Floods,
        Call::Limits,
        Call::Limit(LimitOrder { zone: text("a.example"), rate: 50, seconds: Some(600) }),
        Call::Unlimit(text("a.example")),
    ]
}

/// The routes read what the client writes: each call arrives as it was made.
#[tokio::test]
async fn a_request_that_is_made_of_a_call_makes_this_call() {
    let (sender, mut received) = CallSender::new(|| ());
    let guard = Arc::new(Guard::new(Vec::new(), Tokens::default(), Rate(1)));
    let api = router(sender, guard, false);
    let mut routes = BTreeSet::new();
    for call in calls() {
        let until_restart = call.is_change();
        let request = request(&call, until_restart, ("pmdns", None), Body::empty());
        let answered = tokio::spawn(respond(api.clone(), Peer::User(0), request.unwrap()));
        let received = tokio::select! {
            received = received.recv() => received,
            answer = answered => panic!("{call:?}: {:?}", answer.unwrap()),
        };
        let (got, caller) = received.unwrap();
        assert_eq!(got, call);
        assert_eq!(caller.by, "user 0");
        let route = call.route();
        assert_eq!(caller.until_restart, route.is_kept, "{call:?}");
        routes.insert((call.route().method.to_string(), call.route().path));
    }
    let all = Call::ROUTES.iter().map(|route| (route.method.to_string(), route.path)).collect();
    assert_eq!(routes, all, "each route has a call here");
}

#[test]
fn each_route_is_in_the_list_for_operators() {
    let page = include_str!("../../../../docs/tasks/api.md");
    let rows: String = page.lines().filter(|line| line.starts_with("| `")).collect();
    for CallRoute { method, path, .. } in Call::ROUTES {
        let short = path.strip_prefix("/api/v1/").unwrap();
        // `lists/{name}` is `lists/NAME` there.
        let parts = short.split(['{', '}']).enumerate();
        let parts =
            parts.map(|(at, part)| if at % 2 == 1 { part.to_uppercase() } else { part.into() });
        let written = parts.collect::<String>();
        let ends = [format!("`{written}`"), format!("/{written}`"), format!("/{written}?")];
        let is_there = ends.iter().any(|one| rows.contains(one));
        assert!(is_there, "docs/tasks/api.md has no row of {method} {path}");
    }
}

/// A server that sends these bytes, whatever it is asked.
fn server(name: &str, sent: &'static str) -> (std::path::PathBuf, std::thread::JoinHandle<()>) {
    let file = format!("pmdns-client-{}-{name}.sock", std::process::id());
    let path = std::env::temp_dir().join(file);
    let _ = std::fs::remove_file(&path);
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
        stream.write_all(sent.as_bytes()).unwrap();
    });
    (path, served)
}

#[test]
fn what_a_server_sends_is_an_answer_or_says_why_not() {
    let html = "HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\n{}";
    let short = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{}";
    let unfit =
        "HTTP/1.1 503 Unavailable\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    let refusal = "HTTP/1.1 409 Conflict\r\ncontent-type: application/problem+json; charset=utf-8\r\n\
        content-length: 77\r\n\r\n\
        {\"type\":\"about:blank\",\"title\":\"Conflict\",\"status\":409,\"detail\":\"no\\u001b[2J\"}";
    let ask = |name: &str, sent| {
        let (path, served) = server(name, sent);
        let answer = ApiClient::at_socket(&path).ask_within(&Call::Stats, Duration::from_secs(60));
        served.join().unwrap();
        std::fs::remove_file(path).unwrap();
        answer
    };
    assert_eq!(ask("unfit", unfit).unwrap(), "{}");
    let answer = ask("html", html).unwrap_err();
    assert!(matches!(&answer, ClientError::Answer { why, .. } if why.contains("502")), "{answer}");
    assert!(matches!(ask("short", short), Err(ClientError::CutOff { .. })));
    assert!(matches!(ask("nothing", ""), Err(ClientError::CutOff { .. })));
    assert!(matches!(ask("words", "error: no request\n"), Err(ClientError::Answer { .. })));
    let refused = ask("refusal", refusal).unwrap_err();
    assert_eq!(refused.to_string(), "no\\u{1b}[2J", "no terminal obeys it");
}

#[test]
fn a_url_names_a_server_and_no_token_passes_in_clear_text() {
    let at = |url: &str| ApiClient::at_url(url, "secret".to_owned(), None).map(|_| ());
    for url in ["https://node2.example", "https://node2.example:8053/", "http://127.0.0.1:8053"] {
        at(url).unwrap();
    }
    at("https://[2001:db8::1]:8053").unwrap();
    at("http://[::1]").unwrap();
    for (url, part) in [
        ("https://node2.example:80530", "its port is no number up to 65535"),
        ("https://node2.example:", "its port is no number up to 65535"),
        ("http://node2.example", "clear text"),
        ("ftp://node2.example", "neither with https"),
        ("node2.example", "neither with https"),
        ("https://node2.example/api", "more than a host"),
        ("https://user@node2.example", "more than a host"),
        ("https://", "no URL"),
    ] {
        let error = at(url).unwrap_err().to_string();
        assert!(error.contains(part), "{url}: {error}");
    }
}
