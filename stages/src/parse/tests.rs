//! Frames that are read, and frames that are not.

use proptest::prelude::*;

use pmdns_config::Vlan;
use pmdns_nics::Verified;

use super::*;
use crate::answer::Answer;
use crate::testing::{
    CLIENT_MAC, OUR_IPV4, OUR_IPV6, OUR_MAC, QueryFrame, act_once, at, frame_of, query,
};
use crate::vlan::Vlans;
use crate::wire::ip::seal_ipv4;
use crate::wire::put16;

mod checksums;
mod errors;
mod link;
mod messages;
mod plain;
mod replies;

/// The VLANs of the port.
const VLANS: [Vlan; 4] = [Vlan::Untagged, Vlan::Tagged(7), Vlan::Double(7, 8), Vlan::Double(1, 2)];

fn parse() -> Parse {
    let addresses = [std::net::IpAddr::from(OUR_IPV4), std::net::IpAddr::from(OUR_IPV6)];
    let port = Port { vlans: Vlans::of(&VLANS), ..Port::new(OUR_MAC, addresses) };
    Parse::new([port].into(), Seed::new([1; 16]))
}

fn parsed(bytes: &[u8]) -> Packet {
    act_once(&mut parse(), Packet::arrived(frame_of(bytes), 0), &at(0))
}

/// Where a frame goes after `change` was made to it.
fn step_after(query: &QueryFrame, change: impl FnOnce(&mut Vec<u8>)) -> Step {
    let mut bytes = query.frame_bytes();
    change(&mut bytes);
    parsed(&bytes).step
}

type Change = fn(&mut Vec<u8>);

const ON: Step = Parse::CONTINUE;

#[test]
fn a_query_is_found_under_any_headers() {
    let plain = query("www.Example. AAAA").edns(1400, true);
    let mut tagged = plain.clone();
    tagged.vlans = vec![7, 8];
    let mut optioned = plain.clone();
    optioned.ipv4_options = vec![1; 40];
    let mut padded = query(". NS");
    padded.padding = 1;
    for (case, l3, l4) in [
        (plain.clone(), 14, 34),
        (plain.over_ipv6(), 14, 54),
        (tagged.clone(), 22, 42),
        (tagged.over_ipv6(), 22, 62),
        (optioned, 14, 74),
        (padded, 14, 34),
    ] {
        let packet = parsed(&case.frame_bytes());
        assert_eq!((packet.step, packet.answer), (ON, Answer::None), "{case:?}");
        let layout = packet.layout;
        assert_eq!((layout.l3, layout.l4, layout.dns()), (l3, l4, usize::from(l4) + 8));
        assert_eq!(packet.query().name(), case.name);
        assert_eq!(packet.query().id(), case.id);
        assert_eq!((layout.qtype, layout.qclass), (case.qtype, case.qclass));
        assert_eq!(layout.flags.has(Flags::EDNS), case.edns.is_some());
        assert_eq!(layout.udp_size, case.edns.map_or(0, |edns| edns.0));
    }
}

#[test]
fn the_key_does_not_depend_on_letter_case() {
    let key = |text| parsed(&query(text).frame_bytes()).key;
    assert_eq!(key("WwW.eXample. A"), key("www.example. A"));
    assert_ne!(key("www.example. A"), key("wwv.example. A"));
}

#[test]
fn bad_headers_are_dropped_with_their_reason() {
    let v4 = query("a.example. A");
    let v6 = v4.clone().over_ipv6();
    let cases: [(&QueryFrame, Reason, Change); 17] = [
        (&v4, Reason::Runt, |f| f.truncate(13)),
        (&v4, Reason::Ipv4Header, |f| f.truncate(33)),
        (&v4, Reason::Ipv4Header, |f| f[14] = 0x55),
        (&v4, Reason::Ipv4Header, |f| f[14] = 0x44),
        (&v4, Reason::Ipv4Header, |f| put16(f, 16, 0xffff)),
        (&v4, Reason::Ipv4Checksum, |f| f[24] ^= 1),
        (&v4, Reason::UdpChecksum, |f| *f.last_mut().unwrap() ^= 1),
        (&v4, Reason::UdpHeader, |f| put16(f, 38, 9)),
        (&v4, Reason::NotOurAddress, |f| {
            f[33] ^= 1;
            seal_ipv4(&mut f[14..34]);
        }),
        (&v4, Reason::SourceAddress, |f| {
            f[26] = 224;
            seal_ipv4(&mut f[14..34]);
        }),
        (&v4, Reason::Ipv4Fragment, |f| {
            put16(f, 20, 0x2000);
            seal_ipv4(&mut f[14..34]);
        }),
        (&v6, Reason::Ipv6Header, |f| f[14] = 0x40),
        (&v6, Reason::Ipv6Header, |f| put16(f, 18, 2000)),
        (&v6, Reason::Ipv6Fragment, |f| f[20] = 44),
        (&v6, Reason::Ipv6Extension, |f| f[20] = 0),
        (&v6, Reason::UdpChecksum, |f| put16(f, 60, 0)),
        (&v6, Reason::SourceAddress, |f| f[22] = 0xff),
    ];
    for (index, (query, reason, change)) in cases.into_iter().enumerate() {
        assert_eq!(step_after(query, change), Step::drop(reason), "case {index}");
    }
}

