//! Answers that are made of other answers: addresses under the prefix of a NAT64, addresses in the place of NXDOMAIN, and none
//! of private networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use serde::Deserialize;

use crate::prefix::Prefix;

/// `[[dns64]]`: AAAA records are made of A records (RFC 6147).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dns64Settings {
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

/// `[[rebinding]]`: public names do not lead to addresses of private networks.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rebinding {
    /// The consequence for an answer with such an address.
    pub action: RebindingAction,
    /// The prefixes of such addresses.
    pub addresses: Vec<Prefix>,
    /// Names that may lead to such addresses, each with all below it.
    pub except: Vec<String>,
    /// The views it holds in; none: all.
    pub views: Vec<String>,
}

impl Default for Rebinding {
    fn default() -> Self {
        let action = RebindingAction::default();
        Self { action, addresses: not_public(), except: Vec::new(), views: Vec::new() }
    }
}

/// The consequence for an answer with an address of a private network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RebindingAction {
    /// The addresses are left out of it.
    #[default]
    Remove,
    /// REFUSED is in its place.
    Refuse,
}

/// Addresses that no public name leads to: of this host, of its links and of private networks.
fn not_public() -> Vec<Prefix> {
    let ipv4 = [
        ([0, 0, 0, 0], 8),          // this host (RFC 1122 section 3.2.1.3)
        ([10, 0, 0, 0], 8),         // private (RFC 1918)
        ([100, 64, 0, 0], 10),      // behind carriers' NAT (RFC 6598)
        ([127, 0, 0, 0], 8),        // loopback (RFC 1122 section 3.2.1.3)
        ([169, 254, 0, 0], 16),     // link-local (RFC 3927)
        ([172, 16, 0, 0], 12),      // private
        ([192, 168, 0, 0], 16),     // private
        ([255, 255, 255, 255], 32), // everybody on the link
    ];
    let ipv6 = [
        (Ipv6Addr::UNSPECIFIED, 128),
        (Ipv6Addr::LOCALHOST, 128),
        (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7), // unique local (RFC 4193)
        (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10), // link-local (RFC 4291)
        (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10), // site-local (RFC 3879)
    ];
    let ipv4 = ipv4.map(|(network, length)| (IpAddr::V4(Ipv4Addr::from(network)), length));
    let ipv6 = ipv6.map(|(network, length)| (IpAddr::V6(network), length));
    ipv4.into_iter().chain(ipv6).map(|(network, length)| Prefix { network, length }).collect()
}

fn one_minute() -> u32 {
    60
}

fn yes() -> bool {
    true
}
