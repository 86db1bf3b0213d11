//! Checksums: right ones, missing ones, and those that a port vouches for.

use super::*;

#[test]
fn a_query_without_udp_checksum_is_read_over_ipv4() {
    assert_eq!(step_after(&query("a. A"), |f| put16(f, 40, 0)), ON);
}

#[test]
fn no_port_can_verify_a_checksum_that_is_not_there() {
    let mut bytes = query("a. A").over_ipv6().frame_bytes();
    put16(&mut bytes, 60, 0);
    let mut packet = Packet::arrived(frame_of(&bytes), 0);
    packet.frame.set_verified(Verified::ALL);
    let packet = act_once(&mut parse(), packet, &at(0));
    assert_eq!(packet.step, Step::drop(Reason::UdpChecksum));
}

#[test]
fn a_port_that_verified_the_checksums_is_believed() {
    let mut bytes = query("a. A").frame_bytes();
    *bytes.last_mut().unwrap() = 0xff;
    let mut packet = Packet::arrived(frame_of(&bytes), 0);
    packet.frame.set_verified(Verified::ALL);
    assert_eq!(act_once(&mut parse(), packet, &at(0)).step, ON);
}

/// What a sender with checksum offload leaves in the UDP checksum: the sum of the pseudo-header.
fn unfinished(query: &QueryFrame) -> Vec<u8> {
    let mut bytes = query.frame_bytes();
    let l4 = if query.source.len() == 16 { 54 } else { 34 };
    let addresses = [query.source.as_slice(), &query.destination].concat();
    let len = be16(&bytes, l4 + udp::LEN).unwrap();
    let sum = crate::wire::ip::pseudo_header(&addresses, PROTOCOL_UDP, len).folded();
    put16(&mut bytes, l4 + udp::CHECKSUM, sum);
    bytes
}

#[test]
fn bound_b1_an_unfinished_udp_checksum_passes_if_the_port_vouches_for_it() {
    for case in [query("a. A"), query("a. A").over_ipv6()] {
        let mut packet = Packet::arrived(frame_of(&unfinished(&case)), 0);
        packet.frame.set_verified(Verified { ip: false, udp: true });
        assert_eq!(act_once(&mut parse(), packet, &at(0)).step, ON);
    }
    let mut damaged = unfinished(&query("a. A"));
    damaged[24] ^= 1;
    let mut packet = Packet::arrived(frame_of(&damaged), 0);
    packet.frame.set_verified(Verified { ip: false, udp: true });
    let step = act_once(&mut parse(), packet, &at(0)).step;
    assert_eq!(step, Step::drop(Reason::Ipv4Checksum), "the port did not look at that one");
}

#[test]
fn bound_b1_an_unfinished_udp_checksum_passes_on_a_port_that_cannot_tell() {
    let mut parse = parse();
    let mut act = |bytes: &[u8], partial_checksums| {
        let ports = parse.ports.iter().map(|port| Port { partial_checksums, ..port.clone() });
        parse.ports = ports.collect();
        act_once(&mut parse, Packet::arrived(frame_of(bytes), 0), &at(0)).step
    };
    let wrong = Step::drop(Reason::UdpChecksum);
    for case in [query("a. A"), query("a. A").over_ipv6()] {
        let bytes = unfinished(&case);
        assert_eq!((act(&bytes, true), act(&bytes, false)), (ON, wrong));
        let mut other = case.frame_bytes();
        *other.last_mut().unwrap() ^= 1;
        assert_eq!(act(&other, true), wrong, "any other sum must be right");
    }
}
