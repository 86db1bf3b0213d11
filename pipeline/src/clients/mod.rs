//! The client table: prefixes with a view each, which change while queries are answered.
//!
//! A thread of its own has the [book] and is the only one that changes the table. Data cores see a change with their next
//! packets. Then the thread has the disk confirm it, and answers the client. Changes that wait share one confirmation.

mod book;
mod calls;
mod counters;
mod keeper;
mod passing;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select};
use pmdns_changes::{ChangeJournal, JournalError, JournalLine, OperatorChange, Subject};
use pmdns_config::files::{folder_of, read_clients};
use pmdns_config::{Config, FileError, Prefix, View, view_at};
use pmdns_control::{PendingCall, Refusal};
use pmdns_stages::client_table::ClientTableWriter;

use book::{Book, Taken};
pub use counters::{ClientCounters, ClientSnapshot};
use keeper::{Keeper, Kept};
use passing::AskedToPass;
use pmdns_engine::threads::{join_within, pin};

use crate::runtime::{ChangesForNext, TOO_LATE};

use pmdns_control::Caller;
use pmdns_control::answers::{ConfigDifference, MAX_CHANGES_SHOWN};

/// Calls that wait for the thread.
const MAX_WAITING: usize = 64;
/// How long the end of the thread may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no client table.
#[derive(Debug, thiserror::Error)]
pub enum ClientsError {
    /// The file of clients.
    #[error("clients.file: {0}")]
    File(#[from] FileError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The thread.
    #[error("cannot start the thread of the client table: {0}")]
    Thread(std::io::Error),
}

/// The contents of the files, before there is a table.
#[derive(Debug)]
pub struct OpenClients {
    file: Vec<(Prefix, u8)>,
    journal: Option<PathBuf>,
    /// The prefixes that the file of all changes has.
    of_shared: Vec<Prefix>,
    said: Kept,
    /// What holds in its place, as the process before has passed it.
    passed: Option<Kept>,
    views: Vec<View>,
    max_entries: usize,
}

impl OpenClients {
    /// Reads the files that `config` names. `None`: there is to be no table.
    ///
    /// # Errors
    ///
    /// A file cannot be used.
    pub fn read(config: &Config) -> Result<Option<Self>, ClientsError> {
        Self::read_with(config, &[], None)
    }

    /// The same, with what the file of all changes has kept. A journal of clients alone stands before that. What the process
    /// before has `passed` holds in the place of both.
    ///
    /// # Errors
    ///
    /// As of [`Self::read`].
    pub fn read_with(
        config: &Config,
        shared: &[OperatorChange],
        passed: Option<&[OperatorChange]>,
    ) -> Result<Option<Self>, ClientsError> {
        if config.clients.max_entries == 0 {
            let count = passed.unwrap_or(shared).len();
            if count > 0 {
                tracing::warn!("{count} changes of clients do not hold: there is no client table");
            }
            return Ok(None);
        }
        let (journal, views) = (config.clients.journal.clone(), &config.views);
        let mut said = Kept::of(shared, views);
        let of_shared: Vec<Prefix> = said.said.keys().copied().collect();
        if let Some(path) = &journal {
            said.merge(keeper::read(path, views)?);
        }
        Ok(Some(Self {
            file: read_clients(config)?,
            journal,
            of_shared,
            said,
            passed: passed.map(|passed| Kept::of(passed, views)),
            views: config.views.clone(),
            max_entries: config.clients.max_entries as usize,
        }))
    }

    /// Warns of a journal of clients that nobody reads. The configuration names none, and one lies beside the file of all
    /// changes, or in one of these folders.
    pub fn warn_of_left_journal(config: &Config, state_folders: impl Iterator<Item = PathBuf>) {
        let beside = config.control.entries.as_deref().map(|path| folder_of(path).to_owned());
        let is_wanted = config.clients.max_entries > 0 && config.clients.journal.is_none();
        let folders = beside.into_iter().chain(state_folders).filter(|_| is_wanted);
        if let Some(path) = keeper::journal_in(folders) {
            tracing::warn!(
                "{path} has changes of clients from before, and they do not hold: write journal = {path:?} into [clients] and \
                 reload, or move the file away",
                path = path.display()
            );
        }
    }

    /// The same, which changes no file: what a running instance keeps stays as it is.
    pub fn without_journal(self) -> Self {
        Self { journal: None, ..self }
    }

