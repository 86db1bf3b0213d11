use pmdns_nics::Verified;

use super::*;
use crate::parse::Parse;
use crate::ports::Port;
use crate::step::{Reason, Step};
use crate::testing::{CLIENT_MAC, OUR_MAC, QueryFrame, act_once, at, frame_of, query};
use crate::wire::checksum::Sum;
use crate::wire::ip::seal_ipv4;
use crate::wire::layout::Layout;

const SECOND: u64 = 1000;

/// A packet of this kind whose transport header, behind an IPv4 header, is `l4`.
fn packet(what: Exception, l4: &[u8]) -> Packet {
    of_hops(what, l4, 255)
}

/// The same with this TTL.
fn of_hops(what: Exception, l4: &[u8], ttl: u8) -> Packet {
    let mut bytes = [&OUR_MAC[..], &CLIENT_MAC, &[8, 0], &[0; IPV4_MIN_LEN]].concat();
    bytes[14 + v4::TTL] = ttl;
    bytes.extend_from_slice(l4);
    Packet {
        step: Step::exception(what),
        layout: Layout { l3: 14, l4: 34, ..Layout::default() },
        ..Packet::arrived(frame_of(&bytes), 0)
    }
}

/// The known routers: the sender of the packets here, or nobody.
fn peers(is_known: bool) -> KnownRouters {
    let known = is_known.then_some(std::net::Ipv4Addr::UNSPECIFIED.into());
    KnownRouters::new(known, Seed::new([3; 16]))
}

fn ports(from: u16, to: u16) -> Vec<u8> {
    [from.to_be_bytes(), to.to_be_bytes()].concat()
}

fn tcp(from: u16, to: u16, flags: u8) -> ExceptionClass {
    let header = [&ports(from, to)[..], &[0; 9], &[flags], &[0; 6]].concat();
    ExceptionClass::of(&packet(Exception::Tcp, &header), &peers(true))
}

#[test]
fn classes_are_told_by_ports_and_types() {
    use ExceptionClass::{Control, Link, Rest, Streams};
    for port in [53, 443, 853] {
        assert_eq!(tcp(4000, port, SYN), Streams);
        assert_eq!(tcp(port, 4000, ACK), Rest, "what we ask others");
    }
    assert_eq!([tcp(4000, 179, ACK), tcp(179, 4000, SYN | ACK), tcp(4000, 179, 4)], [Control; 3]);
    assert_eq!([tcp(4000, 179, SYN), tcp(179, 4000, SYN)], [Rest; 2], "anybody sends those");
    assert_eq!(tcp(4000, 22, ACK), Rest);
    let of = |packet: &Packet| ExceptionClass::of(packet, &peers(true));
    let udp = |to| of(&packet(Exception::UdpPort, &ports(4000, to)));
    assert_eq!([3784, 3785, 4784].map(udp), [Link, Link, Control]);
    assert_eq!([443, 853].map(udp), [Streams; 2]);
    assert_eq!([53, 179, 3786].map(udp), [Rest; 3]);
    let icmpv6 = |kind| of(&packet(Exception::Icmpv6, &[kind]));
    assert_eq!([133, 134, 135, 136, 137].map(icmpv6), [Link; 5]);
    assert_eq!([1, 2, 3, 129, 132, 138].map(icmpv6), [Rest; 6]);
    let forwarded = |what, l4: &[u8]| of(&of_hops(what, l4, 254));
    let udp = |to| forwarded(Exception::UdpPort, &ports(4000, to));
    assert_eq!([3784, 3785, 4784].map(udp), [Rest, Rest, Control], "two are for one hop only");
    assert_eq!(forwarded(Exception::Icmpv6, &[135]), Rest, "the kernel would not believe it");
    let of = |what| ExceptionClass::of(&packet(what, &[]), &peers(true));
    assert_eq!(of(Exception::Arp), Link);
    for what in [Exception::Tcp, Exception::UdpPort, Exception::Icmpv6, Exception::Fragment] {
        assert_eq!(of(what), Rest, "cut off");
    }
}

