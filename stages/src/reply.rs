//! The reply to a query that left by a port of ours, as the slow path reads it from the packet.

use std::net::{IpAddr, SocketAddr};

use crate::arrival::Arrival;
use crate::packet::Packet;
use crate::query_sources::{Owner, QuerySources, SourceIndex};
use crate::step::Step;
use crate::wire::be16;
use crate::wire::dns::header;
use crate::wire::ip::{IPV4_MIN_LEN, IPV6_LEN, UDP_LEN, udp, v4, v6};
use crate::wire::layout::Flags;

/// A reply, the first fragment of one, or an ICMP error that quotes a query of ours.
///
/// Parse has checked that it is whole and undamaged, and that this query waited at its UDP port at that time. Everything
/// in it may still be forged: who sent it, and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyPacket<'p> {
    /// Its kind.
    pub arrival: Arrival,
    /// The query it is about.
    pub owner: Owner,
    /// Who replied. Of an error: to whom the query was sent that it quotes.
    pub upstream: SocketAddr,
    /// The source that the query left from.
    pub source: SourceIndex,
    /// The UDP port that the query left from.
    pub udp_port: u16,
    /// The DNS message. Of a fragment: its beginning. Of an error: as much of the query as it quotes, maybe nothing.
    pub message: &'p [u8],
}

impl<'p> ReplyPacket<'p> {
    /// Reads a packet that took the step [`Step::REPLY`]. `None`: it took another, or is about no query but a next hop.
    pub fn read(packet: &'p Packet, sources: &QuerySources) -> Option<Self> {
        if packet.step != Step::REPLY {
            return None;
        }
        let arrival = Arrival::of_key(packet.key)?;
        let owner = arrival.owner()?;
        let is_quote = matches!(arrival, Arrival::Unreachable(_) | Arrival::TooBig(_));
        let (frame, layout) = (packet.frame.bytes(), packet.layout);
        let (l3, l4) = (usize::from(layout.l3), usize::from(layout.l4));
        let is_ipv6 = layout.flags.has(Flags::IPV6);
        // Parse takes quoted headers without options only.
        let header_at = match is_quote {
            true => l4.checked_sub(if is_ipv6 { IPV6_LEN } else { IPV4_MIN_LEN })?,
            false => l3,
        };
        let (from, to) = addresses(frame.get(header_at..)?, is_ipv6)?;
        let datagram = frame.get(l4..ip_end(frame, l3, is_ipv6)?)?;
        let ports = [be16(datagram, udp::SOURCE)?, be16(datagram, udp::DESTINATION)?];
        let (from, to) = (SocketAddr::new(from, ports[0]), SocketAddr::new(to, ports[1]));
        let (upstream, ours) = if is_quote { (to, from) } else { (from, to) };
        let len = usize::from(be16(datagram, udp::LEN)?).min(datagram.len());
        Some(Self {
            arrival,
            owner,
            upstream,
            source: sources.find(packet.frame.port().into(), ours.ip())?,
            udp_port: ours.port(),
            message: datagram.get(UDP_LEN..len).unwrap_or_default(),
        })
    }

    /// The id of the DNS message, if that much of it is there.
    pub fn id(&self) -> Option<u16> {
        be16(self.message, header::ID)
    }
}

/// Source and destination in the header at the start of `ip`.
fn addresses(ip: &[u8], is_ipv6: bool) -> Option<(IpAddr, IpAddr)> {
    if is_ipv6 {
        let (from, to) = ip.get(v6::SOURCE..IPV6_LEN)?.split_first_chunk::<16>()?;
        return Some(((*from).into(), to.first_chunk::<16>().copied()?.into()));
    }
    let (from, to) = ip.get(v4::SOURCE..IPV4_MIN_LEN)?.split_first_chunk::<4>()?;
    Some(((*from).into(), to.first_chunk::<4>().copied()?.into()))
}

/// Where the IP packet ends whose header stands at `l3`: Ethernet may pad.
fn ip_end(frame: &[u8], l3: usize, is_ipv6: bool) -> Option<usize> {
    Some(match is_ipv6 {
        true => l3 + IPV6_LEN + usize::from(be16(frame, l3 + v6::PAYLOAD_LEN)?),
        false => l3 + usize::from(be16(frame, l3 + v4::TOTAL_LEN)?),
    })
}
