//! IP headers: what tells them apart, and the addresses that nobody may send from.

use crate::ports::Port;

/// First byte of an IPv4 header without options.
pub(super) const IPV4_PLAIN: u8 = 0x45;
/// IPv6 next headers that are extension headers (RFC 8200 section 4, RFC 7045).
pub(super) const IPV6_EXTENSIONS: [u8; 7] = [0, 43, 50, 51, 60, 135, 139];
/// IPv6 fragment header.
pub(super) const IPV6_FRAGMENT: u8 = 44;
/// More-fragments flag and fragment offset of an IPv4 header.
pub(super) const IPV4_FRAGMENTED: u16 = 0x3fff;

/// The address at a constant offset of a header.
#[inline(always)]
pub(super) fn address_at<const N: usize, const HEADER: usize>(
    header: &[u8; HEADER],
    at: usize,
) -> [u8; N] {
    std::array::from_fn(|index| header[at + index])
}

/// Whether no host may send from this address: answering it would reach somebody else, or ourselves.
#[inline]
pub(super) fn ipv4_source_is_impossible(source: [u8; 4], port: &Port) -> bool {
    // RFC 1122 section 3.2.1.3: this-network, loopback, multicast and limited broadcast.
    matches!(source[0], 0 | 127 | 224..) || port.is_ours_v4(source)
}

/// The same as [`ipv4_source_is_impossible`] for IPv6: unspecified, loopback and multicast (RFC 4291 section 2).
#[inline]
pub(super) fn ipv6_source_is_impossible(source: [u8; 16], port: &Port) -> bool {
    source[0] == 0xff || (source[..15] == [0; 15] && source[15] <= 1) || port.is_ours_v6(source)
}
