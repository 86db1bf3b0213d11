//! Frames that are read, and frames that are not.

use proptest::prelude::*;

use pmdns_config::Vlan;
use pmdns_nics::Verified;

use super::*;
use crate::answer::Answer;
use crate::testing::{
    CLIENT_MAC, OUR_IPV4, OUR_IPV6, OUR_MAC, Query, act_once, at, frame_of, query,
};
use crate::vlan::Vlans;
use crate::wire::dns::Rcode;
use crate::wire::edns::OPT_LEN;
use crate::wire::ip::seal_ipv4;
use crate::wire::put16;

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
fn step_after(query: &Query, change: impl FnOnce(&mut Vec<u8>)) -> Step {
    let mut bytes = query.frame_bytes();
    change(&mut bytes);
    parsed(&bytes).step
}

/// Where the DNS message `message` goes, and what it is to be answered.
fn outcome(message: &[u8]) -> (Step, Answer) {
    let packet = parsed(&query("a. A").frame_around(message));
    (packet.step, packet.answer)
}

type Change = fn(&mut Vec<u8>);
/// A change to a message whose question ends at the number given.
type ChangeFrom = fn(&mut Vec<u8>, usize);

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
    let cases: [(&Query, Reason, Change); 17] = [
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
fn three_vlan_tags_are_too_many() {
    let mut tagged = query("a. A");
    tagged.vlans = vec![1, 2, 3];
    assert_eq!(step_after(&tagged, |_| ()), Step::drop(Reason::VlanDepth));
}

/// Where a query with these tags goes, on a port in these VLANs.
fn step_in(vlans: &[Vlan], tags: &[u16], ipv6: bool) -> Step {
    let mut case = query("a. A");
    case.vlans = tags.to_vec();
    let case = if ipv6 { case.over_ipv6() } else { case };
    let mut parse = parse();
    let ports = parse.ports.iter().map(|port| Port { vlans: Vlans::of(vlans), ..port.clone() });
    parse.ports = ports.collect();
    act_once(&mut parse, case.packet(), &at(0)).step
}

#[test]
fn bound_b3_only_frames_of_the_port_s_vlans_are_read() {
    use Vlan::{Double, Tagged, Untagged};
    let not_ours = Step::drop(Reason::Vlan);
    let cases: [(&[Vlan], &[u16], Step); 9] = [
        (&[Untagged], &[], ON),
        (&[Untagged], &[0x6000], ON),
        (&[Untagged], &[7], not_ours),
        (&[Untagged, Tagged(7)], &[], ON),
        (&[Untagged, Tagged(7)], &[0x6007], ON),
        (&[Tagged(7)], &[], not_ours),
        (&[Tagged(7)], &[8], not_ours),
        (&[Double(7, 8)], &[7, 8], ON),
        (&[Double(7, 8)], &[8, 7], not_ours),
    ];
    for (vlans, tags, expected) in cases {
        for ipv6 in [false, true] {
            assert_eq!(step_in(vlans, tags, ipv6), expected, "{tags:?} on a port in {vlans:?}");
        }
    }
}

#[test]
fn bound_b3_arp_of_another_vlan_is_dropped_too() {
    let arp = |frame: &mut Vec<u8>| {
        let at = frame.len() - 2;
        frame[12..14].copy_from_slice(&crate::wire::ip::TYPE_VLAN.to_be_bytes());
        frame[14..16].copy_from_slice(&9u16.to_be_bytes());
        frame[16..18].copy_from_slice(&TYPE_ARP.to_be_bytes());
        frame.truncate(at);
    };
    assert_eq!(step_after(&query("a. A"), arp), Step::drop(Reason::Vlan));
}

#[test]
fn bound_b2_mld_queries_reach_the_neighbor_stage() {
    let mut mld = query("a. A").over_ipv6();
    let all_nodes = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let to = |query: &mut Query, address: [u8; 16]| query.destination = address.to_vec();
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

#[test]
fn a_query_without_udp_checksum_is_read_over_ipv4() {
    assert_eq!(step_after(&query("a. A"), |f| put16(f, 40, 0)), ON);
}

#[test]
fn only_queries_from_one_host_to_our_own_mac_are_answered() {
    let to_all = |frame: &mut Vec<u8>| frame[..6].fill(0xff);
    assert_eq!(step_after(&query("a. A"), to_all), Step::drop(Reason::NotOurMac));
    let to_another = |frame: &mut Vec<u8>| frame[5] ^= 1;
    assert_eq!(step_after(&query("a. A"), to_another), Step::drop(Reason::NotOurMac));
    let from_a_group = |frame: &mut Vec<u8>| frame[6] |= 1;
    assert_eq!(step_after(&query("a. A"), from_a_group), Step::drop(Reason::SourceAddress));
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
fn unfinished(query: &Query) -> Vec<u8> {
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

#[test]
fn responses_and_stubs_of_messages_are_never_answered() {
    let mut message = query("a. A").message();
    message[2] |= 0x80;
    assert_eq!(outcome(&message).0, Step::drop(Reason::DnsResponse));
    assert_eq!(outcome(&message[..11]).0, Step::drop(Reason::DnsHeader));
}

#[test]
fn queries_we_do_not_do_get_their_rcode() {
    let plain = query("a. A").message();
    let with_edns = query("a. A").edns(1232, false).message();
    let opt = plain.len();
    let changed = |message: &[u8], change: ChangeFrom| {
        let mut message = message.to_vec();
        change(&mut message, opt);
        outcome(&message)
    };
    let cases: [(Rcode, &[u8], ChangeFrom); 15] = [
        (Rcode::NOTIMP, &plain, |m, _| m[2] |= 5 << 3),
        (Rcode::FORMERR, &plain, |m, _| m[5] = 0),
        (Rcode::FORMERR, &plain, |m, _| m[5] = 2),
        (Rcode::FORMERR, &plain, |m, _| m[7] = 1),
        (Rcode::FORMERR, &plain, |m, _| m.truncate(13)),
        (Rcode::FORMERR, &plain, |m, _| m[12] = 0xc0),
        (Rcode::FORMERR, &plain, |m, _| m.push(0)),
        (Rcode::FORMERR, &with_edns, |m, opt| m[opt + 10] = 1),
        (Rcode::FORMERR, &with_edns, |m, opt| {
            m[11] = 2;
            m.extend_from_within(opt..);
        }),
        (Rcode::BADVERS, &with_edns, |m, opt| m[opt + 6] = 1),
        (Rcode::FORMERR, &plain, |m, opt| put16(m, opt - 4, 41)),
        (Rcode::REFUSED, &plain, |m, opt| put16(m, opt - 4, 252)),
        // IXFR with its SOA in the authority section (RFC 1995 section 3).
        (Rcode::REFUSED, &plain, |m, opt| {
            put16(m, opt - 4, 251);
            m[9] = 1;
            m.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22]);
            m.extend_from_slice(&[0; 22]);
        }),
        (Rcode::NOTIMP, &plain, |m, opt| put16(m, opt - 4, 254)),
        (Rcode::REFUSED, &plain, |m, opt| put16(m, opt - 2, 3)),
    ];
    for (index, (rcode, message, change)) in cases.into_iter().enumerate() {
        assert_eq!(changed(message, change), (ON, Answer::Rcode(rcode)), "case {index}");
    }
}

#[test]
fn a_formerr_keeps_the_opt_record_that_could_be_read() {
    for (change, name_len) in [(4usize, 0), (6, 3)] {
        // QDCOUNT 0 without a question, ANCOUNT 1 with a record before the OPT.
        let mut message = query("a. A").edns(1232, true).message();
        if change == 4 {
            message[5] = 0;
            message.drain(HEADER_LEN..HEADER_LEN + 7);
        } else {
            message[7] = 1;
            let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0];
            message.splice(HEADER_LEN + 7..HEADER_LEN + 7, record);
        }
        let packet = parsed(&query("a. A").frame_around(&message));
        assert_eq!(packet.answer, Answer::Rcode(Rcode::FORMERR));
        assert!(packet.layout.flags.has(Flags::EDNS), "RFC 6891 section 6.1.1");
        assert_eq!(packet.layout.name_len, name_len);
    }
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

/// A query that is plain, or nearly.
fn nearly_plain() -> impl Strategy<Value = Vec<u8>> {
    let types = prop_oneof![0u16..260, Just(65_280)];
    let edns = proptest::option::of((any::<u16>(), any::<bool>()));
    let option = proptest::option::of(Just(10u16));
    (types, edns, option, proptest::option::of((0usize..60, any::<u8>())), 0usize..3).prop_map(
        |(qtype, edns, option, change, cut)| {
            let mut query = Query { qtype, edns, ..query("www.Example. A") };
            if let Some(code) = option {
                query = query.option(code, &[1; 8]);
            }
            let mut message = query.message();
            if let Some((at, value)) = change {
                let len = message.len();
                message[at % len] = value;
            }
            message.truncate(message.len() - cut);
            message
        },
    )
}

proptest! {
    #[test]
    fn what_is_read_as_plain_is_read_the_same_as_any_query(message in nearly_plain()) {
        let name_len = name_len(name::length(&message[HEADER_LEN..]));
        let any = ParsedQuery::read_any(&message, name_len);
        let plain = ParsedQuery::read_plain(&message, name_len);
        if let Some(plain) = plain.filter(|_| ParsedQuery::may_be_plain(&message)) {
            prop_assert_eq!(plain, any);
            prop_assert_eq!(any.error, None);
        } else {
            let bare_len = HEADER_LEN + question_len(any.name_len) + OPT_LEN;
            let has_options = any.edns.is_some() && message.len() > bare_len;
            let has_others = message[HEADER_LEN - 1] > u8::from(any.edns.is_some());
            let wants_recursion = message[header::FLAGS] & 1 != 0;
            let is_other = any.error.is_some() || has_options || has_others || !wants_recursion;
            prop_assert!(is_other, "it is plain");
        }
    }
}

/// CVE-2024-2169: one forged datagram, and two services send each other errors for ever.
#[test]
fn audit_10_services_that_answer_anything_get_no_reply() {
    let letters: Vec<u8> = (b'!'..).take(72).collect();
    let from = |source_port, payload: &[u8]| {
        parsed(&Query { source_port, ..query("a. A") }.frame_around(payload)).step
    };
    let good = query("a. A").message();
    for port in [7, 9, 11, 13, 17, 19, 37, 69, 123, 464] {
        assert_eq!(from(port, &letters), Step::drop(Reason::ReflectorPort), "{port}");
        assert_eq!(from(port, &good), Step::drop(Reason::ReflectorPort), "{port}");
        let over_ipv6 = Query { source_port: port, ..query("a. A").over_ipv6() };
        assert_eq!(parsed(&over_ipv6.frame_bytes()).step, Step::drop(Reason::ReflectorPort));
    }
    assert_eq!(from(0, &good), Step::drop(Reason::UdpHeader));
    for port in [1, 20, 53, 161, 389, 853, 1023, 1024, 11_211, 65_535] {
        assert_eq!(from(port, &good), ON, "{port}");
    }
}