    /// Fills the table, and starts the thread that changes it from now on, on a CPU if one is given. Changes go to the journal of
    /// all changes, if there is one and none of clients alone.
    ///
    /// # Errors
    ///
    /// The journal or the thread cannot be used.
    pub fn start(
        self,
        writer: ClientTableWriter,
        shared: Option<ChangeJournal>,
        core: Option<usize>,
    ) -> Result<ClientTableThread, ClientsError> {
        let counters = Arc::<ClientCounters>::default();
        counters.max_entries.store(self.max_entries as u64, Ordering::Relaxed);
        let mut book = Book::new(writer, self.max_entries);
        let mut left_out = book.take_file(self.file, |_| false).left_out;
        // What leaves makes room for what comes.
        let Kept { said: kept, left_out: mut of_journal } = self.said;
        let (said, kept) = match self.passed {
            Some(passed) => (passed.said, kept),
            None => (kept, BTreeMap::new()),
        };
        let (set, removed): (Vec<_>, Vec<_>) =
            said.into_iter().partition(|(_, (view, _))| view.is_some());
        for (prefix, (view, whose)) in removed.into_iter().chain(set) {
            let is_out = usize::from(!book.say(prefix, view, &whose));
            left_out += is_out;
            of_journal += is_out;
        }
        for (prefix, (view, whose)) in kept {
            book.hold_back(prefix, view, whose);
        }
        note_left_out(&counters, left_out);
        let start = |path| Keeper::start(path, &book, &self.views, of_journal == 0);
        let journal = self.journal.map(start);
        let own = journal.transpose()?;
        if let (Some(shared), Some(true)) = (&shared, own.as_ref().map(Keeper::is_well)) {
            forget_shared(shared, &self.of_shared, &book);
        }
        let journal = own.or_else(|| shared.map(Keeper::Shared));
        if journal.as_ref().is_some_and(|journal| !journal.is_well()) {
            counters.failures.fetch_add(1, Ordering::Relaxed);
        }
        let (calls, called) = bounded(MAX_WAITING);
        let (files, given) = bounded(1);
        let taken = Arc::<AtomicU64>::default();
        let mut thread = Thread {
            book,
            journal,
            views: self.views,
            counters: Arc::clone(&counters),
            taken: Arc::clone(&taken),
        };
        thread.note();
        let body = move || {
            pin(core);
            thread.run(&called, &given);
        };
        let builder = std::thread::Builder::new().name("clients".to_owned());
        let thread = Some(builder.spawn(body).map_err(ClientsError::Thread)?);
        let files = ClientFiles { files, given: 0, taken };
        let (calls, files) = (Some(calls), Some(files));
        Ok(ClientTableThread { calls, files, asked_to_pass: None, counters, thread })
    }
}

/// Takes out of the file of all changes what a file of clients alone has by now.
fn forget_shared(shared: &ChangeJournal, prefixes: &[Prefix], book: &Book) {
    // What had no room is in no other file.
    let moved = prefixes.iter().filter(|prefix| book.kept_of(prefix).is_some());
    let unset = moved.map(|one| JournalLine::Unset(Subject::Client(one.to_string())));
    if let Err((_, why)) = shared.keep(unset.collect()) {
        tracing::warn!("{} has clients still: {why}", pmdns_changes::CHANGES.key);
    }
}

fn note_left_out(counters: &ClientCounters, left_out: usize) {
    if left_out > 0 {
        tracing::error!(
            "{left_out} prefixes have no room in the client table; raise `clients.max_entries`"
        );
        counters.left_out.fetch_add(left_out as u64, Ordering::Relaxed);
    }
}

/// The running thread. Dropping it ends it, after the changes that wait.
#[derive(Debug)]
pub struct ClientTableThread {
    calls: Option<Sender<ClientTableRequest>>,
    files: Option<ClientFiles>,
    asked_to_pass: Option<AskedToPass>,
    counters: Arc<ClientCounters>,
    thread: Option<JoinHandle<()>>,
}

/// A question on its way to the thread.
#[derive(Debug)]
enum ClientTableRequest {
    /// A call, and what the configuration says of the address that is asked for.
    Call(PendingCall, Option<(Prefix, u8)>),
    /// What else differs from the file, for an answer that has the clients too.
    Changes(Box<ConfigDifference>, Caller<ConfigDifference>),
    /// What the next process is to have.
    Pass(Sender<io::Result<ChangesForNext>>),
}

impl ClientTableThread {
    /// Has a call answered.
    pub fn answer(&self, call: PendingCall, config: &Config) {
        let is_change =
            matches!(call, PendingCall::ChangeClients(..) | PendingCall::RemoveClient(..));
        if is_change && self.asked_to_pass.is_some() {
            return call.refuse(Refusal::Busy, TOO_LATE);
        }
        let configured = match &call {
            PendingCall::FindClient(address, _) => calls::configured(address, config),
            _ => None,
        };
        self.ask(ClientTableRequest::Call(call, configured));
    }

    /// Has an answer told that is to have the changes of clients too.
    pub fn report_changes(&self, others: ConfigDifference, caller: Caller<ConfigDifference>) {
        self.ask(ClientTableRequest::Changes(Box::new(others), caller));
    }

