//! The writer of a shard: inserts, replaces, and makes room.

use std::sync::Arc;

use pmdns_nics::sync::{Ordering, fence};

use super::entry::{Entry, Head};
use super::geometry::{LINE_BYTES, LINE_WORDS};
use super::index::{Put, tag};
use super::log::{STEP_LINES, Span};
use super::{Cache, EntryRef, EntryView};

/// What became of an entry that was inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is in the cache, and no entry was there for its key.
    New,
    /// It is in the cache instead of the entry that was there for its key.
    Replaced,
    /// It is larger than the shard's whole log and was not inserted.
    TooLong,
}

/// What a shard holds, and what has happened to it since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Entries that can be found.
    pub entries: u64,
    /// Bytes in use: tail, index, and the log as far as it is filled.
    pub bytes_used: u64,
    /// Bytes of the shard.
    pub bytes_total: u64,
    /// Entries inserted, replacements among them.
    pub inserted: u64,
    /// Entries that another for the same key replaced.
    pub replaced: u64,
    /// Entries lost at the end of the log, to make room.
    pub evicted: u64,
    /// Entries lost because both buckets they could be found by were full.
    pub index_evicted: u64,
    /// Entries that were larger than the log.
    pub too_long: u64,
}

/// The one who may write to a shard.
#[derive(Debug)]
pub struct Writer {
    cache: Arc<Cache>,
    shard: usize,
    span: Span,
    stats: CacheStats,
}

impl Writer {
    /// The writer of `shard`, which must be the only one.
    pub(super) fn new(cache: Arc<Cache>, shard: usize, start: u32) -> Self {
        let span = Span::new(cache.geometry.laps, start);
        cache.tail(shard).store(u64::from(start), Ordering::Relaxed);
        Self { cache, shard, span, stats: CacheStats::default() }
    }

    /// Inserts an entry in place of the one for the same key, if any. It costs the same however full the
    /// cache is: entries are evicted from the log's end as needed.
    ///
    /// The entry's hash must belong to this shard ([`Cache::shard_of`]).
    pub fn insert(&mut self, entry: &Entry) -> Inserted {
        let words = entry.words();
        let hash = entry.head().hash;
        debug_assert_eq!(self.cache.shard_of(hash), self.shard, "the entry is another shard's");
        let lines = words.len().div_ceil(LINE_WORDS);
        if lines > self.cache.geometry.laps.lines() {
            self.stats.too_long += 1;
            return Inserted::TooLong;
        }
        let position = self.reserve(lines as u32);
        self.write(position, words);
        self.stats.inserted += 1;
        let bucket = self.cache.geometry.place(hash).bucket;
        let index = self.cache.index();
        match index.put(bucket, tag(hash), position, self.span.tail()) {
            Put::Replaced => {
                self.stats.replaced += 1;
                return Inserted::Replaced;
            }
            Put::New => self.stats.entries += 1,
            Put::Displaced => self.stats.index_evicted += 1,
        }
        Inserted::New
    }

    /// Takes the entry of this hash out of the cache, and says whether there was one.
    pub fn remove(&mut self, hash: u64) -> bool {
        let Some(entry) = self.cache.find(hash) else { return false };
        let is_it = usize::from(entry.shard) == self.shard
            && Head::read(&self.cache.view(entry)).hash == hash;
        is_it && self.forget(hash, entry.line)
    }

    /// What the shard holds, and what has happened to it.
    pub fn stats(&self) -> CacheStats {
        let geometry = &self.cache.geometry;
        let free = geometry.log_bytes() - self.span.lines_used() * LINE_BYTES;
        CacheStats {
            bytes_used: (geometry.shard_bytes() - free) as u64,
            bytes_total: geometry.shard_bytes() as u64,
            ..self.stats
        }
    }

    /// Makes room for an entry of so many lines and says where it starts. Afterwards no reader takes what
    /// was in these lines for whole.
    fn reserve(&mut self, lines: u32) -> u32 {
        let tail = self.span.tail();
        if self.span.must_turn(lines) {
            self.make_room(self.span.left_in_lap());
            self.span.turn();
        }
        self.make_room(lines);
        if self.span.tail() != tail {
            let published = self.cache.tail(self.shard);
            published.store(u64::from(self.span.tail()), Ordering::Relaxed);
            // Whoever sees a word that is stored from here on also sees the new tail.
            fence(Ordering::Release);
        }
        self.span.take(lines)
    }

    /// Evicts from the tail until so many lines are free, and some more, so as not to move the tail
    /// at every insert.
    fn make_room(&mut self, lines: u32) {
        if self.span.has_room(lines) {
            return;
        }
        let step = STEP_LINES.min(self.cache.geometry.laps.lines() as u32 / 8);
        while !self.span.has_room(lines + step) && !self.span.is_empty() {
            self.evict_oldest();
        }
    }

    fn evict_oldest(&mut self) {
        let position = self.span.tail();
        let oldest = Head::read(&self.view(position));
        debug_assert!(!is_worth_keeping(&oldest), "kept entries would have to be appended again");
        if self.forget(oldest.hash, position) {
            self.stats.evicted += 1;
        }
        self.span.give_up(usize::from(oldest.words).div_ceil(LINE_WORDS) as u32);
    }

    /// Clears the slot of the entry at `position`.
    fn forget(&mut self, hash: u64, position: u32) -> bool {
        let bucket = self.cache.geometry.place(hash).bucket;
        let cleared = self.cache.index().clear(bucket, tag(hash), position);
        self.stats.entries -= u64::from(cleared);
        cleared
    }

    fn write(&self, position: u32, words: &[u64]) {
        let start = self.cache.geometry.entry(self.shard, position);
        let log = &self.cache.arena.words()[start..start + words.len()];
        for (shared, word) in log.iter().zip(words) {
            shared.store(*word, Ordering::Relaxed);
        }
    }

    fn view(&self, position: u32) -> EntryView<'_> {
        self.cache.view(EntryRef { shard: self.shard as u16, line: position })
    }
}

/// Whether the oldest entry is worth appending again instead of losing it. This is where eviction
/// strategies differ; the present one is first in, first out.
fn is_worth_keeping(_oldest: &Head) -> bool {
    false
}
