//! How the upstreams have been doing, and so in which order to ask them.
//!
//! All of it is learnt from ordinary traffic; no probes are sent. An upstream that failed several times
//! in a row rests: it is asked after all others, but it *is* asked, and now and then one query goes to it
//! first to find out whether it is back. Nothing is ever dead for ever (unbound#227, unbound#282).
//!
//! A pure state machine; time is an argument, counted from the start of the process.

use std::collections::VecDeque;
use std::time::Duration;

/// Failures in a row before an upstream rests. One alone says more about the name than about the
/// upstream: it may be looking for the answer still.
const FAILURES_BEFORE_REST: u32 = 3;
/// The first rest; each further one is twice as long.
const FIRST_REST: Duration = Duration::from_secs(1);
/// The longest rest.
const LONGEST_REST: Duration = Duration::from_secs(30);
/// Round-trip times that differ by less are taken for equal, and the operator's order decides.
const RTT_BAND: Duration = Duration::from_millis(20);
/// An estimate older than this is not held against an upstream any more: it may have become faster.
const ESTIMATE_LIFETIME: Duration = Duration::from_secs(10);
/// Weight of one measurement: an eighth (RFC 6298 section 2).
const SMOOTHING: u32 = 8;

/// What is known of every upstream.
#[derive(Debug)]
pub(super) struct Health {
    upstreams: Vec<Condition>,
}

/// What is known of one upstream.
#[derive(Clone, Debug, Default)]
struct Condition {
    srtt: Duration,
    measured: Duration,
    failures: u32,
    rest: Option<Rest>,
    timeout: Duration,
}

/// An upstream's rest.
#[derive(Clone, Copy, Debug)]
struct Rest {
    began: Duration,
    until: Duration,
    length: Duration,
}

impl Health {
    /// Upstreams of which nothing is known but how long a try takes at most.
    pub(super) fn new(timeouts: impl IntoIterator<Item = Duration>) -> Self {
        let fresh = |timeout| Condition { timeout, ..Condition::default() };
        Self { upstreams: timeouts.into_iter().map(fresh).collect() }
    }

    /// All upstreams, in the order in which to ask them now.
    pub(super) fn order(&mut self, now: Duration) -> VecDeque<usize> {
        let probe = self.take_probe(now);
        let mut order: Vec<usize> = (0..self.upstreams.len()).collect();
        order.sort_by_key(|index| {
            let condition = &self.upstreams[*index];
            let until = condition.rest.map_or(Duration::ZERO, |rest| rest.until);
            (probe != Some(*index), until, condition.band(now))
        });
        order.into()
    }

    /// An upstream replied, whatever it said.
    pub(super) fn replied(&mut self, upstream: usize, rtt: Duration, now: Duration) {
        let condition = &mut self.upstreams[upstream];
        condition.srtt = match condition.srtt {
            Duration::ZERO => rtt,
            srtt => srtt - srtt / SMOOTHING + rtt / SMOOTHING,
        };
        condition.measured = now;
        condition.failures = 0;
        condition.rest = None;
    }

    /// An upstream did not reply to a query of `sent`, or could not be reached.
    pub(super) fn failed(&mut self, upstream: usize, sent: Duration, now: Duration) {
        let condition = &mut self.upstreams[upstream];
        // A reply since the query left says that the name is slow, not the upstream.
        if condition.srtt != Duration::ZERO && sent <= condition.measured {
            return;
        }
        condition.failures = condition.failures.saturating_add(1);
        let length = match condition.rest {
            // Queries sent until it rested fail in its first moments; they say nothing new.
            Some(rest) if sent <= rest.began => return,
            Some(rest) => (rest.length * 2).min(LONGEST_REST),
            None if condition.failures < FAILURES_BEFORE_REST => return,
            None => FIRST_REST,
        };
        condition.rest = Some(Rest { began: now, until: now + length, length });
    }

    /// Smoothed round-trip time; zero: never measured.
    pub(super) fn srtt(&self, upstream: usize) -> Duration {
        self.upstreams[upstream].srtt
    }

    /// Whether an upstream rests.
    pub(super) fn is_resting(&self, upstream: usize) -> bool {
        self.upstreams[upstream].rest.is_some()
    }

