//! A cache in memory that another process has filled: its log is read once, from the oldest entry to the newest.
//!
//! The memory has the tail and the entries, and the message of the other process the seed and where each log ends. The
//! writer's accounts follow from the entries. How often each was asked for is not there, and counted anew.
//!
//! The other process no longer writes, but its cores may still read. For them nothing changes: tail, fences and slots are words of
//! the same memory, whichever process stores them. What the other writer stored came before the message, and the message
//! before anything that is stored here. A mark that is taken back sends their hits to the rules, as after a reload.

use std::sync::Arc;

use arrayvec::ArrayVec;
use pmdns_nics::hugepage::Arena;
use pmdns_nics::sync::Ordering;

use super::entry::Head;
use super::geometry::Geometry;
use super::index::tag;
use super::log::Span;
use super::writer::{Retention, Writer, lines_of};
use super::{Cache, CacheError, NameBuffer};
use crate::wire::name::Seed;

/// The layout of the memory. It is to be raised with each change of what words mean: of entries and their flags, slots,
/// tails, the split into shards, or the hash of a key. A process adopts memory of its own layout only.
pub const LAYOUT: u32 = 1;
/// The digest of some memory in this layout. A test compares them.
#[cfg(all(test, not(loom)))]
pub(super) const DIGEST: u64 = 0x0737_0133_5396_2fb5;

/// Entries that are counted together, their buckets loaded meanwhile.
const COUNTED: usize = 32;

impl Cache {
    /// The cache of another process, which has stopped writing, and its writers by shard number. `arena` is its memory in
    /// the same [`LAYOUT`], and `ends` what [`Writer::end`] said of each shard. Seconds are those of the other process; it
    /// is second `now`.
    ///
    /// Nothing in the memory is believed unseen. On an error, what there was of marks may be lost, and nothing else.
    ///
    /// No ruleset has judged these answers: as after a change of rules, each shard has to be judged before its answers
    /// count as judged.
    pub fn adopt(
        arena: Arena,
        seed: Seed,
        ends: &[u32],
        retention: &Retention,
        now: u32,
    ) -> Result<(Arc<Self>, Vec<Writer>), CacheError> {
        let geometry = Geometry::split(arena.words().len(), ends.len())?;
        let cache = Arc::new(Self { arena, geometry, seed });
        let writers = ends.iter().enumerate().map(|(shard, end)| {
            let tail = cache.tail(shard).load(Ordering::Relaxed);
            let writer = Span::resumed(geometry.laps, tail, *end).and_then(|span| {
                let mut writer = Writer::new(Arc::clone(&cache), shard, span);
                writer = writer.with_retention(retention);
                writer.take_stock(now).then_some(writer)
            });
            writer.ok_or(CacheError::Unsound(shard))
        });
        let writers = writers.collect::<Result<_, _>>()?;
        Ok((cache, writers))
    }
}

impl Writer {
    /// Where the log ends: for [`Cache::adopt`] in another process, once this one writes no more.
    pub fn end(&self) -> u32 {
        self.span.head()
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
            if head.passed != Head::BY_VIEW {
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
        self.stats.entries == self.cache.index().slots_in_use(self.cache.geometry.index(self.shard))
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
