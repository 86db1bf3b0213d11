//! The answer cache: written by the slow path, read by every core, and a hit writes nothing.
//!
//! It lives in one arena of atomic words and is split into shards, each with one [`Writer`]. A shard is
//! an index and a log. The index consists of buckets of one cache line, with eight slots each. A slot
//! holds a tag (bits of the key's hash) and the position in the log where the entry starts. The log is a
//! ring of cache lines that entries are appended to; what is oldest makes room for what is new.
//!
//! # Why a reader sees whole entries or knows better
//!
//! Readers take no lock and leave no trace; the writer does not wait for them. One word per shard, the
//! *tail*, is the oldest position that is still whole. It is to all entries what the sequence number is
//! to a seqlock. Every word is an atomic, so there are no data races. It remains to be shown that
//! [`EntryView::is_valid`] never says yes to words that were not written together.
//!
//! 1. The writer stores an entry's words and then its slot, with release. The reader loads the slot with
//!    acquire. So the reader never sees what these lines held *before* the entry.
//! 2. Before the writer stores into lines again, it has stored a tail beyond the entry that was there,
//!    and then executed a release fence. The reader loads words, executes an acquire fence, and then
//!    loads the tail. If any of the words was of a *later* entry, the fences synchronise through that
//!    word. The reader's load of the tail then sees that store or a later one. So the position is
//!    behind the tail, and the reader is told so.
//!
//! All other words are of the entry itself. One of them changes while it stands: the word that says which ruleset lets
//! its question pass. It is stored as a whole, and either value is true of the entry. Readers keep the tail's cache
//! line until the tail moves, which it does in steps of many lines.
//!
//! Positions have 32 bits and wrap round. A reader would be fooled if 2^32 positions passed between its
//! load of the slot and its check of the tail. These are at least 128 GB of entries, and at least
//! sixteen laps of the log. A reader holds a position while it works on one batch, or while a packet is
//! on its way to another core: microseconds.
//!
//! An entry that is worth keeping when it has become the oldest is appended again, like any other. It goes into
//! lines that readers take for overwritten already, and before its old lines are given up. A reader finds
//! either copy.
//!
//! The memory outlives its process: another can go on where the writers have stopped (`adoption.rs`).
//!
//! `tests/cache_loom.rs` has loom try to break the argument on a log of four lines.

mod adoption;
mod alias;
mod copy;
mod entry;
mod eviction;
mod geometry;
mod hits;
mod image;
mod index;
mod key;
mod lifetimes;
mod log;
mod nxdomain_cut;
mod plain;
mod popularity;
mod purge;
mod read;
mod removal;
mod reply;
mod scrub;
mod share;
mod stores;
mod synthesis;
mod walk;
mod writer;

use std::sync::Arc;

use pmdns_config::narrow::{low_u32, to_u16};
use pmdns_nics::hugepage::Arena;
use pmdns_nics::prefetch;
use pmdns_nics::sync::{AtomicU64, Ordering, fence};

pub use adoption::LAYOUT;
pub use alias::{Alias, NoAlias};
pub use copy::message_start;
pub use entry::{Entry, EntryParts, Head, MAX_RECORDS, Words, ttl_offset};
pub use geometry::CacheError;
pub use hits::{Hit, MAX_SAMPLES, Sampler};
pub use key::{Key, NameBuffer, answers};
pub use lifetimes::Lifetimes;
pub use popularity::Standing;
pub use purge::Purge;
pub use read::Found;
pub use scrub::Unusable;
pub use synthesis::Synthesis;
pub use walk::{EntryFate, Walk};
pub use writer::{CacheStats, Inserted, Retention, Writer};

use crate::wire::name::Seed;
use geometry::{Geometry, HomeBucket, LINE_WORDS};
use index::Index;
use log::{Laps, Span};

/// Where an entry is, or was: to be read through [`Cache::view`], which tells the one from the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Six bytes at two-byte alignment, so that an `Answer` with its tag fits in eight.
#[repr(Rust, packed(2))]
pub struct EntryRef {
    shard: u16,
    position: u32,
}

const _: () = assert!(size_of::<EntryRef>() == 6);

impl EntryRef {
    /// Its shard, and below that its position, for reports.
    pub fn as_number(self) -> u64 {
        u64::from(self.shard) << 32 | u64::from(self.position)
    }
}

/// Where to look for a key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Probe {
    bucket: usize,
    tag: u32,
    shard: u16,
}

/// The answer cache, as its readers see it.
#[derive(Debug)]
pub struct Cache {
    arena: Arena,
    geometry: Geometry,
    seed: Seed,
}

impl Cache {
    /// A cache in `arena`, and its writers by shard number. The arena must be zeroed.
    pub fn new(
        arena: Arena,
        shards: usize,
        seed: Seed,
    ) -> Result<(Arc<Self>, Vec<Writer>), CacheError> {
        Self::starting_at(0, arena, shards, seed)
    }

