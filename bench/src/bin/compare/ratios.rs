//! The ratios the project is held to, and the figures they are made of.

use serde_json::{Map, Value, json};

use crate::load::STORM_BESIDE;
use crate::raw::{Results, Summary};

/// The groups of the comparison, in the order of the report, with what their rates count.
pub(crate) const GROUPS: [(&str, &str, &str); 33] = [
    (
        "quiet",
        "testpmd macswap over virtio-user, before all other groups and after them",
        "frames/s",
    ),
    ("virtio_user", "Frames over virtio-user, one core", "frames/s"),
    ("virtio_user_mixed", "The same, and clients send mixed queries", "frames/s"),
    ("veth", "XDP on a veth pair, asked by kxdpgun", "replies/s"),
    ("cached", "Cached answers, one CPU each, asked by dnsperf", "answers/s"),
    ("cached_kxdpgun", "The same servers, asked by kxdpgun", "replies/s"),
    ("cached_mixed", "The same servers, and clients send mixed questions, by dnsperf", "answers/s"),
    ("cold", "Cold cache: each name once, asked by dnsperf", "answers/s"),
    ("cold_memory", "What the process grew by for each answer learnt", "bytes"),
    ("miss", "New names, all of the server on one CPU, asked by dnsperf", "answers/s"),
    ("miss_kxdpgun", "The same, asked by kxdpgun", "answers/s"),
    ("miss_limit", "What client and upstream do without a server between them", "answers/s"),
    ("mixed", "One new name beside nine cached ones, asked by dnsperf", "answers/s"),
    ("mixed_kxdpgun", "The same mix, asked by kxdpgun", "answers/s"),
    ("mixed_limit", "What client and upstream do with the mix", "answers/s"),
    ("streams_tcp", "Over TCP, reused connections, all of the server on one CPU", "answers/s"),
    ("streams_tcp_fresh", "Over TCP, a connection for each query", "answers/s"),
    ("streams_tls", "Over TLS, reused connections", "answers/s"),
    ("streams_tls_fresh", "Over TLS, a connection for each query", "answers/s"),
    ("streams_https", "Over HTTPS, reused connections, asked by h2load", "answers/s"),
    ("streams_https_fresh", "Over HTTPS, a connection for each query", "answers/s"),
    (
        "streams_memory",
        "What the process grew by for each idle connection over TCP (Unbound takes its places at start)",
        "bytes",
    ),
    ("streams_memory_tls", "The same over TLS", "bytes"),
    ("streams_open", "Idle connections that were still open at the end", "connections"),
    ("streams_held", "UDP queries beside connections that are held", "answers/s"),
    ("capsule", "capsule 0.1.5 beside our ports and testpmd, over virtio-user", "frames/s"),
    ("log", "With a query log: none, each sink, a sample of 1 in 1,000", "replies/s"),
    ("seeds", "The methods of other projects, on this machine", "queries/s"),
    ("seeds_latency", "One query in flight", "ns"),
    ("seeds_upstream", "Fifty clients ask one new name at once", "questions upstream"),
    ("load", "pmdns-load over virtio-user", "right answers/s"),
    ("storm", "Misses and hits over virtio-user, all of pmdns on one CPU", "right answers/s"),
    ("load_forward", "The same rates, answered by our plain loop", "answers/s"),
];

/// A ratio: its path in the JSON, what it compares, and the target if there is one.
pub(crate) struct Ratio {
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    pub(crate) value: Option<f64>,
    pub(crate) target: Option<Target>,
    pub(crate) meaning: String,
}

/// What a ratio should be.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

/// Every ratio; one whose figures were not measured has no value.
pub(crate) fn ratios(results: &Results) -> Vec<Ratio> {
    let mut all = on_one_link(results);
    all.extend(against_peers(results));
    all.extend(of_misses(results));
    all.extend(of_streams(results));
    all.push(of_latency(results));
    all.push(of_storm(results));
    all
}

