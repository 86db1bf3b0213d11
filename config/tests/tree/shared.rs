//! Every bounded thing of the tree, and how clients share it: nothing is first come, first served.
//!
//! A file that makes a bounded table, channel, ring or budget is a row here, and so is each key of the configuration that is a
//! bound, and each table that code bounds by a constant. A row says by which type clients share it, or why no client can harm
//! another by it.

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
const MAKERS: [&str; 15] = [
    "Semaphore::new",
    "bounded",
    "mpsc::channel",
    "broadcast::channel",
    "sync_channel",
    "RingBuffer::new",
    "ArrayQueue::new",
    "ring",
    "Gate::new",
    "ShareTable::new",
    "Shares::new",
    "RingShares::new",
    "Quota::new",
    "FairRate::new",
    "LruCache::new",
];

/// The files that call them.
const FILES: [(&str, Of); 34] = [
    ("config/src/shares/table.rs", Clients("Shares")),
    ("nics/src/heap.rs", Ours("frames of tests, and of streams, where queries have places first")),
    ("nics/src/memory.rs", Ours("a port of tests")),
    ("stages/src/zone_limits.rs", Clients("FairRate")),
    ("stages/src/exceptions/mod.rs", Clients("FairRate")),
    ("pipeline/engine/src/miss_rings.rs", Clients("RingShares")),
    (
        "pipeline/engine/src/ring.rs",
        Ours("the ring itself; misses are shared in miss_rings.rs, others are packets in hand"),
    ),
    (
        "pipeline/engine/src/engine/rings.rs",
        Ours(
            "packets in hand, as in queues of a NIC; misses have shares in miss_rings.rs, exceptions in exceptions/mod.rs",
        ),
    ),
    ("pipeline/engine/src/lending.rs", Ours("the next rules of operators, and the last ones")),
    (
        "pipeline/engine/src/observe/mod.rs",
        Ours("a slot for each observer that operators may have"),
    ),
    ("pipeline/engine/src/probe.rs", Ours("health checks; no client can send to their port")),
    (
        "pipeline/insight/src/records/rings.rs",
        Ours(
            "samples of who asks for what: a flood is what they are to show; what is lost is counted",
        ),
    ),
    ("pipeline/src/admission.rs", Clients("ShareTable")),
    ("pipeline/src/service.rs", Clients("Gate")),
    ("pipeline/changes/src/keeper.rs", Ours("changes of operators")),
    ("pipeline/engine/src/slowpath/channels.rs", Ours("jobs on the cache")),
    ("pipeline/encrypted/src/dot.rs", Ours("queries that have a piece of a quota")),
    ("pipeline/encrypted/src/thread.rs", Ours("queries that have a piece of a quota")),
    (
        "pipeline/engine/src/slowpath/validation/mod.rs",
        Ours("validations that have a place by prefix and zone"),
    ),
    ("pipeline/src/control/metrics/server.rs", Ours("requests of connections that have places")),
    ("pipeline/src/lists/mod.rs", Ours("requests of operators")),
    (
        "pipeline/insight/src/query_log/mod.rs",
        Ours("records of what was answered, which answers nobody; what is lost is counted"),
    ),
    ("pipeline/src/clients/mod.rs", Ours("requests of operators")),
    ("pipeline/src/clients/passing.rs", Ours("what passes in a hand-over")),
    (
        "pipeline/insight/src/capture/recorder.rs",
        Ours("copies for an operator; what is lost is counted"),
    ),
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
    ("pipeline/control/src/sender.rs", Ours("calls of connections that have places")),
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

/// Fields whose length code holds to a constant, by file and constant.
const TABLES: [(&str, &str, Of); 24] = [
    (
        "stages/src/cache/hits.rs",
        "MAX_SAMPLES",
        Ours("samples of hits; with more each stands for more"),
    ),
    ("stages/src/policy/zone/reply.rs", "ENOUGH", Ours("records of the configuration")),
    ("stages/src/cache/image.rs", "MAX_RECORDS", One("of one answer")),
    (
        "stages/src/next_hop/routes.rs",
        "MAX_HOPS",
        Ours("routes of the configuration and of the kernel"),
    ),
    ("pipeline/changes/src/names/table.rs", "MAX_ENTRIES", Ours("entries of operators")),
    ("pipeline/changes/src/names/table.rs", "MAX_RECORDS", Ours("entries of operators")),
    (
        "pipeline/resolver/src/cache_jobs/prefetch.rs",
        "MAX_PLANNED",
        Ours("refreshes of our own; an answer without one expires"),
    ),
    ("pipeline/validator/src/job.rs", "MAX_HELD", One("of one validation")),
    ("pipeline/changes/src/askers.rs", "MAX_WAITING", Ours("requests of operators")),
    (
        "pipeline/insight/src/hitters/floods.rs",
        "MAX_FLOODS",
        Ours("a larger flood displaces the smallest"),
    ),
    ("pipeline/src/keeper/kept.rs", "MAX_NAMES", Ours("processes of the keeper itself")),
    (
        "pipeline/src/zone_limits.rs",
        "MAX_ZONE_LIMITS",
        Ours("floods have a share, in which a larger one displaces"),
    ),
    ("pipeline/cli/src/top/traffic.rs", "KEPT", One("what one screen shows; the oldest goes")),
    ("pipeline/changes/src/reload/mod.rs", "MAX_ASKERS", Ours("requests of operators")),
    (
        "pipeline/insight/src/records/rings.rs",
        "BATCH",
        Ours("records of a batch; others are in the next"),
    ),
    (
        "pipeline/insight/src/query_log/json.rs",
        "CHUNK",
        Ours("bytes of a write; others are in the next"),
    ),
    (
        "pipeline/insight/src/query_log/dnstap/mod.rs",
        "CHUNK",
        Ours("bytes of a write; others are in the next"),
    ),
    ("pipeline/src/health/checks.rs", "MAX_ASKERS", Ours("requests of operators and of the watch")),
    ("pipeline/resolver/src/upstreams/network.rs", "MAX_TCP", Clients("Quota")),
    ("pipeline/resolver/src/upstreams/udp_queries.rs", "MAX_SPARE", Ours("memory to use again")),
    (
        "pipeline/resolver/src/validation/turns.rs",
        "MAX_ASKED",
        Ours("questions of jobs, which have places by prefix and zone"),
    ),
    ("pipeline/resolver/src/questions/pending.rs", "MAX_SPARE", Ours("memory to use again")),
    (
        "pipeline/resolver/src/questions/failures.rs",
        "MAX_FAILURES",
        Ours("the oldest is forgotten, and is asked again"),
    ),
    ("pipeline/resolver/src/cache_jobs/jobs.rs", "MAX_UNDER_WAY", Ours("refreshes of our own")),
];

/// Code without tests and comments.
pub(crate) fn code(text: &str) -> String {
    let program = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    program.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

/// Whether code calls this function, with types or without.
fn calls(code: &str, maker: &str) -> bool {
    code.match_indices(maker).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + maker.len()..]);
        let is_longer =
            before.ends_with(|letter: char| letter.is_alphanumeric() || "_.".contains(letter));
        !is_longer
            && !before.ends_with("fn ")
            && (after.starts_with('(') || after.starts_with("::<"))
    })
}

