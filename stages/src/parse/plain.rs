//! The headers that nearly every query has: IPv4 without tags and options, UDP to the port that queries come to.
//!
//! All fields are at offsets that the compiler knows, and few values are alive at a time. So no register is spilt.
//! Other frames are read by the general code, which also says what is wrong with them.

use pmdns_config::narrow::{to_u8, to_u16};

use super::ip::{IPV4_FRAGMENTED, IPV4_PLAIN, address_at, ipv4_source_is_impossible};
use super::{Parse, reflectors};
use crate::packet::Packet;
use crate::ports::Port;
use crate::step::{Reason, Step};
use crate::wire::checksum::Sum;
use crate::wire::dns::HEADER_LEN;
use crate::wire::field16;
use crate::wire::ip::{
    ETHERNET_LEN, ETHERNET_SOURCE, ETHERTYPE, IPV4_MIN_LEN, PROTOCOL_UDP, UDP_LEN, udp, v4,
};

/// Where the headers start.
const IP: usize = ETHERNET_LEN;
const UDP: usize = IP + IPV4_MIN_LEN;
const DNS: usize = UDP + UDP_LEN;
const END: usize = DNS + HEADER_LEN;

/// All headers of a frame, Ethernet to DNS.
type Headers = [u8; END];

impl Parse {
    /// Reads a frame with such headers, as the general code would. `None`: it has others, or may be wrong.
    #[inline(always)]
    pub(super) fn read_plain(&self, packet: &mut Packet) -> Option<Result<Step, Reason>> {
        let (frame, verified) = (packet.frame.bytes(), packet.frame.verified());
        let port = &self.ports[usize::from(packet.frame.port())];
        let (headers, rest) = frame.split_first_chunk::<END>()?;
        if !are_plain(headers, frame.len(), port) {
            return None;
        }
        let [ip, datagram] = [IP, UDP].map(|start| headers[start..].first_chunk::<IPV4_MIN_LEN>());
        let (ip, datagram) = (ip?, datagram?);
        if !verified.ip && !Sum::default().add_bytes(ip).is_right() {
            return Some(Err(Reason::Ipv4Checksum));
        }
        let rest_sum = Sum::default().add_bytes(rest);
        // RFC 768: a checksum of zero is none.
        if field16(headers, UDP + udp::CHECKSUM) != 0 && !verified.udp {
            let len = to_u16(frame.len() - UDP);
            let addresses = Sum::default().add_bytes(&ip[v4::SOURCE..]);
            let pseudo = addresses.add16s([u16::from(PROTOCOL_UDP), len]);
            if !pseudo.add_bytes(datagram).add_at(0, rest_sum).is_right() {
                return (!port.partial_checksums).then_some(Err(Reason::UdpChecksum));
            }
        }
        let len = frame.len();
        packet.layout.l3 = to_u8(IP);
        packet.layout.l4 = to_u8(UDP);
        Some(self.read_dns(packet, rest_sum, DNS..len))
    }
}

/// Whether the frame came to our hardware address, and from no group. Both are compared in one word.
#[inline(always)]
fn is_between_hosts(headers: &Headers, [a, b, c, d, e, f]: [u8; 6]) -> bool {
    let first = headers.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
    // All of the destination, and of the source the bit that marks groups, which comes next.
    let mask = (2 << (8 * ETHERNET_SOURCE)) - 1;
    first & mask == u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

/// Whether these are the headers of a datagram to us that fills its frame, from a client that may be answered.
#[inline(always)]
fn are_plain(headers: &Headers, frame_len: usize, port: &Port) -> bool {
    let len = |at| usize::from(field16(headers, at));
    let source = address_at(headers, IP + v4::SOURCE);
    port.vlans.is_plain_ipv4(field16(headers, ETHERTYPE))
        && headers[IP] == IPV4_PLAIN
        && len(IP + v4::TOTAL_LEN) == frame_len - IP
        && len(UDP + udp::LEN) == frame_len - UDP
        && field16(headers, IP + v4::FRAGMENT) & IPV4_FRAGMENTED == 0
        && headers[IP + v4::PROTOCOL] == PROTOCOL_UDP
        && field16(headers, UDP + udp::DESTINATION) == port.dns_port
        && field16(headers, UDP + udp::SOURCE) >= reflectors::SERVICES_END
        && is_between_hosts(headers, port.mac)
        && port.is_ours_v4(address_at(headers, IP + v4::DESTINATION))
        && !ipv4_source_is_impossible(source, port)
}
