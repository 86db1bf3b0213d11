//! The rules that no single key can state, checked table by table in the order of the file.

mod answers;
mod anycast;
mod api;
mod dnssec;
mod eal;
mod groups;
mod hitters;
mod listeners;
mod names;
mod ports;
mod query_log;
mod query_sources;
mod resolving;
mod rules;
mod shared;
mod streams;
mod synthesis;
mod taps;
mod transfer;
mod views;

use std::collections::{BTreeSet, HashMap};
use std::os::unix::ffi::OsStrExt as _;

pub(crate) use self::rules::Mistake;
use self::rules::{
    Checked, Mistakes, at_most, broken, cores, in_range, listen, plain_name, power_of_two,
};
use crate::limits::{
    MAX_BATCH, MAX_CACHE, MAX_FRAMES, MAX_HIT_RATE, MAX_NUMA_NODE, MAX_PORT_BITS,
    MAX_PORT_PREFIXES, MAX_PREFETCH_RATE, MAX_RATE_TABLE, MAX_RING, MAX_SNAPSHOT_SECONDS,
    MAX_SOCKET_PATH, MAX_STALE_SECONDS, MAX_TIMEOUT_MS, MAX_TTL, MAX_WORKERS, MIN_CACHE,
    MIN_FRAMES, MIN_RATE_TABLE, MIN_RING, MIN_SNAPSHOT_SECONDS,
};
use crate::placement::check_placements;
use crate::prefix::Prefix;
use crate::problem::BrokenRule;
use crate::settings::{
    AclSettings, CacheSettings, Config, Control, Frames, Placement, Prefetch, RateLimitSettings,
};

/// Notes the rules of some tables that are broken.
type Rules = fn(&Config, &mut Mistakes);

/// The rules, table by table, with the tables they look at.
const RULES: [(&[&str], Rules); 36] = [
    (&["eal"], |config, found| eal::check(&config.eal, found)),
    (&["port"], |config, found| ports::check(&config.ports, found)),
    (&["port"], |config, found| query_sources::check(&config.ports, found)),
    (&["port"], |config, found| taps::check_ports(&config.ports, found)),
    (&["port"], |config, found| shared::check(&config.ports, found)),
    (&["exceptions"], |config, found| taps::check_rates(&config.exceptions, found)),
    (&["placement"], |config, found| placements(&config.placements, found)),
    (&["frames"], |config, found| frames(&config.frames, found)),
    (&["answers"], |config, found| answers::check_answers(&config.answers, found)),
    (&["cookies"], |config, found| answers::check_cookies(&config.cookies, found)),
    (&["client_subnet", "upstream", "prefetch"], answers::check_client_subnet),
    (&["cache"], |config, found| cache(&config.cache, found)),
    (&["prefetch"], |config, found| prefetch(&config.prefetch, found)),
    (&["slowpath", "upstream"], resolving::check),
    (&["slowpath", "placement"], resolving::check_cores_that_resolve),
    (&["port", "upstream"], query_sources::check_upstreams),
    (
        &[
            "view",
            "clients",
            "upstream",
            "forward",
            "local",
            "zone",
            "blocklist",
            "rpz",
            "dns64",
            "redirect",
            "rebinding",
            "policy",
        ],
        views::check,
    ),
    (&["clients", "control"], views::check_table),
    (&["upstream", "group", "forward", "view", "health"], groups::check),
    (&["dnssec"], |config, found| dnssec::check(&config.dnssec, found)),
    (&["acl"], |config, found| acl(&config.acl, found)),
    (&["ratelimit"], |config, found| ratelimit(&config.ratelimit, found)),
    (&["local", "view"], names::check_local),
    (&["block"], |config, found| names::check_block(&config.block, found)),
    (&["zone", "blocklist", "rpz"], names::check_files),
    (&["tsig", "transfer", "rpz"], transfer::check),
    (&["dns64"], |config, found| synthesis::check_dns64(&config.dns64, found)),
    (&["redirect"], |config, found| synthesis::check_redirects(&config.redirects, found)),
    (&["rebinding"], |config, found| synthesis::check_rebindings(&config.rebindings, found)),
    (&["streams"], streams::check),
    (&["streams", "metrics", "api", "transfer"], listeners::check),
    (&["api", "token", "control"], api::check),
    (&["query_log"], |config, found| query_log::check(&config.query_log, found)),
    (&["hitters"], |config, found| hitters::check(&config.hitters, found)),
    (&["control", "metrics"], service),
    (&["anycast", "port"], anycast::check),
];

