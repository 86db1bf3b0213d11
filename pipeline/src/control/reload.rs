//! Reload: reads the rules anew from the configuration, while queries are answered.
//!
//! A thread of its own reads the files and builds the rules, which for millions of names takes seconds. The main thread
//! then lends the rules to all threads that use them, and waits until the old ones have come back. The clients that
//! asked get the result. A wrong configuration or file changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pmdns_config::{Config, ConfigError, ConfigText, FixedKeys};
use pmdns_stages::policy::{Digest, Ruleset, RulesetError};

use super::socket::Client;
use crate::clock::back_off;
use crate::rules::{RulesBuilder, RulesPublisher, RulesUpdate};

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
    /// The views have changed. The slow path and the cache know views by their numbers.
    #[error(
        "the names of views, or which of them share answers (views with the same group, forward zones and policy zones do), \
         have changed; that needs a restart"
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
    config: Arc<Config>,
    /// Its keys that need a restart.
    fixed: FixedKeys,
    /// Whether the configuration was read anew.
    is_other: bool,
    fresh: RulesUpdate,
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
    /// The keys of the start, which a reload does not change.
    fixed: FixedKeys,
    /// The configuration that the rules in use were made from.
    latest: Arc<Config>,
    publisher: RulesPublisher,
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
    /// A reloader for the file at `path`, from which `running` and `fixed` were read.
    pub fn new(path: &Path, running: &Config, fixed: FixedKeys, publisher: RulesPublisher) -> Self {
        Self {
            path: path.to_owned(),
            running: running.clone(),
            fixed,
            latest: Arc::new(running.clone()),
            publisher,
            stage: Stage::Idle,
            started: Instant::now(),
            askers: Vec::new(),
            asked: false,
            next_askers: Vec::new(),
            news: News::default(),
        }
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

    /// The rules in use.
    pub fn rules(&self) -> Option<&Arc<Ruleset>> {
        self.publisher.in_use()
    }

    /// Whether files are being read.
    pub fn is_reading(&self) -> bool {
        matches!(&self.stage, Stage::Reading(thread) if !thread.is_finished())
    }

    /// Continues the reload under way. Never waits. `true`: another configuration is in use from now on.
    pub fn turn(&mut self, now: Instant) -> bool {
        let mut is_other = false;
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => {}
            Stage::Reading(thread) if thread.is_finished() => {
                match thread.join().unwrap_or(Err(ReloadError::Ended)) {
                    Ok(read) => {
                        is_other = read.is_other;
                        self.lend(read, now);
                    }
                    Err(error) => self.fail(&error, now),
                }
            }
            Stage::Lent(text) if !self.publisher.collect() => self.succeed(&text, now),
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
        let latest = (!is_other).then(|| (Arc::clone(&self.latest), self.fixed.clone()));
        let (path, builder) = (self.path.clone(), self.publisher.builder());
        let thread = std::thread::Builder::new().name("reload".into());
        match thread.spawn(move || read(&path, latest, builder)) {
            Ok(thread) => self.stage = Stage::Reading(thread),
            Err(error) => self.fail(&ReloadError::Thread(error), now),
        }
    }

    fn lend(&mut self, Read { config, fixed, fresh, .. }: Read, now: Instant) {
        if config.scope_map() != self.running.scope_map() {
            return self.fail(&ReloadError::Views, now);
        }
        let text = describe(&fresh.digest);
        for warning in config.warnings().iter().chain(&fresh.digest.warnings) {
            tracing::warn!("{warning}");
        }
        let rest = restart_for(&self.fixed.changed(&fixed));
        self.latest = config;
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
    latest: Option<(Arc<Config>, FixedKeys)>,
    builder: RulesBuilder,
) -> Result<Read, ReloadError> {
    let is_other = latest.is_none();
    let (config, fixed) = match latest {
        Some(latest) => latest,
        None => {
            let text = ConfigText::read(path)?;
            let fixed = text.fixed_keys();
            (Arc::new(text.into_config()?), fixed)
        }
    };
    let fresh = builder.make(&config)?;
    Ok(Read { config, fixed, is_other, fresh })
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
mod tests {
    use pmdns_stages::wire::name::Seed;

    use super::*;
    use crate::testing::config;

    /// Turns until no reload is under way.
    fn finish(reloader: &mut Reloader) {
        reloader.turn(Instant::now());
        while !matches!(reloader.stage, Stage::Idle) {
            std::thread::yield_now();
            reloader.turn(Instant::now());
        }
    }

    /// Identifies the rules in use.
    fn rules(reloader: &Reloader) -> String {
        format!("{:?}", reloader.publisher.builder())
    }

    #[test]
    fn news_that_a_failed_reload_took_are_owed_and_taken_from_the_configuration_in_use_later() {
        let folder = std::env::temp_dir().join(format!("pmdns-owed-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (file, list) = (folder.join("pmdns.toml"), folder.join("list"));
        std::fs::write(&file, "half of a new configurat").unwrap();
        let config = config(&format!("[[blocklist]]\nfile = {list:?}\n"));
        let (publisher, _) = RulesPublisher::new(0, 0, Seed::new([0; 16]), 1);
        let mut reloader = Reloader::new(&file, &config, FixedKeys::default(), publisher);
        // First a block list is missing for a moment, then a configuration is half written.
        for operator in [false, true] {
            let before = rules(&reloader);
            reloader.note_news();
            reloader.asked = operator;
            let _ = std::fs::remove_file(&list);
            finish(&mut reloader);
            assert_eq!(rules(&reloader), before, "it failed");
            assert!(reloader.news.due.is_some(), "it is tried again");
            std::fs::write(&list, "one.example\n").unwrap();
            reloader.news.due = Some(Instant::now());
            finish(&mut reloader);
            assert_ne!(rules(&reloader), before, "when it is time");
            assert!(!reloader.news.is_owed && reloader.news.due.is_none(), "once");
        }
        reloader.ask();
        finish(&mut reloader);
        assert!(reloader.news.due.is_none(), "what fails and owes nothing is not tried again");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn d08_a_restart_is_asked_for_key_by_key() {
        let keys: Vec<String> = (0..12).map(|number| format!("upstream[{number}]")).collect();
        assert_eq!(restart_for(&[]), "");
        assert_eq!(restart_for(&keys[..2]), "; restart for upstream[0], upstream[1]");
        let told = restart_for(&keys);
        assert!(told.ends_with("upstream[9] and 2 more"), "{told}");
    }

    #[test]
    fn a_reload_that_an_operator_asks_for_puts_nothing_off_and_settles_what_is_owed() {
        let start = Instant::now();
        let mut news = News { is_fresh: true, ..News::default() };
        news.begin(start);
        news.fail(start);
        let due = start + FIRST_PAUSE;
        assert!(!news.are_due(start) && news.are_due(due));
        news.begin(start);
        news.fail(start + FIRST_PAUSE / 2);
        assert_eq!(news.due, Some(due), "as it was");
        news.begin(start);
        news.is_fresh = true;
        news.settle();
        assert!(!news.is_owed && news.due.is_none());
        assert!(news.are_due(start), "what came meanwhile is still to be read");
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew_after_a_success() {
        let mut now = Instant::now();
        let mut news = News { is_fresh: true, ..News::default() };
        let mut next = |news: &mut News| {
            news.begin(now);
            news.fail(now);
            let seconds = (news.due.unwrap() - now).as_secs();
            now = news.due.unwrap();
            seconds
        };
        let pauses = [(); 7].map(|()| next(&mut news));
        assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
        news.settle();
        news.is_fresh = true;
        assert_eq!(next(&mut news), 10);
    }
}
