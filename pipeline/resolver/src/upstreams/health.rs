//! The health of the upstreams: how fast they are, and which of them rest.
//!
//! An upstream that failed several times in a row rests. It is still asked, but after all others, and probes find out
//! when it is back. No upstream is given up for ever (unbound#227, unbound#282).
//!
//! Clients choose the questions that fail, so they can make an upstream rest. They cannot make it dead: that says only a
//! probe of our own, which leaves as soon as the rest begins. One that says SERVFAIL to everything is probed too, and is dead
//! if it says so to the probe. A resolver that has lost its network answers so.
//!
//! A pure state machine; time is an argument, counted from the start of the process.

use std::time::Duration;

use pmdns_config::HealthSettings as Settings;
use pmdns_config::limits::MAX_PROBE_INTERVAL_MS;

use crate::timers::nanos;
use crate::upstreams::retry::RetryTimeout;

/// The longest pause between probes.
const LONGEST_PAUSE: Duration = Duration::from_millis(MAX_PROBE_INTERVAL_MS);
/// Round-trip times that differ by less count as equal. Then the operator's order decides.
const RTT_BAND: Duration = Duration::from_millis(20);
/// An estimate older than this is ignored, because the upstream may have become faster.
pub(crate) const ESTIMATE_LIFETIME: Duration = Duration::from_secs(10);
/// Weight of one measurement: an eighth (RFC 6298 section 2).
const SMOOTHING: u64 = 8;
/// The number of recent round-trip times kept for the 95th percentile.
const RECENT: usize = 64;
/// With fewer there is no percentile.
const FEWEST_RECENT: usize = 16;
/// So many SERVFAIL in a row make a probe leave. Clients may have asked for broken names.
const SERVFAILS: u32 = 10;

/// The health of all upstreams.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    failures: u32,
    successes: u32,
    interval: Duration,
    /// How long a probe waits for its reply.
    patience: Duration,
    /// A healthy upstream that is silent for so long is probed as well.
    silence: Option<Duration>,
    upstreams: Vec<Condition>,
}

