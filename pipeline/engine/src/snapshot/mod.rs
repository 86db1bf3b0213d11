//! Snapshots: answers are written to a file, and loaded by the next process.
//!
//! The slow path's threads provide the entries of their shards in slices ([`crate::slowpath`]). The file is written by
//! another thread, so that no miss waits for a disk. The seconds and hashes of entries are valid only in their process.
//! So a file contains the start of its seconds in Unix time. At a load, times are converted by it, and keys are hashed
//! anew.

mod file;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError};
use pmdns_config::files::open_regular;
use pmdns_resolver::{Inquiry, Outlook, TakenIn};
use pmdns_stages::Context;
use pmdns_stages::cache::{Cache, Entry, NameBuffer, Purge};

pub use file::{SnapshotError, check, create};

use crate::clock::Clock;
use crate::slowpath::{self, Block, JobRequest, MAX_BLOCKS};
use file::{Origin, Snapshot, SnapshotWriter, Times, split};

/// Entries given to a thread of the slow path at a time.
const BATCH: usize = 256;
/// Words of entries that are received before they are taken in: 16 MiB.
const PIECE: usize = 2 << 20;
/// How long a thread may take for its next block. Only one that has ended takes so long.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often to check whether the other job has ended.
const TURN_LOOK: Duration = Duration::from_millis(5);
/// How far the system's clock may have gone back since a file was written.
const SKEW_SECONDS: u64 = 60;

/// Jobs on the whole cache while it is in use. The slow path's threads carry them out.
#[derive(Clone, Debug)]
pub struct CacheJobs {
    threads: Vec<Sender<JobRequest>>,
    cache: Arc<Cache>,
    clock: Clock,
    /// The meaning of the scopes in keys, which a reload changes.
    scopes: Arc<Mutex<String>>,
    /// Held during a job, so that jobs do not overlap, and no file is written twice at the same time.
    turn: Arc<Mutex<()>>,
}

/// Threads that are about to stop writing to the cache, or to go on.
#[derive(Debug)]
pub struct WriterSwitch {
    is_on: bool,
    /// Those that have not been asked yet.
    unasked: Vec<Sender<JobRequest>>,
    /// Those that have not done so.
    left: usize,
    done: Sender<()>,
    told: Receiver<()>,
}

impl WriterSwitch {
    /// Whether all of them have done so. Never waits.
    pub fn is_over(&mut self) -> Result<bool, SnapshotError> {
        while let Some(thread) = self.unasked.last() {
            match thread.try_send(JobRequest::SetWriting(self.is_on, self.done.clone())) {
                Ok(()) => drop(self.unasked.pop()),
                Err(TrySendError::Full(_)) => break,
                Err(TrySendError::Disconnected(_)) => return Err(SnapshotError::Ended),
            }
        }
        self.left = self.left.saturating_sub(self.told.try_iter().count());
        Ok(self.left == 0)
    }
}

/// The result of loading a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The results of the answers that could be loaded.
    pub taken: TakenIn,
    /// Answers for clients in views, which have changed since the file was written.
    pub other_views: u64,
    /// Answers that cannot be read.
    pub unreadable: u64,
}

impl Loaded {
    /// Adds the result of one thread.
    fn add(&mut self, one: TakenIn) {
        let TakenIn { kept, expired, known, rewritten, no_room } = &mut self.taken;
        *kept += one.kept;
        *expired += one.expired;
        *known += one.known;
        *rewritten += one.rewritten;
        *no_room += one.no_room;
    }

