//! The ratios the project is held to, and the figures they are made of.

use serde_json::{Map, Value, json};

use crate::raw::Results;

/// The groups of the comparison, in the order of the report, with what their rates count.
pub(crate) const GROUPS: [(&str, &str, &str); 11] = [
    ("virtio_user", "Frames over virtio-user, one core", "frames/s"),
    ("veth", "XDP on a veth pair, asked by kxdpgun", "replies/s"),
    ("cached", "Cached answers, one CPU each, asked by dnsperf", "answers/s"),
    ("cached_kxdpgun", "The same servers, asked by kxdpgun", "replies/s"),
    ("cold", "Cold cache: each name once, asked by dnsperf", "answers/s"),
    ("cold_memory", "What the process grew by for each answer learnt", "bytes"),
    ("capsule", "capsule 0.1.5 beside our ports and testpmd, over virtio-user", "frames/s"),
    ("seeds", "The methods of other projects, on this machine", "queries/s"),
    ("seeds_latency", "One query in flight", "ns"),
    ("seeds_upstream", "Fifty clients ask one new name at once", "questions upstream"),
    ("load", "pmdns-load over virtio-user", "right answers/s"),
];

/// A ratio: its path in the JSON, what it compares, and the target if there is one.
pub(crate) struct Ratio {
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    pub(crate) value: Option<f64>,
    pub(crate) target: Option<f64>,
    pub(crate) meaning: String,
}

/// Every ratio; one whose figures were not measured has no value.
pub(crate) fn ratios(results: &Results) -> Vec<Ratio> {
    let mut all = on_one_link(results);
    all.extend(against_peers(results));
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
            target: Some(0.90),
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
        Ratio {
            target: Some(1.2),
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
    let pmdns = |group, program| rate(results, group, program);
    vec![
        Ratio {
            target: Some(25.0),
            ..ratio(
                "cached.virtio_over_best_peer",
                quotient(pmdns("virtio_user", "pmdns-fused"), cached),
                &format!("pmdns over virtio-user against {cached_peer} on kernel sockets"),
            )
        },
        Ratio {
            target: Some(1.5),
            ..ratio(
                "cached.af_xdp_over_best_peer",
                quotient(pmdns("veth", "pmdns"), cached),
                &format!("pmdns on AF_XDP against {cached_peer} on kernel sockets"),
            )
        },
        Ratio {
            target: Some(3.0),
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
        .filter(|(program, _)| !groups.contains(&"cold") || program != RELAY)
        .max_by(|a, b| a.1.median.total_cmp(&b.1.median))
        .map_or_else(
            || ("the best peer".to_owned(), None),
            |(program, sum)| (program, Some(sum.median)),
        )
}

/// The JSON: a table for each group, its ratios first, the figures they are made of beside them.
pub(crate) fn json(results: &Results) -> Value {
    let mut all = Map::new();
    all.insert("run".into(), json!(results.run));
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
}
