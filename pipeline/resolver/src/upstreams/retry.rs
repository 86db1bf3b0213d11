//! How long to wait for an upstream's reply before the question is asked again (RFC 6298). The first query stays valid:
//! its reply is accepted until the client's deadline.
//!
//! A pure state machine; times are arguments.

use std::time::Duration;

use crate::timers::nanos;

/// The shortest retry timeout in nanoseconds. An upstream needs more time for a name that it does not have in its cache.
const SHORTEST: u64 = 200_000_000;
/// Granularity of the measurements in nanoseconds (RFC 6298 section 2). The slow path thread sleeps for up to half of
/// that.
const GRANULARITY: u64 = 1_000_000;

/// The retry timeout of one upstream. It is read and measured for every query, so times are nanoseconds here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryTimeout {
    /// The timeout while there is no measurement.
    initial: u64,
    longest: u64,
    /// Smoothed round-trip time and its variation, once there is a measurement.
    measured: Option<(u64, u64)>,
    /// How often it has doubled since the last reply.
    doublings: u32,
    /// When it doubled last. Queries that left before then give no new information.
    doubled: Duration,
}

impl RetryTimeout {
    /// The timeout of a new upstream is the operator's setting. No timeout is longer than half the clients' deadline. So a
    /// question whose first query is lost can still be answered in time.
    pub(crate) fn new(initial: Duration, deadline: Duration) -> Self {
        let longest = nanos(deadline / 2);
        let initial = nanos(initial).min(longest);
        Self { initial, longest, measured: None, doublings: 0, doubled: Duration::ZERO }
    }

    /// What is known, with the bounds of another setting.
    pub(crate) fn beginning_as(self, other: &Self) -> Self {
        Self { initial: other.initial, longest: other.longest, ..self }
    }

    /// Takes in the round-trip time of a reply in nanoseconds. Each query has its own port and id. So it is known which
    /// query the reply belongs to, even if the question was asked again; Karn's rule is not needed.
    pub(crate) fn replied(&mut self, rtt: u64) {
        self.measured = Some(match self.measured {
            None => (rtt, rtt / 2),
            Some((srtt, variation)) => {
                (srtt * 7 / 8 + rtt / 8, variation * 3 / 4 + srtt.abs_diff(rtt) / 4)
            }
        });
        self.doublings = 0;
    }

    /// A query sent at `sent` has waited for the whole timeout. The next queries wait twice as long (section 5.5). The
    /// timeout doubles once for all queries that left together.
    pub(crate) fn passed(&mut self, sent: Duration, now: Duration) {
        if sent >= self.doubled {
            self.doublings = self.doublings.saturating_add(1);
            self.doubled = now;
        }
    }

    /// How long to wait for a reply to a query that leaves now, before its question is asked again. It doubles with
    /// each `round`; in a round all upstreams of the question are asked.
    pub(crate) fn get(&self, round: u32) -> Duration {
        let base = match self.measured {
            None => self.initial,
            // A setting below the shortest timeout is respected.
            Some((srtt, variation)) => {
                (srtt + GRANULARITY.max(variation * 4)).max(SHORTEST.min(self.initial))
            }
        };
        let doublings = self.doublings.max(round).min(16);
        Duration::from_nanos(base.saturating_mul(1 << doublings).min(self.longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn timeout() -> RetryTimeout {
        RetryTimeout::new(ms(800), ms(6000))
    }

    #[test]
    fn what_the_operator_expects_holds_until_there_is_a_measurement() {
        assert_eq!(timeout().get(0), ms(800));
        assert_eq!(RetryTimeout::new(ms(800), ms(500)).get(0), ms(250), "a second query has time");
    }

    #[test]
    fn it_follows_the_round_trip_time_within_bounds() {
        let mut fast = timeout();
        (0..50).for_each(|_| fast.replied(nanos(ms(2))));
        assert_eq!(fast.get(0), ms(200));
        let mut hasty = RetryTimeout::new(ms(30), ms(6000));
        (0..50).for_each(|_| hasty.replied(nanos(ms(2))));
        assert_eq!(hasty.get(0), ms(30), "the operator wants it shorter");
        let mut slow = timeout();
        slow.replied(nanos(ms(850)));
        assert_eq!(slow.get(0), ms(850 + 4 * 425));
        (0..50).for_each(|_| slow.replied(nanos(ms(850))));
        assert!(slow.get(0) >= ms(849) && slow.get(0) < ms(900), "{:?}", slow.get(0));
        (0..50).for_each(|_| slow.replied(nanos(ms(9000))));
        assert_eq!(slow.get(0), ms(3000), "never beyond half the deadline");
    }

    #[test]
    fn it_doubles_once_for_all_queries_that_left_together_until_there_is_a_reply() {
        let mut timeout = timeout();
        let sent = ms(10_000);
        for _ in 0..32 {
            timeout.passed(sent, sent + ms(800));
        }
        assert_eq!(timeout.get(0), ms(1600));
        timeout.passed(sent + ms(800), sent + ms(2400));
        assert_eq!(timeout.get(0), ms(3000), "four times as long, but for the deadline");
        (0..100).for_each(|_| timeout.passed(ms(90_000), ms(90_000)));
        assert_eq!(timeout.get(0), ms(3000));
        timeout.replied(nanos(ms(100)));
        assert_eq!(timeout.get(0), ms(100 + 200));
    }

    #[test]
    fn a_question_waits_for_longer_each_round() {
        let mut timeout = timeout();
        (0..50).for_each(|_| timeout.replied(nanos(ms(2))));
        assert_eq!(
            [0, 1, 2, 3, 40].map(|round| timeout.get(round).as_millis()),
            [200, 400, 800, 1600, 3000]
        );
    }
}