    /// One upstream whose rest is over. Until the query that is now sent to it has shown whether it is
    /// back, it goes on resting for all others: they shall not all wait for a dead upstream.
    fn take_probe(&mut self, now: Duration) -> Option<usize> {
        let due = |condition: &Condition| condition.rest.is_some_and(|rest| rest.until <= now);
        let index = self.upstreams.iter().position(due)?;
        let condition = &mut self.upstreams[index];
        if let Some(rest) = &mut condition.rest {
            rest.until = now + condition.timeout;
        }
        Some(index)
    }
}

impl Condition {
    /// Smoothed round-trip time in steps of [`RTT_BAND`]; 0 while it is unknown.
    fn band(&self, now: Duration) -> u128 {
        if now.saturating_sub(self.measured) > ESTIMATE_LIFETIME {
            return 0;
        }
        self.srtt.as_micros() / RTT_BAND.as_micros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1000);
    const TIMEOUT: Duration = Duration::from_millis(800);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Fails upstream 0 until it rests, in no time.
    fn resting() -> Health {
        let mut health = Health::new([TIMEOUT; 3]);
        for _ in 0..FAILURES_BEFORE_REST {
            assert!(!health.is_resting(0));
            health.failed(0, START, START);
        }
        assert!(health.is_resting(0));
        health
    }

    #[test]
    fn the_operators_order_holds_unless_one_is_clearly_faster() {
        let mut health = Health::new([TIMEOUT; 3]);
        assert_eq!(health.order(START), [0, 1, 2]);
        health.replied(0, ms(19), START);
        health.replied(1, ms(2), START);
        health.replied(2, ms(1), START);
        assert_eq!(health.order(START), [0, 1, 2]);
        health.replied(0, ms(200), START);
        assert_eq!(health.order(START), [1, 2, 0]);
        assert_eq!(health.order(START + ESTIMATE_LIFETIME * 2), [0, 1, 2], "estimates grow old");
    }

    #[test]
    fn round_trip_times_are_smoothed() {
        let mut health = Health::new([TIMEOUT]);
        health.replied(0, ms(80), START);
        assert_eq!(health.srtt(0), ms(80));
        health.replied(0, ms(160), START);
        assert_eq!(health.srtt(0), ms(90));
    }

    #[test]
    fn an_upstream_that_failed_rests_but_stays_in_the_order() {
        let mut health = resting();
        assert_eq!(health.order(START), [1, 2, 0]);
        health.replied(0, ms(1), START);
        assert_eq!(health.order(START), [0, 1, 2], "one reply and it is well");
    }

    #[test]
    fn after_a_rest_one_query_finds_out() {
        let mut health = resting();
        let due = START + FIRST_REST;
        assert_eq!(health.order(due - ms(1)), [1, 2, 0]);
        assert_eq!(health.order(due), [0, 1, 2], "the probe");
        assert_eq!(health.order(due), [1, 2, 0], "the others do not wait for it");
        assert_eq!(health.order(due + TIMEOUT), [0, 1, 2], "a probe that got lost is repeated");
    }

    #[test]
    fn rests_grow_but_never_beyond_a_bound() {
        let mut health = resting();
        let mut now = START;
        for _ in 0..100 {
            now = health.upstreams[0].rest.unwrap().until;
            assert_eq!(health.order(now), [0, 1, 2]);
            health.failed(0, now, now + TIMEOUT);
            now += TIMEOUT;
            let rest = health.upstreams[0].rest.unwrap();
            assert!(rest.until - now <= LONGEST_REST);
        }
        assert_eq!(health.upstreams[0].rest.unwrap().length, LONGEST_REST);
        assert_eq!(health.order(now + LONGEST_REST)[0], 0, "and it is tried again");
    }

    #[test]
    fn a_burst_of_timeouts_is_one_failure() {
        let mut health = resting();
        for _ in 0..1000 {
            health.failed(0, START - ms(1), START + ms(1));
            health.failed(0, START, START);
        }
        assert_eq!(health.upstreams[0].rest.unwrap().length, FIRST_REST);
    }

    #[test]
    fn slow_names_do_not_put_an_upstream_that_replies_to_rest() {
        let mut health = Health::new([TIMEOUT]);
        health.replied(0, ms(1), START + ms(1));
        for _ in 0..1000 {
            health.failed(0, START, START + TIMEOUT);
        }
        assert!(!health.is_resting(0), "it replied after these queries were sent");
        for _ in 0..FAILURES_BEFORE_REST {
            health.failed(0, START + ms(2), START + TIMEOUT);
        }
        assert!(health.is_resting(0));
    }
}
