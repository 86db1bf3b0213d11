//! A list that is kept up to date.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pmdns_config::files::open_regular;
use pmdns_config::{ListFormat, Server};
use pmdns_counters::count;
use pmdns_engine::clock::jittered;
use tokio::time::Instant;

use super::counters::ListCounters;
use super::fetch::{FetchError, Fetched, Source, Version, fetch};
use super::keep::{check, keep, names_in};
use super::schedule::pause;

/// How often a list is fetched if its table does not say.
pub(super) const INTERVAL: Duration = Duration::from_secs(86_400);

/// The settings of a list, and its counters.
#[derive(Clone)]
pub(super) struct Followed {
    pub(super) file: PathBuf,
    pub(super) format: ListFormat,
    pub(super) interval: Duration,
    pub(super) source: Result<Source, String>,
    /// Whether it was added at run time, by somebody who need not learn what answers in our network.
    pub(super) is_added: bool,
    pub(super) counters: Arc<ListCounters>,
    /// Why the last attempt failed, for people; none: it did not.
    pub(super) last_error: LastError,
}

/// Why the last attempt failed. The thread that fetches writes, anybody may read.
#[derive(Clone, Debug, Default)]
pub(super) struct LastError(Arc<Mutex<Option<String>>>);

impl LastError {
    pub(super) fn read(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn write(&self, why: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}

impl Followed {
    /// Where it is fetched from, if that is known.
    fn server(&self) -> Option<&Server> {
        self.source.as_ref().ok().map(|source| &source.server)
    }

    /// Whether requests mean it by this name: its file, or the last part of that.
    pub(super) fn is_called(&self, name: &str) -> bool {
        Path::new(name) == self.file || self.file.file_name().is_some_and(|last| last == name)
    }
}

/// A list on the thread that fetches it.
pub(super) struct List {
    pub(super) followed: Followed,
    /// What the server said of the version that is kept.
    version: Version,
    due: Instant,
    /// The result of the last attempt, if there was one.
    pub(super) last: Option<Result<String, String>>,
}

impl List {
    /// The list as it is kept. `before`: as it was followed until now.
    pub(super) fn new(followed: Followed, before: Option<&Self>) -> Self {
        let counters = &followed.counters;
        let age = age_of(&followed.file);
        if counters.names.load(Ordering::Relaxed) == 0 && age.is_some() {
            counters.names.store(names_in(&followed.file, followed.format), Ordering::Relaxed);
            let refreshed = age.and_then(|age| now().checked_sub(age)).unwrap_or_default();
            counters.refreshed.store(refreshed.as_secs(), Ordering::Relaxed);
        }
        let has_moved = before.is_some_and(|list| list.followed.server() != followed.server());
        // What one server says of its versions means nothing to another.
        let version = before.filter(|_| !has_moved).map(|list| list.version.clone());
        let age = age.filter(|_| !has_moved);
        let due = Instant::now() + pause(jittered(followed.interval), age, 0);
        let last = before.filter(|_| !has_moved).and_then(|list| list.last.clone());
        Self { followed, version: version.unwrap_or_default(), due, last }
    }

    /// When it is fetched next.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Fetches it. `news` is set if there is another version, which has as many names at most as there is `room` for.
    pub(super) async fn refresh(
        &mut self,
        news: &AtomicBool,
        room: usize,
    ) -> Result<String, String> {
        let file = self.followed.file.display().to_string();
        let result = self.attempt(news, room).await;
        let counters = &self.followed.counters;
        let failures = match &result {
            Ok(done) => {
                counters.refreshed.store(now().as_secs(), Ordering::Relaxed);
                tracing::info!("list {file}: {done}");
                0
            }
            Err(why) => {
                count(&counters.failures);
                tracing::warn!("list {file} is not refreshed, the names in use stay: {why}");
                counters.failing.load(Ordering::Relaxed) + 1
            }
        };
        let result = result.map_err(|why| public_reason(&why, self.followed.is_added));
        self.followed.last_error.write(result.as_ref().err().cloned());
        counters.failing.store(failures, Ordering::Relaxed);
        let age = (failures == 0).then_some(Duration::ZERO);
        self.due = Instant::now() + pause(jittered(self.followed.interval), age, failures);
        let result = match result {
            Ok(done) => Ok(format!("{file}: {done}")),
            Err(why) => Err(format!("{file} is not refreshed: {why}")),
        };
        self.last = Some(result.clone());
        result
    }

    async fn attempt(&mut self, news: &AtomicBool, room: usize) -> Result<String, FetchError> {
        let Followed { file, format, source, counters, .. } = &self.followed;
        let is_kept = file.exists();
        let version = if is_kept { self.version.clone() } else { Version::default() };
        match fetch(source.as_ref().map_err(Clone::clone)?, &version).await? {
            Fetched::Unchanged => {
                count(&counters.unchanged);
                touch(file);
                Ok("nothing new".to_owned())
            }
            Fetched::New(bytes, version) => {
                let before = if is_kept { counters.names.load(Ordering::Relaxed) } else { 0 };
                let names = check(&bytes, file, *format, (before, room))
                    .inspect_err(|_| count(&counters.refused))?;
                keep(&bytes, file).map_err(|error| format!("cannot write it: {error}"))?;
                count(&counters.fetched);
                counters.names.store(names, Ordering::Relaxed);
                self.version = version;
                news.store(true, Ordering::Relaxed);
                Ok(format!("{names} names fetched"))
            }
        }
    }
}

/// The reason for people. Who has added a list learns from it nothing of hosts that serve none.
fn public_reason(why: &FetchError, is_added: bool) -> String {
    match why {
        FetchError::Unreached(_) if is_added => {
            "no server with a certificate that is trusted answers there; the log has more"
                .to_owned()
        }
        why => why.to_string(),
    }
}

/// Makes a list as old as the server's last word. One that cannot be changed only looks older.
fn touch(file: &Path) {
    let _ = open_regular(file).and_then(|file| file.set_modified(SystemTime::now()));
}

/// The time since a file was changed; `None`: there is none.
fn age_of(file: &Path) -> Option<Duration> {
    let changed = std::fs::metadata(file).and_then(|facts| facts.modified()).ok()?;
    Some(SystemTime::now().duration_since(changed).unwrap_or_default())
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_adds_a_list_does_not_learn_what_answers_elsewhere() {
        let probe = FetchError::Unreached("10.0.0.1:22: received corrupt message".into());
        assert!(
            !public_reason(&probe, true).contains("corrupt"),
            "{}",
            public_reason(&probe, true)
        );
        assert!(
            public_reason(&probe, false).contains("corrupt"),
            "the operator's file may name any host"
        );
        let status = FetchError::Unusable("the server answers with status 404".into());
        assert!(public_reason(&status, true).contains("404"));
    }

    #[test]
    fn a_list_becomes_as_old_as_it_was_confirmed_and_nobody_waits_for_a_pipe() {
        let path = std::env::temp_dir().join(format!("pmdns-touch-{}", std::process::id()));
        std::fs::write(&path, "a.example\n").unwrap();
        let old = SystemTime::now() - Duration::from_secs(5000);
        std::fs::File::open(&path).unwrap().set_modified(old).unwrap();
        assert!(age_of(&path).unwrap().as_secs() >= 5000);
        touch(&path);
        assert!(age_of(&path).unwrap().as_secs() < 1000);
        std::fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        touch(&path);
        std::fs::remove_file(&path).unwrap();
    }
}
