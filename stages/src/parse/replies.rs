//! Packets to a query source: replies of upstreams, and ICMP errors about our queries.
//!
//! Nothing else is welcome there. Whatever passes is whole and undamaged, and a query waits at its UDP port. Whether it
//! belongs to that query, the slow path decides. Queries to other addresses never come here, and pay nothing for it.

use std::ops::Range;

use pmdns_config::narrow::{to_u8, to_u16};
use pmdns_nics::Frame;

use super::ip::{
    IPV4_FRAGMENTED, IPV4_PLAIN, IPV6_EXTENSIONS, IPV6_FRAGMENT, address_at,
    ipv4_source_is_impossible, ipv6_source_is_impossible,
};
use crate::StageName;
use crate::arrival::Arrival;
use crate::neighbor::{ADVERTISEMENT, SOLICITATION};
use crate::packet::Packet;
use crate::ports::Port;
use crate::query_sources::{Owner, SourceIndex};
use crate::step::{Reason, Step};
use crate::wire::checksum::Sum;
use crate::wire::dns::HEADER_LEN;
use crate::wire::ip::{
    ETHERNET_SOURCE, IPV4_MIN_LEN, IPV6_LEN, PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_UDP, UDP_LEN,
    pseudo_header, udp, v4, v6,
};
use crate::wire::layout::Flags;
use crate::wire::{be16, field16};

/// Fragment offset of an IPv4 header.
const IPV4_OFFSET: u16 = 0x1fff;
/// The IPv6 fragment header, the place of its offset, and the flag there that more fragments follow (RFC 8200 section 4.5).
const FRAGMENT_LEN: usize = 8;
const FRAGMENT_OFFSET: usize = 2;
const MORE_FRAGMENTS: u16 = 1;
const IPV6_OFFSET: u16 = 0xfff8;

/// Type, code, checksum and four more bytes: what stands in an ICMP error before the packet that it quotes.
const ICMP_LEN: usize = 8;
/// RFC 792.
const UNREACHABLE: u8 = 3;
/// The code of [`UNREACHABLE`] that RFC 1191 is about.
const FRAGMENTATION_NEEDED: u8 = 4;
/// RFC 4443 section 3.1.
const UNREACHABLE_V6: u8 = 1;
/// RFC 4443 section 3.2.
const TOO_BIG_V6: u8 = 2;

/// Reads an IP packet whose header is right, and which is to none of the addresses that queries come to.
pub(super) fn read(packet: &mut Packet, port: &Port) -> Result<Step, Reason> {
    let l3 = usize::from(packet.layout.l3);
    let found = match packet.layout.flags.has(Flags::IPV6) {
        true => find_ipv6(&packet.frame, l3, port)?,
        false => Some(find_ipv4(&packet.frame, l3, port)?),
    };
    if let Some(found) = found {
        packet.layout.l4 = to_u8(found.l4);
        packet.key = found.arrival.key();
        return Ok(Step::REPLY);
    }
    Ok(Step::at(StageName::Neighbor))
}

/// The part of a frame that is for the slow path.
struct FoundReply {
    arrival: Arrival,
    /// Where the UDP header starts, of the reply or of the query that is quoted.
    l4: usize,
}

fn find_ipv4(frame: &Frame, l3: usize, port: &Port) -> Result<FoundReply, Reason> {
    let ip = frame.bytes().get(l3..).unwrap_or_default();
    let Some(header) = ip.first_chunk::<IPV4_MIN_LEN>() else { return Err(Reason::Ipv4Header) };
    let our_address = address_at(header, v4::DESTINATION);
    let source = port.sources.find_v4(our_address).ok_or(Reason::NotOurAddress)?;
    let addresses = &header[v4::SOURCE..];
    let packet = ToSource { frame, port, source, addresses, is_ipv6: false };
    packet.check_link()?;
    let sender = address_at(header, v4::SOURCE);
    if ipv4_source_is_impossible(sender, port) || port.has_v4(sender) {
        return Err(Reason::SourceAddress);
    }
    let payload =
        l3 + usize::from(header[0] & 0xf) * 4..l3 + usize::from(field16(header, v4::TOTAL_LEN));
    let fragment = field16(header, v4::FRAGMENT);
    let is_fragment = fragment & IPV4_FRAGMENTED != 0;
    match header[v4::PROTOCOL] {
        PROTOCOL_UDP if fragment & IPV4_OFFSET != 0 => Err(Reason::ReplyFragment),
        PROTOCOL_UDP => packet.find_reply(payload, is_fragment),
        PROTOCOL_ICMP if !is_fragment => packet.find_error(payload),
        _ => Err(Reason::QuerySource),
    }
}