    /// What was said at run time, for the next process. `None`: it is not there yet, and nobody changes it until it is, or until
    /// this is [taken back](Self::pass_nothing).
    pub fn pass(&mut self, now: Instant) -> Option<io::Result<ChangesForNext>> {
        if self.asked_to_pass.is_none() {
            let (asked, tell) = AskedToPass::new(now);
            self.ask(ClientTableRequest::Pass(tell));
            self.asked_to_pass = Some(asked);
        }
        let passed = self.asked_to_pass.as_ref()?.poll(now)?;
        self.asked_to_pass = None;
        Some(passed)
    }

    /// No process takes over: what is said may change.
    pub fn pass_nothing(&mut self) {
        self.asked_to_pass = None;
    }

    fn ask(&self, asked: ClientTableRequest) {
        let Some(calls) = &self.calls else { return };
        if let Err(error) = calls.try_send(asked) {
            let why = "too many changes wait for the disk";
            match error.into_inner() {
                ClientTableRequest::Call(call, _) => call.refuse(Refusal::Busy, why),
                ClientTableRequest::Changes(_, caller) => caller.refuse(Refusal::Busy, why),
                // Who waits for it does so in vain.
                ClientTableRequest::Pass(_) => {}
            }
        }
    }

    /// The way for a file that was read anew, for a reload. There is one.
    pub fn files(&mut self) -> Option<ClientFiles> {
        self.files.take()
    }

    /// The counts.
    pub fn counters(&self) -> ClientSnapshot {
        self.counters.snapshot()
    }
}

impl Drop for ClientTableThread {
    fn drop(&mut self) {
        self.calls = None;
        if let Some(thread) = self.thread.take() {
            join_within(thread, PATIENCE);
        }
    }
}

/// A new reading of the file of clients and of the views of the configuration.
#[derive(Debug)]
struct File {
    clients: Vec<(Prefix, u8)>,
    views: Vec<View>,
}

/// Gives files that were read anew to the thread.
#[derive(Debug)]
pub struct ClientFiles {
    files: Sender<File>,
    given: u64,
    taken: Arc<AtomicU64>,
}

impl ClientFiles {
    /// Has the table changed to what the file says, with these views. The one before has been taken.
    pub fn give(&mut self, clients: Vec<(Prefix, u8)>, views: Vec<View>) {
        debug_assert!(self.is_taken(), "there is one reload at a time");
        self.given += u64::from(self.files.try_send(File { clients, views }).is_ok());
    }

    /// Whether the table is as the last file says.
    pub fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire) >= self.given
    }
}

struct Thread {
    book: Book,
    journal: Option<Keeper>,
    views: Vec<View>,
    counters: Arc<ClientCounters>,
    taken: Arc<AtomicU64>,
}

impl Thread {
    fn run(&mut self, calls: &Receiver<ClientTableRequest>, files: &Receiver<File>) {
        let never = crossbeam_channel::never();
        let mut files = files;
        loop {
            select! {
                recv(calls) -> first => {
                    let Ok(first) = first else { return };
                    let asked: Vec<ClientTableRequest> = [first].into_iter().chain(calls.try_iter()).collect();
                    self.serve(asked);
                }
                recv(files) -> file => match file {
                    Ok(file) => {
                        self.take(file);
                        self.taken.fetch_add(1, Ordering::Release);
                    }
                    Err(_) => files = &never,
                }
            }
            self.note();
        }
    }

    /// Takes over what was read anew. What was said at run time of views that are gone is forgotten.
    fn take(&mut self, File { clients, views }: File) {
        let is_gone = |view| view_at(view, &views).is_some_and(View::is_gone);
        let Taken { left_out, forgotten, needless } = self.book.take_file(clients, is_gone);
        note_left_out(&self.counters, left_out);
        self.views = views;
        if let Some(journal) = self.journal.as_mut().filter(|_| !needless.is_empty()) {
            journal.keep(&needless, &self.book, &self.views);
        }
        if forgotten.is_empty() {
            return;
        }
        tracing::warn!(
            "what was said of {} prefixes at run time ends: their views are gone",
            forgotten.len()
        );
        if let Some(journal) = &mut self.journal {
            journal.forget(&forgotten, &self.book, &self.views);
        }
    }

    /// These differences with what was said of clients, as much of it as is shown.
    fn difference(&self, mut others: ConfigDifference) -> ConfigDifference {
        others.clients = self.book.at_run_time() as u64;
        let room = MAX_CHANGES_SHOWN.saturating_sub(others.changes.len());
        let change = |(prefix, view, whose)| keeper::change_of(prefix, view, whose, &self.views);
        let is_kept = self.journal.is_some();
        let hidden = self.book.hidden().filter(|_| is_kept).map(|one| change(one).report_hidden());
        let changes = hidden.chain(self.book.history().map(|one| change(one).report()));
        others.changes.extend(changes.take(room));
        others
    }

    fn note(&self) {
        self.counters.entries.store(self.book.len() as u64, Ordering::Relaxed);
        self.counters.at_run_time.store(self.book.at_run_time() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod passing_tests;
#[cfg(test)]
mod tests;
