//! Answers from the cache, as clients get them.

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RData;
use pmdns_stages::cache::Hit;
use pmdns_stages::testing::{self, QueryFrame, ReplyRecord, name_of, query};
use pmdns_stages::wire::be16;
use pmdns_stages::wire::ip::pseudo_header;
use pmdns_stages::{Answer, Step};

use super::line::{BLOCKED, Line, Setup, address, line, read};

#[test]
fn a_hit_is_a_whole_answer_with_the_client_s_own_question() {
    let mut line = line();
    line.learn(&query("www.example. A"), &[(0, 1, 300, address(1)), (0, 1, 200, address(2))], 10);
    for asked in [
        query("wWw.ExAmPlE. A"),
        query("WWW.example. A").over_ipv6(),
        query("www.example. A").edns(1232, false),
        QueryFrame { vlans: vec![5, 6], ..query("www.example. A") },
        QueryFrame { ipv4_options: vec![1; 8], ..query("www.example. A") },
        QueryFrame { padding: 20, ..query("www.example. A") },
    ] {
        let packet = line.ask(&asked, 40);
        let message = read(&packet, &asked);
        assert_eq!(message.metadata.id, asked.id);
        assert_eq!(message.metadata.response_code, ResponseCode::NoError);
        assert!(message.metadata.recursion_desired && message.metadata.recursion_available);
        assert!(!message.metadata.authoritative && !message.metadata.truncation);
        assert_eq!(message.answers[1].data, RData::A("192.0.2.2".parse().unwrap()));
        assert_eq!(message.edns.is_some(), asked.edns.is_some(), "OPT if and only if asked");
    }
}

#[test]
fn trap_01_every_record_s_own_ttl_counts_down() {
    let mut line = line();
    let asked = query("www.example. A").edns(1232, false);
    let records: [ReplyRecord; 4] = [
        (0, 1, 300, address(1)),
        (0, 1, 200, address(2)),
        (1, 2, 3600, name_of("ns.example.")),
        (2, 1, 86_400, address(3)),
    ];
    line.learn(&asked, &records, 10);
    for elapsed in [0, 1, 30, 199] {
        let packet = line.ask(&asked, 10 + elapsed);
        let message = read(&packet, &asked);
        let sections = [&message.answers, &message.authorities, &message.additionals];
        let ttls: Vec<u32> = sections.into_iter().flatten().map(|record| record.ttl).collect();
        assert_eq!(ttls, [300, 200, 3600, 86_400].map(|ttl| ttl - elapsed));
    }
}

#[test]
fn an_answer_ends_with_the_first_of_its_ttls() {
    let mut line = line();
    let asked = query("a.example. A");
    line.learn(&asked, &[(0, 1, 30, address(1)), (0, 1, 300, address(2))], 0);
    assert_eq!(line.ask(&asked, 29).step, Step::TRANSMIT);
    assert_eq!(line.ask(&asked, 30).step, Step::SLOW_PATH);
}

#[test]
fn hits_are_noted_where_somebody_wants_them_and_misses_are_not() {
    let asked = query("a.example. A");
    let records: [ReplyRecord; 1] = [(0, 1, 30, address(1))];
    let mut line = line();
    line.learn(&asked, &records, 0);
    assert_eq!(line.ask(&asked, 1).step, Step::TRANSMIT);
    assert!(line.stages.lookup.sampler().is_none());
    let mut line = Setup { samples: true, ..Setup::default() }.line();
    let hash = line.entry(&asked, &records, 0).head().hash;
    line.learn(&asked, &records, 0);
    for (text, now) in [("a.example. A", 1), ("b.example. A", 1), ("A.example. A", 2)] {
        line.ask(&query(text), now);
    }
    assert_eq!(line.ask(&asked, 30).step, Step::SLOW_PATH, "expired");
    let sampler = line.stages.lookup.sampler().unwrap();
    assert!(sampler.drain().eq([Hit { hash, weight: 1 }; 2]));
}

#[test]
fn other_types_names_and_dnssec_are_other_answers() {
    let mut line = line();
    line.learn(&query("a.example. A"), &[(0, 1, 300, address(1))], 0);
    assert_eq!(line.ask(&query("a.example. AAAA"), 1).step, Step::SLOW_PATH);
    assert_eq!(line.ask(&query("b.example. A"), 1).step, Step::SLOW_PATH);
    assert_eq!(line.ask(&query("a.example. A").edns(1232, true), 1).step, Step::SLOW_PATH);
    let checking_disabled = QueryFrame { flags: 0x0110, ..query("a.example. A") };
    assert_eq!(line.ask(&checking_disabled, 1).step, Step::SLOW_PATH);
}