/// `None`: it is neighbour discovery, which has a stage of its own.
fn find_ipv6(frame: &Frame, l3: usize, port: &Port) -> Result<Option<FoundReply>, Reason> {
    let ip = frame.bytes().get(l3..).unwrap_or_default();
    let Some(header) = ip.first_chunk::<IPV6_LEN>() else { return Err(Reason::Ipv6Header) };
    let our_address = address_at(header, v6::DESTINATION);
    let source = port.sources.find_v6(our_address).ok_or(Reason::NotOurAddress)?;
    let protocol = header[v6::NEXT_HEADER];
    let kind = ip.get(IPV6_LEN).copied();
    if protocol == PROTOCOL_ICMPV6 && matches!(kind, Some(SOLICITATION | ADVERTISEMENT)) {
        return Ok(None);
    }
    let addresses = &header[v6::SOURCE..];
    let packet = ToSource { frame, port, source, addresses, is_ipv6: true };
    packet.check_link()?;
    let sender = address_at(header, v6::SOURCE);
    if ipv6_source_is_impossible(sender, port) || port.has_v6(sender) {
        return Err(Reason::SourceAddress);
    }
    let start = l3 + IPV6_LEN;
    let payload = start..start + usize::from(field16(header, v6::PAYLOAD_LEN));
    let found = match protocol {
        PROTOCOL_UDP => packet.find_reply(payload, false),
        PROTOCOL_ICMPV6 => packet.find_error(payload),
        IPV6_FRAGMENT => packet.find_fragment(payload),
        extension if IPV6_EXTENSIONS.contains(&extension) => Err(Reason::Ipv6Extension),
        _ => Err(Reason::QuerySource),
    };
    found.map(Some)
}

/// A packet to a query source.
struct ToSource<'f> {
    frame: &'f Frame,
    port: &'f Port,
    source: SourceIndex,
    /// Source and destination, as they stand in the IP header.
    addresses: &'f [u8],
    is_ipv6: bool,
}

