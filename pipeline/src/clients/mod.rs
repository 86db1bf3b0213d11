//! The client table: prefixes with a view each, which change while queries are answered.
//!
//! A thread of its own has the [book] and is the only one that changes the table. Data cores see a change with their next
//! packets. Then the thread has the disk confirm it, and answers the client. Changes that wait share one confirmation.

mod book;
mod calls;
mod counters;
mod keeper;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use pmdns_config::files::read_clients;
use pmdns_config::{Config, FileError, Prefix, View, view_at};
use pmdns_control::{Call, CallReply, Refusal};
use pmdns_stages::client_table::ClientTableWriter;

use book::{Book, Taken};
pub use counters::{ClientCounters, ClientSnapshot};
use keeper::{Keeper, Kept};
use pmdns_engine::threads::{join_within, pin};

use crate::journal::JournalError;
use pmdns_control::Caller;

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
    said: Kept,
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
        if config.clients.max_entries == 0 {
            return Ok(None);
        }
        let journal = config.clients.journal.clone();
        let said = journal.as_deref().map(|path| keeper::read(path, &config.views)).transpose()?;
        Ok(Some(Self {
            file: read_clients(config)?,
            journal,
            said: said.unwrap_or_default(),
            views: config.views.clone(),
            max_entries: config.clients.max_entries as usize,
        }))
    }

    /// The same, which changes no file: what a running instance keeps stays as it is.
    pub fn without_journal(self) -> Self {
        Self { journal: None, ..self }
    }

    /// Fills the table, and starts the thread that changes it from now on, on a CPU if one is given.
    ///
    /// # Errors
    ///
    /// The journal or the thread cannot be used.
    pub fn start(
        self,
        writer: ClientTableWriter,
        core: Option<usize>,
    ) -> Result<ClientTableThread, ClientsError> {
        let counters = Arc::<ClientCounters>::default();
        counters.max_entries.store(self.max_entries as u64, Ordering::Relaxed);
        let mut book = Book::new(writer, self.max_entries);
        let mut left_out = book.take_file(self.file, |_| false).left_out;
        // What leaves makes room for what comes.
        let Kept { said, left_out: mut of_journal } = self.said;
        let (set, removed): (Vec<_>, Vec<_>) =
            said.into_iter().partition(|(_, view)| view.is_some());
        for (prefix, view) in removed.into_iter().chain(set) {
            let is_out = usize::from(!book.say(prefix, view));
            left_out += is_out;
            of_journal += is_out;
        }
        note_left_out(&counters, left_out);
        let start = |path| Keeper::start(path, &book, &self.views, of_journal == 0);
        let journal = self.journal.map(start);
        let journal = journal.transpose()?;
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
        Ok(ClientTableThread { calls: Some(calls), files: Some(files), counters, thread })
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
    calls: Option<Sender<Asked>>,
    files: Option<ClientFiles>,
    counters: Arc<ClientCounters>,
    thread: Option<JoinHandle<()>>,
}

/// A call on its way to the thread.
#[derive(Debug)]
struct Asked {
    call: Call,
    /// What the configuration says of the address that is asked for.
    configured: Option<(Prefix, u8)>,
    caller: Caller,
}

impl ClientTableThread {
    /// Has a call answered.
    pub fn answer(&self, call: Call, config: &Config, caller: Caller) {
        let configured = match &call {
            Call::FindClient(address) => calls::configured(address, config),
            _ => None,
        };
        let Some(calls) = &self.calls else { return };
        if let Err(error) = calls.try_send(Asked { call, configured, caller }) {
            let why = "too many changes wait for the disk".to_owned();
            error.into_inner().caller.refuse(Refusal::Busy, why);
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
    fn run(&mut self, calls: &Receiver<Asked>, files: &Receiver<File>) {
        let never = crossbeam_channel::never();
        let mut files = files;
        loop {
            select! {
                recv(calls) -> first => {
                    let Ok(first) = first else { return };
                    let asked: Vec<Asked> = [first].into_iter().chain(calls.try_iter()).collect();
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
        let Taken { left_out, forgotten } = self.book.take_file(clients, is_gone);
        note_left_out(&self.counters, left_out);
        self.views = views;
        if forgotten == 0 {
            return;
        }
        tracing::warn!(
            "what was said of {forgotten} prefixes at run time ends: their views are gone"
        );
        if let Some(journal) = &mut self.journal {
            journal.forget(&self.book, &self.views);
        }
    }

    /// Makes the changes that were asked for, has the disk confirm all of them, and answers.
    fn serve(&mut self, asked: Vec<Asked>) {
        let mut made = Vec::new();
        let mut replies = Vec::new();
        for Asked { call, configured, caller } in asked {
            let before = made.len();
            let reply = calls::serve(&call, configured, &mut self.book, &self.views, &mut made);
            let reply = reply.unwrap_or_else(|(refusal, why)| {
                self.counters.refused.fetch_add(1, Ordering::Relaxed);
                CallReply::Refused(refusal, why)
            });
            replies.push((caller, reply, made.len() > before));
        }
        self.counters.changes.fetch_add(made.len() as u64, Ordering::Relaxed);
        let kept = match &mut self.journal {
            Some(journal) if !made.is_empty() => journal.keep(&made, &self.book, &self.views),
            _ => true,
        };
        if !kept {
            self.counters.failures.fetch_add(1, Ordering::Relaxed);
        }
        for (caller, reply, is_change) in replies {
            caller.reply(match (reply, is_change) {
                (CallReply::Done(_), true) if !kept => {
                    let why = "it holds until the instance stops, and is not kept: the disk refuses; the log says why";
                    CallReply::Refused(Refusal::Unable, why.to_owned())
                }
                (CallReply::Done(done), true) if self.journal.is_none() => {
                    let kept = "until the instance stops: `clients.journal` names no file";
                    CallReply::Done(format!("{done}, {kept}"))
                }
                (reply, _) => reply,
            });
        }
    }

    fn note(&self) {
        self.counters.entries.store(self.book.len() as u64, Ordering::Relaxed);
        self.counters.at_run_time.store(self.book.at_run_time() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
