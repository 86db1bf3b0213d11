//! One transferred zone (RFC 1034 section 4.3.5). The primaries are asked when it is due. A newer version is
//! transferred, checked, and kept in the zone's file.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use domain::base::{Name, Serial};
use domain::tsig::Key;
use pmdns_config::LocalRecord;
use pmdns_config::files::{FileError, keep_zone, open_regular, read_zone};
use pmdns_stages::policy::{RpzError, check_policy_zone};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use pmdns_counters::count;
use pmdns_engine::clock::{back_off, jittered};

use super::client::{ClientError, PrimaryConnection};
use super::counters::ZoneCounters;
use super::limits::TransferLimits;
use super::share::Pool;
use super::version::{Soa, Transferred, VersionError};

/// The shortest time from one attempt to the next, even with many notifications.
const BREATH: Duration = Duration::from_millis(500);
/// The pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after a failure while there is no version yet.
const PAUSE_WITHOUT: Duration = Duration::from_secs(60);
/// The bounds of an SOA record's refresh and retry.
const BOUNDS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(86_400)];

/// The settings of a zone.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) name: Name<Vec<u8>>,
    /// The file of its last version.
    pub(super) file: PathBuf,
    pub(super) primaries: Vec<SocketAddr>,
    pub(super) key: Option<Arc<Key>>,
    /// Whether a version with rules that cannot be used is refused.
    pub(super) strict: bool,
}

impl Settings {
    /// Whether a primary has this address.
    pub(super) fn has_primary(&self, address: IpAddr) -> bool {
        self.primaries.iter().any(|primary| primary.ip().to_canonical() == address.to_canonical())
    }
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
enum RefreshError {
    /// The primary's fault.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Our version is newer.
    #[error(
        "its serial is {theirs}, and ours is {ours}, which is newer (RFC 1982); if that is meant, remove {} and reload",
        file.display()
    )]
    Older { theirs: Serial, ours: Serial, file: PathBuf },
    /// The whole attempt took too long.
    #[error("the attempt took longer than {0:?}")]
    TooSlow(Duration),
    /// It is no policy zone.
    #[error("version {serial} is refused, and the older one stays: {problem}")]
    Refused { serial: Serial, problem: RpzError },
    /// Our version cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The new one cannot be written.
    #[error("cannot write {}: {source}; is there room, and may this user write there?", file.display())]
    Write { file: PathBuf, source: io::Error },
    /// It was told to stop meanwhile.
    #[error("another process keeps the zone")]
    Held,
    /// The thread that reads and writes ended.
    #[error("a thread ended unexpectedly; the log says why")]
    Ended,
}

impl From<VersionError> for RefreshError {
    fn from(error: VersionError) -> Self {
        Self::Client(error.into())
    }
}

/// The version that is kept.
#[derive(Clone, Copy, Debug)]
struct Held {
    soa: Soa,
    records: usize,
    refreshed: SystemTime,
}

/// The result of asking a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefreshOutcome {
    /// Its version is kept now.
    Taken,
    /// Its version is the one that is kept.
    Unchanged,
}

/// The tools that the tasks of all zones share.
#[derive(Clone)]
pub(super) struct Tools {
    pub(super) limits: TransferLimits,
    pub(super) counters: Arc<ZoneCounters>,
    /// Set when a new version is kept.
    pub(super) news: Arc<AtomicBool>,
    /// Whether versions may be written; locked while one is. A task that was told to stop may still write the file that its
    /// successor writes, or another process.
    pub(super) writing: Arc<Mutex<bool>>,
    /// The limits of all transfers together.
    pub(super) pool: Pool,
}

/// A zone that is kept up to date with its primaries.
pub(super) struct Secondary {
    settings: Settings,
    tools: Tools,
    held: Option<Held>,
}

impl Secondary {
    pub(super) fn new(settings: Settings, tools: Tools) -> Self {
        Self { settings, tools, held: None }
    }

    /// Keeps the zone up to date, for ever. `wake` starts an attempt at once.
    pub(super) async fn run(mut self, wake: Arc<Notify>) {
        self.load().await;
        let mut failures = 0;
        loop {
            let succeeded = self.attempt().await;
            failures = if succeeded { 0 } else { failures + 1 };
            self.tools.counters.failing.store(failures, Ordering::Relaxed);
            self.note_age();
            sleep(BREATH).await;
            let pause = pause(self.held.map(|held| held.soa), failures);
            let _ = timeout(jittered(pause), wake.notified()).await;
        }
    }

