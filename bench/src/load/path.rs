//! From the clients to the server and back: the headers around a query, and what an answer's headers say.
//!
//! IPv4 over Ethernet without tags. The addresses of the clients follow one another.

use std::net::Ipv4Addr;

use pmdns_config::narrow::to_u16;
use pmdns_nics::{Frame, TooLong};
use pmdns_stages::wire::checksum::Sum;
use pmdns_stages::wire::ip::{
    ETHERNET_LEN, ETHERNET_SOURCE, ETHERTYPE, IPV4_MIN_LEN, PROTOCOL_UDP, TYPE_IPV4, UDP_LEN,
    pseudo_header, udp, v4,
};
use pmdns_stages::wire::{be16, be32, put16};

use super::flight::{Tag, id_of, port_of};
use super::malformed::Damage;
use super::templates::Template;

const L3: usize = ETHERNET_LEN;
const L4: usize = L3 + IPV4_MIN_LEN;
/// Bytes before the DNS message.
pub const HEADERS: usize = L4 + UDP_LEN;
/// The first byte of an IPv4 header without options.
const VERSION_AND_LEN: u8 = 0x45;
/// Time to live of our packets.
const HOPS: u8 = 64;
/// The most client addresses.
pub const MAX_CLIENTS: u32 = 1 << 24;

/// Who asks whom.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Our hardware address.
    pub client_mac: [u8; 6],
    /// The first client's address.
    pub first_client: Ipv4Addr,
    /// How many clients there are.
    pub clients: u32,
    /// The server's hardware address.
    pub server_mac: [u8; 6],
    /// The server's address.
    pub server: Ipv4Addr,
    /// The server's UDP port.
    pub server_port: u16,
}

/// The headers, prepared.
#[derive(Clone, Debug)]
pub struct Path {
    ends: Ends,
    headers: [u8; HEADERS],
    /// Sum of the IPv4 header without length and source.
    ip_sum: Sum,
    /// Sum of the pseudo-header and the UDP header without lengths, source address and source port.
    udp_sum: Sum,
}

impl Path {
    /// The path between two ends.
    pub fn new(ends: Ends) -> Self {
        let mut headers = [0; HEADERS];
        headers[..ETHERNET_SOURCE].copy_from_slice(&ends.server_mac);
        headers[ETHERNET_SOURCE..ETHERTYPE].copy_from_slice(&ends.client_mac);
        put16(&mut headers, ETHERTYPE, TYPE_IPV4);
        headers[L3] = VERSION_AND_LEN;
        headers[L3 + v4::TTL] = HOPS;
        headers[L3 + v4::PROTOCOL] = PROTOCOL_UDP;
        headers[L3 + v4::DESTINATION..L4].copy_from_slice(&ends.server.octets());
        put16(&mut headers, L4 + udp::DESTINATION, ends.server_port);
        let ip_sum = Sum::default().add_bytes(&headers[L3..L4]);
        let udp_sum = pseudo_header(&ends.server.octets(), PROTOCOL_UDP, 0).add16(ends.server_port);
        Self { ends, headers, ip_sum, udp_sum }
    }

    /// Who asks whom.
    pub fn ends(&self) -> &Ends {
        &self.ends
    }

    /// The address of the client that sends query `number`.
    #[inline]
    pub fn client_of(&self, number: u32) -> u32 {
        // Multiplied so that clients do not come in turn, and scaled without a division.
        let lot = u64::from(number.wrapping_mul(0x9e37_79b1));
        let index = (lot * u64::from(self.ends.clients)) >> 32;
        self.ends.first_client.to_bits().wrapping_add(index as u32)
    }

    /// Whether an address is one of the clients'.
    pub fn is_client(&self, address: Ipv4Addr) -> bool {
        address.to_bits().wrapping_sub(self.ends.first_client.to_bits()) < self.ends.clients
    }

