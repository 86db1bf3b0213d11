//! What comes to query sources: replies, fragments of them, ICMP errors, and everything else.

use std::net::SocketAddr;
use std::sync::LazyLock;

use super::*;
use crate::arrival::Arrival;
use crate::query_sources::{Owner, QuerySources, Source, SourceIndex};
use crate::reply::ReplyPacket;
use crate::testing::{ReplyRecord, reply};
use crate::wire::ip::pseudo_header;

use super::errors::error_about;

// No two bytes of these addresses are zero or 255 together: one would pass for the other in a checksum.
const SOURCE_V4: [u8; 4] = [10, 9, 7, 60];
const UPSTREAM_V4: [u8; 4] = [10, 9, 3, 53];
const SOURCE_V6: [u8; 16] = [0xfd, 9, 1, 1, 1, 2, 1, 3, 1, 4, 1, 5, 1, 6, 1, 0x60];
const UPSTREAM_V6: [u8; 16] = [0xfd, 9, 2, 1, 2, 2, 2, 3, 2, 4, 2, 5, 2, 6, 2, 0x53];
/// The UDP port on which a query waits, and its owner.
pub(super) const WAITS_AT: u16 = 50_001;
pub(super) const OWNER: Owner = Owner { thread: 2, slot: 77_777 };

/// The sources of two ports, and a query that waits on each source of the first.
pub(super) static SOURCES: LazyLock<Arc<QuerySources>> = LazyLock::new(|| {
    let source = |port, address: std::net::IpAddr| Source { port, address };
    let sources = QuerySources::new(vec![
        source(0, SOURCE_V4.into()),
        source(0, SOURCE_V6.into()),
        source(1, [10, 9, 7, 61].into()),
    ]);
    for index in sources.indexes() {
        assert!(sources.claim(index, WAITS_AT, OWNER));
    }
    Arc::new(sources)
});

fn asking() -> Parse {
    asking_in(&[Vlan::Untagged], false)
}

/// A parse stage for a port in these VLANs that asks from the sources.
fn asking_in(vlans: &[Vlan], partial_checksums: bool) -> Parse {
    let addresses = [std::net::IpAddr::from(OUR_IPV4), std::net::IpAddr::from(OUR_IPV6)];
    let port = Port {
        vlans: Vlans::of(vlans),
        partial_checksums,
        ..Port::new(OUR_MAC, addresses).with_query_sources(Arc::clone(&SOURCES), 0)
    };
    Parse::new([port].into(), Seed::new([1; 16]))
}

fn taken_by(parse: &mut Parse, bytes: &[u8], verified: Verified) -> Packet {
    let mut packet = Packet::arrived(frame_of(bytes), 0);
    packet.frame.set_verified(verified);
    act_once(parse, packet, &at(0))
}

pub(super) fn taken(bytes: &[u8]) -> Packet {
    taken_by(&mut asking(), bytes, Verified::NOTHING)
}

pub(super) fn step(bytes: &[u8]) -> Step {
    taken(bytes).step
}

/// A datagram from the upstream to the query that waits. Its content is that of a reply.
pub(super) fn datagram(is_ipv6: bool) -> QueryFrame {
    let (source, destination) = match is_ipv6 {
        true => (UPSTREAM_V6.to_vec(), SOURCE_V6.to_vec()),
        false => (UPSTREAM_V4.to_vec(), SOURCE_V4.to_vec()),
    };
    let (source_port, destination_port) = (53, WAITS_AT);
    QueryFrame { source, destination, source_port, destination_port, ..query("www.example. A") }
}

fn message() -> Vec<u8> {
    let records: [ReplyRecord; 1] = [(0, 1, 300, vec![192, 0, 2, 7])];
    reply(&query("www.example. A"), &records)
}

fn good(is_ipv6: bool) -> Vec<u8> {
    datagram(is_ipv6).frame_around(&message())
}

pub(super) fn upstream(is_ipv6: bool) -> SocketAddr {
    match is_ipv6 {
        true => (UPSTREAM_V6, 53).into(),
        false => (UPSTREAM_V4, 53).into(),
    }
}

pub(super) fn source(is_ipv6: bool) -> SourceIndex {
    SOURCES.indexes().nth(is_ipv6.into()).unwrap()
}

pub(super) fn dropped(reason: Reason) -> Step {
    Step::drop(reason)
}

