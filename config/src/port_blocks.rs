//! Blocks of ports: they tell clients behind one address of a CGNAT apart.
//!
//! Only addresses of listed prefixes have blocks. A client elsewhere picks its ports itself, and would count as many clients.

use std::net::{IpAddr, Ipv4Addr};

use crate::limits::MAX_PORT_PREFIXES;
use crate::settings::RateLimitSettings;

/// Which addresses have blocks of ports, and how large those are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortBlocks {
    /// The bits of a port that are its block; 0: there are no blocks.
    mask: u16,
    /// Networks with their masks; the rest of the list has no address.
    networks: [(u32, u32); MAX_PORT_PREFIXES],
}

impl PortBlocks {
    /// A network that no address is in.
    const NOBODY: (u32, u32) = (1, 0);

    /// The blocks of `ratelimit.ipv4_port_bits` and `ratelimit.ipv4_port_prefixes`.
    pub(crate) fn of(settings: &RateLimitSettings) -> Self {
        let rest = u16::MAX.checked_shr(settings.ipv4_port_bits.into()).unwrap_or(0);
        let mut networks = [Self::NOBODY; MAX_PORT_PREFIXES];
        for (place, prefix) in networks.iter_mut().zip(&settings.ipv4_port_prefixes) {
            if let IpAddr::V4(network) = prefix.network {
                let host = u32::MAX.checked_shr(prefix.length.into()).unwrap_or(0);
                *place = (network.to_bits() & !host, !host);
            }
        }
        Self { mask: !rest, networks }
    }

    /// Whether no address has any.
    #[inline(always)]
    pub(crate) fn are_none(&self) -> bool {
        self.mask == 0
    }

    /// The block of a client's port; 0 where the client has no blocks.
    #[inline(never)]
    pub(crate) fn block(&self, address: Ipv4Addr, port: u16) -> u16 {
        let is_in = |(network, mask): &(u32, u32)| address.to_bits() & mask == *network;
        if self.are_none() || !self.networks.iter().any(is_in) {
            return 0;
        }
        port & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(bits: u8, prefixes: &[&str]) -> PortBlocks {
        let ipv4_port_prefixes = prefixes.iter().map(|text| text.parse().unwrap()).collect();
        let settings = RateLimitSettings {
            ipv4_port_bits: bits,
            ipv4_port_prefixes,
            ..RateLimitSettings::default()
        };
        PortBlocks::of(&settings)
    }

    #[test]
    fn attack_m_only_addresses_of_a_cgnat_have_blocks_of_ports() {
        let blocks = blocks(4, &["192.0.2.0/24", "198.51.100.7/32"]);
        let block = |address: &str, port| blocks.block(address.parse().unwrap(), port);
        assert_eq!([4096, 8191, 8192].map(|port| block("192.0.2.1", port)), [4096, 4096, 8192]);
        assert_eq!(block("198.51.100.7", u16::MAX), 0xf000);
        for other in ["198.51.100.8", "10.0.0.1", "0.0.0.0", "0.0.0.1"] {
            assert!((0..=u16::MAX).all(|port| block(other, port) == 0), "{other}");
        }
    }

    #[test]
    fn without_bits_or_prefixes_nobody_has_blocks() {
        assert!(blocks(0, &["0.0.0.0/0"]).are_none());
        assert_eq!(blocks(8, &[]).block(Ipv4Addr::UNSPECIFIED, u16::MAX), 0);
        assert_eq!(blocks(8, &["0.0.0.0/0"]).block(Ipv4Addr::BROADCAST, 0x1234), 0x1200);
    }
}
