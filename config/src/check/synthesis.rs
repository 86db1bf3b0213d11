//! The rules of `[[dns64]]`.

use std::net::IpAddr;

use super::{Checked, Mistakes, at_most, broken};
use crate::limits::{MAX_DNS64, MAX_EXCLUDED};
use crate::prefix::Prefix;
use crate::problem::Problem;
use crate::settings::Dns64;

/// The lengths of prefixes that IPv4 addresses are put under (RFC 6052 section 2.2).
const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];
/// The byte that is zero in every address under such a prefix.
const ZERO_BYTE: usize = 8;

pub(super) fn check_dns64(all: &[Dns64], found: &mut Mistakes) {
    found.note(at_most("dns64", "prefixes", all.len(), MAX_DNS64));
    for (index, dns64) in all.iter().enumerate() {
        let key = |name: &str| format!("dns64[{index}].{name}");
        found.note(check_prefix(&key("prefix"), dns64.prefix));
        found.note(check_excluded(&key("exclude"), &dns64.exclude, "IPv6", IpAddr::is_ipv6));
        let (excluded, is_family) = (&dns64.exclude_ipv4, IpAddr::is_ipv4);
        found.note(check_excluded(&key("exclude_ipv4"), excluded, "IPv4", is_family));
    }
}

fn check_prefix(key: &str, prefix: Prefix) -> Checked {
    let has_room = |octets: [u8; 16]| octets[ZERO_BYTE] == 0 && LENGTHS.contains(&prefix.length);
    match prefix.network {
        IpAddr::V6(network) if has_room(network.octets()) => Ok(()),
        _ => broken(key, Problem::NoTranslationPrefix(prefix)),
    }
}

fn check_excluded(
    key: &str,
    prefixes: &[Prefix],
    family: &'static str,
    is_family: fn(&IpAddr) -> bool,
) -> Checked {
    at_most(key, "prefixes", prefixes.len(), MAX_EXCLUDED)?;
    match prefixes.iter().position(|prefix| !is_family(&prefix.network)) {
        Some(at) => {
            let problem = Problem::PrefixFamily { prefix: prefixes[at], family };
            broken(format!("{key}[{at}]"), problem)
        }
        None => Ok(()),
    }
}