    /// Like [`Cache::new`], with logs that start at the lap of `position`: for tests of the wrap-around.
    pub(crate) fn starting_at(
        position: u32,
        arena: Arena,
        shards: usize,
        seed: Seed,
    ) -> Result<(Arc<Self>, Vec<Writer>), CacheError> {
        let geometry = Geometry::split(arena.words().len(), shards)?;
        let start = geometry.laps.start_of(position);
        let cache = Arc::new(Self { arena, geometry, seed });
        let span = Span::new(geometry.laps, start);
        let writers = (0..shards).map(|shard| {
            let mut writer = Writer::new(Arc::clone(&cache), shard, span);
            writer.publish_span();
            writer
        });
        let writers = writers.collect();
        Ok((cache, writers))
    }

    /// Its memory.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The seed of the hash of keys.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// The shard whose [`Writer`] keeps the key of this hash.
    #[inline]
    pub fn shard_of(&self, hash: u64) -> usize {
        self.geometry.place(hash).shard
    }

    /// The shard of the key of this hash, and its bucket among those of the shard, for reports.
    pub fn bucket_of(&self, hash: u64) -> (usize, usize) {
        let home = self.geometry.place(hash);
        (home.shard, self.geometry.place_in_shard(home))
    }

    /// Where the key of this hash would be found. Starts loading that place.
    #[inline(always)]
    pub fn probe(&self, hash: u64) -> Probe {
        let HomeBucket { shard, bucket } = self.geometry.place(hash);
        prefetch(self.index().bucket(bucket));
        Probe { bucket, tag: index::tag(hash), shard: to_u16(shard) }
    }

    /// The entry whose tag matches that of the probe: most likely the key's, and to be compared with it.
    /// `None` is a miss. A key's entry may also be missed in the moment when the writer moves its slot.
    #[inline(always)]
    pub fn look(&self, probe: Probe) -> Option<EntryRef> {
        let line = self.index().find(probe.bucket, probe.tag)?;
        Some(EntryRef { shard: probe.shard, position: line })
    }

    /// Both at once, for those who look for one key only.
    #[inline]
    pub fn find(&self, hash: u64) -> Option<EntryRef> {
        self.look(self.probe(hash))
    }

    /// Starts loading the first two cache lines of an entry, which is all there is of most.
    #[inline(always)]
    pub fn prefetch_entry(&self, entry: EntryRef) {
        let words = self.words_from(entry).as_ptr();
        prefetch(words);
        prefetch(words.wrapping_add(LINE_WORDS));
    }

    /// The words of an entry. Ask [`EntryView::is_valid`] after reading, and before believing, them.
    #[inline]
    pub fn view(&self, entry: EntryRef) -> EntryView<'_> {
        EntryView {
            words: self.words_from(entry),
            tail: self.tail(usize::from(entry.shard)),
            laps: self.geometry.laps,
            position: entry.position,
        }
    }

    /// The index of all shards, in which buckets are known by their line.
    #[inline(always)]
    fn index(&self) -> Index<'_> {
        Index::new(self.arena.words())
    }

    /// The words from the start of an entry on.
    #[inline(always)]
    fn words_from(&self, entry: EntryRef) -> &[AtomicU64] {
        let start = self.geometry.entry(usize::from(entry.shard), entry.position);
        match self.arena.words().get(start..) {
            Some(words) => words,
            None => entry::nothing(),
        }
    }

    /// The word that says which position of a shard's log is the oldest whole one. Its high half is the writer's alone
    /// ([`Span::tail_word`]).
    #[inline]
    fn tail(&self, shard: usize) -> &AtomicU64 {
        &self.arena.words()[self.geometry.tail(shard)]
    }

    /// The word that says where a shard's log ends. Only writers read it.
    #[inline]
    fn end(&self, shard: usize) -> &AtomicU64 {
        &self.arena.words()[self.geometry.end(shard)]
    }

    /// The word that counts the writers a shard has had. Only writers read it.
    fn turn(&self, shard: usize) -> &AtomicU64 {
        &self.arena.words()[self.geometry.turn(shard)]
    }
}

/// An entry in shared memory. Any of its words may be overwritten while it is read.
#[derive(Clone, Copy, Debug)]
pub struct EntryView<'c> {
    words: &'c [AtomicU64],
    tail: &'c AtomicU64,
    laps: Laps,
    position: u32,
}

impl EntryView<'_> {
    /// Whether everything read through this view so far was one whole entry.
    #[inline]
    pub fn is_valid(&self) -> bool {
        fence(Ordering::Acquire);
        let tail = low_u32(self.tail.load(Ordering::Relaxed));
        self.laps.is_whole(self.position, tail)
    }
}

impl Words for EntryView<'_> {
    #[inline(always)]
    fn words(&self, at: usize, count: usize) -> impl ExactSizeIterator<Item = u64> {
        entry::part(self.words, at, count).iter().map(|word| word.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn head(&self) -> [u64; entry::HEAD_WORDS] {
        let head = self.words.first_chunk::<{ entry::HEAD_WORDS }>();
        head.map_or_else(Default::default, |words| {
            std::array::from_fn(|index| words[index].load(Ordering::Relaxed))
        })
    }

    #[inline(always)]
    fn is_valid(&self) -> bool {
        EntryView::is_valid(self)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
