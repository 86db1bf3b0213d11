//! The rules of `[[dns64]]`, `[[redirect]]` and `[[rebinding]]`.

use std::net::{IpAddr, Ipv4Addr};

use super::names::{check_exceptions, check_file, check_names, check_text};
use super::rules::{Checked, Mistakes, at_most, broken, in_range};
use crate::limits::{
    MAX_DNS64, MAX_EXCLUDED, MAX_REBINDING_ADDRESSES, MAX_REBINDINGS, MAX_REDIRECT_ADDRESSES,
    MAX_REDIRECT_TTL, MAX_REDIRECTS,
};
use crate::prefix::Prefix;
use crate::problem::BrokenRule;
use crate::settings::{Dns64Settings, Rebinding, Redirect};

/// The lengths of prefixes that IPv4 addresses are put under (RFC 6052 section 2.2).
const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];
/// The byte that is zero in every address under such a prefix.
const ZERO_BYTE: usize = 8;

pub(super) fn check_dns64(all: &[Dns64Settings], found: &mut Mistakes) {
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
        _ => broken(key, BrokenRule::NoTranslationPrefix(prefix)),
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
            let problem = BrokenRule::PrefixFamily { prefix: prefixes[at], family };
            broken(format!("{key}[{at}]"), problem)
        }
        None => Ok(()),
    }
}

pub(super) fn check_redirects(all: &[Redirect], found: &mut Mistakes) {
    found.note(at_most("redirect", "redirections", all.len(), MAX_REDIRECTS));
    for (index, redirect) in all.iter().enumerate() {
        let key = |name: &str| format!("redirect[{index}].{name}");
        found.note(check_addresses(&key("addresses"), &redirect.addresses));
        found.note(in_range(&key("ttl"), redirect.ttl, 1, MAX_REDIRECT_TTL));
        check_names(&redirect.names, &key("names"), found);
        check_names(&redirect.except, &key("except"), found);
        for (name, file) in [("file", &redirect.file), ("except_file", &redirect.except_file)] {
            found.note(file.as_ref().map_or(Ok(()), |file| check_file(&key(name), file)));
        }
        found.note(check_text(&key("text"), redirect.text.as_deref()));
    }
}

pub(super) fn check_rebindings(all: &[Rebinding], found: &mut Mistakes) {
    found.note(at_most("rebinding", "tables", all.len(), MAX_REBINDINGS));
    for (index, rebinding) in all.iter().enumerate() {
        let key = |name: &str| format!("rebinding[{index}].{name}");
        let prefixes = rebinding.addresses.len();
        found.note(match prefixes {
            0 => broken(
                key("addresses"),
                BrokenRule::Empty("prefixes, or leave the key out for those of private networks"),
            ),
            _ => at_most(&key("addresses"), "prefixes", prefixes, MAX_REBINDING_ADDRESSES),
        });
        check_exceptions(&rebinding.except, &key("except"), found);
    }
}

fn check_addresses(key: &str, addresses: &[IpAddr]) -> Checked {
    if addresses.is_empty() {
        return broken(
            key,
            BrokenRule::Empty("the addresses of a web server, as in [\"192.0.2.80\"]"),
        );
    }
    at_most(key, "addresses", addresses.len(), MAX_REDIRECT_ADDRESSES)?;
    for (index, address) in addresses.iter().enumerate() {
        let path = |index| format!("{key}[{index}]");
        let no_server = address.is_unspecified() || address.is_loopback() || address.is_multicast();
        if no_server || *address == IpAddr::V4(Ipv4Addr::BROADCAST) {
            return broken(path(index), BrokenRule::NoServer(*address));
        }
        if let Some(other) = addresses[..index].iter().position(|one| one == address) {
            let (value, other, fix) = (address.to_string(), path(other), "remove one of the two");
            return broken(path(index), BrokenRule::Twice { value, other, fix });
        }
    }
    Ok(())
}
