//! The lines that scripts/compare.sh writes: one JSON object for each round of each program, and what they sum up to.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the first line tells of the machine and the run.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Run {
    pub(crate) machine: String,
    pub(crate) commit: String,
    pub(crate) rounds: u32,
    pub(crate) seconds: u32,
    pub(crate) quick: bool,
    /// Not known of older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) quiet: Option<Quiet>,
}

/// What testpmd macswap met before all else, and what may be written into the book.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Quiet {
    pub(crate) is_quiet: bool,
    /// Between its slowest second and its fastest, as a share of the median.
    pub(crate) spread: f64,
    pub(crate) most_spread: f64,
    /// Its share of its CPU.
    pub(crate) cpu: f64,
    pub(crate) least_cpu: f64,
}

/// One round of one program. Absent figures were not to be had.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Line {
    pub(crate) group: String,
    pub(crate) program: String,
    /// What was measured, a second: frames, replies or queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<f64>,
    /// What the client offered a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) offered: Option<f64>,
    /// Why there is no rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// The counters of pmdns itself at the end of the round.
    #[serde(default, skip_serializing)]
    pub(crate) counters: Option<Value>,
    /// The run that it is of, in the order of [`Results::runs`].
    #[serde(skip)]
    pub(crate) run: usize,
    /// Everything else that is a number, by name.
    #[serde(flatten)]
    pub(crate) figures: BTreeMap<String, Value>,
}

impl Line {
    /// The figure of this name, if the round has it.
    pub(crate) fn figure(&self, name: &str) -> Option<f64> {
        match self.figures.get(name) {
            Some(value) => value.as_f64(),
            // pmdns counts its own drops, since it started.
            None if name == "server_drops" => {
                self.counters.as_ref()?.pointer("/totals/dropped")?.as_f64()
            }
            None => None,
        }
    }
}

/// All rounds of one program in one group.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Each round's rate, in the order they ran.
    pub(crate) rounds: Vec<f64>,
    /// Medians over the rounds of everything else that was counted.
    pub(crate) figures: BTreeMap<String, f64>,
    /// What pmdns says of its last round.
    #[serde(skip)]
    pub(crate) counters: Option<Value>,
}

/// The lines of one run, and of older ones the groups that it did not have.
#[derive(Debug, Default)]
pub(crate) struct Results {
    /// The newest one first.
    pub(crate) runs: Vec<Run>,
    pub(crate) lines: Vec<Line>,
}

