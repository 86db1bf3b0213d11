//! Limits on zones: how many misses a second go to the slow path for names of a zone. Cached answers are not limited.
//!
//! All data cores share the limits. A core that finds a zone's limit used up writes nothing but a counter of that limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pmdns_config::LimitAnswer;

use crate::answer::Answer;
use crate::packet::{Packet, Tick};
use crate::step::{Reason, Step};
use crate::wire::dns::Rcode;
use crate::wire::edns::ExtendedError;
use crate::wire::name::{equal, suffixes};

/// The most misses at once: those of a second, divided by this.
const BURST: u64 = 10;
/// How often a core tries again when other cores take misses at the same time. Then it has none.
const TRIES: usize = 4;

/// The limit of a zone: a virtual clock that each miss moves on (GCRA).
#[derive(Debug)]
pub struct ZoneLimit {
    /// The zone in wire format.
    zone: Box<[u8]>,
    /// Ticks that a miss takes; `None`: none may pass.
    interval: Option<Tick>,
    /// How far the clock may be ahead.
    ahead: Tick,
    /// Until when misses have taken their time.
    taken: AtomicU64,
    passed: AtomicU64,
    refused: AtomicU64,
}

impl ZoneLimit {
    /// So many misses a second for a zone.
    pub fn new(zone: &[u8], rate: u32, ticks_per_second: u64) -> Self {
        let interval = ticks_per_second.checked_div(rate.into()).map(|ticks| ticks.max(1));
        let ahead = ticks_per_second / BURST;
        let (taken, passed, refused) = Default::default();
        Self { zone: zone.into(), interval, ahead, taken, passed, refused }
    }

    /// Misses that went to the slow path, and misses that did not.
    pub fn counts(&self) -> (u64, u64) {
        (self.passed.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    fn admits(&self, now: Tick) -> bool {
        let Some(interval) = self.interval else { return false };
        let mut taken = self.taken.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            if taken > now + self.ahead {
                return false;
            }
            let next = taken.max(now) + interval;
            let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
            match self.taken.compare_exchange_weak(taken, next, set, read) {
                Ok(_) => return true,
                Err(other) => taken = other,
            }
        }
        false
    }
}

/// The limits of all zones that have one.
#[derive(Clone, Debug, Default)]
pub struct ZoneLimits {
    limits: Vec<Arc<ZoneLimit>>,
    answer: LimitAnswer,
    /// Labels of the longest zone, the root among them.
    labels: usize,
}

impl ZoneLimits {
    /// These limits. Clients over one get `answer`.
    pub fn new(limits: Vec<Arc<ZoneLimit>>, answer: LimitAnswer) -> Self {
        let labels = limits.iter().map(|limit| suffixes(&limit.zone).count()).max().unwrap_or(0);
        Self { limits, answer, labels }
    }

    /// Whether no zone has one.
    #[inline(always)]
    pub(crate) fn are_none(&self) -> bool {
        self.limits.is_empty()
    }

    /// Where a miss goes: to the slow path, or nowhere near.
    #[cold]
    pub(crate) fn judge(&self, packet: &mut Packet, now: Tick) -> Step {
        let Some(limit) = self.limit_of(packet.query().name()) else { return Step::SLOW_PATH };
        if packet.is_probe() || limit.admits(now) {
            limit.passed.fetch_add(1, Ordering::Relaxed);
            return Step::SLOW_PATH;
        }
        limit.refused.fetch_add(1, Ordering::Relaxed);
        let rcode = match self.answer {
            LimitAnswer::Servfail => Rcode::SERVFAIL,
            LimitAnswer::Refused => Rcode::REFUSED,
            LimitAnswer::Drop => return Step::drop(Reason::ZoneLimited),
        };
        packet.answer = Answer::Rcode(rcode);
        packet.extended_error = Some(ExtendedError::PROHIBITED);
        Step::ANSWER
    }

    /// The limit of the longest zone that a name is in.
    fn limit_of(&self, name: &[u8]) -> Option<&ZoneLimit> {
        let labels = suffixes(name).count();
        let mut above = suffixes(name).skip(labels.saturating_sub(self.labels));
        above
            .find_map(|zone| self.limits.iter().find(|limit| equal(&limit.zone, zone)))
            .map(|limit| &**limit)
    }
}

#[cfg(test)]
mod tests {
    use pmdns_config::narrow::to_u8;

    use super::*;
    use crate::testing::{name_of, query};
    use crate::wire::ip::ETHERNET_LEN;

    const ZONE: &[u8] = b"\x06victim\x04test\0";
    const TICKS: u64 = 1000;

    fn limits(rates: &[(&[u8], u32)], answer: LimitAnswer) -> ZoneLimits {
        let limit = |(zone, rate): &(&[u8], u32)| Arc::new(ZoneLimit::new(zone, *rate, TICKS));
        ZoneLimits::new(rates.iter().map(limit).collect(), answer)
    }

    /// A query as parse would hand it on.
    fn miss(text: &str) -> Packet {
        let mut packet = query(text).packet();
        let name = text.split(' ').next().unwrap();
        packet.layout.l3 = ETHERNET_LEN as u8;
        packet.layout.l4 = ETHERNET_LEN as u8 + 20;
        packet.layout.name_len = to_u8(name_of(name).len());
        packet
    }

    /// How many of so many misses for a name pass at this time.
    fn passed(limits: &ZoneLimits, name: &str, now: Tick, misses: usize) -> usize {
        let judge = |_: &usize| limits.judge(&mut miss(name), now) == Step::SLOW_PATH;
        (0..misses).filter(judge).count()
    }

    #[test]
    fn a_zone_has_its_rate_whatever_the_case_and_others_have_none() {
        let limits = limits(&[(ZONE, 100)], LimitAnswer::Servfail);
        assert_eq!(passed(&limits, "x1.VICTIM.test. A", 0, 50), 11, "a tenth of a second's");
        let later: usize =
            (1..=1000).map(|now| passed(&limits, "x2.a.victim.test. A", now, 3)).sum();
        assert_eq!(later, 100);
        assert_eq!(passed(&limits, "victim.test. A", 1000, 5), 0, "the zone itself too");
        for other in ["xvictim.test. A", "test. A", "victim.test.example. A"] {
            assert_eq!(passed(&limits, other, 1000, 50), 50, "{other}");
        }
        assert_eq!(limits.limits[0].counts(), (111, 39 + 3000 - 100 + 5));
    }

    #[test]
    fn the_longest_zone_counts_and_the_answer_is_as_configured() {
        let below = b"\x02ok\x06victim\x04test\0";
        let both: &[(&[u8], u32)] = &[(ZONE, 0), (below, 1_000_000)];
        let steps = [
            (LimitAnswer::Servfail, Step::ANSWER, Answer::Rcode(Rcode::SERVFAIL)),
            (LimitAnswer::Refused, Step::ANSWER, Answer::Rcode(Rcode::REFUSED)),
            (LimitAnswer::Drop, Step::drop(Reason::ZoneLimited), Answer::None),
        ];
        for (answer, step, given) in steps {
            let limits = limits(both, answer);
            let mut packet = miss("x.victim.test. A");
            assert_eq!((limits.judge(&mut packet, 5), packet.answer), (step, given));
            assert_eq!(passed(&limits, "x.ok.victim.test. A", 5, 50), 50);
        }
    }
}
