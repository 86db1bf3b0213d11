//! The parts around an answer's records: the headers turned round, the OPT record, and the checksums.
//!
//! Every function is inlined where the offsets of plain frames, which nearly all are, are constants.

use pmdns_config::narrow::to_u16;
use pmdns_nics::stream::STREAM_UDP;

use super::records::Outline;
use crate::wire::checksum::Sum;
use crate::wire::dns::{HEADER_LEN, flag, header};
use crate::wire::edns::{OPT_DATA_LEN, OPT_LEN, opt};
use crate::wire::ip::{
    ETHERNET_LEN, IPV4_MIN_LEN, IPV6_LEN, PROTOCOL_UDP, UDP_LEN, swap_halves, v4, v6,
};
use crate::wire::layout::{Flags, Layout};
use crate::wire::{field16, put16};

/// TTL and hop limit of our packets.
const HOPS: u8 = 64;
/// Don't-fragment flag of an IPv4 header.
const IPV4_DONT_FRAGMENT: u16 = 0x4000;
/// The flags of a query that its answer repeats.
const REPEATED_FLAGS: u16 = flag::OPCODE | flag::RD | flag::CD;

/// Where headers start in a frame. Every function that takes it is inlined, so that for plain frames, which
/// nearly all are, the compiler knows the numbers.
#[derive(Clone, Copy)]
pub(super) struct Offsets {
    pub(super) l3: usize,
    pub(super) l4: usize,
    pub(super) dns: usize,
    pub(super) ipv6: bool,
}

impl Offsets {
    /// IPv4 without VLAN tags and options.
    pub(super) const PLAIN: Self = Self {
        l3: ETHERNET_LEN,
        l4: ETHERNET_LEN + IPV4_MIN_LEN,
        dns: ETHERNET_LEN + IPV4_MIN_LEN + UDP_LEN,
        ipv6: false,
    };

    #[inline(always)]
    pub(super) fn of(layout: Layout) -> Self {
        Self {
            l3: usize::from(layout.l3),
            l4: usize::from(layout.l4),
            dns: layout.dns(),
            ipv6: layout.flags.has(Flags::IPV6),
        }
    }

    /// Whether there are no headers, because the client asks over a stream.
    #[inline(always)]
    pub(super) fn is_stream(self) -> bool {
        self.l4 == STREAM_UDP as usize
    }

    #[inline(always)]
    pub(super) fn are_plain(layout: Layout) -> bool {
        // A header of IPv6 is longer: these offsets are of IPv4.
        usize::from(layout.l3) == Self::PLAIN.l3 && usize::from(layout.l4) == Self::PLAIN.l4
    }
}

/// Writes the DNS header and the OPT record of an answer, and gives the message's sum. Question and records
/// are in place; `body` is their sum.
#[inline(always)]
pub(super) fn put_message(
    message: &mut [u8],
    layout: Layout,
    outline: &Outline,
    udp_size: u16,
    options: &[u8],
    body: Sum,
) -> Sum {
    let edns = layout.flags.has(Flags::EDNS);
    let end = message.len();
    let Some((header, rest)) = message.split_first_chunk_mut::<HEADER_LEN>() else {
        return Sum::default();
    };
    let mut sum = body;
    let (rest, tail) = rest.split_at_mut(rest.len().saturating_sub(options.len()));
    if edns && let Some(place) = rest.last_chunk_mut::<OPT_LEN>() {
        let mut record = opt(udp_size, outline.rcode, layout.flags.has(Flags::DO));
        put16(&mut record, OPT_DATA_LEN, to_u16(options.len()));
        *place = record;
        let end = end - options.len();
        sum = sum.add_at(end - OPT_LEN, Sum::default().add_bytes(place));
        if !options.is_empty() {
            tail.copy_from_slice(options);
            sum = sum.add_at(end, Sum::default().add_bytes(options));
        }
    }
    let asked = field16(header, header::FLAGS);
    let flags = flag::QR
        | asked & REPEATED_FLAGS
        | outline.flags
        | u16::from(outline.rcode.0) & flag::RCODE;
    let counts = (u64::from(layout.name_len > 0) << 48) + outline.counts + u64::from(edns);
    put16(header, header::FLAGS, flags);
    header[header::QDCOUNT..].copy_from_slice(&counts.to_be_bytes());
    sum.add16s([field16(header, header::ID), flags]).add64(counts)
}

/// Writes what an IP header says of our datagram, sends it back where it came from, and gives the sum of
/// its addresses.
#[inline(always)]
pub(super) fn put_ip(ip: &mut [u8], ipv6: bool, udp_len: u16, offload: bool) -> Sum {
    if ipv6 {
        let Some(header) = ip.first_chunk_mut::<IPV6_LEN>() else { return Sum::default() };
        let addresses = Sum::default().add_bytes(&header[v6::SOURCE..]);
        put16(header, v6::PAYLOAD_LEN, udp_len);
        header[v6::HOP_LIMIT] = HOPS;
        swap_halves::<32>(&mut header[v6::SOURCE..]);
        return addresses;
    }
    let total_len = to_u16(ip.len()) + udp_len;
    let Some((header, options)) = ip.split_first_chunk_mut::<IPV4_MIN_LEN>() else {
        return Sum::default();
    };
    let addresses = Sum::default().add_bytes(&header[v4::SOURCE..]);
    let hops_and_protocol = u16::from(HOPS) << 8 | u16::from(PROTOCOL_UDP);
    // Of a checksum that the port will write, nothing. Options of zeros add nothing to it either.
    let checksum = match offload {
        true => 0,
        false => addresses
            .add16s([field16(header, 0), total_len, IPV4_DONT_FRAGMENT, hops_and_protocol])
            .checksum_in_place(),
    };
    put16(header, v4::TOTAL_LEN, total_len);
    // Identification, fragmentation, TTL, protocol and checksum make eight bytes.
    let fixed = u64::from(IPV4_DONT_FRAGMENT) << 32 | u64::from(hops_and_protocol) << 16;
    let last = fixed.swap_bytes() | u64::from(checksum) << 48;
    header[v4::ID..v4::SOURCE].copy_from_slice(&last.to_le_bytes());
    swap_halves::<8>(&mut header[v4::SOURCE..]);
    // The client's IP options are not ours to send back (RFC 791 section 3.1: 0 ends the list).
    if !options.is_empty() {
        options.fill(0);
    }
    addresses
}

/// Turns the header of a datagram of `len` bytes round. `pseudo` is the sum of the pseudo-header. If the port
/// completes the checksum, nothing else is written. Otherwise `message` is the sum of the bytes that follow.
#[inline(always)]
pub(super) fn put_udp(udp: &mut [u8], len: u16, pseudo: Sum, message: Option<Sum>) {
    let Some(header) = udp.first_chunk_mut::<UDP_LEN>() else { return };
    // Source and destination as they stand there. Which of them comes first makes no difference to their sum.
    let ports = header.first_chunk().map_or(0, |ports| u32::from_le_bytes(*ports));
    let checksum = match message {
        None => pseudo.folded().swap_bytes(),
        Some(message) => {
            let sum = pseudo.add_word(u64::from(ports) + u64::from(len.swap_bytes()));
            // RFC 768: a sum of zero is sent as all ones, for zero means no checksum.
            match sum.add_at(0, message).checksum_in_place() {
                0 => 0xffff,
                sum => sum,
            }
        }
    };
    let turned = u64::from(ports.rotate_left(16));
    let len = u64::from(len.swap_bytes());
    *header = (turned | len << 32 | u64::from(checksum) << 48).to_le_bytes();
}
