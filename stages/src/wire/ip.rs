//! Ethernet, IPv4, IPv6 and UDP: field offsets, and addresses of sender and receiver.

use super::checksum::Sum;
use super::put16;

/// Ethernet: destination, source, type (IEEE 802.3).
pub const ETHERNET_LEN: usize = 14;
/// Offset of the source address in an Ethernet header.
pub const ETHERNET_SOURCE: usize = 6;
/// Offset of the EtherType in an untagged Ethernet header.
pub const ETHERTYPE: usize = 12;
/// One VLAN tag (IEEE 802.1Q).
pub const VLAN_LEN: usize = 4;
/// Tags kept in a reply; frames with more are dropped.
pub const MAX_VLAN_TAGS: usize = 2;

/// EtherType of IPv4.
pub const TYPE_IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const TYPE_ARP: u16 = 0x0806;
/// EtherType of IPv6.
pub const TYPE_IPV6: u16 = 0x86dd;
/// EtherType of a VLAN tag.
pub const TYPE_VLAN: u16 = 0x8100;
/// EtherType of an outer VLAN tag (IEEE 802.1ad).
pub const TYPE_QINQ: u16 = 0x88a8;

/// Protocol number of ICMP.
pub const PROTOCOL_ICMP: u8 = 1;
/// Protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// Protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;
/// Protocol number of ICMPv6.
pub const PROTOCOL_ICMPV6: u8 = 58;

/// Shortest IPv4 header (RFC 791 section 3.1).
pub const IPV4_MIN_LEN: usize = 20;
/// The IPv6 header (RFC 8200 section 3).
pub const IPV6_LEN: usize = 40;
/// The UDP header (RFC 768).
pub const UDP_LEN: usize = 8;

/// The TTL or hop limit of packets that no router has forwarded. What is only for the link has no other (RFC 4861 section 6.1,
/// RFC 5881 section 5).
pub const FROM_THIS_LINK: u8 = 255;

/// Offsets in an IPv4 header.
pub mod v4 {
    /// Total length.
    pub const TOTAL_LEN: usize = 2;
    /// Identification.
    pub const ID: usize = 4;
    /// Flags and fragment offset.
    pub const FRAGMENT: usize = 6;
    /// Time to live.
    pub const TTL: usize = 8;
    /// Protocol.
    pub const PROTOCOL: usize = 9;
    /// Header checksum.
    pub const CHECKSUM: usize = 10;
    /// Source address.
    pub const SOURCE: usize = 12;
    /// Destination address.
    pub const DESTINATION: usize = 16;
}

/// Offsets in an IPv6 header.
pub mod v6 {
    /// Payload length.
    pub const PAYLOAD_LEN: usize = 4;
    /// Next header.
    pub const NEXT_HEADER: usize = 6;
    /// Hop limit.
    pub const HOP_LIMIT: usize = 7;
    /// Source address.
    pub const SOURCE: usize = 8;
    /// Destination address.
    pub const DESTINATION: usize = 24;
}

/// Offsets in a UDP header.
pub mod udp {
    /// Source port.
    pub const SOURCE: usize = 0;
    /// Destination port.
    pub const DESTINATION: usize = 2;
    /// Length.
    pub const LEN: usize = 4;
    /// Checksum.
    pub const CHECKSUM: usize = 6;
}

/// Sum of the pseudo-header of UDP or ICMPv6 (RFC 768, RFC 8200 section 8.1). `addresses` are the source
/// and destination of the IP header, as they stand there.
#[inline]
pub fn pseudo_header(addresses: &[u8], protocol: u8, len: u16) -> Sum {
    Sum::default().add_bytes(addresses).add16(u16::from(protocol)).add16(len)
}

/// Sends a frame back where it came from: swaps the Ethernet addresses and the IP addresses.
#[inline]
pub fn turn_round(frame: &mut [u8], l3: usize, ipv6: bool) {
    let (ethernet, rest) = frame.split_at_mut(ETHERNET_LEN);
    swap_halves::<12>(ethernet);
    let l3 = l3 - ETHERNET_LEN;
    if ipv6 {
        swap_halves::<32>(&mut rest[l3 + v6::SOURCE..]);
    } else {
        swap_halves::<8>(&mut rest[l3 + v4::SOURCE..]);
    }
}

/// Swaps the two halves of the first `N` bytes. The constant length makes it a few moves.
#[inline]
pub fn swap_halves<const N: usize>(bytes: &mut [u8]) {
    if let Some(both) = bytes.first_chunk_mut::<N>() {
        let (left, right) = both.split_at_mut(N / 2);
        left.swap_with_slice(right);
    }
}

/// Computes the checksum of the IPv4 header at the start of `header`, which ends with its options.
#[inline]
pub fn seal_ipv4(header: &mut [u8]) {
    put16(header, v4::CHECKSUM, 0);
    let sum = Sum::default().add_bytes(header);
    put16(header, v4::CHECKSUM, sum.checksum());
}
