//! Frames that are wrong in every way we could think of, each with a name for its kind.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::frames::{Mac, Path, v4_packet};
use crate::malformed_dns;
use crate::messages::{A, Query};

/// pmdns's hardware address, which the frames are sent to.
pub(crate) const MAC: Mac = [2, 0, 0, 0, 0, 1];
/// Its IPv4 address.
pub(crate) const V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// Its IPv6 address.
pub(crate) const V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);
/// The client's hardware address.
const CLIENT_MAC: Mac = [2, 0, 0, 0, 0, 2];
/// The client's IPv4 address.
pub(crate) const CLIENT_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 1);
/// The client's IPv6 address.
pub(crate) const CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 1, 1);

/// A frame, and what kind of wrong it is.
pub(crate) type Kind = (String, Vec<u8>);

/// From the IPv4 client to pmdns.
pub(crate) fn v4_path(vlans: &[u16]) -> Path {
    Path {
        from: (CLIENT_MAC, CLIENT_V4.into(), 40_000),
        to: (MAC, V4.into(), 53),
        vlans: vlans.to_vec(),
    }
}

/// From the IPv6 client to pmdns.
pub(crate) fn v6_path(vlans: &[u16]) -> Path {
    Path {
        from: (CLIENT_MAC, CLIENT_V6.into(), 40_000),
        to: (MAC, V6.into(), 53),
        vlans: vlans.to_vec(),
    }
}

/// A question that the replay's config answers by itself.
pub(crate) fn good_query() -> Vec<u8> {
    Query { id: 0x4711, name: "local.test", qtype: A, udp_size: Some(1232) }.message()
}

/// Every kind.
pub(crate) fn kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    truncations(&mut kinds);
    ethernet(&mut kinds);
    ipv4(&mut kinds);
    ipv6(&mut kinds);
    udp(&mut kinds);
    neighbors(&mut kinds);
    malformed_dns::kinds(&mut kinds);
    kinds
}

/// A whole query of each shape, cut off after every one of its bytes.
fn truncations(kinds: &mut Vec<Kind>) {
    let shapes = [
        ("v4", v4_path(&[])),
        ("v6", v6_path(&[])),
        ("v4 in a VLAN", v4_path(&[7])),
        ("v6 in two VLANs", v6_path(&[7, 8])),
    ];
    for (shape, path) in shapes {
        let frame = path.frame(&good_query());
        for length in 0..frame.len() {
            kinds.push((format!("{shape} cut after {length} bytes"), frame[..length].to_vec()));
        }
    }
}

fn ethernet(kinds: &mut Vec<Kind>) {
    let good = v4_path(&[]).frame(&good_query());
    let mut add = |name: &str, frame: Vec<u8>| kinds.push((name.to_owned(), frame));
    for ethertype in [0_u16, 46, 0x0801, 0x8035, 0x8847, 0x8863, 0x88cc, 0x9100, 0xffff] {
        let mut frame = good.clone();
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        add(&format!("ethertype {ethertype:#06x}"), frame);
    }
    for depth in 3..=8 {
        let tags: Vec<u16> = (1..=depth).collect();
        add(&format!("{depth} VLAN tags"), v4_path(&tags).frame(&good_query()));
    }
    for (name, mac) in [("another host", [2, 9, 9, 9, 9, 9]), ("nobody", [0; 6])] {
        let mut frame = good.clone();
        frame[..6].copy_from_slice(&mac);
        add(&format!("for {name}'s MAC"), frame);
    }
    let mut frame = good.clone();
    frame[6..12].fill(0xff);
    add("from the broadcast MAC", frame);
    add("all zeros", vec![0; 60]);
    add("all ones", vec![0xff; 60]);
    let mut padded = good;
    padded.resize(1514, 0xa5);
    add("padded to a whole frame", padded);
}

