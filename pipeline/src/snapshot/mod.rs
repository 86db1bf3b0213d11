//! What outlives the process: answers written to a file, and taken back by the next one.
//!
//! The slow path's threads hand out the entries of their shards in slices ([`crate::slowpath`]); whoever writes the
//! file calls from a thread of its own, so that no miss waits for a disk. Seconds and hashes are a process's own:
//! a file has its start in Unix time with it, ages carry over by that clock, and keys are hashed anew.

mod file;
mod keeper;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::Sender;
use pmdns_config::files::open_regular;
use pmdns_resolver::TakenIn;
use pmdns_stages::cache::{Cache, Entry, NameBuffer, Purge};

pub use file::{SnapshotError, create};
pub use keeper::Keeper;

use crate::clock::Clock;
use crate::slowpath::{self, Block, MAX_BLOCKS, Order};
use file::{Snapshot, SnapshotWriter, Times, split};

/// Entries handed to a thread of the slow path at a time.
const BATCH: usize = 256;
/// How long a thread may take for its next block. Only one that has ended takes so long.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is asked whether somebody else is done.
const TURN_LOOK: Duration = Duration::from_millis(5);
/// How far a clock may have gone back since a file was written.
const SKEW_SECONDS: u64 = 60;

/// What can be done to the cache as a whole while it is in use, by its threads.
#[derive(Clone, Debug)]
pub struct CacheOrders {
    threads: Vec<Sender<Order>>,
    cache: Arc<Cache>,
    clock: Clock,
    /// Whose answers are whose.
    scopes: Arc<str>,
    /// Held while answers are taken in or lost, or the same file might be written twice.
    turn: Arc<Mutex<()>>,
}

/// What was taken from a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// What became of the answers that might be taken.
    pub taken: TakenIn,
    /// Answers for clients in views, which were others when the file was written.
    pub other_views: u64,
    /// Answers that cannot be read.
    pub unreadable: u64,
}

impl Loaded {
    /// Adds what one thread did.
    fn add(&mut self, one: TakenIn) {
        let TakenIn { kept, expired, known, rewritten, no_room } = &mut self.taken;
        *kept += one.kept;
        *expired += one.expired;
        *known += one.known;
        *rewritten += one.rewritten;
        *no_room += one.no_room;
    }

