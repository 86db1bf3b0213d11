//! The process that keeps others running: it starts one that serves, and the next one when that crashes or asks for it.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use crate::notice::Notice;

/// A process that has said nothing for so long does not work any more.
pub const SILENCE: Duration = Duration::from_secs(10);
/// The longest pause before a process that has crashed again is replaced.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// The pause after the second crash in a row. Each one more doubles it.
const PAUSE: Duration = Duration::from_millis(100);
/// After the crash of a process that has served for so long there is no pause: it would cost more than the crash.
const SERVED: Duration = Duration::from_secs(1);
/// The crash of a process that has served for so long says nothing about what is kept: it is the first one of a row.
const LONG: Duration = Duration::from_secs(30);
/// After so many crashes in a row the cause may be the cache. After twice as many it may be anything that is kept.
const MOST_WITH_CACHE: u32 = 3;
/// The pause before another process is to take over, once one has failed.
const REST: Duration = Duration::from_secs(1);
/// A process that has not become ready after so long never will: by then the one before has given it up.
const MAX_START: Duration = Duration::from_secs(660);
/// While no process serves, one at its start has so long. Each one that was too slow doubles it, up to the time above.
const START: Duration = Duration::from_secs(40);
/// For so long the manager of this service is told that all is well, though no process serves.
const MAX_ABSENCE: Duration = Duration::from_secs(120);

/// The number of a process.
pub type ProcessId = u32;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeeperOutput {
    /// Start a process, and say so by [`Keeper::started`].
    Start(ChildStart),
    /// Tell the manager of this service.
    Report(KeeperEvent),
    /// Send a signal.
    Signal(ProcessId, KeeperSignal),
    /// Tell this process why the next one does not take over.
    Tell(ProcessId, String),
    /// End this process, with the exit code of the last one.
    End(u8),
}

/// What a process begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildStart {
    /// Nothing. If one runs, it takes over from that.
    Plain,
    /// What the one before has kept. It has crashed.
    WithKept,
    /// The same, without the cache: it has crashed again and again.
    WithoutCache,
    /// Nothing, and nothing is kept any more: that has not helped either.
    WithoutKept,
}

/// What the manager of this service wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeeperEvent {
    /// A process serves.
    Ready,
    /// The last process is about to end.
    Stopping,
    /// The process that serves works.
    Alive,
}

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeeperSignal {
    /// Answer who waits, and end.
    Terminate,
    /// Read the configuration anew.
    Reload,
    /// It does not work any more: end at once.
    Abort,
    /// It has not ended by that.
    Kill,
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildEnd {
    /// With an exit code.
    Code(u8),
    /// By a fault of its own.
    Fault,
    /// Killed from outside: by an operator, or because memory was short (SIGKILL).
    Killed,
    /// By SIGTERM or SIGINT, before it listened to them.
    Terminated,
}

impl fmt::Display for ChildEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "the next process has ended with exit code {code}"),
            Self::Fault => f.write_str("the next process has crashed"),
            Self::Killed | Self::Terminated => f.write_str("the next process was killed"),
        }
    }
}

/// A process that runs.
#[derive(Debug)]
struct Child {
    id: ProcessId,
    /// What it has said last of its state.
    status: Option<String>,
    /// Since when it serves.
    ready: Option<Instant>,
    /// It writes what it has to write, and may take its time.
    is_stopping: bool,
    /// It was told to end, for it does not work any more.
    is_aborted: bool,
    /// How the process has ended that had taken over from it.
    left_by: Option<ChildEnd>,
    /// When it is ended, unless it is ready by then.
    late: Instant,
    heard: Instant,
}

impl Child {
    fn new(id: ProcessId, patience: Duration, now: Instant) -> Self {
        let (status, ready, left_by) = (None, None, None);
        let (is_stopping, is_aborted, late) = (false, false, now + patience);
        Self { id, status, ready, is_stopping, is_aborted, left_by, late, heard: now }
    }

    /// When it is ended, if nothing is heard of it until then. One that serves says again and again that it works.
    fn deadline(&self) -> Option<Instant> {
        match self.ready {
            _ if self.is_stopping => None,
            None if !self.is_aborted => Some(self.late),
            _ => Some(self.heard + SILENCE),
        }
    }
}

/// No process serves, after one has.
#[derive(Debug)]
struct Absence {
    since: Instant,
    /// When the manager of this service is told next that somebody works.
    due: Instant,
}

/// The keeper.
#[derive(Debug, Default)]
pub struct Keeper {
    /// In the order of their start: at most one that serves, and the one that takes over from it.
    children: Vec<Child>,
    is_starting: bool,
    is_stopping: bool,
    has_served: bool,
    absence: Option<Absence>,
    /// Crashes in a row of processes that have hardly served.
    crashes: u32,
    /// Crashes in a row that come from inside, and those of them that the cache may have caused.
    faults: u32,
    cache_faults: u32,
    /// Processes in a row that were too slow at their start while none served.
    late_starts: u32,
    /// The process that has asked for the next one.
    wanted_by: Option<ProcessId>,
    /// Until when none takes over, for one has failed.
    rests_until: Option<Instant>,
    /// When the next process is started.
    due: Option<Instant>,
    outputs: VecDeque<KeeperOutput>,
}

