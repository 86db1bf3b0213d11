//! Reload: rules read anew from the configuration, while queries are answered.
//!
//! A thread of its own reads the files and makes the rules, which for millions of names takes seconds. The main
//! thread then lends them to those who judge by them and waits until what they had has come back. Whoever
//! asked is told how it ended. A configuration or file that is wrong changes nothing.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Instant;

use pmdns_config::{Config, ConfigError, View};
use pmdns_stages::policy::{Digest, RulesetError};

use super::socket::Client;
use crate::rules::{Fresh, Recipe, RulesDesk};

/// Clients that may wait for reloads.
const MAX_ASKERS: usize = 16;

/// Why a reload changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file it names is, or the records contradict each other.
    #[error(transparent)]
    Rules(#[from] RulesetError),
    /// Threads that ask upstream, and the cache, know views by their numbers.
    #[error(
        "the names of views, or which of them share answers (for they have the same group, forward zones and policy zones), \
         have changed; restart for that"
    )]
    Views,
    /// No thread could be started for it.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The thread ended without an answer.
    #[error("the thread that reads the files ended unexpectedly; the log says why")]
    Ended,
}

/// What a reload read.
struct Read {
    config: Config,
    /// It was read anew.
    is_other: bool,
    fresh: Fresh,
}

/// How far a reload has come.
enum Stage {
    /// Nobody asked for one.
    Idle,
    /// The files are being read.
    Reading(JoinHandle<Result<Read, ReloadError>>),
    /// Not every thread has given back what it had.
    Lent(String),
}

/// Reloads, one at a time.
pub struct Reloader {
    path: PathBuf,
    running: Config,
    /// What the rules in use were made from.
    latest: Config,
    desk: RulesDesk,
    stage: Stage,
    started: Instant,
    /// Who waits for the reload under way.
    askers: Vec<Client>,
    /// Somebody asked since it began, and who of them waits.
    asked: bool,
    next_askers: Vec<Client>,
    /// A file has changed that the configuration in use names.
    has_news: bool,
}

impl Reloader {
    /// A reloader of what `running` was read from.
    pub fn new(path: &Path, running: &Config, desk: RulesDesk) -> Self {
        Self {
            path: path.to_owned(),
            running: running.clone(),
            latest: running.clone(),
            desk,
            stage: Stage::Idle,
            started: Instant::now(),
            askers: Vec::new(),
            asked: false,
            next_askers: Vec::new(),
            has_news: false,
        }
    }

    /// Has the rules read anew, after the reload under way if there is one: its files may have been read before
    /// they were changed.
    pub fn ask(&mut self) {
        self.asked = true;
    }

    /// The same, for somebody who wants to know how it ends.
    pub fn ask_for(&mut self, client: Client) {
        if self.next_askers.len() == MAX_ASKERS {
            return client.answer("error: too many wait for a reload already\n");
        }
        self.next_askers.push(client);
        self.asked = true;
    }

    /// Has the rules made anew from the configuration in use: one of its files is another one now.
    pub fn note_news(&mut self) {
        self.has_news = true;
    }

    /// What the rules in use were made from.
    pub fn config(&self) -> &Config {
        &self.latest
    }

    /// Goes on with what is under way. Never waits. Whether another configuration is in use from now on.
    pub fn turn(&mut self) -> bool {
        let mut is_other = false;
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => {}
            Stage::Reading(thread) if thread.is_finished() => {
                match thread.join().unwrap_or(Err(ReloadError::Ended)) {
                    Ok(read) => {
                        is_other = read.is_other;
                        self.lend(read);
                    }
                    Err(error) => self.fail(&error),
                }
            }
            Stage::Lent(text) if !self.desk.collect() => self.succeed(&text),
            under_way => self.stage = under_way,
        }
        if (self.asked || self.has_news) && matches!(self.stage, Stage::Idle) {
            self.begin();
        }
        is_other
    }

    fn begin(&mut self) {
        let is_other = std::mem::take(&mut self.asked);
        self.has_news = false;
        self.started = Instant::now();
        self.askers = std::mem::take(&mut self.next_askers);
        let (path, latest, recipe) = (self.path.clone(), self.latest.clone(), self.desk.recipe());
        let thread = std::thread::Builder::new().name("reload".into());
        match thread.spawn(move || read(is_other.then_some(&path), latest, recipe)) {
            Ok(thread) => self.stage = Stage::Reading(thread),
            Err(error) => self.fail(&ReloadError::Thread(error)),
        }
    }

    fn lend(&mut self, Read { config, fresh, .. }: Read) {
        if config.scope_map() != self.running.scope_map() {
            return self.fail(&ReloadError::Views);
        }
        let text = describe(&fresh.digest);
        for warning in &fresh.digest.warnings {
            tracing::warn!("{warning}");
        }
        let differs = rest(&config) != rest(&self.running);
        let rest = if differs { "; other settings have changed too: restart for them" } else { "" };
        self.latest = config;
        self.desk.lend(fresh);
        self.stage = Stage::Lent(format!("{text}{rest}"));
    }

    fn succeed(&mut self, text: &str) {
        let seconds = self.started.elapsed().as_secs_f64();
        tracing::info!("reloaded in {seconds:.1} s: {text}");
        self.tell(&format!("ok {text}\n"));
    }

    fn fail(&mut self, error: &ReloadError) {
        tracing::error!("not reloaded, the rules in use stay: {error}");
        self.tell(&format!("error: {error}\n"));
    }

    fn tell(&mut self, text: &str) {
        self.askers.drain(..).for_each(|client| client.answer(text));
    }
}

/// Makes rules of the configuration at `path`; without one, of the `latest`.
fn read(path: Option<&PathBuf>, latest: Config, recipe: Recipe) -> Result<Read, ReloadError> {
    let config = path.map_or(Ok(latest), |path| Config::load(path))?;
    let fresh = recipe.make(&config)?;
    Ok(Read { config, is_other: path.is_some(), fresh })
}

/// What rules consist of, in a line.
pub fn describe(digest: &Digest) -> String {
    let Digest { local_names, policy_names, blocked_names, bytes, warnings } = digest;
    let mut text = format!(
        "{local_names} local names, {policy_names} names in policy zones, {blocked_names} blocked names \
         in {:.1} MiB",
        *bytes as f64 / f64::from(1 << 20)
    );
    if !warnings.is_empty() {
        text += &format!(", {} files with lines that were not understood", warnings.len());
    }
    text
}

/// What a reload does not change, for comparison.
fn rest(config: &Config) -> String {
    let none = Config::default();
    let views = config.views.iter().map(|view| View { clients: Vec::new(), ..view.clone() });
    let rest = Config {
        views: views.collect(),
        acl: none.acl,
        ratelimit: none.ratelimit,
        local: none.local,
        block: none.block,
        policy: none.policy,
        zones: none.zones,
        blocklists: none.blocklists,
        rpz: none.rpz,
        tsig: none.tsig,
        ..config.clone()
    };
    format!("{rest:?}")
}