#[test]
fn attack_e_nothing_from_afar_is_of_the_link_and_control_is_for_known_routers() {
    let of = |packet: &Packet, is_known| ExceptionClass::of(packet, &peers(is_known));
    let bgp = [&ports(4000, 179)[..], &[0; 9], &[ACK], &[0; 6]].concat();
    let forged = packet(Exception::Tcp, &bgp);
    assert_eq!(
        [of(&forged, true), of(&forged, false)],
        [ExceptionClass::Control, ExceptionClass::Rest]
    );
    let over_hops = packet(Exception::UdpPort, &ports(4000, BFD_OVER_HOPS));
    assert_eq!(of(&over_hops, false), ExceptionClass::Rest);
    for ttl in 0..255 {
        for (what, l4) in [
            (Exception::Tcp, bgp.clone()),
            (Exception::UdpPort, ports(4000, 3784)),
            (Exception::UdpPort, ports(4000, BFD_OVER_HOPS)),
            (Exception::Icmpv6, vec![135]),
        ] {
            assert_eq!(of(&of_hops(what, &l4, ttl), false), ExceptionClass::Rest, "{ttl} {what:?}");
        }
    }
}

#[test]
fn attack_f_redirects_are_known_in_both_families_and_in_first_fragments() {
    let icmp = |what, kind: u8, protocol: u8, fragment: u16| {
        let mut packet = packet(what, &[kind, 1, 0, 0, 0, 0, 0, 0]);
        let bytes = packet.frame.bytes_mut();
        (bytes[14], bytes[14 + v4::PROTOCOL]) = (0x45, protocol);
        put16(bytes, 14 + v4::FRAGMENT, fragment);
        is_redirect(&packet)
    };
    assert!(icmp(Exception::Icmp, 5, 1, 0) && icmp(Exception::Fragment, 5, 1, 0x2000));
    assert!(!icmp(Exception::Icmp, 3, 1, 0) && !icmp(Exception::Icmp, 8, 1, 0));
    assert!(!icmp(Exception::Fragment, 5, 1, 9), "that is in the middle of something");
    assert!(!icmp(Exception::Protocol, 5, 47, 0));
    let icmpv6 = |kind| is_redirect(&packet(Exception::Icmpv6, &[kind]));
    assert!(icmpv6(137) && ![133, 134, 135, 136, 1].map(icmpv6).contains(&true));
    assert!(
        !is_redirect(&packet(Exception::Arp, &[5])) && !is_redirect(&packet(Exception::Tcp, &[5]))
    );
}

/// The limits of a class at so many a second.
fn limits(rest_per_second: u32) -> [ClassLimit; 4] {
    let mut config = pmdns_config::Config::default();
    config.exceptions.rest_per_second = rest_per_second;
    ClassLimit::of_all(&config, SECOND, Seed::new([3; 16]))
}

fn from(client: u8, now: u64) -> Packet {
    let mut packet = packet(Exception::Tcp, &[0; 20]);
    packet.frame.bytes_mut()[14 + v4::SOURCE..][..4].copy_from_slice(&[10, client, 0, 1]);
    packet.received = now;
    packet
}

#[test]
fn a_prefix_gets_no_more_than_its_share_of_a_class() {
    let [.., mut rest] = limits(4000);
    let passed = |limit: &mut ClassLimit, client, now| {
        (0..1000).filter(|_| limit.passes(&from(client, now))).count()
    };
    assert_eq!(passed(&mut rest, 1, SECOND), 100, "a burst of its share");
    assert_eq!(passed(&mut rest, 2, SECOND), 100, "another has its own");
    let others: Vec<usize> = (3..=12).map(|client| passed(&mut rest, client, SECOND)).collect();
    assert!(
        others.iter().all(|passed| (1..=100).contains(passed)),
        "a newcomer passes: {others:?}"
    );
    assert_eq!(passed(&mut rest, 5, 3 * SECOND), 100, "later");
}

#[test]
fn a_flood_of_arp_leaves_room_for_bfd() {
    let mut config = pmdns_config::Config::default();
    config.exceptions.link_per_second = 4000;
    let [mut link, ..] = ClassLimit::of_all(&config, SECOND, Seed::new([3; 16]));
    let arp = Packet { received: SECOND, ..packet(Exception::Arp, &[]) };
    assert_eq!((0..1000).filter(|_| link.passes(&arp)).count(), 100);
    let bfd = packet(Exception::UdpPort, &ports(4000, 3784));
    assert!(link.passes(&Packet { received: SECOND, ..bfd }));
}

