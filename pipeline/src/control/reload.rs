//! Reload: reads the rules anew from the configuration, while queries are answered.
//!
//! A thread of its own reads the files and builds the rules, which for millions of names takes seconds. The main thread
//! then lends the rules to all threads that use them, and waits until the old ones have come back. The clients that
//! asked get the result. A wrong configuration or file changes nothing.

mod news;
mod reading;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime};

use pmdns_config::{Config, ConfigError, FileError, ViewsError, WrittenConfig};
use pmdns_control::{CallReply, Refusal};
use pmdns_stages::wire::name::Seed;
use pmdns_streams::access::AccessList;
use pmdns_streams::tls::{Certificate, CertificateError};

use news::News;
use pmdns_engine::rules::{BuildError, RulesPublisher};
use reading::{Fresh, Read, Source, read, restart_for};
pub use reading::{Written, describe};

use super::metrics::server::MetricsListener;
use crate::clients::ClientFiles;
use crate::connecting::may_ask;
use crate::lists;
use crate::overlay::{Changed, ConfigChange, Overlay};
use crate::runtime::Runtime;
use pmdns_control::Caller;

/// Clients that may wait for reloads.
const MAX_ASKERS: usize = 16;

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

/// The progress of a reload.
enum Stage {
    /// There is none.
    Idle,
    /// The files are being read.
    Reading(JoinHandle<Result<Read, ReloadError>>),
    /// Not every thread has given its old rules back.
    Lent(String),
    /// The same after an operator's change.
    Changing(String),
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
    /// The configuration that the rules in use were made from.
    latest: Arc<Config>,
    /// The same without the changes of run time, and these.
    base: Arc<Config>,
    overlay: Overlay,
    /// The changes that wait, with the clients who want them.
    changes: VecDeque<(ConfigChange, Caller)>,
    /// The change under way: the changes that hold then, a sentence, and a file that nobody needs then.
    change: Option<(Overlay, String, Option<PathBuf>)>,
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
    stage: Stage,
    started: Instant,
    /// The clients that wait for the reload under way.
    askers: Vec<Caller>,
    /// Another reload was requested while this one runs, and the clients that wait for it.
    asked: bool,
    next_askers: Vec<Caller>,
    news: News,
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
            latest: Arc::new(running.clone()),
            base: Arc::new(running.clone()),
            overlay: Overlay::default(),
            changes: VecDeque::new(),
            change: None,
            publisher,
            metrics: None,
            certificate: None,
            access: None,
            clients: None,
            lent_version: 0,
            version: 0,
            stage: Stage::Idle,
            started: Instant::now(),
            askers: Vec::new(),
            asked: false,
            next_askers: Vec::new(),
            news: News::default(),
        }
    }

    /// Has reloads change who may connect over streams.
    pub fn set_access(&mut self, access: Option<AccessList>) {
        self.access = access;
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
        self.asked = true;
    }

    /// The same, for a caller that waits for the result.
    pub fn ask_for(&mut self, caller: Caller) {
        if self.next_askers.len() == MAX_ASKERS {
            return caller.refuse(Refusal::Busy, "too many wait for a reload already");
        }
        self.next_askers.push(caller);
        self.asked = true;
    }

    /// Changes the configuration in use, for a caller that waits for the result. Changes come one after another.
    pub fn change(&mut self, change: ConfigChange, caller: Caller) {
        if self.changes.len() == MAX_ASKERS {
            let why = "too many changes wait already".to_owned();
            return caller.refuse(Refusal::Busy, why);
        }
        self.changes.push_back((change, caller));
    }

    /// The changes of operators since the start.
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// Has the rules made anew from the configuration in use, because one of its files has changed. If that fails, it
    /// is repeated until a reload has succeeded.
    pub fn note_news(&mut self) {
        self.news.is_fresh = true;
    }

    /// The configuration that the rules in use were made from.
    pub fn config(&self) -> &Arc<Config> {
        &self.latest
    }

    /// The same as it was written, with the keys that need a restart as they were at the start.
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
        let waits =
            self.asked || self.news.is_fresh || self.news.is_owed || !self.changes.is_empty();
        matches!(self.stage, Stage::Idle) && !waits
    }

    /// Whether files are being read.
    pub fn is_reading(&self) -> bool {
        matches!(&self.stage, Stage::Reading(thread) if !thread.is_finished())
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
    pub fn follow(&mut self, runtime: &Runtime) {
        // Rules that were read come first: changes without end must not keep them out.
        let waits = match &self.stage {
            Stage::Idle => false,
            Stage::Reading(thread) => thread.is_finished(),
            Stage::Lent(_) | Stage::Changing(_) => true,
        };
        if waits || runtime.version() == self.lent_version {
            return;
        }
        if !self.publisher.collect() {
            self.publisher.lend_runtime(runtime.names(&self.latest, self.publisher.seed()));
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
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => {}
            Stage::Reading(thread) if thread.is_finished() && !is_lent => {
                match thread.join().unwrap_or(Err(ReloadError::Ended)) {
                    Ok(read) => {
                        is_other = read.base.is_some() || self.change.is_some();
                        self.lend(read);
                    }
                    Err(error) => self.fail(&error, now),
                }
            }
            Stage::Lent(text)
                if !is_lent && self.clients.as_ref().is_none_or(ClientFiles::is_taken) =>
            {
                self.succeed(&text, now);
            }
            Stage::Changing(done) if !is_lent => {
                tracing::info!("{done}");
                self.tell(&CallReply::Done(done));
            }
            under_way => self.stage = under_way,
        }
        // Changes come first, because they are quick.
        while matches!(self.stage, Stage::Idle) && self.begin_change(now) {}
        if (self.asked || self.news.are_due(now)) && matches!(self.stage, Stage::Idle) {
            self.begin(now);
        }
        is_other
    }

    /// Begins the next change, or refuses it. `false`: none waits.
    fn begin_change(&mut self, now: Instant) -> bool {
        let Some((change, caller)) = self.changes.pop_front() else { return false };
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let since = since.map_or(0, |since| since.as_secs());
        match self.overlay.with(&change, &self.base, &caller.by, since) {
            Ok(Changed { overlay, config, done, stale, left }) => {
                if let Some(Err(why)) = stale.map(|file| lists::clear(&file)) {
                    caller.refuse(Refusal::Unable, why);
                    return true;
                }
                self.change = Some((overlay, format!("{done}, by {}", caller.by), left));
                self.askers = vec![caller];
                let source = match change {
                    ConfigChange::Upstream(_) => Source::Upstreams(config),
                    ConfigChange::List(_) => Source::Latest(config),
                };
                self.read(source, now);
            }
            Err((refusal, why)) => caller.refuse(refusal, why),
        }
        true
    }

    fn begin(&mut self, now: Instant) {
        let is_other = std::mem::take(&mut self.asked);
        self.news.begin(now);
        self.askers = std::mem::take(&mut self.next_askers);
        let source = match is_other {
            true => Source::File(self.overlay.clone()),
            false => Source::Latest(Config::clone(&self.latest)),
        };
        self.read(source, now);
    }

    /// Begins to read on a thread of its own.
    fn read(&mut self, source: Source, now: Instant) {
        self.started = now;
        let written = Written { fixed: self.first.fixed.clone(), all: self.written.clone() };
        let certificate = self.certificate.clone().filter(|_| matches!(source, Source::File(_)));
        let (path, builder) = (self.path.clone(), self.publisher.builder());
        let in_use = Arc::clone(&self.latest);
        let body = move || read(&path, (source, written), builder, certificate, &in_use);
        match std::thread::Builder::new().name("reload".into()).spawn(body) {
            Ok(thread) => self.stage = Stage::Reading(thread),
            Err(error) => self.fail(&ReloadError::Thread(error), now),
        }
    }

    fn lend(&mut self, read: Read) {
        let Read { config, base, text: written, clients, fresh, metrics } = read;
        self.latest = Arc::new(config);
        self.base = base.map_or_else(|| Arc::clone(&self.base), Arc::new);
        let done = self.change.take().map(|(overlay, done, left)| {
            self.overlay = overlay;
            if let Some(Err(why)) = left.map(|file| lists::clear(&file)) {
                tracing::warn!("{why}");
            }
            done
        });
        let text = match fresh {
            Fresh::All(fresh) => {
                self.rules = describe(&fresh.digest);
                for warning in self.latest.warnings().iter().chain(&fresh.digest.warnings) {
                    tracing::warn!("{warning}");
                }
                self.publisher.lend(*fresh);
                if let Some(access) = &self.access {
                    access.set(may_ask(&self.latest));
                }
                // What was said at run time of names knows views by their numbers.
                self.lent_version = 0;
                let rest = restart_for(&self.first.fixed.changed(&written.fixed));
                format!("{}{rest}", self.rules)
            }
            Fresh::Upstreams(fresh) => {
                self.publisher.lend_upstreams(fresh);
                String::new()
            }
        };
        self.written = self.first.all.reloaded(&written.all);
        self.metrics = metrics.or_else(|| self.metrics.take());
        if let (Some(file), Some(files)) = (clients, &mut self.clients) {
            files.give(file, self.latest.views.clone());
        }
        self.stage = match done {
            Some(done) => Stage::Changing(done),
            None => Stage::Lent(text),
        };
    }

    fn succeed(&mut self, text: &str, now: Instant) {
        self.news.settle();
        let seconds = now.duration_since(self.started).as_secs_f64();
        tracing::info!("reloaded in {seconds:.1} s: {text}");
        self.tell(&CallReply::Done(text.to_owned()));
    }

    fn fail(&mut self, error: &ReloadError, now: Instant) {
        if self.change.take().is_some() {
            tracing::error!("not changed: {error}");
        } else {
            self.news.fail(now);
            tracing::error!("not reloaded, the rules in use stay: {error}");
        }
        self.tell(&CallReply::Refused(Refusal::Unable, error.to_string()));
    }

    fn tell(&mut self, reply: &CallReply) {
        self.askers.drain(..).for_each(|caller| caller.reply(reply.clone()));
    }
}

#[cfg(test)]
mod tests;
