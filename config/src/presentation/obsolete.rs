//! Types that nobody should use any more, and some zones have all the same: WKS, NSAP, ATMA, A6.

use std::net::Ipv6Addr;

use super::Problem;
use super::address::put_v4;
use super::fields::DataWords;
use super::number::decimal;
use super::text::put_name;
use crate::narrow::to_u8;

/// Protocols that WKS records name (RFC 1010).
const PROTOCOLS: [(&str, u8); 4] = [("icmp", 1), ("igmp", 2), ("tcp", 6), ("udp", 17)];

/// Services that WKS records name, those of RFC 1010 that are still in use.
const SERVICES: [(&str, u16); 16] = [
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("time", 37),
    ("domain", 53),
    ("tftp", 69),
    ("finger", 79),
    ("http", 80),
    ("pop3", 110),
    ("nntp", 119),
    ("ntp", 123),
    ("imap2", 143),
    ("snmp", 161),
    ("https", 443),
];

/// Takes an address, a protocol and the ports of services (RFC 1035 section 3.4.2).
pub(super) fn put_services(
    out: &mut Vec<u8>,
    words: &mut DataWords<'_, '_>,
) -> Result<(), Problem> {
    put_v4(out, words)?;
    let named = |text: &str| {
        let found = PROTOCOLS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        decimal(text).or_else(|| found.map(|(_, number)| *number))
    };
    out.push(words.take_as("a protocol like tcp, udp or a number", named)?);
    let mut ports = Vec::new();
    while words.len() > 0 {
        let named = |text: &str| {
            let found = SERVICES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
            decimal(text).or_else(|| found.map(|(_, port)| *port))
        };
        ports.push(words.take_as("a service that we know; write its port", named)?);
    }
    let Some(last) = ports.iter().max() else { return Ok(()) };
    let mut bits = vec![0_u8; usize::from(*last) / 8 + 1];
    for port in ports {
        bits[usize::from(port) / 8] |= 0x80 >> (port % 8);
    }
    out.extend(bits);
    Ok(())
}

/// Takes an address of OSI (RFC 1706 section 5): `0x` and hexadecimal digits, with dots anywhere.
pub(super) fn put_nsap(out: &mut Vec<u8>, words: &mut DataWords<'_, '_>) -> Result<(), Problem> {
    let what = "an NSAP address: 0x and pairs of hexadecimal digits";
    out.extend(words.take_as(what, |text| {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
        super::number::hex(&digits.replace('.', ""))
    })?);
    Ok(())
}

/// Takes an address of ATM: hexadecimal digits, or `+` and decimal ones, with single dots between them.
pub(super) fn put_atm(out: &mut Vec<u8>, words: &mut DataWords<'_, '_>) -> Result<(), Problem> {
    let what = "an ATM address: pairs of hexadecimal digits, or + and decimal digits";
    out.extend(words.take_as(what, |text| {
        let (is_number, text) = match text.strip_prefix('+') {
            Some(number) => (true, number),
            None => (false, text),
        };
        if text.split('.').any(str::is_empty) {
            return None;
        }
        let digits = text.replace('.', "");
        let octets = match is_number {
            true => digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.into_bytes()),
            false => super::number::hex(&digits),
        };
        Some([&[u8::from(is_number)], &*octets?].concat())
    })?);
    Ok(())
}

/// Takes the length of a prefix, the rest of an address, and the name of the prefix (RFC 2874 section 3.1).
pub(super) fn put_a6(out: &mut Vec<u8>, words: &mut DataWords<'_, '_>) -> Result<(), Problem> {
    const MAX: u8 = 128;
    let len = words.take_as("the length of a prefix, 0 to 128", |text| {
        decimal::<u8>(text).filter(|len| *len <= MAX)
    })?;
    out.push(len);
    if len < MAX {
        let address = words.take_as("an IPv6 address", |text| text.parse::<Ipv6Addr>().ok())?;
        let mut octets = address.octets();
        let first = usize::from(len / 8);
        octets[first] &= 0xff >> (len % 8);
        out.extend(&octets[first..]);
    }
    if len > 0 {
        put_name(out, words.take("the name of the prefix")?, words.origin)?;
    }
    Ok(())
}

/// Takes the algorithm, host identity tag, key and rendezvous servers of a HIP record (RFC 8005 section 6).
pub(super) fn put_identity(
    out: &mut Vec<u8>,
    words: &mut DataWords<'_, '_>,
) -> Result<(), Problem> {
    let algorithm = words.take_as("a number up to 255", decimal::<u8>)?;
    let tag = words.take_as("a host identity tag in hexadecimal digits", |text| {
        super::number::hex(text).filter(|tag| tag.len() <= 255)
    })?;
    let key = words.take_as("a key in base64, as one word", super::number::base64)?;
    let key_len = u16::try_from(key.len()).map_err(|_| "the key is too long".to_owned())?;
    out.extend([to_u8(tag.len()), algorithm]);
    out.extend(key_len.to_be_bytes());
    out.extend(tag);
    out.extend(key);
    while words.len() > 0 {
        put_name(out, words.take("a name")?, words.origin)?;
    }
    Ok(())
}
