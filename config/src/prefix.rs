//! Addresses with prefix lengths, as written in ACLs and on ports.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A network: `192.0.2.0/24`, `2001:db8::/32`, or one address without a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// The first address of the network; bits beyond `length` are zero.
    pub network: IpAddr,
    /// Leading bits that count: 0 to 32 for IPv4, 0 to 128 for IPv6.
    pub length: u8,
}

/// An address of ours and the network it is on: `10.97.0.53/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The address itself.
    pub address: IpAddr,
    /// The length of the on-link prefix.
    pub length: u8,
}

/// Why a prefix could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// The part before the slash is no IP address.
    #[error("`{0}` is not an IP address; write for example 192.0.2.0/24 or 2001:db8::/32")]
    Address(String),
    /// The part after the slash is no length.
    #[error("`{text}`: the prefix length must be 0 to {max}")]
    Length {
        /// What was written.
        text: String,
        /// The longest prefix of that family.
        max: u8,
    },
    /// Bits are set beyond the length.
    #[error("`{text}` has bits set beyond its length; the network is {network}")]
    HostBits {
        /// What was written.
        text: String,
        /// The name that was probably meant.
        network: Prefix,
    },
}

impl FromStr for InterfaceAddress {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr =
            address.parse().map_err(|_| PrefixError::Address(address.to_owned()))?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => max,
            Some(length) => length
                .parse()
                .ok()
                .filter(|length| *length <= max)
                .ok_or_else(|| PrefixError::Length { text: text.to_owned(), max })?,
        };
        Ok(Self { address, length })
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let InterfaceAddress { address, length } = text.parse()?;
        let network = Self::of(address, length);
        if network.network != address {
            return Err(PrefixError::HostBits { text: text.to_owned(), network });
        }
        Ok(network)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.length)
    }
}

impl Prefix {
    /// The network of this length that an address is in.
    pub fn of(address: IpAddr, length: u8) -> Self {
        Self { network: mask(address, length), length }
    }

    /// Whether `address` is in this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let Self { network: of, length } = *self;
        InterfaceAddress { address: of, length }.is_on_link(address)
    }
}

impl InterfaceAddress {
    /// Whether `address` is in the network that this address is on.
    pub fn is_on_link(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && mask(address, self.length) == mask(self.address, self.length)
    }
}

/// `address` with every bit beyond `length` cleared.
fn mask(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_with_host_bits_names_the_network() {
        let error = "192.0.2.7/24".parse::<Prefix>().unwrap_err();
        assert!(error.to_string().contains("192.0.2.0/24"), "{error}");
    }

    #[test]
    fn an_address_is_on_link_in_the_network_of_ours_and_no_further() {
        let is_on_link = |ours: &str, address: &str| {
            ours.parse::<InterfaceAddress>().unwrap().is_on_link(address.parse().unwrap())
        };
        assert!(is_on_link("192.0.2.53/24", "192.0.2.0"));
        assert!(is_on_link("192.0.2.53/24", "192.0.2.255"));
        assert!(!is_on_link("192.0.2.53/24", "192.0.3.0"));
        assert!(is_on_link("192.0.2.53", "192.0.2.53"));
        assert!(!is_on_link("192.0.2.53", "192.0.2.52"));
        assert!(is_on_link("192.0.2.53/0", "203.0.113.9"));
        assert!(!is_on_link("0.0.0.1/0", "::1"), "the other family");
        assert!(is_on_link("2001:db8::53/64", "2001:db8::ffff:0:0:1"));
        assert!(!is_on_link("2001:db8::53/64", "2001:db8:0:1::1"));
        assert!(is_on_link("::1/0", "2001:db8::1"));
    }

    #[test]
    fn lengths_run_from_zero_to_the_family_s_bits() {
        assert!("0.0.0.0/0".parse::<Prefix>().is_ok());
        assert!("::/0".parse::<Prefix>().is_ok());
        assert!("192.0.2.1".parse::<Prefix>().is_ok());
        assert!("192.0.2.0/33".parse::<Prefix>().is_err());
        assert!("2001:db8::/129".parse::<Prefix>().is_err());
    }
}