impl ToSource<'_> {
    /// Whether the frame is from one host to us, in the VLAN that we ask in.
    fn check_link(&self) -> Result<(), Reason> {
        let frame = self.frame.bytes();
        if frame.first_chunk() != Some(&self.port.mac) {
            return Err(Reason::NotOurMac);
        }
        if frame[ETHERNET_SOURCE] & 1 != 0 {
            return Err(Reason::SourceAddress);
        }
        if !self.port.asks_in_vlan_of(frame) {
            return Err(Reason::QuerySource);
        }
        Ok(())
    }

    /// The bytes at a place that an IP header says; none if they are not all there.
    fn bytes(&self, place: &Range<usize>) -> &[u8] {
        self.frame.bytes().get(place.clone()).unwrap_or_default()
    }

    fn owner(&self, udp_port: u16) -> Result<Owner, Reason> {
        self.port.sources.owner(self.source, udp_port).ok_or(Reason::NoQuery)
    }

    /// A fragment over IPv6. One that is the whole packet is a reply like any other (RFC 6946 section 4).
    fn find_fragment(&self, place: Range<usize>) -> Result<FoundReply, Reason> {
        let Some(header) = self.bytes(&place).first_chunk::<FRAGMENT_LEN>() else {
            return Err(Reason::Ipv6Fragment);
        };
        if header[0] != PROTOCOL_UDP {
            return Err(Reason::QuerySource);
        }
        let offset = field16(header, FRAGMENT_OFFSET);
        match offset & IPV6_OFFSET {
            0 => {
                self.find_reply(place.start + FRAGMENT_LEN..place.end, offset & MORE_FRAGMENTS != 0)
            }
            _ => Err(Reason::ReplyFragment),
        }
    }

    /// A UDP datagram, or the first fragment of one. The checks are those of queries. The owner is looked up before the
    /// checksum is: in a flood of forged replies nearly all are to ports without one.
    fn find_reply(&self, place: Range<usize>, is_fragment: bool) -> Result<FoundReply, Reason> {
        let datagram = self.bytes(&place);
        let Some(header) = datagram.first_chunk::<UDP_LEN>() else { return Err(Reason::UdpHeader) };
        let len = usize::from(field16(header, udp::LEN));
        let fits = if is_fragment { len > datagram.len() } else { len == datagram.len() };
        if !fits || field16(header, udp::SOURCE) == 0 {
            return Err(Reason::UdpHeader);
        }
        if datagram.len() < UDP_LEN + HEADER_LEN {
            return Err(Reason::DnsHeader);
        }
        let owner = self.owner(field16(header, udp::DESTINATION))?;
        // Of a fragment the checksum says nothing.
        let arrival = match is_fragment {
            true => Arrival::Fragment(owner),
            false if self.is_damaged(header, datagram) => return Err(Reason::UdpChecksum),
            false => Arrival::Reply(owner),
        };
        Ok(FoundReply { arrival, l4: place.start })
    }

    /// Whether the checksum of a datagram with this header is wrong, or absent over IPv6.
    fn is_damaged(&self, header: &[u8; UDP_LEN], datagram: &[u8]) -> bool {
        let checksum = field16(header, udp::CHECKSUM);
        if checksum == 0 {
            return self.is_ipv6;
        }
        let pseudo = pseudo_header(self.addresses, PROTOCOL_UDP, field16(header, udp::LEN));
        // A sender on this host leaves the sum of the pseudo-header there, for hardware to go on from.
        let is_partial = self.port.partial_checksums && checksum == pseudo.folded();
        !self.frame.verified().udp && !pseudo.add_bytes(datagram).is_right() && !is_partial
    }

    /// An ICMP error that quotes a query of ours. Routers quote the IP header and eight bytes at least.
    fn find_error(&self, place: Range<usize>) -> Result<FoundReply, Reason> {
        let message = self.bytes(&place);
        let Some([kind, code]) = message.first_chunk().copied() else {
            return Err(Reason::QuerySource);
        };
        let arrival: fn(Owner) -> Arrival = match (self.is_ipv6, kind, code) {
            (false, UNREACHABLE, FRAGMENTATION_NEEDED) | (true, TOO_BIG_V6, _) => Arrival::TooBig,
            (false, UNREACHABLE, _) | (true, UNREACHABLE_V6, _) => Arrival::Unreachable,
            _ => return Err(Reason::QuerySource),
        };
        let udp_at = ICMP_LEN + if self.is_ipv6 { IPV6_LEN } else { IPV4_MIN_LEN };
        let quoted = message.get(ICMP_LEN..udp_at).filter(|header| self.has_sent(header));
        let port = quoted.and_then(|_| {
            let header = message.get(udp_at..udp_at + UDP_LEN)?;
            be16(header, udp::SOURCE)
        });
        let owner = self.owner(port.ok_or(Reason::QuerySource)?)?;
        let sum = match self.is_ipv6 {
            true => pseudo_header(self.addresses, PROTOCOL_ICMPV6, to_u16(message.len())),
            false => Sum::default(),
        };
        if !sum.add_bytes(message).is_right() {
            return Err(Reason::QuerySource);
        }
        Ok(FoundReply { arrival: arrival(owner), l4: place.start + udp_at })
    }

    /// Whether an IP packet with this header may be a query that left from the address the error came to. Ours have no
    /// options and are no fragments.
    fn has_sent(&self, header: &[u8]) -> bool {
        let our_address = &self.addresses[self.addresses.len() / 2..];
        if self.is_ipv6 {
            return header[0] >> 4 == 6
                && header[v6::NEXT_HEADER] == PROTOCOL_UDP
                && header[v6::SOURCE..].starts_with(our_address);
        }
        header[0] == IPV4_PLAIN
            && header[v4::PROTOCOL] == PROTOCOL_UDP
            && be16(header, v4::FRAGMENT).is_some_and(|fragment| fragment & IPV4_OFFSET == 0)
            && header[v4::SOURCE..].starts_with(our_address)
    }
}
