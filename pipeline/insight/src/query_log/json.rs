//! The sink for JSON lines: one object a line, in a file that gets another name when it is full.
//!
//! Full files are called FILE.1, FILE.2 and so on; the one with the highest number is the oldest. Another program may rename the
//! file as well: within a second a new one is begun. So logrotate needs no signal.
//!
//! Another process of pmdns may write to the file, while it takes over from this one. Who writes or renames has the file's lock.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pmdns_config::QueryLogSettings;
use pmdns_config::files::open_to_append;

use super::batch::Batch;
use super::entry::EntryMaker;
use super::sink::{Complaints, LogCounters, Sink};
use pmdns_config::files::{is_in_place, is_passing};

/// How often it looks whether the file is still in its place, and opens one again after an error.
const LOOK: Duration = Duration::from_secs(1);
/// How often, and at which intervals, the lock of the file is tried.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(2);
/// Bytes that are written at a time, about.
const CHUNK: usize = 256 << 10;
/// Queries are nobody's business but the operator's.
const MODE: u32 = 0o640;

/// The sink.
pub(super) struct JsonLines {
    path: PathBuf,
    most_bytes: u64,
    most_files: u32,
    words: EntryMaker,
    file: Option<File>,
    bytes: u64,
    out: Vec<u8>,
    next_look: Instant,
    complaints: Complaints,
    counters: Arc<LogCounters>,
}

impl JsonLines {
    pub(super) fn open(
        log: &QueryLogSettings,
        path: &Path,
        words: EntryMaker,
        counters: Arc<LogCounters>,
    ) -> io::Result<Self> {
        let mut this = Self {
            path: path.to_owned(),
            most_bytes: log.json_size.bytes() as u64,
            most_files: log.json_files,
            words,
            file: None,
            bytes: 0,
            out: Vec::new(),
            next_look: Instant::now() + LOOK,
            complaints: Complaints::default(),
            counters,
        };
        match this.open_file() {
            Ok(()) => this.counters.up.store(1, Ordering::Relaxed),
            Err(error) if is_passing(&error) => this.fail(&error),
            Err(error) => return Err(error),
        }
        Ok(this)
    }

    fn open_file(&mut self) -> io::Result<()> {
        let file = open_to_append(&self.path, MODE)?;
        (self.bytes, self.file) = (file.metadata()?.len(), Some(file));
        Ok(())
    }

    /// Writes the lines in `out`. After an error none of them is there: half a line would break the next one.
    fn flush(&mut self) -> io::Result<()> {
        let mut is_locked = lock(self.file.as_ref());
        if self.was_moved() {
            // By the other process, or by another program.
            self.open_file()?;
            is_locked = lock(self.file.as_ref());
        }
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        self.bytes = file.metadata()?.len();
        let written = file.write_all(&self.out);
        match &written {
            Ok(()) => {
                self.bytes += self.out.len() as u64;
                // Only now: a full disk can be opened as often as one likes.
                self.counters.up.store(1, Ordering::Relaxed);
                if self.complaints.works() {
                    tracing::info!("query log: {} is written again", self.path.display());
                }
            }
            // Without the lock this might be another one's line.
            Err(_) if is_locked => drop(file.set_len(self.bytes)),
            Err(_) => {}
        }
        if is_locked {
            let _ = file.unlock();
        }
        self.out.clear();
        written
    }

    /// Gives the full file another name, unless it has one, and begins a new one.
    fn rotate(&mut self) -> io::Result<()> {
        let Some(full) = self.file.take() else { return self.open_file() };
        // It falls with `full`.
        lock(Some(&full));
        if !is_in_place(&full, &self.path) {
            return self.open_file();
        }
        let numbered = |number: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..self.most_files).rev() {
            unless_absent(fs::rename(numbered(number), numbered(number + 1)))?;
        }
        match self.most_files {
            0 => unless_absent(fs::remove_file(&self.path))?,
            _ => unless_absent(fs::rename(&self.path, numbered(1)))?,
        }
        self.open_file()
    }

    fn fail(&mut self, error: &io::Error) {
        self.counters.failures.fetch_add(1, Ordering::Relaxed);
        self.file = None;
        self.counters.up.store(0, Ordering::Relaxed);
        if self.complaints.fails(Instant::now()) {
            tracing::warn!("query log: cannot write {}: {error}", self.path.display());
        }
    }

    /// Whether the file with our name is another one than that which is open.
    fn was_moved(&self) -> bool {
        !self.file.as_ref().is_some_and(|file| is_in_place(file, &self.path))
    }
}

impl Sink for JsonLines {
    fn write(&mut self, batch: &Batch, _stop: &AtomicBool) -> u64 {
        let (mut written, mut held) = (0, 0);
        let mut records = batch.records().peekable();
        while let Some(record) = records.next() {
            if self.file.is_none() {
                break;
            }
            let entry = self.words.entry(batch, &record);
            serde_json::to_writer(&mut self.out, &entry).expect("memory takes every text");
            self.out.push(b'\n');
            held += 1;
            let is_full = self.bytes + self.out.len() as u64 >= self.most_bytes;
            if !is_full && self.out.len() < CHUNK && records.peek().is_some() {
                continue;
            }
            match self.flush() {
                Ok(()) => written += std::mem::take(&mut held),
                Err(error) => self.fail(&error),
            }
            if is_full
                && self.file.is_some()
                && let Err(error) = self.rotate()
            {
                self.fail(&error);
            }
        }
        self.out.clear();
        written
    }

    fn tend(&mut self) {
        if Instant::now() < self.next_look {
            return;
        }
        self.next_look = Instant::now() + LOOK;
        if self.was_moved()
            && let Err(error) = self.open_file()
        {
            self.fail(&error);
        }
    }
}

/// Takes the lock of a file, and says whether this process has it. Without it lines are appended all the same, each as a whole.
/// A file system may have no locks, and who holds one for longer than a write takes does so for another reason.
fn lock(file: Option<&File>) -> bool {
    let Some(file) = file else { return false };
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return true,
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(_)) => return false,
        }
    }
    false
}

fn unless_absent(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
