//! Which clients count as one: those that share the leading bits of their addresses, and behind a CGNAT of their ports.

use std::collections::HashMap;
use std::hash::{Hash, Hasher as _};
use std::net::{IpAddr, SocketAddr};

use pmdns_config::RateLimit;
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
    ports: u32,
}

impl PrefixLengths {
    /// The lengths that `settings` say.
    pub fn of(settings: &RateLimit) -> Self {
        Self {
            ipv4: settings.ipv4_prefix.into(),
            ipv6: settings.ipv6_prefix.into(),
            ports: settings.ipv4_port_bits.into(),
        }
    }

    /// The prefix of a client.
    pub fn prefix(self, client: SocketAddr) -> ClientPrefix {
        match client.ip().to_canonical() {
            IpAddr::V4(v4) => {
                let host = u32::MAX.checked_shr(self.ipv4).unwrap_or(0);
                let others = u16::MAX.checked_shr(self.ports).unwrap_or(0);
                ClientPrefix {
                    is_ipv6: false,
                    bits: (v4.to_bits() & !host).into(),
                    ports: client.port() & !others,
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

/// How much the clients of each prefix have of something.
#[derive(Debug, Default)]
pub(crate) struct PrefixCounts(HashMap<ClientPrefix, usize>);

impl PrefixCounts {
    /// How much the clients of a prefix have.
    pub(crate) fn of(&self, prefix: ClientPrefix) -> usize {
        self.0.get(&prefix).copied().unwrap_or(0)
    }

    /// They have one more.
    pub(crate) fn add(&mut self, prefix: ClientPrefix) {
        *self.0.entry(prefix).or_default() += 1;
    }

    /// They have one less.
    pub(crate) fn take_away(&mut self, prefix: ClientPrefix) {
        if let Some(count) = self.0.get_mut(&prefix) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&prefix);
            }
        }
    }

    /// Whether nobody has any.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str, port: u16) -> SocketAddr {
        (address.parse::<IpAddr>().unwrap(), port).into()
    }

    #[test]
    fn clients_of_one_prefix_count_as_one_and_mapped_addresses_are_ipv4() {
        let lengths = PrefixLengths { ipv4: 24, ipv6: 56, ports: 0 };
        let prefix = |text: &str| lengths.prefix(at(text, 1));
        assert_eq!(prefix("192.0.2.1"), prefix("192.0.2.255"));
        assert_eq!(prefix("192.0.2.1"), prefix("::ffff:192.0.2.9"));
        assert_ne!(prefix("192.0.2.1"), prefix("192.0.3.1"));
        assert_eq!(prefix("2001:db8::1"), prefix("2001:db8:0:ff::2"));
        assert_ne!(prefix("2001:db8::1"), prefix("2001:db8:0:100::1"));
        let all = PrefixLengths { ipv4: 0, ipv6: 0, ports: 0 };
        assert_eq!(all.prefix(at("1.2.3.4", 1)), all.prefix(at("9.9.9.9", 65_535)));
        assert_ne!(all.prefix(at("0.0.0.0", 1)), all.prefix(at("::", 1)));
    }

    #[test]
    fn clients_behind_one_address_are_told_apart_by_their_blocks_of_ports() {
        let lengths = PrefixLengths { ipv4: 32, ipv6: 56, ports: 4 };
        let prefix = |port| lengths.prefix(at("192.0.2.1", port));
        assert_eq!(prefix(4096), prefix(8191));
        assert_ne!(prefix(4095), prefix(4096));
        let ipv6 = |port| lengths.prefix(at("2001:db8::1", port));
        assert_eq!(ipv6(1), ipv6(65_535), "IPv6 needs no CGNAT");
    }

    #[test]
    fn a_client_stays_on_its_queue_and_clients_spread() {
        let lengths = PrefixLengths { ipv4: 32, ipv6: 64, ports: 0 };
        let mut seen = [0; 4];
        for host in 0..=255 {
            let prefix = lengths.prefix(([10, 0, 0, host], 1).into());
            assert_eq!(prefix.queue(&[1; 16], 4), prefix.queue(&[1; 16], 4));
            seen[prefix.queue(&[1; 16], 4)] += 1;
        }
        assert!(seen.iter().all(|count| *count > 20), "{seen:?}");
    }
}
