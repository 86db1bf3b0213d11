//! Reload: reads the rules anew from the configuration, while queries are answered.
//!
//! A thread of its own reads the files and builds the rules, which for millions of names takes seconds. The main thread
//! then lends the rules to all threads that use them, and waits until the old ones have come back. The clients that
//! asked get the result. A wrong configuration or file changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pmdns_config::{Config, ConfigError, ConfigText, FixedKeys, WrittenConfig};
use pmdns_stages::policy::{Digest, Ruleset, RulesetError};
use pmdns_stages::wire::name::Seed;
use pmdns_streams::tls::{Certificate, CertificateError};

use super::socket::Client;
use crate::clock::back_off;
use crate::rules::{RulesBuilder, RulesPublisher, RulesUpdate};
use crate::runtime::Runtime;

/// Clients that may wait for reloads.
const MAX_ASKERS: usize = 16;
/// The pause after the first reload that failed although files had changed. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The most keys that are named when a restart is needed for them.
const MAX_SHOWN: usize = 10;

/// Why a reload changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file that it names is wrong, or records contradict each other.
    #[error(transparent)]
    Rules(#[from] RulesetError),
    /// The certificate of encrypted clients cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The views have changed. The slow path and the cache know views by their numbers.
    #[error(
        "the names of views, or which of them share answers (views with the same group, forward zones, policy zones and \
         prefixes of DNS64 do), have changed; that needs a restart"
    )]
    Views,
    /// No thread could be started for it.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The thread ended without an answer.
    #[error("the thread that reads the files ended unexpectedly; the log says why")]
    Ended,
}

/// The result of reading.
struct Read {
    config: Config,
    /// The same as it was written, with its keys that need a restart.
    text: Written,
    /// Whether the configuration was read anew.
    is_other: bool,
    fresh: RulesUpdate,
}

/// A configuration as it was written.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Its keys that need a restart.
    pub fixed: FixedKeys,
    /// All of it.
    pub all: WrittenConfig,
}

impl Written {
    /// That of a file that was read.
    pub fn of(text: &ConfigText) -> Self {
        Self { fixed: text.fixed_keys(), all: text.written() }
    }
}

/// The progress of a reload.
enum Stage {
    /// There is none.
    Idle,
    /// The files are being read.
    Reading(JoinHandle<Result<Read, ReloadError>>),
    /// Not every thread has given its old rules back.
    Lent(String),
}

/// News of changed files that the configuration in use names. News comes only once, so it is kept until a reload has
/// read the files.
#[derive(Default)]
struct News {
    /// News has come since the last reload began.
    is_fresh: bool,
    /// There was news when a reload began, and no reload has succeeded since.
    is_owed: bool,
    /// When a failed reload is repeated.
    due: Option<Instant>,
    /// Pauses since the last success.
    pauses: u32,
}

impl News {
    fn are_due(&self, now: Instant) -> bool {
        self.is_fresh || self.is_past_due(now)
    }

    fn is_past_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// A reload begins. Whatever its cause, it reads the changed files.
    fn begin(&mut self, now: Instant) {
        self.is_owed |= std::mem::take(&mut self.is_fresh);
        if self.is_past_due(now) {
            self.due = None;
        }
    }

    /// It has succeeded. It may not have read files that changed meanwhile.
    fn settle(&mut self) {
        *self = Self { is_fresh: self.is_fresh, ..Self::default() };
    }

    /// It has failed. A time that is set already stays, so requests for reloads cannot delay the repetition.
    fn fail(&mut self, now: Instant) {
        if self.is_owed && self.due.is_none() {
            self.due = Some(now + pause(self.pauses));
            self.pauses = self.pauses.saturating_add(1);
        }
    }
}

/// The length of the next pause, after `pauses` earlier ones.
fn pause(pauses: u32) -> Duration {
    back_off(FIRST_PAUSE, pauses.into(), LONGEST_PAUSE)
}

/// Reloads, one at a time.
pub struct Reloader {
    path: PathBuf,
    running: Config,
    /// The configuration of the start, whose fixed keys a reload does not change.
    first: Written,
    /// The configuration in use.
    written: WrittenConfig,
    /// A summary of the rules in use.
    rules: String,
    /// The configuration that the rules in use were made from.
    latest: Arc<Config>,
    publisher: RulesPublisher,
    /// The certificate of encrypted clients, whose files an operator's reload reads as well.
    certificate: Option<Certificate>,
    /// The version of what is said of names at run time: as it was lent last, and as every thread has it.
    lent_version: u64,
    version: u64,
    stage: Stage,
    started: Instant,
    /// The clients that wait for the reload under way.
    askers: Vec<Client>,
    /// Another reload was requested while this one runs, and the clients that wait for it.
    asked: bool,
    next_askers: Vec<Client>,
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
            running: running.clone(),
            written: first.all.clone(),
            first,
            rules,
            latest: Arc::new(running.clone()),
            publisher,
            certificate: None,
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

    /// The same, which reads the files of this certificate as well when an operator requests a reload.
    pub fn with_certificate(self, certificate: Option<Certificate>) -> Self {
        Self { certificate, ..self }
    }

