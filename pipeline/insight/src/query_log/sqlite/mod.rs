//! The database sink: SQLite with a write-ahead log, so that searches do not disturb it.
//!
//! A batch is one transaction. Rows leave by age and by number, some at a time, between batches. A database that cannot be written,
//! because the disk is full, another program holds its lock, or the file is broken, loses records and is opened again later.

mod file;
pub(super) mod search;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pmdns_config::QueryLogSettings;
use rusqlite::{Connection, params};

use super::batch::Batch;
use super::entry::EntryMaker;
use super::sink::{Complaints, LogCounters, Sink};
pub use file::{OpenError, is_database};

type Result<T> = std::result::Result<T, OpenError>;

/// The version of the table, which `PRAGMA user_version` has.
const VERSION: i32 = 1;
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS query (
        id INTEGER PRIMARY KEY, time_us INTEGER NOT NULL, client TEXT NOT NULL, view TEXT NOT NULL, transport TEXT NOT NULL,
        name TEXT NOT NULL, type TEXT NOT NULL, rcode TEXT NOT NULL, source TEXT NOT NULL, blocked INTEGER NOT NULL,
        list TEXT, upstream TEXT, latency_us INTEGER NOT NULL
    );
    CREATE INDEX IF NOT EXISTS query_time ON query (time_us);
    CREATE INDEX IF NOT EXISTS query_client ON query (client, time_us);
    CREATE INDEX IF NOT EXISTS query_name ON query (name, time_us);
    CREATE INDEX IF NOT EXISTS query_blocked ON query (time_us) WHERE blocked;
";
const INSERT: &str = "INSERT INTO query (time_us, client, view, transport, name, type, rcode, source, blocked, list, upstream, \
    latency_us) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
/// Rows that are deleted at a time.
const AT_ONCE: u64 = 10_000;
/// How often old rows are looked for while there are none.
const LOOK: Duration = Duration::from_secs(10);
/// How long a broken database rests before it is opened again.
const RETRY: Duration = Duration::from_secs(10);
/// How long it waits for another program that writes.
const BUSY: Duration = Duration::from_secs(2);
/// KiB of the write-ahead log that stay on the disk when nobody writes.
const JOURNAL_BYTES: u32 = 16 << 20;

/// The sink.
pub(super) struct Database {
    path: PathBuf,
    keeps_us: u64,
    keeps_rows: u64,
    words: EntryMaker,
    connection: Option<Connection>,
    next_look: Instant,
    complaints: Complaints,
    counters: Arc<LogCounters>,
}

impl Database {
    pub(super) fn open(
        log: &QueryLogSettings,
        path: &Path,
        words: EntryMaker,
        counters: Arc<LogCounters>,
    ) -> Result<Self> {
        let mut this = Self {
            path: path.to_owned(),
            keeps_us: u64::from(log.sqlite_days) * 86_400_000_000,
            keeps_rows: log.sqlite_rows,
            words,
            connection: None,
            next_look: Instant::now(),
            complaints: Complaints::default(),
            counters,
        };
        match open(path) {
            Ok(connection) => {
                this.connection = Some(connection);
                this.counters.up.store(1, Ordering::Relaxed);
            }
            Err(error) if error.is_passing() => this.fail(&error),
            Err(error) => return Err(error),
        }
        Ok(this)
    }

    fn insert(&mut self, batch: &Batch) -> Result<u64> {
        let Some(connection) = &mut self.connection else { return Ok(0) };
        let transaction = connection.transaction()?;
        let mut written = 0;
        {
            let mut insert = transaction.prepare_cached(INSERT)?;
            for record in batch.records() {
                let entry = self.words.entry(batch, &record);
                insert.execute(params![
                    entry.time_us.cast_signed(),
                    entry.client,
                    entry.view,
                    entry.transport,
                    entry.name,
                    entry.record_type,
                    entry.rcode,
                    entry.source,
                    entry.blocked,
                    entry.list,
                    entry.upstream,
                    entry.latency_us.cast_signed(),
                ])?;
                written += 1;
            }
        }
        transaction.commit()?;
        Ok(written)
    }

    /// Deletes some of the rows that are too old or too many. Returns how many.
    fn delete(&self, now_us: u64) -> Result<usize> {
        let Some(connection) = &self.connection else { return Ok(0) };
        let before = now_us.saturating_sub(self.keeps_us).cast_signed();
        let old =
            "DELETE FROM query WHERE id IN (SELECT id FROM query WHERE time_us < ?1 LIMIT ?2)";
        let by_age =
            connection.prepare_cached(old)?.execute(params![before, AT_ONCE.cast_signed()])?;
        // Ids are given in order and only the oldest rows leave, so the ids tell how many there are.
        let many = "DELETE FROM query WHERE id IN (SELECT id FROM query WHERE id <= (SELECT max(id) FROM query) - ?1 \
            ORDER BY id LIMIT ?2)";
        let keeps = self.keeps_rows.cast_signed();
        let by_rows =
            connection.prepare_cached(many)?.execute(params![keeps, AT_ONCE.cast_signed()])?;
        Ok(by_age + by_rows)
    }

    fn fail(&mut self, error: &OpenError) {
        self.counters.failures.fetch_add(1, Ordering::Relaxed);
        self.connection = None;
        self.next_look = Instant::now() + RETRY;
        self.counters.up.store(0, Ordering::Relaxed);
        if self.complaints.fails(Instant::now()) {
            tracing::warn!("query log: cannot write {}: {error}", self.path.display());
        }
    }
}

impl Sink for Database {
    fn write(&mut self, batch: &Batch, _stop: &AtomicBool) -> u64 {
        if self.connection.is_none() {
            return 0;
        }
        match self.insert(batch) {
            Ok(written) => {
                // Only now: a database on a full disk can be opened.
                self.counters.up.store(1, Ordering::Relaxed);
                if self.complaints.works() {
                    tracing::info!("query log: {} is written again", self.path.display());
                }
                written
            }
            Err(error) => {
                self.fail(&error);
                0
            }
        }
    }

    fn tend(&mut self) {
        if Instant::now() < self.next_look {
            return;
        }
        if self.connection.is_none() {
            match open(&self.path) {
                Ok(connection) => self.connection = Some(connection),
                Err(error) => return self.fail(&error),
            }
        }
        let date = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        match self.delete(u64::try_from(date.as_micros()).unwrap_or(u64::MAX)) {
            Ok(0) => self.next_look = Instant::now() + LOOK,
            // There may be more, which leave before the next batch.
            Ok(_) => {}
            Err(error) => self.fail(&error),
        }
    }
}

fn open(path: &Path) -> Result<Connection> {
    let connection = file::open_to_write(path)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // A crash of the machine may lose the last batches, but nothing breaks.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "journal_size_limit", JOURNAL_BYTES)?;
    connection.execute_batch(SCHEMA)?;
    // Writing it takes the lock of writers, which another program may hold for long.
    let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version != VERSION {
        connection.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(connection)
}