/// Ratios between programs of one group.
fn on_one_link(results: &Results) -> Vec<Ratio> {
    let over = |group, above: &str, below: &str| {
        quotient(rate(results, group, above), rate(results, group, below))
    };
    let swap = "frames forwarded, a loop over our ports against capsule";
    let parse = "the same with the headers parsed";
    vec![
        Ratio {
            target: Some(Target::AtLeast(0.65)),
            ..ratio(
                "virtio_user.fused_over_macswap",
                over("virtio_user", "pmdns-fused", "macswap"),
                "pmdns on one core, all hits, against testpmd macswap",
            )
        },
        ratio(
            "virtio_user.fused_over_5tswap",
            over("virtio_user", "pmdns-fused", "5tswap"),
            "against testpmd 5tswap",
        ),
        ratio(
            "virtio_user_mixed.fused_over_macswap",
            over("virtio_user_mixed", "pmdns-fused", "macswap"),
            "the same for mixed queries",
        ),
        Ratio {
            target: Some(Target::AtLeast(1.2)),
            ..ratio(
                "veth.pmdns_over_knot_xdp",
                over("veth", "pmdns", "knot-xdp"),
                "pmdns on AF_XDP against Knot DNS in XDP mode",
            )
        },
        ratio("capsule.nics_over_capsule_swap", over("capsule", "nics-swap", "capsule-swap"), swap),
        ratio(
            "capsule.nics_over_capsule_parse",
            over("capsule", "nics-parse", "capsule-parse"),
            parse,
        ),
    ]
}

/// Ratios to the best of the other servers.
fn against_peers(results: &Results) -> Vec<Ratio> {
    let (cached_peer, cached) = best_peer(results, &["cached", "cached_kxdpgun"]);
    let (cold_peer, cold) = best_peer(results, &["cold"]);
    // Peers of another run met another machine, or another hour.
    let pmdns = |group, program| {
        let peers = if group == "cold" { "cold" } else { "cached" };
        let is_beside = results.run_of(group) == results.run_of(peers);
        rate(results, group, program).filter(|_| is_beside)
    };
    vec![
        Ratio {
            target: Some(Target::AtLeast(25.0)),
            ..ratio(
                "cached.virtio_over_best_peer",
                quotient(pmdns("virtio_user", "pmdns-fused"), cached),
                &format!("pmdns over virtio-user against {cached_peer} on kernel sockets"),
            )
        },
        Ratio {
            target: Some(Target::AtLeast(1.5)),
            ..ratio(
                "cached.af_xdp_over_best_peer",
                quotient(pmdns("veth", "pmdns"), cached),
                &format!("pmdns on AF_XDP against {cached_peer} on kernel sockets"),
            )
        },
        Ratio {
            target: Some(Target::AtLeast(3.0)),
            ..ratio(
                "cold.over_best_peer",
                quotient(pmdns("cold", "pmdns"), cold),
                &format!("pmdns, slow path on the client's CPU, against {cold_peer}"),
            )
        },
        ratio(
            "cold.one_cpu_over_best_peer",
            quotient(pmdns("cold", "pmdns-one-cpu"), cold),
            &format!("pmdns, all of it on the server's CPU, against {cold_peer}"),
        ),
        ratio(
            "cold.over_dnsdist",
            quotient(pmdns("cold", "pmdns"), pmdns("cold", RELAY)),
            "against dnsdist, which passes queries on and verifies no replies as a resolver must",
        ),
    ]
}

/// Ratios of new names, pmdns by port: each program with the client that it did better with.
fn of_misses(results: &Results) -> Vec<Ratio> {
    let (miss, mixed) = (["miss", "miss_kxdpgun"], ["mixed", "mixed_kxdpgun"]);
    let over = |groups: &[&str], other: Option<f64>| {
        quotient(better(results, groups, "pmdns-by-port"), other)
    };
    let over_program = |groups: &[&str], program| over(groups, better(results, groups, program));
    let (miss_peer, miss_best) = best_peer(results, &miss);
    let (mixed_peer, mixed_best) = best_peer(results, &mixed);
    vec![
        Ratio {
            target: Some(Target::AtLeast(3.0)),
            ..ratio(
                "miss.port_over_best_peer",
                over(&miss, miss_best),
                &format!("new names, pmdns by port against {miss_peer}, each on one CPU"),
            )
        },
        Ratio {
            target: Some(Target::AtLeast(2.0)),
            ..ratio(
                "miss.port_over_sockets",
                over_program(&miss, "pmdns-by-sockets"),
                "the same against pmdns by sockets of the kernel",
            )
        },
        ratio("miss.port_over_dnsdist", over_program(&miss, RELAY), "the same against dnsdist"),
        Ratio {
            target: Some(Target::AtLeast(10.0)),
            ..ratio(
                "mixed.port_over_best_peer",
                over(&mixed, mixed_best),
                &format!("nine cached names and a new one, against {mixed_peer}"),
            )
        },
        ratio("mixed.port_over_dnsdist", over_program(&mixed, RELAY), "the same against dnsdist"),
    ]
}

