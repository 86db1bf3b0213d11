//! The health of the upstreams: how fast they are, and which of them rest.
//!
//! An upstream that failed several times in a row rests. It is still asked, but after all others, and probes find out
//! when it is back. No upstream is given up for ever (unbound#227, unbound#282).
//!
//! A pure state machine; time is an argument, counted from the start of the process.

use std::time::Duration;

use pmdns_config::Health as Settings;
use pmdns_config::limits::MAX_PROBE_INTERVAL_MS;

use crate::upstreams::retry::RetryTimeout;

/// The longest pause between probes.
const LONGEST_PAUSE: Duration = Duration::from_millis(MAX_PROBE_INTERVAL_MS);
/// Round-trip times that differ by less count as equal. Then the operator's order decides.
const RTT_BAND: Duration = Duration::from_millis(20);
/// An estimate older than this is ignored, because the upstream may have become faster.
pub(crate) const ESTIMATE_LIFETIME: Duration = Duration::from_secs(10);
/// Weight of one measurement: an eighth (RFC 6298 section 2).
const SMOOTHING: u32 = 8;
/// The number of recent round-trip times kept for the 95th percentile.
const RECENT: usize = 64;
/// With fewer there is no percentile.
const FEWEST_RECENT: usize = 16;

/// The health of all upstreams.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    failures: u32,
    successes: u32,
    interval: Duration,
    /// A healthy upstream that is silent for so long is probed as well.
    silence: Option<Duration>,
    upstreams: Vec<Condition>,
}

/// The health of one upstream.
#[derive(Clone, Debug)]
struct Condition {
    retry: RetryTimeout,
    srtt: Duration,
    measured: Duration,
    /// When it was last asked only to measure it.
    tried: Option<Duration>,
    /// The last round-trip times in microseconds, the oldest at `replies` modulo their number.
    recent: [u32; RECENT],
    replies: usize,
    failures: u32,
    rest: Option<Rest>,
    /// When it was last probed because it was silent.
    silent_probe: Duration,
}

/// An upstream's rest.
#[derive(Clone, Copy, Debug)]
struct Rest {
    /// When it is probed next.
    probe: Duration,
    /// The time from that probe to the one after it.
    pause: Duration,
    /// Replies in a row.
    successes: u32,
}

impl Health {
    /// Only the first retry timeouts of the upstreams are known.
    pub(crate) fn new(
        settings: &Settings,
        retries: impl IntoIterator<Item = RetryTimeout>,
    ) -> Self {
        Self {
            failures: settings.failures,
            successes: settings.successes,
            interval: Duration::from_millis(settings.interval_ms),
            silence: (settings.silence_ms > 0).then(|| Duration::from_millis(settings.silence_ms)),
            upstreams: retries.into_iter().map(Condition::new).collect(),
        }
    }

    /// How long to wait for a reply to a query that leaves now, before its question is asked again.
    pub(crate) fn retry_timeout(&self, upstream: usize, round: u32) -> Duration {
        self.upstreams[upstream].retry.get(round)
    }

    /// A query of `sent` has waited for the retry timeout.
    pub(crate) fn retried(&mut self, upstream: usize, sent: Duration, now: Duration) {
        let condition = &mut self.upstreams[upstream];
        // A reply since the query left says that the name is slow, not the upstream.
        if condition.replies == 0 || sent > condition.measured {
            condition.retry.passed(sent, now);
        }
    }