    /// Reads the version in the file.
    async fn load(&mut self) {
        let file = self.settings.file.clone();
        let read = off_thread(move || {
            let refreshed = std::fs::metadata(&file).and_then(|facts| facts.modified());
            Ok((read_zone(&file, None)?, refreshed.unwrap_or(SystemTime::UNIX_EPOCH)))
        });
        match read.await {
            Ok((records, refreshed)) => self.hold(&records, refreshed),
            Err(error) if !self.settings.file.exists() => {
                tracing::debug!(
                    "policy zone {}: no version is kept yet: {error}",
                    self.settings.name
                );
            }
            Err(error) => tracing::warn!("policy zone {}: {error}", self.settings.name),
        }
    }

    fn hold(&mut self, records: &[LocalRecord], refreshed: SystemTime) {
        let soa = records.iter().find_map(|one| Soa::of(one, self.settings.name.as_slice()));
        self.held = soa.map(|soa| Held { soa, records: records.len(), refreshed });
        self.publish();
    }

    /// Asks the primaries, one after the other, until one has given a newer version. Primaries before it may be out of
    /// date. `true`: at least one has a newer version, or the version that is kept.
    async fn attempt(&mut self) -> bool {
        if !self.settings.file.exists() {
            self.held = None;
            self.publish();
        }
        let mut is_unchanged = false;
        for primary in self.settings.primaries.clone() {
            let patience = self.tools.limits.patience;
            let asked = timeout(patience, self.ask(primary)).await;
            match asked.unwrap_or(Err(RefreshError::TooSlow(patience))) {
                Ok(RefreshOutcome::Taken) => return true,
                Ok(RefreshOutcome::Unchanged) => is_unchanged = true,
                Err(failure) => {
                    count(&self.tools.counters.failures);
                    if matches!(failure, RefreshError::Refused { .. }) {
                        count(&self.tools.counters.refused);
                    }
                    tracing::warn!(
                        "policy zone {}: primary {primary}: {failure}",
                        self.settings.name
                    );
                }
            }
        }
        if is_unchanged {
            self.note_unchanged();
        }
        is_unchanged
    }

    /// Asks one primary whether there is a newer version, and takes it.
    async fn ask(&mut self, primary: SocketAddr) -> Result<RefreshOutcome, RefreshError> {
        let mut connection = self.connect(primary).await?;
        let theirs = connection.soa().await?.serial;
        let Some(ours) = self.held.map(|held| held.soa.serial) else {
            let mut share = self.tools.pool.share().await;
            let transferred = connection.transfer(None, &mut share).await?;
            return self.keep(transferred, primary).await;
        };
        if theirs == ours {
            return Ok(RefreshOutcome::Unchanged);
        }
        if ours.partial_cmp(&theirs).is_none_or(|order| order.is_gt()) {
            let file = self.settings.file.clone();
            return Err(RefreshError::Older { theirs, ours, file });
        }
        // Held until the version is kept, because its records are in memory until then.
        let mut share = self.tools.pool.share().await;
        let kept = match connection.transfer(Some(ours), &mut share).await {
            Ok(transferred) => self.keep(transferred, primary).await,
            Err(error) => Err(error.into()),
        };
        match kept {
            Err(RefreshError::Client(error)) => {
                // RFC 1995 section 4 and RFC 5936 section 6: some servers cannot send differences, or refuse to.
                tracing::debug!(
                    "policy zone {}: primary {primary}: no differences: {error}",
                    self.settings.name
                );
                let transferred = self.connect(primary).await?.transfer(None, &mut share).await?;
                self.keep(transferred, primary).await
            }
            other => other,
        }
    }

    async fn connect(&self, primary: SocketAddr) -> Result<PrimaryConnection, ClientError> {
        let Settings { name, key, .. } = &self.settings;
        PrimaryConnection::open(primary, name.clone(), key.clone(), self.tools.limits).await
    }

    /// Makes a new version from a transfer, checks it, and keeps it.
    async fn keep(
        &mut self,
        transferred: Transferred,
        primary: SocketAddr,
    ) -> Result<RefreshOutcome, RefreshError> {
        let (counter, how) = match &transferred {
            Transferred::Nothing => return Ok(RefreshOutcome::Unchanged),
            Transferred::Whole(_) => (&self.tools.counters.whole, "whole"),
            Transferred::Changes(..) => (&self.tools.counters.incremental, "as differences"),
        };
        let Settings { name, file, strict, .. } = &self.settings;
        let (name, file, strict) = (name.clone(), file.clone(), *strict);
        let (writing, news) = (Arc::clone(&self.tools.writing), Arc::clone(&self.tools.news));
        let records = off_thread(move || {
            let may_write = writing.lock().unwrap_or_else(PoisonError::into_inner);
            if !*may_write {
                return Err(RefreshError::Held);
            }
            let records = next_version(transferred, name.as_slice(), &file, strict)?;
            // Set here, because the waiting task may be told to stop meanwhile.
            news.store(true, Ordering::Relaxed);
            Ok(records)
        });
        let records = records.await?;
        count(counter);
        self.hold(&records, SystemTime::now());
        let Some(Held { soa, records, .. }) = self.held else { return Ok(RefreshOutcome::Taken) };
        tracing::info!(
            "policy zone {}: serial {}, {records} records, transferred {how} from {primary}",
            self.settings.name,
            soa.serial,
        );
        Ok(RefreshOutcome::Taken)
    }

