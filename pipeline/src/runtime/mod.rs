//! Names that operators block, allow or answer while the instance runs.
//!
//! A change goes two ways at once. [`RuntimeNames`] are made and lent to all threads
//! ([`Reloader`](crate::control::reload::Reloader)), and the [journal] keeps the change in a file. When both are
//! done the caller is answered.

mod entries;
mod in_use;
mod journal;
mod table;

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use pmdns_config::Config;
use pmdns_control::answers::{Configuration, EntriesDone, InstanceState};
use pmdns_control::{Call, CallReply, Page, Refusal};
use pmdns_stages::policy::RuntimeNames;
use pmdns_stages::wire::name::Seed;

use crate::journal::JournalError;
use crate::sinks::SinkCounters;
pub use in_use::{NamesInUse, SaidInUse};
use journal::Journal;
use pmdns_control::Caller;
pub(crate) use table::Table;

/// Clients that may wait for their changes.
const MAX_WAITING: usize = 64;
/// Entries and records that are shown beside the configuration.
const MAX_SHOWN: usize = 1000;

/// Everything that was said.
#[derive(Debug)]
pub struct Runtime {
    table: Arc<Table>,
    in_use: SaidInUse,
    journal: Option<Journal>,
    /// Counts changes.
    version: u64,
    waiting: Vec<Waiting>,
}

/// A caller whose change is under way.
#[derive(Debug)]
struct Waiting {
    caller: Caller,
    version: u64,
    /// The number of the order at the journal.
    order: Option<u64>,
    done: CallReply,
}

impl Runtime {
    /// The entries that the file at `path` has kept. Without a file nothing is kept. The calling thread is woken when the
    /// disk has confirmed a change.
    ///
    /// # Errors
    ///
    /// The file cannot be used.
    pub fn open(path: Option<&Path>) -> Result<Self, JournalError> {
        let table = path.map(journal::read).transpose()?.unwrap_or_default();
        let main = std::thread::current();
        let journal =
            path.map(|path| Journal::start(path, &table, move || main.unpark())).transpose()?;
        let version = u64::from(!table.is_empty());
        let in_use = SaidInUse::default();
        Ok(Self { table: Arc::new(table), in_use, journal, version, waiting: Vec::new() })
    }

    /// Reads the file, and makes none.
    ///
    /// # Errors
    ///
    /// The file cannot be used.
    pub fn check(path: Option<&Path>) -> Result<(), JournalError> {
        path.map(journal::read).transpose().map(drop)
    }

    /// Counts changes: names of another version have to be made again.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What became of changes that the file is to keep; `None`: there is none.
    pub fn counters(&self) -> Option<&SinkCounters> {
        self.journal.as_ref().map(Journal::counters)
    }

    /// Whether a caller waits.
    pub fn is_busy(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The names are lent to all threads.
    pub fn note_lent(&self) {
        self.in_use.set(&self.table);
    }

    /// Everything that was said and is lent, with who said it.
    pub fn in_use(&self) -> SaidInUse {
        self.in_use.clone()
    }

    /// Everything that was said, ready to be looked up.
    pub fn names(&self, config: &Config, seed: Seed) -> Option<Arc<RuntimeNames>> {
        let names = self.table.names(config, seed);
        let names =
            names.map_err(|(_, why)| tracing::error!("entries of run time are not used: {why}"));
        names.ok().flatten().map(Arc::new)
    }

    /// Its state, for the answer to a call about the instance.
    pub fn note_in(&self, state: &mut InstanceState) {
        state.entries = self.table.entry_count();
        state.records = self.table.record_count();
        state.kept = self.journal.is_some();
    }

    /// The same, beside the configuration.
    pub fn note_in_configuration(&self, configuration: &mut Configuration) {
        let page = Page { after: None, limit: MAX_SHOWN };
        let entries = self.table.entries(&page).map(|page| page.entries).unwrap_or_default();
        let records = self.table.records(&page).map(|page| page.records).unwrap_or_default();
        configuration.entries = entries.into_iter().map(|one| one.entry).collect();
        configuration.records = records.into_iter().map(|one| one.record).take(MAX_SHOWN).collect();
    }

    /// Answers a call, at once or when its change holds.
    pub fn answer(&mut self, call: &Call, caller: Caller, config: &Config, seed: Seed) {
        let reply = match call {
            Call::Entries(page) => self.table.entries(page).map(|page| CallReply::of(&page)),
            Call::Records(page) => self.table.records(page).map(|page| CallReply::of(&page)),
            change => return self.change(change, caller, config, seed),
        };
        caller.reply(reply.unwrap_or_else(|(refusal, why)| CallReply::Refused(refusal, why)));
    }

    fn change(&mut self, call: &Call, caller: Caller, config: &Config, seed: Seed) {
        if self.waiting.len() >= MAX_WAITING {
            return caller.reply(CallReply::Refused(
                Refusal::Busy,
                "too many changes are under way".to_owned(),
            ));
        }
        match self.try_change(call, &caller.by, config, seed) {
            Ok((done, order)) => {
                self.version += 1;
                self.waiting.push(Waiting { caller, version: self.version, order, done });
            }
            Err((refusal, why)) => caller.refuse(refusal, why),
        }
    }

    fn try_change(
        &mut self,
        call: &Call,
        by: &str,
        config: &Config,
        seed: Seed,
    ) -> Result<(CallReply, Option<u64>), table::Refused> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let changes = self.table.changes(call, config, (by, now.map_or(0, |now| now.as_secs())))?;
        let mut table = Table::clone(&self.table);
        changes.iter().try_for_each(|change| table.make(change))?;
        // What removes is never refused.
        if matches!(call, Call::AddEntries(_) | Call::AddRecords(_)) {
            table.check_room()?;
        }
        // Records may contradict each other.
        if matches!(call, Call::AddRecords(_)) {
            table.names(config, seed)?;
        }
        let order = match &mut self.journal {
            None => None,
            Some(journal) => {
                let busy = || (Refusal::Busy, "too many changes wait for the disk".to_owned());
                Some(journal.keep(changes.clone()).ok_or_else(busy)?)
            }
        };
        let entries_done = self.table.entries_done(call, &changes);
        self.table = Arc::new(table);
        let count = changes.len();
        let kept = if order.is_some() {
            ""
        } else {
            ", until the instance stops: `control.entries` names no file"
        };
        if let Some(EntriesDone { done, before }) = entries_done {
            return Ok((CallReply::Entries(EntriesDone { done: done + kept, before }), order));
        }
        let what = match call {
            Call::AddRecords(_) if count == 1 => "1 record added".to_owned(),
            Call::AddRecords(_) => format!("{count} records added"),
            _ => "removed".to_owned(),
        };
        Ok((CallReply::Done(format!("{what}{kept}")), order))
    }

    /// Answers the clients whose changes hold everywhere: those up to the version `in_use`.
    pub fn turn(&mut self, in_use: u64) {
        let Self { waiting, journal, .. } = self;
        for index in (0..waiting.len()).rev() {
            let Waiting { version, order, .. } = &waiting[index];
            let kept = match (journal.as_ref(), order) {
                (Some(journal), Some(order)) => journal.is_kept(*order),
                _ => Ok(true),
            };
            if *version > in_use || kept == Ok(false) {
                continue;
            }
            let Waiting { caller, done, .. } = waiting.swap_remove(index);
            caller.reply(match kept {
                Ok(_) => done,
                Err(()) => {
                    let why = "it holds until the instance stops, and is not kept: the disk refuses; the log says why";
                    CallReply::Refused(Refusal::Unable, why.to_owned())
                }
            });
        }
    }
}
