//! Hashes of clients' prefixes, read from packets.

use std::net::{Ipv4Addr, Ipv6Addr};

use pmdns_config::PrefixLengths;
use pmdns_config::narrow::low_u64;

use crate::packet::Packet;
use crate::wire::name::Seed;

/// Which clients count as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientPrefixes {
    lengths: PrefixLengths,
    seed: Seed,
}

impl ClientPrefixes {
    /// Those that share as many leading bits of their addresses and ports as `settings` say.
    pub fn new(settings: &pmdns_config::RateLimitSettings, seed: Seed) -> Self {
        Self { lengths: PrefixLengths::of(settings), seed }
    }

    /// Hash of the prefix of a packet's client. [`Seed::hash`] will not do: it takes bytes for letters.
    #[inline(always)]
    pub fn hash(&self, packet: &Packet) -> u64 {
        let frame = packet.frame.bytes();
        let client = packet.layout.client(frame);
        // The number each family starts from keeps 10.0.0.0/24 and 0:0:a00::/56 apart.
        let (family, high, low) = if let Ok(address) = client.try_into() {
            let port = || packet.layout.client_port(frame);
            let (network, block) = self.lengths.of_ipv4(Ipv4Addr::from_octets(address), port);
            (4, u64::from(network.to_bits()), u64::from(block))
        } else if let Ok(address) = client.try_into() {
            let network = self.lengths.of_ipv6(Ipv6Addr::from_octets(address)).to_bits();
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