#[test]
fn classes_do_not_share() {
    let [mut link, .., mut rest] = limits(1);
    while rest.passes(&from(1, SECOND)) {}
    assert!(link.passes(&from(1, SECOND)));
}

#[test]
fn a_rate_of_zero_is_no_limit() {
    let [.., mut rest] = limits(0);
    assert!((0..100_000).all(|_| rest.passes(&from(1, SECOND))));
}

/// A TCP or UDP packet to a port that is not ours, and its sum of the pseudo-header.
fn sent(ipv6: bool, is_tcp: bool) -> Packet {
    let query = QueryFrame { destination_port: 4000, ..query("an-odd-name. A") };
    let query = if ipv6 { query.over_ipv6() } else { query };
    let mut bytes = query.frame_bytes();
    let (l3, l4) = (14, if ipv6 { 54 } else { 34 });
    let mut packet = Packet::arrived(frame_of(&bytes), 0);
    packet.layout = Layout { l3, l4, ..Layout::default() };
    packet.step = Step::exception(Exception::UdpPort);
    if ipv6 {
        packet.layout.flags.set(Flags::IPV6);
    }
    if is_tcp {
        let at = usize::from(l4);
        if ipv6 {
            bytes[14 + v6::NEXT_HEADER] = PROTOCOL_TCP;
        } else {
            bytes[14 + v4::PROTOCOL] = PROTOCOL_TCP;
            seal_ipv4(&mut bytes[14..34]);
        }
        put16(&mut bytes, at + TCP_CHECKSUM, 0);
        let sum = pseudo(&bytes, ipv6, is_tcp).add_bytes(&bytes[at..]).checksum();
        put16(&mut bytes, at + TCP_CHECKSUM, sum);
        packet.frame.bytes_mut().copy_from_slice(&bytes);
        packet.step = Step::exception(Exception::Tcp);
    }
    packet
}

fn pseudo(bytes: &[u8], ipv6: bool, is_tcp: bool) -> Sum {
    let (addresses, l4) = if ipv6 { (22..54, 54) } else { (26..34, 34) };
    let protocol = if is_tcp { PROTOCOL_TCP } else { PROTOCOL_UDP };
    pseudo_header(&bytes[addresses], protocol, (bytes.len() - l4) as u16)
}

#[test]
fn an_unfinished_checksum_is_finished_for_the_kernel_and_no_other_is_touched() {
    for (ipv6, is_tcp) in [(false, false), (false, true), (true, false), (true, true)] {
        let whole = sent(ipv6, is_tcp);
        let (l4, at) = (usize::from(whole.layout.l4), if is_tcp { TCP_CHECKSUM } else { 6 });
        let right = whole.frame.bytes().to_vec();
        let finish = |change: &dyn Fn(&mut [u8]), may_be_partial, verified| {
            let mut packet = sent(ipv6, is_tcp);
            change(packet.frame.bytes_mut());
            packet.frame.set_verified(verified);
            finish_checksum(&mut packet, may_be_partial);
            packet.frame.bytes().to_vec()
        };
        let partial = |bytes: &mut [u8]| {
            let sum = pseudo(bytes, ipv6, is_tcp).folded();
            put16(bytes, l4 + at, sum);
        };
        assert_eq!(finish(&|_| (), true, Verified::NOTHING), right);
        assert_eq!(finish(&partial, true, Verified::NOTHING), right, "{ipv6} {is_tcp}");
        assert_eq!(finish(&partial, false, Verified::ALL), right, "the port vouches for it");
        assert_ne!(finish(&partial, false, Verified::NOTHING), right, "it came over a wire");
        let wrong = |bytes: &mut [u8]| bytes[l4 + 20] ^= 1;
        assert_ne!(finish(&wrong, true, Verified::ALL), right, "the kernel shall see that");
        let absent = |bytes: &mut [u8]| put16(bytes, l4 + at, 0);
        let mut without = right.clone();
        absent(&mut without);
        assert_eq!(finish(&absent, true, Verified::ALL), without);
    }
}