/// Checks every rule, except those of `damaged` tables, and returns the broken ones.
pub(crate) fn check(config: &Config, damaged: &BTreeSet<String>) -> Vec<Mistake> {
    let mut found = Mistakes::default();
    for (tables, rules) in RULES {
        if !tables.iter().any(|table| damaged.contains(*table)) {
            rules(config, &mut found);
        }
    }
    found.0
}

fn placements(placements: &[Placement], found: &mut Mistakes) {
    if let Err((index, error)) = check_placements(placements) {
        found.note(broken(format!("placement[{index}].{}", error.key()), error.into()));
    }
    for (index, placement) in placements.iter().enumerate() {
        cores(&format!("placement[{index}].cores"), &placement.cores, found);
    }
    let count = placements.iter().map(|placement| placement.cores.len()).sum();
    found.note(at_most("placement", "cores in all placements", count, MAX_WORKERS));
}

fn frames(frames: &Frames, found: &mut Mistakes) {
    found.note(in_range("frames.batch", frames.batch, 1, MAX_BATCH));
    if frames.count != 0 {
        let max = MAX_FRAMES;
        if !(MIN_FRAMES..=max).contains(&frames.count) {
            let (value, min) = (frames.count.to_string(), format!("0 (computed) or {MIN_FRAMES}"));
            let problem = BrokenRule::OutOfRange { value, min, max: max.to_string() };
            found.note(broken("frames.count", problem));
        }
    }
    found.note(power_of_two("frames.ring", frames.ring, MIN_RING, MAX_RING));
}

fn cache(cache: &CacheSettings, found: &mut Mistakes) {
    found.note(in_range("cache.size", cache.size, MIN_CACHE, MAX_CACHE));
    if let Some(node) = cache.numa_node {
        found.note(in_range("cache.numa_node", node, 0, MAX_NUMA_NODE));
    }
    found.note(in_range("cache.max_ttl", cache.max_ttl, 0, MAX_TTL));
    found.note(in_range("cache.max_negative_ttl", cache.max_negative_ttl, 0, MAX_TTL));
    found.note(in_range("cache.max_long_share", cache.max_long_share, 0.0, 1.0));
    found.note(in_range("cache.max_negative_share", cache.max_negative_share, 0.0, 1.0));
    found.note(in_range("cache.stale_window_seconds", cache.stale_window_seconds, 1, MAX_TTL));
    found.note(in_range("cache.stale_ttl", cache.stale_ttl, 1, MAX_STALE_SECONDS));
    found.note(in_range(
        "cache.stale_client_timeout_ms",
        cache.stale_client_timeout_ms,
        0,
        MAX_TIMEOUT_MS,
    ));
    found.note(in_range(
        "cache.stale_backoff_seconds",
        cache.stale_backoff_seconds,
        1,
        MAX_STALE_SECONDS,
    ));
    if cache.snapshot.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
        found.note(broken(
            "cache.snapshot",
            BrokenRule::Empty("the path of a file, or leave it out"),
        ));
    }
    let (key, interval) = ("cache.snapshot_interval_seconds", cache.snapshot_interval_seconds);
    found.note(in_range(key, interval, MIN_SNAPSHOT_SECONDS, MAX_SNAPSHOT_SECONDS));
    let (min, max) = (cache.min_ttl, cache.max_ttl);
    if min > max {
        found.note(broken("cache.min_ttl", BrokenRule::TtlsCrossed { min, max }));
    }
}

