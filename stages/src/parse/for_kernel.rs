//! Packets that are not read here, but by a kernel behind the port: fragments, and IPv6 with ESP or the like.
//!
//! No DNS query goes there. So what may hide one is dropped as on other ports: a first fragment of a query, and extension
//! headers that UDP may follow.

use pmdns_config::narrow::to_u8;

use super::ip::{IPV6_EXTENSIONS, IPV6_FRAGMENT};
use crate::packet::Packet;
use crate::ports::{Port, Ports};
use crate::step::{Exception, Reason, Step};
use crate::wire::be16;
use crate::wire::ip::{IPV6_LEN, PROTOCOL_UDP, udp, v4, v6};

/// Fragment offset of an IPv4 header; of an IPv6 fragment header (RFC 8200 section 4.5), and its place and length.
const IPV4_OFFSET: u16 = 0x1fff;
const IPV6_OFFSET: u16 = 0xfff8;
const OFFSET_AT: usize = 2;
const FRAGMENT_LEN: usize = 8;
/// ESP, AH, mobility and HIP: hosts that use them speak to a kernel, not to a resolver.
const FOR_KERNEL: [u8; 4] = [50, 51, 135, 139];

/// Where a packet goes that parse would drop for `reason`.
#[cold]
#[inline(never)]
pub(super) fn step_of(packet: &mut Packet, ports: &Ports, reason: Reason) -> Step {
    let port = &ports[usize::from(packet.frame.port())];
    let exception = match reason {
        _ if !port.has_tap => None,
        Reason::Ipv4Fragment => fragment_v4(packet, port),
        Reason::Ipv6Fragment => fragment_v6(packet, port),
        Reason::Ipv6Extension => extension(packet),
        _ => None,
    };
    exception.map_or_else(|| Step::drop(reason), Step::exception)
}

fn fragment_v4(packet: &mut Packet, port: &Port) -> Option<Exception> {
    let (bytes, l3) = (packet.frame.bytes(), usize::from(packet.layout.l3));
    let l4 = l3 + usize::from(bytes.get(l3)? & 0xf) * 4;
    let offset = be16(bytes, l3 + v4::FRAGMENT)? & IPV4_OFFSET;
    let is_udp = *bytes.get(l3 + v4::PROTOCOL)? == PROTOCOL_UDP;
    packet.layout.l4 = to_u8(l4);
    (offset != 0 || !is_udp || is_elsewhere(packet, l4, port)?).then_some(Exception::Fragment)
}

fn fragment_v6(packet: &Packet, port: &Port) -> Option<Exception> {
    let (bytes, header) = (packet.frame.bytes(), usize::from(packet.layout.l3) + IPV6_LEN);
    let (protocol, offset) = (*bytes.get(header)?, be16(bytes, header + OFFSET_AT)? & IPV6_OFFSET);
    let passes = match protocol {
        _ if offset != 0 => true,
        PROTOCOL_UDP => is_elsewhere(packet, header + FRAGMENT_LEN, port)?,
        IPV6_FRAGMENT => false,
        other => !IPV6_EXTENSIONS.contains(&other) || FOR_KERNEL.contains(&other),
    };
    passes.then_some(Exception::Fragment)
}

fn extension(packet: &Packet) -> Option<Exception> {
    let protocol = packet.frame.bytes().get(usize::from(packet.layout.l3) + v6::NEXT_HEADER)?;
    FOR_KERNEL.contains(protocol).then_some(Exception::Protocol)
}

/// Whether the UDP header at `l4` says another port than that of queries. `None`: it is not there.
fn is_elsewhere(packet: &Packet, l4: usize, port: &Port) -> Option<bool> {
    Some(be16(packet.frame.bytes(), l4 + udp::DESTINATION)? != port.dns_port)
}