#[test]
fn a_reply_goes_to_the_query_that_waits_for_it() {
    for is_ipv6 in [false, true] {
        let mut padded = datagram(is_ipv6);
        padded.padding = 9;
        let mut optioned = datagram(is_ipv6);
        optioned.ipv4_options = vec![1; 40];
        let mut tagged = datagram(is_ipv6);
        tagged.vlans = vec![7];
        for (case, vlan) in [
            (datagram(is_ipv6), Vlan::Untagged),
            (padded, Vlan::Untagged),
            (optioned, Vlan::Untagged),
            (tagged, Vlan::Tagged(7)),
        ] {
            let frame = case.frame_around(&message());
            let packet = taken_by(&mut asking_in(&[vlan], false), &frame, Verified::NOTHING);
            assert_eq!(packet.step, Step::REPLY, "{case:?}");
            let expected = ReplyPacket {
                arrival: Arrival::Reply(OWNER),
                owner: OWNER,
                upstream: upstream(is_ipv6),
                source: source(is_ipv6),
                udp_port: WAITS_AT,
                message: &message(),
            };
            let read = ReplyPacket::read(&packet, &SOURCES);
            assert_eq!(read, Some(expected), "{case:?}");
            assert_eq!(read.and_then(|reply| reply.id()), Some(0x1234));
        }
    }
}

#[test]
fn queries_to_the_other_addresses_of_the_port_are_queries() {
    for case in [query("a. A"), query("a. A").over_ipv6()] {
        let packet = taken(&case.frame_bytes());
        assert_eq!(packet.step, ON);
        assert_eq!(ReplyPacket::read(&packet, &SOURCES), None);
    }
    let response = QueryFrame { flags: flag::QR, ..query("a. A") };
    assert_eq!(step(&response.frame_bytes()), dropped(Reason::DnsResponse));
}

#[test]
fn where_no_query_waits_nothing_passes() {
    let sources = [Source { port: 0, address: SOURCE_V4.into() }];
    let sources = Arc::new(QuerySources::new(sources.to_vec()));
    let index = sources.find_v4(0, SOURCE_V4).unwrap();
    let port = Port::new(OUR_MAC, []).with_query_sources(Arc::clone(&sources), 0);
    let mut parse = Parse::new([port].into(), Seed::new([1; 16]));
    let mut step = || taken_by(&mut parse, &good(false), Verified::NOTHING).step;
    assert_eq!(step(), dropped(Reason::NoQuery));
    assert!(sources.claim(index, WAITS_AT, OWNER));
    assert_eq!(step(), Step::REPLY);
    sources.release(index, WAITS_AT);
    assert_eq!(step(), dropped(Reason::NoQuery));
    let elsewhere = QueryFrame { destination: vec![10, 9, 7, 61], ..datagram(false) };
    let frame = elsewhere.frame_around(&message());
    let reason = taken(&frame).step;
    assert_eq!(reason, dropped(Reason::NotOurAddress), "that is a source of another port");
}

#[test]
fn bad_replies_are_dropped_with_their_reason() {
    let cases: [(bool, Reason, Change); 17] = [
        (false, Reason::NotOurMac, |f| f[5] ^= 1),
        (true, Reason::NotOurMac, |f| f[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1])),
        (false, Reason::SourceAddress, |f| f[6] |= 1),
        (false, Reason::SourceAddress, |f| from_v4(f, [127, 0, 0, 1])),
        (false, Reason::SourceAddress, |f| from_v4(f, OUR_IPV4)),
        (false, Reason::SourceAddress, |f| from_v4(f, SOURCE_V4)),
        (true, Reason::SourceAddress, |f| f[22..38].copy_from_slice(&SOURCE_V6)),
        (true, Reason::SourceAddress, |f| f[22..38].copy_from_slice(&OUR_IPV6)),
        (true, Reason::SourceAddress, |f| f[22] = 0xff),
        (false, Reason::UdpHeader, |f| put16(f, 38, 9)),
        (false, Reason::UdpHeader, |f| put16(f, 34, 0)),
        (false, Reason::NoQuery, |f| put16(f, 36, WAITS_AT + 1)),
        (false, Reason::UdpChecksum, |f| *f.last_mut().unwrap() ^= 1),
        (true, Reason::UdpChecksum, |f| put16(f, 60, 0)),
        (false, Reason::Ipv4Checksum, |f| f[24] ^= 1),
        (true, Reason::Ipv6Extension, |f| f[20] = 0),
        (true, Reason::Ipv6Header, |f| f.truncate(80)),
    ];
    for (index, (is_ipv6, reason, change)) in cases.into_iter().enumerate() {
        let mut frame = good(is_ipv6);
        change(&mut frame);
        assert_eq!(step(&frame), dropped(reason), "case {index}");
    }
    for is_ipv6 in [false, true] {
        let short = datagram(is_ipv6).frame_around(&message()[..HEADER_LEN - 1]);
        assert_eq!(step(&short), dropped(Reason::DnsHeader));
        let header_only = datagram(is_ipv6).frame_around(&message()[..HEADER_LEN]);
        assert_eq!(step(&header_only), Step::REPLY, "the slow path reads the message");
    }
}