    /// Adds the result of another part.
    fn add_all(&mut self, other: Self) {
        self.add(other.taken);
        self.other_views += other.other_views;
        self.unreadable += other.unreadable;
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

impl CacheJobs {
    /// Jobs for these threads, by shard of `cache`. `scopes` describes the scopes of its keys
    /// ([`Config::scope_map`](pmdns_config::Config::scope_map)).
    pub fn new(
        threads: Vec<Sender<JobRequest>>,
        cache: Arc<Cache>,
        clock: Clock,
        scopes: String,
    ) -> Self {
        Self { threads, cache, clock, scopes: Arc::new(scopes.into()), turn: Arc::default() }
    }

    /// The scopes in keys mean this from now on.
    pub fn set_scopes(&self, scopes: String) {
        *self.scopes.lock().unwrap_or_else(PoisonError::into_inner) = scopes;
    }

    fn scopes(&self) -> String {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Removes answers from the cache, and returns how many. When it returns, none of them is served any more.
    pub fn purge(&self, purge: &Purge) -> Result<u64, SnapshotError> {
        let _turn = self.take_turn(PATIENCE)?;
        slowpath::purge(&self.threads, purge).ok_or(SnapshotError::Ended)
    }

    /// The outcome of a miss, asked of the thread whose shard has the key.
    pub fn outlook(&self, inquiry: Inquiry) -> Result<Outlook, SnapshotError> {
        let miss = &inquiry.miss;
        let shard = self.cache.shard_of(miss.key().hash(self.cache.seed(), miss.key));
        let thread = self.threads.get(shard).ok_or(SnapshotError::Ended)?;
        let (done, told) = crossbeam_channel::bounded(1);
        let request = JobRequest::Outlook(Box::new(inquiry), done);
        thread.send_timeout(request, PATIENCE).map_err(|_| SnapshotError::Ended)?;
        told.recv_timeout(PATIENCE).map_err(|_| SnapshotError::Ended)
    }

    /// Has all threads stop writing to the cache, or go on from where another process has stopped.
    pub fn set_writing(&self, is_on: bool) -> WriterSwitch {
        let (done, told) = crossbeam_channel::bounded(self.threads.len());
        WriterSwitch { is_on, unasked: self.threads.clone(), left: self.threads.len(), done, told }
    }

    /// The clock that the seconds of entries are of.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Writes every answer to the file `path`, and returns how many there were.
    pub fn dump(&self, path: &Path) -> Result<u64, SnapshotError> {
        let _turn = self.take_turn(PATIENCE)?;
        let failed = |source| SnapshotError::Write { path: path.to_owned(), source };
        let (file, count) = self.write(create(path).map_err(failed)?, path)?;
        file.finish().map_err(failed)?;
        Ok(count)
    }

    /// The same, to who may read slowly. Other jobs do not wait for it.
    pub fn send(&self, out: impl Write) -> Result<u64, SnapshotError> {
        let path = Path::new("to its reader");
        let (mut out, count) = self.write(out, path)?;
        out.flush().map_err(|source| SnapshotError::Write { path: path.to_owned(), source })?;
        Ok(count)
    }

    /// Writes every answer, and returns how many there were.
    fn write<W: Write>(&self, out: W, path: &Path) -> Result<(W, u64), SnapshotError> {
        let (now, seconds) = self.now();
        let times = Times { start: now.saturating_sub(seconds.into()), written: now };
        let scopes = self.scopes();
        let mut file = SnapshotWriter::begin(out, path, times, &scopes)?;
        self.blocks(|block| file.entries(block).map(|()| true))?;
        if self.scopes() != scopes {
            return Err(SnapshotError::OtherViews);
        }
        file.finish()
    }

    /// Hands every answer to `see` as it is now, until that says that it wants no more.
    pub fn each(&self, mut see: impl FnMut(&Entry) -> bool) -> Result<(), SnapshotError> {
        let _turn = self.take_turn(PATIENCE)?;
        let (now, seconds) = self.now();
        let times = Times { start: now.saturating_sub(seconds.into()), written: now };
        self.blocks(|block| {
            let mut entries =
                split(block).filter_map(|entry| self.restored(entry, times, now, seconds));
            Ok(entries.all(|entry| see(&entry)))
        })
    }

    /// Has all threads send their entries, and hands them to `take` until it says that it wants no more.
    fn blocks(
        &self,
        mut take: impl FnMut(&Block) -> Result<bool, SnapshotError>,
    ) -> Result<(), SnapshotError> {
        let (give, given) = crossbeam_channel::bounded(MAX_BLOCKS);
        for thread in &self.threads {
            let request = JobRequest::Dump(give.clone());
            thread.send_timeout(request, PATIENCE).map_err(|_| SnapshotError::Ended)?;
        }
        drop(give);
        // Each thread ends with an empty block.
        let mut busy = self.threads.len();
        while busy > 0 {
            let block: Block = given.recv_timeout(PATIENCE).map_err(|_| SnapshotError::Ended)?;
            match block.is_empty() {
                true => busy -= 1,
                false if take(&block)? => {}
                false => break,
            }
        }
        Ok(())
    }

    /// Loads answers from a file into the cache. Expired ones are loaded only while they may still be served. If views
    /// have changed since it was written, only answers for clients without a view are loaded. Others might reach the
    /// wrong clients.
    pub fn load(&self, path: &Path) -> Result<Loaded, SnapshotError> {
        let failed = |source| SnapshotError::Read { path: path.to_owned(), source };
        let mut snapshot = Snapshot::read(open_regular(path).map_err(failed)?, path)?;
        let origin = snapshot.origin().clone();
        let mut entries = 0;
        self.take_in(&origin, path, || {
            let words = snapshot.next_entries(entries)?;
            entries += words.iter().map(|words| split(words).count() as u64).sum::<u64>();
            Ok(words)
        })
    }

    /// The same of what comes from elsewhere, and may end too early. The answers before that end are taken in. Neither other jobs
    /// nor threads wait for the sender.
    pub fn receive(&self, from: impl Read) -> Result<Loaded, SnapshotError> {
        let path = Path::new("from its sender");
        let mut snapshot = Snapshot::begin(from, path)?;
        let origin = snapshot.origin().clone();
        let (mut entries, mut loaded) = (0, Loaded::default());
        loop {
            let (mut piece, mut ended) = (Vec::new(), None);
            while ended.is_none() && piece.len() < PIECE {
                match snapshot.next_entries(entries) {
                    Ok(Some(words)) => {
                        entries += split(&words).count() as u64;
                        piece.extend(words);
                    }
                    Ok(None) => ended = Some(Ok(())),
                    Err(error) => ended = Some(Err(error)),
                }
            }
            let mut piece = Some(piece).filter(|piece| !piece.is_empty());
            if piece.is_some() {
                loaded.add_all(self.take_in(&origin, path, || Ok(piece.take()))?);
            }
            match ended {
                None => {}
                Some(Ok(())) => return Ok(loaded),
                Some(Err(error)) => return Err(error.after(loaded)),
            }
        }
    }

    /// Takes in the entries of a snapshot, of which `next` has the next ones.
    fn take_in(
        &self,
        Origin { times, scopes }: &Origin,
        path: &Path,
        mut next: impl FnMut() -> Result<Option<Vec<u64>>, SnapshotError>,
    ) -> Result<Loaded, SnapshotError> {
        let _turn = self.take_turn(PATIENCE)?;
        let (now, seconds) = self.now();
        if times.written > now + SKEW_SECONDS {
            let what = "it is from the future: is the clock right?";
            return Err(SnapshotError::Damaged { path: path.to_owned(), what });
        }
        let same_views = *scopes == self.scopes();
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
            let request = JobRequest::Load(given, done.clone());
            thread.send_timeout(request, PATIENCE).map_err(|_| SnapshotError::Ended)?;
            shards.push(Shard { give, batch: Vec::new() });
        }
        drop(done);
        let mut loaded = Loaded::default();
        while let Some(words) = next()? {
            for entry in split(&words) {
                let is_ours = |entry: &Entry| {
                    same_views || entry.key(&mut NameBuffer::default()).scope() == 0
                };
                match self.restored(entry, *times, now, seconds) {
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

    /// An entry of a file, converted to this process.
    fn restored(&self, words: &[u64], times: Times, now: u64, seconds: u32) -> Option<Entry> {
        let learnt = u64::from(pmdns_stages::cache::Head::read(&words).learnt);
        let age = now.saturating_sub(times.start + learnt);
        Entry::restored(words, self.cache.seed(), u32::try_from(age).ok()?, seconds)
    }

    /// Unix time, and the process's own seconds.
    pub fn now(&self) -> (u64, u32) {
        (self.clock.date(), self.context().seconds)
    }

    /// The time as the stages see it.
    pub fn context(&self) -> Context {
        self.clock.context(self.clock.now())
    }

    /// Waits until no other job runs. That job may wait for a hanging disk.
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

/// The way of loaded entries to one shard.
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
