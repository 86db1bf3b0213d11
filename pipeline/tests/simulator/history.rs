//! One seed is one history. In its storm everything goes wrong. In the calm nothing does, and everybody has to be served. At the
//! end everything has to be back where it was.

use std::collections::VecDeque;
use std::time::Duration;

use pmdns_hierarchy::Rng;
use pmdns_nics::Frame;
use pmdns_stages::query_sources::SourceIndex;

use crate::cache::Dump;
use crate::checks::{check_end, check_step, check_sums};
use crate::clients::{Ask, Clients, Promise};
use crate::internet::Internet;
use crate::lookups::Lookups;
use crate::operator::{Files, Operator};
use crate::setup::Start;
use crate::stepping::Stepping;
use crate::trace::Trace;

/// Turns after a jump of the clock in which answers leave that were made before.
const JUMP_TURNS: u64 = 200;
/// Steps between two looks at the sums of all counters.
const LOOK: u64 = 20;
/// Turns in which everything stops.
const STOP_TURNS: usize = 5_000;

/// A history, as far as it has come.
pub(crate) struct History {
    pub(crate) line: Stepping,
    pub(crate) internet: Internet,
    pub(crate) clients: Clients,
    pub(crate) start: Start,
    pub(crate) trace: Trace,
    pub(super) chance: Rng,
    pub(super) operator: Option<Operator>,
    lookups: Lookups,
    pub(super) dump: Option<Dump>,
    /// The thread that does not turn: a worker, or one of the slow path behind them. And until when.
    pub(super) stalled: Option<(usize, Duration)>,
    /// What clients will ask once more.
    pub(super) again: VecDeque<Ask>,
    /// Frames that nobody gives back.
    pub(super) kept: Vec<Frame>,
    /// UDP ports of query sources that somebody else has.
    pub(super) claimed: Vec<(SourceIndex, u16)>,
    /// Forged replies that come in each step.
    pub(super) sprays: usize,
    /// How far the clock has jumped of late, in seconds, and the turn of the last jump.
    pub(super) jump: (u32, u64),
    /// Turns that a worker takes in a step, if it finds something to do.
    pub(super) diligence: usize,
    pub(super) turns: u64,
    steps: u64,
}

/// What has come of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Stands for the whole trace.
    pub(crate) hash: u64,
    /// Queries that clients sent.
    pub(crate) queries: u64,
    /// Those that were answered, and with something.
    pub(crate) answered: u64,
    pub(crate) succeeded: u64,
    /// Those that the line has decided about as a lookup said just before.
    pub(crate) looked_up: [u64; 2],
}

/// Lives through the history of a seed.
pub(crate) fn run(seed: u64, is_printed: bool) -> Result<Summary, String> {
    let mut history = History::begin(seed, Trace::new(is_printed));
    if is_printed {
        // Two traces of a seed are the same, but the names of files are not.
        let process = format!("simulator-{}", std::process::id());
        println!("{}", history.start.text.replace(&process, "simulator"));
    }
    let lived = history.live();
    if is_printed && lived.is_err() {
        println!("{}", counters(&history.line));
    }
    lived
}

/// What the slow path has counted.
fn counters(line: &Stepping) -> String {
    let mut text = String::new();
    for (number, thread) in line.counters().enumerate() {
        let counted = thread.named().into_iter().filter(|counted| counted.value > 0);
        let counts: Vec<String> =
            counted.map(|counted| format!("{} {}", counted.name, counted.value)).collect();
        text += &format!("thread {number}: {}\n", counts.join(", "));
    }
    text
}

impl History {
    fn begin(seed: u64, trace: Trace) -> Self {
        let mut chance = Rng::new(seed);
        let files = (chance.below(4) == 0).then(Files::new);
        let start = Start::draw(seed, &mut chance, files.as_ref());
        let mut line = Stepping::new(&start.config, &start.rig);
        let operator = files.map(|files| {
            Operator::new(files, &start.text, &start.config, &mut line, trace.clone())
        });
        let servers = start.servers.clone();
        Self {
            internet: Internet::new(servers, Rng::new(chance.number()), trace.clone()),
            clients: Clients::new(trace.clone()),
            lookups: Lookups::beside(&line.rig),
            line,
            start,
            trace,
            chance,
            operator,
            dump: None,
            stalled: None,
            kept: Vec::new(),
            claimed: Vec::new(),
            sprays: 0,
            jump: (0, 0),
            diligence: 1,
            turns: 0,
            steps: 0,
            again: VecDeque::new(),
        }
    }

