//! The changes that operators have made, while the instance runs: names here, other kinds with those whom they concern.
//!
//! A change goes two ways at once. What it changes is made and lent to all threads
//! ([`Reloader`](crate::control::reload::Reloader)), and the journal keeps the change in a file. When both are
//! done the caller is answered.

mod in_use;
mod open;
mod passed;
mod ready;

use std::sync::Arc;
use std::time::SystemTime;

use pmdns_changes::names::NameTable;
use pmdns_changes::{
    Askers, Author, ChangeJournal, JournalError, JournalLine, OperatorChange, Receipt, Refused,
    Subject, Waiting, lasting,
};
use pmdns_config::Config;
use pmdns_control::answers::{Configuration, EntriesDone, InstanceState};
use pmdns_control::{Call, Caller, EntryChoice, Page, PendingCall, Refusal, Reply};
use pmdns_stages::policy::RuntimeNames;
use pmdns_stages::wire::name::Seed;

use crate::sinks::SinkCounters;
pub use in_use::{NamesInUse, OverridesInUse};
pub use open::OpenChanges;
pub use passed::{ChangesForNext, PassedChanges};
pub(crate) use ready::ready;

/// Why a change has to wait: the next process knows of the others already.
pub(crate) const TOO_LATE: &str = "another process takes over; try again in a moment";
/// Entries and records that are shown beside the configuration.
const MAX_SHOWN: usize = 1000;

/// What was said of names, and the way to the file for changes of all kinds.
#[derive(Debug)]
pub struct NameOverrides {
    names: Arc<NameTable>,
    in_use: OverridesInUse,
    journal: Option<ChangeJournal>,
    counters: Arc<SinkCounters>,
    /// Counts changes of names.
    version: u64,
    askers: Askers,
}

/// Seconds since 1970.
pub(crate) fn unix_time() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// Whose change it is that a caller makes now.
pub(crate) fn author_of<R>(caller: &Caller<R>) -> Author {
    let Caller { by, until_restart, .. } = caller;
    Author { by: by.clone(), since: unix_time(), until_restart: *until_restart }
}

impl NameOverrides {
    /// Has what holds in use, and keeps changes in the file from now on. The calling thread is woken when the disk has confirmed
    /// a change.
    ///
    /// # Errors
    ///
    /// The file cannot be used.
    pub fn start(open: OpenChanges) -> Result<Self, JournalError> {
        let OpenChanges { path, kept, is_all, names, .. } = open;
        let main = std::thread::current();
        let counters = Arc::new(SinkCounters::new());
        let counted = Arc::clone(&counters);
        let note = move |lines: usize, are_written| {
            counted.count(lines as u64, are_written);
            main.unpark();
        };
        let start = |path| ChangeJournal::start(path, kept, is_all, note);
        let journal = path.map(start).transpose()?;
        let version = u64::from(!names.is_empty());
        let (in_use, askers) = (OverridesInUse::default(), Askers::default());
        Ok(Self { names: Arc::new(names), in_use, journal, counters, version, askers })
    }

    /// Without a file: changes end with the process.
    pub fn of_nothing() -> Self {
        Self {
            names: Arc::default(),
            in_use: OverridesInUse::default(),
            journal: None,
            counters: Arc::new(SinkCounters::new()),
            version: 0,
            askers: Askers::default(),
        }
    }

    /// Where changes are kept, if they are.
    pub fn journal(&self) -> Option<&ChangeJournal> {
        self.journal.as_ref()
    }

    /// Callers whose changes are under way.
    pub fn askers(&mut self) -> &mut Askers {
        &mut self.askers
    }

    /// Counts changes: names of another version have to be made again.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What became of changes that the file is to keep; `None`: there is none.
    pub fn counters(&self) -> Option<&SinkCounters> {
        self.journal.as_ref().map(|_| &*self.counters)
    }

    /// Whether a caller waits.
    pub fn is_busy(&self) -> bool {
        self.askers.is_busy()
    }