fn from_v4(frame: &mut [u8], source: [u8; 4]) {
    frame[26..30].copy_from_slice(&source);
    seal_ipv4(&mut frame[14..34]);
}

#[test]
fn what_is_neither_a_reply_nor_an_error_is_dropped() {
    let unwelcome = dropped(Reason::QuerySource);
    for protocol in [1, 2, PROTOCOL_TCP, 58, 132] {
        let mut frame = good(false);
        frame[23] = protocol;
        seal_ipv4(&mut frame[14..34]);
        assert_eq!(step(&frame), unwelcome, "protocol {protocol} over IPv4");
    }
    for protocol in [1, PROTOCOL_TCP, PROTOCOL_ICMPV6, 132] {
        let mut frame = good(true);
        frame[20] = protocol;
        assert_eq!(step(&frame), unwelcome, "protocol {protocol} over IPv6");
    }
    assert_eq!(step(&error_about(false, 8, 0, 60)), unwelcome, "a ping");
    assert_eq!(step(&error_about(true, 128, 0, 60)), unwelcome, "a ping over IPv6");
}

#[test]
fn clients_vlans_are_not_those_of_upstreams() {
    let mut parse = asking_in(&[Vlan::Tagged(7), Vlan::Tagged(8)], false);
    let mut step = |vlans: &[u16], case: QueryFrame| {
        let tagged = QueryFrame { vlans: vlans.to_vec(), ..case };
        taken_by(&mut parse, &tagged.frame_around(&message()), Verified::NOTHING).step
    };
    for is_ipv6 in [false, true] {
        assert_eq!(step(&[7], datagram(is_ipv6)), Step::REPLY);
        assert_eq!(step(&[8], datagram(is_ipv6)), dropped(Reason::QuerySource));
        assert_eq!(step(&[9], datagram(is_ipv6)), dropped(Reason::Vlan));
    }
}

#[test]
fn checksums_of_replies_are_those_of_queries() {
    let udp = Verified { udp: true, ..Verified::NOTHING };
    for (is_ipv6, checksum_at, l4) in [(false, 40, 34), (true, 60, 54)] {
        let mut damaged = good(is_ipv6);
        *damaged.last_mut().unwrap() ^= 1;
        let wrong = dropped(Reason::UdpChecksum);
        assert_eq!(step(&damaged), wrong);
        assert_eq!(
            taken_by(&mut asking(), &damaged, udp).step,
            Step::REPLY,
            "the port has seen it"
        );
        let mut absent = good(is_ipv6);
        put16(&mut absent, checksum_at, 0);
        let expected = if is_ipv6 { wrong } else { Step::REPLY };
        assert_eq!(step(&absent), expected, "RFC 768, RFC 8200 section 8.1");
        assert_eq!(taken_by(&mut asking(), &absent, udp).step, expected);
        let mut partial = good(is_ipv6);
        let case = datagram(is_ipv6);
        let len = be16(&partial, l4 + udp::LEN).unwrap();
        let addresses = [case.source, case.destination].concat();
        let sum = pseudo_header(&addresses, PROTOCOL_UDP, len).folded();
        put16(&mut partial, checksum_at, sum);
        assert_eq!(step(&partial), wrong);
        let mut parse = asking_in(&[Vlan::Untagged], true);
        assert_eq!(taken_by(&mut parse, &partial, Verified::NOTHING).step, Step::REPLY);
        assert_eq!(taken_by(&mut parse, &damaged, Verified::NOTHING).step, wrong);
    }
}

/// The good reply as a fragment: so many bytes of the datagram from `offset` on.
fn fragment(is_ipv6: bool, offset: usize, len: usize, more: bool) -> Vec<u8> {
    let whole = good(is_ipv6);
    let start = if is_ipv6 { 54 } else { 34 };
    let (mut headers, datagram) = (whole[..start].to_vec(), &whole[start..][offset..][..len]);
    if is_ipv6 {
        headers[20] = IPV6_FRAGMENT;
        put16(&mut headers, 18, (8 + len) as u16);
        let [high, low] = (offset as u16 | u16::from(more)).to_be_bytes();
        headers.extend([PROTOCOL_UDP, 0, high, low, 1, 2, 3, 4]);
    } else {
        put16(&mut headers, 16, (20 + len) as u16);
        put16(&mut headers, 20, (offset / 8) as u16 | u16::from(more) << 13);
        seal_ipv4(&mut headers[14..34]);
    }
    [&headers, datagram].concat()
}

