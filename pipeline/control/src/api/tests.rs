//! Requests of every kind, and what the API says of itself.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use axum::body::Body;
use axum::http::Method;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http_body_util::BodyExt as _;
use pmdns_config::{Role, Token};
use serde_json::Value;

use super::*;
use crate::{Call, CallReply, Refusal};

/// SHA-256 of `reader-token` and `writer-token`.
fn tokens() -> Tokens {
    let token = |name: &str, role, text: &str| {
        let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        let sha256 = Some(digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect());
        Token { name: name.into(), role, secret_file: None, sha256 }
    };
    let all = [
        token("f", Role::Figures, "figure-token"),
        token("r", Role::Read, "reader-token"),
        token("w", Role::Operate, "writer-token"),
    ];
    Tokens::load(&all).unwrap()
}

const LOCAL: Peer = Peer::Address(IpAddr::V4(Ipv4Addr::LOCALHOST));

/// An API before an engine that says yes to everything.
fn api(rate: u32) -> Router {
    let (calls, mut received) = CallSender::new(|| ());
    tokio::spawn(async move {
        while let Some((call, caller)) = received.recv().await {
            let reply = match call {
                Call::State => CallReply::Json(format!("{{\"by\":{:?}}}", caller.by)),
                Call::Reload => CallReply::Refused(Refusal::Unable, "the file is wrong".into()),
                _ => CallReply::Done("so be it".into()),
            };
            caller.reply(reply);
        }
    });
    router(calls, Arc::new(Guard::new(Vec::new(), tokens(), Rate(rate))), true)
}

struct Got {
    status: u16,
    headers: axum::http::HeaderMap,
    body: Value,
}

async fn ask(api: &Router, peer: Peer, request: Request<Body>) -> Got {
    let response = respond(api.clone(), peer, request).await;
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| panic!("{bytes:?} is no JSON"));
    Got { status: parts.status.as_u16(), headers: parts.headers, body }
}

fn request(method: &str, path: &str, token: &str, body: &str) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header(HOST, "127.0.0.1:8053");
    let request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    request.header(CONTENT_TYPE, "application/json").body(Body::from(body.to_owned())).unwrap()
}

/// What the API says of itself.
struct Described(Value);

impl Described {
    /// Whether a request may end so. Where nothing is described, it may be refused only.
    fn allows(&self, method: &str, path: &str, status: u16) -> bool {
        let path = path.split('?').next().unwrap();
        let is_meant = |template: &str| {
            let (parts, own) = (template.split('/'), path.split('/'));
            parts.clone().count() == own.clone().count()
                && parts.zip(own).all(|(part, own)| part.starts_with('{') || part == own)
        };
        let mut paths = self.0["paths"].as_object().unwrap().iter();
        let item = paths.find(|(template, _)| is_meant(template)).map(|(_, item)| item);
        match item.and_then(|item| item.get(method.to_lowercase())) {
            Some(operation) => operation["responses"].get(status.to_string()).is_some(),
            None => status >= 400,
        }
    }
}