    /// The names are lent to all threads.
    pub fn note_lent(&self) {
        self.in_use.set(&self.names);
    }

    /// Everything that was said and is lent, with who said it.
    pub fn in_use(&self) -> OverridesInUse {
        self.in_use.clone()
    }

    /// Everything that was said, ready to be looked up.
    pub fn names(&self, config: &Config, seed: Seed) -> Option<Arc<RuntimeNames>> {
        let told = |what, names: Result<_, Refused>| {
            names.map_err(|(_, why)| tracing::error!("{what} of run time are not used: {why}"))
        };
        let names = told("records", ready(&self.names, config, seed));
        let names =
            names.or_else(|()| told("entries", ready(&self.names.without_records(), config, seed)));
        names.ok().flatten().map(Arc::new)
    }

    /// What is said of names.
    pub fn changes(&self) -> impl Iterator<Item = OperatorChange> {
        self.names.all_changes()
    }

    /// What is kept and comes back with a restart, if all that holds is `others` and what is said of names. Those of clients are
    /// not in it.
    pub fn hidden(&self, others: impl Iterator<Item = OperatorChange>) -> Vec<OperatorChange> {
        let hidden = |journal: &ChangeJournal| journal.hidden(others.chain(self.changes()));
        self.journal.as_ref().map(hidden).unwrap_or_default()
    }

    /// Its state, for the answer to a call about the instance.
    pub fn note_in(&self, state: &mut InstanceState) {
        state.entries = self.names.entry_count();
        state.records = self.names.record_count();
        state.kept = self.journal.is_some();
    }

    /// The same, beside the configuration.
    pub fn note_in_configuration(&self, configuration: &mut Configuration) {
        let page = Page { after: None, limit: MAX_SHOWN };
        let entries = self.names.entries(&page).map(|page| page.entries).unwrap_or_default();
        let records = self.names.records(&page).map(|page| page.records).unwrap_or_default();
        configuration.entries = entries.into_iter().map(|one| one.entry).collect();
        configuration.records = records.into_iter().map(|one| one.record).take(MAX_SHOWN).collect();
    }

    /// Answers a call about names, at once or when its change holds.
    pub fn answer(&mut self, call: PendingCall, config: &Config, seed: Seed) {
        let rules = (config, seed);
        match call {
            PendingCall::Entries(page, caller) => caller.reply(self.names.entries(&page)),
            PendingCall::Records(page, caller) => caller.reply(self.names.records(&page)),
            PendingCall::AddEntries(entries, caller) => {
                self.change(&Call::AddEntries(entries), caller, rules);
            }
            PendingCall::RemoveEntry(choice, caller) => {
                self.change(&Call::RemoveEntry(choice), caller, rules);
            }
            PendingCall::AddRecords(records, caller) => {
                self.change(&Call::AddRecords(records), caller, rules);
            }
            PendingCall::RemoveRecords(choice, caller) => {
                self.change(&Call::RemoveRecords(choice), caller, rules);
            }
            other => other.refuse(Refusal::Unable, "this is no call about names"),
        }
    }

    fn change<R: Reply + From<EntriesDone>>(
        &mut self,
        call: &Call,
        caller: Caller<R>,
        (config, seed): (&Config, Seed),
    ) {
        match self.try_change(call, &author_of(&caller), config, seed) {
            Ok((done, receipt)) => {
                self.version += 1;
                let reply = caller.prepare(Ok(done.into()));
                self.askers.push(Waiting { reply, version: self.version, receipt });
            }
            Err((refusal, why)) => caller.refuse(refusal, why),
        }
    }

