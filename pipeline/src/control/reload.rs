//! Reload: reads the rules anew from the configuration, while queries are answered.
//!
//! A thread of its own reads the files and builds the rules, which for millions of names takes seconds. The main thread
//! then lends the rules to all threads that use them, and waits until the old ones have come back. The clients that
//! asked get the result. A wrong configuration or file changes nothing. What comes next is decided by
//! [`Reload`], which does no I/O.

mod reading;
mod succession;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use pmdns_config::{Config, ConfigError, ConfigText, FileError, ViewsError, WrittenConfig};
use pmdns_control::answers::Done;
use pmdns_stages::wire::name::Seed;
use pmdns_streams::access::AccessList;
use pmdns_streams::tls::{Certificate, CertificateError};

use pmdns_engine::rules::{BuildError, RulesPublisher};
use reading::{Fresh, Read, read};
pub use reading::{Written, describe};
pub use succession::{NO_KEEPER, Obstacle};
use succession::{Succession, Successor};

use super::metrics::server::MetricsListener;
use crate::clients::ClientFiles;
use crate::connecting::may_ask;
use crate::lists;
use crate::runtime::{NameOverrides, author_of};
use pmdns_changes::overlay::{ConfigChange, Overlay};
use pmdns_changes::reload::{Reload, ReloadOutput, ReloadResult, ReloadSource};
use pmdns_changes::{ChangeJournal, JournalLine, Receipt, Waiting, lasting};
use pmdns_control::Caller;

