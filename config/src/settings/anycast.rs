//! Whether this node is fit to serve, and the interface that tells routers so.

use std::net::IpAddr;

use serde::Deserialize;

use super::Config;
use crate::prefix::{InterfaceAddress, Prefix};

/// The client of probes if every address may ask: one of those for documentation (RFC 5737, RFC 3849).
const ANY_IPV4: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const ANY_IPV6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// `[anycast]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Anycast {
    /// The name whose address is asked for through the line of each data core.
    pub probe: String,
    /// The client that seems to ask; absent: the first one of `acl.allow`.
    pub client: Option<IpAddr>,
    /// How often `pmdns health --watch` asks.
    pub interval_ms: u64,
    /// How long a data core may take to answer, and how old its last sign of life may be.
    pub timeout_ms: u64,
    /// Bad checks in a row after which the addresses are withdrawn.
    pub failures: u32,
    /// Good checks in a row after which they are announced again.
    pub successes: u32,
    /// Whether a node without a living upstream is unfit.
    pub upstreams: bool,
    /// The interface that `pmdns health --watch` makes while the node is fit.
    pub interface: Option<String>,
    /// The addresses of that interface: those that clients ask, and that routers hear of.
    pub addresses: Vec<InterfaceAddress>,
}

impl Default for Anycast {
    fn default() -> Self {
        Self {
            probe: "localhost".to_owned(),
            client: None,
            interval_ms: 200,
            timeout_ms: 200,
            failures: 2,
            successes: 5,
            upstreams: true,
            interface: None,
            addresses: Vec::new(),
        }
    }
}

impl Config {
    /// The client that probes seem to come from.
    pub fn probe_client(&self) -> IpAddr {
        let allowed = || self.acl.allow.first().map(first_host);
        self.anycast.client.or_else(allowed).unwrap_or(ANY_IPV4)
    }

    /// Whether a node is unfit when no upstream of this group is alive: clients' names go there unless a forward zone claims
    /// them.
    pub fn needs_group(&self, group: &str) -> bool {
        group == super::DEFAULT_GROUP
            || self.views.iter().any(|view| view.group.as_deref() == Some(group))
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
