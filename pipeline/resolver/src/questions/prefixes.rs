//! Client prefixes with their hashes. Clients of one prefix share one part of each bounded resource.

use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};

use pmdns_config::narrow::low_u64;
use pmdns_config::{PrefixLengths, RateLimitSettings};
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::name::Seed;

/// The prefix of a client; `None`: there is no client.
pub(crate) type ClientPrefix = Hashed<Option<pmdns_config::ClientPrefix>>;

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
    const PROBES: Self = {
        let network = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let prefix = pmdns_config::ClientPrefix { network, block: 1 };
        Self {
            address: Hashed { address: network, hash: 1 },
            prefix: Hashed { address: Some(prefix), hash: 1 },
        }
    };
}

/// Which clients count as one, and the seed that their addresses are hashed with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientHasher {
    lengths: PrefixLengths,
    seed: Seed,
}

impl ClientHasher {
    /// The prefix lengths of the rate limit.
    pub(crate) fn new(settings: &RateLimitSettings, seed: Seed) -> Self {
        Self { lengths: PrefixLengths::of(settings), seed }
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
        let prefix = self.lengths.prefix(client, port);
        let hash = self.seed.mix(self.hash(prefix.network), prefix.block.into());
        ClientPrefix { address: Some(prefix), hash }
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
    use std::net::Ipv4Addr;

    use super::*;

    /// A client prefix of this number.
    pub(crate) fn prefix(number: u16) -> ClientPrefix {
        let [high, low] = number.to_be_bytes();
        lengths().prefix(Ipv4Addr::new(10, high, low, 1).into(), 53)
    }

    /// The usual prefixes.
    pub(crate) fn lengths() -> ClientHasher {
        ClientHasher::new(&RateLimitSettings::default(), Seed::new([9; 16]))
    }

    #[test]
    fn clients_of_one_prefix_are_found_by_one_hash_and_families_are_apart() {
        let prefix = |text: &str| lengths().prefix(text.parse().unwrap(), 53);
        assert_eq!(prefix("192.0.2.1"), prefix("192.0.2.255"));
        assert_ne!(prefix("192.0.2.1"), prefix("192.0.3.1"));
        assert_eq!(prefix("2001:db8:0:ff::1"), prefix("2001:db8:0:1:2:3:4:5"));
        assert_ne!(prefix("0.0.0.1"), prefix("::1"));
    }

    #[test]
    fn blocks_of_ports_have_hashes_of_their_own() {
        let settings = RateLimitSettings {
            ipv4_prefix: 32,
            ipv4_port_bits: 4,
            ipv4_port_prefixes: vec!["192.0.2.0/24".parse().unwrap()],
            ..RateLimitSettings::default()
        };
        let clients = ClientHasher::new(&settings, Seed::new([9; 16]));
        let prefix = |port| clients.prefix("192.0.2.1".parse().unwrap(), port);
        assert_eq!(prefix(4096), prefix(8191));
        assert_ne!(prefix(4095).hash, prefix(4096).hash);
    }
}
