//! Occupancy: how full a ring was each time its consumer took something from it.

use std::sync::atomic::{AtomicU64, Ordering};

use pmdns_config::limits::MAX_RING;
use serde::{Deserialize, Serialize};

/// Buckets of the histogram: 1, 2 to 3, 4 to 7, and so on up to a full ring of the largest size.
pub const BUCKETS: usize = MAX_RING.ilog2() as usize + 1;
/// Values of a published table.
const VALUES: usize = BUCKETS + 4;

/// The occupancy of a ring, as its consumer found it. Polls that found nothing are not counted: they would hide the mean
/// of a core that spins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Times something was taken.
    pub pops: u64,
    /// Values taken.
    pub taken: u64,
    /// Values that waited, summed over the pops.
    pub waited: u64,
    /// The most that ever waited.
    pub max: u64,
    /// Pops by what waited: 1, 2 to 3, 4 to 7, and so on.
    pub histogram: [u64; BUCKETS],
}

/// The counters of both ends of a ring, for any thread to read. Each end writes its own part. Its cache lines have nothing else:
/// under an attack, the sender writes them often.
#[derive(Debug)]
#[repr(align(64))]
pub struct RingGauge {
    capacity: usize,
    refused: AtomicU64,
    occupancy: [AtomicU64; VALUES],
}

impl Occupancy {
    /// Counts a pop that found `waiting` values, at least one, and took `taken` of them.
    #[inline]
    pub fn sample(&mut self, waiting: usize, taken: usize) {
        let waiting = waiting as u64;
        self.pops += 1;
        self.taken += taken as u64;
        self.waited += waiting;
        self.max = self.max.max(waiting);
        self.histogram[(waiting.max(1).ilog2() as usize).min(BUCKETS - 1)] += 1;
    }

    /// The mean number of waiting values when some were taken.
    pub fn mean(&self) -> f64 {
        self.waited as f64 / self.pops.max(1) as f64
    }

    /// The counts since `earlier`. The maximum of that time is not known: the upper bound of the highest bucket is used
    /// instead.
    pub fn since(&self, earlier: &Self) -> Self {
        let difference =
            |index: usize| u64::saturating_sub(self.histogram[index], earlier.histogram[index]);
        let histogram: [u64; BUCKETS] = std::array::from_fn(difference);
        let highest = histogram.iter().rposition(|count| *count > 0);
        Self {
            pops: self.pops.saturating_sub(earlier.pops),
            taken: self.taken.saturating_sub(earlier.taken),
            waited: self.waited.saturating_sub(earlier.waited),
            max: highest.map_or(0, |index| upper_bound(index).min(self.max)),
            histogram,
        }
    }
}

/// The most waiting values that a bucket of the histogram counts.
pub fn upper_bound(bucket: usize) -> u64 {
    (2 << bucket) - 1
}

impl RingGauge {
    /// A gauge at zero for a ring with this many slots.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            refused: AtomicU64::new(0),
            occupancy: [const { AtomicU64::new(0) }; VALUES],
        }
    }

    /// Slots of the ring.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Counts values that found the ring full. Only the sender may call this; it writes nothing else.
    #[inline]
    pub fn refuse(&self, count: usize) {
        let refused = self.refused.load(Ordering::Relaxed);
        self.refused.store(refused + count as u64, Ordering::Relaxed);
    }

    /// Values that found the ring full.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Publishes what the receiver has counted. Only the receiver may call this.
    pub fn publish(&self, occupancy: &Occupancy) {
        let Occupancy { pops, taken, waited, max, histogram } = occupancy;
        let values = [pops, taken, waited, max].into_iter().chain(histogram);
        for (slot, value) in self.occupancy.iter().zip(values) {
            slot.store(*value, Ordering::Relaxed);
        }
    }

    /// The occupancy that the receiver last published.
    pub fn occupancy(&self) -> Occupancy {
        let value = |index: usize| self.occupancy[index].load(Ordering::Relaxed);
        Occupancy {
            pops: value(0),
            taken: value(1),
            waited: value(2),
            max: value(3),
            histogram: std::array::from_fn(|bucket| value(4 + bucket)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_share_no_cache_line() {
        let gauges = [RingGauge::new(1), RingGauge::new(1)];
        let [first, second] = gauges.each_ref().map(|gauge| std::ptr::from_ref(gauge).addr());
        assert_eq!([first % 64, second % 64], [0, 0]);
        assert!(second - first >= 64);
    }

    #[test]
    fn samples_fall_into_their_powers_of_two() {
        let mut occupancy = Occupancy::default();
        for waiting in [1, 2, 3, 4, 7, 8, MAX_RING as usize] {
            occupancy.sample(waiting, waiting.min(32));
        }
        assert_eq!(occupancy.histogram[..5], [1, 2, 2, 1, 0]);
        assert_eq!(occupancy.histogram[BUCKETS - 1], 1);
        assert_eq!((occupancy.pops, occupancy.taken), (7, 25 + 32));
        assert_eq!(occupancy.max, u64::from(MAX_RING));
        let waited = 25.0 + f64::from(MAX_RING);
        assert!((occupancy.mean() - waited / 7.0).abs() < 1e-9);
        assert_eq!((upper_bound(0), upper_bound(1), upper_bound(2)), (1, 3, 7));
    }

    #[test]
    fn the_time_since_an_image_is_told_apart() {
        let mut occupancy = Occupancy::default();
        occupancy.sample(100, 32);
        let earlier = occupancy;
        occupancy.sample(5, 5);
        let recent = occupancy.since(&earlier);
        assert_eq!((recent.pops, recent.taken, recent.waited, recent.max), (1, 5, 5, 7));
        assert_eq!(recent.since(&recent), Occupancy::default());
    }

    #[test]
    fn a_gauge_shows_what_both_ends_have_counted() {
        let gauge = RingGauge::new(64);
        let mut occupancy = Occupancy::default();
        occupancy.sample(9, 9);
        gauge.refuse(3);
        gauge.refuse(2);
        gauge.publish(&occupancy);
        assert_eq!((gauge.capacity(), gauge.refused()), (64, 5));
        assert_eq!(gauge.occupancy(), occupancy);
    }
}