#[tokio::test]
async fn roles_decide_what_a_token_may() {
    let api = api(1000);
    let described = Described(serde_json::to_value(description()).unwrap());
    for (method, path, token, body, status) in [
        ("GET", "/api/v1/state", "reader-token", "", 200),
        ("GET", "/api/v1/log", "figure-token", "", 403),
        ("GET", "/nothing", "figure-token", "", 404),
        ("DELETE", "/api/v1/entries/a.example?view=kids", "writer-token", "", 200),
        ("DELETE", "/api/v1/entries/a.example?views=kids", "writer-token", "", 422),
        ("GET", "/api/openapi.json", "reader-token", "", 200),
        ("GET", "/api/v1/state", "wrong-token", "", 401),
        ("GET", "/api/v1/state", "", "", 401),
        ("POST", "/api/v1/reload", "reader-token", "", 403),
        ("POST", "/api/v1/reload", "writer-token", "", 409),
        ("POST", "/api/v1/purge", "writer-token", "{\"name\":\"a.example\"}", 200),
        ("POST", "/api/v1/purge", "writer-token", "{\"name\":\"a.example\",\"below\":1}", 422),
        ("POST", "/api/v1/purge", "writer-token", "{\"name\"", 400),
        ("POST", "/api/v1/entries", "writer-token", "{\"entries\":[]}", 422),
        ("GET", "/api/v1/entries?limit=0", "reader-token", "", 422),
        ("GET", "/api/v1/entries?limit=x", "reader-token", "", 422),
        ("GET", "/api/v1/entries?limit=7&after=a.example", "reader-token", "", 200),
        ("DELETE", "/api/v1/entries/a.example", "writer-token", "", 200),
        ("DELETE", "/api/v1/entries/%ff", "writer-token", "", 422),
        ("POST", "/api/v1/clients", "reader-token", "{\"clients\":[{\"prefix\":\"::1\"}]}", 403),
        ("POST", "/api/v1/clients", "writer-token", "{\"clients\":[{\"prefix\":\"::1\"}]}", 200),
        ("POST", "/api/v1/clients", "writer-token", "{\"clients\":[]}", 422),
        ("DELETE", "/api/v1/clients?prefix=192.0.2.0/24", "writer-token", "", 200),
        ("GET", "/api/v1/clients?after=192.0.2.0/24", "reader-token", "", 200),
        ("GET", "/api/v1/clients/2001:db8::1", "reader-token", "", 200),
        ("PATCH", "/api/v1/entries", "writer-token", "", 405),
        ("GET", "/nothing", "reader-token", "", 404),
        ("POST", "/api/v1/drain", "reader-token", "", 403),
        ("POST", "/api/v1/drain", "writer-token", "", 200),
        ("POST", "/api/v1/resume", "writer-token", "", 200),
        ("GET", "/api/v1/upstreams", "reader-token", "", 200),
        ("POST", "/api/v1/upstreams", "reader-token", "{\"address\":\"192.0.2.1:53\"}", 403),
        ("POST", "/api/v1/upstreams", "writer-token", "{\"address\":\"192.0.2.1:53\"}", 200),
        ("POST", "/api/v1/upstreams", "writer-token", "{\"weight\":1}", 422),
        ("PATCH", "/api/v1/upstreams/192.0.2.1:53", "reader-token", "{\"drained\":true}", 403),
        ("PATCH", "/api/v1/upstreams/192.0.2.1:53", "writer-token", "{\"drained\":true}", 200),
        ("PATCH", "/api/v1/upstreams/192.0.2.1:53", "writer-token", "{\"weight\":3}", 200),
        ("PATCH", "/api/v1/upstreams/192.0.2.1:53", "writer-token", "{\"weight\":-3}", 422),
        ("DELETE", "/api/v1/upstreams/https:%2F%2Fa.example%2Fq", "writer-token", "", 200),
        ("POST", "/api/v1/lists/ads/refresh", "reader-token", "", 403),
        (
            "POST",
            "/api/v1/lists",
            "reader-token",
            "{\"name\":\"a\",\"url\":\"https://a.example/l\"}",
            403,
        ),
        (
            "POST",
            "/api/v1/lists",
            "writer-token",
            "{\"name\":\"a\",\"url\":\"https://a.example/l\"}",
            200,
        ),
        ("POST", "/api/v1/lists", "writer-token", "{\"name\":\"a\"}", 422),
        (
            "POST",
            "/api/v1/lists",
            "writer-token",
            "{\"name\":\"a\",\"url\":\"\",\"address\":\"x\"}",
            422,
        ),
        ("DELETE", "/api/v1/lists/a", "reader-token", "", 403),
        ("DELETE", "/api/v1/lists/a", "writer-token", "", 200),
        ("POST", "/api/v1/lists/ads/refresh", "writer-token", "", 200),
        ("GET", "/api/v1/lookup", "reader-token", "", 422),
        ("GET", "/api/v1/lookup?name=a.example&client=192.0.2.1", "reader-token", "", 200),
        ("GET", "/api/v1/log?since=10m&blocked=true&limit=5", "reader-token", "", 200),
        ("GET", "/api/v1/log?since=10", "reader-token", "", 422),
        ("GET", "/api/v1/log?until_us=9223372036854775808", "reader-token", "", 422),
        ("GET", "/api/v1/log?limit=10001", "reader-token", "", 422),
        ("GET", "/api/v1/trace?count=1000&seconds=300", "reader-token", "", 200),
        ("GET", "/api/v1/trace?count=1001", "reader-token", "", 422),
        ("GET", "/api/v1/trace?seconds=301", "reader-token", "", 422),
        ("GET", "/api/v1/capture?seconds=0", "reader-token", "", 422),
        ("GET", "/api/v1/cache?name=example&type=A&limit=10000", "reader-token", "", 200),
        ("GET", "/api/v1/cache?limit=0", "reader-token", "", 422),
        ("GET", "/api/v1/cache/dump", "wrong-token", "", 401),
        ("POST", "/api/v1/cache/dump", "writer-token", "", 405),
        ("POST", "/api/v1/cache/load", "reader-token", "", 403),
        ("POST", "/api/v1/cache/load", "writer-token", "", 200),
    ] {
        let got = ask(&api, LOCAL, request(method, path, token, body)).await;
        assert_eq!(got.status, status, "{method} {path}: {}", got.body);
        assert!(
            described.allows(method, path, status),
            "{method} {path}: {status} is not described"
        );
        assert_eq!(got.headers["x-content-type-options"], "nosniff");
        if status != 200 {
            assert_eq!(got.headers[CONTENT_TYPE], "application/problem+json");
            assert_eq!(got.body["status"], status);
            assert!(got.body["detail"].as_str().is_some_and(|text| !text.is_empty()));
        }
    }
    let who = ask(&api, LOCAL, request("GET", "/api/v1/state", "reader-token", "")).await;
    assert_eq!(who.body["by"], "token r from 127.0.0.1");
}

