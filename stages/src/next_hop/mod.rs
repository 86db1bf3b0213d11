//! The next hops of our ports: at which hardware addresses gateways and upstreams on the link are.
//!
//! [`NextHops`] asks for them by ARP (RFC 826) and neighbour discovery (RFC 4861 section 7), before what it knows is too
//! old. It is told the time and what was heard, and writes its probes into frames. One thread owns it; all threads read
//! the [`HopTable`] that it publishes. [`Routes`] says which next hops an upstream has, and chooses among them.
//!
//! Hosts on a link can claim to be anybody. So pmdns believes only messages about a next hop of its own. It asks
//! everybody when a MAC address changes, and it counts.

mod hop;
mod routes;
mod table;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use pmdns_nics::{Burst, FramePool};

pub use self::hop::HopChange;
use self::hop::{Hop, Spread};
pub use self::routes::{LinkAddresses, MAX_HOPS, NextHop, Routes};
pub use self::table::{HopAddress, HopCounts, HopPlan, HopReport, HopState, HopTable, KnownHop};
use crate::neighbor::message::NeighborMessage;
use crate::ports::Ports;
use crate::wire::name::Seed;

/// Probes per second, of all next hops together.
const PROBES_PER_SECOND: u32 = 16;
/// Probes that may leave at once.
const BURST: u32 = 16;
/// The time that pays for one probe.
const PROBE_COST: Duration = Duration::from_millis(1000 / PROBES_PER_SECOND as u64);
const _: () = assert!(
    MAX_HOPS as u128 * PROBE_COST.as_millis() < hop::REFRESH.as_millis(),
    "all next hops can be refreshed in time"
);

/// The next hops of one process.
#[derive(Debug)]
pub struct NextHops {
    ports: Ports,
    hops: Vec<Hop>,
    table: Arc<HopTable>,
    spread: Spread,
    /// Until when probes are paid for.
    paid_until: Duration,
    /// Nothing is to be done before.
    next_due: Duration,
    has_news: bool,
}

impl NextHops {
    /// These next hops, none of which is found yet. Probes are spread over time by `seed`. Only the first [`MAX_HOPS`]
    /// are looked for.
    pub fn new(plans: &[HopPlan], ports: Ports, seed: Seed) -> Self {
        debug_assert!(plans.len() <= MAX_HOPS, "the routes bound them");
        let hops = plans.iter().take(MAX_HOPS).copied().map(Hop::new).collect();
        let table = Arc::new(HopTable::new(plans.to_vec()));
        let (paid_until, next_due) = (Duration::ZERO, Duration::ZERO);
        Self {
            ports,
            hops,
            table,
            spread: Spread::new(seed),
            paid_until,
            next_due,
            has_news: false,
        }
    }

    /// Begins with those that another process has found, before the first turn. Others than those of the plans are left out. Each
    /// is asked for on the first turn all the same.
    pub fn with_known(mut self, known: &[KnownHop]) -> Self {
        for KnownHop { port, address, mac } in known {
            let Some(number) = self.number_of(*port, *address) else { continue };
            self.hops[number].begin_at(*mac);
            self.publish(number);
        }
        self
    }

    /// Where they are, for all threads.
    pub fn table(&self) -> &Arc<HopTable> {
        &self.table
    }

    /// Writes the probes that are due. The frames say on which port. What finds no frame follows on the next turn. Times
    /// are since start, and do not go back.
    pub fn turn(&mut self, now: Duration, pool: &FramePool, frames: &mut Burst) {
        // The answers would come to the process that has the addresses, and next hops would learn another one's MAC address.
        let has_left = || self.ports.first().is_some_and(|port| port.claim.has_left());
        if now < self.next_due || has_left() {
            return;
        }
        for number in 0..self.hops.len() {
            if self.hops[number].settle(now) {
                self.publish(number);
            }
        }
        while let Some(number) = self.most_overdue(now) {
            if self.next_payment(now) > now || !self.probe(number, now, pool, frames) {
                break;
            }
        }
        self.next_due = self.find_next_due(now);
    }

