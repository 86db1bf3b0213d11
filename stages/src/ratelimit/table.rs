//! The buckets of one core, in a table that never grows.
//!
//! A client prefix may stand in any slot of one set, and a set is one cache line. A prefix without a slot
//! gets one with a full bucket. So under pressure the table forgets and lets pass, rather than drop the
//! wrong client. It forgets the fullest bucket of the set, which says least. So clients that ask once in a
//! while push out each other, and not one that floods. Only as many flooding prefixes as a set has slots can
//! make it forget one of them.

use pmdns_config::narrow::to_usize;
use pmdns_nics::prefetch;

use super::bucket::Bucket;

/// Slots in a set.
const WAYS: usize = 4;

/// Buckets in one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Set([Bucket; WAYS]);

const _: () = assert!(size_of::<Set>() == 64, "a look at all slots reads one cache line");

/// The buckets of one core.
#[derive(Clone, Debug)]
pub(super) struct BucketTable {
    /// A power of two of them.
    sets: Box<[Set]>,
    /// Queries over the limit since one last slipped through, per slot. Only floods read it, so it
    /// stands apart.
    over: Box<[[u32; WAYS]]>,
}

/// A slot of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableSlot {
    set: usize,
    way: usize,
}

impl BucketTable {
    /// A table of at least `slots` slots, rounded up to a power of two.
    pub(super) fn new(slots: usize) -> Self {
        let sets = slots.div_ceil(WAYS).next_power_of_two();
        Self {
            sets: vec![Set::default(); sets].into_boxed_slice(),
            over: vec![[0; WAYS]; sets].into_boxed_slice(),
        }
    }

    /// How many slots there are.
    pub(super) fn len(&self) -> usize {
        self.sets.len() * WAYS
    }

    /// Starts loading the set that `hash` leads to.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch(&raw const self.sets[self.set(hash)]);
    }

    /// The slot of the client prefix with this hash, which may have to be another's so far.
    ///
    /// The upper half of the hash stands for the prefix. Two prefixes of one set that agree in it share a
    /// bucket. The odds are one to 2^32, and the secret seed keeps clients from choosing them.
    #[inline]
    pub(super) fn place(&mut self, hash: u64) -> TableSlot {
        let set = self.set(hash);
        let tag = (hash >> 32) as u32;
        let Set(buckets) = &mut self.sets[set];
        if let Some(way) = buckets.iter().position(|bucket| bucket.tag == tag) {
            return TableSlot { set, way };
        }
        let mut fullest = 0;
        for way in 1..WAYS {
            if buckets[way].full_at() < buckets[fullest].full_at() {
                fullest = way;
            }
        }
        buckets[fullest] = Bucket::full(tag);
        TableSlot { set, way: fullest }
    }

    /// The bucket in a slot.
    #[inline]
    pub(super) fn bucket(&mut self, place: TableSlot) -> &mut Bucket {
        let Set(buckets) = &mut self.sets[place.set];
        &mut buckets[place.way]
    }

    /// Whether this query over the limit is one that slips through: every `slip`-th is, none if `slip` is
    /// 0. A prefix that takes over a slot goes on with its count, which only shifts the beat.
    #[inline]
    pub(super) fn slips(&mut self, place: TableSlot, slip: u32) -> bool {
        if slip == 0 {
            return false;
        }
        let over = &mut self.over[place.set][place.way];
        *over += 1;
        let slips = *over >= slip;
        if slips {
            *over = 0;
        }
        slips
    }

    /// The number of the set that `hash` leads to. The table has a power of two of them, so the lower bits
    /// are one.
    #[inline]
    fn set(&self, hash: u64) -> usize {
        to_usize(hash & (self.sets.len() as u64 - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_room_for_what_was_asked() {
        for (slots, sets) in [(0, 1), (1, 1), (4, 1), (5, 2), (64, 16), (65_536, 16_384)] {
            assert_eq!(BucketTable::new(slots).sets.len(), sets);
        }
    }

    #[test]
    fn a_prefix_keeps_its_slot() {
        let mut table = BucketTable::new(64);
        let places = [1u64, 2, 3, 4].map(|tag| table.place(tag << 32 | 5));
        assert_eq!([1u64, 2, 3, 4].map(|tag| table.place(tag << 32 | 5)), places);
        assert!(places.iter().all(|place| place.set == 5));
        assert_eq!(table.place(1 << 32 | 6).set, 6);
    }
}