/// The health of one upstream.
#[derive(Clone, Debug)]
struct Condition {
    retry: RetryTimeout,
    /// Smoothed round-trip time in nanoseconds.
    srtt: u64,
    measured: Duration,
    /// When it was last asked only to measure it.
    tried: Option<Duration>,
    /// The last round-trip times in microseconds, the oldest at `replies` modulo their number.
    recent: [u32; RECENT],
    replies: usize,
    failures: u32,
    /// Replies in a row with SERVFAIL.
    servfails: u32,
    rest: Option<Rest>,
    /// When it was last probed because it was silent, or failed all questions.
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
    /// When it was last probed in this rest.
    probed: Option<Duration>,
    /// A probe had no reply, SERVFAIL, or an error of the network.
    is_dead: bool,
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
            patience: Duration::from_millis(settings.timeout_ms),
            silence: (settings.silence_ms > 0).then(|| Duration::from_millis(settings.silence_ms)),
            upstreams: retries.into_iter().map(Condition::new).collect(),
        }
    }

    /// Takes other settings over. `upstreams` has the first retry timeout of each slot, and whether its upstream is the same
    /// as before. What is known of that stays.
    pub(crate) fn apply(
        &mut self,
        settings: &Settings,
        upstreams: impl IntoIterator<Item = (RetryTimeout, bool)>,
    ) {
        let mut known = std::mem::take(&mut self.upstreams).into_iter();
        let conditions = upstreams.into_iter().map(|(retry, is_same)| match known.next() {
            Some(known) if is_same => {
                Condition { retry: known.retry.beginning_as(&retry), ..known }
            }
            _ => Condition::new(retry),
        });
        *self = Self { upstreams: conditions.collect(), ..Self::new(settings, []) };
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

    /// An upstream replied, with any rcode but SERVFAIL.
    pub(crate) fn replied(&mut self, upstream: usize, rtt: Duration, now: Duration) {
        self.upstreams[upstream].servfails = 0;
        self.count_reply(upstream, rtt, now);
    }

    fn count_reply(&mut self, upstream: usize, rtt: Duration, now: Duration) {
        let condition = &mut self.upstreams[upstream];
        condition.measure(nanos(rtt), now);
        if let Some(rest) = &mut condition.rest {
            rest.successes += 1;
            rest.is_dead = false;
            // It may be back, so the next probe is due at once.
            (rest.probe, rest.pause) = (now, self.interval);
            if rest.successes >= self.successes {
                condition.rest = None;
            }
        }
    }

    /// An upstream replied SERVFAIL, to a probe or to a client's question. It is there, but of no use if it says so to everything.
    pub(crate) fn servfailed(
        &mut self,
        upstream: usize,
        rtt: Duration,
        is_probe: bool,
        now: Duration,
    ) {
        let (interval, condition) = (self.interval, &mut self.upstreams[upstream]);
        condition.servfails = condition.servfails.saturating_add(1);
        if condition.servfails < SERVFAILS {
            return self.count_reply(upstream, rtt, now);
        }
        condition.measure(nanos(rtt), now);
        match &mut condition.rest {
            _ if !is_probe => {}
            Some(rest) => (rest.successes, rest.is_dead) = (0, true),
            None => {
                let (probe, pause) = (now + interval, double(interval));
                let (successes, probed, is_dead) = (0, Some(now), true);
                condition.rest = Some(Rest { probe, pause, successes, probed, is_dead });
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
        condition.servfails = 0;
        condition.settle_probe(self.patience, now);
        match &mut condition.rest {
            Some(rest) => rest.successes = 0,
            None if condition.failures < self.failures => {}
            None => {
                let (probe, pause) = (now, self.interval);
                let (successes, probed, is_dead) = (0, None, false);
                condition.rest = Some(Rest { probe, pause, successes, probed, is_dead });
            }
        }
    }

    /// The network says that a query of `sent` has not reached an upstream. No client can have it say so.
    pub(crate) fn unreachable(&mut self, upstream: usize, sent: Duration, now: Duration) {
        self.failed(upstream, sent, now);
        if let Some(rest) = &mut self.upstreams[upstream].rest {
            rest.is_dead |= rest.probed.is_some_and(|probed| sent >= probed);
        }
    }

    /// Whether an upstream is dead: it rests, and a probe in this rest had no reply.
    pub(crate) fn is_dead(&self, upstream: usize) -> bool {
        self.upstreams[upstream].rest.is_some_and(|rest| rest.is_dead)
    }

    /// Smoothed round-trip time; zero: never measured.
    pub(crate) fn srtt(&self, upstream: usize) -> Duration {
        Duration::from_nanos(self.upstreams[upstream].srtt)
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

    /// An upstream that is to be probed now, of those in use.
    pub(crate) fn due_probe(
        &self,
        now: Duration,
        is_asked: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let due = |condition: &Condition| match (condition.rest, self.silence) {
            (Some(rest), _) => rest.probe <= now,
            (None, _) if condition.servfails >= SERVFAILS => {
                now.saturating_sub(condition.silent_probe) >= self.patience
            }
            (None, None) => false,
            (None, Some(silence)) => {
                now.saturating_sub(condition.measured.max(condition.silent_probe)) >= silence
            }
        };
        let due = |(upstream, condition)| due(condition) && is_asked(upstream);
        self.upstreams.iter().enumerate().position(due)
    }

    /// A probe leaves now. The next one is due after a pause that doubles each time. So no report is needed if this one
    /// is lost.
    pub(crate) fn note_probe(&mut self, upstream: usize, now: Duration) {
        let condition = &mut self.upstreams[upstream];
        condition.silent_probe = now;
        condition.settle_probe(self.patience, now);
        if let Some(rest) = &mut condition.rest {
            rest.probed = Some(now);
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
            srtt: 0,
            measured: Duration::ZERO,
            tried: None,
            recent: [0; RECENT],
            replies: 0,
            failures: 0,
            servfails: 0,
            rest: None,
            silent_probe: Duration::ZERO,
        }
    }

    /// A reply came after so many nanoseconds.
    fn measure(&mut self, rtt: u64, now: Duration) {
        self.retry.replied(rtt);
        self.srtt = match self.is_measured(now) {
            false => rtt,
            true => self.srtt - self.srtt / SMOOTHING + rtt / SMOOTHING,
        };
        let microseconds = u32::try_from(rtt / 1000).unwrap_or(u32::MAX);
        self.recent[self.replies % RECENT] = microseconds;
        self.replies += 1;
        self.measured = now;
        self.failures = 0;
    }

    /// The probe of its rest counts as failed when its time has passed without a reply since.
    fn settle_probe(&mut self, patience: Duration, now: Duration) {
        let (replies, measured) = (self.replies, self.measured);
        if let Some(rest) = &mut self.rest
            && let Some(probed) = rest.probed
        {
            let is_silent = replies == 0 || measured < probed;
            rest.is_dead |= is_silent && now.saturating_sub(probed) >= patience;
        }
    }

    fn estimate(&self, now: Duration) -> Option<Duration> {
        self.is_measured(now).then(|| Duration::from_nanos(self.srtt))
    }

    fn is_measured(&self, now: Duration) -> bool {
        self.replies > 0 && !is_old(self.measured, now)
    }
}

fn is_old(time: Duration, now: Duration) -> bool {
    now.saturating_sub(time) > ESTIMATE_LIFETIME
}

fn double(pause: Duration) -> Duration {
    (pause * 2).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests;