    /// How many answers were not put into the cache, by reason.
    fn reasons(&self) -> [(u64, &'static str); 6] {
        let TakenIn { kept: _, expired, known, rewritten, no_room } = self.taken;
        [
            (expired, "expired"),
            (known, "no newer than those in the cache"),
            (rewritten, "rewritten by a rule"),
            (no_room, "without room in the cache"),
            (self.other_views, "of views that have changed"),
            (self.unreadable, "unreadable"),
        ]
    }

    /// How many answers were not put into the cache.
    pub fn left_out(&self) -> u64 {
        self.reasons().iter().map(|(count, _)| count).sum()
    }
}

impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} answers loaded, {} left out", self.taken.kept, self.left_out())?;
        let reasons = self.reasons().into_iter().filter(|(count, _)| *count > 0);
        for (index, (count, reason)) in reasons.enumerate() {
            write!(f, "{} {count} {reason}", if index == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

impl CacheOrders {
    /// Orders to these threads, by shard of `cache`, whose keys have these scopes
    /// ([`Config::scope_map`](pmdns_config::Config::scope_map)).
    pub fn new(
        threads: Vec<Sender<Order>>,
        cache: Arc<Cache>,
        clock: Clock,
        scopes: String,
    ) -> Self {
        Self { threads, cache, clock, scopes: scopes.into(), turn: Arc::default() }
    }

    /// Takes answers out of the cache, and says how many. When it returns, none of them is served any more.
    pub fn purge(&self, purge: &Purge) -> Result<u64, SnapshotError> {
        let _turn = self.take_turn(PATIENCE)?;
        slowpath::purge(&self.threads, purge).ok_or(SnapshotError::Ended)
    }

    /// Writes every answer to the file `path`, and says how many there were.
    pub fn dump(&self, path: &Path) -> Result<u64, SnapshotError> {
        let failed = |source| SnapshotError::Write { path: path.to_owned(), source };
        let (file, count) = self.write(create(path).map_err(failed)?, path)?;
        file.finish().map_err(failed)?;
        Ok(count)
    }

    /// The same, to a file that somebody else has opened, and calls `path`.
    pub fn dump_into(&self, file: File, path: &Path) -> Result<u64, SnapshotError> {
        let failed = |source| SnapshotError::Write { path: path.to_owned(), source };
        let (file, count) = self.write(BufWriter::new(file), path)?;
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(failed)?;
        Ok(count)
    }

    /// Writes every answer, and says how many there were.
    fn write<W: Write>(&self, out: W, path: &Path) -> Result<(W, u64), SnapshotError> {
        let _turn = self.take_turn(PATIENCE)?;
        let (now, seconds) = self.now();
        let times = Times { start: now.saturating_sub(seconds.into()), written: now };
        let mut file = SnapshotWriter::begin(out, path, times, &self.scopes)?;
        let (give, given) = crossbeam_channel::bounded(MAX_BLOCKS);
        for thread in &self.threads {
            let order = Order::Dump(give.clone());
            thread.send_timeout(order, PATIENCE).map_err(|_| SnapshotError::Ended)?;
        }
        drop(give);
        // A thread that has no more says so by an empty block.
        let mut busy = self.threads.len();
        while busy > 0 {
            let block: Block = given.recv_timeout(PATIENCE).map_err(|_| SnapshotError::Ended)?;
            match block.is_empty() {
                true => busy -= 1,
                false => file.entries(&block)?,
            }
        }
        file.finish()
    }

    /// Takes answers from a file into the cache, as far as they have not expired, or may still be served. If views were
    /// others when it was written, only answers for clients in none are taken: those of another view might be told to
    /// the wrong clients.
    pub fn load(&self, path: &Path) -> Result<Loaded, SnapshotError> {
        let failed = |source| SnapshotError::Read { path: path.to_owned(), source };
        self.load_from(open_regular(path).map_err(failed)?, path)
    }

    /// The same, from a file that somebody else has opened, and calls `path`.
    pub fn load_from(&self, file: File, path: &Path) -> Result<Loaded, SnapshotError> {
        let mut snapshot = Snapshot::read(file, path)?;
        let _turn = self.take_turn(PATIENCE)?;
        let (now, seconds) = self.now();
        if snapshot.times.written > now + SKEW_SECONDS {
            let what = "it is from the future: is the clock right?";
            return Err(SnapshotError::Damaged { path: path.to_owned(), what });
        }
        let same_views = *snapshot.scopes == *self.scopes;
        if !same_views {
            tracing::warn!(
                "{} was written with other views; only answers for clients in none are taken from it",
                path.display()
            );
        }
        let (done, results) = crossbeam_channel::bounded(self.threads.len());
        let mut shards = Vec::new();
        for thread in &self.threads {
            let (give, given) = crossbeam_channel::bounded(MAX_BLOCKS);
            let order = Order::Load(given, done.clone());
            thread.send_timeout(order, PATIENCE).map_err(|_| SnapshotError::Ended)?;
            shards.push(Shard { give, batch: Vec::new() });
        }
        drop(done);
        let (mut entries, mut loaded) = (0, Loaded::default());
        while let Some(words) = snapshot.next_entries(entries)? {
            for entry in split(&words) {
                entries += 1;
                let is_ours = |entry: &Entry| {
                    same_views || entry.key(&mut NameBuffer::default()).scope() == 0
                };
                match self.restored(entry, snapshot.times, now, seconds) {
                    None => loaded.unreadable += 1,
                    Some(entry) if !is_ours(&entry) => loaded.other_views += 1,
                    Some(entry) => shards[self.cache.shard_of(entry.head().hash)].take(entry)?,
                }
            }
        }
        shards.into_iter().try_for_each(Shard::finish)?;
        for _ in &self.threads {
            loaded.add(results.recv_timeout(PATIENCE).map_err(|_| SnapshotError::Ended)?);
        }
        Ok(loaded)
    }

    /// An entry of a file as it is now.
    fn restored(&self, words: &[u64], times: Times, now: u64, seconds: u32) -> Option<Entry> {
        let learnt = u64::from(pmdns_stages::cache::Head::read(&words).learnt);
        let age = now.saturating_sub(times.start + learnt);
        Entry::restored(words, self.cache.seed(), u32::try_from(age).ok()?, seconds)
    }

    /// Unix time, and the process's own seconds.
    fn now(&self) -> (u64, u32) {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        (unix.as_secs(), self.clock.context(self.clock.now()).seconds)
    }

    /// Waits for whoever is at it, who may wait for a disk that hangs.
    fn take_turn(&self, patience: Duration) -> Result<MutexGuard<'_, ()>, SnapshotError> {
        let start = Instant::now();
        loop {
            match self.turn.try_lock() {
                Ok(turn) => return Ok(turn),
                Err(TryLockError::Poisoned(turn)) => return Ok(turn.into_inner()),
                Err(TryLockError::WouldBlock) if start.elapsed() >= patience => {
                    return Err(SnapshotError::Busy);
                }
                Err(TryLockError::WouldBlock) => std::thread::park_timeout(TURN_LOOK),
            }
        }
    }
}

/// The way to one shard.
struct Shard {
    give: Sender<Vec<Entry>>,
    batch: Vec<Entry>,
}

impl Shard {
    fn take(&mut self, entry: Entry) -> Result<(), SnapshotError> {
        self.batch.push(entry);
        if self.batch.len() == BATCH { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), SnapshotError> {
        let batch = std::mem::take(&mut self.batch);
        self.give.send_timeout(batch, PATIENCE).map_err(|_| SnapshotError::Ended)
    }

    fn finish(mut self) -> Result<(), SnapshotError> {
        self.send()
    }
}