#[tokio::test]
async fn each_route_has_one_role_and_refuses_every_lower_one() {
    let description = serde_json::to_value(description()).unwrap();
    let mut described = std::collections::BTreeMap::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let role = operation["x-role"].as_str().unwrap().to_owned();
            described.insert((method.clone(), path.clone()), role);
        }
    }
    let row = |(method, path, role): (Method, &str, Role)| {
        ((method.as_str().to_ascii_lowercase(), path.to_owned()), role.to_string())
    };
    let table: std::collections::BTreeMap<_, _> = roles::rows().map(row).collect();
    assert_eq!(described, table, "each route has a row, and each row a route");
    let api = api(1_000_000);
    let tokens =
        [("figures", "figure-token"), ("read", "reader-token"), ("operate", "writer-token")];
    let rank = |role: &str| tokens.iter().position(|(one, _)| *one == role).unwrap();
    for ((method, path), needed) in &described {
        // Whatever is behind the role: these are no values that make sense.
        let path = path.replace("{address}", "x").replace("{name}", "x").replace("{zone}", "x");
        for (role, token) in tokens {
            let request = request(&method.to_uppercase(), &path, token, "");
            let response = respond(api.clone(), LOCAL, request).await;
            let is_refused = response.status().as_u16() == 403;
            assert_eq!(is_refused, rank(role) < rank(needed), "{method} {path} as {role}");
        }
        let nobody = respond(api.clone(), LOCAL, request(&method.to_uppercase(), &path, "", ""));
        assert!(matches!(nobody.await.status().as_u16(), 401 | 429), "{method} {path}");
    }
}

#[tokio::test]
async fn users_of_the_socket_need_no_token_and_no_host() {
    let plain = Request::builder().method("DELETE").uri("/api/v1/entries/a").body(Body::empty());
    assert_eq!(ask(&api(1), Peer::User(0), plain.unwrap()).await.status, 200);
}

#[tokio::test]
async fn who_asks_too_often_or_by_another_name_is_refused() {
    let api = api(3);
    let state = || request("GET", "/api/v1/state", "reader-token", "");
    let mut rebound = state();
    rebound.headers_mut().insert(HOST, "rebind.example".parse().unwrap());
    assert_eq!(ask(&api, LOCAL, rebound).await.status, 421);
    for _ in 0..6 {
        assert_eq!(ask(&api, LOCAL, state()).await.status, 200);
    }
    let got = ask(&api, LOCAL, state()).await;
    assert_eq!((got.status, &got.headers["retry-after"].to_str().unwrap()), (429, &"1"));
    let other = Peer::Address("192.0.2.1".parse().unwrap());
    assert_eq!(ask(&api, other, state()).await.status, 429, "the limit is that of the token");
    let writes = || request("GET", "/api/v1/state", "writer-token", "");
    assert_eq!(ask(&api, LOCAL, writes()).await.status, 200, "another token has its own");
}

