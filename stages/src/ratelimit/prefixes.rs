//! Prefixes of clients: the leading bits of the address, and behind a CGNAT those of the port.

use std::net::Ipv4Addr;

use pmdns_config::PortBlocks;
use pmdns_config::narrow::low_u64;

use crate::packet::Packet;
use crate::wire::name::Seed;

/// Which clients count as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientPrefixes {
    ipv4_mask: u32,
    ipv6_mask: u128,
    ports: PortBlocks,
    seed: Seed,
}

impl ClientPrefixes {
    /// Those that share as many leading bits of their addresses and ports as `settings` say.
    pub fn new(settings: &pmdns_config::RateLimit, seed: Seed) -> Self {
        let ipv4_host = u32::MAX.checked_shr(u32::from(settings.ipv4_prefix)).unwrap_or(0);
        let ipv6_host = u128::MAX.checked_shr(u32::from(settings.ipv6_prefix)).unwrap_or(0);
        let ports = PortBlocks::of(settings);
        Self { ipv4_mask: !ipv4_host, ipv6_mask: !ipv6_host, ports, seed }
    }

    /// Hash of the prefix of a packet's client. [`Seed::hash`] will not do: it takes bytes for letters.
    #[inline(always)]
    pub fn hash(&self, packet: &Packet) -> u64 {
        let frame = packet.frame.bytes();
        let client = packet.layout.client(frame);
        // The number each family starts from keeps 10.0.0.0/24 and 0:0:a00::/56 apart.
        let (family, high, low) = if let Ok(address) = client.try_into() {
            let ports = match self.ports.are_none() {
                true => 0,
                false => self
                    .ports
                    .block(Ipv4Addr::from_octets(address), packet.layout.client_port(frame)),
            };
            (4, u64::from(u32::from_be_bytes(address) & self.ipv4_mask), u64::from(ports))
        } else if let Ok(address) = client.try_into() {
            let network = u128::from_be_bytes(address) & self.ipv6_mask;
            (6, (network >> 64) as u64, low_u64(network))
        } else {
            debug_assert!(false, "an address has 4 or 16 bytes");
            (0, 0, 0)
        };
        self.seed.mix(self.seed.mix(family, high), low)
    }

    /// The same for a packet that goes to the slow path. Health checks have a prefix of their own, so that no clients decide
    /// whether this node is fit.
    #[inline]
    pub fn hash_of_miss(&self, packet: &Packet) -> u64 {
        match packet.is_probe() {
            // No family has this number.
            true => self.seed.mix(0, 0),
            false => self.hash(packet),
        }
    }

    /// Hash of a prefix with this hash, and a view.
    #[inline]
    pub(super) fn hash_in_view(&self, hash: u64, view: u8) -> u64 {
        self.seed.mix(hash, u64::from(view))
    }

    /// Hash of what has this hash, over streams.
    #[inline]
    pub(super) fn hash_over_streams(&self, hash: u64) -> u64 {
        // The number of no view.
        self.seed.mix(hash, u64::MAX)
    }
}
