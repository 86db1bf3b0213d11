//! The parts of a report: distributions, Little's law, counters.

use pmdns_nics::PortStats;
use serde::Serialize;

/// How far the two sides of Little's law may be apart, as a share, and in queries.
const LITTLE_TOLERANCE: (f64, f64) = (0.05, 0.05);
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// A distribution, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
}

/// The figures of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct KindFigures {
    /// Which.
    pub kind: &'static str,
    /// Queries that left.
    pub sent: u64,
    /// Right answers.
    pub good: u64,
    /// Queries without an answer.
    pub lost: u64,
    /// Latency of right answers.
    pub latency_us: Latency,
}

/// Little's law: both should be the same.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct UnderWay {
    /// Counted turn by turn.
    pub counted: f64,
    /// Rate times time under way, from the latencies.
    pub computed: f64,
}

/// One stretch, per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SliceRates {
    /// Seconds since the start of the offer.
    pub at: f64,
    /// Queries sent.
    pub sent: f64,
    /// Queries refused by the port.
    pub refused: f64,
    /// Right answers.
    pub good: f64,
}

/// What a port counted during a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct PortCounters {
    /// Frames received.
    pub rx_frames: u64,
    /// Frames that found no room in the RX queue.
    pub rx_missed: u64,
    /// Frames for which the pool had no buffer.
    pub rx_no_buffer: u64,
    /// Damaged frames.
    pub rx_errors: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Frames not sent.
    pub tx_errors: u64,
}

/// What upstreams did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UpstreamCounts {
    /// Queries that came.
    pub queries: u64,
    /// Answers that left.
    pub answers: u64,
    /// Queries left without an answer on purpose.
    pub left_out: u64,
    /// Queries left without an answer because too many answers were held.
    pub overflowed: u64,
    /// Answers that the port did not take.
    pub refused: u64,
    /// Queries with a wrong checksum: the server sent them so, or the link damaged them.
    pub damaged: u64,
    /// Datagrams to an upstream that are no proper queries.
    pub strange: u64,
}

impl UpstreamCounts {
    /// What was counted after `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            queries: self.queries - before.queries,
            answers: self.answers - before.answers,
            left_out: self.left_out - before.left_out,
            overflowed: self.overflowed - before.overflowed,
            refused: self.refused - before.refused,
            damaged: self.damaged - before.damaged,
            strange: self.strange - before.strange,
        }
    }
}

impl PortCounters {
    /// What was counted between two readings.
    pub fn between(before: PortStats, after: PortStats) -> Self {
        Self {
            rx_frames: after.rx_frames.saturating_sub(before.rx_frames),
            rx_missed: after.rx_missed.saturating_sub(before.rx_missed),
            rx_no_buffer: after.rx_no_buffer.saturating_sub(before.rx_no_buffer),
            rx_errors: after.rx_errors.saturating_sub(before.rx_errors),
            tx_frames: after.tx_frames.saturating_sub(before.tx_frames),
            tx_errors: after.tx_errors.saturating_sub(before.tx_errors),
        }
    }
}

impl Latency {
    pub(super) fn of(histogram: &hdrhistogram::Histogram<u64>, us: f64) -> Self {
        let [p50, p90, p99, p999] =
            QUANTILES.map(|quantile| histogram.value_at_quantile(quantile) as f64 * us);
        let (max, mean) = (histogram.max() as f64 * us, histogram.mean() * us);
        Self { p50, p90, p99, p999, max, mean }
    }

    /// Percentiles that fall where they must rise.
    pub(super) fn disorder(&self) -> Option<String> {
        let rising = [self.p50, self.p90, self.p99, self.p999, self.max];
        (!rising.is_sorted()).then(|| format!("the percentiles do not rise: {rising:?}"))
    }
}

impl UnderWay {
    /// Little's law broken.
    pub(super) fn difference(&self) -> Option<String> {
        let (share, queries) = LITTLE_TOLERANCE;
        let allowed = self.counted.max(self.computed) * share + queries;
        let apart = (self.counted - self.computed).abs();
        (apart.is_nan() || apart > allowed).then(|| {
            format!(
                "Little's law: {:.2} queries under way were counted, rate times time is {:.2}",
                self.counted, self.computed
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_must_rise() {
        let good = Latency { p50: 1.0, p90: 2.0, p99: 2.0, p999: 3.0, max: 9.0, mean: 1.5 };
        assert_eq!(good.disorder(), None);
        assert!(Latency { p90: 4.0, ..good }.disorder().is_some());
        assert!(Latency { max: 2.5, ..good }.disorder().is_some());
    }

    #[test]
    fn littles_law_has_a_tolerance_and_no_more() {
        let law = |counted, computed| UnderWay { counted, computed }.difference();
        assert_eq!(law(100.0, 104.0), None);
        assert_eq!(law(0.01, 0.03), None);
        assert!(law(100.0, 6766.0).is_some());
        assert!(law(f64::NAN, 1.0).is_some());
    }
}