/// Ratios of clients over streams: each rate against that of both peers, and the UDP queries lost beside held connections.
fn of_streams(results: &Results) -> Vec<Ratio> {
    const RATES: [(&str, [&str; 2], &str); 6] = [
        (
            "streams_tcp",
            ["streams_tcp.over_dnsdist", "streams_tcp.over_unbound"],
            "over TCP, reused connections",
        ),
        (
            "streams_tcp_fresh",
            ["streams_tcp_fresh.over_dnsdist", "streams_tcp_fresh.over_unbound"],
            "over TCP, fresh connections",
        ),
        (
            "streams_tls",
            ["streams_tls.over_dnsdist", "streams_tls.over_unbound"],
            "over TLS, reused connections",
        ),
        (
            "streams_tls_fresh",
            ["streams_tls_fresh.over_dnsdist", "streams_tls_fresh.over_unbound"],
            "over TLS, fresh connections",
        ),
        (
            "streams_https",
            ["streams_https.over_dnsdist", "streams_https.over_unbound"],
            "over HTTPS, reused connections",
        ),
        (
            "streams_https_fresh",
            ["streams_https_fresh.over_dnsdist", "streams_https_fresh.over_unbound"],
            "over HTTPS, fresh connections",
        ),
    ];
    let mut all = Vec::new();
    for (group, paths, how) in RATES {
        for (path, peer) in paths.into_iter().zip(["dnsdist", "unbound"]) {
            let value = quotient(rate(results, group, "pmdns"), rate(results, group, peer));
            all.push(ratio(path, value, &format!("cached answers {how}, against {peer}")));
        }
    }
    let lost = |line: Summary| line.figures.get("client_drops").copied();
    all.push(Ratio {
        target: Some(Target::AtMost(0.0)),
        ..ratio(
            "streams_held.udp_lost",
            results.sum("streams_held", "pmdns").and_then(lost),
            "UDP queries lost beside connections that are held",
        )
    });
    all
}

/// The slowest answer in a hundred, at a load that pmdns bears. What the machine itself does is in both figures.
fn of_latency(results: &Results) -> Ratio {
    let p99 = |group| results.sum(group, "80 % of the ceiling")?.figures.get("p99_us").copied();
    Ratio {
        target: Some(Target::AtMost(3.0)),
        ..ratio(
            "load.p99_over_forward",
            quotient(p99("load"), p99("load_forward")),
            "p99 at 80 % of the ceiling, pmdns against our plain loop at the same rate",
        )
    }
}

/// How many hits are lost beside twice as many misses as can be resolved.
fn of_storm(results: &Results) -> Ratio {
    let lost = |line: Summary| line.figures.get("lost_share").copied();
    Ratio {
        target: Some(Target::AtMost(0.05)),
        ..ratio(
            "storm.hits_lost",
            results.sum("storm", STORM_BESIDE).and_then(lost),
            "the share of hits lost beside a storm of misses, all of pmdns on one CPU",
        )
    }
}

/// A program's rate with the client that it did better with.
fn better(results: &Results, groups: &[&str], program: &str) -> Option<f64> {
    groups.iter().filter_map(|group| rate(results, group, program)).max_by(f64::total_cmp)
}

/// A ratio without a target; `path` is its place in the JSON: group and name.
fn ratio(path: &'static str, value: Option<f64>, meaning: &str) -> Ratio {
    let (group, name) = path.split_once('.').expect("the paths above have a dot");
    Ratio { group, name, value, target: None, meaning: meaning.to_owned() }
}

