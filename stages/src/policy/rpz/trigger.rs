//! The trigger of a policy zone's rule, by its owner name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pmdns_config::Prefix;

use super::error::RpzError;
use crate::policy::zone::{LocalZone, text};
use crate::wire::name::suffixes;

/// The trigger of a rule.
pub(super) enum Trigger {
    Name(Vec<u8>),
    Below(Vec<u8>),
    Client(Prefix),
    Response(Prefix),
    Server(Vec<u8>),
    ServerBelow(Vec<u8>),
    ServerAddress(Prefix),
}

/// The trigger of the rule of an owner.
pub(super) fn trigger(owner: &[u8]) -> Result<Trigger, RpzError> {
    let labels: Vec<&[u8]> = labels(owner);
    let prefix = |labels| prefix(labels).ok_or_else(|| RpzError::Prefix(text(owner)));
    match labels.split_last() {
        Some((&b"rpz-client-ip", address)) => Ok(Trigger::Client(prefix(address)?)),
        Some((&b"rpz-ip", address)) => Ok(Trigger::Response(prefix(address)?)),
        Some((&b"rpz-nsip", address)) => Ok(Trigger::ServerAddress(prefix(address)?)),
        Some((&b"rpz-nsdname", _)) => {
            let name = [owner.strip_suffix(b"\x0brpz-nsdname\0").unwrap_or(owner), &[0]].concat();
            Ok(match LocalZone::above_wildcard(&name) {
                Some(above) => Trigger::ServerBelow(above.to_vec()),
                None => Trigger::Server(name),
            })
        }
        _ => Ok(match LocalZone::above_wildcard(owner) {
            Some(above) => Trigger::Below(above.to_vec()),
            None => Trigger::Name(owner.to_vec()),
        }),
    }
}

fn labels(name: &[u8]) -> Vec<&[u8]> {
    let label = |rest: &'_ [u8]| 1..1 + usize::from(rest[0]);
    suffixes(name).filter(|rest| rest.len() > 1).map(|rest| &rest[label(rest)]).collect()
}

/// A prefix as rules write it: its length, and then the address from its end to its start. `zz` stands for the
/// longest run of zeros.
fn prefix(labels: &[&[u8]]) -> Option<Prefix> {
    let (length, address) = labels.split_first()?;
    let length: u8 = std::str::from_utf8(length).ok()?.parse().ok()?;
    let words: Vec<&str> = address
        .iter()
        .rev()
        .map(|label| std::str::from_utf8(label))
        .collect::<Result<_, _>>()
        .ok()?;
    let decimal = || -> Option<IpAddr> {
        let bytes: Vec<u8> = words.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into())
    };
    let hexadecimal = || -> Option<IpAddr> {
        let zeros = words.iter().position(|word| *word == "zz");
        let hex = |words: &[&str]| -> Option<Vec<u16>> {
            words.iter().map(|word| u16::from_str_radix(word, 16).ok()).collect()
        };
        let words = match zeros {
            None => hex(&words)?,
            Some(at) => {
                let (before, after) = (hex(&words[..at])?, hex(&words[at + 1..])?);
                let zeros = 8usize.checked_sub(before.len() + after.len())?;
                [before, vec![0; zeros], after].concat()
            }
        };
        Some(Ipv6Addr::from(<[u16; 8]>::try_from(words).ok()?).into())
    };
    let network = decimal().or_else(hexadecimal)?;
    format!("{network}/{length}").parse().ok()
}
