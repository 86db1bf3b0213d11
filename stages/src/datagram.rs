//! UDP datagrams that we send unasked: queries to upstreams that leave by a port.

use std::net::{IpAddr, SocketAddr};

use pmdns_config::Vlan;
use pmdns_config::narrow::{to_u8, to_u16};
use pmdns_nics::{Frame, TooLong};

use crate::ports::Port;
use crate::vlan;
use crate::wire::checksum::Sum;
use crate::wire::ip::{
    ETHERNET_LEN, ETHERNET_SOURCE, IPV4_MIN_LEN, IPV6_LEN, PROTOCOL_UDP, TYPE_IPV4, TYPE_IPV6,
    UDP_LEN, pseudo_header, seal_ipv4, udp, v4, v6,
};
use crate::wire::put16;

/// TTL and hop limit of our datagrams.
const HOPS: u8 = 64;
/// The first byte of an IPv4 header without options.
const IPV4_START: u8 = 0x45;
/// The first byte of an IPv6 header.
const IPV6_START: u8 = 0x60;
/// Don't-fragment flag. A datagram that is never fragmented needs no identification (RFC 6864 section 4.1).
const DONT_FRAGMENT: u16 = 0x4000;

/// Who sends a datagram to whom.
#[derive(Clone, Copy, Debug)]
pub struct Endpoints {
    /// The hardware address of the next hop.
    pub next_hop: [u8; 6],
    /// Our address and port.
    pub from: SocketAddr,
    /// The receiver's, of the same family.
    pub to: SocketAddr,
}

/// Writes a datagram over `frame`, in the port's first VLAN. Checksums are left to the port where it computes them.
pub fn write(
    frame: &mut Frame,
    port: &Port,
    ends: Endpoints,
    message: &[u8],
) -> Result<(), TooLong> {
    let vlan = port.vlans.listed().first().copied().unwrap_or(Vlan::Untagged);
    let tags = vlan::write(vlan);
    let l3 = ETHERNET_LEN + tags.len();
    let is_ipv6 = ends.to.is_ipv6();
    let l3_len = if is_ipv6 { IPV6_LEN } else { IPV4_MIN_LEN };
    let l4 = l3 + l3_len;
    frame.resize(l4 + UDP_LEN + message.len())?;
    let udp_len = to_u16(UDP_LEN + message.len());
    let bytes = frame.bytes_mut();
    bytes[..ETHERNET_SOURCE].copy_from_slice(&ends.next_hop);
    bytes[ETHERNET_SOURCE..2 * ETHERNET_SOURCE].copy_from_slice(&port.mac);
    bytes[2 * ETHERNET_SOURCE..l3 - 2].copy_from_slice(&tags);
    put16(bytes, l3 - 2, if is_ipv6 { TYPE_IPV6 } else { TYPE_IPV4 });
    let addresses = put_ip(&mut bytes[l3..l4], ends, udp_len, port.checksum_offload);
    let datagram = &mut bytes[l4..];
    put16(datagram, udp::SOURCE, ends.from.port());
    put16(datagram, udp::DESTINATION, ends.to.port());
    put16(datagram, udp::LEN, udp_len);
    datagram[UDP_LEN..].copy_from_slice(message);
    if port.checksum_offload {
        put16(datagram, udp::CHECKSUM, addresses.folded());
        frame.offload_checksums(to_u8(l3), to_u8(l3_len), is_ipv6);
    } else {
        put16(datagram, udp::CHECKSUM, 0);
        // RFC 768: a sum of zero is sent as all ones, for zero means no checksum.
        let checksum = match addresses.add_bytes(datagram).checksum() {
            0 => 0xffff,
            sum => sum,
        };
        put16(datagram, udp::CHECKSUM, checksum);
    }
    Ok(())
}