    /// Makes `frame` query `number`, from a template and its payload.
    #[inline]
    pub fn write(
        &self,
        frame: &mut Frame,
        template: &Template,
        payload: &[u8],
        number: u32,
    ) -> Result<(), TooLong> {
        frame.resize(HEADERS + payload.len())?;
        let bytes = frame.bytes_mut();
        bytes[..HEADERS].copy_from_slice(&self.headers);
        let message = &mut bytes[HEADERS..];
        message.copy_from_slice(payload);
        let (client, port, id) = (self.client_of(number), port_of(number), id_of(number));
        template.complete(message, id, number);
        let payload_sum = match template.fixed_sum() {
            Some(sum) if payload.len() < 2 => Sum::default().add16(sum),
            Some(sum) => Sum::default().add16(sum).add16(id),
            None => Sum::default().add_bytes(message),
        };
        let (total_len, udp_len) = (to_u16(bytes.len() - L3), to_u16(bytes.len() - L4));
        put16(bytes, L3 + v4::TOTAL_LEN, total_len);
        bytes[L3 + v4::SOURCE..L3 + v4::DESTINATION].copy_from_slice(&client.to_be_bytes());
        put16(bytes, L4 + udp::SOURCE, port);
        put16(bytes, L4 + udp::LEN, udp_len);
        let (high, low) = ((client >> 16) as u16, (client & 0xffff) as u16);
        let ip_sum = self.ip_sum.add16(total_len).add16(high).add16(low);
        put16(bytes, L3 + v4::CHECKSUM, ip_sum.checksum());
        let sum = self.udp_sum.add16(udp_len).add16(udp_len).add16(high).add16(low).add16(port);
        // RFC 768: a sum of zero is sent as all ones, for zero means no checksum.
        let checksum = match sum.add16(payload_sum.folded()).checksum() {
            0 => 0xffff,
            sum => sum,
        };
        put16(bytes, L4 + udp::CHECKSUM, checksum);
        if template.damage != Damage::None {
            damage(bytes, template.damage);
        }
        Ok(())
    }

    /// Which query the frame says it answers: [`Tag::NONE`] if it comes from somebody else or is no answer.
    #[inline]
    pub fn tag(&self, bytes: &[u8]) -> Tag {
        let Some(headers) = bytes.first_chunk::<{ HEADERS + 2 }>() else { return Tag::NONE };
        let from_server = headers[L3] == VERSION_AND_LEN
            && headers[ETHERTYPE..L3] == TYPE_IPV4.to_be_bytes()
            && headers[L3 + v4::PROTOCOL] == PROTOCOL_UDP
            && headers[L3 + v4::SOURCE..L3 + v4::DESTINATION] == self.ends.server.octets()
            && headers[L4 + udp::SOURCE..L4 + udp::DESTINATION]
                == self.ends.server_port.to_be_bytes();
        if !from_server {
            return Tag::NONE;
        }
        let at = |at: usize| u16::from_be_bytes([headers[at], headers[at + 1]]);
        Tag::from_wire(at(L4 + udp::DESTINATION), at(HEADERS))
    }

    /// The DNS message of a frame that has a tag, if its lengths are right and it goes to the client that sent
    /// query `number`.
    #[inline]
    pub fn message<'f>(&self, bytes: &'f [u8], number: u32) -> Option<&'f [u8]> {
        let total_len = usize::from(be16(bytes, L3 + v4::TOTAL_LEN)?);
        let udp_len = usize::from(be16(bytes, L4 + udp::LEN)?);
        let client = be32(bytes, L3 + v4::DESTINATION)?;
        if total_len != udp_len + IPV4_MIN_LEN || client != self.client_of(number) {
            return None;
        }
        bytes.get(HEADERS..L3 + total_len)
    }
}

/// Whether the checksums of an IPv4 UDP frame whose lengths are right hold. No UDP checksum is a right one.
pub fn has_right_checksums(bytes: &[u8]) -> bool {
    let total_len = usize::from(be16(bytes, L3 + v4::TOTAL_LEN).unwrap_or(0));
    let (Some(ip), Some(datagram)) = (bytes.get(L3..L4), bytes.get(L4..L3 + total_len)) else {
        return false;
    };
    let len = to_u16(datagram.len());
    let pseudo = pseudo_header(&ip[v4::SOURCE..], PROTOCOL_UDP, len);
    let has_sum = be16(datagram, udp::CHECKSUM) != Some(0);
    Sum::default().add_bytes(ip).is_right() && (!has_sum || pseudo.add_bytes(datagram).is_right())
}

