//! Changes that operators make to the configuration while the instance runs. Its file stays as it is.
//!
//! The overlay is put over the configuration that a start or a reload has read. So a change holds over both. It only makes a
//! configuration: who reloads builds and lends the rest.

mod authored;
mod kept;
mod lists;
mod upstreams;

use std::path::PathBuf;

use pmdns_config::Config;
use pmdns_control::{NewList, NewUpstream, Refusal, UpstreamState};

use crate::upstream_override::UpstreamOverride;
use crate::{Author, JournalLine, KeptChanges, OperatorChange, Refused, Subject};
use authored::{AddedList, AuthoredChange};
pub use kept::DroppedChange;

/// The most changes that hold at a time.
pub const MAX_CHANGES: usize = 256;

/// An operator's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigChange {
    /// Of an upstream.
    Upstream(UpstreamChange),
    /// Of a block list.
    List(ListChange),
}

/// A change of one upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamChange {
    /// It is asked as well.
    Add(NewUpstream),
    /// It is not asked any more. What is under way to it is asked of others at once.
    Remove(String),
    /// It gets no new questions, or again, or another share of them.
    Set(String, UpstreamState),
}

/// A change of the block lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListChange {
    /// It is fetched, and its names are blocked.
    Add(NewList),
    /// The list of this name, which was added at run time, goes.
    Remove(String),
}

/// The changes that hold.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    upstreams: Vec<AuthoredChange<UpstreamOverride>>,
    lists: Vec<AuthoredChange<AddedList>>,
    /// What comes back with a restart.
    held_back: Vec<HeldBack>,
}

/// A change that is kept, and does not hold until the restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// The change.
    pub change: OperatorChange,
    /// Why it could not be used; `None`: something else is said until then.
    pub why: Option<String>,
}

/// A change that can be made.
#[derive(Debug)]
pub struct Changed {
    /// The changes that hold then.
    pub overlay: Overlay,
    /// The configuration with all of them.
    pub config: Config,
    /// A sentence that says it.
    pub done: String,
    /// The line that keeps the change; `None`: it is not to be kept.
    pub line: Option<JournalLine>,
    /// A file that is to be removed before: a list of the same name left it.
    pub stale: Option<PathBuf>,
    /// A file that is to be removed after, because until then it is in use.
    pub left: Option<PathBuf>,
}

/// It takes over the configuration in use: after a reload, and after a change of an operator. The list of those who do is in
/// one place, so that no new one is forgotten.
pub trait FollowConfig {
    /// Another configuration is in use from now on, with these changes of operators in it.
    fn apply_config(&mut self, config: &Config, overlay: &Overlay);
}

