//! A bucket of tokens, kept as the one moment at which it will be full again.
//!
//! Each query puts that moment off by the time one token takes to come back. It may pass if the moment
//! is then no further off than a whole burst takes. That is a token bucket in exact numbers, with a
//! single field to compare and to write (the virtual scheduling algorithm of ITU-T I.371, GCRA).

use pmdns_config::narrow::low_u32;

use crate::packet::Tick;

/// A moment or a span of time: `ticks + part / queries_per_second`, with a part below one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    ticks: Tick,
    part: u32,
}

/// How many queries a bucket lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowance {
    queries_per_second: u32,
    /// The time one token takes to come back.
    token: Moment,
    /// The time a whole burst takes to come back.
    burst: Moment,
}

impl Allowance {
    /// So many queries a second, and so many at once, on a clock with that many ticks a second; `None`: there is
    /// no limit. A burst below one counts as one, for nothing would ever pass.
    pub(super) fn new(queries_per_second: u32, burst: u32, ticks_per_second: u64) -> Option<Self> {
        let rate = u128::from(queries_per_second);
        let time_for = |tokens: u32| {
            let ticks = u128::from(tokens) * u128::from(ticks_per_second);
            Some(Moment {
                ticks: Tick::try_from(ticks.checked_div(rate)?).unwrap_or(Tick::MAX),
                part: u32::try_from(ticks % rate).unwrap_or(u32::MAX),
            })
        };
        Some(Self { queries_per_second, token: time_for(1)?, burst: time_for(burst.max(1))? })
    }

    /// `moment` and `span` later; `None` beyond the end of the clock.
    #[inline]
    fn later(&self, moment: Moment, span: Moment) -> Option<Moment> {
        let parts = u64::from(moment.part) + u64::from(span.part);
        let rate = u64::from(self.queries_per_second);
        let carry = u64::from(parts >= rate);
        Some(Moment {
            ticks: moment.ticks.checked_add(span.ticks)?.checked_add(carry)?,
            part: low_u32(parts - carry * rate),
        })
    }
}

/// The tokens of one client prefix. A bucket that was never used is full.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    full_at_ticks: Tick,
    full_at_part: u32,
    /// Which client prefix it belongs to.
    pub(super) tag: u32,
}

impl Bucket {
    /// A full bucket.
    #[inline]
    pub(super) fn full(tag: u32) -> Self {
        Self { tag, ..Self::default() }
    }

    /// When the bucket is full again, to the tick: less means fuller.
    #[inline]
    pub(super) fn full_at(&self) -> Tick {
        self.full_at_ticks
    }

    /// Takes a token if there is one.
    #[inline]
    pub(super) fn take(&mut self, allowance: &Allowance, now: Tick) -> bool {
        let now = Moment { ticks: now, part: 0 };
        let end = Moment { ticks: Tick::MAX, part: u32::MAX };
        let empty = allowance.later(now, allowance.burst).unwrap_or(end);
        let full_at = Moment { ticks: self.full_at_ticks, part: self.full_at_part };
        // A bucket is more than empty only after the clock went back, say when a virtual machine was
        // moved. It starts again as empty, so that its client waits for one token and not for ever.
        let full_at = full_at.max(now).min(empty);
        let (passes, full_at) = match allowance.later(full_at, allowance.token) {
            Some(later) if later <= empty => (true, later),
            _ => (false, full_at),
        };
        (self.full_at_ticks, self.full_at_part) = (full_at.ticks, full_at.part);
        passes
    }
}

/// A limit on everything of a kind, from all senders.
#[derive(Clone, Debug)]
pub struct Budget {
    /// `None`: there is no limit.
    allowance: Option<Allowance>,
    bucket: Bucket,
}

impl Budget {
    /// So many a second, and so many at once after a pause; a rate of 0 is no limit.
    pub fn new(per_second: u32, burst: u32, ticks_per_second: u64) -> Self {
        let allowance = Allowance::new(per_second, burst, ticks_per_second);
        Self { allowance, bucket: Bucket::default() }
    }