#[cold]
fn damage(bytes: &mut [u8], damage: Damage) {
    let seal = |bytes: &mut [u8]| pmdns_stages::wire::ip::seal_ipv4(&mut bytes[L3..L4]);
    match damage {
        Damage::None => {}
        Damage::UdpLength => put16(bytes, L4 + udp::LEN, u16::MAX),
        Damage::UdpChecksum => bytes[L4 + udp::CHECKSUM] ^= 0x55,
        Damage::IpLength => {
            put16(bytes, L3 + v4::TOTAL_LEN, u16::MAX);
            seal(bytes);
        }
        Damage::IpChecksum => bytes[L3 + v4::CHECKSUM] ^= 0x55,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use pmdns_nics::{Frame, HeapPool};
    use pmdns_stages::testing::name_of;
    use pmdns_stages::wire::ip::turn_round;

    use super::*;
    use crate::load::malformed;
    use crate::load::mix::Kind;
    use crate::load::templates::{Edns, Templates};

    pub(in crate::load) fn path(clients: u32) -> Path {
        Path::new(Ends {
            client_mac: [2, 0, 0, 0, 0, 0xaa],
            first_client: Ipv4Addr::new(10, 77, 0, 10),
            clients,
            server_mac: [2, 0, 0, 0, 0, 1],
            server: Ipv4Addr::new(10, 77, 0, 2),
            server_port: 53,
        })
    }

    pub(in crate::load) fn frame() -> Frame {
        HeapPool::new(1).take().unwrap()
    }

    /// The frame as it comes back from somebody who only turns it round.
    pub(in crate::load) fn turned(frame: &Frame) -> Vec<u8> {
        let mut bytes = frame.bytes().to_vec();
        turn_round(&mut bytes, L3, false);
        bytes[L4..L4 + 4].rotate_left(2);
        bytes
    }

    #[test]
    fn frames_have_right_lengths_and_checksums() {
        let edns = Some(Edns { udp_size: 1232, dnssec_ok: false });
        let mut templates = Templates::default();
        templates.add_query(Kind::Hit, &name_of("www.example."), 1, None);
        templates.add_query(Kind::Hit, &name_of("odd.example."), 28, edns);
        templates.add_query(Kind::RandomPrefix, &name_of("s0000xxxxxxxx.example."), 1, edns);
        let path = path(1000);
        for template in 0..3 {
            for number in [0, 1, 77, 65_535, 65_536, 0x1234_5678, u32::MAX] {
                let (mut frame, template) = (frame(), templates.get(template));
                let payload = templates.payload(template);
                path.write(&mut frame, template, payload, number).unwrap();
                assert!(has_right_checksums(frame.bytes()));
                let client = be32(frame.bytes(), L3 + v4::SOURCE).unwrap();
                assert!(path.is_client(Ipv4Addr::from_bits(client)));
                let answer = turned(&frame);
                assert_eq!(path.tag(&answer), Tag::from_wire(port_of(number), id_of(number)));
                let message = path.message(&answer, number).unwrap();
                assert!(template.is_question(payload, message, number));
                let stranger = path.message(&answer, number.wrapping_add(4321));
                assert_eq!(stranger, None, "an answer to another client");
            }
        }
    }

    #[test]
    fn malformed_frames_are_wrong_where_they_shall_be() {
        let (path, mut templates) = (path(1), Templates::default());
        let all = malformed::all(&name_of("www.example."));
        all.iter().for_each(|malformed| templates.add_malformed(malformed));
        for (number, malformed) in all.iter().enumerate() {
            let (mut frame, template) = (frame(), templates.get(number as u32));
            path.write(&mut frame, template, templates.payload(template), 9).unwrap();
            let sound = has_right_checksums(frame.bytes());
            let expected = matches!(malformed.damage, Damage::None);
            assert_eq!(
                sound && be16(frame.bytes(), L4 + 4) != Some(u16::MAX),
                expected,
                "{}",
                malformed.what
            );
        }
    }

    #[test]
    fn frames_of_others_have_no_tag() {
        let (path, mut templates) = (path(1), Templates::default());
        templates.add_query(Kind::Hit, &name_of("www.example."), 1, None);
        let mut frame = frame();
        path.write(&mut frame, templates.get(0), templates.payload(templates.get(0)), 5).unwrap();
        assert_eq!(path.tag(frame.bytes()), Tag::NONE, "our own query");
        let answer = turned(&frame);
        assert_ne!(path.tag(&answer), Tag::NONE);
        for (at, what) in
            [(13, "not IPv4"), (14, "options"), (23, "not UDP"), (29, "who"), (35, "port")]
        {
            let mut other = answer.clone();
            other[at] ^= 1;
            assert_eq!(path.tag(&other), Tag::NONE, "{what}");
        }
        assert_eq!(path.tag(&answer[..40]), Tag::NONE);
    }
}
