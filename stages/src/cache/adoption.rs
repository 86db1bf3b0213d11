//! A cache in memory that another process has filled, and may write to again: writing passes to and fro.
//!
//! The memory has the entries, and of each shard where its log begins and ends. The writer's accounts follow from the entries:
//! its log is read once, from the oldest to the newest. How often each was asked for is not there, and counted anew.
//!
//! The other process no longer writes, but its cores may still read. For them nothing changes: tail, fences and slots are words of
//! the same memory, whichever process stores them. What the other writer stored came before its message and the lock
//! ([`Arena::lock`]), and those before anything that is stored here. A mark that is taken back sends their hits to the rules,
//! as after a reload.
//!
//! It may also have been killed between any two of its stores. What it had in hand is dropped: a turn without an entry after it
//! ([`Span::resumed`]), a slot that was being moved ([`Index::settle`](super::index::Index::settle)), an entry behind the end.

use std::sync::Arc;

use arrayvec::ArrayVec;
use pmdns_config::narrow::{low_u32, to_u32};
use pmdns_nics::hugepage::Arena;
use pmdns_nics::sync::Ordering;

use super::entry::Head;
use super::geometry::Geometry;
use super::index::tag;
use super::log::Span;
use super::stores::release_fence;
use super::writer::{Retention, Writer, lines_of};
use super::{Cache, CacheError, NameBuffer};
use crate::wire::name::Seed;

/// The layout of the memory. It is to be raised with each change of what words mean: of entries and their flags, slots,
/// tails and ends, the split into shards, or the hash of a key. It is also raised if answers that were kept before may not be
/// given any more. A process adopts memory of its own layout only.
pub const LAYOUT: u32 = 2;
/// The digest of some memory in this layout. A test compares them.
#[cfg(all(test, not(loom)))]
pub(super) const DIGEST: u64 = 0xa68a_172e_6a74_3db1;

/// Entries that are counted together, their buckets loaded meanwhile.
const COUNTED: usize = 32;

impl Cache {
    /// The cache of another process, and its writers by shard number. `arena` is its memory in the same [`LAYOUT`] and with
    /// so many shards. The writers are frozen until they [resume](Writer::resume), and nobody reads before.
    pub fn over(
        arena: Arena,
        seed: Seed,
        shards: usize,
    ) -> Result<(Arc<Self>, Vec<Writer>), CacheError> {
        let geometry = Geometry::split(arena.words().len(), shards)?;
        let cache = Arc::new(Self { arena, geometry, seed });
        let writers = (0..shards).map(|shard| {
            let mut writer = Writer::new(Arc::clone(&cache), shard, Span::new(geometry.laps, 0));
            writer.freeze();
            writer
        });
        let writers = writers.collect();
        Ok((cache, writers))
    }
}

impl Writer {
    /// Writes nothing more, so that another process may. What is kept can still be found.
    pub fn freeze(&mut self) {
        self.longest = 0;
    }

    /// Goes on where the other process has stopped, or was killed. Seconds are those of both; it is second `now`.
    ///
    /// Nothing in the memory is believed unseen. If it is not sound, the shard is emptied, and goes on all the same.
    ///
    /// No ruleset has judged these answers: as after a change of rules, the shard has to be judged before they count as judged.
    pub fn resume(&mut self, retention: &Retention, now: u32) -> Result<(), CacheError> {
        let (laps, shard) = (self.cache.geometry.laps, self.shard);
        if self.turn != 0 && self.turn == self.cache.turn(shard).load(Ordering::Acquire) {
            // Nobody has written.
            self.longest = to_u32(laps.lines());
            return Ok(());
        }
        let tail = self.cache.tail(shard).load(Ordering::Acquire);
        let end = low_u32(self.cache.end(shard).load(Ordering::Acquire));
        if let Some(span) = Span::resumed(laps, tail, end) {
            self.begin_at(span, retention);
            if self.take_stock(now) {
                self.publish_span();
                return Ok(());
            }
        }
        // Readers take nothing of what they hold for whole.
        self.begin_at(Span::new(laps, laps.beyond(low_u32(tail))), retention);
        self.publish_span();
        release_fence();
        self.cache.index().empty(self.cache.geometry.index(shard));
        Err(CacheError::Unsound(shard))
    }

    /// Whether this writer is frozen, and another one has gone on: what it knows of its shard is not so any more.
    pub fn is_overtaken(&self) -> bool {
        self.is_frozen() && self.turn != self.cache.turn(self.shard).load(Ordering::Acquire)
    }

    /// The log has this span, and nothing in it is counted yet.
    fn begin_at(&mut self, span: Span, retention: &Retention) {
        self.span = span;
        self.longest = to_u32(self.cache.geometry.laps.lines());
        self.stats.entries = 0;
        self.set_retention(retention);
    }

    /// Counts what is in the shard, and says whether all of it is sound and nothing else can be found.
    fn take_stock(&mut self, now: u32) -> bool {
        self.pass_to(now);
        let mut seen: ArrayVec<(Head, u32), COUNTED> = ArrayVec::new();
        let mut buffer = NameBuffer::default();
        let mut position = self.span.tail();
        while position != self.span.head() {
            let view = self.view(position);
            let head = Head::read(&view);
            let is_inside = lines_of(&head) <= self.span.left_at(position);
            if !is_inside || !head.is_sound(&view) {
                return false;
            }
            let key = buffer.key_of(&view);
            let is_its_hash =
                key.hash(self.cache.seed, self.cache.seed.hash(key.name)) == head.hash;
            if !is_its_hash || !self.owns(head.hash) {
                return false;
            }
            if !matches!(head.passed, 0 | Head::BY_VIEW) {
                // The number of a ruleset of another process.
                self.set_passed(position, 0);
            }
            self.cache.probe(head.hash);
            seen.push((head, position));
            if seen.is_full() {
                self.count(&mut seen);
            }
            position = self.span.after(position, lines_of(&head));
        }
        self.count(&mut seen);
        // Each entry has a slot of its own, so that no slot is left that leads elsewhere.
        self.stats.entries == self.cache.index().settle(self.cache.geometry.index(self.shard))
    }

    /// Counts those of these entries that can be found.
    fn count(&mut self, seen: &mut ArrayVec<(Head, u32), COUNTED>) {
        for (head, position) in seen.drain(..) {
            let bucket = self.cache.geometry.place(head.hash).bucket;
            if self.cache.index().find(bucket, tag(head.hash)) == Some(position) {
                self.stats.entries += 1;
                self.account_for(&head);
            }
        }
    }
}
