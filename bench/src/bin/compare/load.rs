//! The reports of pmdns-load, as lines of the group `load`. The steps of its search for the ceiling are `load_steps`. Those
//! of our plain loop in place of pmdns are `load_forward`.

use serde::Deserialize;
use serde_json::json;

use crate::raw::Line;

/// As much of a report as the comparison shows.
#[derive(Deserialize)]
struct ParsedReport {
    settings: Settings,
    ceiling: Option<Ceiling>,
    phases: Vec<Phase>,
}

/// What was asked, by weight.
#[derive(Deserialize)]
struct Settings {
    mix: Vec<(String, f64)>,
}

#[derive(Deserialize)]
struct Ceiling {
    rate: f64,
    limited_by: String,
}

#[derive(Deserialize)]
struct Phase {
    name: String,
    offered_rate: f64,
    goodput: f64,
    lost: u64,
    latency_us: Latency,
    valid: bool,
    problems: Vec<String>,
    seconds: f64,
    kinds: Vec<KindFigures>,
}

#[derive(Deserialize)]
struct KindFigures {
    kind: String,
    good: f64,
    latency_us: Latency,
}

#[derive(Clone, Copy, Deserialize)]
struct Latency {
    p50: f64,
    p99: f64,
    p999: f64,
}

/// The programs of a storm.
pub(crate) const STORM_MISSES: &str = "misses, no hits";
pub(crate) const STORM_ALONE: &str = "hits, no misses";
pub(crate) const STORM_BESIDE: &str = "hits beside a storm";
/// A name of the list, which is in the cache.
const HIT: &str = "hit";

/// What a single run is called in a report, and the phase that a step of the search is.
const RUN: &str = "run";
const STEP: &str = "step";

/// A line for each phase; the invalid ones have their problems in place of figures. A single run is called by the share of the
/// ceiling in its file's name, without the ending. For example, load-80-1 is pmdns's first round at 80 %, and
/// load-forward-80-1 the plain loop's.
pub(crate) fn lines(report: &str, file: &str) -> Result<Vec<Line>, serde_json::Error> {
    let report: ParsedReport = serde_json::from_str(report)?;
    if let Some(run) = file.strip_prefix("load-storm-") {
        return Ok(storm(report, run));
    }
    let of_forward = file.strip_prefix("load-forward-");
    let run = of_forward.unwrap_or_else(|| file.trim_start_matches("load-"));
    let share = run.rsplit_once('-').map_or(run, |(share, _)| share);
    let name = format!("{share} % of the ceiling");
    let group = if of_forward.is_some() { "load_forward" } else { "load" };
    let ceiling = report.ceiling.map(|ceiling| Line {
        group: "load".to_owned(),
        program: format!("ceiling, limited by the {}", ceiling.limited_by),
        rate: Some(ceiling.rate),
        ..Line::default()
    });
    Ok(ceiling
        .into_iter()
        .chain(report.phases.into_iter().map(|phase| line(phase, group, &name)))
        .collect())
}

/// What came of a storm of misses: the ceiling, or the hits of a run that is called alone or beside.
fn storm(report: ParsedReport, run: &str) -> Vec<Line> {
    let line = |program: &str| Line {
        group: "storm".to_owned(),
        program: program.to_owned(),
        ..Line::default()
    };
    if let Some(ceiling) = report.ceiling {
        return vec![Line { rate: Some(ceiling.rate), ..line(STORM_MISSES) }];
    }
    let program = if run.starts_with("alone") { STORM_ALONE } else { STORM_BESIDE };
    let weights = &report.settings.mix;
    let all: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let hits: f64 = weights.iter().filter(|(kind, _)| kind == HIT).map(|(_, weight)| weight).sum();
    let lines = report.phases.iter().filter_map(|phase| {
        let kind = phase.kinds.iter().find(|kind| kind.kind == HIT)?;
        if !phase.valid {
            let note = Some(format!("invalid: {}", phase.problems.join("; ")));
            return Some(Line { note, ..line(program) });
        }
        let (offered, good) = (phase.offered_rate * hits / all, kind.good / phase.seconds);
        let figures = [
            ("lost_share", json!(1.0 - good / offered)),
            ("p50_us", json!(kind.latency_us.p50)),
            ("p99_us", json!(kind.latency_us.p99)),
            ("p999_us", json!(kind.latency_us.p999)),
        ];
        let figures = figures.map(|(name, value)| (name.to_owned(), value)).into();
        Some(Line { rate: Some(good), offered: Some(offered), figures, ..line(program) })
    });
    lines.collect()
}

