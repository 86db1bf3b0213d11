//! Data that is more than names, numbers and strings.

use super::pieces::{Head, text_len};
use crate::wire::{be16, be32};

/// Bytes of a bitmap with a bit for each port of a protocol.
const MAX_SERVICES: usize = 65_536 / 8;
/// Longest tag of a CAA record (RFC 6844 section 5.1).
const MAX_TAG: usize = 15;
/// Length of a SHA-1 digest, the only hash of names there is.
const SHA1_LEN: usize = 20;
/// Thousandths of a second of arc in a degree.
const DEGREE: u32 = 3_600_000;
/// Where LOC counts degrees from.
const EQUATOR: u32 = 1 << 31;

/// A WKS record: address, protocol, a bit for each port up to the last one.
pub(super) fn well_known_services(rest: &[u8]) -> bool {
    let Some((_, bits)) = rest.split_at_checked(5) else { return false };
    bits.len() <= MAX_SERVICES && bits.last() != Some(&0)
}

/// The number of an X25 record (RFC 1183 section 3.1).
pub(super) fn x25_address(text: &[u8]) -> bool {
    text.len() >= 4 && text.iter().all(u8::is_ascii_digit)
}

/// The flags of a NAPTR record (RFC 3403 section 4.1).
pub(super) fn letters(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_alphanumeric)
}

/// A CSYNC record (RFC 7477 section 2.1): serial number, one of two flags, types.
pub(super) fn synchronization(rest: &[u8]) -> bool {
    be16(rest, 4).is_some_and(|flags| flags <= 3) && types(&rest[6..])
}

/// One string, or none.
pub(super) fn text_or_nothing(rest: &[u8]) -> bool {
    rest.is_empty() || text_len(rest) == Some(rest.len())
}

/// The head of an RRSIG record, which is about some type.
pub(super) fn signature(rest: &[u8]) -> Option<Head> {
    (be16(rest, 0)? != 0).then_some((18, false))
}

/// A GPOS record: latitude, longitude and height, in decimal digits (RFC 1712).
pub(super) fn position(mut rest: &[u8]) -> bool {
    for limit in [90.0, 180.0, f64::MAX] {
        let Some(len) = text_len(rest) else { return false };
        let text = std::str::from_utf8(&rest[1..len]).unwrap_or_default();
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.".contains(&byte));
        if !is_plain || !text.parse().is_ok_and(|number: f64| number.abs() <= limit) {
            return false;
        }
        rest = &rest[len..];
    }
    rest.is_empty()
}

/// A LOC record of version 0 (RFC 1876).
pub(super) fn location(rest: &[u8]) -> bool {
    let Some(&[version, size, horizontal, vertical, ..]) = rest.first_chunk::<16>() else {
        return false;
    };
    let is_size = |byte: u8| {
        let (digit, power) = (byte >> 4, byte & 15);
        digit <= 9 && power <= 9 && (digit > 0 || power == 0)
    };
    let is_within = |at, degrees: u32| {
        be32(rest, at).is_some_and(|angle| angle.abs_diff(EQUATOR) <= degrees * DEGREE)
    };
    rest.len() == 16
        && version == 0
        && [size, horizontal, vertical].into_iter().all(is_size)
        && is_within(4, 90)
        && is_within(8, 180)
}

/// The types of an NXT record (RFC 2535 section 5.2): no more than fit the first 128.
pub(super) fn first_types(rest: &[u8]) -> bool {
    rest.first().is_none_or(|first| first & 0x80 == 0)
        && rest.len() <= 16
        && rest.last() != Some(&0)
}

/// Types that there are, in windows (RFC 4034 section 4.1.2).
pub(super) fn types(mut rest: &[u8]) -> bool {
    let mut last = None;
    while let Some((&[window, len], bits)) = rest.split_first_chunk() {
        let Some((bits, next)) = bits.split_at_checked(len.into()) else { return false };
        let is_next = last.is_none_or(|last| window > last);
        if !is_next || len > 32 || bits.last().is_none_or(|byte| *byte == 0) {
            return false;
        }
        (last, rest) = (Some(window), next);
    }
    rest.is_empty()
}

