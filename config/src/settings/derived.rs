//! Values that follow from several tables.

use std::net::IpAddr;

use super::{Config, Strategy, Upstream};
use crate::prefix::Prefix;
use crate::reserved::DEFAULT_GROUP;

/// The client of probes if every address may ask: one of those for documentation (RFC 5737, RFC 3849).
const ANY_IPV4: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const ANY_IPV6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

impl Config {
    /// The shards of the slow path: one for each core that resolves, else one for each of its threads.
    pub fn slow_path_shards(&self) -> usize {
        let resolving = self.placements.iter().filter(|placement| placement.resolver);
        match resolving.map(|placement| placement.cores.len()).sum() {
            0 => self.slowpath.threads.unwrap_or(1),
            cores => cores,
        }
    }

    /// The settings that the cache's memory and the answers in it depend on, beside the [scopes](Config::scope_map) of views. A
    /// process with the same ones can go on with it.
    pub fn cache_basis(&self) -> String {
        let Self { cache, answers, .. } = self;
        let memory = (cache.size, cache.pages, cache.numa_node, self.slow_path_shards());
        let bodies = (answers.max_udp_size, self.streams.are_configured());
        format!("{:?}", (memory, bodies, self.answers_basis()))
    }

    /// Those that decide which answers upstreams give, and which of these are taken. A process with the same ones can have the
    /// answers, whatever its memory is.
    pub fn answers_basis(&self) -> String {
        format!("{:?}", (&self.client_subnet, &self.dnssec))
    }

    /// Which of the ports `upstream` is asked over: an index into `ports`. `None`: the kernel's sockets.
    pub fn upstream_port(&self, upstream: &Upstream) -> Option<usize> {
        self.port_of_name(upstream.port.as_ref()?)
    }

    /// Which of the ports has this name.
    pub fn port_of_name(&self, name: &str) -> Option<usize> {
        self.ports.iter().position(|port| port.name == name)
    }

    /// How a group of upstreams is asked.
    pub fn strategy_of(&self, group: &str) -> Strategy {
        let group = self.groups.iter().find(|one| one.name == group);
        group.map(|group| group.strategy).unwrap_or_default()
    }

    /// The client that probes seem to come from.
    pub fn probe_client(&self) -> IpAddr {
        let allowed = || self.acl.allow.first().map(first_host);
        self.anycast.client.or_else(allowed).unwrap_or(ANY_IPV4)
    }

    /// Whether a node is unfit when no upstream of this group is alive: clients' names go there unless a forward zone claims
    /// them.
    pub fn needs_group(&self, group: &str) -> bool {
        group == DEFAULT_GROUP || self.views.iter().any(|view| view.group.as_deref() == Some(group))
    }
}

/// A host of a network. Its first address may mean the network itself.
fn first_host(prefix: &Prefix) -> IpAddr {
    match prefix.network {
        IpAddr::V4(_) if prefix.length == 0 => ANY_IPV4,
        IpAddr::V6(_) if prefix.length == 0 => ANY_IPV6,
        IpAddr::V4(v4) if prefix.length < 31 => IpAddr::from((u32::from(v4) | 1).to_be_bytes()),
        IpAddr::V6(v6) if prefix.length < 127 => IpAddr::from((u128::from(v6) | 1).to_be_bytes()),
        single => single,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_seems_to_come_from_a_client_that_may_ask() {
        for (allowed, client) in [
            ("0.0.0.0/0", "192.0.2.1"),
            ("::/0", "2001:db8::1"),
            ("10.0.0.0/8", "10.0.0.1"),
            ("10.0.0.6/31", "10.0.0.6"),
            ("10.0.0.7", "10.0.0.7"),
            ("fd00::/8", "fd00::1"),
            ("fd00::5", "fd00::5"),
        ] {
            let mut config = Config::default();
            assert_eq!(config.probe_client(), ANY_IPV4, "nobody may ask");
            config.acl.allow = vec![allowed.parse().unwrap()];
            assert_eq!(config.probe_client().to_string(), client, "{allowed}");
            config.anycast.client = Some(ANY_IPV6);
            assert_eq!(config.probe_client(), ANY_IPV6);
        }
    }
}