fn line(phase: Phase, group: &str, name: &str) -> Line {
    let group = if phase.name == STEP { "load_steps" } else { group };
    let program = if phase.name == RUN { name.to_owned() } else { phase.name };
    let line = Line { group: group.to_owned(), program, ..Line::default() };
    if !phase.valid {
        return Line { note: Some(format!("invalid: {}", phase.problems.join("; "))), ..line };
    }
    let figures = [
        ("p50_us", json!(phase.latency_us.p50)),
        ("p99_us", json!(phase.latency_us.p99)),
        ("p999_us", json!(phase.latency_us.p999)),
        ("client_drops", json!(phase.lost)),
    ];
    Line {
        rate: Some(phase.goodput),
        offered: Some(phase.offered_rate),
        figures: figures.map(|(name, value)| (name.to_owned(), value)).into(),
        ..line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_phase_has_no_rate() {
        let phase = |valid: bool| {
            json!({
                "name": "sustained", "offered_rate": 1000.0, "goodput": 990.0, "lost": 10, "valid": valid,
                "problems": ["offered 90 %"], "seconds": 1.0, "kinds": [], "latency_us": {"p50": 1.0, "p99": 2.0, "p999": 3.0}
            })
        };
        let report =
            json!({ "settings": { "mix": [] }, "phases": [phase(true), phase(false)] }).to_string();
        let lines = lines(&report, "load-phases-1").unwrap();
        assert_eq!((lines[0].rate, lines[0].figure("p99_us")), (Some(990.0), Some(2.0)));
        assert_eq!(
            (lines[1].rate, lines[1].note.as_deref()),
            (None, Some("invalid: offered 90 %"))
        );
    }

    #[test]
    fn a_run_is_called_by_its_file() {
        let report = json!({ "settings": { "mix": [] }, "phases": [{
            "name": "run", "offered_rate": 1000.0, "goodput": 990.0, "lost": 10, "valid": true,
            "problems": [], "seconds": 1.0, "kinds": [], "latency_us": {"p50": 1.0, "p99": 2.0, "p999": 3.0}
        }] });
        for (file, group) in [("load-80-2", "load"), ("load-forward-80-2", "load_forward")] {
            let lines = lines(&report.to_string(), file).unwrap();
            let line = &lines[0];
            assert_eq!((&*line.group, &*line.program), (group, "80 % of the ceiling"));
        }
    }

    #[test]
    fn hits_beside_a_storm_are_told_from_misses() {
        let latency = json!({"p50": 1.0, "p99": 2.0, "p999": 3.0});
        let report = json!({
            "settings": { "mix": [["hit", 100], ["miss", 300]] },
            "phases": [{
                "name": "run", "offered_rate": 400.0, "goodput": 150.0, "lost": 700, "valid": true,
                "problems": [], "seconds": 2.0, "latency_us": latency,
                "kinds": [{"kind": "hit", "good": 190, "latency_us": latency},
                    {"kind": "miss", "good": 110, "latency_us": latency}]
            }]
        });
        let lines = lines(&report.to_string(), "load-storm-beside-1").unwrap();
        let [line] = &lines[..] else { panic!("one line") };
        assert_eq!((&*line.group, &*line.program), ("storm", STORM_BESIDE));
        assert_eq!((line.offered, line.rate), (Some(100.0), Some(95.0)));
        assert!((line.figure("lost_share").unwrap() - 0.05).abs() < 1e-9);
    }
}
