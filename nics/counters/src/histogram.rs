//! A histogram of times in ticks: four buckets to each power of two, in a fixed array.
//!
//! Recording costs a bit scan and four additions for any count, and never allocates. The width of a bucket is at most a
//! quarter of its lower bound. So a quantile is read at most 25 % too high, and never too low.

use std::sync::atomic::{AtomicU64, Ordering};

use pmdns_config::narrow::{floor_u64, to_usize};

/// Buckets to a power of two, as a power of two itself.
const SUB_BITS: u32 = 2;
/// Buckets to a power of two.
const SUB: u64 = 1 << SUB_BITS;
/// Values from 2 to the power of this on share the last bucket: half a minute at 2 GHz.
const MAX_BITS: u32 = 36;
/// Buckets in all.
const BUCKETS: usize = ((MAX_BITS - SUB_BITS + 1) as usize) << SUB_BITS;
/// Values of a published histogram: the buckets, the sum, the largest value.
const VALUES: usize = BUCKETS + 2;

/// Counts of times, by bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    sum: u64,
    max: u64,
}

/// A histogram as the core that owns it last published it.
#[derive(Debug)]
pub struct PublishedHistogram {
    values: [AtomicU64; VALUES],
}

impl Histogram {
    /// Records `value`, `count` times.
    #[inline]
    pub fn record(&mut self, value: u64, count: u64) {
        self.counts[bucket_of(value)] += count;
        self.sum = self.sum.saturating_add(value.saturating_mul(count));
        self.max = self.max.max(value);
    }

    /// Values recorded.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The largest of them.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Adds what another one has recorded.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// The values recorded since `earlier`, a copy of the same histogram. The largest of them is not known: the upper
    /// bound of the highest bucket is used instead.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut recent = Self { sum: self.sum.saturating_sub(earlier.sum), ..Self::default() };
        for (index, count) in recent.counts.iter_mut().enumerate() {
            *count = self.counts[index].saturating_sub(earlier.counts[index]);
        }
        let highest = recent.counts.iter().rposition(|count| *count > 0);
        recent.max = highest.map_or(0, |index| upper_bound(index).min(self.max));
        recent
    }

    /// The `quantile` (0 to 1) of all values, rounded up to the bound of its bucket; 0 if nothing was recorded.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let count = self.count();
        let rank = floor_u64((quantile.clamp(0.0, 1.0) * count as f64).ceil()).max(1);
        let mut seen = 0;
        for (index, in_bucket) in self.counts.iter().enumerate() {
            seen += in_bucket;
            if seen >= rank {
                return upper_bound(index).min(self.max);
            }
        }
        self.max
    }

    /// The buckets that hold something: upper bound (belonging to the bucket) and count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let all = self.counts.iter().enumerate();
        all.filter(|(_, count)| **count > 0).map(|(index, count)| (upper_bound(index), *count))
    }

    /// All buckets from the first to the last that holds something: upper bound and count.
    pub fn spread(&self) -> impl Iterator<Item = (u64, u64)> {
        let first = self.counts.iter().position(|count| *count > 0).unwrap_or(BUCKETS);
        let end = self.counts.iter().rposition(|count| *count > 0).map_or(BUCKETS, |last| last + 1);
        (first..end).map(|index| (upper_bound(index), self.counts[index]))
    }

    /// The histogram with these buckets, as [`Histogram::buckets`] gives them.
    pub fn from_buckets(buckets: &[(u64, u64)], sum: u64, max: u64) -> Self {
        let mut histogram = Self { sum, max, ..Self::default() };
        for (bound, count) in buckets {
            let slot = &mut histogram.counts[bucket_of(*bound)];
            *slot = slot.saturating_add(*count);
        }
        histogram
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], sum: 0, max: 0 }
    }
}

impl Default for PublishedHistogram {
    fn default() -> Self {
        Self { values: [const { AtomicU64::new(0) }; VALUES] }
    }
}

impl PublishedHistogram {
    /// Publishes `histogram`. Only the core that owns it may call this.
    pub fn publish(&self, histogram: &Histogram) {
        let values = histogram.counts.iter().chain([&histogram.sum, &histogram.max]);
        for (slot, value) in self.values.iter().zip(values) {
            slot.store(*value, Ordering::Relaxed);
        }
    }

    /// The histogram as last published.
    pub fn read(&self) -> Histogram {
        let value = |index: usize| self.values[index].load(Ordering::Relaxed);
        Histogram {
            counts: std::array::from_fn(value),
            sum: value(BUCKETS),
            max: value(BUCKETS + 1),
        }
    }
}

