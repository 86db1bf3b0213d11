//! Where the next hops are, as all threads see it: one writes, many read.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pmdns_config::narrow::low_u8;
use pmdns_counters::counters;

/// Bits of a place: 48 of the MAC address, 8 of the port above them, and what is known of it on top.
const PORT_SHIFT: u32 = 48;
const FRESH: u64 = 1 << 62;
const USABLE: u64 = 1 << 63;

/// A next hop that is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopPlan {
    /// The number of the port it is on.
    pub port: usize,
    /// Its address.
    pub address: IpAddr,
    /// The address of ours that asks for it, of the same family.
    pub from: IpAddr,
}

/// The state of a next hop (RFC 4861 section 7.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HopState {
    /// It is asked for, and has not answered yet.
    #[default]
    Incomplete,
    /// It has answered not long ago.
    Reachable,
    /// It does not answer, or has not yet confirmed what others said; what is known of it is used for a while.
    Stale,
    /// It does not answer. It is asked again from time to time.
    Failed,
}

/// All states, by the number that stands for each.
const STATES: [HopState; 4] =
    [HopState::Incomplete, HopState::Reachable, HopState::Stale, HopState::Failed];

impl HopState {
    /// Whether queries may go there.
    pub fn is_usable(self) -> bool {
        matches!(self, Self::Reachable | Self::Stale)
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Incomplete => "incomplete",
            Self::Reachable => "reachable",
            Self::Stale => "stale",
            Self::Failed => "failed",
        }
    }
}

counters! {
    /// Counters of one next hop.
    HopCounts {
        /// ARP requests and neighbour solicitations sent to find or to confirm it.
        probes: counter,
        /// Answers to these probes.
        answers: counter,
        /// Probes that nobody answered in time.
        failures: counter,
        /// Times it was lost: it had answered, and did not for so long that it is no longer used.
        outages: counter,
        /// Gratuitous ARP packets and unsolicited neighbour advertisements that were believed.
        gratuitous: counter,
        /// Changes of its MAC address: it was replaced, or somebody claims to be it.
        mac_changes: counter,
        /// ARP packets and neighbour advertisements about it that were not believed.
        refused: counter,
    }
}

/// Where a next hop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopAddress {
    /// The port to send on.
    pub port: u8,
    /// The hardware address to send to.
    pub mac: [u8; 6],
    /// Whether it has answered not long ago.
    pub is_fresh: bool,
}

/// A next hop that some process has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownHop {
    /// The number of the port it is on.
    pub port: usize,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address.
    pub mac: [u8; 6],
}

/// A next hop, as reports show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopReport {
    /// Which one.
    pub plan: HopPlan,
    /// Its state.
    pub state: HopState,
    /// Its hardware address while it is used.
    pub mac: Option<[u8; 6]>,
    /// Time since it last answered; `None`: never.
    pub age: Option<Duration>,
    /// Its counts.
    pub counts: HopCounts,
}

/// The writer's row of a next hop.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    pub(super) state: HopState,
    pub(super) mac: [u8; 6],
    pub(super) confirmed_at: Option<Duration>,
    pub(super) counts: HopCounts,
}

/// The next hops of all ports, by number.
#[derive(Debug)]
pub struct HopTable {
    plans: Vec<HopPlan>,
    published: Vec<Published>,
}

/// A row in memory that all threads share. Only the place is read for a query.
#[derive(Debug, Default)]
struct Published {
    place: AtomicU64,
    /// An index of `STATES`.
    state: AtomicU64,
    /// Milliseconds since start, plus one; zero: never.
    confirmed_ms: AtomicU64,
    counts: [AtomicU64; HopCounts::COUNT],
    /// Set by any thread, and cleared by the owner.
    is_doubted: AtomicBool,
}

impl HopTable {
    /// A table of these next hops, none of which is found yet.
    pub fn new(plans: Vec<HopPlan>) -> Self {
        let published = plans.iter().map(|_| Published::default()).collect();
        Self { plans, published }
    }

    /// Where a next hop is; `None`: it is not to be used now, or there is no such.
    #[inline]
    pub fn find(&self, hop: usize) -> Option<HopAddress> {
        let word = self.published.get(hop)?.place.load(Ordering::Relaxed);
        let [_, port, mac @ ..] = word.to_be_bytes();
        let place = HopAddress { port, mac, is_fresh: word & FRESH != 0 };
        (word & USABLE != 0).then_some(place)
    }

    /// Those that have answered not long ago, and where they are.
    pub fn known(&self) -> impl Iterator<Item = KnownHop> {
        self.plans.iter().enumerate().filter_map(|(hop, plan)| {
            let place = self.find(hop).filter(|place| place.is_fresh)?;
            Some(KnownHop { port: plan.port, address: plan.address, mac: place.mac })
        })
    }