    /// The version that is kept is the newest. The time of its file tells the next process.
    fn note_unchanged(&mut self) {
        let now = SystemTime::now();
        let file = &self.settings.file;
        if let Err(error) = open_regular(file).and_then(|it| it.set_modified(now)) {
            tracing::debug!("{}: {error}", file.display());
        }
        if let Some(held) = &mut self.held {
            held.refreshed = now;
        }
        count(&self.tools.counters.unchanged);
        self.publish();
    }

    /// Logs and counts an expired version. Its rules stay in use: old rules are better than none.
    fn note_age(&self) {
        let Some(held) = &self.held else { return };
        let age = held.refreshed.elapsed().unwrap_or_default();
        let is_expired = age > held.soa.expire;
        let was_expired =
            self.tools.counters.expired.swap(is_expired.into(), Ordering::Relaxed) != 0;
        if is_expired && !was_expired {
            tracing::warn!(
                "policy zone {}: no primary has been heard of for {} s, so serial {} has expired; its rules still hold",
                self.settings.name,
                age.as_secs(),
                held.soa.serial,
            );
        }
    }

    fn publish(&self) {
        let since_1970 = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).ok();
        let (serial, records, refreshed) = match &self.held {
            None => (0, 0, 0),
            Some(Held { soa, records, refreshed }) => {
                let refreshed = since_1970(*refreshed).unwrap_or_default().as_secs();
                (soa.serial.into_int().into(), *records as u64, refreshed)
            }
        };
        let counters = &self.tools.counters;
        let values = [
            (&counters.serial, serial),
            (&counters.records, records),
            (&counters.refreshed, refreshed),
        ];
        for (counter, value) in values {
            counter.store(value, Ordering::Relaxed);
        }
    }
}

/// Makes a version from a transfer and the version in the file, checks it, and replaces the file.
fn next_version(
    transferred: Transferred,
    zone: &[u8],
    file: &Path,
    strict: bool,
) -> Result<Vec<LocalRecord>, RefreshError> {
    let records = transferred.records::<RefreshError>(zone, || Ok(read_zone(file, None)?))?;
    let soa = records.first().and_then(|one| Soa::of(one, zone)).ok_or(VersionError::NoSoa)?;
    check_policy_zone(&records, strict)
        .map_err(|problem| RefreshError::Refused { serial: soa.serial, problem })?;
    keep_zone(file, &records)
        .map_err(|source| RefreshError::Write { file: file.to_owned(), source })?;
    Ok(records)
}

/// Slow work, on a blocking thread.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RefreshError> + Send + 'static,
) -> Result<T, RefreshError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(RefreshError::Ended))
}

/// How long to wait for the next attempt after `failures` (RFC 1035 section 3.3.13).
fn pause(soa: Option<Soa>, failures: u64) -> Duration {
    let [min, max] = BOUNDS;
    if let (Some(soa), 0) = (soa, failures) {
        return soa.refresh.clamp(min, max);
    }
    let longest = soa.map_or(PAUSE_WITHOUT, |soa| soa.retry.clamp(min, max));
    back_off(FIRST_PAUSE, failures.saturating_sub(1), longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn pauses_are_what_the_zone_says_and_grow_with_failures() {
        let soa = |refresh, retry| {
            let (refresh, retry, expire) = (seconds(refresh), seconds(retry), seconds(9));
            Some(Soa { serial: Serial(1), refresh, retry, expire })
        };
        assert_eq!(pause(soa(3600, 600), 0), seconds(3600));
        assert_eq!(pause(soa(0, 0), 0), seconds(1), "never without a pause");
        assert_eq!(pause(soa(1 << 31, 600), 0), seconds(86_400), "once a day at least");
        let after = |soa| [1, 2, 3, 99, u64::MAX].map(|failures| pause(soa, failures).as_secs());
        assert_eq!(after(soa(3600, 600)), [1, 2, 4, 600, 600]);
        assert_eq!(after(None), [1, 2, 4, 60, 60]);
        for _ in 0..99 {
            assert!((seconds(75)..=seconds(100)).contains(&jittered(seconds(100))));
        }
    }
}