    /// Requests a reload. If one is under way, another follows it, because files may have changed after that one read
    /// them.
    pub fn ask(&mut self) {
        self.asked = true;
    }

    /// The same, for a client that waits for the result.
    pub fn ask_for(&mut self, client: Client) {
        if self.next_askers.len() == MAX_ASKERS {
            return client.answer("error: too many wait for a reload already\n");
        }
        self.next_askers.push(client);
        self.asked = true;
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

    /// The rules in use, with what is said at run time.
    pub fn in_use(&self) -> Option<Arc<Ruleset>> {
        self.publisher.in_use()
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
            Stage::Lent(_) => true,
        };
        if waits || runtime.version() == self.lent_version {
            return;
        }
        if !self.publisher.collect() {
            self.publisher.lend_runtime(runtime.names(&self.latest, self.publisher.seed()));
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
                        is_other = read.is_other;
                        self.lend(read, now);
                    }
                    Err(error) => self.fail(&error, now),
                }
            }
            Stage::Lent(text) if !is_lent => self.succeed(&text, now),
            under_way => self.stage = under_way,
        }
        if (self.asked || self.news.are_due(now)) && matches!(self.stage, Stage::Idle) {
            self.begin(now);
        }
        is_other
    }

    fn begin(&mut self, now: Instant) {
        let is_other = std::mem::take(&mut self.asked);
        self.news.begin(now);
        self.started = now;
        self.askers = std::mem::take(&mut self.next_askers);
        let latest = (!is_other).then(|| {
            let text = Written { fixed: self.first.fixed.clone(), all: self.written.clone() };
            (Config::clone(&self.latest), text)
        });
        let certificate = self.certificate.clone().filter(|_| is_other);
        let (path, builder) = (self.path.clone(), self.publisher.builder());
        let thread = std::thread::Builder::new().name("reload".into());
        match thread.spawn(move || read(&path, latest, builder, certificate)) {
            Ok(thread) => self.stage = Stage::Reading(thread),
            Err(error) => self.fail(&ReloadError::Thread(error), now),
        }
    }

    fn lend(&mut self, Read { config, text: written, fresh, .. }: Read, now: Instant) {
        if config.scope_map() != self.running.scope_map() {
            return self.fail(&ReloadError::Views, now);
        }
        let text = describe(&fresh.digest);
        for warning in config.warnings().iter().chain(&fresh.digest.warnings) {
            tracing::warn!("{warning}");
        }
        let rest = restart_for(&self.first.fixed.changed(&written.fixed));
        self.latest = Arc::new(config);
        self.written = self.first.all.reloaded(&written.all);
        self.rules.clone_from(&text);
        self.publisher.lend(fresh);
        self.stage = Stage::Lent(format!("{text}{rest}"));
    }

    fn succeed(&mut self, text: &str, now: Instant) {
        self.news.settle();
        let seconds = now.duration_since(self.started).as_secs_f64();
        tracing::info!("reloaded in {seconds:.1} s: {text}");
        self.tell(&format!("ok {text}\n"));
    }

    fn fail(&mut self, error: &ReloadError, now: Instant) {
        self.news.fail(now);
        tracing::error!("not reloaded, the rules in use stay: {error}");
        self.tell(&format!("error: {error}\n"));
    }

    fn tell(&mut self, text: &str) {
        self.askers.drain(..).for_each(|client| client.answer(text));
    }
}

/// Makes rules from the `latest` configuration; without one, from the file at `path`.
fn read(
    path: &Path,
    latest: Option<(Config, Written)>,
    builder: RulesBuilder,
    certificate: Option<Certificate>,
) -> Result<Read, ReloadError> {
    let is_other = latest.is_none();
    let (config, text) = match latest {
        Some(latest) => latest,
        None => {
            let text = ConfigText::read(path)?;
            let written = Written::of(&text);
            (text.into_config()?, written)
        }
    };
    let fresh = builder.make(&config)?;
    certificate.map_or(Ok(()), |certificate| certificate.reload())?;
    Ok(Read { config, text, is_other, fresh })
}

/// The message about changed keys that need a restart.
fn restart_for(changed: &[String]) -> String {
    let (shown, others) = changed.split_at(changed.len().min(MAX_SHOWN));
    match (shown.is_empty(), others.len()) {
        (true, _) => String::new(),
        (false, 0) => format!("; restart for {}", shown.join(", ")),
        (false, more) => format!("; restart for {} and {more} more", shown.join(", ")),
    }
}

/// Describes rules in one line.
pub fn describe(digest: &Digest) -> String {
    let Digest { local_names, policy_names, skipped_rules, blocked_names, bytes, warnings } =
        digest;
    let mut text = format!(
        "{local_names} local names (special-use and reverse names included), \
         {policy_names} names in policy zones, {blocked_names} blocked names \
         in {:.1} MiB",
        *bytes as f64 / f64::from(1 << 20)
    );
    if *skipped_rules > 0 {
        text += &format!(", {skipped_rules} rules of policy zones left out");
    }
    if !warnings.is_empty() {
        text += &format!(", {} files with lines that were not understood", warnings.len());
    }
    text
}

#[cfg(test)]
mod tests;