/// Whether a file is code of the program.
fn is_ours(name: &str) -> bool {
    let roots = ["config/src/", "nics/src/", "nics/counters/src/", "stages/src/", "pipeline/src/"];
    let parts = [
        "resolver",
        "streams",
        "validator",
        "control",
        "engine",
        "encrypted",
        "import",
        "cli",
        "changes",
        "insight",
        "handover",
    ];
    let is_part = |part: &&str| name.starts_with(&format!("pipeline/{part}/src/"));
    let is_test =
        ["/tests", "testing.rs", "stub.rs", "fixture.rs"].iter().any(|part| name.contains(part));
    let is_in = roots.iter().any(|root| name.starts_with(root)) || parts.iter().any(is_part);
    name.ends_with(".rs") && is_in && !is_test
}

#[test]
fn a_maker_is_known_by_its_whole_name() {
    for code in ["= ring(8)", "ring::<Cell>(8)", "|_| ring(8)", "crate::ring::ring(8)"] {
        assert!(calls(code, "ring"), "{code}");
    }
    for code in ["to_string(8)", "bell.ring()", "fn ring(slots: usize)", "ring.push(8)", "&ring"] {
        assert!(!calls(code, "ring"), "{code}");
    }
    assert!(calls("let (a, b) = mpsc::channel::<()>(8)", "mpsc::channel"));
    assert!(calls("crossbeam_channel::bounded(8)", "bounded"));
    assert!(!calls("crossbeam_channel::unbounded()", "bounded"));
}

#[test]
fn every_bounded_thing_is_shared_or_harms_nobody() {
    // Functions of this name check the numbers of a request.
    let others =
        ["control/src/api/explain.rs", "control/src/api/routes.rs", "src/control/process.rs"];
    let known: BTreeSet<&str> = FILES.iter().map(|(name, _)| *name).chain(STREAMS).collect();
    let mut found = BTreeSet::new();
    for file in files().iter().filter(|file| is_ours(&file.name)) {
        let code = code(&file.text);
        let makes = MAKERS.iter().any(|maker| calls(&code, maker));
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
            One(reason) | Ours(reason) => assert!(is_reason(reason), "{key}"),
        }
    }
}

/// The constants that a line compares with lengths of fields.
fn bounds_of(line: &str) -> impl Iterator<Item = &str> {
    line.split("self.").skip(1).filter_map(|field| {
        let calls = [".len() ", "count() "];
        let (field, rest) = calls.iter().find_map(|call| field.split_once(call))?;
        let of_field = |letter: char| letter.is_ascii_alphanumeric() || "_.".contains(letter);
        let (operator, rest) = rest.split_once(' ')?;
        let is_compared = ["<", ">", "<=", ">=", "=="].contains(&operator);
        let end = rest.find(|letter: char| !letter.is_ascii_uppercase() && letter != '_');
        let name = &rest[..end.unwrap_or(rest.len())];
        (field.chars().all(of_field) && is_compared && name.len() > 3).then_some(name)
    })
}

#[test]
fn every_table_with_a_bound_of_its_own_is_shared_or_harms_nobody() {
    let mut found = BTreeSet::new();
    // What the configuration and an import read is one operator's.
    let of_one = ["config/", "pipeline/import/"];
    let is_shared =
        |name: &str| is_ours(name) && !of_one.iter().any(|folder| name.starts_with(folder));
    for file in files().iter().filter(|file| is_shared(&file.name)) {
        let code = code(&file.text);
        for name in code.lines().flat_map(bounds_of) {
            found.insert((file.name.clone(), name.to_owned()));
        }
    }
    let known: BTreeSet<_> =
        TABLES.iter().map(|(file, name, _)| ((*file).to_owned(), (*name).to_owned())).collect();
    assert_eq!(found, known, "who fills it, and whom does that harm? write a row");
    for (file, _, of) in &TABLES {
        match of {
            Clients(by) => {
                assert!(files().iter().any(|one| one.name == *file && code(&one.text).contains(by)))
            }
            One(reason) | Ours(reason) => assert!(is_reason(reason), "{file}"),
        }
    }
}

/// More than a word.
fn is_reason(text: &str) -> bool {
    text.contains(' ')
}
