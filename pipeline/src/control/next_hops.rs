//! The next hops of queries to upstreams that leave by ports, in reports.

use std::time::Duration;

use pmdns_engine::ports::mac_text;
use pmdns_stages::next_hop::{HopReport, HopState, HopTable};
use serde::{Deserialize, Serialize};

use super::named::{Named, by_name};

/// A next hop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NextHopReport {
    /// The port it is on.
    pub port: String,
    /// Its address.
    pub address: String,
    /// `incomplete`, `reachable`, `stale` or `failed`.
    pub state: String,
    /// Its hardware address while it is used.
    pub mac: Option<String>,
    /// Seconds since it last answered; `None`: never.
    pub age_seconds: Option<u64>,
    /// The counts, by the names of [`HopCounts`](pmdns_stages::next_hop::HopCounts).
    #[serde(flatten)]
    pub counters: Named,
}

impl NextHopReport {
    /// All next hops at this time since the start.
    pub(super) fn all(table: &HopTable, port_names: &[String], now: Duration) -> Vec<Self> {
        table.report(now).map(|hop| Self::of(&hop, port_names)).collect()
    }

    fn of(hop: &HopReport, port_names: &[String]) -> Self {
        let HopReport { plan, state, mac, age, counts } = hop;
        Self {
            port: port_names.get(plan.port).cloned().unwrap_or_default(),
            address: plan.address.to_string(),
            state: state.name().to_owned(),
            mac: mac.map(mac_text),
            age_seconds: age.map(|age| age.as_secs()),
            counters: by_name(counts.named()),
        }
    }

    /// Whether queries go there.
    pub fn is_usable(&self) -> bool {
        self.mac.is_some()
    }

    /// Whether it has answered not long ago.
    pub fn is_reachable(&self) -> bool {
        self.state == HopState::Reachable.name()
    }

    /// The count of this name.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}
