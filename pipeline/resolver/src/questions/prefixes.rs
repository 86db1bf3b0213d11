//! Client prefixes: clients whose addresses have the same leading bits share one part of each bounded resource. Behind a
//! CGNAT, so do those whose ports have.

use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pmdns_config::narrow::low_u64;
use pmdns_config::{PortBlocks, RateLimit};
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::name::Seed;

/// The network of a client, and its block of ports; `None`: there is no client.
pub(crate) type ClientPrefix = Hashed<Option<(IpAddr, u16)>>;

/// A client, as tables know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) address: Hashed<IpAddr>,
    pub(crate) prefix: ClientPrefix,
}

/// An address with its hash. Several tables find it by that, so it is computed once for a miss. Clients choose their
/// addresses, so the hash is seeded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashed<A> {
    address: A,
    hash: u64,
}

impl<A: PartialEq> PartialEq for Hashed<A> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.address == other.address
    }
}

impl<A: Eq> Eq for Hashed<A> {}

impl<A> Hash for Hashed<A> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl ClientPrefix {
    /// Stands for pmdns itself: questions that no client waits for.
    pub(crate) const OURS: Self = Self { address: None, hash: 0 };
}

impl Client {
    /// Health checks. They ask in the name of a client, and share nothing with it, so that no clients decide whether this node
    /// is fit. No client has this address, and no network of IPv6 has blocks of ports.
    const PROBES: Self = Self {
        address: Hashed { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), hash: 1 },
        prefix: Hashed { address: Some((IpAddr::V6(Ipv6Addr::UNSPECIFIED), 1)), hash: 1 },
    };
}

/// How many leading bits of an address, and of a port, make a prefix.
#[derive(Clone, Copy, Debug)]
pub struct PrefixLengths {
    ipv4: u8,
    ipv6: u8,
    ports: PortBlocks,
    seed: Seed,
}

impl PrefixLengths {
    /// The prefix lengths of the rate limit. Addresses are hashed with `seed`.
    pub fn of(settings: &RateLimit, seed: Seed) -> Self {
        let ports = PortBlocks::of(settings);
        Self { ipv4: settings.ipv4_prefix, ipv6: settings.ipv6_prefix, ports, seed }
    }

    /// The client of a miss.
    pub(crate) fn client(self, miss: &Miss) -> Client {
        if miss.is_probe() {
            return Client::PROBES;
        }
        let address = client_of(miss);
        let prefix = self.prefix(address, miss.client_port());
        Client { address: Hashed { address, hash: self.hash(address) }, prefix }
    }

    /// The prefix of an address and a port.
    pub(crate) fn prefix(self, client: IpAddr, port: u16) -> ClientPrefix {
        let (network, block) = match client {
            IpAddr::V4(address) => {
                let host = u32::MAX.checked_shr(self.ipv4.into()).unwrap_or(0);
                let network = Ipv4Addr::from_bits(address.to_bits() & !host);
                (network.into(), self.ports.block(address, port))
            }
            IpAddr::V6(address) => {
                let host = u128::MAX.checked_shr(self.ipv6.into()).unwrap_or(0);
                (Ipv6Addr::from_bits(address.to_bits() & !host).into(), 0)
            }
        };
        let hash = self.seed.mix(self.hash(network), block.into());
        ClientPrefix { address: Some((network, block)), hash }
    }

    fn hash(self, address: IpAddr) -> u64 {
        match address {
            IpAddr::V4(address) => self.seed.mix(4, address.to_bits().into()),
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                self.seed.mix(self.seed.mix(6, (bits >> 64) as u64), low_u64(bits))
            }
        }
    }
}

/// The address of the client that a miss came from.
fn client_of(miss: &Miss) -> IpAddr {
    let address = miss.client();
    match <[u8; 4]>::try_from(address) {
        Ok(address) => address.into(),
        Err(_) => <[u8; 16]>::try_from(address).expect("an address has 4 or 16 bytes").into(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A client prefix of this number.
    pub(crate) fn prefix(number: u16) -> ClientPrefix {
        let [high, low] = number.to_be_bytes();
        lengths().prefix(Ipv4Addr::new(10, high, low, 1).into(), 53)
    }

    /// The usual prefixes.
    pub(crate) fn lengths() -> PrefixLengths {
        PrefixLengths::of(&RateLimit::default(), Seed::new([9; 16]))
    }

    #[test]
    fn clients_share_a_prefix_by_their_leading_bits() {
        let lengths = lengths();
        let prefix = |text: &str| lengths.prefix(text.parse().unwrap(), 53);
        assert_eq!(prefix("192.0.2.1"), prefix("192.0.2.255"));
        assert_ne!(prefix("192.0.2.1"), prefix("192.0.3.1"));
        assert_eq!(prefix("2001:db8:0:ff::1"), prefix("2001:db8:0:1:2:3:4:5"));
        assert_ne!(prefix("2001:db8:0:100::1"), prefix("2001:db8::1"));
        assert_ne!(prefix("0.0.0.1"), prefix("::1"), "families are apart");
    }

    #[test]
    fn clients_behind_one_address_are_told_apart_by_their_blocks_of_ports() {
        let settings = RateLimit {
            ipv4_prefix: 32,
            ipv4_port_bits: 4,
            ipv4_port_prefixes: vec!["192.0.2.0/24".parse().unwrap()],
            ..RateLimit::default()
        };
        let lengths = PrefixLengths::of(&settings, Seed::new([9; 16]));
        let prefix = |text: &str, port| lengths.prefix(text.parse().unwrap(), port);
        assert_eq!(prefix("192.0.2.1", 4096), prefix("192.0.2.1", 8191));
        assert_ne!(prefix("192.0.2.1", 4095), prefix("192.0.2.1", 4096));
        assert_eq!(prefix("2001:db8::1", 1), prefix("2001:db8::1", 65_535));
    }

    #[test]
    fn any_length_is_a_length() {
        for (ipv4, ipv6) in [(0, 0), (32, 128), (u8::MAX, u8::MAX)] {
            let lengths = PrefixLengths { ipv4, ipv6, ..lengths() };
            let prefix = |text: &str| lengths.prefix(text.parse().unwrap(), 53);
            let is_one = ipv4 == 0;
            assert_eq!(prefix("192.0.2.1") == prefix("10.0.0.1"), is_one);
            assert_eq!(prefix("2001:db8::1") == prefix("fd00::1"), is_one);
            assert_eq!(prefix("fd00::1"), prefix("fd00::1"));
        }
    }
}