#[test]
fn of_a_fragmented_reply_the_first_fragment_reaches_the_slow_path() {
    for is_ipv6 in [false, true] {
        let packet = taken(&fragment(is_ipv6, 0, 40, true));
        assert_eq!(packet.step, Step::REPLY);
        let expected = ReplyPacket {
            arrival: Arrival::Fragment(OWNER),
            owner: OWNER,
            upstream: upstream(is_ipv6),
            source: source(is_ipv6),
            udp_port: WAITS_AT,
            message: &message()[..32],
        };
        assert_eq!(ReplyPacket::read(&packet, &SOURCES), Some(expected));
        let later = dropped(Reason::ReplyFragment);
        assert_eq!(step(&fragment(is_ipv6, 8, 24, true)), later);
        assert_eq!(step(&fragment(is_ipv6, 40, 8, false)), later, "the last one");
        assert_eq!(step(&fragment(is_ipv6, 0, 16, true)), dropped(Reason::DnsHeader), "a tiny one");
        let len = message().len() + UDP_LEN;
        let whole = step(&fragment(is_ipv6, 0, len, true));
        assert_eq!(whole, dropped(Reason::UdpHeader), "more follow, though nothing is missing");
    }
}

#[test]
fn a_fragment_that_is_the_whole_packet_is_a_reply() {
    let whole = message();
    let packet = taken(&fragment(true, 0, whole.len() + UDP_LEN, false));
    let read = ReplyPacket::read(&packet, &SOURCES).expect("RFC 6946");
    assert_eq!((read.arrival, read.message), (Arrival::Reply(OWNER), &*whole));
    let mut tcp = fragment(true, 0, 40, true);
    tcp[54] = PROTOCOL_TCP;
    assert_eq!(step(&tcp), dropped(Reason::QuerySource));
    let mut cut = fragment(true, 0, 40, true);
    cut.truncate(61);
    put16(&mut cut, 18, 7);
    assert_eq!(step(&cut), dropped(Reason::Ipv6Fragment));
}

#[test]
fn neighbour_discovery_to_a_source_has_a_stage_of_its_own() {
    for kind in [135, 136] {
        let packet = taken(&error_about(true, kind, 0, 60));
        assert_eq!(packet.step, Step::at(StageName::Neighbor));
        assert_eq!((packet.layout.l3, packet.layout.l4), (14, 54));
    }
    assert_eq!(step(&error_about(true, 133, 0, 60)), dropped(Reason::QuerySource));
}

/// One of each kind that passes.
fn all_good() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for is_ipv6 in [false, true] {
        let (unreachable, too_big) = if is_ipv6 { ((1, 0), (2, 0)) } else { ((3, 1), (3, 4)) };
        frames.push(good(is_ipv6));
        frames.push(fragment(is_ipv6, 0, 40, true));
        frames.push(error_about(is_ipv6, unreachable.0, unreachable.1, 100));
        frames.push(error_about(is_ipv6, too_big.0, too_big.1, 60));
    }
    frames.push(fragment(true, 0, message().len() + UDP_LEN, false));
    frames
}

proptest! {
    #[test]
    fn nothing_that_passes_is_unreadable(
        which in 0usize..9, cut in 0usize..100, verified: bool,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut frame = all_good()[which].clone();
        for (at, value) in changes {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        frame.truncate(frame.len() - cut % 40 * usize::from(cut >= 40));
        let verified = if verified { Verified::ALL } else { Verified::NOTHING };
        let packet = taken_by(&mut asking(), &frame, verified);
        let read = ReplyPacket::read(&packet, &SOURCES);
        prop_assert_eq!(read.is_some(), packet.step == Step::REPLY);
        if let Some(read) = read {
            prop_assert_eq!(read.owner, OWNER);
            prop_assert_eq!(read.udp_port, WAITS_AT);
            prop_assert!(read.message.len() <= frame.len());
        }
    }

    #[test]
    fn a_reply_with_another_address_port_or_checksum_is_dropped(
        is_ipv6: bool, place in any::<prop::sample::Index>(), mask in 1u8..,
    ) {
        let mut frame = good(is_ipv6);
        // From the addresses on to the UDP checksum.
        let headers = if is_ipv6 { 22..62 } else { 26..42 };
        let at = headers.start + place.index(headers.len());
        frame[at] ^= mask;
        if !is_ipv6 {
            seal_ipv4(&mut frame[14..34]);
        }
        let is_absent = !is_ipv6 && frame[40..42] == [0, 0];
        prop_assert_eq!(step(&frame) == Step::REPLY, is_absent);
    }
}
