//! Every bounded thing of the tree, and how clients share it: nothing is first come, first served.
//!
//! A file that makes a bounded table, channel, ring or budget is a row here, and so is each key of the configuration that is a
//! bound. A row says by which type clients share it, or why no client can harm another by it.

use std::collections::BTreeSet;

use crate::files::files;

/// Who shares a bounded thing.
enum Of {
    /// Clients, by this type of docs/adr/0068-one-type-for-shares.md, which the file names.
    Clients(&'static str),
    /// One client, connection or entry: what it uses up is its own. The reason says why.
    One(&'static str),
    /// Operators, and our own threads. The reason says why no client fills it.
    Ours(&'static str),
}

use Of::{Clients, One, Ours};

/// Calls that make something bounded.
const MAKERS: [&str; 11] = [
    "Semaphore::new(",
    "bounded(",
    "mpsc::channel(",
    "sync_channel(",
    "RingBuffer::new(",
    "Gate::new(",
    "ShareTable::new(",
    "Shares::new(",
    "Quota::new(",
    "FairRate::new(",
    "LruCache::new(",
];

/// The files that call them.
const FILES: [(&str, Of); 29] = [
    ("config/src/shares/table.rs", Clients("Shares")),
    ("nics/src/heap.rs", Ours("frames of tests, and of streams, where queries have places first")),
    ("nics/src/memory.rs", Ours("a port of tests")),
    ("stages/src/zone_limits.rs", Clients("FairRate")),
    ("stages/src/exceptions/mod.rs", Clients("FairRate")),
    ("pipeline/src/miss_rings.rs", Clients("RingShares")),
    (
        "pipeline/src/ring.rs",
        Ours("the ring itself; misses are shared in miss_rings.rs, others are packets in hand"),
    ),
    ("pipeline/src/admission.rs", Clients("ShareTable")),
    ("pipeline/src/service.rs", Clients("Gate")),
    ("pipeline/src/runtime/journal.rs", Ours("changes of operators")),
    ("pipeline/src/slowpath/channels.rs", Ours("jobs on the cache")),
    ("pipeline/src/slowpath/encrypted/dot.rs", Ours("queries that have a piece of a quota")),
    ("pipeline/src/slowpath/encrypted/mod.rs", Ours("queries that have a piece of a quota")),
    (
        "pipeline/src/slowpath/validation/mod.rs",
        Ours("validations that have a place by prefix and zone"),
    ),
    ("pipeline/src/control/metrics/server.rs", Ours("requests of connections that have places")),
    ("pipeline/src/control/socket/server.rs", Ours("requests of connections that have places")),
    ("pipeline/src/lists/mod.rs", Ours("requests of operators")),
    ("pipeline/src/query_log/mod.rs", Ours("batches of records; what is lost is counted")),
    ("pipeline/src/clients/mod.rs", Ours("requests of operators")),
    ("pipeline/src/capture/recorder.rs", Ours("copies for an operator; what is lost is counted")),
    ("pipeline/src/transfer/mod.rs", Clients("Gate")),
    ("pipeline/src/transfer/share.rs", Ours("primaries of the configuration")),
    ("pipeline/resolver/src/upstreams/network.rs", Clients("Quota")),
    ("pipeline/resolver/src/upstreams/medium.rs", Clients("Quota")),
    ("pipeline/resolver/src/upstreams/encrypted.rs", Clients("Quota")),
    ("pipeline/resolver/src/questions/pending.rs", Clients("Shares")),
    (
        "pipeline/streams/src/driver.rs",
        Ours("rings with a slot for every frame; queries have places in table.rs"),
    ),
    ("pipeline/control/src/door.rs", Ours("calls of connections that have places")),
    (
        "pipeline/control/src/api/limit.rs",
        One("each address or token has a rate; the idlest is forgotten"),
    ),
];

/// The files of streams, each of which has a table.
const STREAMS: [&str; 3] = [
    "pipeline/streams/src/places.rs",
    "pipeline/streams/src/budget.rs",
    "pipeline/streams/src/table.rs",
];

/// Keys that are bounds, by table.
const KEYS: [(&str, Of); 26] = [
    ("answers.max_udp_size", One("of one answer")),
    ("answers.max_answers", One("of one answer")),
    ("api.requests_per_second", One("of each token")),
    ("cache.max_ttl", One("of one entry")),
    ("cache.max_negative_ttl", One("of one entry")),
    ("cache.max_negative_share", Ours("the cache evicts by use, whoever asked")),
    ("cache.max_long_share", Ours("the cache evicts by use, whoever asked")),
    ("cache.queries_per_second", Ours("refreshes of our own")),
    ("policy.queries_per_second", One("of each prefix")),
    ("policy.max_entries", Ours("entries of operators")),
    ("policy.miss_queries_per_second", One("of each prefix")),
    ("policy.error_replies_per_second", One("of each prefix")),
    ("ports.link_per_second", Clients("stages/src/exceptions/mod.rs")),
    ("ports.control_per_second", Clients("stages/src/exceptions/mod.rs")),
    ("ports.streams_per_second", Clients("stages/src/exceptions/mod.rs")),
    ("ports.rest_per_second", Clients("stages/src/exceptions/mod.rs")),
    ("resolving.max_pending", Clients("pipeline/resolver/src/questions/pending.rs")),
    ("resolving.max_waiting", Clients("pipeline/resolver/src/questions/pending.rs")),
    ("resolving.max_waiting_per_client", One("of each client")),
    ("streams.max_connections", Clients("pipeline/streams/src/places.rs")),
    ("streams.max_connections_per_prefix", One("of each prefix")),
    ("streams.max_queries", Clients("pipeline/streams/src/table.rs")),
    ("streams.max_queries_in_flight", One("of each connection")),
    ("streams.max_queries_per_connection", One("of each connection")),
    ("streams.max_buffered_bytes", One("of each connection")),
    ("streams.max_buffered_bytes_in_all", Clients("pipeline/streams/src/budget.rs")),
];

/// Code without tests and comments.
fn code(text: &str) -> String {
    let program = text.split("#[cfg(test)]").next().unwrap_or_default();
    let is_code =
        |line: &&str| !line.trim_start().starts_with("//") && !line.contains("fn bounded(");
    program.lines().filter(is_code).collect::<Vec<_>>().join("\n").replace("unbounded(", "")
}

#[test]
fn every_bounded_thing_is_shared_or_harms_nobody() {
    let is_ours = |name: &str| {
        let roots = ["config/src/", "nics/src/", "stages/src/", "pipeline/src/"];
        let parts = ["resolver", "streams", "validator", "control"];
        let is_part = |part: &&str| name.starts_with(&format!("pipeline/{part}/src/"));
        let is_test = ["/tests", "testing.rs", "stub.rs"].iter().any(|part| name.contains(part));
        let is_in = roots.iter().any(|root| name.starts_with(root)) || parts.iter().any(is_part);
        name.ends_with(".rs") && is_in && !is_test
    };
    // Functions of this name check the numbers of a request.
    let others =
        ["control/src/api/explain.rs", "control/src/api/routes.rs", "src/control/process.rs"];
    let known: BTreeSet<&str> = FILES.iter().map(|(name, _)| *name).chain(STREAMS).collect();
    let mut found = BTreeSet::new();
    for file in files().iter().filter(|file| is_ours(&file.name)) {
        let code = code(&file.text);
        let makes = MAKERS.iter().any(|maker| code.contains(maker));
        if makes && !others.iter().any(|other| file.name.ends_with(other)) {
            let why = "is it shared by client prefix? write a row";
            assert!(known.contains(&*file.name), "{}: {why}", file.name);
            found.insert(file.name.clone());
            if let Some((_, Clients(by))) = FILES.iter().find(|(name, _)| *name == file.name) {
                assert!(code.contains(by), "{}: clients share it by {by}", file.name);
            }
            assert!(
                !STREAMS.contains(&&*file.name) || code.contains("ShareTable"),
                "{}",
                file.name
            );
        }
    }
    assert_eq!(found.len(), known.len(), "rows of files that make nothing: {found:?}");
}

#[test]
fn every_bound_of_the_configuration_is_shared_or_harms_nobody() {
    let is_bound = |key: &str| {
        key.starts_with("max_") || key.ends_with("_in_all") || key.ends_with("_per_second")
    };
    let mut found = BTreeSet::new();
    for file in files() {
        let Some(table) = file.name.strip_prefix("config/src/settings/") else { continue };
        for line in code(&file.text).lines() {
            let field =
                line.trim_start().strip_prefix("pub ").and_then(|rest| rest.split_once(':'));
            if let Some((key, _)) = field.filter(|(key, _)| is_bound(key)) {
                found.insert(format!("{}.{key}", table.trim_end_matches(".rs")));
            }
        }
    }
    let known: BTreeSet<String> = KEYS.iter().map(|(key, _)| (*key).to_owned()).collect();
    assert_eq!(found, known, "is it shared by client prefix? write a row");
    let shared =
        |file: &str| FILES.iter().any(|(name, of)| *name == file && matches!(of, Clients(_)));
    for (key, of) in &KEYS {
        match of {
            Clients(file) => assert!(shared(file) || STREAMS.contains(file), "{key}: {file}"),
            One(reason) | Ours(reason) => assert!(reason.len() > 5, "{key}"),
        }
    }
}
