//! Queries of clients over streams as packets of IP and UDP, which they never were. So readers of captures show them as DNS.
//!
//! The client's address is that of its connection. Its UDP port is made up of the query's place. Our address is unspecified.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pmdns_config::narrow::to_u16;
use pmdns_nics::stream::{STREAM_MESSAGE, StreamHeader};
use pmdns_stages::wire::checksum::Sum;
use pmdns_stages::wire::ip::{IPV4_MIN_LEN, IPV6_LEN, PROTOCOL_UDP, UDP_LEN, v4};

use super::headers::Headers;

const DNS_PORT: u16 = 53;
/// The first of the ports that a system gives out (RFC 6335 section 6), of which there are 2^14.
const FIRST_PORT: u16 = 0xc000;
const HOPS: u8 = 64;

/// The packet, and the transport it really came over. `None`: the frame has no such header.
pub(crate) fn packet_of(frame: &[u8], leaves: bool) -> Option<(Vec<u8>, &'static str)> {
    let (header, client) = (StreamHeader::read(frame)?, Headers::of_stream(frame)?.source);
    let message = frame.get(STREAM_MESSAGE..)?;
    let port = FIRST_PORT | header.token().place & !FIRST_PORT;
    let none = match client {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let ((from, from_port), (to, to_port)) = match leaves {
        false => ((client, port), (none, DNS_PORT)),
        true => ((none, DNS_PORT), (client, port)),
    };
    let udp_len = to_u16(UDP_LEN + message.len());
    let mut packet = ip_header(from, to, udp_len);
    let start = packet.len();
    for half in [from_port, to_port, udp_len, 0] {
        packet.extend(half.to_be_bytes());
    }
    packet.extend(message);
    let addresses = Sum::default().add_bytes(&octets(from)).add_bytes(&octets(to));
    let sum = addresses.add16(PROTOCOL_UDP.into()).add16(udp_len).add_bytes(&packet[start..]);
    // Zero would say that there is none (RFC 768).
    let checksum = match sum.checksum() {
        0 => u16::MAX,
        sum => sum,
    };
    packet[start + 6..start + 8].copy_from_slice(&checksum.to_be_bytes());
    Some((packet, header.transport().name()))
}

fn ip_header(from: IpAddr, to: IpAddr, len: u16) -> Vec<u8> {
    let mut header = Vec::new();
    if from.is_ipv4() {
        header.extend([0x45, 0]);
        header.extend((len + to_u16(IPV4_MIN_LEN)).to_be_bytes());
        header.extend([0, 0, 0, 0, HOPS, PROTOCOL_UDP, 0, 0]);
    } else {
        header.extend([0x60, 0, 0, 0]);
        header.extend(len.to_be_bytes());
        header.extend([PROTOCOL_UDP, HOPS]);
    }
    header.extend(octets(from));
    header.extend(octets(to));
    if from.is_ipv4() {
        let sum = Sum::default().add_bytes(&header).checksum();
        header[v4::CHECKSUM..v4::CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    }
    debug_assert!(matches!(header.len(), IPV4_MIN_LEN | IPV6_LEN));
    header
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use pmdns_nics::HeapPool;
    use pmdns_nics::stream::{STREAM_ROOM, StreamToken, Transport, write_stream_query};

    use super::*;

    #[test]
    fn a_stream_query_becomes_a_packet_with_right_checksums() {
        let pool = HeapPool::with_room(1, STREAM_ROOM);
        for (client, ip_len) in [("192.0.2.7", IPV4_MIN_LEN), ("2001:db8::7", IPV6_LEN)] {
            // The longest message too has a packet.
            for len in [17, usize::from(STREAM_ROOM) - STREAM_MESSAGE] {
                let mut frame = pool.take().unwrap();
                let token = StreamToken { thread: 0, place: 5, generation: 1 };
                let client: IpAddr = client.parse().unwrap();
                let message = vec![9; len];
                let from = (client, 40_000).into();
                write_stream_query(&mut frame, token, Transport::Tls, from, &message).unwrap();
                let (packet, transport) = packet_of(frame.bytes(), false).unwrap();
                assert_eq!((transport, packet.len()), ("tls", ip_len + UDP_LEN + len));
                assert_eq!(packet[ip_len..ip_len + 4], [0xc0, 5, 0, 53]);
                assert_eq!(packet[ip_len + UDP_LEN..], message);
                let addresses = if client.is_ipv4() { 12..20 } else { 8..40 };
                let sum = Sum::default().add_bytes(&packet[addresses]).add16(17);
                let sum = sum.add16((UDP_LEN + len) as u16).add_bytes(&packet[ip_len..]);
                assert!(sum.is_right());
                let is_right =
                    client.is_ipv6() || Sum::default().add_bytes(&packet[..20]).is_right();
                assert!(is_right);
                let (answer, _) = packet_of(frame.bytes(), true).unwrap();
                assert_eq!(answer[ip_len..ip_len + 4], [0, 53, 0xc0, 5]);
            }
        }
        assert!(packet_of(&[0; 39], false).is_none());
    }
}