    /// Says that queries over a next hop get no replies, or that none can leave because it is not found. Its owner then asks
    /// for it soon. Any thread may say so.
    pub fn doubt(&self, hop: usize) {
        if let Some(published) = self.published.get(hop)
            && !published.is_doubted.load(Ordering::Relaxed)
        {
            published.is_doubted.store(true, Ordering::Relaxed);
        }
    }

    /// Whether somebody doubts a next hop. The owner asks, and each doubt is told once.
    pub(super) fn take_doubt(&self, hop: usize) -> bool {
        self.published.get(hop).is_some_and(|published| {
            published.is_doubted.load(Ordering::Relaxed)
                && published.is_doubted.swap(false, Ordering::Relaxed)
        })
    }

    /// All of them, at this time since start.
    pub fn report(&self, now: Duration) -> impl Iterator<Item = HopReport> {
        let rows = self.plans.iter().zip(&self.published);
        rows.enumerate().map(move |(hop, (plan, published))| {
            let state = usize::from(low_u8(published.state.load(Ordering::Relaxed)));
            let confirmed = published.confirmed_ms.load(Ordering::Relaxed).checked_sub(1);
            let values = published.counts.iter().map(|count| count.load(Ordering::Relaxed));
            HopReport {
                plan: *plan,
                state: STATES.get(state).copied().unwrap_or_default(),
                mac: self.find(hop).map(|place| place.mac),
                age: confirmed.map(|at| now.saturating_sub(Duration::from_millis(at))),
                counts: HopCounts::from_values(values),
            }
        })
    }

    /// Tells all threads what is known of a next hop. Only its owner does.
    pub(super) fn publish(&self, hop: usize, row: &Row) {
        let (Some(plan), Some(published)) = (self.plans.get(hop), self.published.get(hop)) else {
            return;
        };
        let [a, b, c, d, e, f] = row.mac;
        let mac = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        let place = match (u8::try_from(plan.port), row.state) {
            (Ok(port), HopState::Reachable) => USABLE | FRESH | at_port(port) | mac,
            (Ok(port), HopState::Stale) => USABLE | at_port(port) | mac,
            _ => 0,
        };
        let millis = |at: Duration| {
            u64::try_from(at.as_millis()).map_or(u64::MAX, |ms| ms.saturating_add(1))
        };
        published.place.store(place, Ordering::Relaxed);
        published.state.store(row.state as u64, Ordering::Relaxed);
        published.confirmed_ms.store(row.confirmed_at.map_or(0, millis), Ordering::Relaxed);
        for (count, value) in published.counts.iter().zip(row.counts.values()) {
            count.store(value, Ordering::Relaxed);
        }
    }
}

fn at_port(port: u8) -> u64 {
    u64::from(port) << PORT_SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> HopTable {
        let plan = HopPlan { port: 255, address: [10, 0, 0, 1].into(), from: [10, 0, 0, 2].into() };
        HopTable::new(vec![plan])
    }

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let (table, mac) = (table(), [0xfe, 1, 2, 3, 4, 0xff]);
        assert_eq!(table.find(0), None, "not found yet");
        assert_eq!(table.find(1), None, "no such");
        for (state, expected) in [
            (HopState::Reachable, Some(true)),
            (HopState::Stale, Some(false)),
            (HopState::Failed, None),
            (HopState::Reachable, Some(true)),
            (HopState::Incomplete, None),
        ] {
            table.publish(0, &Row { state, mac, ..Row::default() });
            let place = expected.map(|is_fresh| HopAddress { port: 255, mac, is_fresh });
            assert_eq!(table.find(0), place, "{state:?}");
            let known = KnownHop { port: 255, address: [10, 0, 0, 1].into(), mac };
            assert!(table.known().eq((expected == Some(true)).then_some(known)), "{state:?}");
            assert_eq!(table.report(Duration::ZERO).next().unwrap().state, state);
        }
    }

    #[test]
    fn a_doubt_is_told_once() {
        let table = table();
        assert!(!table.take_doubt(0));
        table.doubt(0);
        table.doubt(0);
        table.doubt(1);
        assert!(table.take_doubt(0) && !table.take_doubt(0));
        assert!(!table.take_doubt(1), "no such");
    }

    #[test]
    fn a_report_tells_the_age_of_the_last_answer() {
        let table = table();
        let age = |now| table.report(Duration::from_secs(now)).next().unwrap().age;
        assert_eq!(age(9), None);
        let confirmed_at = Some(Duration::from_secs(5));
        let counts = HopCounts { probes: 3, refused: 7, ..HopCounts::default() };
        table.publish(0, &Row { confirmed_at, counts, ..Row::default() });
        assert_eq!((age(9), age(4)), (Some(Duration::from_secs(4)), Some(Duration::ZERO)));
        assert_eq!(table.report(Duration::ZERO).next().unwrap().counts, counts);
        table.publish(0, &Row { confirmed_at: Some(Duration::MAX), ..Row::default() });
        assert_eq!(age(9), Some(Duration::ZERO));
    }
}
