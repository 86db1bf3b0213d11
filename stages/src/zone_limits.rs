//! Limits on zones: how many misses a second go to the slow path for names of a zone. Cached answers are not limited.
//!
//! All data cores share the limits. A core that finds a zone's limit used up writes only to a line of its own.
//! Client prefixes share a zone's limit ([`FairRate`]), so a flood from few of them is limited, and others are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pmdns_config::LimitAnswer;

use crate::answer::Answer;
use crate::fair_rate::FairRate;
use crate::packet::{Packet, Tick};
use crate::ratelimit::ClientPrefixes;
use crate::step::{Reason, Step};
use crate::wire::dns::Rcode;
use crate::wire::edns::ExtendedError;
use crate::wire::name::{equal, suffixes};

/// The most misses at once: those of a second, divided by this.
const BURST: u32 = 10;
/// Cells in which the client prefixes of one zone are counted.
const CELLS: usize = 2048;

/// The limit of a zone.
#[derive(Debug)]
pub struct ZoneLimit {
    /// The zone in wire format.
    zone: Box<[u8]>,
    /// `None`: none may pass.
    rate: Option<FairRate>,
    /// By core.
    counts: Box<[ZoneCounts]>,
}

/// What one core has counted, in a cache line that no other core writes.
#[derive(Debug, Default)]
#[repr(align(64))]
struct ZoneCounts {
    passed: AtomicU64,
    refused: AtomicU64,
}

impl ZoneLimit {
    /// So many misses a second for a zone, over so many cores.
    pub fn new(zone: &[u8], rate: u32, ticks_per_second: u64, cores: usize) -> Self {
        let rate = FairRate::new(rate, rate.div_ceil(BURST), ticks_per_second, CELLS);
        let counts = (0..cores).map(|_| ZoneCounts::default()).collect();
        Self { zone: zone.into(), rate, counts }
    }

    /// Misses that went to the slow path, and misses that did not.
    pub fn counts(&self) -> (u64, u64) {
        self.counts.iter().fold((0, 0), |(passed, refused), core| {
            let ZoneCounts { passed: more_passed, refused: more_refused } = core;
            (
                passed + more_passed.load(Ordering::Relaxed),
                refused + more_refused.load(Ordering::Relaxed),
            )
        })
    }

    /// Counts a miss on the core of this number, which alone writes there.
    fn count(&self, core: usize, counter: impl Fn(&ZoneCounts) -> &AtomicU64) {
        if let Some(counter) = self.counts.get(core).map(counter) {
            counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }
}

/// The limits of all zones that have one, for one core.
#[derive(Clone, Debug, Default)]
pub struct ZoneLimits {
    limits: Vec<Arc<ZoneLimit>>,
    answer: LimitAnswer,
    prefixes: Option<ClientPrefixes>,
    /// Labels of the longest zone, the root among them.
    labels: usize,
    /// The number of the core.
    core: usize,
}

impl ZoneLimits {
    /// These limits, which clients share by their `prefixes`. Those over one get `answer`. They are for the first core.
    pub fn new(limits: Vec<Arc<ZoneLimit>>, answer: LimitAnswer, prefixes: ClientPrefixes) -> Self {
        let labels = limits.iter().map(|limit| suffixes(&limit.zone).count()).max().unwrap_or(0);
        Self { limits, answer, prefixes: Some(prefixes), labels, core: 0 }
    }

    /// The same for the core of this number. No two cores may have one.
    pub fn for_core(&self, core: usize) -> Self {
        Self { core, ..self.clone() }
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
        let prefix = self.prefixes.map_or(0, |prefixes| prefixes.hash(packet));
        if packet.is_probe() || limit.rate.as_ref().is_some_and(|rate| rate.take(prefix, now)) {
            limit.count(self.core, |counts| &counts.passed);
            return Step::SLOW_PATH;
        }
        limit.count(self.core, |counts| &counts.refused);
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
    use crate::testing::{QueryFrame, name_of, query};
    use crate::wire::ip::ETHERNET_LEN;
    use crate::wire::name::Seed;

    const ZONE: &[u8] = b"\x06victim\x04test\0";
    const TICKS: u64 = 1000;

    fn limits(rates: &[(&[u8], u32)], answer: LimitAnswer) -> ZoneLimits {
        let limit = |(zone, rate): &(&[u8], u32)| Arc::new(ZoneLimit::new(zone, *rate, TICKS, 2));
        let settings = pmdns_config::RateLimitSettings::default();
        let prefixes = ClientPrefixes::new(&settings, Seed::new([3; 16]));
        ZoneLimits::new(rates.iter().map(limit).collect(), answer, prefixes)
    }

    /// A query as parse would hand it on.
    fn miss(text: &str) -> Packet {
        miss_from(text, 1)
    }

    /// The same from a network.
    fn miss_from(text: &str, network: u8) -> Packet {
        let mut packet = QueryFrame { source: vec![10, network, 0, 1], ..query(text) }.packet();
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
        assert!((85..=100).contains(&later), "{later}");
        assert_eq!(passed(&limits, "victim.test. A", 1000, 5), 0, "the zone itself too");
        for other in ["xvictim.test. A", "test. A", "victim.test.example. A"] {
            assert_eq!(passed(&limits, other, 1000, 50), 50, "{other}");
        }
        let later = later as u64;
        assert_eq!(limits.limits[0].counts(), (11 + later, 39 + 3000 - later + 5));
    }

    #[test]
    fn cores_share_a_limit_and_each_counts_in_a_line_of_its_own() {
        let first = limits(&[(ZONE, 100)], LimitAnswer::Servfail);
        let second = first.for_core(1);
        assert_eq!(passed(&first, "x.victim.test. A", 0, 50), 11);
        assert_eq!(passed(&second, "x.victim.test. A", 0, 50), 0, "the other has used it up");
        let limit = &first.limits[0];
        assert_eq!(limit.counts(), (11, 39 + 50));
        let of_core = |core: usize| limit.counts[core].refused.load(Ordering::Relaxed);
        assert_eq!([of_core(0), of_core(1)], [39, 50]);
        let lines = [0, 1].map(|core: usize| std::ptr::from_ref(&limit.counts[core]).addr() / 64);
        assert_eq!(lines[1], lines[0] + 1);
    }

    #[test]
    fn attack_j_one_network_that_floods_a_zone_has_it_limited_for_itself_alone() {
        let limits = limits(&[(ZONE, 100)], LimitAnswer::Servfail);
        let ask = |network, now| {
            limits.judge(&mut miss_from("x.victim.test. A", network), now) == Step::SLOW_PATH
        };
        let mut passed = [0; 2];
        for now in 0..4000 {
            for _ in 0..3 {
                passed[0] += usize::from(ask(1, now));
            }
            // Eight misses a second of another.
            if now % 125 == 7 {
                passed[1] += usize::from(ask(2, now));
            }
        }
        assert_eq!(passed[1], 32, "none of the others is refused");
        assert!((300..=420).contains(&passed[0]), "{passed:?}");
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
