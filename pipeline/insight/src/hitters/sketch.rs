//! A sketch of the heaviest keys of a stream: space-saving, pruned in batches. Pure and bounded.
//!
//! It keeps `k` to `2k` keys. A key that is not kept has come `floor` times at most, so a new one begins with that count. When
//! there are `2k` keys, all but the heaviest `k` are forgotten, and the floor rises to the largest count forgotten. Two
//! sketches are merged by adding counts, a floor standing for a key that one of them lacks, and pruning.
//!
//! For `n` counted in all, after any adding and merging:
//!
//! * The true count of a kept key is between `count - error` and `count`.
//! * The true count of any other key is `floor` at most.
//! * `error <= floor <= n / k`. So each key with more than `n / k` is kept.
//!
//! The last holds because each prune that raises the floor by `d` takes `d` from the excess over the floor of `k` keys at least.
//! The sum of all excesses is never more than `n`. See docs/adr/0054-heavy-hitters.md.

use std::collections::HashMap;
use std::sync::Arc;

/// A key: a name in wire format, or an address. Sketches of several windows share it.
pub(super) type Key = Arc<[u8]>;

/// The heaviest keys of a stream.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    counts: HashMap<Key, Counted>,
    /// Keys that are kept when some are forgotten.
    keys: usize,
    floor: u64,
    total: u64,
}

/// The count of a key, and its error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// No less often than it came.
    pub(super) count: u64,
    /// How much less often it may have come.
    pub(super) error: u64,
}

impl Sketch {
    /// An empty one that keeps so many keys, and twice as many between prunes.
    pub(super) fn new(keys: usize) -> Self {
        Self { counts: HashMap::new(), keys, floor: 0, total: 0 }
    }

    /// Counts a key so often.
    pub(super) fn add(&mut self, key: &[u8], count: u64) {
        self.total += count;
        if let Some(counted) = self.counts.get_mut(key) {
            counted.count += count;
            return;
        }
        let counted = Counted { count: self.floor + count, error: self.floor };
        self.counts.insert(key.into(), counted);
        self.prune_if_full();
    }

    /// Adds what another has counted.
    pub(super) fn merge(&mut self, other: &Self) {
        let (own_floor, other_floor) = (self.floor, other.floor);
        for (key, counted) in &mut self.counts {
            let Counted { count, error } = other.estimate(key);
            (counted.count, counted.error) = (counted.count + count, counted.error + error);
        }
        for (key, counted) in &other.counts {
            self.counts.entry(Arc::clone(key)).or_insert(Counted {
                count: counted.count + own_floor,
                error: counted.error + own_floor,
            });
        }
        self.floor += other_floor;
        self.total += other.total;
        self.prune_if_full();
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        self.counts.clear();
        (self.floor, self.total) = (0, 0);
    }

    /// How much was counted.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The most that a key may have come that is not kept.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// What is known of a key.
    pub(super) fn estimate(&self, key: &[u8]) -> Counted {
        let unknown = Counted { count: self.floor, error: self.floor };
        self.counts.get(key).copied().unwrap_or(unknown)
    }

    /// The heaviest keys, the heaviest first.
    pub(super) fn top(&self, most: usize) -> Vec<(Key, Counted)> {
        let mut all: Vec<_> = self.counts.iter().collect();
        all.sort_unstable_by(|one, other| {
            other.1.count.cmp(&one.1.count).then_with(|| one.0.cmp(other.0))
        });
        all.into_iter().take(most).map(|(key, counted)| (Arc::clone(key), *counted)).collect()
    }

    /// Keys that it has room for.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.counts.capacity()
    }

    fn prune_if_full(&mut self) {
        if self.counts.len() < 2 * self.keys {
            return;
        }
        let mut counts: Vec<u64> = self.counts.values().map(|counted| counted.count).collect();
        // The largest that is forgotten.
        let (_, forgotten, _) =
            counts.select_nth_unstable_by(self.keys, |one, other| other.cmp(one));
        self.floor = self.floor.max(*forgotten);
        let floor = self.floor;
        self.counts.retain(|_, counted| counted.count > floor);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEYS: usize = 16;

    fn key(number: u32) -> [u8; 4] {
        number.to_be_bytes()
    }

    /// A stream: Zipf, all different, one pass over many keys again and again, or heavy ones that come last.
    fn streams() -> impl Strategy<Value = Vec<(u32, u64)>> {
        let zipf = prop::collection::vec((1..1000_u32, 1..4_u64), 0..4000).prop_map(|stream| {
            stream.into_iter().map(|(key, count)| (1000 / key, count)).collect()
        });
        let different = (0..3000_u32).prop_map(|len| (0..len).map(|key| (key, 1)).collect());
        let rounds = (1..6_u32, 1..100_u32)
            .prop_map(|(rounds, keys)| (0..rounds * keys).map(|at| (at % keys, 1)).collect());
        let late = (0..2000_u32, 1..500_u64).prop_map(|(len, heavy)| {
            (0..len).map(|key| (key + 10, 1)).chain((0..5).map(|key| (key, heavy))).collect()
        });
        prop_oneof![zipf, different, rounds, late]
    }

    fn sketch_of(stream: &[(u32, u64)]) -> Sketch {
        let mut sketch = Sketch::new(KEYS);
        stream.iter().for_each(|(number, count)| sketch.add(&key(*number), *count));
        sketch
    }

    /// Holds the sketch of a stream to the exact counts.
    fn check(sketch: &Sketch, stream: &[(u32, u64)]) -> Result<(), TestCaseError> {
        let mut exact: HashMap<u32, u64> = HashMap::new();
        stream.iter().for_each(|(number, count)| *exact.entry(*number).or_default() += count);
        let total: u64 = exact.values().sum();
        let bound = total / KEYS as u64;
        prop_assert_eq!(sketch.total(), total);
        prop_assert!(sketch.floor() <= bound, "floor {} of {total}", sketch.floor());
        prop_assert!(sketch.counts.len() < 2 * KEYS);
        for (number, count) in exact {
            let counted = sketch.estimate(&key(number));
            prop_assert!(counted.error <= sketch.floor());
            prop_assert!(counted.count >= count && counted.count - counted.error <= count);
            prop_assert!(count <= bound || sketch.counts.contains_key(&key(number)[..]));
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn counts_are_within_the_stated_error(stream in streams()) {
            check(&sketch_of(&stream), &stream)?;
        }

        #[test]
        fn merged_counts_are_within_it_too(streams in prop::collection::vec(streams(), 1..6)) {
            let mut merged = Sketch::new(KEYS);
            streams.iter().for_each(|stream| merged.merge(&sketch_of(stream)));
            check(&merged, &streams.concat())?;
        }
    }

    #[test]
    fn the_heaviest_come_first_and_few_keys_are_counted_exactly() {
        let sketch = sketch_of(&[(3, 1), (1, 5), (2, 5), (3, 1)]);
        let top: Vec<_> =
            sketch.top(2).into_iter().map(|(key, counted)| (key[3], counted)).collect();
        let exact = |count| Counted { count, error: 0 };
        assert_eq!(top, [(1, exact(5)), (2, exact(5))]);
        assert_eq!(sketch.estimate(&key(3)), exact(2));
    }
}
