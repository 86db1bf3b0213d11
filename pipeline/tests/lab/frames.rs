//! Ethernet frames as bytes: queries to send, and a strict look at what comes back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::messages::be16;

/// A hardware address.
pub(crate) type Mac = [u8; 6];

/// The two ends of a datagram, and the VLAN tags it wears.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) from: (Mac, IpAddr, u16),
    pub(crate) to: (Mac, IpAddr, u16),
    pub(crate) vlans: Vec<u16>,
}

impl Path {
    /// A whole frame with this UDP payload: lengths and checksums right.
    pub(crate) fn frame(&self, payload: &[u8]) -> Vec<u8> {
        let datagram = self.datagram(payload);
        self.wrap(&self.packet(17, &datagram))
    }

    /// The UDP header and payload, checksum right.
    pub(crate) fn datagram(&self, payload: &[u8]) -> Vec<u8> {
        let mut datagram = Vec::with_capacity(8 + payload.len());
        let length = u16::try_from(8 + payload.len()).unwrap();
        for field in [self.from.2, self.to.2, length, 0] {
            datagram.extend(field.to_be_bytes());
        }
        datagram.extend(payload);
        let sum = !self.transport_sum(17, &datagram);
        // RFC 768: a computed checksum of zero is sent as all ones.
        let sum = if sum == 0 { 0xffff } else { sum };
        datagram[6..8].copy_from_slice(&sum.to_be_bytes());
        datagram
    }

    /// An IP packet of `protocol` around `payload`.
    pub(crate) fn packet(&self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        match (self.from.1, self.to.1) {
            (IpAddr::V4(from), IpAddr::V4(to)) => v4_packet(from, to, protocol, &[], payload),
            (IpAddr::V6(from), IpAddr::V6(to)) => v6_packet(from, to, protocol, payload),
            _ => panic!("both ends are of one family"),
        }
    }

    /// The Ethernet frame around an IP packet; not padded.
    pub(crate) fn wrap(&self, packet: &[u8]) -> Vec<u8> {
        let mut frame = Vec::with_capacity(22 + packet.len());
        frame.extend(self.to.0);
        frame.extend(self.from.0);
        for vlan in &self.vlans {
            frame.extend(0x8100_u16.to_be_bytes());
            frame.extend(vlan.to_be_bytes());
        }
        let ethertype: u16 = if self.from.1.is_ipv4() { 0x0800 } else { 0x86dd };
        frame.extend(ethertype.to_be_bytes());
        frame.extend(packet);
        frame
    }

    /// The ones' complement sum over the pseudo header and `segment`.
    pub(crate) fn transport_sum(&self, protocol: u8, segment: &[u8]) -> u16 {
        let mut pseudo = Vec::with_capacity(40);
        for address in [self.from.1, self.to.1] {
            match address {
                IpAddr::V4(address) => pseudo.extend(address.octets()),
                IpAddr::V6(address) => pseudo.extend(address.octets()),
            }
        }
        pseudo.extend(u32::try_from(segment.len()).unwrap().to_be_bytes());
        pseudo.extend([0, 0, 0, protocol]);
        pseudo.extend(segment);
        sum(&pseudo)
    }
}

/// An IPv4 packet with `options` (a multiple of four bytes).
pub(crate) fn v4_packet(
    from: Ipv4Addr,
    to: Ipv4Addr,
    protocol: u8,
    options: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let words = u8::try_from(5 + options.len() / 4).unwrap();
    let total = u16::try_from(20 + options.len() + payload.len()).unwrap();
    let mut packet = vec![0x40 | words, 0];
    packet.extend(total.to_be_bytes());
    packet.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(options);
    let header = !sum(&packet);
    packet[10..12].copy_from_slice(&header.to_be_bytes());
    packet.extend(payload);
    packet
}

/// An IPv6 packet.
pub(crate) fn v6_packet(from: Ipv6Addr, to: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
    packet.extend([next, 64]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(payload);
    packet
}

/// The ones' complement sum of 16-bit words (RFC 1071).
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| [pair[0], *pair.get(1).unwrap_or(&0)]);
    let mut total: u32 = words.map(|word| u32::from(u16::from_be_bytes(word))).sum();
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    u16::try_from(total).unwrap()
}

/// What a UDP frame carries, after every length and checksum in it was found right.
pub(crate) struct Datagram<'f> {
    pub(crate) path: Path,
    pub(crate) payload: &'f [u8],
}

/// Reads a frame that pmdns sent; says what is wrong with it. `None`: it is not UDP.
pub(crate) fn read(frame: &[u8]) -> Result<Option<Datagram<'_>>, String> {
    let (to, from) = (mac(&frame[0..6]), mac(&frame[6..12]));
    let mut vlans = Vec::new();
    let mut at = 12;
    while matches!(be16(frame, at), 0x8100 | 0x88a8) {
        vlans.push(be16(frame, at + 2));
        at += 4;
    }
    let ip = &frame[at + 2..];
    let (source, target, l4) = match be16(frame, at) {
        0x0800 => match v4_ends(ip)? {
            Some(ends) => ends,
            None => return Ok(None),
        },
        0x86dd if ip[6] == 17 => v6_ends(ip)?,
        _ => return Ok(None),
    };
    let path = Path { from: (from, source, be16(l4, 0)), to: (to, target, be16(l4, 2)), vlans };
    if usize::from(be16(l4, 4)) != l4.len() {
        return Err(format!("UDP length {} in {} bytes", be16(l4, 4), l4.len()));
    }
    if be16(l4, 6) == 0 || path.transport_sum(17, l4) != 0xffff {
        return Err(format!("UDP checksum {:#06x} is wrong", be16(l4, 6)));
    }
    Ok(Some(Datagram { path, payload: &l4[8..] }))
}

/// Source, destination and UDP segment.
type Ends<'f> = (IpAddr, IpAddr, &'f [u8]);

fn v4_ends(ip: &[u8]) -> Result<Option<Ends<'_>>, String> {
    let header = usize::from(ip[0] & 0x0f) * 4;
    let total = usize::from(be16(ip, 2));
    if ip[0] >> 4 != 4 || header < 20 || total < header || total > ip.len() {
        return Err(format!("IPv4 header {:02x?} in {} bytes", &ip[..4], ip.len()));
    }
    if sum(&ip[..header]) != 0xffff {
        return Err("the IPv4 checksum is wrong".into());
    }
    if ip[9] != 17 {
        return Ok(None);
    }
    let address = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&ip[at..at + 4]).unwrap());
    Ok(Some((address(12), address(16), &ip[header..total])))
}

fn v6_ends(ip: &[u8]) -> Result<Ends<'_>, String> {
    let end = 40 + usize::from(be16(ip, 4));
    if ip[0] >> 4 != 6 || end > ip.len() {
        return Err(format!("IPv6 payload ends at {end} of {}", ip.len()));
    }
    let address = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&ip[at..at + 16]).unwrap());
    Ok((address(8), address(24), &ip[40..end]))
}

fn mac(bytes: &[u8]) -> Mac {
    bytes.try_into().unwrap()
}