    fn try_change(
        &mut self,
        call: &Call,
        author: &Author,
        config: &Config,
        seed: Seed,
    ) -> Result<(EntriesDone, Receipt), Refused> {
        self.askers.check_room()?;
        let changes = self.names.changes(call, config, author);
        // What is hidden until the restart can be taken back too.
        let changes = match (self.kept_only(call, author), changes) {
            (kept, Ok(changes)) => kept.into_iter().chain(changes).collect(),
            (kept, Err((Refusal::Unknown, _))) if !kept.is_empty() => kept,
            (_, Err(refused)) => return Err(refused),
        };
        let mut names = NameTable::clone(&self.names);
        changes.iter().try_for_each(|change| names.make(change))?;
        // What removes is never refused.
        if matches!(call, Call::AddEntries(_) | Call::AddRecords(_)) {
            names.check_room()?;
        }
        // Records may contradict each other.
        if matches!(call, Call::AddRecords(_)) {
            ready(&names, config, seed)?;
            self.check_kept(author, &changes, config, seed)?;
        }
        let receipt = self.keep(author, changes.clone())?;
        let entries_done = self.names.entries_done(call, &changes);
        self.names = Arc::new(names);
        let kept = self.lasting(author);
        if let Some(EntriesDone { done, before }) = entries_done {
            return Ok((EntriesDone { done: done + kept, before }, receipt));
        }
        let done = match (call, changes.len()) {
            (Call::RemoveEntry(_), _) => {
                "removed: it would have held again after a restart".to_owned()
            }
            (Call::AddRecords(_), 1) => format!("1 record added{kept}"),
            (Call::AddRecords(_), count) => format!("{count} records added{kept}"),
            _ => format!("removed{kept}"),
        };
        Ok((EntriesDone { done, before: Vec::new() }, receipt))
    }

    /// The journal, if it is to keep a change of somebody.
    fn journal_for(&self, author: &Author) -> Option<&ChangeJournal> {
        self.journal.as_ref().filter(|_| !author.until_restart)
    }

    /// Whether the file has the limit that somebody lifts for good, although it may not hold until the restart.
    pub fn keeps_limit(&self, call: &Call, author: &Author) -> bool {
        match (self.journal_for(author), call) {
            (Some(journal), Call::Unlimit(zone)) => journal.has(&Subject::Limit(zone.clone())),
            _ => false,
        }
    }

    /// The lines that take back what a removal means of that which the file has.
    fn kept_only(&self, call: &Call, author: &Author) -> Vec<JournalLine> {
        let Some(journal) = self.journal_for(author) else { return Vec::new() };
        match call {
            Call::RemoveEntry(EntryChoice { name, view }) => {
                let subject = Subject::Entry { name: name.clone(), view: view.clone() };
                let unset = journal.has(&subject).then_some(JournalLine::Unset(subject));
                unset.into_iter().collect()
            }
            Call::RemoveRecords(_) => {
                let (kept, _) = NameTable::of_kept(&journal.records());
                kept.changes(call, &Config::default(), author).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// Records that are to be kept may contradict others that hold again after a restart.
    fn check_kept(
        &self,
        author: &Author,
        changes: &[JournalLine],
        config: &Config,
        seed: Seed,
    ) -> Result<(), Refused> {
        let Some(journal) = self.journal_for(author) else { return Ok(()) };
        let mut kept = journal.records();
        changes.iter().for_each(|line| kept.take(line.clone()));
        let made = ready(&NameTable::of_kept(&kept).0, config, seed);
        let after = |(refusal, why)| {
            (refusal, format!("{why}; it is removed until the restart only: remove it for good"))
        };
        made.map(drop).map_err(after)
    }

    /// Has a change kept, unless it ends with the process.
    ///
    /// # Errors
    ///
    /// Too many wait for the disk.
    pub fn keep(&self, author: &Author, lines: Vec<JournalLine>) -> Result<Receipt, Refused> {
        match self.journal_for(author) {
            Some(journal) => journal.keep(lines),
            None => Ok(Receipt::known(true)),
        }
    }

    /// The end of a sentence about a change: how long it holds, unless it is kept.
    pub fn lasting(&self, author: &Author) -> &'static str {
        lasting(self.journal.is_some(), author.until_restart)
    }

    /// Answers the callers whose changes hold everywhere: those up to the version `in_use`.
    pub fn turn(&mut self, in_use: u64) {
        self.askers.turn(in_use);
    }
}
