//! The same with files that are put together of pieces. Whoever is refused there gets nothing here. If the import has taken all
//! of a file over, every answer is the same.
//!
//! `PMDNS_IMPORT_FILES=200` tries more of them.

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::harness::isolated;
use crate::import::{
    self, A, Answer, Asked, CLIENTS, MX, are_alike, ours, queries, set_up, theirs, wait_for_theirs,
};
use crate::process::Process;

/// A client that no piece is about, which every file lets ask.
const ADMIN: &str = "192.0.2.53";
/// A name that no piece is about.
const PLAIN: &str = "up.example";
/// What is asked for: names that pieces are about, names above and below them, and others.
const QUESTIONS: [(&str, u16); 12] = [
    (PLAIN, A),
    ("ads.example", A),
    ("x.ads.example", A),
    ("y.x.ads.example", A),
    ("good.ads.example", A),
    ("sink.example", A),
    ("x.sink.example", A),
    ("x.sink.example", MX),
    ("corp.example", A),
    ("x.corp.example", A),
    ("host.home.example", A),
    ("www.example", A),
];
/// How long the other server has before its silence counts.
const SILENCE: Duration = Duration::from_millis(1000);

/// One of these, as often as the others.
fn one_of(pieces: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(pieces)
}

/// Some of these pieces in any order, with a word put into each.
fn some(
    pieces: &'static [&'static str],
    words: &'static [&'static str],
) -> impl Strategy<Value = String> {
    let pieces = prop::sample::subsequence(pieces, 0..=pieces.len().min(4)).prop_shuffle();
    pieces.prop_flat_map(move |pieces| {
        let words = prop::collection::vec(one_of(words), pieces.len());
        words.prop_map(move |words| {
            pieces.iter().zip(words).map(|(piece, word)| piece.replace("WORD", word)).collect()
        })
    })
}

/// Compares files of this kind with the server.
fn compare(what: &str, files: &BoxedStrategy<String>, start: fn(&str) -> Process) {
    set_up();
    let count = std::env::var("PMDNS_IMPORT_FILES").ok();
    let count: u32 = count.map_or(6, |count| count.parse().expect("a number of files"));
    let (mut runner, mut whole) = (TestRunner::deterministic(), 0);
    let queries = queries(&CLIENTS, &QUESTIONS);
    for _ in 0..count {
        let text = files.new_tree(&mut runner).expect("a file").current();
        let server = start(&text);
        wait_for_theirs(ADMIN, (PLAIN, A));
        let theirs = theirs(&queries, SILENCE);
        drop(server);
        let imported = import::import(&text, &[]);
        let made = import::written(&imported);
        match imported.status.code() {
            // Nothing is written that would answer somebody else, or otherwise.
            Some(10) => assert_eq!(made, "", "{text}"),
            Some(0) => {
                whole += 1;
                are_alike(
                    &format!("{what}\n{text}\n{made}"),
                    &queries,
                    &theirs,
                    &ours(&made, &queries),
                );
            }
            Some(6) => {
                nobody_gains(&format!("{text}\n{made}"), &queries, &theirs, &ours(&made, &queries))
            }
            other => panic!("exit {other:?}: {text}\n{}", import::said(&imported)),
        }
    }
    println!("{what}: {count} files, {whole} of them taken over as a whole");
    assert!(whole > 0, "of {count} files none is taken over as a whole");
}

/// A client that gets nothing there, or REFUSED, for a name that no piece is about, gets no records here at all.
fn nobody_gains(what: &str, queries: &[Asked], theirs: &[Answer], ours: &[Answer]) {
    let refused = queries.iter().zip(theirs).filter(|((_, question), (rcode, _))| {
        question.0 == PLAIN && ["none", "Query Refused"].contains(&&**rcode)
    });
    let refused: Vec<&str> = refused.map(|((client, _), _)| *client).collect();
    for (query, ours) in queries.iter().zip(ours).filter(|(query, _)| refused.contains(&query.0)) {
        assert!(ours.1.is_empty(), "{what}: {query:?} gets {ours:?}");
    }
}

fn unbound_files() -> BoxedStrategy<String> {
    const ZONES: &[&str] = &[
        " local-zone: \"ads.example.\" WORD\n",
        " local-zone: \"x.ads.example.\" WORD\n",
        " local-zone: \"sink.example.\" WORD\n",
        " local-zone: \"corp.example.\" WORD\n",
        " local-zone: \"sink.example.\" redirect\n",
    ];
    const KINDS: &[&str] = &[
        "always_nxdomain",
        "always_nodata",
        "always_refuse",
        "always_transparent",
        "static",
        "refuse",
        "deny",
        "transparent",
        "inform_deny",
    ];
    const DATA: &[&str] = &[
        " local-data: \"ads.example. A WORD\"\n",
        " local-data: \"good.ads.example. 60 A WORD\"\n",
        " local-data: \"sink.example. A WORD\"\n",
        " local-data: \"host.home.example. A WORD\"\n",
    ];
    const ACCESS: &[&str] =
        &[" access-control: 10.1.0.0/16 WORD\n", " access-control: 172.16.0.0/12 WORD\n"];
    const RIGHTS: &[&str] = &["allow", "refuse", "deny", "allow_snoop"];
    const FORWARD: &[&str] =
        &["forward-zone:\n name: \"corp.example\"\n forward-addr: WORD@5399\n"];
    let view = prop::option::of((some(ZONES, KINDS), some(DATA, ADDRESSES), any::<bool>()));
    let parts = (some(ZONES, KINDS), some(DATA, ADDRESSES), some(ACCESS, RIGHTS));
    (parts, view, some(FORWARD, SERVERS))
        .prop_map(|((zones, data, access), view, forward)| {
            let mut text = "server:\n interface: 192.0.2.53\n access-control: 0.0.0.0/0 allow\n".to_owned();
            text += &(access + &zones + &data);
            if let Some((zones, data, is_first)) = view {
                let first = if is_first { "yes" } else { "no" };
                text += &format!(
                    " access-control-view: 10.2.0.0/16 kids\nview:\n name: kids\n view-first: {first}\n{zones}{data}"
                );
            }
            text + "forward-zone:\n name: \".\"\n forward-addr: 127.0.0.1@5399\n" + &forward
        })
        .boxed()
}