    pub(super) fn note(&self, what: std::fmt::Arguments<'_>) {
        self.trace.note(self.line.now(), what);
    }

    fn live(&mut self) -> Result<Summary, String> {
        self.lose_first_datagrams("0")?;
        self.storm()?;
        // Some are stopped in the middle of it.
        if self.chance.below(6) > 0 {
            self.recover()?;
            self.lose_first_datagrams("r")?;
            self.calm()?;
            self.come_to_rest()?;
        }
        self.stop()
    }

    /// Lets time pass, in steps of so long.
    pub(super) fn pass(&mut self, duration: Duration, step: Duration) -> Result<(), String> {
        let end = self.line.now() + duration;
        while self.line.now() < end {
            self.step(step)?;
        }
        Ok(())
    }

    pub(super) fn ask(&mut self, ask: Ask) {
        self.clients.ask(&mut self.line, self.start.queues, ask);
    }

    /// The end.
    fn stop(&mut self) -> Result<Summary, String> {
        self.note(format_args!("stop"));
        self.kept.clear();
        if !self.line.stop(STOP_TURNS, &mut self.internet) {
            return Err("not everything ends".into());
        }
        self.take_answers()?;
        check_end(self)?;
        let Clients { sent, answered, succeeded, .. } = self.clients;
        let (hash, looked_up) = (self.trace.hash(), self.lookups.counts());
        Ok(Summary { hash, queries: sent, answered, succeeded, looked_up })
    }

    /// Lets so much time pass, and each thread take a turn.
    pub(super) fn step(&mut self, duration: Duration) -> Result<(), String> {
        self.line.time.advance(duration);
        let now = self.line.now();
        self.internet.now = now;
        if let Some(operator) = &mut self.operator {
            operator.turn(now);
        }
        self.stalled = self.stalled.filter(|(_, until)| *until > now);
        let stalled = self.stalled.map(|(thread, _)| thread);
        if stalled.is_none_or(|thread| !self.line.resolves(thread)) {
            self.line.receive(&mut self.internet);
        }
        (0..self.sprays).for_each(|_| self.forge_reply());
        // Any of them may be the first.
        let threads = self.line.threads();
        let first = self.chance.below(threads);
        let threads = (0..threads).map(|number| (first + number) % threads);
        for thread in threads.filter(|one| Some(*one) != stalled) {
            self.line.turn(thread, self.diligence, &mut self.internet);
        }
        self.turns += u64::from(stalled.is_none());
        self.take_answers()?;
        self.clients.look_for_late(now, self.turns, self.start.deadline());
        self.look_at_dump()?;
        self.lookups.check()?;
        check_step(self)?;
        self.steps += 1;
        if self.steps.is_multiple_of(LOOK) { check_sums(self) } else { Ok(()) }
    }

    fn take_answers(&mut self) -> Result<(), String> {
        let (now, promise) = (self.line.now(), self.promise());
        let blocks = self.operator.as_ref().and_then(|operator| operator.blocks.as_ref());
        let mut frames = self.line.sent(&mut self.internet).into_iter();
        frames.try_for_each(|frame| self.clients.take(&frame, now, &promise, blocks))
    }

    /// How far the clock has jumped of late, in seconds. Answers that are made have a way to go.
    pub(super) fn jumped(&self) -> u32 {
        let (seconds, turn) = self.jump;
        if self.turns < turn + JUMP_TURNS { seconds } else { 0 }
    }

    fn promise(&self) -> Promise {
        Promise {
            oldest: self.start.oldest() + self.jumped(),
            versions: self.operator.as_ref().map_or((0, 0), |operator| operator.versions),
            is_signed: self.start.is_signed,
            has_lab: self.start.has_lab,
        }
    }

    pub(super) fn look_at_dump(&mut self) -> Result<(), String> {
        let (now, promise) = (self.line.now(), self.promise());
        let Some(dump) = &mut self.dump else { return Ok(()) };
        dump.check(&self.line, now, &promise)
    }
}
