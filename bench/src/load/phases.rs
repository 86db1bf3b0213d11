//! The programs: one rate, the ceiling, and dnsmark's four phases.

use std::time::Duration;

use pmdns_config::narrow::floor_u64;
use pmdns_engine::clock::Clock;
use pmdns_nics::Nic;

use super::ceiling::{self, Bounds, Ceiling, MIN_RATE};
use super::check::readable;
use super::cpu::CpuTime;
use super::figures::PortCounters;
use super::generator::Generator;
use super::options::Search;
use super::report::{Circumstances, LoadReport, Phase, Settings, WarmUp, answers};
use super::tally::Tally;

/// The name of a step of the search.
pub const STEP: &str = "step";
/// How often a name is asked for in the warm-up before it is given up.
const WARM_UP_PASSES: usize = 3;
/// Names without an answer that a report shows.
const EXAMPLES: usize = 5;

/// What is needed to run phases.
pub struct Session<'n> {
    /// The generator.
    pub generator: Generator,
    /// The port.
    pub nic: &'n dyn Nic,
    /// Templates that the warm-up asks for.
    pub wanted: Vec<u32>,
    /// Queries under way in the warm-up.
    pub window: usize,
    /// The server's process.
    pub server_pid: Option<u32>,
    /// Stretches of the plots.
    pub slice: Duration,
    /// The report so far.
    pub report: LoadReport,
}

impl Session<'_> {
    /// Asks for every name until it is answered.
    pub fn warm_up(&mut self) {
        let clock = self.generator.clock();
        let start = clock.now();
        let mut tally = Tally::new(start, 0, u64::MAX / 2, clock.ticks_per_second());
        for _ in 0..WARM_UP_PASSES {
            self.generator.warm_up(&self.wanted, self.window, &mut tally);
        }
        let templates = &self.generator.checker().templates;
        let unanswered: Vec<u32> =
            self.wanted.iter().copied().filter(|number| !templates.has_image(*number)).collect();
        let example = |number: &u32| {
            let template = templates.get(*number);
            let payload = templates.payload(template);
            payload.get(12..template.question_end().saturating_sub(4)).map(readable)
        };
        let warm_up = WarmUp {
            names: self.wanted.len(),
            unanswered: unanswered.len(),
            examples: unanswered.iter().take(EXAMPLES).filter_map(example).collect(),
            seconds: clock.duration_of(clock.now() - start).as_secs_f64(),
            answers: answers(&tally),
        };
        if warm_up.unanswered > 0 {
            self.report.problems.push(format!(
                "warm-up: {} of {} names got no right answer, {} among them; answers: {:?}",
                warm_up.unanswered,
                warm_up.names,
                warm_up.examples.join(" "),
                warm_up.answers
            ));
        }
        self.report.warm_up = Some(warm_up);
    }

    /// Offers one rate and keeps the figures. `counts` says whether what is wrong with them is wrong with the
    /// whole report.
    pub fn phase(&mut self, name: &str, rate: u64, seconds: f64, counts: bool) -> Phase {
        let pid = std::process::id();
        let port = self.nic.stats();
        let (server, own) = (self.server_pid.and_then(CpuTime::of), CpuTime::of(pid));
        let full_checks = self.generator.checker().full_checks();
        let tally = self.generator.offer(rate, Duration::from_secs_f64(seconds), self.slice);
        let since =
            |pid: Option<u32>, before: Option<CpuTime>| Some(CpuTime::of(pid?)?.since(before?));
        let around = Circumstances {
            name: name.to_owned(),
            rate,
            refused_is_offered: self.report.settings.refused_is_offered,
            full_checks: self.generator.checker().full_checks() - full_checks,
            port: PortCounters::between(port, self.nic.stats()),
            server_cpu: since(self.server_pid, server),
            own_cpu: since(Some(pid), own),
        };
        let clock: Clock = self.generator.clock();
        let phase = Phase::new(&tally, clock, self.slice.as_secs_f64(), around);
        if counts {
            self.report.problems.extend(phase.problems.iter().cloned());
            self.report.valid &= phase.valid;
        } else if phase.has_failed() {
            self.report.problems.extend(phase.problems.iter().cloned());
        }
        self.report.phases.push(phase.clone());
        phase
    }

    /// Searches for the ceiling.
    pub fn ceiling(&mut self, search: &Search) -> Ceiling {
        let bounds = Bounds {
            start: search.start_rate,
            max: search.max_rate,
            precision: search.precision,
            tries: search.tries,
        };
        let found = ceiling::search(bounds, |rate| {
            if self.generator.is_stopped() {
                return ceiling::Step::Failed;
            }
            let phase = self.phase(STEP, rate, search.step_seconds, false);
            phase.step(search.max_loss, search.max_p99_us)
        });
        if found.rate == 0 {
            self.report.valid = false;
            self.report.problems.push(format!("ceiling: not even {MIN_RATE} queries/s passed"));
        }
        self.report.ceiling = Some(found.clone());
        found
    }

    /// Ceiling, then a share of it that the server bears, then one that it does not.
    pub fn phases(&mut self, search: &Search, seconds: f64, sustained: f64, overload: f64) {
        let ceiling = self.ceiling(search).rate as f64;
        for (name, share) in [("sustained", sustained), ("overload", overload)] {
            let rate = floor_u64(ceiling * share);
            if rate > 0 && !self.generator.is_stopped() {
                self.phase(name, rate, seconds, true);
            }
        }
    }

    /// Whether some run has wrong answers or figures that contradict each other, or the warm-up found no
    /// answer at all.
    pub fn has_failed(&self) -> bool {
        let silent = |warm_up: &WarmUp| warm_up.names > 0 && warm_up.unanswered == warm_up.names;
        self.report.phases.iter().any(Phase::has_failed)
            || self.report.warm_up.as_ref().is_some_and(silent)
            || self.generator.is_stopped()
    }
}

/// A report without results.
pub fn empty_report(settings: Settings) -> LoadReport {
    LoadReport {
        program: format!("pmdns-load {}", env!("CARGO_PKG_VERSION")),
        settings,
        warm_up: None,
        ceiling: None,
        phases: Vec::new(),
        valid: true,
        problems: Vec::new(),
    }
}
