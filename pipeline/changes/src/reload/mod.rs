//! Reload, without I/O: what is to be read next, and who is told what came of it.
//!
//! ```text
//!           begin          take_read           give_back
//!  idle ───────────► reading ───────► lent ─────────────► idle, and who asked is told
//!                       └── an error: who asked is told, and what holds stays
//! ```
//!
//! It is told the time, what a thread has read, and when every core has given the old rules back. It says what to do by
//! [outputs](ReloadOutput). One thing is under way at a time: a reload, or a change of an operator. Changes come first, because
//! they are quick.

mod news;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use pmdns_config::Config;
use pmdns_control::Refusal;

use crate::overlay::{Changed, ConfigChange, Overlay};
use crate::{Author, JournalLine, Refused};
use news::News;

/// Callers that may wait for the next reload, and changes that may wait.
const MAX_ASKERS: usize = 16;

/// What is read next.
#[derive(Clone, Debug)]
pub enum ReloadSource {
    /// The file, and these changes.
    File(Overlay),
    /// The configuration in use, as files that it names have changed.
    Latest(Box<Config>),
    /// Another one, of which only upstreams differ.
    Upstreams(Box<Config>),
}

/// What to do.
#[derive(Debug)]
pub enum ReloadOutput<A> {
    /// Read from here. What came of it is given back by [`Reload::take_read`].
    Read {
        /// Where from.
        source: ReloadSource,
        /// A file that is to be removed before.
        stale: Option<PathBuf>,
    },
    /// Remove a file that nobody needs any more.
    Clear(PathBuf),
    /// Keep this line. The next caller of [`ReloadOutput::Changed`] waits for the disk.
    Keep(JournalLine),
    /// A caller's change is in use, and this says what it was.
    Changed(A, String),
    /// The rules are those that were read. These callers have asked for that.
    Reloaded(Vec<A>, String),
    /// What these callers have asked for is not done.
    Refused(Vec<A>, Refused),
}

/// What was read.
#[derive(Debug)]
pub struct ReloadResult {
    /// The configuration that is in use from now on.
    pub config: Config,
    /// The same without the changes of run time, if it was read anew.
    pub base: Option<Config>,
    /// A sentence about the rules.
    pub done: String,
}

/// What is under way.
#[derive(Debug)]
enum Work<A> {
    Reload {
        askers: Vec<A>,
        started: Instant,
    },
    Change {
        asker: A,
        overlay: Overlay,
        done: String,
        line: Option<JournalLine>,
        left: Option<PathBuf>,
    },
}

/// How far it has come.
#[derive(Debug)]
enum Stage<A> {
    Idle,
    /// The files are being read.
    Reading(Work<A>),
    /// Not every thread has given its old rules back.
    Lent(Work<A>, String),
}

/// Reloads and changes, one at a time. Callers are of the type `A`.
#[derive(Debug)]
pub struct Reload<A> {
    stage: Stage<A>,
    /// A reload was requested, and the callers that wait for it.
    asked: bool,
    askers: Vec<A>,
    /// The changes that wait.
    changes: VecDeque<(ConfigChange, A, Author)>,
    news: News,
    /// The configuration in use, the same without changes of run time, and these.
    latest: Arc<Config>,
    base: Arc<Config>,
    overlay: Overlay,
    outputs: VecDeque<ReloadOutput<A>>,
}

impl<A> Reload<A> {
    /// Nothing is under way. The configuration in use is that of `base` with the changes of `overlay`.
    pub fn new(latest: Config, base: Config, overlay: Overlay) -> Self {
        Self {
            stage: Stage::Idle,
            asked: false,
            askers: Vec::new(),
            changes: VecDeque::new(),
            news: News::default(),
            latest: Arc::new(latest),
            base: Arc::new(base),
            overlay,
            outputs: VecDeque::new(),
        }
    }

    /// The configuration that the rules in use were made from.
    pub fn config(&self) -> &Arc<Config> {
        &self.latest
    }

    /// The changes of operators that hold.
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// Requests a reload. If one is under way, another follows it, because files may have changed after that one read
    /// them.
    pub fn ask(&mut self) {
        self.asked = true;
    }

    /// The same, for a caller that waits for the result.
    pub fn ask_for(&mut self, asker: A) {
        if self.askers.len() == MAX_ASKERS {
            return self.refuse(asker, Refusal::Busy, "too many wait for a reload already");
        }
        self.askers.push(asker);
        self.asked = true;
    }

    /// Changes the configuration in use, for a caller that waits for the result.
    pub fn change(&mut self, change: ConfigChange, asker: A, author: Author) {
        if self.changes.len() == MAX_ASKERS {
            return self.refuse(asker, Refusal::Busy, "too many changes wait already");
        }
        self.changes.push_back((change, asker, author));
    }

    /// Has the rules made anew from the configuration in use, because one of its files has changed. If that fails, it
    /// is repeated until a reload has succeeded.
    pub fn note_news(&mut self) {
        self.news.is_fresh = true;
    }

    /// Whether no reload is under way or wanted, so that the rules of the files as they were read last hold everywhere.
    pub fn is_over(&self) -> bool {
        self.is_idle() && !self.news.is_owed
    }

