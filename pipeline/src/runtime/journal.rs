//! The file that keeps changes: one a line, each behind its checksum. A thread appends to it and has the disk confirm,
//! so that no slow disk delays the main thread.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::table::{Change, Table};
use crate::journal::{JournalError, JournalKind, is_in_place, line_of};
use crate::sinks::{SinkCounters, is_passing};

/// The file of what is said of names.
const KIND: JournalKind = JournalKind {
    head: "pmdns entries 1\n",
    key: "control.entries",
    what: "entries",
    max_bytes: 256 << 20,
};
/// Changes that wait for the disk, in groups.
const MAX_WAITING: usize = 64;
/// Lines that are more than the table needs, before the file is written anew.
const SLACK: usize = 1024;

/// The entries that the file at `path` has kept.
pub(super) fn read(path: &Path) -> Result<Table, JournalError> {
    let mut table = Table::default();
    KIND.read(path, |change: Change| table.make(&change).map_err(|(_, why)| why))?;
    Ok(table)
}

fn rewrite(path: &Path, table: &Table) -> io::Result<(File, usize)> {
    KIND.rewrite(path, table.history())
}

/// A message to the thread.
struct Append {
    changes: Vec<Change>,
    number: u64,
}

/// The thread that writes.
#[derive(Debug)]
pub(super) struct Journal {
    appends: Option<Sender<Append>>,
    progress: Arc<Progress>,
    next: u64,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Numbers of appends: those up to `kept` are on the disk; the one in `failed` is not.
#[derive(Debug, Default)]
struct Progress {
    kept: AtomicU64,
    failed: AtomicU64,
    /// Counts changes.
    counters: SinkCounters,
}

impl Journal {
    /// Writes the file anew with `table`, and appends to it from then on. `done` is called after each append. A disk that refuses
    /// is asked again with the next change.
    pub(super) fn start(
        path: &Path,
        table: &Table,
        done: impl Fn() + Send + 'static,
    ) -> Result<Self, JournalError> {
        let failed = |source| KIND.failed(path, source);
        let progress = Arc::<Progress>::default();
        let (file, lines) = match rewrite(path, table) {
            Ok((file, lines)) => (Some(file), lines),
            Err(error) if is_passing(&error) => {
                tracing::error!("cannot keep entries in {}: {error}", path.display());
                progress.counters.count(0, false);
                (None, 0)
            }
            Err(error) => return Err(failed(error)),
        };
        let (appends, taken) = bounded(MAX_WAITING);
        let mut writer = Writer {
            path: path.to_owned(),
            table: table.clone(),
            file,
            lines,
            progress: Arc::clone(&progress),
        };
        let body = move || writer.run(&taken, done);
        let thread =
            std::thread::Builder::new().name("journal".to_owned()).spawn(body).map_err(failed)?;
        Ok(Self { appends: Some(appends), progress, next: 1, thread: Some(thread) })
    }

    /// Has changes kept, and returns the number of this append; `None`: too many wait.
    pub(super) fn keep(&mut self, changes: Vec<Change>) -> Option<u64> {
        let number = self.next;
        self.appends.as_ref()?.try_send(Append { changes, number }).ok()?;
        self.next += 1;
        Some(number)
    }

    /// The changes that were written, and those that were not.
    pub(super) fn counters(&self) -> &SinkCounters {
        &self.progress.counters
    }

    /// Whether an append is on the disk; an error if it could not be written.
    pub(super) fn is_kept(&self, number: u64) -> Result<bool, ()> {
        let is_done = self.progress.kept.load(Ordering::Acquire) >= number;
        match self.progress.failed.load(Ordering::Acquire) >= number && !is_done {
            true => Err(()),
            false => Ok(is_done),
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.appends = None;
        if let Some(thread) = self.thread.take() {
            pmdns_engine::threads::join_within(thread, std::time::Duration::from_secs(5));
        }
    }
}

struct Writer {
    path: PathBuf,
    table: Table,
    /// `None`: the last write has failed, so the file's end is not known.
    file: Option<File>,
    lines: usize,
    progress: Arc<Progress>,
}

impl Writer {
    fn run(&mut self, appends: &Receiver<Append>, done: impl Fn()) {
        while let Ok(first) = appends.recv() {
            // Orders that wait share one confirmation of the disk.
            let appends: Vec<Append> = [first].into_iter().chain(appends.try_iter()).collect();
            let last = appends.last().map_or(0, |append| append.number);
            let changes: Vec<Change> =
                appends.into_iter().flat_map(|append| append.changes).collect();
            let written = self.write(&changes);
            self.progress.counters.count(changes.len() as u64, written.is_ok());
            match written {
                Ok(()) => self.progress.kept.store(last, Ordering::Release),
                Err(error) => {
                    tracing::error!("cannot keep entries in {}: {error}", self.path.display());
                    self.file = None;
                    self.progress.failed.store(last, Ordering::Release);
                }
            }
            done();
        }
    }

    fn write(&mut self, changes: &[Change]) -> io::Result<()> {
        // The main thread has made the same changes already.
        changes.iter().for_each(|change| drop(self.table.make(change)));
        let needed = self.table.entry_count() + self.table.record_count();
        let is_long = self.lines + changes.len() > 2 * needed + SLACK;
        let path = &self.path;
        let file = self.file.as_mut().filter(|file| !is_long && is_in_place(file, path));
        let Some(file) = file else {
            let (file, lines) = rewrite(path, &self.table)?;
            (self.file, self.lines) = (Some(file), lines);
            return Ok(());
        };
        let text: String = changes.iter().map(line_of).collect();
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        self.lines += changes.len();
        Ok(())
    }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
