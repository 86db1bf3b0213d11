//! The headers around an upstream's messages, over IPv4 and IPv6, and neighbour discovery (RFC 4861).

use std::net::{IpAddr, SocketAddr};

use pmdns_config::narrow::to_u16;
use pmdns_nics::Verified;
use pmdns_stages::wire::checksum::Sum;
use pmdns_stages::wire::ip::{
    ETHERNET_LEN, ETHERNET_SOURCE, ETHERTYPE, IPV4_MIN_LEN, IPV6_LEN, PROTOCOL_ICMPV6,
    PROTOCOL_UDP, TYPE_IPV4, TYPE_IPV6, UDP_LEN, pseudo_header, seal_ipv4, turn_round, udp, v4, v6,
};
use pmdns_stages::wire::{be16, put16};

const L3: usize = ETHERNET_LEN;
/// The first byte of an IPv4 header without options.
const VERSION_AND_LEN: u8 = 0x45;
const HOPS: u8 = 64;
/// Flags and offset of an IPv4 packet that is a fragment; "do not fragment" is none of them.
const FRAGMENT: u16 = 0x3fff;

// Neighbour discovery (RFC 4861 sections 4.3 and 4.4).
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const FROM_THIS_LINK: u8 = 255;
const TARGET: usize = L3 + IPV6_LEN + 8;
const SOLICITED_AND_OVERRIDE: u8 = 0x60;
const TARGET_LINK_ADDRESS: u8 = 2;
/// An advertisement with its one option, in its frame.
pub(crate) const ADVERTISEMENT_LEN: usize = TARGET + 16 + 8;

/// A UDP datagram in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) is_ipv6: bool,
    /// Where it goes.
    pub(crate) to: SocketAddr,
    /// Where its message begins and ends.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Datagram {
    /// Reads the headers of a frame. `None`: it is no whole UDP datagram.
    pub(crate) fn read(frame: &[u8]) -> Option<Self> {
        let (is_ipv6, l4, end, address) = match be16(frame, ETHERTYPE)? {
            TYPE_IPV4 => {
                let l4 = L3 + IPV4_MIN_LEN;
                let header = frame.get(L3..l4)?;
                let is_plain = header[0] == VERSION_AND_LEN
                    && be16(header, v4::FRAGMENT)? & FRAGMENT == 0
                    && header[v4::PROTOCOL] == PROTOCOL_UDP;
                let to = header.last_chunk::<4>().filter(|_| is_plain)?;
                let end = L3 + usize::from(be16(header, v4::TOTAL_LEN)?);
                (false, l4, end, IpAddr::from(*to))
            }
            TYPE_IPV6 => {
                let l4 = L3 + IPV6_LEN;
                let header = frame.get(L3..l4)?;
                let is_udp = header[v6::NEXT_HEADER] == PROTOCOL_UDP;
                let to = header.last_chunk::<16>().filter(|_| is_udp)?;
                let end = l4 + usize::from(be16(header, v6::PAYLOAD_LEN)?);
                (true, l4, end, IpAddr::from(*to))
            }
            _ => return None,
        };
        let datagram = frame.get(l4..end)?;
        if usize::from(be16(datagram, udp::LEN)?) != datagram.len() || datagram.len() < UDP_LEN {
            return None;
        }
        let to = SocketAddr::new(address, be16(datagram, udp::DESTINATION)?);
        Some(Self { is_ipv6, to, start: l4 + UDP_LEN, end })
    }

    /// Whether the checksums hold that the port does not vouch for.
    pub(crate) fn is_undamaged(&self, frame: &[u8], verified: Verified) -> bool {
        let l4 = self.start - UDP_LEN;
        let datagram = &frame[l4..self.end];
        let ip = self.is_ipv6 || verified.ip || Sum::default().add_bytes(&frame[L3..l4]).is_right();
        let has_sum = be16(datagram, udp::CHECKSUM) != Some(0);
        let sum = self.pseudo_header(frame, to_u16(datagram.len())).add_bytes(datagram);
        ip && (verified.udp || if has_sum { sum.is_right() } else { !self.is_ipv6 })
    }

    /// Sends the datagram back where it came from, with its message ending at `end`.
    pub(crate) fn turn_round(&self, frame: &mut [u8], end: usize) {
        let l4 = self.start - UDP_LEN;
        turn_round(frame, L3, self.is_ipv6);
        frame[l4..l4 + 4].rotate_left(2);
        let len = to_u16(end - l4);
        match self.is_ipv6 {
            true => {
                put16(frame, L3 + v6::PAYLOAD_LEN, len);
                frame[L3 + v6::HOP_LIMIT] = HOPS;
            }
            false => {
                put16(frame, L3 + v4::TOTAL_LEN, to_u16(end - L3));
                frame[L3 + v4::TTL] = HOPS;
                seal_ipv4(&mut frame[L3..l4]);
            }
        }
        put16(frame, l4 + udp::LEN, len);
        put16(frame, l4 + udp::CHECKSUM, 0);
        let sum = self.pseudo_header(frame, len).add_bytes(&frame[l4..end]).checksum();
        // RFC 768: a sum of zero is sent as all ones, for zero means no checksum.
        put16(frame, l4 + udp::CHECKSUM, if sum == 0 { 0xffff } else { sum });
    }

    fn pseudo_header(&self, frame: &[u8], len: u16) -> Sum {
        let l4 = self.start - UDP_LEN;
        let source = if self.is_ipv6 { v6::SOURCE } else { v4::SOURCE };
        pseudo_header(&frame[L3 + source..l4], PROTOCOL_UDP, len)
    }
}

