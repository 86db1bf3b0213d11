//! The process that keeps others running: it starts one that serves, and the next one when that crashes or asks for it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::notice::Notice;

/// A process that has said nothing for so long does not work any more.
pub const SILENCE: Duration = Duration::from_secs(10);
/// The longest pause before a process that has crashed again is replaced.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// The pause after the second crash in a row. Each one more doubles it.
const PAUSE: Duration = Duration::from_millis(100);
/// The crash of a process that has served for so long is the first one of a row.
const LONG: Duration = Duration::from_secs(30);
/// After so many crashes in a row the cause may be the cache.
const MOST_WITH_CACHE: u32 = 3;

/// The number of a process.
pub type ProcessId = u32;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeeperOutput {
    /// ChildStart a process, and say so by [`Keeper::started`].
    Start(ChildStart),
    /// Tell the manager of this service.
    Report(KeeperEvent),
    /// Send a signal.
    Signal(ProcessId, KeeperSignal),
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
}

/// A process that runs.
#[derive(Debug)]
struct Child {
    id: ProcessId,
    is_ready: bool,
    /// It writes what it has to write, and may take its time.
    is_stopping: bool,
    started: Instant,
    heard: Instant,
}

impl Child {
    /// Whether it says again and again that it works.
    fn can_hang(&self) -> bool {
        self.is_ready && !self.is_stopping
    }
}

/// The keeper.
#[derive(Debug, Default)]
pub struct Keeper {
    /// In the order of their start: at most one that serves, and the one that takes over from it.
    children: Vec<Child>,
    is_starting: bool,
    is_stopping: bool,
    has_served: bool,
    /// Crashes in a row, and those of them that the cache may have caused.
    crashes: u32,
    faults: u32,
    /// The process that has asked for the next one.
    wanted_by: Option<ProcessId>,
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

    /// Whether what this process says counts. What it wants to have kept is kept.
    pub fn knows(&self, id: ProcessId) -> bool {
        self.children.iter().any(|child| child.id == id)
    }

    /// A process was started, or why not.
    pub fn started(&mut self, id: Result<ProcessId, String>, now: Instant) {
        self.is_starting = false;
        match id {
            Ok(id) => {
                self.children.push(Child {
                    id,
                    is_ready: false,
                    is_stopping: false,
                    started: now,
                    heard: now,
                });
                if self.is_stopping {
                    self.signal(id, KeeperSignal::Terminate);
                }
            }
            Err(_) if !self.children.is_empty() => {}
            Err(_) if self.has_served && !self.is_stopping => self.start_later(now),
            Err(_) => self.outputs.push_back(KeeperOutput::End(1)),
        }
    }

    /// A process says something.
    pub fn receive(&mut self, id: ProcessId, notice: &Notice, now: Instant) {
        let Some(child) = self.children.iter_mut().find(|child| child.id == id) else { return };
        child.heard = now;
        let is_new = notice.is_ready && !child.is_ready;
        child.is_ready |= notice.is_ready;
        child.is_stopping |= notice.is_stopping;
        let serves = self.serving() == Some(id);
        if is_new {
            self.has_served = true;
            self.report(KeeperEvent::Ready);
        }
        if notice.is_alive && serves {
            self.report(KeeperEvent::Alive);
        }
        if notice.wants_successor && serves {
            self.wanted_by = Some(id);
            self.start_successor();
        }
    }

    /// A process has ended.
    pub fn ended(&mut self, id: ProcessId, end: ChildEnd, now: Instant) {
        let Some(place) = self.children.iter().position(|child| child.id == id) else { return };
        let child = self.children.remove(place);
        // Another one serves, or is about to.
        if !self.children.is_empty() || self.is_starting {
            return self.start_successor();
        }
        if self.is_stopping || end == ChildEnd::Code(0) || !self.has_served {
            return self.outputs.push_back(KeeperOutput::End(match end {
                ChildEnd::Code(code) => code,
                ChildEnd::Fault | ChildEnd::Killed => 1,
            }));
        }
        if child.is_ready && now.saturating_duration_since(child.started) >= LONG {
            (self.crashes, self.faults) = (0, 0);
        }
        self.crashes = self.crashes.saturating_add(1);
        self.faults = self.faults.saturating_add(u32::from(end != ChildEnd::Killed));
        self.start_later(now);
    }

    /// Starts the process that was asked for, once the one before has ended that the asker has taken over from.
    fn start_successor(&mut self) {
        let alone = self.children.first().filter(|_| self.children.len() == 1);
        if alone.is_some_and(|child| self.wanted_by == Some(child.id)) && !self.is_stopping {
            self.wanted_by = None;
            self.start(ChildStart::Plain);
        }
    }

    /// Does what is due.
    pub fn turn(&mut self, now: Instant) {
        if self.due.take_if(|due| *due <= now).is_some() {
            let is_cause_kept = self.faults >= MOST_WITH_CACHE;
            self.start(if is_cause_kept { ChildStart::WithoutCache } else { ChildStart::WithKept });
        }
        let silent = |child: &&mut Child| {
            child.can_hang() && now.saturating_duration_since(child.heard) >= SILENCE
        };
        let once = |child: &mut Child| {
            // It has as long to end.
            child.heard = now;
            child.id
        };
        let silent: Vec<_> = self.children.iter_mut().filter(silent).map(once).collect();
        for id in silent {
            self.signal(id, KeeperSignal::Abort);
        }
    }

    /// When something is due.
    pub fn next_due(&self) -> Option<Instant> {
        let ready = self.children.iter().filter(|child| child.can_hang());
        self.due.into_iter().chain(ready.map(|child| child.heard + SILENCE)).min()
    }

    /// Every process is to end, and this one then.
    pub fn stop(&mut self) {
        if !self.is_stopping {
            self.is_stopping = true;
            self.report(KeeperEvent::Stopping);
        }
        self.due = None;
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
        self.children.iter().rev().find(|child| child.is_ready).map(|child| child.id)
    }

    fn start(&mut self, start: ChildStart) {
        self.is_starting = true;
        self.outputs.push_back(KeeperOutput::Start(start));
    }

    fn start_later(&mut self, now: Instant) {
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
