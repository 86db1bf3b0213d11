//! The index of a shard: buckets of one cache line that say where in the log the entries are.
//!
//! A slot is 31 bits of the key's hash, its *tag*, and a position. An entry belongs to one bucket, its
//! home. While that is full it is put *away*, into the bucket's buddy, the other half of a pair of cache
//! lines, and marked as such. It comes back as soon as there is room at home, so a reader looks at the
//! buddy only if the home bucket is full.
//!
//! Of entries with the same home and the same tag only the last is found. That is the same key again, or
//! once in 2^31 another one, which then takes turns with the first in not being cached.

use std::ops::Range;

use pmdns_config::narrow::low_u32;
use pmdns_nics::sync::{AtomicU64, Ordering};

use super::stores::store;

/// Slots in a bucket.
pub(super) const BUCKET_SLOTS: usize = 8;

/// A cache line of slots. Zero is an empty slot.
type Bucket = [AtomicU64; BUCKET_SLOTS];

/// Marks the slot of an entry that is away from home.
const AWAY: u64 = 1 << 63;

/// The part of a key's hash that stands in its slot: 1 to 2^31 - 1. The index chooses buckets by other bits.
#[inline]
pub(super) fn tag(hash: u64) -> u32 {
    ((hash >> 33) as u32).max(1)
}

/// The result of [`Index::put`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It took an empty slot.
    New,
    /// It replaced the slot with the same tag, which was of the entry at this position.
    Replaced(u32),
    /// It took the slot of the bucket's oldest entry, which was at this position and is lost.
    Displaced(u32),
}

/// The lines of an arena, as buckets. Those that are none are never asked for.
#[derive(Clone, Copy)]
pub(super) struct Index<'c> {
    buckets: &'c [Bucket],
}

impl<'c> Index<'c> {
    /// The index that these words are.
    #[inline]
    pub(super) fn new(words: &'c [AtomicU64]) -> Self {
        Self { buckets: words.as_chunks().0 }
    }

    /// A bucket, to be prefetched.
    #[inline]
    pub(super) fn bucket(self, number: usize) -> &'c Bucket {
        &self.buckets[number]
    }

    /// The position of the entry with this home and tag.
    #[inline]
    pub(super) fn find(self, home: usize, tag: u32) -> Option<u32> {
        let wanted = u64::from(tag);
        let bucket = self.bucket(home);
        let mut found = scan(bucket, wanted);
        if found == 0 && is_full(bucket) {
            found = scan(self.bucket(home ^ 1), wanted | AWAY >> 32);
        }
        (found != 0).then_some(low_u32(found))
    }

    /// The slots in use of these buckets. Those that a writer has left twice, because it ended in [`Index::clear`], are
    /// emptied where nobody finds them.
    pub(super) fn settle(self, buckets: Range<usize>) -> u64 {
        let mut in_use = 0;
        for number in buckets {
            let buddy = self.bucket(number ^ 1);
            for slot in self.bucket(number) {
                let here = slot.load(Ordering::Relaxed);
                let is_twice =
                    here & AWAY != 0 && slot_where(buddy, |other| other == here & !AWAY).is_some();
                if is_twice {
                    store(slot, 0, Ordering::Release);
                } else if here != 0 {
                    in_use += 1;
                }
            }
        }
        in_use
    }

    /// Empties these buckets.
    pub(super) fn empty(self, buckets: Range<usize>) {
        let slots = self.buckets[buckets].as_flattened().iter();
        slots.for_each(|slot| store(slot, 0, Ordering::Release));
    }

    /// Makes an entry findable. Only the shard's writer does, after it has written the entry.
    #[inline(never)]
    pub(super) fn put(self, home: usize, tag: u32, position: u32, tail: u32) -> Put {
        let slot = u64::from(tag) << 32 | u64::from(position);
        let (bucket, buddy) = (self.bucket(home), self.bucket(home ^ 1));
        let put = |bucket: &Bucket, at: usize, slot| {
            let before = low_u32(bucket[at].load(Ordering::Relaxed));
            store(&bucket[at], slot, Ordering::Release);
            before
        };
        let away = slot | AWAY;
        for (bucket, slot) in [(bucket, slot), (buddy, away)] {
            if let Some(at) = slot_where(bucket, |other| other >> 32 == slot >> 32) {
                return Put::Replaced(put(bucket, at, slot));
            }
            if let Some(at) = slot_where(bucket, |other| other == 0) {
                put(bucket, at, slot);
                return Put::New;
            }
        }
        Put::Displaced(put(bucket, oldest(bucket, tail), slot))
    }

    /// Empties the slot of the entry with this home and tag if it is the one at `position`, and says
    /// whether it was. An entry that was replaced has no slot any more.
    #[inline(never)]
    pub(super) fn clear(self, home: usize, tag: u32, position: u32) -> bool {
        let slot = u64::from(tag) << 32 | u64::from(position);
        let (bucket, buddy) = (self.bucket(home), self.bucket(home ^ 1));
        if let Some(at) = slot_where(bucket, |other| other == slot) {
            let was_full = slot_where(bucket, |other| other == 0).is_none();
            let is_away = |other| other & AWAY != 0;
            let from = was_full.then(|| slot_where(buddy, is_away)).flatten();
            let back = from.map_or(0, |from| buddy[from].load(Ordering::Relaxed) & !AWAY);
            // First back, then away with it, so that a reader is not likely to miss it.
            store(&bucket[at], back, Ordering::Release);
            if let Some(from) = from {
                store(&buddy[from], 0, Ordering::Release);
            }
            return true;
        }
        match slot_where(buddy, |other| other == slot | AWAY) {
            Some(at) => {
                store(&buddy[at], 0, Ordering::Release);
                true
            }
            None => false,
        }
    }
}

