//! Metrics for monitoring: the report over HTTP, as OpenMetrics text or in the older Prometheus text format.
//!
//! [`families`] defines the exported metrics and their names. [`encode`](mod@encode) and [`plain`] write them as text,
//! and [`server`] serves the text from a thread of its own. docs/counters.md lists every name; a test compares.

pub mod encode;
pub mod families;
pub mod family;
pub mod plain;
pub mod server;
mod traffic;

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::encode::encode;
    use super::families::families;
    use super::family::{Family, MetricKind};
    use crate::admission::ConnectionSnapshot;
    use crate::clients::ClientSnapshot;
    use crate::lists::ListSnapshot;
    use crate::sinks::SinkSnapshot;
    use crate::transfer::ZoneSnapshot;
    use pmdns_control::report::{Named, Report};
    use pmdns_control::testing as fixture;
    use pmdns_counters::{Counted, by_name};
    use pmdns_engine::counters::Tally;
    use pmdns_engine::exceptions::TapSnapshot;
    use pmdns_engine::slowpath::{CacheSnapshot, CountersSnapshot, UpstreamSnapshot};
    use pmdns_insight::hitters::HitterSnapshot;
    use pmdns_insight::query_log::LogSnapshot;
    use pmdns_nics::PortStats;
    use pmdns_stages::next_hop::HopCounts;
    use pmdns_streams::counters::StreamSnapshot;

    const DOCUMENT: &str = include_str!("../../../../docs/counters.md");

    const RULES: &str = include_str!("../../../../docs/alerting/pmdns.rules.yml");
    const DASHBOARD: &str = include_str!("../../../../docs/alerting/pmdns.dashboard.json");

    /// The line of docs/counters.md for a family.
    fn row(family: &Family) -> String {
        let kind = match family.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
            MetricKind::Info => "info",
        };
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = labels.join(", ");
        format!("| `{}` | {kind} | {labels} | {} |", family.exported_name(), family.help)
    }

    #[test]
    fn every_family_is_documented_and_no_other() {
        let exported: BTreeSet<String> = families(&Report::default()).iter().map(row).collect();
        let documented: BTreeSet<String> = DOCUMENT
            .lines()
            .filter(|line| line.starts_with("| `pmdns_") || line.starts_with("| `process_"))
            .map(str::to_owned)
            .collect();
        let missing: Vec<_> = exported.difference(&documented).collect();
        assert!(missing.is_empty(), "docs/counters.md lacks:\n{missing:#?}");
        let superfluous: Vec<_> = documented.difference(&exported).collect();
        assert!(
            superfluous.is_empty(),
            "docs/counters.md has, but nothing exports:\n{superfluous:#?}"
        );
    }

    /// Names in a text that metrics have, with the labels that are asked for.
    fn named(text: &str) -> Vec<(&str, Vec<&str>)> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut found = Vec::new();
        for (start, _) in text.match_indices("pmdns_").chain(text.match_indices("process_")) {
            if text[..start].ends_with(is_word) {
                continue;
            }
            let end = text[start..].find(|c| !is_word(c)).map_or(text.len(), |len| start + len);
            let selector = text[end..].strip_prefix('{').and_then(|rest| rest.split('}').next());
            let labels = selector
                .unwrap_or_default()
                .split(", ")
                .filter_map(|one| one.split(['=', '!']).next());
            found.push((&text[start..end], labels.filter(|label| !label.is_empty()).collect()));
        }
        found
    }

    #[test]
    fn alert_rules_and_dashboard_name_metrics_and_labels_that_exist() {
        let families = families(&Report::default());
        let known = |name: &str| {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            families.iter().find(|one| match one.kind {
                MetricKind::Histogram => base == Some(&*one.exported_name()),
                _ => one.exported_name() == name,
            })
        };
        let dashboard = DASHBOARD.replace("\\\"", "");
        for (text, least) in [(RULES, 25), (&dashboard, 60)] {
            let all = named(text);
            assert!(all.len() > least, "{all:?}");
            for (name, labels) in all {
                let family = known(name).unwrap_or_else(|| panic!("nothing exports {name}"));
                for label in labels {
                    let of_prometheus = ["job", "instance"].contains(&label);
                    assert!(
                        of_prometheus || family.labels.contains(&label),
                        "{name} has no {label}"
                    );
                }
            }
        }
    }

    #[test]
    fn names_keep_the_rules_of_openmetrics() {
        let mut seen = BTreeSet::new();
        for family in families(&Report::default()) {
            let name = family.exported_name();
            assert!(seen.insert(name.clone()), "{name} stands for two families");
            let lawful = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(name.chars().all(lawful), "{name}");
            let reserved = ["_total", "_count", "_sum", "_bucket", "_created", "_info"];
            assert!(!reserved.iter().any(|suffix| family.name.ends_with(suffix)), "{name}");
            assert!(
                family.help.ends_with('.') && !family.help.contains('\n'),
                "{name}: {}",
                family.help
            );
        }
    }

    /// The samples of a text: name and labels, value. Fails where the text breaks the format.
    fn samples(text: &str) -> BTreeMap<&str, f64> {
        let body = text.strip_suffix("# EOF\n").expect("the end is marked");
        let (mut samples, mut families, mut family) = (BTreeMap::new(), BTreeSet::new(), "");
        for line in body.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                family = help.split(' ').next().unwrap();
                assert!(families.insert(family), "{family} comes twice");
            } else if let Some(rest) =
                line.strip_prefix("# TYPE ").or_else(|| line.strip_prefix("# UNIT "))
            {
                assert_eq!(rest.split(' ').next().unwrap(), family);
            } else {
                let (sample, value) = line.rsplit_once(' ').expect("a sample has a value");
                assert!(sample.starts_with(family), "{line} does not belong to {family}");
                let value = value.parse().unwrap_or_else(|_| panic!("no number in {line}"));
                assert!(samples.insert(sample, value).is_none(), "{sample} comes twice");
            }
        }
        samples
    }

    #[test]
    fn the_text_has_every_value_of_the_report() {
        let (_, report) = fixture::reports();
        let text = encode(&report).unwrap();
        let samples = samples(&text);
        for (sample, value) in [
            ("pmdns_build_info{version=\"1.2.3\"}", 1.0),
            ("pmdns_uptime_seconds", 3.0),
            ("pmdns_cache_hits_total", 1_960_000.0),
            ("pmdns_drops_total{reason=\"acl_drop\"}", 300.0),
            ("pmdns_drops_total{reason=\"udp_checksum\"}", 0.0),
            ("pmdns_port_rx_bytes_total{port=\"edge\"}", 160_000_000.0),
            ("pmdns_core_seconds_total{core=\"1\",state=\"busy\"}", 1.8),
            ("pmdns_stage_seconds_total{core=\"2\",stage=\"lookup\"}", 0.07),
            ("pmdns_stage_exits_total{core=\"2\",stage=\"policy\",exit=\"slow_path\"}", 40_000.0),
            ("pmdns_ring_refused_total{from=\"core 1\",to=\"core 2\",carries=\"packets\"}", 7.0),
            ("pmdns_upstream_srtt_seconds{address=\"192.0.2.53:53\"}", 0.0015),
            ("pmdns_next_hop_usable{port=\"edge\",address=\"192.0.2.254\"}", 1.0),
            ("pmdns_next_hop_age_seconds{port=\"edge\",address=\"192.0.2.254\"}", 3.0),
            ("pmdns_next_hop_failures_total{port=\"edge\",address=\"192.0.2.254\"}", 2.0),
            ("pmdns_cache_shard_size_bytes{shard=\"0\"}", 67_108_864.0),
        ] {
            assert_eq!(samples.get(sample), Some(&value), "{sample} in\n{text}");
        }
    }

    #[test]
    fn histograms_are_cumulative_and_never_too_fast() {
        let (_, report) = fixture::reports();
        let text = encode(&report).unwrap();
        let samples = samples(&text);
        let latency = |class: &str, bound: &str| {
            let labels = format!("{{le=\"{bound}\",answered_by=\"{class}\"}}");
            let sample = format!("pmdns_latency_seconds_bucket{labels}");
            *samples.get(&*sample).unwrap_or_else(|| panic!("no {sample} in\n{text}"))
        };
        // 3000 ticks at 2 GHz are 1.5 us, 30000 are 15 us.
        assert_eq!((latency("hit", "0.000001"), latency("hit", "0.0000025")), (0.0, 1_959_000.0));
        assert_eq!(
            (latency("hit", "0.00001"), latency("hit", "0.000025")),
            (1_959_000.0, 1_960_000.0)
        );
        assert_eq!(
            latency("hit", "+Inf"),
            samples["pmdns_latency_seconds_count{answered_by=\"hit\"}"]
        );
        let sum = samples["pmdns_latency_seconds_sum{answered_by=\"hit\"}"];
        assert!((sum - (1_959_000.0 * 1.5e-6 + 1000.0 * 15e-6)).abs() < 1e-6, "{sum}");
    }

    #[test]
    fn cve_2026_40011_labels_are_escaped() {
        let (_, mut report) = fixture::reports();
        report.upstreams[0].address = "a\"b\\c\nd".to_owned();
        let text = encode(&report).unwrap();
        assert!(text.contains(r#"pmdns_upstream_queries_total{address="a\"b\\c\nd"}"#), "{text}");
        samples(&text);
    }

    /// The names of all fields of a JSON value. Tables whose keys come from outside are left out.
    fn fields(value: &serde_json::Value, names: &mut BTreeSet<String>) {
        match value {
            serde_json::Value::Array(items) => items.iter().for_each(|item| fields(item, names)),
            serde_json::Value::Object(table) => {
                for (name, field) in table {
                    names.insert(name.clone());
                    match (name.as_str(), field) {
                        (
                            "xstats" | "exits" | "rcodes" | "qtypes" | "transports" | "views"
                            | "certificates",
                            _,
                        ) => {}
                        ("stages" | "lists", serde_json::Value::Object(stages)) => {
                            stages.values().for_each(|stage| fields(stage, names));
                        }
                        _ => fields(field, names),
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds the counters of `table` that are missing. A name that the table has not is one that readers look for in vain.
    fn complete(counters: &mut Named, table: &[Counted]) {
        let table = by_name(table.iter().copied());
        for name in counters.keys() {
            assert!(table.contains_key(name), "nothing is counted as {name}");
        }
        for (name, value) in table {
            counters.entry(name).or_insert(value);
        }
    }

    /// The report with every counter of its tables.
    fn completed(mut report: Report) -> Report {
        macro_rules! complete {
            ($($parts:ident: $table:ty,)*) => {$(
                for part in &mut report.$parts {
                    complete(&mut part.counters, &<$table>::default().named());
                }
            )*};
        }
        complete! {
            taps: TapSnapshot,
            workers: Tally,
            upstreams: UpstreamSnapshot,
            next_hops: HopCounts,
            query_log: LogSnapshot,
            sinks: SinkSnapshot,
            hitters: HitterSnapshot,
            policy_zones: ZoneSnapshot,
            fetched_lists: ListSnapshot,
            connections: ConnectionSnapshot,
            streams: StreamSnapshot,
        }
        for port in &mut report.ports {
            complete(&mut port.stats, &PortStats::default().named());
        }
        for shard in &mut report.cache {
            complete(shard, &CacheSnapshot::default().named());
        }
        for thread in &mut report.slow_path {
            complete(thread, &CountersSnapshot::default().named());
        }
        complete(report.clients.as_mut().unwrap(), &ClientSnapshot::default().named());
        report
    }

    #[test]
    fn every_field_of_the_json_is_documented() {
        let (_, report) = fixture::reports();
        let mut names = BTreeSet::new();
        fields(&serde_json::to_value(completed(report)).unwrap(), &mut names);
        assert!(names.len() > 80, "{names:?}");
        let missing: Vec<_> =
            names.iter().filter(|name| !DOCUMENT.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "docs/counters.md lacks {missing:?}");
    }
}
