//! Answers that are made of other answers: addresses under the prefix of a NAT64, and addresses in the place of NXDOMAIN.

use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;

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

/// `[[redirect]]`: clients that ask for addresses of a name that does not exist get these.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    /// The addresses.
    pub addresses: Vec<IpAddr>,
    /// Their TTL, in seconds.
    #[serde(default = "one_minute")]
    pub ttl: u32,
    /// Leave all names alone whose first label is not `www`.
    #[serde(default = "yes")]
    pub only_www: bool,
    /// The names that it is about, each with all below it; none, and no file: all names.
    #[serde(default)]
    pub names: Vec<String>,
    /// A file with more of them; absent: none.
    pub file: Option<PathBuf>,
    /// Names that are left alone, each with all below it.
    #[serde(default)]
    pub except: Vec<String>,
    /// A file with more of them; absent: none.
    pub except_file: Option<PathBuf>,
    /// The text for people; absent: that the name does not exist.
    pub text: Option<String>,
    /// The views it holds in; none: all.
    #[serde(default)]
    pub views: Vec<String>,
}

fn one_minute() -> u32 {
    60
}

fn yes() -> bool {
    true
}
