//! The sums that must balance.

use serde::{Deserialize, Serialize};

use crate::counters::{Counters, Link, Tally};

/// The balance: `received + made = transmitted + dropped + slow_path + exceptions + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Frames taken from RX queues.
    pub received: u64,
    /// Frames made here: the slow path's answers and queries, announcements, and those of TAPs.
    pub made: u64,
    /// Frames given to TX queues.
    pub transmitted: u64,
    /// Packets dropped, for any reason, including full queues and rings.
    pub dropped: u64,
    /// Packets that went to the slow path: misses, and replies of upstreams that are asked over a port.
    pub slow_path: u64,
    /// Frames for this host, but not for pmdns.
    pub exceptions: u64,
    /// Packets in rings between cores.
    pub held: u64,
}

impl Totals {
    /// The sums over all data cores.
    pub fn of(workers: &[Counters]) -> Self {
        let mut totals = Self::default();
        let (mut taken, mut put) = (0, 0);
        for worker in workers {
            let sent = worker.flow(|link| matches!(link, Link::Tx(_)));
            let ring = worker.flow(|link| matches!(link, Link::RingTo(_)));
            totals.received += worker.flow(|link| matches!(link, Link::Rx(_))).passed;
            totals.made += worker.tally.made;
            totals.transmitted += sent.passed;
            totals.slow_path += worker.tally.slow_path + worker.tally.replies;
            totals.exceptions += worker.tally.exceptions;
            let Tally { miss_full, miss_share, replies_lost, .. } = worker.tally;
            let shed = miss_full + miss_share + replies_lost;
            totals.dropped += worker.tally.dropped + shed + sent.refused + ring.refused;
            taken += worker.flow(|link| matches!(link, Link::RingFrom(_))).passed;
            put += ring.passed;
        }
        // Cores publish at different times, so the counters of a running instance may show a pop before its push.
        totals.held = u64::saturating_sub(put, taken);
        totals
    }

    /// Whether every packet is accounted for.
    pub fn balance(&self) -> bool {
        self.received + self.made
            == self.transmitted + self.dropped + self.slow_path + self.exceptions + self.held
    }
}