#[test]
fn no_bytes_make_finishing_panic() {
    for len in 0..80 {
        for what in [Exception::Tcp, Exception::UdpPort] {
            for (l3, l4) in [(14, 34), (22, 82), (200, 10), (0, 0)] {
                let mut packet = Packet::arrived(frame_of(&vec![0xff; len]), 0);
                packet.step = Step::exception(what);
                packet.layout = Layout { l3, l4, ..Layout::default() };
                finish_checksum(&mut packet, true);
                ExceptionClass::of(&packet, &peers(true));
                is_redirect(&packet);
            }
        }
    }
}

/// Where parse sends a frame, on a port with a TAP or without.
fn step_of(bytes: &[u8], has_tap: bool) -> Step {
    let ours = [crate::testing::OUR_IPV4.into(), crate::testing::OUR_IPV6.into()];
    let port = Port { has_tap, ..Port::new(OUR_MAC, ours) };
    let mut parse = Parse::new([port].into(), Seed::new([3; 16]));
    act_once(&mut parse, Packet::arrived(frame_of(bytes), 0), &at(0)).step
}

/// A query as an IPv4 fragment with this offset field, or behind these IPv6 extension headers.
fn fragment(port: u16, offset: u16) -> Vec<u8> {
    let mut bytes = QueryFrame { destination_port: port, ..query("a. A") }.frame_bytes();
    put16(&mut bytes, 14 + v4::FRAGMENT, offset);
    seal_ipv4(&mut bytes[14..34]);
    bytes
}

fn behind(kind: u8, header: &[u8], port: u16) -> Vec<u8> {
    let mut bytes =
        QueryFrame { destination_port: port, ..query("a. A").over_ipv6() }.frame_bytes();
    bytes.splice(54..54, header.iter().copied());
    let len = (bytes.len() - 54) as u16;
    put16(&mut bytes, 14 + v6::PAYLOAD_LEN, len);
    bytes[14 + v6::NEXT_HEADER] = kind;
    bytes
}

#[test]
fn fragments_are_for_the_kernel_unless_they_are_queries() {
    const MORE: u16 = 0x2000;
    let (to_kernel, v4_drop) =
        (Step::exception(Exception::Fragment), Step::drop(Reason::Ipv4Fragment));
    for (port, offset, expected) in [
        (4000, MORE, to_kernel),
        (53, MORE, v4_drop),
        (53, 1, to_kernel),
        (53, MORE | 9, to_kernel),
    ] {
        assert_eq!(step_of(&fragment(port, offset), true), expected, "{port} {offset:x}");
        assert_eq!(step_of(&fragment(port, offset), false), v4_drop, "without a TAP");
    }
    let v6_drop = Step::drop(Reason::Ipv6Fragment);
    for (next, port, offset, expected) in [
        (17, 4000, 1, to_kernel),
        (17, 53, 1, v6_drop),
        (17, 53, 8, to_kernel),
        (6, 53, 1, to_kernel),
        (44, 4000, 1, v6_drop),
        (60, 4000, 1, v6_drop),
        (50, 4000, 1, to_kernel),
    ] {
        let header = [next, 0, 0, offset, 0, 0, 0, 7];
        assert_eq!(step_of(&behind(44, &header, port), true), expected, "{next} {port} {offset}");
        assert_eq!(step_of(&behind(44, &header, port), false), v6_drop, "without a TAP");
    }
}

#[test]
fn esp_is_for_the_kernel_and_what_may_hide_a_query_is_not() {
    let dropped = Step::drop(Reason::Ipv6Extension);
    for (kind, expected) in [
        (50, Step::exception(Exception::Protocol)),
        (51, Step::exception(Exception::Protocol)),
        (0, dropped),
        (43, dropped),
        (60, dropped),
    ] {
        let bytes = behind(kind, &[17, 0, 0, 0, 0, 0, 0, 0], 53);
        assert_eq!(step_of(&bytes, true), expected, "{kind}");
        assert_eq!(step_of(&bytes, false), dropped, "{kind} without a TAP");
    }
}