const ADDRESSES: &[&str] = &["192.0.2.7", "10.9.9.9"];
const SERVERS: &[&str] = &["127.0.0.2", "127.0.0.3"];

fn dnsdist_files() -> BoxedStrategy<String> {
    const NAMES: &[&str] = &[
        "addAction(\"ads.example.\", WORD)\n",
        "addAction(\"good.ads.example.\", AllowAction())\n",
        "addAction({\"x.ads.example.\", \"sink.example.\"}, WORD)\n",
        "addAction(QNameRule(\"host.home.example.\"), WORD)\n",
        "addAction(makeRule(\"corp.example.\"), PoolAction(\"kids\"))\n",
    ];
    const ACTIONS: &[&str] = &[
        "RCodeAction(DNSRCode.NXDOMAIN)",
        "RCodeAction(DNSRCode.NXDOMAIN)",
        "RCodeAction(DNSRCode.NXDOMAIN)",
        "SpoofAction(\"192.0.2.9\")",
        "AllowAction()",
    ];
    const NETWORKS: &[&str] = &[
        "addAction(\"10.1.0.0/16\", WORD)\n",
        "addAction(makeRule(\"172.16.0.0/12\"), WORD)\n",
        "addAction(\"10.2.0.0/16\", PoolAction(\"kids\"))\n",
        "addAction(AndRule({makeRule(\"10.2.0.0/16\"), QNameRule(\"www.example.\")}), WORD)\n",
    ];
    const ENDS: &[&str] = &["RCodeAction(DNSRCode.REFUSED)", "DropAction()", "AllowAction()"];
    const LISTS: &[&str] = &[
        "setACL({\"0.0.0.0/0\"})\n",
        "setACL({\"10.0.0.0/8\", \"192.0.2.0/24\"})\n",
        "setACL({\"192.0.2.53/32\"})\naddACL(\"10.1.0.0/16\")\n",
    ];
    (one_of(LISTS), some(NETWORKS, ENDS), some(NAMES, ACTIONS))
        .prop_map(|(list, networks, names)| {
            format!(
                "setLocal(\"192.0.2.53:53\")\nsetSecurityPollSuffix(\"\")\n{list}\
                 newServer({{address=\"127.0.0.1:5399\", name=\"a\"}})\n\
                 newServer({{address=\"127.0.0.2:5399\", name=\"k\", pool=\"kids\"}})\n{networks}{names}"
            )
        })
        .boxed()
}

fn named_files() -> BoxedStrategy<String> {
    const VIEW: &[&str] = &[
        " allow-query { WORD; };",
        " allow-recursion { WORD; };",
        " zone \"corp.example\" { type forward; forward only; forwarders { 127.0.0.2 port 5399; }; };",
        " response-policy { zone \"rpz.local\"; }; zone \"rpz.local\" { type master; file \"rpz.db\"; allow-query { none; }; };",
    ];
    const WHO: &[&str] = &[
        "any",
        "10.0.0.0/8; 192.0.2.53",
        "!10.1.0.0/16; any",
        "near",
        "192.0.2.53; 172.16.0.0/12",
    ];
    let views = prop::option::of((some(VIEW, WHO), one_of(WHO)));
    (some(VIEW, WHO), views)
        .prop_map(|(rest, first)| {
            let options = "acl near { 10.2.0.0/16; 192.0.2.53; };\n\
                options { directory \"SCRATCH\"; pid-file none; session-keyfile none; listen-on { 192.0.2.53; }; \
                listen-on-v6 { none; }; allow-query { any; }; allow-recursion { any; }; dnssec-validation no; \
                empty-zones-enable no; forwarders { 127.0.0.1 port 5399; }; forward only; };\n";
            let mut text = options.replace("SCRATCH", crate::harness::FOLDER);
            if let Some((settings, clients)) = first {
                text += &format!("view \"first\" {{ match-clients {{ {clients}; }};{settings} }};\n");
            }
            text + &format!("view \"rest\" {{ match-clients {{ any; }};{rest} }};\n")
        })
        .boxed()
}

#[test]
#[ignore = "needs root and network namespaces: scripts/test.sh runs it"]
fn unbound_files_of_pieces_are_taken_over() {
    isolated("generated_imports::unbound_files_of_pieces_are_taken_over", || {
        compare("unbound", &unbound_files(), import::unbound);
    });
}

#[test]
#[ignore = "needs root and network namespaces: scripts/test.sh runs it"]
fn dnsdist_files_of_pieces_are_taken_over() {
    isolated("generated_imports::dnsdist_files_of_pieces_are_taken_over", || {
        compare("dnsdist", &dnsdist_files(), import::dnsdist);
    });
}

#[test]
#[ignore = "needs root and network namespaces: scripts/test.sh runs it"]
fn named_files_of_pieces_are_taken_over() {
    isolated("generated_imports::named_files_of_pieces_are_taken_over", || {
        // Its zone files come with it.
        import::text_of("n4-rpz-in-view.conf");
        compare("named", &named_files(), import::named);
    });
}