/// The slot with the tag, or 0. Looks at every slot, without branches: which one it is cannot be predicted.
#[inline(always)]
fn scan(bucket: &Bucket, wanted: u64) -> u64 {
    bucket.iter().fold(0, |found, slot| {
        let slot = slot.load(Ordering::Acquire);
        if slot >> 32 == wanted { slot } else { found }
    })
}

/// Whether no slot is empty.
#[inline]
fn is_full(bucket: &Bucket) -> bool {
    bucket.iter().all(|slot| slot.load(Ordering::Acquire) != 0)
}

/// The first slot of which `is_it` holds, as the writer sees them.
fn slot_where(bucket: &Bucket, is_it: impl Fn(u64) -> bool) -> Option<usize> {
    bucket.iter().position(|slot| is_it(slot.load(Ordering::Relaxed)))
}

/// The slot of the entry that is next to the tail.
fn oldest(bucket: &Bucket, tail: u32) -> usize {
    let age = |at: &usize| low_u32(bucket[*at].load(Ordering::Relaxed)).wrapping_sub(tail);
    (0..BUCKET_SLOTS).min_by_key(age).unwrap_or(0)
}

#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    use pmdns_nics::hugepage::Arena;

    use super::*;

    /// Every slot with its bucket and its home, after a check that no entry is away while there is
    /// room at home.
    pub(in crate::cache) fn check(
        index: Index<'_>,
        lines: std::ops::Range<usize>,
    ) -> Vec<(usize, usize, u64)> {
        let slots = |bucket: usize| {
            let slots = index.buckets[bucket].iter().map(|slot| slot.load(Ordering::Relaxed));
            slots.filter(|slot| *slot != 0)
        };
        let mut all = Vec::new();
        for bucket in lines {
            for slot in slots(bucket) {
                let home = if slot & AWAY != 0 { bucket ^ 1 } else { bucket };
                assert!(home == bucket || slots(home).count() == BUCKET_SLOTS, "away without need");
                all.push((bucket, home, slot));
            }
        }
        all
    }

    fn index(arena: &Arena) -> Index<'_> {
        Index::new(arena.words())
    }

    #[test]
    fn tags_are_never_zero_and_never_marked() {
        assert_eq!(tag(0), 1);
        assert_eq!(tag(u64::MAX), 0x7fff_ffff);
        assert_eq!(tag(1 << 33), 1);
    }

    #[test]
    fn a_full_bucket_spills_into_its_buddy_and_calls_back() {
        let arena = Arena::heap(16);
        let index = index(&arena);
        for number in 1..=10 {
            assert_eq!(index.put(1, number, number * 100, 0), Put::New);
        }
        assert_eq!(check(index, 0..2).iter().filter(|(bucket, ..)| *bucket == 0).count(), 2);
        assert!((1..=10).all(|number| index.find(1, number) == Some(number * 100)));
        assert_eq!(index.find(0, 9), None, "an entry that is away is not the buddy's own");
        assert!(!index.clear(1, 3, 301), "another position");
        for number in 1..=10 {
            assert!(index.clear(1, number, number * 100));
            assert_eq!(index.find(1, number), None);
            assert!((number + 1..=10).all(|number| index.find(1, number) == Some(number * 100)));
            check(index, 0..2);
        }
        assert!(check(index, 0..2).is_empty());
    }

    #[test]
    fn the_same_tag_is_replaced_at_home_and_away() {
        let arena = Arena::heap(16);
        let index = index(&arena);
        for number in 1..=9 {
            index.put(0, number, number, 0);
        }
        assert_eq!(index.put(0, 2, 20, 0), Put::Replaced(2));
        assert_eq!(index.put(0, 9, 90, 0), Put::Replaced(9));
        assert_eq!((index.find(0, 2), index.find(0, 9)), (Some(20), Some(90)));
        assert!(!index.clear(0, 9, 9), "what was replaced has no slot");
        assert!(index.clear(0, 9, 90));
    }

    #[test]
    fn with_both_buckets_full_the_oldest_of_the_home_bucket_goes() {
        let arena = Arena::heap(16);
        let index = index(&arena);
        let tail = u32::MAX - 4;
        for number in 0..16 {
            assert_eq!(index.put(0, number + 1, tail.wrapping_add(number), tail), Put::New);
        }
        assert_eq!(index.put(0, 17, 17, tail), Put::Displaced(tail));
        assert_eq!(index.find(0, 1), None);
        assert_eq!(index.find(0, 17), Some(17));
        let displaced = Put::Displaced(tail.wrapping_add(8));
        assert_eq!(index.put(1, 18, 18, tail), displaced, "the buddy displaces who is away");
        assert_eq!(index.find(0, 9), None);
        assert_eq!(index.find(1, 18), Some(18));
        check(index, 0..2);
    }
}