impl Keeper {
    /// It starts the first process. What an earlier keeper has kept goes with it.
    pub fn new(has_kept: bool) -> Self {
        let mut keeper = Self::default();
        keeper.start(if has_kept { ChildStart::WithKept } else { ChildStart::Plain });
        keeper
    }

    /// What is to be done next.
    pub fn next_output(&mut self) -> Option<KeeperOutput> {
        self.outputs.pop_front()
    }

    /// A process was started, or why not.
    pub fn started(&mut self, id: Result<ProcessId, String>, now: Instant) {
        self.is_starting = false;
        match id {
            Ok(id) => {
                self.children.push(Child::new(id, self.patience(), now));
                if self.is_stopping {
                    self.signal(id, KeeperSignal::Terminate);
                }
            }
            Err(why) if !self.children.is_empty() => {
                self.rests_until = Some(now + REST);
                self.report_failure(why);
            }
            Err(_) if self.has_served && !self.is_stopping => self.start_later(now),
            Err(_) => self.outputs.push_back(KeeperOutput::End(1)),
        }
    }

    /// A process says something.
    pub fn receive(&mut self, id: ProcessId, notice: &Notice, now: Instant) {
        let Some(child) = self.children.iter_mut().find(|child| child.id == id) else { return };
        child.heard = now;
        let is_new = notice.is_ready && child.ready.is_none();
        if is_new {
            child.ready = Some(now);
        }
        child.is_stopping |= notice.is_stopping;
        child.status = notice.status.clone().or_else(|| child.status.take());
        let serves = self.serving() == Some(id);
        if is_new {
            self.has_served = true;
            (self.absence, self.late_starts) = (None, 0);
            self.report(KeeperEvent::Ready);
        }
        if notice.is_alive && serves {
            self.report(KeeperEvent::Alive);
        }
        if notice.wants_successor && serves {
            self.wanted_by = Some(id);
            self.start_successor(now);
        }
    }

    /// A process has ended.
    pub fn ended(&mut self, id: ProcessId, end: ChildEnd, now: Instant) {
        let Some(place) = self.children.iter().position(|child| child.id == id) else { return };
        let child = self.children.remove(place);
        let end = child.left_by.unwrap_or(end);
        if child.ready.is_some() && self.serving().is_none() && !self.is_stopping {
            self.absence = Some(Absence { since: now, due: now });
            // Nobody serves until they do.
            let late = now + self.patience();
            self.children.iter_mut().for_each(|child| child.late = child.late.min(late));
        }
        // Another one serves, or is about to.
        if !self.children.is_empty() || self.is_starting {
            let before = self.children.first_mut().filter(|_| place > 0);
            match before {
                // It ends in good order, as it has handed over; that nobody serves is no order.
                Some(before) if child.ready.is_some() && before.is_stopping => {
                    before.left_by = Some(end);
                }
                Some(_) => {
                    self.rests_until = Some(now + REST);
                    self.report_failure(match child.status {
                        _ if child.is_aborted => "the next process has not become ready".to_owned(),
                        Some(status) => status,
                        None => end.to_string(),
                    });
                }
                None => {}
            }
            return self.start_successor(now);
        }
        if self.is_stopping || end == ChildEnd::Code(0) || !self.has_served {
            return self.end(&child, end);
        }
        let served =
            child.ready.map_or(Duration::ZERO, |ready| now.saturating_duration_since(ready));
        if served >= SERVED {
            self.crashes = 0;
        }
        if served >= LONG {
            (self.faults, self.cache_faults) = (0, 0);
        }
        let is_from_outside = matches!(end, ChildEnd::Killed | ChildEnd::Terminated);
        let is_fault = child.is_aborted || !is_from_outside;
        // One that refuses to start says why, so it is not the cache.
        let is_refusal = child.ready.is_none() && matches!(end, ChildEnd::Code(_));
        self.faults = self.faults.saturating_add(u32::from(is_fault));
        self.cache_faults = self.cache_faults.saturating_add(u32::from(is_fault && !is_refusal));
        self.start_later(now);
    }

    /// Ends with the exit code of the last process. One that was told to end has done so in good order, if it had no work yet.
    fn end(&mut self, last: &Child, end: ChildEnd) {
        self.absence = None;
        let is_obedient = last.ready.is_none() || end == ChildEnd::Terminated;
        self.outputs.push_back(KeeperOutput::End(match end {
            _ if self.is_stopping && is_obedient => 0,
            ChildEnd::Code(code) => code,
            ChildEnd::Fault | ChildEnd::Killed | ChildEnd::Terminated => 1,
        }));
    }

