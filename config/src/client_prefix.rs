//! Client prefixes: clients whose addresses have the same leading bits count as one. Behind a CGNAT, so do those whose ports
//! have.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::port_blocks::PortBlocks;
use crate::settings::RateLimitSettings;

/// The network of a client, and its block of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientPrefix {
    /// The leading bits of the address; the others are zero.
    pub network: IpAddr,
    /// The block of ports; 0: the network has none.
    pub block: u16,
}

/// How many leading bits of an address, and of a port, make a prefix: those of the rate limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixLengths {
    ipv4_mask: u32,
    ipv6_mask: u128,
    ports: PortBlocks,
}

impl PrefixLengths {
    /// The lengths that `settings` say.
    pub fn of(settings: &RateLimitSettings) -> Self {
        let ipv4_host = u32::MAX.checked_shr(settings.ipv4_prefix.into()).unwrap_or(0);
        let ipv6_host = u128::MAX.checked_shr(settings.ipv6_prefix.into()).unwrap_or(0);
        Self { ipv4_mask: !ipv4_host, ipv6_mask: !ipv6_host, ports: PortBlocks::of(settings) }
    }

    /// The network of an address, and the block of its port, which is read only if there are blocks.
    #[inline(always)]
    pub fn of_ipv4(&self, address: Ipv4Addr, port: impl FnOnce() -> u16) -> (Ipv4Addr, u16) {
        let block = match self.ports.are_none() {
            true => 0,
            false => self.ports.block(address, port()),
        };
        (Ipv4Addr::from_bits(address.to_bits() & self.ipv4_mask), block)
    }

    /// The network of an address. IPv6 needs no CGNAT.
    #[inline(always)]
    pub fn of_ipv6(&self, address: Ipv6Addr) -> Ipv6Addr {
        Ipv6Addr::from_bits(address.to_bits() & self.ipv6_mask)
    }

    /// The prefix of an address and a port.
    pub fn prefix(&self, address: IpAddr, port: u16) -> ClientPrefix {
        match address {
            IpAddr::V4(address) => {
                let (network, block) = self.of_ipv4(address, || port);
                ClientPrefix { network: network.into(), block }
            }
            IpAddr::V6(address) => ClientPrefix { network: self.of_ipv6(address).into(), block: 0 },
        }
    }

    /// The prefix of the far end of a socket, whose IPv4 address may be mapped to IPv6.
    pub fn of_peer(&self, peer: SocketAddr) -> ClientPrefix {
        self.prefix(peer.ip().to_canonical(), peer.port())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_bits(ipv4: u8, ipv6: u8, port_bits: u8) -> PrefixLengths {
        PrefixLengths::of(&RateLimitSettings {
            ipv4_prefix: ipv4,
            ipv6_prefix: ipv6,
            ipv4_port_bits: port_bits,
            ipv4_port_prefixes: vec!["192.0.2.0/24".parse().unwrap()],
            ..RateLimitSettings::default()
        })
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn clients_share_a_prefix_by_their_leading_bits() {
        let lengths = PrefixLengths::of(&RateLimitSettings::default());
        let prefix = |text: &str| lengths.prefix(address(text), 53);
        assert_eq!(prefix("192.0.2.1"), prefix("192.0.2.255"));
        assert_ne!(prefix("192.0.2.1"), prefix("192.0.3.1"));
        assert_eq!(prefix("2001:db8:0:ff::1"), prefix("2001:db8:0:1:2:3:4:5"));
        assert_ne!(prefix("2001:db8:0:100::1"), prefix("2001:db8::1"));
        assert_ne!(prefix("0.0.0.1"), prefix("::1"), "families are apart");
    }

    #[test]
    fn peers_of_one_prefix_count_as_one_and_mapped_addresses_are_ipv4() {
        let lengths = of_bits(24, 56, 0);
        let prefix = |text: &str| lengths.of_peer((address(text), 1).into());
        assert_eq!(prefix("192.0.2.1"), prefix("192.0.2.255"));
        assert_eq!(prefix("192.0.2.1"), prefix("::ffff:192.0.2.9"));
        assert_ne!(prefix("192.0.2.1"), prefix("192.0.3.1"));
        assert_eq!(prefix("2001:db8::1"), prefix("2001:db8:0:ff::2"));
        assert_ne!(prefix("2001:db8::1"), prefix("2001:db8:0:100::1"));
    }

    #[test]
    fn clients_behind_one_address_are_told_apart_by_their_blocks_of_ports() {
        for ipv4 in [24, 32] {
            let lengths = of_bits(ipv4, 56, 4);
            let prefix = |text: &str, port| lengths.prefix(address(text), port);
            assert_eq!(prefix("192.0.2.1", 4096), prefix("192.0.2.1", 8191));
            assert_ne!(prefix("192.0.2.1", 4095), prefix("192.0.2.1", 4096));
            let elsewhere = |port| prefix("198.51.100.1", port);
            assert_eq!(elsewhere(1), elsewhere(65_535), "attack M: it picks its ports");
            let ipv6 = |port| prefix("2001:db8::1", port);
            assert_eq!(ipv6(1), ipv6(65_535), "IPv6 needs no CGNAT");
        }
    }

    #[test]
    fn any_length_is_a_length() {
        for (ipv4, ipv6) in [(0, 0), (32, 128), (u8::MAX, u8::MAX)] {
            let lengths = of_bits(ipv4, ipv6, 0);
            let prefix = |text: &str, port| lengths.prefix(address(text), port);
            let is_one = ipv4 == 0;
            assert_eq!(prefix("192.0.2.1", 1) == prefix("10.0.0.1", 65_535), is_one);
            assert_eq!(prefix("2001:db8::1", 1) == prefix("fd00::1", 65_535), is_one);
            assert_eq!(prefix("fd00::1", 1), prefix("fd00::1", 1));
            assert_ne!(prefix("0.0.0.0", 1), prefix("::", 1), "families are apart");
        }
    }
}