/// Writes the IP header, and returns the sum of the pseudo-header.
fn put_ip(
    header: &mut [u8],
    Endpoints { from, to, .. }: Endpoints,
    udp_len: u16,
    offload: bool,
) -> Sum {
    header.fill(0);
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            header[0] = IPV4_START;
            put16(header, v4::TOTAL_LEN, to_u16(IPV4_MIN_LEN) + udp_len);
            put16(header, v4::FRAGMENT, DONT_FRAGMENT);
            header[v4::TTL] = HOPS;
            header[v4::PROTOCOL] = PROTOCOL_UDP;
            header[v4::SOURCE..v4::DESTINATION].copy_from_slice(&from.octets());
            header[v4::DESTINATION..].copy_from_slice(&to.octets());
            if !offload {
                seal_ipv4(header);
            }
            pseudo_header(&header[v4::SOURCE..], PROTOCOL_UDP, udp_len)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            header[0] = IPV6_START;
            put16(header, v6::PAYLOAD_LEN, udp_len);
            header[v6::NEXT_HEADER] = PROTOCOL_UDP;
            header[v6::HOP_LIMIT] = HOPS;
            header[v6::SOURCE..v6::DESTINATION].copy_from_slice(&from.octets());
            header[v6::DESTINATION..].copy_from_slice(&to.octets());
            pseudo_header(&header[v6::SOURCE..], PROTOCOL_UDP, udp_len)
        }
        _ => {
            debug_assert!(false, "a datagram has addresses of one family");
            Sum::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stage as _;
    use crate::packet::Packet;
    use crate::parse::Parse;
    use crate::testing::{OUR_IPV4, OUR_IPV6, act_once, at, frame_of, query};
    use crate::wire::name::Seed;

    /// A datagram from these ends over a port in this VLAN.
    fn written(vlan: Vlan, [from, to]: [SocketAddr; 2]) -> Vec<u8> {
        let sender = Port { vlans: vlan::Vlans::of(&[vlan]), ..Port::new([2, 9, 9, 9, 9, 9], []) };
        let mut frame = frame_of(&[0xaa; 200]);
        let ends = Endpoints { next_hop: crate::testing::OUR_MAC, from, to };
        write(&mut frame, &sender, ends, &query("www.example. A").message()).unwrap();
        frame.bytes().to_vec()
    }

    #[test]
    fn what_is_written_passes_every_check_of_parse() {
        let addresses = [IpAddr::from(OUR_IPV4), IpAddr::from(OUR_IPV6)];
        for vlan in [Vlan::Untagged, Vlan::Tagged(7), Vlan::Double(3, 4)] {
            let ours = Port {
                vlans: vlan::Vlans::of(&[vlan]),
                ..Port::new(crate::testing::OUR_MAC, addresses)
            };
            let mut parse = Parse::new([ours].into(), Seed::new([3; 16]));
            for (from, to) in [("10.1.2.3", addresses[0]), ("fd00::9", addresses[1])] {
                let ends = [(from.parse::<IpAddr>().unwrap(), 4000).into(), (to, 53).into()];
                let bytes = written(vlan, ends);
                let packet = act_once(&mut parse, Packet::arrived(frame_of(&bytes), 0), &at(0));
                assert_eq!(packet.step, Parse::CONTINUE, "{vlan} {from}");
                let l3 = usize::from(packet.layout.l3);
                for at_byte in l3..bytes.len() {
                    let mut damaged = bytes.clone();
                    damaged[at_byte] ^= 0x10;
                    let packet = Packet::arrived(frame_of(&damaged), 0);
                    let step = act_once(&mut parse, packet, &at(0)).step;
                    // IPv6 has no checksum over traffic class, flow label and hop limit.
                    let is_covered = !to.is_ipv6() || at_byte >= l3 + 8;
                    assert!(step != Parse::CONTINUE || !is_covered, "{at_byte} {from}");
                }
            }
        }
    }

    #[test]
    fn a_message_longer_than_a_frame_is_refused() {
        let ends: [SocketAddr; 2] = [([10, 0, 0, 1], 1024).into(), ([10, 0, 0, 2], 53).into()];
        let ends = Endpoints { next_hop: [2; 6], from: ends[0], to: ends[1] };
        let port = Port::new([2; 6], []);
        assert_eq!(write(&mut frame_of(&[0; 60]), &port, ends, &[0; 9000]), Err(TooLong));
    }
}
