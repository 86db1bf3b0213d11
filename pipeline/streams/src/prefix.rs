//! Which clients count as one: those that share the leading bits of their addresses, and behind a CGNAT of their ports.

use std::hash::{Hash, Hasher as _};
use std::net::{IpAddr, SocketAddr};

use pmdns_config::{PortBlocks, RateLimit};
use siphasher::sip::SipHasher13;

/// The leading bits of a client's address, in the family of the address, and of its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientPrefix {
    is_ipv6: bool,
    bits: u128,
    ports: u16,
}

/// How many bits of an address and a port make a prefix: those of the rate limits.
#[derive(Clone, Copy, Debug)]
pub struct PrefixLengths {
    ipv4: u32,
    ipv6: u32,
    ports: PortBlocks,
}

impl PrefixLengths {
    /// The lengths that `settings` say.
    pub fn of(settings: &RateLimit) -> Self {
        Self {
            ipv4: settings.ipv4_prefix.into(),
            ipv6: settings.ipv6_prefix.into(),
            ports: PortBlocks::of(settings),
        }
    }

    /// The prefix of a client.
    pub fn prefix(self, client: SocketAddr) -> ClientPrefix {
        match client.ip().to_canonical() {
            IpAddr::V4(v4) => {
                let host = u32::MAX.checked_shr(self.ipv4).unwrap_or(0);
                ClientPrefix {
                    is_ipv6: false,
                    bits: (v4.to_bits() & !host).into(),
                    ports: self.ports.block(v4, client.port()),
                }
            }
            IpAddr::V6(v6) => {
                let host = u128::MAX.checked_shr(self.ipv6).unwrap_or(0);
                ClientPrefix { is_ipv6: true, bits: v6.to_bits() & !host, ports: 0 }
            }
        }
    }
}

impl ClientPrefix {
    /// Which of `count` queues takes the queries of these clients. With another `seed` it is another one.
    pub fn queue(&self, seed: &[u8; 16], count: usize) -> usize {
        let mut hasher = SipHasher13::new_with_key(seed);
        self.hash(&mut hasher);
        usize::try_from(hasher.finish() % count.max(1) as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_bits(ipv4: u8, ipv6: u8, port_bits: u8) -> PrefixLengths {
        PrefixLengths::of(&RateLimit {
            ipv4_prefix: ipv4,
            ipv6_prefix: ipv6,
            ipv4_port_bits: port_bits,
            ipv4_port_prefixes: vec!["192.0.2.0/24".parse().unwrap()],
            ..RateLimit::default()
        })
    }

    fn at(address: &str, port: u16) -> SocketAddr {
        (address.parse::<IpAddr>().unwrap(), port).into()
    }

    #[test]
    fn clients_of_one_prefix_count_as_one_and_mapped_addresses_are_ipv4() {
        let lengths = of_bits(24, 56, 0);
        let prefix = |text: &str| lengths.prefix(at(text, 1));
        assert_eq!(prefix("192.0.2.1"), prefix("192.0.2.255"));
        assert_eq!(prefix("192.0.2.1"), prefix("::ffff:192.0.2.9"));
        assert_ne!(prefix("192.0.2.1"), prefix("192.0.3.1"));
        assert_eq!(prefix("2001:db8::1"), prefix("2001:db8:0:ff::2"));
        assert_ne!(prefix("2001:db8::1"), prefix("2001:db8:0:100::1"));
        let all = of_bits(0, 0, 0);
        assert_eq!(all.prefix(at("1.2.3.4", 1)), all.prefix(at("9.9.9.9", 65_535)));
        assert_ne!(all.prefix(at("0.0.0.0", 1)), all.prefix(at("::", 1)));
    }

    #[test]
    fn clients_behind_one_address_are_told_apart_by_their_blocks_of_ports() {
        let lengths = of_bits(32, 56, 4);
        let prefix = |port| lengths.prefix(at("192.0.2.1", port));
        assert_eq!(prefix(4096), prefix(8191));
        assert_ne!(prefix(4095), prefix(4096));
        let elsewhere = |port| lengths.prefix(at("198.51.100.1", port));
        assert_eq!(elsewhere(1), elsewhere(65_535), "attack M: it picks its ports");
        let ipv6 = |port| lengths.prefix(at("2001:db8::1", port));
        assert_eq!(ipv6(1), ipv6(65_535), "IPv6 needs no CGNAT");
    }

    #[test]
    fn a_client_stays_on_its_queue_and_clients_spread() {
        let lengths = of_bits(32, 64, 0);
        let mut seen = [0; 4];
        for host in 0..=255 {
            let prefix = lengths.prefix(([10, 0, 0, host], 1).into());
            assert_eq!(prefix.queue(&[1; 16], 4), prefix.queue(&[1; 16], 4));
            seen[prefix.queue(&[1; 16], 4)] += 1;
        }
        assert!(seen.iter().all(|count| *count > 20), "{seen:?}");
    }
}