    /// Starts the process that was asked for, once the one before has ended that the asker has taken over from.
    fn start_successor(&mut self, now: Instant) {
        if self.is_successor_due() && self.rests_until.is_none_or(|until| until <= now) {
            self.wanted_by = None;
            self.start(ChildStart::Plain);
        }
    }

    fn is_successor_due(&self) -> bool {
        let alone = self.children.first().filter(|_| self.children.len() == 1);
        let is_wanted = alone.is_some_and(|child| self.wanted_by == Some(child.id));
        is_wanted && !self.is_starting && !self.is_stopping
    }

    /// Does what is due.
    pub fn turn(&mut self, now: Instant) {
        if self.due.take_if(|due| *due <= now).is_some() {
            self.start(match () {
                () if self.faults >= 2 * MOST_WITH_CACHE => ChildStart::WithoutKept,
                () if self.cache_faults >= MOST_WITH_CACHE => ChildStart::WithoutCache,
                () => ChildStart::WithKept,
            });
        }
        self.start_successor(now);
        if let Some(absence) = self.absence.as_mut().filter(|absence| absence.due <= now) {
            absence.due = now + SILENCE / 2;
            if now.saturating_duration_since(absence.since) >= MAX_ABSENCE {
                self.absence = None;
            }
            self.report(KeeperEvent::Alive);
        }
        let silent = |child: &&mut Child| child.deadline().is_some_and(|deadline| deadline <= now);
        let late_starts = &mut self.late_starts;
        let once = |child: &mut Child| {
            *late_starts += u32::from(child.ready.is_none() && !child.is_aborted);
            // It has as long to end.
            child.heard = now;
            let signal = if child.is_aborted { KeeperSignal::Kill } else { KeeperSignal::Abort };
            child.is_aborted = true;
            (child.id, signal)
        };
        let silent: Vec<_> = self.children.iter_mut().filter(silent).map(once).collect();
        for (id, signal) in silent {
            self.signal(id, signal);
            // The manager is to wait for what follows.
            self.report(KeeperEvent::Alive);
        }
    }

    /// When something is due.
    pub fn next_due(&self) -> Option<Instant> {
        let deadlines = self.children.iter().filter_map(Child::deadline);
        let rest = self.rests_until.filter(|_| self.is_successor_due());
        let absence = self.absence.as_ref().map(|absence| absence.due);
        let others = [self.due, rest, absence].into_iter().flatten();
        others.chain(deadlines).min()
    }

    /// Every process is to end, and this one then.
    pub fn stop(&mut self) {
        if !self.is_stopping {
            self.is_stopping = true;
            self.report(KeeperEvent::Stopping);
        }
        (self.due, self.absence) = (None, None);
        if self.children.is_empty() && !self.is_starting {
            self.outputs.push_back(KeeperOutput::End(0));
        }
        let all: Vec<_> = self.children.iter().map(|child| child.id).collect();
        all.into_iter().for_each(|id| self.signal(id, KeeperSignal::Terminate));
    }

    /// The process that serves is to read its configuration anew.
    pub fn reload(&mut self) {
        if let Some(id) = self.serving() {
            self.signal(id, KeeperSignal::Reload);
        }
    }

    /// The process that serves: of two the one that came later.
    fn serving(&self) -> Option<ProcessId> {
        self.children.iter().rev().find(|child| child.ready.is_some()).map(|child| child.id)
    }

    /// How long a process may take at its start.
    fn patience(&self) -> Duration {
        match self.serving() {
            None if self.has_served => {
                START.saturating_mul(1 << self.late_starts.min(10)).min(MAX_START)
            }
            _ => MAX_START,
        }
    }

    /// Tells the process that serves why the next one does not take over.
    fn report_failure(&mut self, why: String) {
        if let Some(id) = self.serving().filter(|_| !self.is_stopping) {
            self.outputs.push_back(KeeperOutput::Tell(id, why));
        }
    }

    fn start(&mut self, start: ChildStart) {
        self.is_starting = true;
        self.outputs.push_back(KeeperOutput::Start(start));
    }

    /// Starts the next process after one more crash.
    fn start_later(&mut self, now: Instant) {
        self.crashes = self.crashes.saturating_add(1);
        let doubled = self.crashes.saturating_sub(2).min(10);
        let pause = match self.crashes {
            0 | 1 => Duration::ZERO,
            _ => PAUSE.saturating_mul(1 << doubled).min(MAX_PAUSE),
        };
        self.due = Some(now + pause);
    }

    fn report(&mut self, event: KeeperEvent) {
        self.outputs.push_back(KeeperOutput::Report(event));
    }

    fn signal(&mut self, id: ProcessId, signal: KeeperSignal) {
        self.outputs.push_back(KeeperOutput::Signal(id, signal));
    }
}

#[cfg(test)]
mod tests;
