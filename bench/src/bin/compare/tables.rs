//! The report as Markdown: ratios, a table for each group, and what was not run.

use std::fmt::Write as _;

use serde_json::Value;

use crate::ratios::{GROUPS, Target, ratios};
use crate::raw::{Results, Summary};

/// A figure's name, its heading, and how it is written.
type Column = (&'static str, &'static str, fn(f64) -> String);

/// Figures that get a column of their own, where a group has them.
const COLUMNS: [Column; 14] = [
    ("offered", "offered/s", whole),
    ("latency_us", "mean latency, us", whole),
    ("p50_us", "p50, us", tenths),
    ("p99_us", "p99, us", tenths),
    ("p999_us", "p99.9, us", tenths),
    ("server_cpu", "server process", share),
    ("server_side_busy", "server's CPU", share),
    ("client_cpu", "client process", share),
    ("client_side_busy", "client's CPU", share),
    ("server_drops", "server drops", whole),
    ("upstream_queries", "asked upstream", whole),
    ("upstream_drops", "upstream drops", whole),
    ("client_drops", "lost by client", whole),
    ("lost_share", "lost", share),
];

/// The whole page.
pub(crate) fn page(results: &Results, plots: &[&str]) -> String {
    let mut out = String::new();
    out.push_str("# Measurements\n\nWritten by `scripts/compare.sh`; [the report](2026-11-benchmarks.md) says how to read it.\n");
    for (number, (run, groups)) in results.by_run().enumerate() {
        if number > 0 && groups.is_empty() {
            continue;
        }
        // Writing to a String cannot fail.
        let quick = if run.quick { "; a quick run" } else { "" };
        let _ = writeln!(out, "\nMachine: {}. Commit {}.", run.machine, run.commit);
        let _ = writeln!(out, "Rounds: {}, of {} seconds{quick}.", run.rounds, run.seconds);
        if let Some(quiet) = &run.quiet {
            let _ = writeln!(
                out,
                "The machine was {}: testpmd macswap had {} of its CPU (at least {}), its seconds differed by {} (at most {}).",
                if quiet.is_quiet { "quiet" } else { "busy" },
                share(quiet.cpu),
                share(quiet.least_cpu),
                share(quiet.spread),
                share(quiet.most_spread),
            );
        }
        if number > 0 || results.runs.len() > 1 {
            let groups: Vec<_> = groups.into_iter().collect();
            let _ = writeln!(out, "Of this run: {}.", groups.join(", "));
        }
    }
    out.push('\n');
    out.push_str(&ratio_table(results));
    for (group, title, unit) in GROUPS {
        let summaries = results.summaries(group);
        if !summaries.is_empty() {
            let _ = writeln!(out, "\n## {title}\n\n{}", table(&summaries, unit));
        }
        for (program, sum) in &summaries {
            if let Some(line) = sum.counters.as_ref().and_then(|c| own_counters(program, c)) {
                let _ = writeln!(out, "{line}\n");
            }
        }
    }
    out.push_str(&left_out(results));
    if !plots.is_empty() {
        out.push_str("\n## Plots\n");
        for plot in plots {
            let _ = writeln!(out, "\n![{plot}](plots/{plot}.svg)");
        }
    }
    out
}

fn ratio_table(results: &Results) -> String {
    let mut out = "| ratio | value | target | what |\n|---|---|---|---|\n".to_owned();
    for ratio in ratios(results) {
        let value = ratio.value.map_or_else(|| "not measured".to_owned(), |v| format!("{v:.2}"));
        let target = match ratio.target {
            None => String::new(),
            Some(Target::AtLeast(least)) => format!(">= {least}"),
            Some(Target::AtMost(most)) => format!("<= {most}"),
        };
        let (group, name, meaning) = (ratio.group, ratio.name, &ratio.meaning);
        let _ = writeln!(out, "| `{group}.{name}` | {value} | {target} | {meaning} |");
    }
    out
}

