//! The sums that must balance.

use serde::{Deserialize, Serialize};

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
    /// Whether every packet is accounted for.
    pub fn balance(&self) -> bool {
        self.received + self.made
            == self.transmitted + self.dropped + self.slow_path + self.exceptions + self.held
    }
}
