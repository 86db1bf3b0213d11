//! Prints a report for people.

use pmdns_config::Config;
use pmdns_engine::slowpath::UpstreamSnapshot;
use serde_json::Value;

use super::rates::Rates;
use super::report::Report;
use super::top::percent;

/// Prints a summary of an instance's life, in a few lines.
pub fn summary(report: &Report, out: &mut impl std::io::Write) -> std::io::Result<()> {
    let totals = &report.totals;
    let sum = |counter: fn(&UpstreamSnapshot) -> u64| -> u64 {
        report.upstreams.iter().map(|upstream| counter(&upstream.counters)).sum()
    };
    let rates = Rates::between(&Report::default(), report);
    let ratio = rates.hit_ratio().map(|ratio| format!("; hit ratio {}", percent(ratio)));
    writeln!(
        out,
        "served for {} s: {} frames received, {} sent, {} dropped{}",
        report.uptime_seconds,
        totals.received,
        totals.transmitted,
        totals.dropped,
        ratio.unwrap_or_default(),
    )?;
    let (_, share) = rates.servfail();
    let failed = report.answers.rcodes.get("servfail").copied().unwrap_or(0);
    writeln!(out, "answers: {failed} SERVFAIL, {}", percent(share))?;
    writeln!(
        out,
        "upstreams: {} queries, {} replies, {} timeouts",
        sum(|one| one.queries + one.tcp),
        sum(|one| one.replies),
        sum(|one| one.timeouts),
    )?;
    writeln!(out, "`pmdns run --counters` prints all counters here, `pmdns stats` while it runs")
}

/// Prints a report's JSON form for people: one counter a line, zeros left out, nested names indented. Next hops that nobody
/// answers for stand at the end, in a line each.
pub fn print_for_people(report: &Value, out: &mut impl std::io::Write) -> std::io::Result<()> {
    print_level(report, 0, out)?;
    let hops = report["next_hops"].as_array().into_iter().flatten();
    for hop in hops.filter(|hop| hop["mac"].is_null()) {
        let text = |name: &str| hop[name].as_str().unwrap_or_default();
        let (port, address) = (text("port"), text("address"));
        writeln!(
            out,
            "port {port}: nobody answers for the next hop {address}: no query leaves by it"
        )?;
    }
    Ok(())
}

fn print_level(value: &Value, depth: usize, out: &mut impl std::io::Write) -> std::io::Result<()> {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, field) in
                fields.iter().filter(|(name, field)| !is_for_programs(name) && !is_nothing(field))
            {
                match field {
                    Value::Object(_) | Value::Array(_) => {
                        writeln!(out, "{indent}{name}")?;
                        print_level(field, depth + 1, out)?;
                    }
                    Value::String(text) => writeln!(out, "{indent}{name:<24} {text}")?,
                    plain => writeln!(out, "{indent}{name:<24} {plain:>14}")?,
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                writeln!(out, "{indent}- {index}")?;
                print_level(item, depth + 1, out)?;
            }
        }
        plain => writeln!(out, "{indent}{plain}")?,
    }
    Ok(())
}

/// Whether a field is only for programs. Histograms are; people read quantiles and `pmdns top`.
fn is_for_programs(name: &str) -> bool {
    matches!(name, "buckets" | "histogram")
}

/// Whether a counter is zero, or a table without entries.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Null => true,
        _ => false,
    }
}

/// A summary of `config` for `pmdns check`.
pub fn summary_of(config: &Config) -> String {
    format!(
        "{} port(s), {} upstream(s), {} local record(s), {} zone file(s), {} blocked name(s), {} block \
         list(s), cache {}",
        config.ports.len(),
        config.upstreams.len(),
        config.local.len(),
        config.zones.len(),
        config.block.names.len(),
        config.blocklists.len(),
        config.cache.size,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::fixture;
    use crate::control::next_hops::NextHopReport;

    #[test]
    fn next_hops_that_nobody_answers_for_stand_at_the_end() {
        let mut report = fixture::reports().1;
        let lost = NextHopReport { mac: None, ..report.next_hops[0].clone() };
        let mut last_line = || {
            let mut text = Vec::new();
            print_for_people(&serde_json::to_value(&report).unwrap(), &mut text).unwrap();
            report.next_hops.push(lost.clone());
            String::from_utf8(text).unwrap().lines().last().unwrap().to_owned()
        };
        assert!(!last_line().starts_with("port"), "all are there");
        let expected =
            "port edge: nobody answers for the next hop 192.0.2.254: no query leaves by it";
        assert_eq!(last_line(), expected);
    }

    #[test]
    fn a_summary_is_short() {
        let mut text = Vec::new();
        summary(&fixture::reports().1, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.starts_with(
                "served for 3 s: 2000000 frames received, 1960000 sent, 300 dropped; hit ratio"
            ),
            "{text}"
        );
        assert!(text.contains("\nupstreams: 40010 queries, 40010 replies, 0 timeouts\n"), "{text}");
        assert!(text.contains("SERVFAIL"), "{text}");
        assert_eq!(text.lines().count(), 4);
    }
}