#[test]
fn bound_b2_mld_queries_reach_the_neighbor_stage() {
    let mut mld = query("a. A").over_ipv6();
    let all_nodes = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let to = |query: &mut QueryFrame, address: [u8; 16]| query.destination = address.to_vec();
    to(&mut mld, all_nodes);
    let hop_by_hop = |frame: &mut Vec<u8>| frame[20] = 0;
    assert_eq!(step_after(&mld, hop_by_hop), Step::at(StageName::Neighbor));
    for (address, what) in [
        ([&[0xff, 2], &all_nodes[2..15], &[0x16]].concat(), "a report of somebody else"),
        ([&[0xff, 5], &all_nodes[2..]].concat(), "a group beyond this link"),
    ] {
        to(&mut mld, address.try_into().unwrap());
        assert_eq!(step_after(&mld, hop_by_hop), Step::drop(Reason::NotOurAddress), "{what}");
    }
}

#[test]
fn bound_low_what_is_for_this_host_but_not_dns_is_an_exception_of_its_kind() {
    let exception = Step::exception;
    let tcp = |frame: &mut Vec<u8>| {
        frame[23] = 6;
        seal_ipv4(&mut frame[14..34]);
    };
    assert_eq!(step_after(&query("a. A"), tcp), exception(Exception::Tcp));
    assert_eq!(step_after(&query("a. A"), |f| put16(f, 36, 54)), exception(Exception::UdpPort));
    assert_eq!(
        step_after(&query("a. A"), |f| put16(f, 12, 0x88cc)),
        exception(Exception::Ethertype)
    );
    let arp = |frame: &mut Vec<u8>| put16(frame, 12, TYPE_ARP);
    assert_eq!(step_after(&query("a. A"), arp), Step::at(StageName::Neighbor));
}

proptest! {
    #[test]
    fn any_bytes_go_somewhere(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        parsed(&bytes);
    }

    #[test]
    fn a_changed_query_goes_somewhere(
        at in 0usize..100, value: u8, cut in 0usize..100, ipv6: bool, verified: bool,
    ) {
        let mut case = query("www.example. TXT").edns(1232, true);
        if ipv6 {
            case = case.over_ipv6();
        }
        let mut bytes = case.frame_bytes();
        let at = at % bytes.len();
        bytes[at] = value;
        bytes.truncate(bytes.len() - cut % bytes.len());
        let mut packet = Packet::arrived(frame_of(&bytes), 0);
        if verified {
            packet.frame.set_verified(Verified::ALL);
        }
        let packet = act_once(&mut parse(), packet, &at_start());
        if packet.step == ON {
            let _ = (packet.query().question(), packet.layout.client(packet.frame.bytes()));
        }
    }
}

fn at_start() -> Context {
    at(0)
}

#[test]
fn the_frames_of_the_tests_are_what_they_seem() {
    let bytes = query("a. A").frame_bytes();
    assert_eq!(bytes[..6], OUR_MAC);
    assert_eq!(bytes[6..12], CLIENT_MAC);
}

/// CVE-2024-2169: one forged datagram, and two services send each other errors for ever.
#[test]
fn audit_10_services_that_answer_anything_get_no_reply() {
    let letters: Vec<u8> = (b'!'..).take(72).collect();
    let from = |source_port, payload: &[u8]| {
        parsed(&QueryFrame { source_port, ..query("a. A") }.frame_around(payload)).step
    };
    let good = query("a. A").message();
    for port in [7, 9, 11, 13, 17, 19, 37, 69, 123, 464] {
        assert_eq!(from(port, &letters), Step::drop(Reason::ReflectorPort), "{port}");
        assert_eq!(from(port, &good), Step::drop(Reason::ReflectorPort), "{port}");
        let over_ipv6 = QueryFrame { source_port: port, ..query("a. A").over_ipv6() };
        assert_eq!(parsed(&over_ipv6.frame_bytes()).step, Step::drop(Reason::ReflectorPort));
    }
    assert_eq!(from(0, &good), Step::drop(Reason::UdpHeader));
    for port in [1, 20, 53, 161, 389, 853, 1023, 1024, 11_211, 65_535] {
        assert_eq!(from(port, &good), ON, "{port}");
    }
}