fn rate(results: &Results, group: &str, program: &str) -> Option<f64> {
    Some(results.sum(group, program)?.median)
}

fn quotient(above: Option<f64>, below: Option<f64>) -> Option<f64> {
    Some(above? / below.filter(|below| *below > 0.0)?)
}

/// What forwards packets rather than asks questions of its own: a peer for cached answers only.
const RELAY: &str = "dnsdist";

/// The fastest server that is not ours, over all these groups: each peer with the client that suits it.
fn best_peer(results: &Results, groups: &[&str]) -> (String, Option<f64>) {
    groups
        .iter()
        .flat_map(|group| results.summaries(group))
        .filter(|(program, _)| !program.starts_with("pmdns"))
        .filter(|(program, _)| groups.contains(&"cached") || program != RELAY)
        .max_by(|a, b| a.1.median.total_cmp(&b.1.median))
        .map_or_else(
            || ("the best peer".to_owned(), None),
            |(program, sum)| (program, Some(sum.median)),
        )
}

/// The JSON: a table for each group, its ratios first, the figures they are made of beside them.
pub(crate) fn json(results: &Results) -> Value {
    let mut all = Map::new();
    all.insert("run".into(), json!(results.runs.first()));
    for ratio in ratios(results) {
        table(&mut all, ratio.group).insert(ratio.name.into(), json!(ratio.value));
    }
    for (group, _, unit) in GROUPS {
        let programs: Map<String, Value> = results
            .summaries(group)
            .into_iter()
            .map(|(program, sum)| (program, json!(sum)))
            .collect();
        if !programs.is_empty() {
            let table = table(&mut all, group);
            table.insert("unit".into(), json!(unit));
            table.insert("programs".into(), Value::Object(programs));
        }
    }
    Value::Object(all)
}

/// The table of a group, made if it is not there.
fn table<'m>(all: &'m mut Map<String, Value>, group: &str) -> &'m mut Map<String, Value> {
    let table = all.entry(group).or_insert_with(|| json!({}));
    table.as_object_mut().expect("only tables are put under the names of groups")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(lines: &[(&str, &str, f64)]) -> Results {
        let text: Vec<String> = lines
            .iter()
            .map(|(group, program, rate)| {
                json!({"group": group, "program": program, "rate": rate}).to_string()
            })
            .collect();
        Results::parse(&text.join("\n")).unwrap()
    }

    #[test]
    fn ratios_stand_beside_their_figures() {
        let json = json(&results(&[
            ("virtio_user", "macswap", 8.0),
            ("virtio_user", "pmdns-fused", 6.0),
            ("cached", "unbound", 2.0),
            ("cached", "pmdns", 9.0),
            ("cached_kxdpgun", "unbound", 3.0),
        ]));
        assert_eq!(json.pointer("/virtio_user/fused_over_macswap"), Some(&json!(0.75)));
        assert_eq!(json.pointer("/virtio_user/programs/macswap/median"), Some(&json!(8.0)));
        // A peer counts with its better client; pmdns is no peer of itself.
        assert_eq!(json.pointer("/cached/virtio_over_best_peer"), Some(&json!(2.0)));
        assert_eq!(json.pointer("/cold/over_best_peer"), Some(&Value::Null));
    }

    #[test]
    fn misses_are_compared_with_who_verifies_replies() {
        let json = json(&results(&[
            ("miss", "pmdns-by-port", 8.0),
            ("miss_kxdpgun", "pmdns-by-port", 6.0),
            ("miss", "pmdns-by-sockets", 2.0),
            ("miss", "unbound", 1.0),
            ("miss_kxdpgun", "bind", 2.0),
            ("miss", "dnsdist", 16.0),
            ("miss_limit", "dnsperf at NSD", 32.0),
        ]));
        assert_eq!(json.pointer("/miss/port_over_best_peer"), Some(&json!(4.0)));
        assert_eq!(json.pointer("/miss/port_over_sockets"), Some(&json!(4.0)));
        assert_eq!(json.pointer("/miss/port_over_dnsdist"), Some(&json!(0.5)));
        assert_eq!(json.pointer("/miss_limit/programs/dnsperf at NSD/median"), Some(&json!(32.0)));
    }
}
