//! Client prefixes: clients whose addresses have the same leading bits share what is bounded.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pmdns_config::RateLimit;
use pmdns_stages::miss::Miss;

/// The network of a client; `None`: there is no client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientPrefix(Option<IpAddr>);

impl ClientPrefix {
    /// Whose the questions are that no client waits for.
    pub(crate) const OURS: Self = Self(None);
}

/// How many leading bits of an address tell clients apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixLengths {
    ipv4: u8,
    ipv6: u8,
}

impl PrefixLengths {
    /// The lengths that the rate limit has.
    pub fn of(settings: &RateLimit) -> Self {
        Self { ipv4: settings.ipv4_prefix, ipv6: settings.ipv6_prefix }
    }

    /// The prefix of an address.
    pub(crate) fn prefix(self, client: IpAddr) -> ClientPrefix {
        ClientPrefix(Some(match client {
            IpAddr::V4(address) => {
                let host = u32::MAX.checked_shr(self.ipv4.into()).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & !host).into()
            }
            IpAddr::V6(address) => {
                let host = u128::MAX.checked_shr(self.ipv6.into()).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & !host).into()
            }
        }))
    }
}

/// The address of the client that a miss came from.
pub(crate) fn client_of(miss: &Miss) -> IpAddr {
    let address = miss.client();
    match <[u8; 4]>::try_from(address) {
        Ok(address) => address.into(),
        Err(_) => <[u8; 16]>::try_from(address).expect("an address has 4 or 16 bytes").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_share_a_prefix_by_their_leading_bits() {
        let lengths = PrefixLengths::of(&RateLimit::default());
        let prefix = |text: &str| lengths.prefix(text.parse().unwrap());
        assert_eq!(prefix("192.0.2.1"), prefix("192.0.2.255"));
        assert_ne!(prefix("192.0.2.1"), prefix("192.0.3.1"));
        assert_eq!(prefix("2001:db8:0:ff::1"), prefix("2001:db8:0:1:2:3:4:5"));
        assert_ne!(prefix("2001:db8:0:100::1"), prefix("2001:db8::1"));
        assert_ne!(prefix("0.0.0.1"), prefix("::1"), "families are apart");
    }

    #[test]
    fn any_length_is_a_length() {
        for (ipv4, ipv6) in [(0, 0), (32, 128), (u8::MAX, u8::MAX)] {
            let lengths = PrefixLengths { ipv4, ipv6 };
            let prefix = |text: &str| lengths.prefix(text.parse().unwrap());
            let is_one = ipv4 == 0;
            assert_eq!(prefix("192.0.2.1") == prefix("10.0.0.1"), is_one);
            assert_eq!(prefix("2001:db8::1") == prefix("fd00::1"), is_one);
            assert_eq!(prefix("fd00::1"), prefix("fd00::1"));
        }
    }
}
