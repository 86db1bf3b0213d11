//! What readers take from a record: the question and the rcode of its message, and the bits of an address that are kept.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use domain::base::Name;
use pmdns_stages::wire::be16;
use pmdns_stages::wire::dns::{HEADER_LEN, Rcode, header};
use pmdns_stages::wire::name::length;

/// The name and type in the question of a message that parse has read, or encode has written.
pub(crate) fn question(message: &[u8]) -> Option<(&[u8], u16)> {
    if be16(message, header::QDCOUNT) != Some(1) {
        return None;
    }
    let rest = message.get(HEADER_LEN..)?;
    let (name, rest) = rest.split_at_checked(length(rest)?)?;
    Some((name, be16(rest, 0)?))
}

/// A name as text. Bytes that are no letters are written as `\DDD`.
pub(crate) fn readable(name: &[u8]) -> String {
    Name::from_slice(name).map_or_else(
        |_| String::new(),
        |name| match name.is_root() {
            true => ".".to_owned(),
            false => name.to_string().to_ascii_lowercase(),
        },
    )
}

/// The rcode of a message, without the bits that an OPT record has.
pub(crate) fn rcode(message: &[u8]) -> Rcode {
    Rcode((be16(message, header::FLAGS).unwrap_or(0) & 0xf) as u8)
}

/// The bits of addresses that are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mask {
    ipv4: u32,
    ipv6: u128,
}

impl Mask {
    /// So many bits of each family.
    pub(crate) fn new(ipv4_bits: u8, ipv6_bits: u8) -> Self {
        Self {
            ipv4: u32::MAX.checked_shl(32 - u32::from(ipv4_bits)).unwrap_or(0),
            ipv6: u128::MAX.checked_shl(128 - u32::from(ipv6_bits)).unwrap_or(0),
        }
    }

    /// What is kept of an address.
    pub(crate) fn of(self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(v4) => Ipv4Addr::from(u32::from(v4) & self.ipv4).into(),
            IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) & self.ipv6).into(),
        }
    }

    /// Whether all of an address is kept.
    pub(crate) fn is_full(self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(_) => self.ipv4 == u32::MAX,
            IpAddr::V6(_) => self.ipv6 == u128::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_plain_text() {
        assert_eq!(readable(b"\x07Example\x03ORG\0"), "example.org");
        assert_eq!(readable(b"\0"), ".");
        let hostile = readable(b"\x08<a\"\n\x1b.\0\xff\0");
        assert!(hostile.chars().all(|c| c.is_ascii_graphic()), "{hostile}");
        assert_eq!(readable(b"\x3fshort"), "", "no name");
    }

    #[test]
    fn what_is_no_question_has_none() {
        let message = b"\x12\x34\x81\x80\0\x01\0\0\0\0\0\0\x01a\0\0\x1c\0\x01";
        assert_eq!(question(message), Some((&b"\x01a\0"[..], 28)));
        for len in 0..message.len() - 2 {
            assert_eq!(question(&message[..len]), None, "{len}");
        }
        assert_eq!(question(b"\x12\x34\x81\x81\0\0\0\0\0\0\0\0"), None);
        assert_eq!(rcode(b"\x12\x34\x81\x83\0\0\0\0\0\0\0\0"), Rcode::NXDOMAIN);
    }
}