/// The address that a neighbour solicitation asks for; `None`: it is none. Its sender has an address.
pub(crate) fn solicited(frame: &[u8]) -> Option<[u8; 16]> {
    let (header, message) = frame.get(L3..)?.split_at_checked(IPV6_LEN)?;
    let is_solicitation = be16(frame, ETHERTYPE)? == TYPE_IPV6
        && header[v6::NEXT_HEADER] == PROTOCOL_ICMPV6
        && header[v6::HOP_LIMIT] == FROM_THIS_LINK
        && header[v6::SOURCE..v6::DESTINATION] != [0; 16]
        && message.starts_with(&[SOLICITATION, 0]);
    frame.get(TARGET..TARGET + 16).filter(|_| is_solicitation)?.try_into().ok()
}

/// The answer to that solicitation: the address is here.
pub(crate) fn advertisement(
    solicitation: &[u8],
    target: [u8; 16],
    mac: [u8; 6],
) -> Option<[u8; ADVERTISEMENT_LEN]> {
    let asker = solicitation.get(L3 + v6::SOURCE..L3 + v6::DESTINATION)?;
    let mut frame = [0; ADVERTISEMENT_LEN];
    frame[..ETHERNET_SOURCE].copy_from_slice(&solicitation[ETHERNET_SOURCE..2 * ETHERNET_SOURCE]);
    frame[ETHERNET_SOURCE..ETHERTYPE].copy_from_slice(&mac);
    put16(&mut frame, ETHERTYPE, TYPE_IPV6);
    let (l4, len) = (L3 + IPV6_LEN, to_u16(ADVERTISEMENT_LEN - L3 - IPV6_LEN));
    frame[L3] = 0x60;
    put16(&mut frame, L3 + v6::PAYLOAD_LEN, len);
    frame[L3 + v6::NEXT_HEADER] = PROTOCOL_ICMPV6;
    frame[L3 + v6::HOP_LIMIT] = FROM_THIS_LINK;
    frame[L3 + v6::SOURCE..L3 + v6::DESTINATION].copy_from_slice(&target);
    frame[L3 + v6::DESTINATION..l4].copy_from_slice(asker);
    frame[l4] = ADVERTISEMENT;
    frame[l4 + 4] = SOLICITED_AND_OVERRIDE;
    frame[TARGET..TARGET + 16].copy_from_slice(&target);
    frame[TARGET + 16..TARGET + 18].copy_from_slice(&[TARGET_LINK_ADDRESS, 1]);
    frame[TARGET + 18..].copy_from_slice(&mac);
    let pseudo = pseudo_header(&frame[L3 + v6::SOURCE..l4], PROTOCOL_ICMPV6, len);
    let sum = pseudo.add_bytes(&frame[l4..]).checksum();
    put16(&mut frame, l4 + 2, sum);
    Some(frame)
}