fn prefetch(prefetch: &Prefetch, found: &mut Mistakes) {
    found.note(in_range(
        "prefetch.cache_min_hits_per_minute",
        prefetch.cache_min_hits_per_minute,
        0.0,
        MAX_HIT_RATE,
    ));
    let (key, window) =
        ("prefetch.cache_access_window_seconds", prefetch.cache_access_window_seconds);
    found.note(in_range(key, window, 1, MAX_TTL));
    let key = "prefetch.cache_refresh_threshold";
    found.note(in_range(key, prefetch.cache_refresh_threshold, 0.0, 1.0));
    let (key, budget) = ("prefetch.queries_per_second", prefetch.queries_per_second);
    found.note(in_range(key, budget, 1, MAX_PREFETCH_RATE));
    found.note(in_range("prefetch.pace_ms", prefetch.pace_ms, 1, MAX_TIMEOUT_MS));
}

fn acl(acl: &AclSettings, found: &mut Mistakes) {
    let mut listed: HashMap<Prefix, (&str, usize)> = HashMap::new();
    for (list, prefixes) in [("allow", &acl.allow), ("refuse", &acl.refuse), ("drop", &acl.drop)] {
        for (index, prefix) in prefixes.iter().enumerate() {
            let (first, place) = *listed.entry(*prefix).or_insert((list, index));
            if first != list {
                let (prefix, other) = (prefix.to_string(), format!("acl.{first}[{place}]"));
                let problem = BrokenRule::TwoVerdicts { prefix, other };
                found.note(broken(format!("acl.{list}[{index}]"), problem));
            }
        }
    }
}

fn ratelimit(limit: &RateLimitSettings, found: &mut Mistakes) {
    if limit.queries_per_second > 0 && limit.burst == 0 {
        found.note(broken("ratelimit.burst", BrokenRule::NoBurst("queries_per_second")));
    }
    if limit.miss_queries_per_second > 0 && limit.miss_burst == 0 {
        found.note(broken("ratelimit.miss_burst", BrokenRule::NoBurst("miss_queries_per_second")));
    }
    found.note(in_range("ratelimit.ipv4_prefix", limit.ipv4_prefix, 0, 32));
    found.note(in_range("ratelimit.ipv6_prefix", limit.ipv6_prefix, 0, 128));
    found.note(in_range("ratelimit.ipv4_port_bits", limit.ipv4_port_bits, 0, MAX_PORT_BITS));
    let prefixes = &limit.ipv4_port_prefixes;
    if limit.ipv4_port_bits > 0 && (limit.ipv4_prefix != 32 || prefixes.is_empty()) {
        found.note(broken("ratelimit.ipv4_port_bits", BrokenRule::PortsOfNetworks));
    }
    let key = "ratelimit.ipv4_port_prefixes";
    found.note(at_most(key, "prefixes", prefixes.len(), MAX_PORT_PREFIXES));
    for (index, prefix) in prefixes.iter().enumerate().filter(|(_, it)| it.network.is_ipv6()) {
        found.note(broken(
            format!("{key}[{index}]"),
            BrokenRule::PrefixFamily { prefix: *prefix, family: "IPv4" },
        ));
    }
    found.note(power_of_two("ratelimit.table", limit.table, MIN_RATE_TABLE, MAX_RATE_TABLE));
}

fn service(config: &Config, found: &mut Mistakes) {
    found.note(control_socket(&config.control));
    if let Some(group) = &config.control.group {
        found.note(plain_name("control.group", group));
    }
    let (entries, crashes) = (&config.control.entries, &config.control.crashes);
    for (key, path) in [("control.entries", entries), ("control.crashes", crashes)] {
        if path.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            let fix = "the path of a file, or leave it out";
            found.note(broken(key, BrokenRule::Empty(fix)));
        }
    }
    found.note(names::check_run_time(config));
    let fix = "a port other than 0, as in \"127.0.0.1:9153\"";
    found.note(listen("metrics.listen", config.metrics.listen, fix));
}

fn control_socket(control: &Control) -> Checked {
    let length = control.socket.as_os_str().as_bytes().len();
    if length == 0 {
        return broken("control.socket", BrokenRule::Empty("the path of a unix socket"));
    }
    at_most("control.socket", "bytes", length, MAX_SOCKET_PATH)
}