fn ipv4(kinds: &mut Vec<Kind>) {
    let path = v4_path(&[]);
    let datagram = path.datagram(&good_query());
    let packet = path.packet(17, &datagram);
    let total = u16::try_from(packet.len()).unwrap();
    // Header fields by offset and value, the header checksum made right again.
    let mut altered: Vec<(String, usize, Vec<u8>)> = Vec::new();
    for first in [0x05, 0x15, 0x35, 0x55, 0x65, 0xf5, 0x40, 0x41, 0x44, 0x4f] {
        altered.push((format!("version and length {first:#04x}"), 0, vec![first]));
    }
    for length in [0, 1, 19, 20, 27, 28, total - 1, total + 1, 9000, 0xffff] {
        altered.push((format!("total length {length}"), 2, length.to_be_bytes().to_vec()));
    }
    for fragment in [0x2000_u16, 0x2001, 0x0001, 0x1fff, 0x3fff, 0x8000] {
        altered.push((
            format!("fragment field {fragment:#06x}"),
            6,
            fragment.to_be_bytes().to_vec(),
        ));
    }
    for protocol in [0, 1, 2, 4, 6, 41, 47, 50, 58, 132, 255] {
        altered.push((format!("protocol {protocol}"), 9, vec![protocol]));
    }
    let nobody = [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255, 255, 255, 255], V4.octets()];
    for source in nobody {
        altered.push((format!("source {source:?}"), 12, source.to_vec()));
    }
    for target in [[10, 77, 0, 3], [10, 77, 255, 255], [224, 0, 0, 251], [255; 4], [0; 4]] {
        altered.push((format!("destination {target:?}"), 16, target.to_vec()));
    }
    altered.push(("time to live 0".into(), 8, vec![0]));
    for (name, at, bytes) in altered {
        let mut packet = packet.clone();
        packet[at..at + bytes.len()].copy_from_slice(&bytes);
        packet[10..12].fill(0);
        let sum = !crate::frames::sum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        kinds.push((format!("IPv4 {name}"), path.wrap(&packet)));
    }
    for bit in 0..16 {
        let mut packet = packet.clone();
        packet[10 + bit / 8] ^= 1 << (bit % 8);
        kinds.push((format!("IPv4 checksum with bit {bit} flipped"), path.wrap(&packet)));
    }
    for words in 1..=10 {
        for (name, option) in [("end", 0), ("no-op", 1), ("record route", 7), ("source route", 131)]
        {
            let mut options = vec![option; words * 4];
            if option > 1 {
                // Longer than the header.
                options[1] = 255;
            }
            let packet = v4_packet(CLIENT_V4, V4, 17, &options, &datagram);
            kinds.push((format!("IPv4 option {name} x {words}"), path.wrap(&packet)));
        }
    }
}

fn ipv6(kinds: &mut Vec<Kind>) {
    let path = v6_path(&[]);
    let datagram = path.datagram(&good_query());
    let packet = path.packet(17, &datagram);
    let length = u16::try_from(datagram.len()).unwrap();
    let mut add = |name: String, packet: &[u8]| {
        kinds.push((format!("IPv6 {name}"), path.wrap(packet)));
    };
    for first in [0x00, 0x40, 0x50, 0x70, 0xf0] {
        let mut packet = packet.clone();
        packet[0] = first;
        add(format!("version {:x}", first >> 4), &packet);
    }
    for length in [0, 1, 7, 8, 19, 20, length - 1, length + 1, 9000, 0xffff] {
        let mut packet = packet.clone();
        packet[4..6].copy_from_slice(&length.to_be_bytes());
        add(format!("payload length {length}"), &packet);
    }
    for next in [0, 4, 6, 41, 43, 44, 50, 51, 58, 59, 60, 132, 135, 139, 140, 253, 255] {
        let mut packet = packet.clone();
        packet[6] = next;
        add(format!("next header {next} that is not there"), &packet);
    }
    // Well-formed extension headers of eight bytes, alone and in chains.
    for next in [0_u8, 43, 44, 51, 60, 135] {
        for depth in [1_u8, 2, 12] {
            let mut payload = Vec::new();
            for place in 1..=depth {
                payload.extend([if place == depth { 17 } else { next }, 0, 1, 4, 0, 0, 0, 0]);
            }
            payload.extend(&datagram);
            add(format!("{depth} x extension header {next}"), &path.packet(next, &payload));
        }
    }
    let ones = "ff02::1".parse().unwrap();
    for source in [Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST, ones, V6] {
        let mut odd = v6_path(&[]);
        odd.from.1 = IpAddr::V6(source);
        kinds.push((format!("IPv6 source {source}"), odd.frame(&good_query())));
    }
    for target in [Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST, ones, CLIENT_V6] {
        let mut odd = v6_path(&[]);
        odd.to.1 = IpAddr::V6(target);
        kinds.push((format!("IPv6 destination {target}"), odd.frame(&good_query())));
    }
}