fn table(summaries: &[(String, Summary)], unit: &str) -> String {
    let columns: Vec<_> = COLUMNS
        .iter()
        .filter(|(name, ..)| summaries.iter().any(|(_, sum)| sum.figures.contains_key(*name)))
        .collect();
    let mut out = format!("| program | {unit}, median | rounds, lowest to highest |");
    columns.iter().for_each(|(_, heading, _)| out += &format!(" {heading} |"));
    out += "\n|---|---|---|";
    columns.iter().for_each(|_| out += "---|");
    for (program, sum) in summaries {
        let (low, high) = (whole(sum.low), whole(sum.high));
        let _ = write!(out, "\n| {program} | {} | {low} – {high} |", whole(sum.median));
        for (name, _, format) in &columns {
            let text = sum.figures.get(*name).map_or_else(String::new, |value| format(*value));
            let _ = write!(out, " {text} |");
        }
    }
    out.push('\n');
    out
}

/// What pmdns counted itself in the last round: totals, and ticks per packet and stage.
fn own_counters(program: &str, counters: &Value) -> Option<String> {
    let total = |name: &str| counters.pointer(&format!("/totals/{name}"))?.as_u64();
    let (received, transmitted, dropped) =
        (total("received")?, total("transmitted")?, total("dropped")?);
    let mut text = format!(
        "{program}, last round, by its own counters: {received} received, {transmitted} transmitted, {dropped} dropped."
    );
    let stages = counters.pointer("/workers/0/stages").and_then(Value::as_object)?;
    let mut ticks: Vec<String> = Vec::new();
    for (stage, meter) in stages {
        let number = |name: &str| meter.get(name).and_then(Value::as_f64);
        if let (Some(ticks_in_all), Some(packets)) = (number("ticks"), number("packets"))
            && packets > 0.0
        {
            ticks.push(format!("{stage} {:.0}", ticks_in_all / packets));
        }
    }
    if !ticks.is_empty() {
        let _ = write!(text, " Ticks a packet: {}.", ticks.join(", "));
    }
    Some(text)
}

/// Programs and methods without a figure, and why.
fn left_out(results: &Results) -> String {
    let mut out = String::new();
    for line in &results.lines {
        if let Some(note) = &line.note
            && line.rate.is_none()
        {
            let row = format!("| {} | {} | {note} |\n", line.group, line.program);
            if !out.contains(&row) {
                out += &row;
            }
        }
    }
    if out.is_empty() {
        out
    } else {
        format!("\n## Not run\n\n| group | what | why |\n|---|---|---|\n{out}")
    }
}

/// A number with its thousands apart.
fn whole(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && !out.ends_with('-') {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

fn share(value: f64) -> String {
    format!("{:.0} %", value * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(
            [whole(0.4), whole(999.0), whole(1_234_567.0), whole(-1000.0)],
            ["0", "999", "1,234,567", "-1,000"]
        );
    }

    #[test]
    fn the_page_names_what_is_missing() {
        let text = r#"{"group":"cached","program":"bind","note":"it does not start here"}
{"group":"cached","program":"unbound","rate":1000,"server_cpu":0.5,"client_drops":3}"#;
        let page = page(&Results::parse(text).unwrap(), &[]);
        assert!(page.contains("| cached | bind | it does not start here |"), "{page}");
        assert!(page.contains("| unbound | 1,000 | 1,000 – 1,000 | 50 % | 3 |"), "{page}");
        assert!(page.contains("| `cold.over_best_peer` | not measured | >= 3 |"), "{page}");
    }

    #[test]
    fn the_page_says_whether_the_machine_was_quiet() {
        let text = r#"{"machine":"m","commit":"c","rounds":1,"seconds":4,"quick":true,"quiet":
{"is_quiet":false,"spread":0.2,"most_spread":0.25,"cpu":0.65,"least_cpu":0.95}}"#;
        let page = page(&Results::parse(&text.replace('\n', "")).unwrap(), &[]);
        assert!(page.contains("was busy: testpmd macswap had 65 % of its CPU"), "{page}");
    }
}