/// An API before an engine that gives this reply to every call, after it has written to the call's file.
fn engine(written: &'static [u8], reply: CallReply) -> Router {
    let (calls, mut received) = CallSender::new(|| ());
    tokio::spawn(async move {
        while let Some((_, mut caller)) = received.recv().await {
            if let Some(mut file) = caller.file.take() {
                file.write_all(written).unwrap();
            }
            caller.reply(reply.clone());
        }
    });
    router(calls, Arc::new(Guard::new(Vec::new(), tokens(), Rate(1000))), true)
}

#[tokio::test]
async fn health_is_in_the_status_too() {
    for (healthy, status) in [(true, 200), (false, 503)] {
        let health = crate::health::NodeHealth { healthy, ..Default::default() };
        let api = engine(b"", CallReply::Health(Box::new(health)));
        let got = ask(&api, LOCAL, request("GET", "/api/v1/health", "reader-token", "")).await;
        assert_eq!((got.status, got.body["healthy"].as_bool()), (status, Some(healthy)));
        assert_eq!(got.headers[CONTENT_TYPE], "application/json");
    }
}

#[tokio::test]
async fn a_capture_is_what_came_through_the_pipe() {
    let capture = || request("GET", "/api/v1/capture?count=1", "reader-token", "");
    let api = engine(b"packets", CallReply::Done("1 packet".into()));
    let response = respond(api, LOCAL, capture()).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()[CONTENT_TYPE]),
        (200, &"application/x-pcapng".parse().unwrap())
    );
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "packets");
    let why = CallReply::Refused(Refusal::Wrong, "there is no such port".into());
    let got = ask(&engine(b"", why.clone()), LOCAL, capture()).await;
    assert_eq!((got.status, got.body["detail"].as_str()), (422, Some("there is no such port")));
    let broken = respond(
        engine(b"packets", CallReply::Refused(Refusal::Unable, "the disk".into())),
        LOCAL,
        capture(),
    )
    .await;
    // Either it is refused before anything was sent, or the client sees that the end is missing.
    assert!(broken.status().as_u16() == 409 || broken.into_body().collect().await.is_err());
}

#[tokio::test]
async fn a_dump_is_what_came_through_the_pipe_and_a_second_one_is_refused() {
    let dump = || request("GET", "/api/v1/cache/dump", "reader-token", "");
    let response =
        respond(engine(b"answers", CallReply::Done("1 written".into())), LOCAL, dump()).await;
    assert_eq!(response.headers()[CONTENT_TYPE], "application/octet-stream");
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "answers");
    let busy = CallReply::Refused(Refusal::Busy, "too much is under way".into());
    assert_eq!(ask(&engine(b"", busy), LOCAL, dump()).await.status, 429);
}

#[tokio::test]
async fn a_capture_without_packets_ends_when_its_client_leaves() {
    let (calls, mut received) = CallSender::new(|| ());
    let api = router(calls, Arc::new(Guard::new(Vec::new(), tokens(), Rate(1000))), true);
    let path = "/api/v1/capture?seconds=300";
    let download = tokio::spawn(respond(api, LOCAL, request("GET", path, "reader-token", "")));
    let (_, mut caller) = received.recv().await.unwrap();
    caller.file.as_mut().unwrap().write_all(b"head").unwrap();
    let mut body = download.await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "head");
    drop(body);
    let left = tokio::time::timeout(std::time::Duration::from_secs(5), caller.left());
    assert!(left.await.is_ok(), "the capture keeps one of few places");
}