    /// An upstream replied, with any rcode.
    pub(crate) fn replied(&mut self, upstream: usize, rtt: Duration, now: Duration) {
        let condition = &mut self.upstreams[upstream];
        condition.retry.replied(rtt);
        condition.srtt = match condition.estimate(now) {
            None => rtt,
            Some(srtt) => srtt - srtt / SMOOTHING + rtt / SMOOTHING,
        };
        let microseconds = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX);
        condition.recent[condition.replies % RECENT] = microseconds;
        condition.replies += 1;
        condition.measured = now;
        condition.failures = 0;
        if let Some(rest) = &mut condition.rest {
            rest.successes += 1;
            // It may be back, so the next probe is due at once.
            (rest.probe, rest.pause) = (now, self.interval);
            if rest.successes >= self.successes {
                condition.rest = None;
            }
        }
    }

    /// An upstream did not reply to a query of `sent`, or could not be reached.
    pub(crate) fn failed(&mut self, upstream: usize, sent: Duration, now: Duration) {
        let condition = &mut self.upstreams[upstream];
        // A reply since the query left says that the name is slow, not the upstream.
        if condition.replies > 0 && sent <= condition.measured {
            return;
        }
        condition.failures = condition.failures.saturating_add(1);
        match &mut condition.rest {
            Some(rest) => rest.successes = 0,
            None if condition.failures < self.failures => {}
            None => {
                let (probe, pause) = (now + self.interval, double(self.interval));
                condition.rest = Some(Rest { probe, pause, successes: 0 });
            }
        }
    }

    /// Smoothed round-trip time; zero: never measured.
    pub(crate) fn srtt(&self, upstream: usize) -> Duration {
        self.upstreams[upstream].srtt
    }

    /// Smoothed round-trip time, unless it is old.
    pub(crate) fn estimate(&self, upstream: usize, now: Duration) -> Option<Duration> {
        self.upstreams[upstream].estimate(now)
    }

    /// Smoothed round-trip time in steps of [`RTT_BAND`]; 0 while it is unknown.
    pub(crate) fn band(&self, upstream: usize, now: Duration) -> u128 {
        let estimate = self.estimate(upstream, now).unwrap_or_default();
        estimate.as_micros() / RTT_BAND.as_micros()
    }

    /// The 95th percentile of recent round-trip times; `None` while there are too few.
    pub(crate) fn usual_rtt(&self, upstream: usize) -> Option<Duration> {
        let condition = &self.upstreams[upstream];
        let mut recent = condition.recent;
        let recent = &mut recent[..condition.replies.min(RECENT)];
        if recent.len() < FEWEST_RECENT {
            return None;
        }
        let (_, p95, _) = recent.select_nth_unstable((recent.len() * 95).div_ceil(100) - 1);
        Some(Duration::from_micros((*p95).into()))
    }

    /// When a resting upstream is probed next; `None`: it does not rest.
    pub(crate) fn next_probe(&self, upstream: usize) -> Option<Duration> {
        self.upstreams[upstream].rest.map(|rest| rest.probe)
    }

    /// An upstream that is to be probed now.
    pub(crate) fn due_probe(&self, now: Duration) -> Option<usize> {
        let due = |condition: &Condition| match (condition.rest, self.silence) {
            (Some(rest), _) => rest.probe <= now,
            (None, None) => false,
            (None, Some(silence)) => {
                now.saturating_sub(condition.measured.max(condition.silent_probe)) >= silence
            }
        };
        self.upstreams.iter().position(due)
    }

    /// A probe leaves now. The next one is due after a pause that doubles each time. So no report is needed if this one
    /// is lost.
    pub(crate) fn note_probe(&mut self, upstream: usize, now: Duration) {
        let condition = &mut self.upstreams[upstream];
        condition.silent_probe = now;
        if let Some(rest) = &mut condition.rest {
            rest.probe = now + rest.pause;
            rest.pause = double(rest.pause);
        }
    }

    /// The way to an upstream is open again, so a probe is due at once.
    pub(crate) fn hurry(&mut self, upstream: usize, now: Duration) {
        if let Some(rest) = &mut self.upstreams[upstream].rest {
            (rest.probe, rest.pause) = (now, self.interval);
        }
    }

    /// Whether this upstream should be asked only to measure its speed. That is true for one question from time to
    /// time.
    pub(crate) fn take_try(&mut self, upstream: usize, now: Duration) -> bool {
        let condition = &mut self.upstreams[upstream];
        let was_tried = condition.tried.is_some_and(|tried| !is_old(tried, now));
        let is_due = condition.estimate(now).is_none() && !was_tried;
        if is_due {
            condition.tried = Some(now);
        }
        is_due
    }
}