    /// Takes a token, and says whether there was one.
    #[inline]
    pub fn take(&mut self, now: Tick) -> bool {
        self.allowance.as_ref().is_none_or(|allowance| self.bucket.take(allowance, now))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn allowance(queries_per_second: u32, burst: u32, ticks_per_second: u64) -> Allowance {
        Allowance::new(queries_per_second, burst, ticks_per_second).unwrap()
    }

    /// The textbook's bucket: tokens are counted in 1/ticks_per_second, in numbers that never overflow.
    struct Textbook {
        level: u128,
        last: Tick,
    }

    impl Textbook {
        fn take(&mut self, rate: u32, burst: u32, ticks_per_second: u64, now: Tick) -> bool {
            let token = u128::from(ticks_per_second);
            let back = u128::from(now - self.last) * u128::from(rate);
            self.level = (self.level + back).min(u128::from(burst) * token);
            self.last = now;
            let passes = self.level >= token;
            self.level -= if passes { token } else { 0 };
            passes
        }
    }

    /// Gaps between queries, from none to several bursts' time.
    fn gaps() -> impl Strategy<Value = Vec<u64>> {
        let gap = prop_oneof![4 => 0u64..3, 4 => 0u64..2000, 1 => 0u64..20_000_000_000];
        proptest::collection::vec(gap, 1..120)
    }

    /// Clocks from a test's to a fast processor's.
    fn clocks() -> impl Strategy<Value = u64> {
        prop_oneof![1u64..10, Just(1000), 1_000_000_000u64..6_000_000_000]
    }

    proptest! {
        #[test]
        fn agrees_with_the_textbook(
            rate in prop_oneof![1u32..20, any::<u32>().prop_map(|rate| rate.max(1))],
            burst in 1u32..20, clock in clocks(), start in 0u64..u64::MAX / 2, gaps in gaps(),
        ) {
            let allowance = allowance(rate, burst, clock);
            let mut bucket = Bucket::default();
            let full = u128::from(burst) * u128::from(clock);
            let mut textbook = Textbook { level: full, last: start };
            let mut now = start;
            for gap in gaps {
                now += gap;
                let expected = textbook.take(rate, burst, clock, now);
                prop_assert_eq!(bucket.take(&allowance, now), expected, "at {}", now - start);
            }
        }

        #[test]
        fn no_window_has_more_than_the_burst_and_the_rate_give(
            rate in 1u32..2000, burst in 1u32..20, clock in clocks(),
            start in any::<u64>(), gaps in gaps(),
        ) {
            let allowance = allowance(rate, burst, clock);
            let mut bucket = Bucket::default();
            let mut now = start;
            let mut passed = Vec::new();
            for gap in gaps {
                now = now.saturating_add(gap);
                if bucket.take(&allowance, now) {
                    passed.push(now);
                }
            }
            for (first, from) in passed.iter().enumerate() {
                for (last, to) in passed.iter().enumerate().skip(first) {
                    let count = (last - first + 1) as u128;
                    let most = u128::from(burst) * u128::from(clock)
                        + u128::from(rate) * u128::from(to - from);
                    prop_assert!(count * u128::from(clock) <= most);
                }
            }
        }

        #[test]
        fn an_idle_client_gets_its_whole_burst_back(
            rate in 1u32..2000, burst in 1u32..20, clock in clocks(),
            start in 0u64..u64::MAX / 2, gaps in gaps(),
        ) {
            let allowance = allowance(rate, burst, clock);
            let mut bucket = Bucket::default();
            let mut now = start;
            for gap in gaps {
                now += gap;
                bucket.take(&allowance, now);
            }
            now += (u64::from(burst) * clock).div_ceil(u64::from(rate));
            for _ in 0..burst {
                prop_assert!(bucket.take(&allowance, now));
            }
        }

        #[test]
        fn any_clock_whatever_it_does(
            rate in 1u32.., burst: u32, clock: u64, times in proptest::collection::vec(any::<u64>(), 1..50),
        ) {
            let allowance = allowance(rate, burst, clock);
            let mut bucket = Bucket::default();
            for now in times {
                bucket.take(&allowance, now);
            }
        }
    }

    #[test]
    fn after_the_clock_went_back_a_client_waits_one_token_s_time() {
        let allowance = allowance(10, 3, 1000);
        let mut bucket = Bucket::default();
        assert!(bucket.take(&allowance, 1 << 60));
        assert!(!bucket.take(&allowance, 5000));
        assert!(!bucket.take(&allowance, 5099));
        assert!(bucket.take(&allowance, 5100));
    }

    #[test]
    fn the_end_of_the_clock_stops_rather_than_wraps() {
        let allowance = allowance(10, 3, 1000);
        let mut bucket = Bucket::default();
        assert!(bucket.take(&allowance, u64::MAX - 150));
        assert!(!bucket.take(&allowance, u64::MAX - 150));
        assert!(!bucket.take(&allowance, u64::MAX));
    }
}
