//! What a rig of a test is like.

use std::net::IpAddr;

use pmdns_config::{
    DEFAULT_GROUP, Dnssec, Forward, Group, HealthSettings, SlowPathSettings, Strategy, Upstream,
    UpstreamAddress, View, wire_name,
};
use pmdns_stages::cache::Purge;

use super::{Rig, Stub};

/// What keys are hashed with, unless a test says otherwise.
pub(super) const SEED: [u8; 16] = [9; 16];

/// What a rig shall be like.
pub(crate) struct Setup {
    pub(crate) settings: SlowPathSettings,
    pub(crate) keeping: pmdns_config::CacheSettings,
    pub(crate) prefetch: pmdns_config::Prefetch,
    pub(crate) client_subnet: pmdns_config::ClientSubnet,
    /// What keys are hashed with.
    pub(crate) seed: [u8; 16],
    pub(crate) upstreams: Vec<Upstream>,
    pub(crate) groups: Vec<Group>,
    pub(crate) forwards: Vec<Forward>,
    pub(crate) views: Vec<View>,
    /// The gateways to upstreams over a port. Without any they are on its link.
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) health: HealthSettings,
    pub(crate) dnssec: Dnssec,
    /// Frames in the pool.
    pub(crate) frames: usize,
    /// Slots in the ring of answers.
    pub(crate) answers: usize,
    /// Workers that send misses.
    pub(crate) workers: usize,
    /// How many of them transmit: the first ones, for the others too.
    pub(crate) transmitters: usize,
}

impl Setup {
    /// A rig that asks these stubs in this order, with a deadline no test comes near.
    pub(crate) fn asking(stubs: &[&Stub]) -> Self {
        Self {
            settings: SlowPathSettings { deadline_ms: 20_000, ..SlowPathSettings::default() },
            keeping: pmdns_config::CacheSettings::default(),
            prefetch: pmdns_config::Prefetch::default(),
            client_subnet: pmdns_config::ClientSubnet::default(),
            seed: SEED,
            upstreams: stubs.iter().map(|stub| upstream(stub.address.into())).collect(),
            groups: Vec::new(),
            forwards: Vec::new(),
            views: Vec::new(),
            gateways: Vec::new(),
            health: HealthSettings::default(),
            dnssec: Dnssec::default(),
            frames: 1024,
            answers: 512,
            workers: 1,
            transmitters: 1,
        }
    }

    /// The same with deadline and timeouts of some milliseconds.
    pub(crate) fn hasty(mut self, deadline_ms: u64, timeout_ms: u64) -> Self {
        self.settings.deadline_ms = deadline_ms;
        for upstream in &mut self.upstreams {
            upstream.timeout_ms = timeout_ms;
        }
        self
    }

    /// The same, asking by this strategy.
    pub(crate) fn by(mut self, strategy: Strategy) -> Self {
        self.groups = vec![Group { name: DEFAULT_GROUP.into(), strategy, parallel: 2 }];
        self
    }

    /// The same, but names in `zone` are asked of upstream `index` only.
    pub(crate) fn forward(mut self, zone: &str, index: usize) -> Self {
        let group = format!("only{index}");
        self.upstreams[index].group.clone_from(&group);
        self.forwards.push(Forward { zone: zone.into(), group, views: Vec::new() });
        self
    }

    /// The same, but the client with this address is in a view of this name, for which upstream `index` is asked.
    pub(crate) fn view(mut self, name: &str, client: &str, index: usize) -> Self {
        let group = format!("only{index}");
        self.upstreams[index].group.clone_from(&group);
        let clients = vec![client.parse().unwrap()];
        self.views.push(View { name: name.into(), clients, group: Some(group), ..View::default() });
        self
    }

    /// The same with letters in mixed case.
    pub(crate) fn mixed(mut self) -> Self {
        for upstream in &mut self.upstreams {
            upstream.mix_case = true;
        }
        self
    }

    /// Sends queries from this address.
    pub(crate) fn from(mut self, source: IpAddr) -> Self {
        for upstream in &mut self.upstreams {
            upstream.source = Some(source);
        }
        self
    }

    /// Starts it.
    pub(crate) fn start(self) -> Rig {
        Rig::start(self)
    }
}

/// An upstream at this address, asked in small letters: so scripts know names.
pub(crate) fn upstream(address: UpstreamAddress) -> Upstream {
    Upstream { timeout_ms: 5_000, mix_case: false, ..Upstream::at(address) }
}

/// A purge of a name, and of all below it if `below`, of one type or of all.
pub(crate) fn purge_of(name: &str, below: bool, qtype: Option<u16>) -> Purge {
    let mut name = wire_name(name).unwrap();
    name.make_ascii_lowercase();
    Purge { name, below, qtype }
}