/// The bucket of a value. Each value below [`SUB`] has its own bucket. For others the highest bit chooses a group of
/// [`SUB`] buckets, and the next bits choose one of them.
#[inline]
fn bucket_of(value: u64) -> usize {
    if value < SUB {
        return to_usize(value);
    }
    let octave = value.ilog2();
    if octave >= MAX_BITS {
        return BUCKETS - 1;
    }
    let shift = octave - SUB_BITS;
    to_usize(u64::from(shift + 1) * SUB + ((value >> shift) & (SUB - 1)))
}

/// The largest value of a bucket.
fn upper_bound(bucket: usize) -> u64 {
    let (group, sub) = (bucket as u64 / SUB, bucket as u64 % SUB);
    match group {
        _ if bucket == BUCKETS - 1 => u64::MAX,
        0 => sub,
        _ => ((SUB + sub + 1) << (group - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn histogram_of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|value| histogram.record(*value, 1));
        histogram
    }

    #[test]
    fn buckets_lie_side_by_side_without_a_gap() {
        for bucket in 0..BUCKETS - 1 {
            let bound = upper_bound(bucket);
            assert_eq!(bucket_of(bound), bucket, "the upper bound belongs to its bucket");
            assert_eq!(bucket_of(bound + 1), bucket + 1, "and the next value to the next one");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!((upper_bound(3), upper_bound(4), upper_bound(8)), (3, 4, 9));
    }

    #[test]
    fn quantiles_of_known_values() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), 0);
        histogram.record(100, 90);
        histogram.record(1000, 9);
        histogram.record(5000, 1);
        assert_eq!(histogram.quantile(0.5), 111, "the bucket of 100 is 96 to 111");
        assert_eq!(histogram.quantile(0.9), 111);
        assert_eq!(histogram.quantile(0.99), 1023);
        assert_eq!(histogram.quantile(1.0), 5000, "no quantile exceeds the largest value");
        assert_eq!((histogram.count(), histogram.sum()), (100, 9000 + 9000 + 5000));
    }

    #[test]
    fn a_spread_has_no_gap() {
        let spread: Vec<_> = histogram_of(&[5, 7, 7]).spread().collect();
        assert_eq!(spread, [(5, 1), (6, 0), (7, 2)]);
        assert_eq!(Histogram::default().spread().count(), 0);
    }

    #[test]
    fn what_was_published_is_read() {
        let histogram = histogram_of(&[0, 3, 70_000, u64::MAX]);
        let published = PublishedHistogram::default();
        assert_eq!(published.read(), Histogram::default());
        published.publish(&histogram);
        assert_eq!(published.read(), histogram);
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_value_and_is_narrow(value in 0u64..1 << MAX_BITS) {
            let bucket = bucket_of(value);
            let lower = bucket.checked_sub(1).map_or(0, |below| upper_bound(below) + 1);
            prop_assert!(lower <= value);
            if bucket < BUCKETS - 1 {
                prop_assert!(value <= upper_bound(bucket));
                prop_assert!((upper_bound(bucket) - lower) * SUB <= lower);
            }
        }

        #[test]
        fn a_quantile_is_never_too_low_and_little_too_high(
            mut values in prop::collection::vec(0u64..1 << 34, 1..200),
            quantile in 0.0f64..=1.0,
        ) {
            let told = histogram_of(&values).quantile(quantile);
            values.sort_unstable();
            let rank = ((quantile * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1];
            prop_assert!(told >= exact);
            prop_assert!(told <= exact + exact / SUB);
        }

        #[test]
        fn merging_is_recording_together_and_since_undoes_it(
            first in prop::collection::vec(0u64..1 << 40, 0..50),
            second in prop::collection::vec(0u64..1 << 40, 0..50),
        ) {
            let (earlier, more) = (histogram_of(&first), histogram_of(&second));
            let mut merged = earlier.clone();
            merged.merge(&more);
            let together = histogram_of(&[first, second].concat());
            prop_assert_eq!(&merged, &together);
            let recent = merged.since(&earlier);
            prop_assert_eq!(recent.buckets().collect::<Vec<_>>(), more.buckets().collect::<Vec<_>>());
            prop_assert_eq!(recent.sum(), more.sum());
            prop_assert!(recent.max() >= more.max());
        }

        #[test]
        fn buckets_make_the_same_histogram_again(
            values in prop::collection::vec(any::<u64>(), 0..50),
        ) {
            let histogram = histogram_of(&values);
            let buckets: Vec<_> = histogram.buckets().collect();
            let again = Histogram::from_buckets(&buckets, histogram.sum(), histogram.max());
            prop_assert_eq!(again, histogram);
        }
    }
}
