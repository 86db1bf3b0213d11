//! ICMP errors to query sources, which quote a query of ours.

use super::replies::{OWNER, SOURCES, WAITS_AT, datagram, dropped, source, step, taken, upstream};
use super::*;
use crate::arrival::Arrival;
use crate::reply::ReplyPacket;
use crate::wire::ip::pseudo_header;

/// An ICMP message from a router that quotes so many bytes of our query, from its IP header on.
pub(super) fn error_about(is_ipv6: bool, kind: u8, code: u8, quoted: usize) -> Vec<u8> {
    let to_us = datagram(is_ipv6);
    let sent = QueryFrame {
        source: to_us.destination.clone(),
        destination: to_us.source,
        source_port: WAITS_AT,
        destination_port: 53,
        ..query("www.example. A")
    };
    let quote = sent.frame_bytes()[ETHERNET_LEN..].to_vec();
    let quote = &quote[..quoted.min(quote.len())];
    let message = [&[kind, code, 0, 0, 0, 0, 5, 0], quote].concat();
    sealed(is_ipv6, message)
}

/// An ICMP message, with the checksum made right.
fn sealed(is_ipv6: bool, mut message: Vec<u8>) -> Vec<u8> {
    let router = match is_ipv6 {
        true => [0xfd, 9, 3, 1, 3, 2, 3, 3, 3, 4, 3, 5, 3, 6, 3, 1].to_vec(),
        false => vec![10, 9, 1, 1],
    };
    let case = QueryFrame { source: router, ..datagram(is_ipv6) };
    let addresses = [case.source.clone(), case.destination.clone()].concat();
    put16(&mut message, 2, 0);
    let pseudo = match is_ipv6 {
        true => pseudo_header(&addresses, PROTOCOL_ICMPV6, message.len() as u16),
        false => Sum::default(),
    };
    let sum = pseudo.add_bytes(&message).checksum();
    put16(&mut message, 2, sum);
    // The message stands where a datagram would, whose header is taken out again.
    let mut frame = case.frame_around(&message);
    let l4 = if is_ipv6 { 54 } else { 34 };
    frame.drain(l4..l4 + UDP_LEN);
    if is_ipv6 {
        frame[20] = PROTOCOL_ICMPV6;
        put16(&mut frame, 18, message.len() as u16);
    } else {
        frame[23] = PROTOCOL_ICMP;
        put16(&mut frame, 16, 20 + message.len() as u16);
        seal_ipv4(&mut frame[14..34]);
    }
    frame
}

#[test]
fn an_error_about_a_query_reaches_its_owner() {
    let (unreachable, too_big) = (Arrival::Unreachable(OWNER), Arrival::TooBig(OWNER));
    let sent = query("www.example. A").message();
    for (is_ipv6, kind, code, arrival) in [
        (false, 3, 0, unreachable),
        (false, 3, 13, unreachable),
        (false, 3, 4, too_big),
        (true, 1, 4, unreachable),
        (true, 2, 0, too_big),
    ] {
        let headers = if is_ipv6 { 48 } else { 28 };
        for quoted in [0, 1, 2, 20, 1000] {
            let packet = taken(&error_about(is_ipv6, kind, code, headers + quoted));
            assert_eq!(packet.step, Step::REPLY);
            let expected = ReplyPacket {
                arrival,
                owner: OWNER,
                upstream: upstream(is_ipv6),
                source: source(is_ipv6),
                udp_port: WAITS_AT,
                message: &sent[..quoted.min(sent.len())],
            };
            let read = ReplyPacket::read(&packet, &SOURCES).unwrap();
            assert_eq!(read, expected);
            assert_eq!(read.id(), (quoted >= 2).then_some(0x1234));
        }
        let short = step(&error_about(is_ipv6, kind, code, headers - 1));
        assert_eq!(short, dropped(Reason::QuerySource), "it does not say which query");
    }
}

#[test]
fn errors_that_are_about_no_query_of_ours_are_dropped() {
    let unwelcome = dropped(Reason::QuerySource);
    for (is_ipv6, kind, code, what) in [
        (false, 11, 0, "time exceeded"),
        (false, 5, 1, "a redirect"),
        (false, 4, 0, "a source quench"),
        (true, 3, 0, "time exceeded"),
        (true, 137, 0, "a redirect"),
        (true, 134, 0, "a router advertisement"),
    ] {
        assert_eq!(step(&error_about(is_ipv6, kind, code, 100)), unwelcome, "{what}");
    }
    // The places are in the quoted IP header.
    for (is_ipv6, kind, place, value, expected, what) in [
        (false, 3, 0, 0x46, unwelcome, "options, which we send none of"),
        (false, 3, 0, 0x65, unwelcome, "another version"),
        (false, 3, 7, 1, unwelcome, "a later fragment"),
        (false, 3, 9, 6, unwelcome, "TCP"),
        (false, 3, 15, 61, unwelcome, "another source"),
        (false, 3, 20, 1, dropped(Reason::NoQuery), "another UDP port"),
        (true, 1, 0, 0x40, unwelcome, "another version"),
        (true, 1, 6, 6, unwelcome, "TCP"),
        (true, 1, 23, 0x61, unwelcome, "another source"),
        (true, 1, 40, 1, dropped(Reason::NoQuery), "another UDP port"),
    ] {
        let l4 = if is_ipv6 { 54 } else { 34 };
        let mut message = error_about(is_ipv6, kind, 0, 100)[l4..].to_vec();
        assert_eq!(step(&sealed(is_ipv6, message.clone())), Step::REPLY);
        message[8 + place] = value;
        assert_eq!(step(&sealed(is_ipv6, message)), expected, "{what}");
    }
}

#[test]
fn damaged_errors_are_dropped() {
    for (is_ipv6, kind) in [(false, 3), (true, 1)] {
        let whole = error_about(is_ipv6, kind, 0, 100);
        let l4 = if is_ipv6 { 54 } else { 34 };
        for at in l4 + 2..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            assert_ne!(step(&damaged), Step::REPLY, "byte {at}");
        }
        for len in 0..whole.len() {
            assert_ne!(step(&whole[..len]), Step::REPLY, "{len} bytes");
        }
    }
}
