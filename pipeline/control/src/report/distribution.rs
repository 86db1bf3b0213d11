//! The distributions in a report: latencies by class, occupancy of rings.

use pmdns_counters::{Histogram, Occupancy};
use serde::{Deserialize, Serialize};

/// From arrival to TX queue, by what answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencyReport {
    /// The cache.
    pub hit: Times,
    /// The slow path.
    pub miss: Times,
    /// A rule: local data, a blocked name.
    pub local: Times,
    /// Anything else.
    pub other: Times,
}

/// How long something took, how often.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Times {
    /// Packets.
    pub count: u64,
    /// Their times together, in ticks.
    pub sum_ticks: u64,
    /// The longest time, in ticks.
    pub max_ticks: u64,
    /// The median, in microseconds; as the other quantiles at most 25 % too high, never too low.
    pub p50_us: f64,
    /// 90 % take no longer.
    pub p90_us: f64,
    /// 99 % take no longer.
    pub p99_us: f64,
    /// 99.9 % take no longer.
    pub p999_us: f64,
    /// The longest time in microseconds.
    pub max_us: f64,
    /// Upper bound in ticks and packets of each bucket that holds any.
    pub buckets: Vec<(u64, u64)>,
}

/// A ring between two threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RingReport {
    /// Who fills it: `core 2`, `slow path 0`.
    pub from: String,
    /// Who empties it.
    pub to: String,
    /// Its items: `packets`, `misses`, `answers`.
    pub carries: String,
    /// Its slots.
    pub capacity: usize,
    /// Values that found it full.
    pub refused: u64,
    /// Mean of the values that waited when some were taken.
    pub mean: f64,
    /// Its occupancy, as its consumer found it.
    #[serde(flatten)]
    pub occupancy: Occupancy,
}

impl LatencyReport {
    /// The times by class, with the class's name.
    pub fn classes(&self) -> [(&'static str, &Times); 4] {
        let Self { hit, miss, local, other } = self;
        [("hit", hit), ("miss", miss), ("local", local), ("other", other)]
    }
}

impl Times {
    /// The times that `histogram` holds.
    pub fn of(histogram: &Histogram, ticks_per_second: u64) -> Self {
        let us = |ticks: u64| {
            let exact = ticks as f64 * 1e6 / ticks_per_second.max(1) as f64;
            (exact * 1000.0).round() / 1000.0
        };
        Self {
            count: histogram.count(),
            sum_ticks: histogram.sum(),
            max_ticks: histogram.max(),
            p50_us: us(histogram.quantile(0.5)),
            p90_us: us(histogram.quantile(0.9)),
            p99_us: us(histogram.quantile(0.99)),
            p999_us: us(histogram.quantile(0.999)),
            max_us: us(histogram.max()),
            buckets: histogram.buckets().collect(),
        }
    }

    /// The histogram again.
    pub fn histogram(&self) -> Histogram {
        Histogram::from_buckets(&self.buckets, self.sum_ticks, self.max_ticks)
    }

    /// The times since `earlier`.
    pub fn since(&self, earlier: &Self, ticks_per_second: u64) -> Self {
        Self::of(&self.histogram().since(&earlier.histogram()), ticks_per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_say_what_their_histogram_holds() {
        let mut histogram = Histogram::default();
        histogram.record(2000, 99);
        histogram.record(1_000_000, 1);
        let times = Times::of(&histogram, 2_000_000_000);
        assert_eq!((times.count, times.max_us), (100, 500.0));
        assert!((1.0..=1.25).contains(&times.p50_us), "{times:?}");
        assert_eq!(times.histogram(), histogram);
        let earlier = times;
        histogram.record(10, 7);
        let recent = Times::of(&histogram, 2_000_000_000).since(&earlier, 2_000_000_000);
        assert_eq!((recent.count, recent.sum_ticks), (7, 70));
    }
}
