//! The logged form of a client's address: all of it, a prefix, or a hash that only those who have the secret can check.

use std::hash::Hasher as _;
use std::net::IpAddr;

use pmdns_config::{BrokenRule, QueryLogSettings};
use siphasher::sip::SipHasher24;

use crate::records::Mask;

/// How clients are named in the log.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    mask: Mask,
    hash: Option<SipHasher24>,
}

/// A client, as the log names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientName {
    /// All of its address.
    Full(IpAddr),
    /// The beginning of its address.
    Prefix(IpAddr),
    /// A hash of what is to be seen of its address.
    Hash(u64),
}

impl Clients {
    /// By the configuration, with the secret that it names.
    pub(super) fn new(config: &QueryLogSettings) -> Result<Self, BrokenRule> {
        let secret = config.client_secret()?;
        Ok(Self {
            mask: Mask::new(config.ipv4_prefix, config.ipv6_prefix),
            hash: secret.map(|secret| SipHasher24::new_with_key(&secret.0)),
        })
    }

    /// The name of the client at this address.
    pub(super) fn name(&self, address: IpAddr) -> ClientName {
        let masked = self.mask.of(address);
        let Some(mut hash) = self.hash else {
            return if self.mask.is_full(address) {
                ClientName::Full(masked)
            } else {
                ClientName::Prefix(masked)
            };
        };
        match masked {
            IpAddr::V4(v4) => hash.write(&v4.octets()),
            IpAddr::V6(v6) => hash.write(&v6.octets()),
        }
        ClientName::Hash(hash.finish())
    }
}

impl std::fmt::Display for ClientName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full(address) | Self::Prefix(address) => address.fmt(f),
            Self::Hash(hash) => write!(f, "#{hash:016x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(config: &QueryLogSettings, address: &str) -> String {
        Clients::new(config).unwrap().name(address.parse().unwrap()).to_string()
    }

    #[test]
    fn an_address_is_logged_whole_by_prefix_or_hashed() {
        let mut config = QueryLogSettings::default();
        assert_eq!(named(&config, "192.0.2.77"), "192.0.2.77");
        (config.ipv4_prefix, config.ipv6_prefix) = (24, 48);
        assert_eq!(named(&config, "192.0.2.77"), "192.0.2.0");
        assert_eq!(named(&config, "2001:db8:1:2::7"), "2001:db8:1::");
        (config.ipv4_prefix, config.ipv6_prefix) = (0, 0);
        assert_eq!(named(&config, "192.0.2.77"), "0.0.0.0");
        assert_eq!(named(&config, "2001:db8:1:2::7"), "::");
    }

    #[test]
    fn a_hash_depends_on_the_secret_and_on_what_is_to_be_seen() {
        let path = std::env::temp_dir().join(format!("pmdns-log-secret-{}", std::process::id()));
        let mut config = QueryLogSettings {
            client_secret_file: Some(path.clone()),
            ..QueryLogSettings::default()
        };
        std::fs::write(&path, "000102030405060708090a0b0c0d0e0f\n").unwrap();
        let one = named(&config, "192.0.2.77");
        assert!(one.starts_with('#') && one.len() == 17, "{one}");
        assert_eq!(one, named(&config, "192.0.2.77"));
        assert_ne!(one, named(&config, "192.0.2.78"));
        config.ipv4_prefix = 24;
        assert_eq!(named(&config, "192.0.2.77"), named(&config, "192.0.2.78"));
        std::fs::write(&path, "ff0102030405060708090a0b0c0d0e0f\n").unwrap();
        config.ipv4_prefix = 32;
        assert_ne!(one, named(&config, "192.0.2.77"), "another secret");
        std::fs::write(&path, "short").unwrap();
        assert!(Clients::new(&config).is_err());
        std::fs::remove_file(path).unwrap();
    }
}
