//! Prints a report for people.

use std::io::Write as _;

use pmdns_control::report::Report;
use serde_json::Value;

use crate::failure::Failure;
use crate::output::output;
use crate::rates::Rates;
use crate::top::percent;

/// Prints a summary of an instance's life, in a few lines.
pub(crate) fn summary(report: &Report, out: &mut impl std::io::Write) -> std::io::Result<()> {
    let totals = &report.totals;
    let sum = |name| report.upstreams.iter().map(|upstream| upstream.counter(name)).sum::<u64>();
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
        sum("queries") + sum("tcp"),
        sum("replies"),
        sum("timeouts"),
    )?;
    writeln!(out, "`pmdns run --counters` prints all counters here, `pmdns stats` while it runs")
}

/// Prints a report's JSON form: as it is, or for people.
pub(crate) fn print_report(report: &Value, json: bool) -> Result<(), Failure> {
    let mut out = output();
    match json {
        true => writeln!(out, "{report}")?,
        false => print_for_people(report, &mut out)?,
    }
    Ok(())
}

/// Prints a report's JSON form for people: one counter a line, zeros left out, nested names indented. Next hops that nobody
/// answers for stand at the end, in a line each.
fn print_for_people(report: &Value, out: &mut impl std::io::Write) -> std::io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::{make_hostile, printed};
    use pmdns_control::report::NextHopReport;
    use pmdns_control::testing as fixture;

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
    fn a_hostile_report_steers_no_terminal() {
        let mut report = serde_json::to_value(fixture::reports().1).unwrap();
        make_hostile(&mut report);
        let text = printed(|out| print_for_people(&report, out).unwrap());
        assert!(text.contains(r"edgea\u001b[2J"), "{text}");
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
