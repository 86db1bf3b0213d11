//! Answers that are made of other answers: addresses under the prefix of a NAT64.

use std::net::Ipv6Addr;

use serde::Deserialize;

use crate::prefix::Prefix;

/// `[[dns64]]`: AAAA records are made of A records (RFC 6147).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dns64 {
    /// The prefix under which a NAT64 reaches IPv4 addresses (RFC 6052).
    pub prefix: Prefix,
    /// AAAA records with addresses in these prefixes are ignored.
    #[serde(default = "mapped")]
    pub exclude: Vec<Prefix>,
    /// A records with addresses in these prefixes are not used.
    #[serde(default)]
    pub exclude_ipv4: Vec<Prefix>,
    /// The views it holds in; none: all.
    #[serde(default)]
    pub views: Vec<String>,
}

/// IPv4-mapped addresses, which mean nothing outside of a host (RFC 6147 section 5.1.4).
fn mapped() -> Vec<Prefix> {
    vec![Prefix { network: Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0).into(), length: 96 }]
}