    /// When [`turn`](Self::turn) has something to do next.
    pub fn next_due(&self) -> Duration {
        self.next_due
    }

    /// Takes in what was heard on a port. Says whether it was believed.
    pub fn receive(&mut self, port: usize, message: &NeighborMessage, now: Duration) -> bool {
        let Some(number) = self.number_of(port, message.address) else { return false };
        let ours = self.ports.get(port).map_or([0; 6], |port| port.mac);
        let believed = self.hops[number].receive(message, ours, now, &mut self.spread);
        self.publish(number);
        self.next_due = self.next_due.min(self.hops[number].next_probe());
        believed
    }

    /// The link of a port came up: who is on it now is found out at once.
    pub fn note_link_up(&mut self, port: usize, now: Duration) {
        for hop in self.hops.iter_mut().filter(|hop| hop.plan.port == port) {
            hop.ask_all_soon(now);
            self.next_due = self.next_due.min(hop.next_probe());
        }
    }

    /// Takes in the doubts of all threads ([`HopTable::doubt`]): these next hops are asked at once, or at least soon.
    pub fn heed_doubts(&mut self, now: Duration) {
        for (number, hop) in self.hops.iter_mut().enumerate() {
            if self.table.take_doubt(number) {
                hop.doubt(now);
                self.next_due = self.next_due.min(hop.next_probe());
            }
        }
    }

    /// Tells what has changed since the last call, one change of a next hop at most.
    pub fn report_changes(&mut self, mut report: impl FnMut(&HopPlan, HopChange)) {
        if !std::mem::take(&mut self.has_news) {
            return;
        }
        for hop in &mut self.hops {
            if let Some(change) = hop.news() {
                report(&hop.plan, change);
            }
        }
    }

    /// Asks for one next hop. False: there is no frame for it.
    fn probe(
        &mut self,
        number: usize,
        now: Duration,
        pool: &FramePool,
        frames: &mut Burst,
    ) -> bool {
        if frames.is_full() {
            return false;
        }
        let Some(mut frame) = pool.take() else { return false };
        let hop = &mut self.hops[number];
        let port = self.ports.get(hop.plan.port);
        let written = port.and_then(|port| hop.question().write(&mut frame, hop.plan.port, port));
        if written.is_none() {
            // A port that is none, or has no VLAN: nobody can be asked there.
            hop.postpone(now, &mut self.spread);
            return true;
        }
        frames.push(frame);
        hop.note_sent(now, &mut self.spread);
        self.paid_until = self.paid_until.max(now) + PROBE_COST;
        self.publish(number);
        true
    }

    /// The next hop that has been due for longest.
    fn most_overdue(&self, now: Duration) -> Option<usize> {
        let due = (0..self.hops.len()).filter(|number| self.hops[*number].next_probe() <= now);
        due.min_by_key(|number| self.hops[*number].next_probe())
    }

    /// When a probe may leave: now, or when enough time has passed since those before.
    fn next_payment(&self, now: Duration) -> Duration {
        let credit = PROBE_COST * (BURST - 1);
        now.max(self.paid_until.saturating_sub(credit))
    }

    fn find_next_due(&self, now: Duration) -> Duration {
        let payment = self.next_payment(now);
        let due = |hop: &Hop| {
            let probe = hop.next_probe().max(payment);
            hop.state_ends().map_or(probe, |end| end.min(probe))
        };
        self.hops.iter().map(due).min().unwrap_or(Duration::MAX)
    }

    fn number_of(&self, port: usize, address: IpAddr) -> Option<usize> {
        self.hops.iter().position(|hop| hop.plan.port == port && hop.plan.address == address)
    }

    fn publish(&mut self, number: usize) {
        self.table.publish(number, &self.hops[number].row);
        self.has_news = true;
    }
}
