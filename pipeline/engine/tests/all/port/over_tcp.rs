//! What has a query over a port asked again over TCP: a reply in fragments, and word that it is too long for the path.

use std::net::SocketAddr;
use std::time::Duration;

use pmdns_stages::wire::dns::header;
use pmdns_stages::wire::{be16, ip, put16};

use super::only_ports::{link, patient, send, with_other_id};
use super::rig::{Asked, Rig};
use super::stepping::port_wire::{Asked as Sent, TOO_BIG};
use super::stub::{Send, Stub};

/// Asks one name of a stub at each of these addresses, which replies with a record over UDP and with two over TCP. It is busy
/// while `arrive` says what comes. Expects what is counted for it then: TCP, `oversized`, `mismatched` and errors.
fn expect(arrive: impl Fn(&mut Rig, &Sent), expected: [u64; 4]) {
    for address in ["127.0.0.1", "::1"] {
        let script =
            |asked: &Asked| vec![Send::Reply(asked.addresses(1 + u16::from(asked.over_tcp), 300))];
        let stub = Stub::start(address.parse().unwrap(), script);
        stub.faults.busy.set(true);
        let mut rig = patient(&stub, 8);
        let sent = send(&mut rig, 1).remove(0);
        arrive(&mut rig, &sent);
        rig.pass(Duration::from_millis(10));
        let upstream = rig.upstream(0);
        let counted = [upstream.tcp, upstream.oversized, upstream.mismatched, upstream.errors];
        assert_eq!(counted, expected, "{address}");
        stub.faults.busy.set(false);
        assert_eq!(u64::from(rig.answers(1)[0].records), 1 + expected[0], "{address}");
        rig.finish();
    }
}

/// The first fragment of the datagram in a frame: all but its last eight bytes (RFC 791, RFC 8200 section 4.5).
fn first_fragment(mut frame: Vec<u8>) -> Vec<u8> {
    frame.truncate(frame.len() - 8);
    if be16(&frame, ip::ETHERTYPE) == Some(ip::TYPE_IPV4) {
        let packet = &mut frame[ip::ETHERNET_LEN..];
        put16(packet, ip::v4::TOTAL_LEN, packet.len() as u16);
        put16(packet, ip::v4::FRAGMENT, 0x2000);
        ip::seal_ipv4(&mut packet[..ip::IPV4_MIN_LEN]);
        return frame;
    }
    let behind_header = ip::ETHERNET_LEN + ip::IPV6_LEN;
    frame.splice(behind_header..behind_header, [ip::PROTOCOL_UDP, 0, 0, 1, 0, 0, 0, 7]);
    let packet = &mut frame[ip::ETHERNET_LEN..];
    packet[ip::v6::NEXT_HEADER] = 44;
    put16(packet, ip::v6::PAYLOAD_LEN, (packet.len() - ip::IPV6_LEN) as u16);
    frame
}

/// The first fragment arrives of a datagram to the UDP port of a query.
fn arrive_begun(rig: &mut Rig, from: SocketAddr, sent: &Sent, message: &[u8]) {
    let frame = link(rig).datagram(from, sent.from, message).unwrap();
    link(rig).feed(&first_fragment(frame));
}

/// The reply to a query, too long for a packet.
fn long_reply(sent: &Sent) -> Vec<u8> {
    let asked = Asked { message: sent.message.clone(), from: sent.from, over_tcp: false };
    asked.addresses(50, 300)
}

#[test]
fn a_reply_in_fragments_is_asked_for_over_tcp() {
    let arrive = |rig: &mut Rig, sent: &Sent| {
        arrive_begun(rig, sent.to, sent, &long_reply(sent));
    };
    expect(arrive, [1, 1, 0, 0]);
}

#[test]
fn a_fragment_of_another_reply_changes_nothing() {
    let with_other_id = |rig: &mut Rig, sent: &Sent| {
        let mut reply = long_reply(sent);
        reply[header::ID] ^= 1;
        arrive_begun(rig, sent.to, sent, &reply);
    };
    expect(with_other_id, [0, 0, 1, 0]);
    let from_another = |rig: &mut Rig, sent: &Sent| {
        let mut other = sent.to;
        other.set_port(other.port() ^ 1);
        arrive_begun(rig, other, sent, &long_reply(sent));
    };
    expect(from_another, [0, 0, 1, 0]);
}

#[test]
fn a_query_that_is_too_long_for_the_path_goes_over_tcp() {
    let arrive = |rig: &mut Rig, sent: &Sent| link(rig).refuse_with(sent, TOO_BIG);
    expect(arrive, [1, 0, 0, 0]);
}

#[test]
fn word_that_another_query_is_too_long_changes_nothing() {
    let arrive = |rig: &mut Rig, sent: &Sent| {
        link(rig).refuse_with(&with_other_id(sent, 1), TOO_BIG);
    };
    expect(arrive, [0, 0, 1, 0]);
}
