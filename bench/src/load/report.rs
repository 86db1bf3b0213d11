//! Figures from counts, and whether they can be believed.

use pmdns_engine::clock::Clock;
use serde::Serialize;

use super::ceiling::{Ceiling, Step};
use super::check::AnswerClass;
use super::cpu::CpuTime;
use super::figures::{KindFigures, Latency, PortCounters, SliceRates, UnderWay, UpstreamCounts};
use super::mix::Kind;
use super::tally::Tally;

/// A run that offered less of its load is no measurement.
const LEAST_OFFERED: f64 = 0.95;

/// The whole report.
#[derive(Debug, Serialize)]
pub struct LoadReport {
    /// Program and version.
    pub program: String,
    /// What was asked for.
    pub settings: Settings,
    /// The warm-up, if there was one.
    pub warm_up: Option<WarmUp>,
    /// The ceiling, if it was searched for.
    pub ceiling: Option<Ceiling>,
    /// The runs, in order.
    pub phases: Vec<Phase>,
    /// Whether every run that counts is valid.
    pub valid: bool,
    /// What speaks against the figures, of all runs that count.
    pub problems: Vec<String>,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// The driver of the port.
    pub driver: String,
    /// Queries on the list.
    pub names: usize,
    /// Zipf exponent; absent: all names alike.
    pub zipf: Option<f64>,
    /// Weights by kind.
    pub mix: Vec<(&'static str, u32)>,
    /// Client addresses.
    pub clients: u32,
    /// UDP size announced; absent: no EDNS.
    pub edns: Option<u16>,
    /// After how long a query is lost, in milliseconds.
    pub timeout_ms: u64,
    /// Ticks of the clock in a second.
    pub ticks_per_second: u64,
    /// What answers are compared with.
    pub authority: &'static str,
    /// Whether queries that the port refused count as offered: its peer's ring was full.
    pub refused_is_offered: bool,
}

/// The warm-up.
#[derive(Clone, Debug, Serialize)]
pub struct WarmUp {
    /// Names asked for.
    pub names: usize,
    /// Names without a right answer in the end.
    pub unanswered: usize,
    /// The first few of them.
    pub examples: Vec<String>,
    /// How long it took.
    pub seconds: f64,
    /// Answers by verdict.
    pub answers: Vec<(&'static str, u64)>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// What it is called.
    pub name: String,
    /// The rate asked for, in queries per second.
    pub target_rate: u64,
    /// How long the offer took.
    pub seconds: f64,
    /// Queries of the schedule.
    pub planned: u64,
    /// Queries that left.
    pub sent: u64,
    /// Queries the port did not take.
    pub refused: u64,
    /// Queries left out because the generator had fallen behind.
    pub withheld: u64,
    /// The share of the schedule that was offered.
    pub offered_share: f64,
    /// Queries offered per second.
    pub offered_rate: f64,
    /// Right answers per second.
    pub goodput: f64,
    /// Right answers.
    pub good: u64,
    /// Queries without an answer, those to malformed ones apart.
    pub lost: u64,
    /// The share of proper queries offered that got no right answer.
    pub loss_share: f64,
    /// All answers by verdict, where there were any.
    pub answers: Vec<(&'static str, u64)>,
    /// Wrong answers: those no server may send.
    pub wrong: u64,
    /// Answers to no query under way: late, double or strange.
    pub unexpected: u64,
    /// Frames that were no answers.
    pub strays: u64,
    /// What the upstreams did that were played here.
    pub upstream: Option<UpstreamCounts>,
    /// Answers that were checked in full; the others equalled one that was.
    pub full_checks: u64,
    /// Latency of right answers, counted from when their queries were due.
    pub latency_us: Latency,
    /// How late bursts left.
    pub lateness_us: Latency,
    /// Each kind by itself.
    pub kinds: Vec<KindFigures>,
    /// Queries under way, on average.
    pub under_way: UnderWay,
    /// From the end of the offer to the last answer, in milliseconds.
    pub drain_ms: f64,
    /// The port's own counters.
    pub port: PortCounters,
    /// CPU time of the server.
    pub server_cpu: Option<CpuTime>,
    /// CPU time of the generator.
    pub own_cpu: Option<CpuTime>,
    /// Rates of each stretch, in order.
    pub slices: Vec<SliceRates>,
    /// Whether the load was offered.
    pub valid: bool,
    /// What speaks against these figures.
    pub problems: Vec<String>,
}

/// What a run has beside its tally.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// What the run is called.
    pub name: String,
    /// The rate asked for.
    pub rate: u64,
    /// Whether queries that the port refused count as offered.
    pub refused_is_offered: bool,
    /// Answers checked in full.
    pub full_checks: u64,
    /// The port's counters.
    pub port: PortCounters,
    /// CPU time of the server.
    pub server_cpu: Option<CpuTime>,
    /// CPU time of the generator.
    pub own_cpu: Option<CpuTime>,
}

impl Phase {
    /// The figures of a run.
    pub fn new(tally: &Tally, clock: Clock, slice_seconds: f64, around: Circumstances) -> Self {
        let us = 1e6 / clock.ticks_per_second() as f64;
        let seconds = clock.duration_of(tally.end - tally.start).as_secs_f64().max(1e-9);
        let sent: u64 = tally.sent.iter().sum();
        let refused: u64 = tally.refused.iter().sum();
        let malformed = Kind::Malformed.index();
        let (offered, silent) = match around.refused_is_offered {
            true => (sent + refused, tally.sent[malformed] + tally.refused[malformed]),
            false => (sent, tally.sent[malformed]),
        };
        let good = tally.verdicts[AnswerClass::Good as usize];
        let proper = offered - silent;
        let latency = tally.all_latencies();
        let slices = tally.slices.iter().enumerate().map(|(index, slice)| SliceRates {
            at: index as f64 * slice_seconds,
            sent: slice.sent as f64 / slice_seconds,
            refused: slice.refused as f64 / slice_seconds,
            good: slice.good as f64 / slice_seconds,
        });
        let wrong = AnswerClass::ALL.iter().filter(|verdict| verdict.is_wrong());
        let after_end = tally.last_answer.saturating_sub(tally.end);
        let phase = Self {
            name: around.name,
            target_rate: around.rate,
            seconds,
            planned: tally.planned,
            sent,
            refused,
            withheld: tally.withheld,
            offered_share: offered as f64 / tally.planned.max(1) as f64,
            offered_rate: offered as f64 / seconds,
            goodput: good as f64 / seconds,
            good,
            lost: tally.lost.iter().sum::<u64>() - tally.lost[malformed],
            loss_share: 1.0 - good as f64 / proper.max(1) as f64,
            answers: answers(tally),
            wrong: wrong.map(|verdict| tally.verdicts[*verdict as usize]).sum(),
            unexpected: tally.unexpected,
            strays: tally.strays,
            upstream: tally.upstream,
            full_checks: around.full_checks,
            latency_us: Latency::of(&latency, us),
            lateness_us: Latency::of(&tally.lateness, us),
            kinds: kinds(tally, us),
            under_way: UnderWay {
                counted: tally.counted_under_way(),
                computed: tally.computed_under_way(),
            },
            drain_ms: clock.duration_of(after_end).as_secs_f64() * 1e3,
            port: around.port,
            server_cpu: around.server_cpu,
            own_cpu: around.own_cpu,
            slices: slices.collect(),
            valid: true,
            problems: Vec::new(),
        };
        phase.audited(proper)
    }