#[test]
fn an_answer_too_long_for_its_client_is_truncated() {
    let mut line = line();
    let asked = query("big.example. TXT");
    let text = |byte| [vec![199], vec![byte; 199]].concat();
    let records: Vec<ReplyRecord> = (0..4).map(|byte| (0, 16, 60, text(byte))).collect();
    line.learn(&asked, &records, 0);
    for (asked, whole) in [
        (asked.clone(), false),
        (asked.clone().edns(512, false), false),
        (asked.clone().edns(1232, false), true),
        (asked.clone().edns(4096, false), true),
        (asked.clone().edns(0, false), false),
    ] {
        let packet = line.ask(&asked, 1);
        let message = read(&packet, &asked);
        assert_eq!(message.metadata.truncation, !whole, "{:?}", asked.edns);
        assert_eq!(message.answers.len(), if whole { 4 } else { 0 });
    }
}

#[test]
fn additional_records_are_left_out_before_anything_is_truncated() {
    let mut line = line();
    let asked = query("a.example. A");
    let mut records = vec![(0, 1, 60, address(1))];
    records.extend((0..40).map(|last| (2, 1, 60, address(last))));
    line.learn(&asked, &records, 0);
    let packet = line.ask(&asked, 1);
    let message = read(&packet, &asked);
    assert!(!message.metadata.truncation, "RFC 2181 section 9");
    assert_eq!((message.answers.len(), message.additionals.len()), (1, 0));
    let roomy = asked.edns(1232, false);
    let packet = line.ask(&roomy, 1);
    assert_eq!(read(&packet, &roomy).additionals.len(), 40);
}

#[test]
fn authority_records_are_left_out_of_answers_that_do_not_need_them() {
    let mut line = line();
    let name_servers = |count| (0..count).map(|last| (1, 2, 60, vec![2, b'n', last, 0]));
    let asked = query("a.example. A").edns(512, false);
    let mut records: Vec<ReplyRecord> = (0..20).map(|last| (0, 1, 60, address(last))).collect();
    records.extend(name_servers(20));
    records.push((2, 1, 60, address(1)));
    line.learn(&asked, &records, 0);
    let packet = line.ask(&asked, 1);
    let message = read(&packet, &asked);
    assert!(!message.metadata.truncation, "RFC 2181 section 9");
    let counts = [&message.answers, &message.authorities, &message.additionals].map(Vec::len);
    assert_eq!(counts, [20, 0, 0]);
    // With DNSSEC there may be proofs among them.
    let secure = query("a.example. A").edns(512, true);
    line.learn(&secure, &records, 0);
    let packet = line.ask(&secure, 1);
    assert!(read(&packet, &secure).metadata.truncation);
    // A negative answer is made of them.
    let nothing = query("b.example. A");
    let soa = [vec![0, 0], [1_u32; 5].map(u32::to_be_bytes).concat()].concat();
    let mut records = vec![(1, 6, 60, soa)];
    records.extend(name_servers(30));
    line.learn(&nothing, &records, 0);
    let packet = line.ask(&nothing, 0);
    assert!(read(&packet, &nothing).metadata.truncation);
}

#[test]
fn a_port_that_can_is_left_the_checksums() {
    let mut line = Setup { offload: true, ..Setup::default() }.line();
    let asked = query("a.example. A");
    line.learn(&asked, &[(0, 1, 60, address(1))], 0);
    let packet = line.ask(&asked, 1);
    let frame = packet.frame.bytes();
    assert_eq!(be16(frame, 24), Some(0), "the IPv4 field is zero");
    let len = (frame.len() - 34) as u16;
    let pseudo = pseudo_header(&frame[26..34], 17, len).folded();
    assert_eq!(be16(frame, 40), Some(pseudo), "the UDP field holds the pseudo-header's sum");
}

#[test]
fn a_fresh_answer_is_encoded_as_a_cached_one_is() {
    let mut line = line();
    let asked = query("a.example. A").edns(1232, false);
    let records = [(0, 1, 60, address(1)), (1, 2, 50, name_of("ns.example."))];
    let entry = line.entry(&asked, &records, 5);
    let missed = line.ask(&asked, 5);
    assert_eq!(missed.step, Step::SLOW_PATH);
    let mut fresh = Line::rebuilt(&missed, Answer::None);
    fresh.step = line.stages.encode.answer_with(&mut fresh, &entry, &testing::at(6));
    line.learn(&asked, &records, 5);
    let cached = line.ask(&asked, 6);
    assert_eq!(fresh.frame.bytes(), cached.frame.bytes());
    assert_eq!(read(&fresh, &asked).authorities.len(), 1);
}

/// It was learnt before the name was blocked.
#[test]
fn a_blocked_name_is_blocked_though_there_is_an_answer_in_the_cache() {
    let mut line = line();
    for name in [BLOCKED, "www.example."] {
        let asked = query(&format!("{name} A"));
        line.learn(&asked, &[(0, 1, 300, address(1))], 0);
        let packet = line.ask(&asked, 1);
        let expected = match name {
            BLOCKED => (ResponseCode::NXDomain, 0),
            _ => (ResponseCode::NoError, 1),
        };
        let message = read(&packet, &asked);
        assert_eq!((message.metadata.response_code, message.answers.len()), expected, "{name}");
    }
}
