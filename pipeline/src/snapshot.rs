//! The thread that keeps a snapshot: it loads the last one at start, and writes new ones at intervals and at the end.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pmdns_engine::snapshot::CacheJobs;
use pmdns_engine::threads::{join_within, pin};

use crate::sinks::SinkCounters;

/// How long the last snapshot may take at a stop, so that a hanging disk does not keep the process.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// The running thread. Dropping it writes the last snapshot and ends it.
#[derive(Debug)]
pub struct SnapshotKeeper {
    thread: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
    counters: Arc<SinkCounters>,
}

impl SnapshotKeeper {
    /// Writes `path` every `interval`, on a thread pinned to the CPU `core` if one is given. Before that it is read, if the thread
    /// `loads`.
    pub fn start(
        cache_jobs: CacheJobs,
        path: PathBuf,
        interval: Duration,
        loads: bool,
        core: Option<usize>,
    ) -> io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_over);
        let counters = Arc::new(SinkCounters::new());
        let written = Arc::clone(&counters);
        let body = move || {
            pin(core);
            if loads {
                load(&cache_jobs, &path);
            }
            loop {
                wait(interval, &stop);
                written.count(1, dump(&cache_jobs, &path));
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("snapshot".to_owned()).spawn(body)?;
        Ok(Self { thread: Some(thread), is_over, counters })
    }

    /// The snapshots that were written, and those that were not.
    pub fn counters(&self) -> Arc<SinkCounters> {
        Arc::clone(&self.counters)
    }
}

impl Drop for SnapshotKeeper {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if !join_within(thread, STOP_PATIENCE) {
                tracing::warn!(
                    "the snapshot is not written after {STOP_PATIENCE:?}: it is given up"
                );
            }
        }
    }
}

fn wait(interval: Duration, stop: &AtomicBool) {
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let Some(left) = interval.checked_sub(start.elapsed()) else { return };
        std::thread::park_timeout(left);
    }
}

fn load(cache_jobs: &CacheJobs, path: &Path) {
    match cache_jobs.load(path) {
        Ok(loaded) => tracing::info!("snapshot {}: {loaded}", path.display()),
        Err(error) if error.is_absent() => {
            tracing::info!("there is no snapshot {} yet", path.display());
        }
        Err(error) => tracing::warn!("{error}; the cache starts empty"),
    }
}

/// Says whether the snapshot was written.
fn dump(cache_jobs: &CacheJobs, path: &Path) -> bool {
    let dumped = cache_jobs.dump(path);
    match &dumped {
        Ok(count) => tracing::info!("{count} answers written to the snapshot {}", path.display()),
        Err(error) => tracing::warn!("{error}"),
    }
    dumped.is_ok()
}