    /// Notes what speaks against the figures.
    fn audited(mut self, proper: u64) -> Self {
        if proper == 0 {
            self.loss_share = 0.0;
        }
        self.valid = self.offered_share >= LEAST_OFFERED;
        let mut problems = Vec::new();
        if !self.valid {
            problems.push(format!(
                "invalid: only {:.1} % of the load was offered, {:.0} % are needed; lower the rate",
                self.offered_share * 100.0,
                LEAST_OFFERED * 100.0
            ));
        }
        if self.wrong > 0 {
            problems.push(format!("{} wrong answers: {:?}", self.wrong, self.answers));
        }
        if self.damaged() > 0 {
            problems.push(format!("{} queries to upstreams had a wrong checksum", self.damaged()));
        }
        problems.extend(self.latency_us.disorder().map(|text| format!("broken: {text}")));
        problems.extend(self.under_way.difference().map(|text| format!("broken: {text}")));
        self.problems =
            problems.into_iter().map(|problem| format!("{}: {problem}", self.name)).collect();
        self
    }

    /// Whether its figures contradict each other, or the server sent wrong answers or queries.
    pub fn has_failed(&self) -> bool {
        self.wrong > 0
            || self.damaged() > 0
            || self.latency_us.disorder().is_some()
            || self.under_way.difference().is_some()
    }

    /// Queries that the server sent upstream with a wrong checksum.
    fn damaged(&self) -> u64 {
        self.upstream.map_or(0, |upstream| upstream.damaged)
    }

    /// What the run is worth as a step of a search for the ceiling.
    pub fn step(&self, max_loss: f64, max_p99_us: Option<f64>) -> Step {
        let is_slow = max_p99_us.is_some_and(|max| self.latency_us.p99 > max);
        if !self.valid {
            Step::NotOffered
        } else if self.loss_share > max_loss || is_slow {
            Step::Failed
        } else {
            Step::Passed
        }
    }
}

/// Answers by verdict, where there were any.
pub fn answers(tally: &Tally) -> Vec<(&'static str, u64)> {
    let counts =
        AnswerClass::ALL.iter().map(|verdict| (verdict.name(), tally.verdicts[*verdict as usize]));
    counts.filter(|(_, count)| *count > 0).collect()
}

fn kinds(tally: &Tally, us: f64) -> Vec<KindFigures> {
    let sent = Kind::ALL.into_iter().filter(|kind| tally.sent[kind.index()] > 0);
    sent.map(|kind| KindFigures {
        kind: kind.name(),
        sent: tally.sent[kind.index()],
        good: tally.good[kind.index()],
        lost: tally.lost[kind.index()],
        latency_us: Latency::of(&tally.latency[kind.index()], us),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_offered_is_invalid_and_teaches_nothing() {
        let clock = Clock::start();
        let around = |refused_is_offered| Circumstances {
            name: "x".into(),
            rate: 100,
            refused_is_offered,
            full_checks: 0,
            port: PortCounters::default(),
            server_cpu: None,
            own_cpu: None,
        };
        let mut tally = Tally::new(0, 1000, 100, 1000);
        (tally.planned, tally.end) = (100, 1000);
        tally.left(0, std::iter::repeat_n((Kind::Hit, 0), 90));
        tally.refused(std::iter::repeat_n(Kind::Hit, 10));
        let own_fault = Phase::new(&tally, clock, 1.0, around(false));
        assert!(!own_fault.valid && own_fault.problems[0].contains("90.0 %"));
        assert_eq!(own_fault.step(0.01, None), Step::NotOffered);
        let servers_fault = Phase::new(&tally, clock, 1.0, around(true));
        assert!(servers_fault.valid);
        assert_eq!(servers_fault.step(0.01, None), Step::Failed, "nothing was answered");
    }
}