#[tokio::test]
async fn who_ends_the_body_of_a_request_wants_no_more_of_its_answer() {
    let (calls, mut received) = CallSender::new(|| ());
    let api = router(calls, Arc::new(Guard::new(Vec::new(), tokens(), Rate(1000))), true);
    for path in ["/api/v1/capture", "/api/v1/trace"] {
        let (open, body) = http_body_util::channel::Channel::<Bytes>::new(1);
        let asked = request("GET", path, "reader-token", "").map(|_| Body::new(body));
        let answered = tokio::spawn(respond(api.clone(), LOCAL, asked));
        let (_, caller) = received.recv().await.unwrap();
        tokio::task::yield_now().await;
        assert!(!caller.has_left(), "{path}");
        drop(open);
        while !caller.has_left() {
            tokio::task::yield_now().await;
        }
        caller.reply(CallReply::Done("3 packets".into()));
        let body = answered.await.unwrap().into_body().collect().await.unwrap();
        let trailer = body.trailers().and_then(|all| all.get(DONE)).cloned();
        assert_eq!(trailer.is_some(), path.ends_with("capture"), "{path}");
    }
}

#[tokio::test]
async fn what_is_uploaded_comes_out_of_the_pipe_and_its_end_too() {
    use std::io::Read as _;
    let (calls, mut received) = CallSender::new(|| ());
    let api = router(calls, Arc::new(Guard::new(Vec::new(), tokens(), Rate(1000))), true);
    // More than a pipe holds.
    let long = "answers ".repeat(50_000);
    let load = request("POST", "/api/v1/cache/load", "writer-token", &long);
    let answered = tokio::spawn(respond(api, LOCAL, load));
    let (call, mut caller) = received.recv().await.unwrap();
    assert_eq!(call, Call::CacheLoad);
    let mut file = caller.file.take().unwrap();
    let read = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        file.read_to_string(&mut text).map(|_| text)
    });
    assert!(read.await.unwrap().unwrap() == long);
    caller.reply(CallReply::Done("loaded".into()));
    assert_eq!(answered.await.unwrap().status().as_u16(), 200);
}

#[tokio::test]
async fn guessed_tokens_run_out() {
    let api = api(1000);
    let mut answered = Vec::new();
    for _ in 0..12 {
        answered.push(ask(&api, LOCAL, request("GET", "/api/v1/state", "guess", "")).await.status);
    }
    assert_eq!((answered[0], answered[11]), (401, 429), "{answered:?}");
    let known = request("GET", "/api/v1/state", "reader-token", "");
    assert_eq!(ask(&api, LOCAL, known).await.status, 200, "who guesses shuts nobody else out");
}

#[tokio::test]
async fn a_body_without_end_is_not_read_to_its_end() {
    let long = format!("{{\"name\":\"{}\"}}", "a".repeat(MAX_BODY));
    let got = ask(&api(1000), LOCAL, request("POST", "/api/v1/purge", "writer-token", &long)).await;
    assert_eq!(got.status, 413, "{}", got.body);
}

#[test]
fn an_entry_may_have_more_than_its_request() {
    let description = serde_json::to_value(description()).unwrap();
    let schemas = &description["components"]["schemas"];
    assert_eq!(schemas["EntryRequest"]["additionalProperties"], false);
    for name in ["Entry", "Record"] {
        for part in schemas[name]["allOf"].as_array().unwrap() {
            assert!(
                part["properties"].is_object() && part["additionalProperties"].is_null(),
                "{part}"
            );
        }
    }
}

#[test]
fn every_route_is_described_with_what_it_refuses() {
    let description = serde_json::to_value(description()).unwrap();
    assert!(description["openapi"].as_str().unwrap().starts_with("3."));
    let paths = description["paths"].as_object().unwrap();
    assert!(paths.len() >= 12, "{paths:?}");
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            let body = &operation["responses"]["200"]["content"];
            assert!(body.is_object(), "{method} {path}");
            for status in ["200", "401", "421", "429"] {
                assert!(responses.contains_key(status), "{method} {path} has no {status}");
            }
            assert!(operation["summary"].is_string(), "{method} {path}");
        }
    }
}

#[test]
fn d27_the_description_names_no_command() {
    let text = description().to_json().unwrap();
    assert!(!text.contains("`pmdns "), "a reader of the description may have no command line");
}