impl Overlay {
    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.upstreams.is_empty() && self.lists.is_empty()
    }

    /// One more change. `base` is the configuration of the file. A change of an upstream says for how long all holds that is said
    /// of that upstream.
    ///
    /// # Errors
    ///
    /// It cannot be made, and the text says what to do.
    pub fn with(
        &self,
        change: &ConfigChange,
        base: &Config,
        author: &Author,
    ) -> Result<Changed, Refused> {
        let mut overlay = self.clone();
        let (done, line) = match change {
            ConfigChange::Upstream(change) => overlay.change_upstream(change, base, author)?,
            ConfigChange::List(change) => overlay.change_list(change, base, author)?,
        };
        overlay.hold_back(self, &line, author);
        let line = Some(line).filter(|_| !author.until_restart);
        if overlay.count() > MAX_CHANGES {
            let why = format!(
                "{MAX_CHANGES} changes hold already; put them into the file, undo them, and reload"
            );
            return Err((Refusal::Unable, why));
        }
        let config = overlay.apply(base).map_err(|why| (Refusal::Unable, why))?;
        if line.is_some() {
            overlay.check_kept(self, base)?;
        }
        let (stale, left) = (overlay.list_beyond(self), self.list_beyond(&overlay));
        Ok(Changed { overlay, config, done, line, stale, left })
    }

    /// A configuration with the changes.
    ///
    /// # Errors
    ///
    /// They contradict it.
    pub fn apply(&self, base: &Config) -> Result<Config, String> {
        let mut config = base.clone();
        if !self.is_empty() {
            self.apply_upstreams(base, &mut config)?;
            self.apply_lists(&mut config);
            config.without_gone().check().map_err(|error| error.to_string())?;
        }
        Ok(config)
    }

    /// The changes that hold.
    pub fn changes(&self) -> impl Iterator<Item = OperatorChange> {
        let upstreams = self.upstreams.iter().map(OperatorChange::from);
        upstreams.chain(self.lists.iter().map(OperatorChange::from))
    }

    /// What the next process is to have: those that hold, and lists that the next start tries again.
    pub fn passing(&self) -> impl Iterator<Item = OperatorChange> {
        let unusable = self.held_back.iter().filter(|one| one.why.is_some());
        self.changes().chain(unusable.map(|one| one.change.clone()))
    }

    /// The change of a subject that holds.
    fn of(&self, subject: &Subject) -> Option<OperatorChange> {
        let key = subject.key();
        self.changes().find(|change| change.what.subject().key() == key)
    }

    /// Whether a lasting change of a subject has something to do beside what holds: it keeps what ends with the process, and takes
    /// back what is hidden until then.
    fn is_passing(&self, subject: &Subject, author: &Author) -> bool {
        let key = subject.key();
        let is_held = || self.held_back.iter().any(|one| one.change.what.subject().key() == key);
        !author.until_restart
            && (is_held() || self.of(subject).is_some_and(|change| change.author.until_restart))
    }

    /// Refuses a change that is to be kept and rests on one that ends with the process: the next start would leave it out.
    fn check_kept(&self, before: &Self, base: &Config) -> Result<(), Refused> {
        let mut lost = self.lost_by_restart(base);
        match lost.pop() {
            // The file may contradict others by now.
            Some(why) if lost.len() >= before.lost_by_restart(base).len() => {
                let why = format!("after a restart, when less holds, that would not: {why}");
                Err((Refusal::Unable, why))
            }
            _ => Ok(()),
        }
    }

    /// What is kept and would not hold after a restart.
    fn lost_by_restart(&self, base: &Config) -> Vec<String> {
        let lasting = self.changes().filter(|change| !change.author.until_restart);
        let mut kept = KeptChanges::default();
        let held_back = self.held_back.iter().map(|one| &one.change);
        let held_back = held_back.filter(|change| !change.author.until_restart).cloned();
        lasting.chain(held_back).for_each(|one| kept.take(JournalLine::Set(Box::new(one))));
        let (_, left_out) = Self::of_kept(&kept, base);
        left_out.into_iter().filter(|one| !one.is_needless).map(|one| one.why).collect()
    }

    /// Remembers what a change hides until the restart. One that is kept says all that holds then.
    fn hold_back(&mut self, before: &Self, line: &JournalLine, author: &Author) {
        let subject = match line {
            JournalLine::Set(change) => change.what.subject(),
            JournalLine::Unset(subject) => subject.clone(),
        };
        let key = subject.key();
        if !author.until_restart {
            self.held_back.retain(|one| one.change.what.subject().key() != key);
            return;
        }
        let hidden = before.of(&subject).filter(|change| !change.author.until_restart);
        self.held_back.extend(hidden.map(|change| HeldBack { change, why: None }));
    }

    fn count(&self) -> usize {
        self.upstreams.len() + self.lists.len() + self.held_back.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{author, config};

    /// What is kept after these changes; `true`: until the restart.
    fn kept(changes: &[(UpstreamChange, bool)]) -> Vec<String> {
        let base = config("[[upstream]]\naddress = \"192.0.2.1:53\"\n");
        let (mut overlay, mut kept) = (Overlay::default(), KeptChanges::default());
        for (change, until_restart) in changes {
            let author = Author { until_restart: *until_restart, ..author() };
            let change = ConfigChange::Upstream(change.clone());
            let changed = overlay.with(&change, &base, &author).unwrap();
            overlay = changed.overlay;
            changed.line.into_iter().for_each(|line| kept.take(line));
        }
        kept.iter().map(|change| change.what.to_string()).collect()
    }

    #[test]
    fn what_is_hidden_until_the_restart_can_be_taken_back_and_what_ends_then_can_be_kept() {
        let address = "192.0.2.1:53";
        let new = "192.0.2.9:53";
        let add = |address: &str| {
            UpstreamChange::Add(NewUpstream { address: address.to_owned(), group: None })
        };
        let remove = |address: &str| UpstreamChange::Remove(address.to_owned());
        let mut changes = vec![(remove(address), false), (add(address), true)];
        assert_eq!(kept(&changes), ["upstream 192.0.2.1:53 removed"]);
        changes.push((add(address), false));
        assert!(kept(&changes).is_empty());
        let mut changes = vec![(add(new), false), (remove(new), true)];
        assert_eq!(kept(&changes).len(), 1);
        changes.push((remove(new), false));
        assert!(kept(&changes).is_empty());
        assert_eq!(kept(&[(add(new), true), (add(new), false)]).len(), 1);
    }

    #[test]
    fn what_is_kept_does_not_rest_on_what_ends_with_the_process() {
        let base = config("[[upstream]]\naddress = \"192.0.2.1:53\"\n");
        let change = |overlay: &Overlay, change, until_restart| {
            let author = Author { until_restart, ..author() };
            overlay.with(&ConfigChange::Upstream(change), &base, &author)
        };
        let address = "192.0.2.9:53".to_owned();
        let add = UpstreamChange::Add(NewUpstream { address, group: None });
        let removals = ["192.0.2.1:53", "127.0.0.1:5353"]
            .map(|address| UpstreamChange::Remove(address.to_owned()));
        let [first, last] = removals;
        let overlay = change(&Overlay::default(), add, true).unwrap().overlay;
        let overlay = change(&overlay, first, false).unwrap().overlay;
        let (refusal, why) = change(&overlay, last.clone(), false).unwrap_err();
        assert!(refusal == Refusal::Unable && why.contains("after a restart"), "{why}");
        assert!(change(&overlay, last, true).is_ok(), "until then it holds");
    }
}