    /// Whether no reload is under way or about to begin, so that nobody waits for one. News may be owed for long, and nobody
    /// waits for them.
    pub fn is_idle(&self) -> bool {
        let is_wanted = self.asked || self.news.is_fresh;
        matches!(self.stage, Stage::Idle) && !is_wanted && self.changes.is_empty()
    }

    /// Whether files are being read.
    pub fn is_reading(&self) -> bool {
        matches!(self.stage, Stage::Reading(_))
    }

    /// Whether rules are on their way to the cores.
    pub fn is_lent(&self) -> bool {
        matches!(self.stage, Stage::Lent(..))
    }

    /// What is to be done next.
    pub fn next_output(&mut self) -> Option<ReloadOutput<A>> {
        self.outputs.pop_front()
    }

    /// Begins what is next, if nothing is under way.
    pub fn turn(&mut self, now: Instant) {
        while matches!(self.stage, Stage::Idle) {
            let Some((change, asker, author)) = self.changes.pop_front() else { break };
            self.begin_change(&change, asker, &author);
        }
        if matches!(self.stage, Stage::Idle) && (self.asked || self.news.are_due(now)) {
            self.news.begin(now);
            let source = match std::mem::take(&mut self.asked) {
                true => ReloadSource::File(self.overlay.clone()),
                false => ReloadSource::Latest(Config::clone(&self.latest).into()),
            };
            let askers = std::mem::take(&mut self.askers);
            self.read(Work::Reload { askers, started: now }, source, None);
        }
    }

    fn begin_change(&mut self, change: &ConfigChange, asker: A, author: &Author) {
        match self.overlay.with(change, &self.base, author) {
            Ok(Changed { overlay, config, done, line, stale, left }) => {
                let source = match change {
                    ConfigChange::Upstream(_) => ReloadSource::Upstreams(config.into()),
                    ConfigChange::List(_) => ReloadSource::Latest(config.into()),
                };
                self.read(Work::Change { asker, overlay, done, line, left }, source, stale);
            }
            Err((refusal, why)) => self.refuse(asker, refusal, why),
        }
    }

    fn read(&mut self, work: Work<A>, source: ReloadSource, stale: Option<PathBuf>) {
        self.stage = Stage::Reading(work);
        self.outputs.push_back(ReloadOutput::Read { source, stale });
    }

    /// What was read holds from now on, and is to be lent; the old rules have come back. `true`: another configuration is in use.
    /// An error changes nothing.
    pub fn take_read(&mut self, read: Result<ReloadResult, String>, now: Instant) -> bool {
        let work = match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Reading(work) => work,
            other => {
                debug_assert!(false, "nothing is being read");
                self.stage = other;
                return false;
            }
        };
        let ReloadResult { config, base, done } = match read {
            Ok(read) => read,
            Err(error) => {
                self.fail(work, error, now);
                return false;
            }
        };
        let mut is_other = base.is_some();
        self.latest = Arc::new(config);
        self.base = base.map_or_else(|| Arc::clone(&self.base), Arc::new);
        let work = match work {
            Work::Change { asker, overlay, done, line, left } => {
                is_other = true;
                self.overlay = overlay.clone();
                self.outputs.extend(left.map(ReloadOutput::Clear));
                self.outputs.extend(line.map(ReloadOutput::Keep));
                Work::Change { asker, overlay, done, line: None, left: None }
            }
            reload @ Work::Reload { .. } => reload,
        };
        self.stage = Stage::Lent(work, done);
        is_other
    }

    /// What was read is for the next process: nothing changes here. Who asked is told so by `text`.
    pub fn leave_to_next(&mut self, text: String, now: Instant) {
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Reading(Work::Reload { askers, .. }) => {
                // If that process does not come, news of files are taken from what is in use.
                self.news.fail(now);
                tracing::info!("not reloaded: {text}");
                self.outputs.push_back(ReloadOutput::Reloaded(askers, text));
            }
            other => {
                debug_assert!(false, "no reload is being read");
                self.stage = other;
            }
        }
    }

    /// Every thread has given back the rules that it had before.
    pub fn give_back(&mut self, now: Instant) {
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Lent(Work::Reload { askers, started }, text) => {
                self.news.settle();
                let seconds = now.duration_since(started).as_secs_f64();
                tracing::info!("reloaded in {seconds:.1} s: {text}");
                self.outputs.push_back(ReloadOutput::Reloaded(askers, text));
            }
            Stage::Lent(Work::Change { asker, done, .. }, _) => {
                self.outputs.push_back(ReloadOutput::Changed(asker, done));
            }
            other => {
                debug_assert!(false, "nothing is lent");
                self.stage = other;
            }
        }
    }

    fn fail(&mut self, work: Work<A>, error: String, now: Instant) {
        let askers = match work {
            Work::Change { asker, .. } => {
                tracing::error!("not changed: {error}");
                vec![asker]
            }
            Work::Reload { askers, .. } => {
                self.news.fail(now);
                tracing::error!("not reloaded, the rules in use stay: {error}");
                askers
            }
        };
        self.outputs.push_back(ReloadOutput::Refused(askers, (Refusal::Unable, error)));
    }

    fn refuse(&mut self, asker: A, refusal: Refusal, why: impl Into<String>) {
        self.outputs.push_back(ReloadOutput::Refused(vec![asker], (refusal, why.into())));
    }
}

#[cfg(test)]
mod simulation;