/// The same, one at least.
pub(super) fn some_types(rest: &[u8]) -> bool {
    !rest.is_empty() && types(rest)
}

/// An ATMA record: its format, and digits if it is E.164.
pub(super) fn atm_address(rest: &[u8]) -> bool {
    let Some((format, address)) = rest.split_first() else { return false };
    !address.is_empty() && (*format != 1 || address.iter().all(u8::is_ascii_digit))
}

/// An A6 record: length of the prefix, the rest of the address, the name of the prefix.
pub(super) fn address_suffix(rest: &[u8]) -> Option<Head> {
    let prefix = *rest.first()?;
    let octets = 16_usize.checked_sub(usize::from(prefix / 8))?;
    let is_padded = |byte: &u8| byte & !(0xff >> (prefix % 8)) == 0;
    let is_right = match prefix {
        0..=127 => rest.get(1).is_some_and(is_padded),
        128 => true,
        _ => false,
    };
    is_right.then_some((1 + octets, prefix > 0))
}

/// An APL record (RFC 3123 section 4): prefixes without zeros at their ends.
pub(super) fn prefixes(mut rest: &[u8]) -> bool {
    while let Some((&[high, low, prefix, len], next)) = rest.split_first_chunk() {
        let Some((address, next)) = next.split_at_checked((len & 0x7f).into()) else {
            return false;
        };
        let fits = match u16::from_be_bytes([high, low]) {
            1 => prefix <= 32 && address.len() <= 4,
            2 => prefix <= 128 && address.len() <= 16,
            _ => true,
        };
        if !fits || address.last() == Some(&0) {
            return false;
        }
        rest = next;
    }
    rest.is_empty()
}

/// An IPSECKEY record up to its key (RFC 4025 section 2.1).
pub(super) fn ipsec_gateway(rest: &[u8]) -> Option<Head> {
    let [_, kind, _] = rest.first_chunk()?;
    gateway(*kind).map(|(len, is_name)| (3 + len, is_name))
}

/// An AMTRELAY record (RFC 8777 section 4.2).
pub(super) fn multicast_relay(rest: &[u8]) -> Option<Head> {
    let [_, kind] = rest.first_chunk()?;
    gateway(kind & 0x7f).map(|(len, is_name)| (2 + len, is_name))
}

/// How long an address of this kind is, and whether it is a name.
fn gateway(kind: u8) -> Option<Head> {
    match kind {
        0 => Some((0, false)),
        1 => Some((4, false)),
        2 => Some((16, false)),
        3 => Some((0, true)),
        _ => None,
    }
}

/// An NSEC3 record (RFC 5155 section 3.2).
pub(super) fn hashed_denial(rest: &[u8]) -> bool {
    let Some(&salt) = rest.get(4) else { return false };
    let hash_at = 5 + usize::from(salt);
    let Some(&len) = rest.get(hash_at) else { return false };
    let Some(after) = rest.get(hash_at + 1 + usize::from(len)..) else { return false };
    let is_hash = if rest[0] == 1 { usize::from(len) == SHA1_LEN } else { len > 0 };
    is_hash && types(after)
}

/// An NSEC3PARAM record (RFC 5155 section 4.2).
pub(super) fn hash_parameters(rest: &[u8]) -> bool {
    rest.get(4).is_some_and(|salt| rest.len() == 5 + usize::from(*salt))
}

/// A CAA record (RFC 8659 section 4.1): flags, tag, value.
pub(super) fn authorization(rest: &[u8]) -> bool {
    let tag = rest.split_first().and_then(|(_, rest)| Some(&rest[1..text_len(rest)?]));
    tag.is_some_and(|tag| {
        matches!(tag.len(), 1..=MAX_TAG) && tag.iter().all(u8::is_ascii_alphanumeric)
    })
}

/// A DOA record: enterprise, type, location, media type, data.
pub(super) fn object(rest: &[u8]) -> bool {
    rest.get(9..).is_some_and(|rest| text_len(rest).is_some())
}
