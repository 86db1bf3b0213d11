//! The file that keeps changes: one a line, each behind its checksum. A thread appends to it and has the disk confirm,
//! so that no slow disk delays the main thread.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};
use pmdns_config::files::{WholeFile, open_regular};

use super::table::{Change, Table};

/// The first line.
const HEAD: &str = "pmdns entries 1\n";
/// The largest file that is read.
const MAX_BYTES: u64 = 256 << 20;
/// Changes that wait for the disk, in groups.
const MAX_WAITING: usize = 64;
/// Only its owner and group may read it: it says who blocked what.
const MODE: u32 = 0o640;
/// Lines that are more than the table needs, before the file is written anew.
const SLACK: usize = 1024;

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refuses.
    #[error("cannot use {}: {source}; set `control.entries` to a file in a folder that pmdns may write to", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not what was written.
    #[error(
        "{}, line {line}: {why}; restore the file from a copy, or move it away to begin without entries",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

/// The line of a change.
fn line_of(change: &Change) -> String {
    let json = serde_json::to_string(change).expect("a change holds only strings and numbers");
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
}

fn change_of(line: &str) -> Result<Change, String> {
    let (sum, json) = line.split_once(' ').ok_or("it has no checksum")?;
    if u32::from_str_radix(sum, 16) != Ok(crc32fast::hash(json.as_bytes())) {
        return Err("its checksum is another one".to_owned());
    }
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// What a text says. A last line that is torn was never confirmed to anybody, and is left out: then the second value is `true`.
fn parse(text: &[u8], path: &Path) -> Result<(Table, bool), JournalError> {
    let corrupt = |line, why: String| JournalError::Corrupt { path: path.to_owned(), line, why };
    let mut table = Table::default();
    if text.is_empty() {
        return Ok((table, true));
    }
    let mut lines = text.split_inclusive(|byte| *byte == b'\n').enumerate().peekable();
    let head = lines.next().map(|(_, head)| head).unwrap_or_default();
    if head != HEAD.as_bytes() {
        // Not even the first line was confirmed.
        let is_torn = lines.peek().is_none() && HEAD.as_bytes().starts_with(head);
        return if is_torn {
            Ok((table, true))
        } else {
            Err(corrupt(1, "it is no file of entries".to_owned()))
        };
    }
    while let Some((index, line)) = lines.next() {
        let whole = line.strip_suffix(b"\n").ok_or_else(|| "its end is missing".to_owned());
        let text =
            whole.and_then(|line| std::str::from_utf8(line).map_err(|error| error.to_string()));
        let made = text.and_then(change_of);
        match made {
            Ok(change) => table.make(&change).map_err(|(_, why)| corrupt(index + 1, why))?,
            Err(_) if lines.peek().is_none() => return Ok((table, true)),
            Err(why) => return Err(corrupt(index + 1, why)),
        }
    }
    Ok((table, false))
}

/// What has been kept in the file at `path`.
pub(super) fn read(path: &Path) -> Result<Table, JournalError> {
    let failed = |source| JournalError::File { path: path.to_owned(), source };
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Table::default()),
        Err(error) => return Err(failed(error)),
    };
    let mut text = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, MAX_BYTES + 1), &mut text).map_err(failed)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(failed(io::Error::other(format!("it has more than {MAX_BYTES} bytes"))));
    }
    let (table, is_torn) = parse(&text, path)?;
    if is_torn && !text.is_empty() {
        tracing::warn!("{}: the last line is torn, and left out", path.display());
    }
    Ok(table)
}

/// Writes the whole table, and returns the file for appending.
fn rewrite(path: &Path, table: &Table) -> io::Result<(File, usize)> {
    let mut whole = WholeFile::create(path, MODE)?;
    whole.write_all(HEAD.as_bytes())?;
    let mut lines = 0;
    for change in table.history() {
        whole.write_all(line_of(&change).as_bytes())?;
        lines += 1;
    }
    whole.finish()?;
    let file = OpenOptions::new()
        .append(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)?;
    Ok((file, lines))
}

/// What the thread is to do.
struct Order {
    changes: Vec<Change>,
    number: u64,
}

/// The thread that writes.
#[derive(Debug)]
pub(super) struct Journal {
    orders: Option<Sender<Order>>,
    progress: Arc<Progress>,
    next: u64,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Numbers of orders: those up to `kept` are on the disk; the one in `failed` is not.
#[derive(Debug, Default)]
struct Progress {
    kept: AtomicU64,
    failed: AtomicU64,
}

impl Journal {
    /// Writes the file anew with `table`, and appends to it from then on. `done` is called after each order.
    pub(super) fn start(
        path: &Path,
        table: &Table,
        done: impl Fn() + Send + 'static,
    ) -> Result<Self, JournalError> {
        let failed = |source| JournalError::File { path: path.to_owned(), source };
        let (file, lines) = rewrite(path, table).map_err(failed)?;
        let (orders, taken) = bounded(MAX_WAITING);
        let progress = Arc::<Progress>::default();
        let mut writer = Writer {
            path: path.to_owned(),
            table: table.clone(),
            file: Some(file),
            lines,
            progress: Arc::clone(&progress),
        };
        let body = move || writer.run(&taken, done);
        let thread =
            std::thread::Builder::new().name("journal".to_owned()).spawn(body).map_err(failed)?;
        Ok(Self { orders: Some(orders), progress, next: 1, thread: Some(thread) })
    }

    /// Has changes kept, and returns the number of this order; `None`: too many wait.
    pub(super) fn keep(&mut self, changes: Vec<Change>) -> Option<u64> {
        let number = self.next;
        self.orders.as_ref()?.try_send(Order { changes, number }).ok()?;
        self.next += 1;
        Some(number)
    }

    /// Whether an order is on the disk; an error if it could not be written.
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
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            crate::threads::join_within(thread, std::time::Duration::from_secs(5));
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
    fn run(&mut self, orders: &Receiver<Order>, done: impl Fn()) {
        while let Ok(first) = orders.recv() {
            // Orders that wait share one confirmation of the disk.
            let orders: Vec<Order> = [first].into_iter().chain(orders.try_iter()).collect();
            let last = orders.last().map_or(0, |order| order.number);
            let changes: Vec<Change> = orders.into_iter().flat_map(|order| order.changes).collect();
            match self.write(&changes) {
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
        let Some(file) = self.file.as_mut().filter(|_| !is_long) else {
            let (file, lines) = rewrite(&self.path, &self.table)?;
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