impl Results {
    /// Reads JSON lines. Says which line is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut results = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let wrong = |error| format!("line {number}: {error}");
            if line.starts_with("{\"machine\"") {
                results.runs.push(serde_json::from_str(line).map_err(wrong)?);
            } else {
                let run = results.runs.len().saturating_sub(1);
                let line: Line = serde_json::from_str(line).map_err(wrong)?;
                results.lines.push(Line { run, ..line });
            }
        }
        Ok(results)
    }

    /// Takes the groups of older results that it does not have itself.
    pub(crate) fn add_older(&mut self, older: Self) {
        let first = self.runs.len();
        let lacks = |line: &Line| self.group(&line.group).next().is_none();
        let lines = older.lines.into_iter().filter(lacks);
        let lines: Vec<_> = lines.map(|line| Line { run: first + line.run, ..line }).collect();
        self.runs.extend(older.runs);
        self.lines.extend(lines);
    }

    /// The newest run, and the older ones with the groups that are of them.
    pub(crate) fn by_run(&self) -> impl Iterator<Item = (&Run, BTreeSet<&str>)> {
        self.runs.iter().enumerate().map(|(run, of)| {
            let lines = self.lines.iter().filter(move |line| line.run == run);
            (of, lines.map(|line| &*line.group).collect())
        })
    }

    /// The run that a group is of.
    pub(crate) fn run_of(&self, group: &str) -> Option<usize> {
        self.group(group).next().map(|line| line.run)
    }

    /// JSON lines that parse reads; without the counters of pmdns, which are long.
    pub(crate) fn text(&self) -> serde_json::Result<String> {
        let mut text = String::new();
        for (number, run) in self.runs.iter().enumerate() {
            text += &(serde_json::to_string(run)? + "\n");
            for line in self.lines.iter().filter(|line| line.run == number) {
                text += &(serde_json::to_string(line)? + "\n");
            }
        }
        Ok(text)
    }

    /// The lines of one group, in order.
    pub(crate) fn group<'r>(&'r self, group: &'r str) -> impl Iterator<Item = &'r Line> {
        self.lines.iter().filter(move |line| line.group == group)
    }

    /// Programs of a group with their sums, in the order they ran first.
    pub(crate) fn summaries(&self, group: &str) -> Vec<(String, Summary)> {
        let mut names: Vec<&str> = Vec::new();
        for line in self.group(group).filter(|line| line.rate.is_some()) {
            if !names.contains(&line.program.as_str()) {
                names.push(&line.program);
            }
        }
        names
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), self.sum(group, name)?)))
            .collect()
    }

    /// The sum of one program's rounds; `None` if it never ran.
    pub(crate) fn sum(&self, group: &str, program: &str) -> Option<Summary> {
        let lines: Vec<&Line> =
            self.group(group).filter(|l| l.program == program && l.rate.is_some()).collect();
        let rounds: Vec<f64> = lines.iter().filter_map(|line| line.rate).collect();
        let drops = "server_drops".to_owned();
        let mut names: Vec<&String> = lines.iter().flat_map(|line| line.figures.keys()).collect();
        names.push(&drops);
        names.sort();
        names.dedup();
        let figure_of = |name: &String| {
            let all: Vec<f64> = lines.iter().filter_map(|line| line.figure(name)).collect();
            Some((name.clone(), median(&all)?))
        };
        Some(Summary {
            median: median(&rounds)?,
            low: rounds.iter().copied().fold(f64::INFINITY, f64::min),
            high: rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            figures: names
                .into_iter()
                .filter(|name| *name != "round")
                .filter_map(figure_of)
                .collect(),
            counters: lines.iter().rev().find_map(|line| line.counters.clone()),
            rounds,
        })
    }
}

/// The middle value; of an even number the lower one of the two, which was really measured.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"machine":"m","commit":"c","rounds":3,"seconds":8,"quick":false}
{"group":"cached","program":"a","round":1,"rate":30,"server_cpu":0.9}
{"group":"cached","program":"a","round":2,"rate":10,"server_cpu":0.7}
{"group":"cached","program":"a","round":3,"rate":20,"server_cpu":0.8,"counters":{"x":1}}
{"group":"cached","program":"b","round":1,"note":"not here"}"#;

    #[test]
    fn rounds_become_median_and_spread() {
        let results = Results::parse(TEXT).unwrap();
        let all = results.summaries("cached");
        assert_eq!(all.len(), 1, "a program without a rate has no sum");
        let sum = &all[0].1;
        assert_eq!((sum.median, sum.low, sum.high), (20.0, 10.0, 30.0));
        assert_eq!(sum.figures["server_cpu"], 0.8);
        assert!(sum.counters.is_some());
        assert_eq!(results.runs[0].rounds, 3);
    }

    #[test]
    fn older_results_have_what_a_run_of_some_groups_lacks() {
        let new = r#"{"machine":"m","commit":"new","rounds":1,"seconds":8,"quick":false}
{"group":"miss","program":"a","round":1,"rate":5}"#;
        let old = r#"{"machine":"m","commit":"old","rounds":1,"seconds":8,"quick":false}
{"group":"miss","program":"a","round":1,"rate":4}
{"group":"cached","program":"a","round":1,"rate":30}"#;
        let mut results = Results::parse(new).unwrap();
        results.add_older(Results::parse(old).unwrap());
        let again = Results::parse(&results.text().unwrap()).unwrap();
        for results in [results, again] {
            assert_eq!(results.sum("miss", "a").unwrap().rounds, [5.0]);
            assert_eq!(results.sum("cached", "a").unwrap().rounds, [30.0]);
            let runs: Vec<_> =
                results.by_run().map(|(run, groups)| (&*run.commit, groups)).collect();
            assert_eq!(runs, [("new", ["miss"].into()), ("old", ["cached"].into())]);
        }
    }

    #[test]
    fn a_damaged_line_is_named() {
        let error = Results::parse("{\"group\":\"a\",\"program\":\"b\"}\n{").unwrap_err();
        assert!(error.starts_with("line 2"), "{error}");
    }
}