fn udp(kinds: &mut Vec<Kind>) {
    for (family, path) in [("v4", v4_path(&[])), ("v6", v6_path(&[]))] {
        let good = path.datagram(&good_query());
        let length = u16::try_from(good.len()).unwrap();
        let mut altered: Vec<(String, Vec<u8>)> = Vec::new();
        for length in [0, 1, 7, 8, 19, length - 1, length + 1, 0xffff] {
            let mut datagram = good.clone();
            datagram[4..6].copy_from_slice(&length.to_be_bytes());
            altered.push((format!("length {length}"), datagram));
        }
        for bit in 0..16 {
            let mut datagram = good.clone();
            datagram[6 + bit / 8] ^= 1 << (bit % 8);
            altered.push((format!("checksum with bit {bit} flipped"), datagram));
        }
        let mut datagram = good.clone();
        datagram[6..8].fill(0);
        altered.push(("checksum absent".into(), datagram));
        for (name, at, port) in [("source", 0, 0_u16), ("source", 0, 53), ("destination", 2, 5353)]
        {
            let mut odd = path.clone();
            if at == 0 {
                odd.from.2 = port
            } else {
                odd.to.2 = port
            };
            altered.push((format!("{name} port {port}"), odd.datagram(&good_query())));
        }
        for size in 0..12 {
            altered.push((format!("payload of {size} bytes"), path.datagram(&vec![0; size])));
        }
        for (name, datagram) in altered {
            let frame = path.wrap(&path.packet(17, &datagram));
            kinds.push((format!("UDP over {family}: {name}"), frame));
        }
    }
}

/// ARP, neighbour discovery and echo, cut short and bent.
fn neighbors(kinds: &mut Vec<Kind>) {
    let mut arp = vec![0xff; 6];
    arp.extend(CLIENT_MAC);
    arp.extend([0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1]);
    arp.extend(CLIENT_MAC);
    arp.extend(CLIENT_V4.octets());
    arp.extend([0; 6]);
    arp.extend(V4.octets());
    for length in 14..arp.len() {
        kinds.push((format!("ARP cut after {length} bytes"), arp[..length].to_vec()));
    }
    for at in 14..22 {
        let mut frame = arp.clone();
        frame[at] ^= 0x40;
        kinds.push((format!("ARP with byte {} bent", at - 14), frame));
    }

    let echo_v4 = [8, 0, 0xf7, 0xff, 0, 0, 0, 0];
    let mut echo_v6 = vec![128, 0, 0, 0, 0, 1, 0, 1];
    let mut solicitation = vec![135, 0, 0, 0, 0, 0, 0, 0];
    solicitation.extend(V6.octets());
    solicitation.extend([1, 1]);
    solicitation.extend(CLIENT_MAC);
    let (v4, v6) = (v4_path(&[]), v6_path(&[]));
    for message in [&mut echo_v6, &mut solicitation] {
        let sum = !v6.transport_sum(58, message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    let messages = [
        ("ICMP echo", &v4, 1, &echo_v4[..]),
        ("ICMPv6 echo", &v6, 58, &echo_v6[..]),
        ("neighbour solicitation", &v6, 58, &solicitation[..]),
    ];
    for (name, path, protocol, message) in messages {
        for length in 0..message.len() {
            let frame = path.wrap(&path.packet(protocol, &message[..length]));
            kinds.push((format!("{name} of {length} bytes"), frame));
        }
        for at in 0..message.len().min(4) {
            let mut bent = message.to_vec();
            bent[at] ^= 0x11;
            let frame = path.wrap(&path.packet(protocol, &bent));
            kinds.push((format!("{name} with byte {at} bent"), frame));
        }
    }
}