impl Condition {
    fn new(retry: RetryTimeout) -> Self {
        Self {
            retry,
            srtt: Duration::ZERO,
            measured: Duration::ZERO,
            tried: None,
            recent: [0; RECENT],
            replies: 0,
            failures: 0,
            rest: None,
            silent_probe: Duration::ZERO,
        }
    }

    fn estimate(&self, now: Duration) -> Option<Duration> {
        (self.replies > 0 && !is_old(self.measured, now)).then_some(self.srtt)
    }
}

fn is_old(time: Duration, now: Duration) -> bool {
    now.saturating_sub(time) > ESTIMATE_LIFETIME
}

fn double(pause: Duration) -> Duration {
    (pause * 2).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Duration = Duration::from_secs(1000);
    const INTERVAL: Duration = Duration::from_secs(30);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn of(upstreams: usize, settings: &Settings) -> Health {
        Health::new(settings, vec![RetryTimeout::new(ms(800), ms(3000)); upstreams])
    }

    fn health() -> Health {
        of(2, &Settings::default())
    }

    /// Upstream 0 fails until it rests. No time passes.
    fn resting() -> Health {
        let mut health = health();
        for _ in 0..Settings::default().failures {
            assert_eq!(health.next_probe(0), None);
            health.failed(0, START, START);
        }
        assert_eq!(health.next_probe(0), Some(START + INTERVAL));
        health
    }

    fn take_probe(health: &mut Health, now: Duration) -> Option<usize> {
        let upstream = health.due_probe(now)?;
        health.note_probe(upstream, now);
        Some(upstream)
    }

    #[test]
    fn round_trip_times_are_smoothed_unless_the_last_one_is_long_ago() {
        let mut health = health();
        health.replied(0, ms(80), START);
        assert_eq!(health.srtt(0), ms(80));
        health.replied(0, ms(160), START);
        assert_eq!(health.srtt(0), ms(90));
        let later = START + ESTIMATE_LIFETIME * 2;
        assert_eq!((health.estimate(0, later), health.band(0, later)), (None, 0));
        health.replied(0, ms(1), later);
        assert_eq!(health.estimate(0, later), Some(ms(1)));
    }

    #[test]
    fn of_a_hundred_replies_ninety_five_take_no_longer_than_usual() {
        let mut health = health();
        for number in 0..FEWEST_RECENT as u64 {
            assert_eq!(health.usual_rtt(0), None);
            health.replied(0, ms(number), START);
        }
        assert_eq!(health.usual_rtt(0), Some(ms(15)));
        for number in 0..1000 {
            health.replied(0, if number % 20 == 0 { ms(900) } else { ms(7) }, START);
        }
        assert_eq!(health.usual_rtt(0), Some(ms(7)), "and what was long ago is forgotten");
        assert_eq!(health.usual_rtt(1), None);
    }

    #[test]
    fn one_question_in_a_while_finds_out_how_fast_an_upstream_is() {
        let mut health = health();
        assert!(health.take_try(0, START), "nothing is known of it");
        assert!(!health.take_try(0, START), "somebody finds out already");
        health.replied(0, ms(3), START + ms(3));
        let later = START + ms(3) + ESTIMATE_LIFETIME;
        assert!(!health.take_try(0, later));
        assert!(health.take_try(0, later + ms(1)));
        assert!(!health.take_try(0, later + ESTIMATE_LIFETIME));
        assert!(health.take_try(0, later + ESTIMATE_LIFETIME + ms(2)), "that one got lost");
    }

    #[test]
    fn probes_come_less_and_less_often_but_never_end() {
        let mut health = resting();
        let (mut now, mut pauses) = (START, Vec::new());
        for _ in 0..20 {
            let due = health.next_probe(0).unwrap();
            pauses.push((due - now).as_secs());
            now = due;
            assert_eq!(take_probe(&mut health, now - ms(1)), None);
            assert_eq!(take_probe(&mut health, now), Some(0));
            assert_eq!(take_probe(&mut health, now), None, "one at a time");
            health.failed(0, now, now + ms(2000));
        }
        assert_eq!(pauses[..6], [30, 60, 120, 240, 300, 300]);
        assert_eq!(pauses[6..], [300; 14]);
    }

    #[test]
    fn a_silent_upstream_is_probed_although_it_is_healthy_if_that_is_wanted() {
        let settings = Settings { silence_ms: 200, failures: 2, ..Settings::default() };
        let mut health = of(1, &settings);
        health.replied(0, ms(1), START);
        assert_eq!(take_probe(&mut health, START + ms(199)), None, "it has just replied");
        assert_eq!(take_probe(&mut health, START + ms(200)), Some(0));
        assert_eq!(take_probe(&mut health, START + ms(399)), None, "one at a time");
        assert_eq!(take_probe(&mut health, START + ms(400)), Some(0));
        health.failed(0, START + ms(200), START + ms(450));
        health.failed(0, START + ms(400), START + ms(650));
        assert_eq!(health.next_probe(0), Some(START + ms(650) + INTERVAL), "now it rests");
        let mut unwatched = of(1, &Settings::default());
        unwatched.replied(0, ms(1), START);
        assert_eq!(take_probe(&mut unwatched, START * 9), None);
    }

    #[test]
    fn replies_in_a_row_end_a_rest_and_the_second_probe_follows_at_once() {
        let mut health = resting();
        let now = START + INTERVAL;
        assert_eq!(take_probe(&mut health, now), Some(0));
        health.replied(0, ms(5), now + ms(5));
        assert_eq!(take_probe(&mut health, now + ms(5)), Some(0));
        health.failed(0, now + ms(6), now + ms(2000));
        health.replied(0, ms(5), now + ms(3000));
        assert!(health.next_probe(0).is_some(), "not in a row");
        health.replied(0, ms(5), now + ms(3001));
        assert_eq!(health.next_probe(0), None);
    }

    #[test]
    fn queries_that_fail_while_it_rests_do_not_put_off_its_probe() {
        let mut health = resting();
        for _ in 0..1000 {
            health.failed(0, START + ms(1), START + ms(800));
        }
        assert_eq!(health.next_probe(0), Some(START + INTERVAL));
    }

    #[test]
    fn slow_names_do_not_put_an_upstream_that_replies_to_rest() {
        let mut health = health();
        health.replied(0, ms(1), START + ms(1));
        for _ in 0..1000 {
            health.failed(0, START, START + ms(800));
        }
        assert_eq!(health.next_probe(0), None, "it replied after these queries were sent");
        for _ in 0..Settings::default().failures {
            health.failed(0, START + ms(2), START + ms(800));
        }
        assert!(health.next_probe(0).is_some());
    }

    proptest! {
        /// unbound#227, unbound#282: however long it was away, the first probe after its return is
        /// followed by one more, and by nothing else.
        #[test]
        fn after_an_outage_of_any_length_it_is_well_within_one_probe(
            outage_ms in 1..30 * 86_400_000u64,
            interval_ms in 100..300_000u64,
            failures in 1..10u32,
            successes in 1..10u32,
        ) {
            let settings = Settings { failures, successes, interval_ms, ..Settings::default() };
            let mut health = of(1, &settings);
            let back = START + ms(outage_ms);
            for _ in 0..failures {
                health.failed(0, START, START);
            }
            let (mut now, mut answered) = (START, 0);
            while let Some(due) = health.next_probe(0) {
                prop_assert!(due <= now.max(back) + LONGEST_PAUSE);
                now = due;
                prop_assert_eq!(take_probe(&mut health, now), Some(0));
                if now >= back {
                    answered += 1;
                    health.replied(0, ms(9), now + ms(9));
                } else {
                    health.failed(0, now, now + ms(2000));
                }
            }
            prop_assert_eq!(answered, successes);
            prop_assert!(now <= back + LONGEST_PAUSE + ms(10) * successes);
        }
    }
}
