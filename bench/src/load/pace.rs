//! The open loop: when each query is due, whatever became of those before it.

/// Parts of a tick that the time between two queries is counted in, as a power of two.
const FRACTION_BITS: u32 = 16;
/// The highest rate that can be asked for, in queries per second.
pub const MAX_RATE: u64 = 100_000_000;

/// A schedule of evenly spaced queries. It is told the time and never waits.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Where the next query stands, in parts of a tick since `start`.
    next: u64,
    interval: u64,
    start: u64,
    planned: u64,
    issued: u64,
}

impl Pacer {
    /// A schedule of `rate` queries per second, from tick `start` on, `ticks` long.
    pub fn new(rate: u64, ticks_per_second: u64, start: u64, ticks: u64) -> Self {
        let rate = rate.clamp(1, MAX_RATE);
        let interval = (u128::from(ticks_per_second) << FRACTION_BITS) / u128::from(rate);
        let interval = u64::try_from(interval).unwrap_or(u64::MAX).max(1);
        let planned = (u128::from(ticks) << FRACTION_BITS) / u128::from(interval);
        let planned = u64::try_from(planned).unwrap_or(u64::MAX);
        Self { next: 0, interval, start, planned, issued: 0 }
    }

    /// Queries of the whole schedule.
    pub fn planned(&self) -> u64 {
        self.planned
    }

    /// Queries that should have been sent by `now` and were not yet taken.
    #[inline]
    pub fn due(&self, now: u64) -> u64 {
        let elapsed = now.saturating_sub(self.start) << FRACTION_BITS;
        if elapsed < self.next {
            return 0;
        }
        ((elapsed - self.next) / self.interval + 1).min(self.planned - self.issued)
    }

    /// Takes the next query, and says when it was intended to be sent.
    #[inline]
    pub fn take(&mut self) -> u64 {
        let intended = self.start + (self.next >> FRACTION_BITS);
        self.next += self.interval;
        self.issued += 1;
        intended
    }

    /// Leaves out the next `count` queries.
    pub fn skip(&mut self, count: u64) {
        self.next += self.interval * count;
        self.issued += count;
    }

    /// Whether every query was taken or left out.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.issued >= self.planned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_due_at_even_distances() {
        let mut pacer = Pacer::new(4, 1000, 5000, 2000);
        assert_eq!(pacer.planned(), 8);
        assert_eq!(pacer.due(4999), 1, "the first one is due at once");
        assert_eq!([pacer.take(), pacer.take(), pacer.take()], [5000, 5250, 5500]);
        assert_eq!(pacer.due(5749), 0);
        assert_eq!(pacer.due(5750), 1);
        assert_eq!(pacer.due(6000), 2);
    }

    #[test]
    fn what_was_not_sent_stays_due_with_its_own_time() {
        let mut pacer = Pacer::new(1000, 1_000_000, 0, 1_000_000);
        assert_eq!(pacer.due(100_000), 101);
        assert_eq!(pacer.take(), 0, "intended long ago: the latency counts from then");
        pacer.skip(99);
        assert_eq!((pacer.due(100_000), pacer.take()), (1, 100_000));
    }

    #[test]
    fn the_schedule_ends() {
        let mut pacer = Pacer::new(3, 900, 0, 900);
        assert_eq!(pacer.due(1_000_000), 3);
        pacer.skip(2);
        assert!(!pacer.has_ended());
        pacer.take();
        assert!(pacer.has_ended());
        assert_eq!(pacer.due(1_000_000), 0);
    }

    #[test]
    fn rates_that_do_not_divide_the_clock_keep_time() {
        let (rate, ticks, hour) = (7_000_003, 2_499_998_877, 3600);
        let mut pacer = Pacer::new(rate, ticks, 0, ticks * hour);
        let planned = pacer.planned();
        assert!(planned.abs_diff(rate * hour) <= rate * hour / 100_000, "{planned}");
        pacer.skip(planned - 1);
        let last = pacer.take();
        assert!(last < ticks * hour && last > ticks * hour - ticks / 1000, "{last}");
    }
}
