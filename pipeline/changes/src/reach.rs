//! Where the servers of lists may be. The operator's file names any. Who may only add lists at run time must not learn from
//! pmdns what answers inside the network: such a server has a public address, or one of `control.list_networks`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pmdns_config::Prefix;

/// Addresses that a list may be fetched from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// All.
    #[default]
    Anywhere,
    /// Public ones, and those of these networks.
    Public(Vec<Prefix>),
}

impl Reach {
    /// Whether a server may have this address.
    pub fn allows(&self, address: IpAddr) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Public(others) => {
                let address = address.to_canonical();
                is_public(address) || others.iter().any(|network| network.contains(address))
            }
        }
    }
}

/// Whether an address is that of a host somewhere on the internet (RFC 6890).
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    let is_shared = first == 100 && (64..128).contains(&second);
    let is_benchmark = first == 198 && (18..20).contains(&second);
    !(first == 0
        || first >= 240
        || is_shared
        || is_benchmark
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast())
}

/// Global unicast addresses without those that have an IPv4 address in them, behind which any host may be.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let is_6to4 = address.segments()[0] == 0x2002;
    let is_teredo = address.segments()[..2] == [0x2001, 0];
    address.segments()[0] & 0xe000 == 0x2000 && !is_6to4 && !is_teredo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_and_the_networks_named_are_allowed() {
        let others = ["10.1.0.0/16", "fd00:1::/32"].map(|text| text.parse().unwrap()).to_vec();
        let reach = Reach::Public(others);
        for (address, is_allowed) in [
            ("9.9.9.9", true),
            ("203.0.113.80", true),
            ("2620:fe::fe", true),
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("fd00:1::7", true),
            ("10.2.0.1", false),
            ("127.0.0.1", false),
            ("::ffff:127.0.0.1", false),
            ("169.254.169.254", false),
            ("172.31.0.1", false),
            ("192.168.0.1", false),
            ("100.64.0.1", false),
            ("198.18.0.1", false),
            ("0.0.0.0", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("fe80::1", false),
            ("fd00:2::1", false),
            ("ff02::1", false),
            ("2002:7f00:1::", false),
            ("64:ff9b::7f00:1", false),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(reach.allows(address), is_allowed, "{address}");
            assert!(Reach::Anywhere.allows(address));
        }
    }
}