/// Why a reload changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file that it names is wrong, records contradict each other, or the upstreams cannot be taken over.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The certificate of encrypted clients cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The file of clients is wrong.
    #[error("clients.file: {0}")]
    Clients(#[from] FileError),
    /// The views cannot be taken over.
    #[error(transparent)]
    Views(#[from] ViewsError),
    /// This process cannot take it over, and the next one can.
    #[error("{0}")]
    Next(String),
    /// This process cannot take it over, and none can that takes over from it.
    #[error("{0}")]
    Restart(String),
    /// The configuration contradicts what operators have changed since the start.
    #[error("{0}")]
    Overlay(String),
    /// There is nothing that could be changed.
    #[error("the upstreams of this instance cannot be changed")]
    Upstreams,
    /// No thread could be started for it.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The thread ended without an answer.
    #[error("the thread that reads the files ended unexpectedly; the log says why")]
    Ended,
}

/// Reloads, one at a time.
pub struct Reloader {
    path: PathBuf,
    /// The configuration of the start, whose fixed keys a reload does not change.
    first: Written,
    /// The configuration in use.
    written: WrittenConfig,
    /// A summary of the rules in use.
    rules: String,
    /// What is under way, and what is next.
    reload: Reload<Caller>,
    /// The thread that reads.
    reading: Option<JoinHandle<Result<Read, ReloadError>>>,
    /// Where changes are kept, if they are.
    journal: Option<ChangeJournal>,
    /// Whether the disk has the change under way, and whether that takes one back, so that nothing is left to be kept.
    kept: (Receipt, bool),
    /// Callers whose changes are in use, for the main thread.
    done: Vec<Waiting>,
    publisher: RulesPublisher,
    /// Where metrics are served from now on, for the main thread.
    metrics: Option<Option<MetricsListener>>,
    /// The certificate of encrypted clients, whose files an operator's reload reads as well.
    certificate: Option<Certificate>,
    /// Who may connect over streams.
    access: Option<AccessList>,
    /// Where the file of clients goes that an operator's reload reads, if there is a client table.
    clients: Option<ClientFiles>,
    /// The version of what is said of names at run time: as it was lent last, and as every thread has it.
    lent_version: u64,
    version: u64,
    /// What another process needs to take over, and whether one is to be started.
    succession: Succession,
    wants_successor: bool,
}

impl Reloader {
    /// A reloader for the file at `path`, from which `running` and `first` were read. The rules in use are `rules`, as
    /// people read it.
    pub fn new(
        path: &Path,
        (running, first): (&Config, Written),
        publisher: RulesPublisher,
        rules: String,
    ) -> Self {
        Self {
            path: path.to_owned(),
            written: first.all.clone(),
            first,
            rules,
            reload: Reload::new(running.clone(), running.clone(), Overlay::default()),
            reading: None,
            journal: None,
            kept: (Receipt::known(true), false),
            done: Vec::new(),
            publisher,
            metrics: None,
            certificate: None,
            access: None,
            clients: None,
            lent_version: 0,
            version: 0,
            succession: Succession {
                obstacle: Err(NO_KEEPER.to_owned()),
                answers_basis: running.answers_basis(),
            },
            wants_successor: false,
        }
    }

    /// Has reloads change who may connect over streams.
    pub fn set_access(&mut self, access: Option<AccessList>) {
        self.access = access;
    }

    /// The same, whose configuration in use is that of `base` with the changes of `overlay`. More of them are kept in `journal`.
    pub fn with_changes(
        self,
        (base, overlay): (&Config, Overlay),
        journal: Option<ChangeJournal>,
    ) -> Self {
        let latest = Config::clone(self.reload.config());
        Self { reload: Reload::new(latest, base.clone(), overlay), journal, ..self }
    }

    /// The same, which reads the files of this certificate as well when an operator requests a reload.
    pub fn with_certificate(self, certificate: Option<Certificate>) -> Self {
        Self { certificate, ..self }
    }

    /// The same, which reads the file of clients as well when an operator requests a reload.
    pub fn with_clients(self, clients: Option<ClientFiles>) -> Self {
        Self { clients, ..self }
    }

    /// Requests a reload. If one is under way, another follows it, because files may have changed after that one read
    /// them.
    pub fn ask(&mut self) {
        self.reload.ask();
    }

    /// The same, for a caller that waits for the result.
    pub fn ask_for(&mut self, caller: Caller) {
        self.reload.ask_for(caller);
    }

    /// Changes the configuration in use, for a caller that waits for the result. Changes come one after another.
    pub fn change(&mut self, change: ConfigChange, caller: Caller) {
        let author = author_of(&caller);
        self.reload.change(change, caller, author);
    }

    /// Callers whose changes are in use since the last call, and may not be on the disk yet.
    pub fn take_done(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.done)
    }

    /// The changes of operators that hold.
    pub fn overlay(&self) -> &Overlay {
        self.reload.overlay()
    }

    /// Has the rules made anew from the configuration in use, because one of its files has changed. If that fails, it
    /// is repeated until a reload has succeeded.
    pub fn note_news(&mut self) {
        self.reload.note_news();
    }

    /// Another process can be started that takes over, where there is no obstacle between configurations; or why none can.
    pub fn set_successor(&mut self, obstacle: Result<Obstacle, String>) {
        self.succession.obstacle = obstacle;
    }

    /// How keys come into use that need another process, if `file` has other ones.
    pub fn forecast(&self, file: &ConfigText) -> Option<String> {
        let changed = self.first.fixed.changed(&file.fixed_keys());
        self.succession.to(self.config(), &file.config).describe(&changed)
    }

    /// Whether the reload that has ended needs another process. It is said once.
    pub fn take_successor_request(&mut self) -> bool {
        std::mem::take(&mut self.wants_successor)
    }

    /// The configuration that the rules in use were made from.
    pub fn config(&self) -> &Arc<Config> {
        self.reload.config()
    }

    /// The same as it was written, with the keys that need another process as they were at the start.
    pub fn written(&self) -> &WrittenConfig {
        &self.written
    }

    /// The file that a reload reads.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A summary of the rules in use.
    pub fn rules(&self) -> &str {
        &self.rules
    }

    /// Where metrics are served from now on, if a reload has changed that.
    pub fn take_metrics(&mut self) -> Option<Option<MetricsListener>> {
        self.metrics.take()
    }

    /// Whether no reload is under way or wanted, so that the rules of the files as they were read last hold everywhere.
    pub fn is_over(&self) -> bool {
        self.reload.is_over()
    }

    /// Whether no reload is under way or about to begin.
    pub fn is_idle(&self) -> bool {
        self.reload.is_idle()
    }

    /// Whether files are being read.
    pub fn is_reading(&self) -> bool {
        self.reading.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// The seed of the hash of names.
    pub fn seed(&self) -> Seed {
        self.publisher.seed()
    }

    /// The version of what is said of names at run time that every thread has.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Lends what `runtime` says of names, if that is news and no other rules are on their way. It does not wait for files
    /// that are being read.
    pub fn lend_overrides(&mut self, runtime: &NameOverrides) {
        // Rules that were read come first: changes without end must not keep them out.
        let waits = self.reload.is_lent() || (self.reading.is_some() && !self.is_reading());
        if waits || runtime.version() == self.lent_version {
            return;
        }
        if !self.publisher.collect() {
            self.publisher.lend_runtime(runtime.names(self.reload.config(), self.publisher.seed()));
            runtime.note_lent();
            self.lent_version = runtime.version();
        }
    }

    /// Continues the reload under way. Never waits. `true`: another configuration is in use from now on.
    pub fn turn(&mut self, now: Instant) -> bool {
        let mut is_other = false;
        let is_lent = self.publisher.collect();
        if !is_lent {
            self.version = self.lent_version;
        }
        let has_read = !is_lent && !self.is_reading();
        if let Some(thread) = self.reading.take_if(|_| has_read) {
            match thread.join().unwrap_or(Err(ReloadError::Ended)) {
                Ok(read) => is_other = self.lend(read, now),
                Err(ReloadError::Next(how)) => {
                    self.wants_successor = true;
                    self.reload.leave_to_next(how, now);
                }
                Err(error) => self.fail(&error, now),
            }
        } else if self.reload.is_lent()
            && !is_lent
            && self.clients.as_ref().is_none_or(ClientFiles::is_taken)
        {
            self.reload.give_back(now);
        }
        self.reload.turn(now);
        while let Some(output) = self.reload.next_output() {
            self.carry_out(output, now);
        }
        is_other
    }

    fn carry_out(&mut self, output: ReloadOutput<Caller>, now: Instant) {
        match output {
            ReloadOutput::Read { source, stale } => {
                match stale.map_or(Ok(()), |file| lists::clear(&file)) {
                    Ok(()) => self.read(source, now),
                    Err(why) => self.fail(&ReloadError::Overlay(why), now),
                }
            }
            ReloadOutput::Clear(file) => {
                if let Err(why) = lists::clear(&file) {
                    tracing::warn!("{why}");
                }
            }
            ReloadOutput::Keep(line) => {
                let is_undone = matches!(line, JournalLine::Unset(_));
                self.kept = (self.keep(line), is_undone);
            }
            ReloadOutput::Changed(caller, done) => {
                let nothing = (Receipt::known(true), false);
                let (receipt, is_undone) = std::mem::replace(&mut self.kept, nothing);
                let lasting = match is_undone {
                    true => "",
                    false => lasting(self.journal.is_some(), caller.until_restart),
                };
                let done = format!("{done}{lasting}, by {}", caller.by);
                tracing::info!("{done}");
                let reply = caller.prepare(Ok(Done { done }));
                self.done.push(Waiting { reply, version: 0, receipt });
            }
            ReloadOutput::Reloaded(callers, done) => {
                callers.into_iter().for_each(|caller| caller.done(done.clone()));
            }
            ReloadOutput::Refused(callers, (refusal, why)) => {
                callers.into_iter().for_each(|caller| caller.refuse(refusal, why.clone()));
            }
        }
    }

    /// Has the line of a change kept that holds from now on.
    fn keep(&self, line: JournalLine) -> Receipt {
        let Some(journal) = &self.journal else { return Receipt::known(true) };
        journal.keep(vec![line]).unwrap_or_else(|(_, why)| {
            tracing::error!("a change is not kept: {why}");
            Receipt::known(false)
        })
    }

    /// Begins to read on a thread of its own.
    fn read(&mut self, source: ReloadSource, now: Instant) {
        let written = Written { fixed: self.first.fixed.clone(), all: self.written.clone() };
        let is_file = matches!(source, ReloadSource::File(_));
        let certificate = self.certificate.clone().filter(|_| is_file);
        let (path, builder) = (self.path.clone(), self.publisher.builder());
        let (in_use, succession) = (Arc::clone(self.reload.config()), self.succession.clone());
        let body =
            move || read(&path, (source, written), &succession, builder, certificate, &in_use);
        match std::thread::Builder::new().name("reload".into()).spawn(body) {
            Ok(thread) => self.reading = Some(thread),
            Err(error) => self.fail(&ReloadError::Thread(error), now),
        }
    }

    /// Takes what was read into use, and lends it. `true`: another configuration is in use.
    fn lend(&mut self, read: Read, now: Instant) -> bool {
        let Read { config, base, text: written, clients, fresh, successor, metrics } = read;
        let done = match &fresh {
            Fresh::All(fresh) => {
                self.rules = describe(&fresh.digest);
                let changed = self.first.fixed.changed(&written.fixed);
                let has_next = !matches!(successor, Successor::Nobody(_));
                self.wants_successor = has_next && !changed.is_empty();
                let how = successor.describe(&changed).map(|how| format!("; {how}"));
                format!("{}{}", self.rules, how.unwrap_or_default())
            }
            Fresh::Upstreams(_) => String::new(),
        };
        let is_other = self.reload.take_read(Ok(ReloadResult { config, base, done }), now);
        let latest = self.reload.config();
        match fresh {
            Fresh::All(fresh) => {
                for warning in latest.warnings().iter().chain(&fresh.digest.warnings) {
                    tracing::warn!("{warning}");
                }
                self.publisher.lend(*fresh);
                if let Some(access) = &self.access {
                    access.set(may_ask(latest));
                }
                // What was said at run time of names knows views by their numbers.
                self.lent_version = 0;
            }
            Fresh::Upstreams(fresh) => self.publisher.lend_upstreams(fresh),
        }
        self.written = self.first.all.reloaded(&written.all);
        self.metrics = metrics.or_else(|| self.metrics.take());
        if let (Some(file), Some(files)) = (clients, &mut self.clients) {
            files.give(file, latest.views.clone());
        }
        is_other
    }

    /// Nothing was read, and nothing changes.
    fn fail(&mut self, error: &ReloadError, now: Instant) {
        self.reload.take_read(Err(error.to_string()), now);
    }
}

#[cfg(test)]
mod tests;
