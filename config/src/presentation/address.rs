//! Addresses in a record's data: prefixes of APL, gateways of IPSECKEY and AMTRELAY, hardware addresses, locators.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Problem;
use super::fields::DataWords;
use super::number::decimal;
use super::text::put_name;
use crate::narrow::to_u8;

/// Takes an IPv4 address.
pub(super) fn put_v4(out: &mut Vec<u8>, words: &mut DataWords<'_, '_>) -> Result<(), Problem> {
    out.extend(words.take_as("an IPv4 address", |text| text.parse::<Ipv4Addr>().ok())?.octets());
    Ok(())
}

/// Takes an IPv6 address.
pub(super) fn put_v6(out: &mut Vec<u8>, words: &mut DataWords<'_, '_>) -> Result<(), Problem> {
    out.extend(words.take_as("an IPv6 address", |text| text.parse::<Ipv6Addr>().ok())?.octets());
    Ok(())
}

/// Takes all words that are left as prefixes (RFC 3123 section 5).
pub(super) fn put_prefixes(
    out: &mut Vec<u8>,
    words: &mut DataWords<'_, '_>,
) -> Result<(), Problem> {
    while words.len() > 0 {
        let what = "a prefix like 1:192.0.2.0/24 or !2:2001:db8::/32";
        out.extend(words.take_as(what, prefix)?);
    }
    Ok(())
}

fn prefix(text: &str) -> Option<Vec<u8>> {
    let (negation, text) = match text.strip_prefix('!') {
        Some(text) => (0x80, text),
        None => (0, text),
    };
    let (family, text) = text.split_once(':')?;
    let (address, len) = text.split_once('/')?;
    let len: u8 = decimal(len)?;
    let (family, max, octets) = match decimal::<u16>(family)? {
        1 => (1, 32, address.parse::<Ipv4Addr>().ok()?.octets().to_vec()),
        2 => (2, 128, address.parse::<Ipv6Addr>().ok()?.octets().to_vec()),
        _ => return None,
    };
    let used = octets.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
    let mut wire = vec![0, family, Some(len).filter(|len| *len <= max)?, negation | to_u8(used)];
    wire.extend(&octets[..used]);
    Some(wire)
}

/// Whether bytes are prefixes, of families that have a text or others.
pub(super) fn are_prefixes(mut wire: &[u8]) -> bool {
    while let [high, low, prefix, len, rest @ ..] = wire {
        let len = usize::from(len & 0x7f);
        let (max_prefix, max_len) = match u16::from_be_bytes([*high, *low]) {
            1 => (32, 4),
            2 => (128, 16),
            _ => (u8::MAX, 127),
        };
        let Some((address, rest)) = rest.split_at_checked(len) else { return false };
        if *prefix > max_prefix || len > max_len || address.last() == Some(&0) {
            return false;
        }
        wire = rest;
    }
    wire.is_empty()
}

/// Takes the precedence, gateway type, algorithm and gateway of an IPSECKEY record (RFC 4025 section 3.1).
pub(super) fn put_gateway(out: &mut Vec<u8>, words: &mut DataWords<'_, '_>) -> Result<(), Problem> {
    let number = |words: &mut DataWords<'_, '_>| words.take_as("a number up to 255", decimal::<u8>);
    let (precedence, kind, algorithm) = (number(words)?, number(words)?, number(words)?);
    out.extend([precedence, kind, algorithm]);
    put_host(out, words, kind)
}

/// Takes the precedence, discovery bit, type and relay of an AMTRELAY record (RFC 8777 section 4.3.1).
pub(super) fn put_relay(out: &mut Vec<u8>, words: &mut DataWords<'_, '_>) -> Result<(), Problem> {
    let precedence = words.take_as("a number up to 255", decimal::<u8>)?;
    let discovery = words.take_as("0 or 1", |text| decimal::<u8>(text).filter(|bit| *bit < 2))?;
    let kind = words.take_as("a type of relay, 0 to 3", decimal::<u8>)?;
    out.extend([precedence, discovery << 7 | kind & 0x7f]);
    put_host(out, words, kind)
}

/// Takes a host in the form that a number says.
fn put_host(out: &mut Vec<u8>, words: &mut DataWords<'_, '_>, kind: u8) -> Result<(), Problem> {
    match kind {
        0 => words.take_as("`.`, which stands for no host", |text| (text == ".").then_some(())),
        1 => put_v4(out, words),
        2 => put_v6(out, words),
        3 => put_name(out, words.take("a name")?, words.origin),
        _ => Err(format!("type {kind} of a host is not known; 0 to 3 are")),
    }
}

/// Takes octets in pairs of hexadecimal digits with a `-` between them (RFC 7043).
pub(super) fn put_hardware<const N: usize>(
    out: &mut Vec<u8>,
    words: &mut DataWords<'_, '_>,
) -> Result<(), Problem> {
    let what = format!("a hardware address: {N} pairs of hexadecimal digits with `-` between them");
    out.extend(words.take_as(&what, hardware::<N>)?);
    Ok(())
}

fn hardware<const N: usize>(text: &str) -> Option<[u8; N]> {
    let octet = |pair: &str| {
        let is_pair = pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit());
        u8::from_str_radix(pair, 16).ok().filter(|_| is_pair)
    };
    text.split('-').map(octet).collect::<Option<Vec<u8>>>()?.try_into().ok()
}

/// Takes 64 bits as four groups of hexadecimal digits (RFC 6742 section 2.1.1).
pub(super) fn put_locator(out: &mut Vec<u8>, words: &mut DataWords<'_, '_>) -> Result<(), Problem> {
    out.extend(words.take_as("four groups of hexadecimal digits with `:` between them", locator)?);
    Ok(())
}

fn locator(text: &str) -> Option<Vec<u8>> {
    let group = |digits: &str| {
        let is_group = (1..=4).contains(&digits.len());
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u16::from_str_radix(digits, 16).ok().filter(|_| is_group && is_hex)
    };
    let groups = text.split(':').map(group).collect::<Option<Vec<u16>>>()?;
    (groups.len() == 4).then(|| groups.into_iter().flat_map(u16::to_be_bytes).collect())
}
