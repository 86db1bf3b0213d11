//! Queries through parse, lookup and encode, and the answers read back by a library that is not ours.
#![expect(clippy::unwrap_used, reason = "in a test, unwrap is an assertion")]

use std::net::IpAddr;
use std::sync::Arc;

use hickory_proto::op::{Message, OpCode, ResponseCode};
use hickory_proto::rr::rdata::SOA;
use hickory_proto::rr::{Name, RData, RecordType};
use pmdns_nics::hugepage::Arena;
use pmdns_stages::cache::{Cache, Entry, Hit, Key, Lifetimes, Writer};
use pmdns_stages::encode::Encode;
use pmdns_stages::lookup::Lookup;
use pmdns_stages::parse::Parse;
use pmdns_stages::policy::LocalData;
use pmdns_stages::ports::{Port, Ports};
use pmdns_stages::testing::{
    self, OUR_IPV4, OUR_IPV6, OUR_MAC, Query, Record, entry_of, name_of, query,
};
use pmdns_stages::wire::be16;
use pmdns_stages::wire::checksum::Sum;
use pmdns_stages::wire::dns::HEADER_LEN;
use pmdns_stages::wire::ip::pseudo_header;
use pmdns_stages::wire::name::Seed;
use pmdns_stages::{Answer, Batch, Exits, Packet, Stage, StageName, Step};
use proptest::prelude::*;

const MAX_UDP_SIZE: u16 = 1232;

struct Line {
    parse: Parse,
    lookup: Lookup,
    encode: Encode,
    cache: Arc<Cache>,
    writer: Writer,
}

fn line(offload: bool) -> Line {
    let seed = Seed::new([9; 16]);
    let (cache, mut writers) = Cache::new(Arena::heap(1 << 17), 1, seed).unwrap();
    let addresses = [IpAddr::from(OUR_IPV4), IpAddr::from(OUR_IPV6)];
    let ports: Ports = [Port { checksum_offload: offload, ..Port::new(OUR_MAC, addresses) }].into();
    let local = Arc::new(LocalData::new(&[], &[], seed).unwrap());
    Line {
        parse: Parse::new(Arc::clone(&ports), seed),
        lookup: Lookup::new(Arc::clone(&cache)),
        encode: Encode::new(Arc::clone(&cache), local, ports, MAX_UDP_SIZE),
        writer: writers.remove(0),
        cache,
    }
}

impl Line {
    /// Keeps an upstream's answer to `query`, learnt at second `now`.
    fn learn(&mut self, query: &Query, records: &[Record], now: u32) {
        let entry = self.entry(query, records, now);
        self.writer.insert(&entry);
    }

    fn entry(&self, query: &Query, records: &[Record], now: u32) -> Entry {
        entry_of(query, records, now, self.cache.seed())
    }

    /// Takes one query down the line at second `now`.
    fn ask(&mut self, query: &Query, now: u32) -> Packet {
        self.walk(query.packet(), now)
    }

    fn walk(&mut self, packet: Packet, now: u32) -> Packet {
        let context = testing::at(now);
        let mut batch = Batch::new();
        batch.push(packet);
        let mut exits = Exits::default();
        self.parse.process(&mut batch, &context, &mut exits);
        // The stages in between let everything pass here.
        let decided = batch[0].answer != Answer::None;
        if batch[0].step == Step::at(StageName::Acl) {
            batch[0].step = Step::at(if decided { StageName::Encode } else { StageName::Lookup });
        }
        self.lookup.process(&mut batch, &context, &mut exits);
        self.encode.process(&mut batch, &context, &mut exits);
        batch.pop().unwrap()
    }
}

/// Checks everything around the DNS message and gives the message.
fn opened<'p>(packet: &'p Packet, query: &Query) -> &'p [u8] {
    assert_eq!(packet.step, Step::TRANSMIT);
    let asked = query.frame_bytes();
    let frame = packet.frame.bytes();
    let (l3, l4) = (usize::from(packet.layout.l3), usize::from(packet.layout.l4));
    assert_eq!((&frame[..6], &frame[6..12]), (&asked[6..12], &asked[..6]), "hardware addresses");
    assert_eq!(frame[12..l3], asked[12..l3], "VLAN tags and EtherType");
    let (addresses, turned) = if query.source.len() == 16 {
        assert_eq!(be16(frame, l3 + 4), Some((frame.len() - l4) as u16), "payload length");
        (&frame[l3 + 8..l3 + 40], [query.destination.as_slice(), &query.source].concat())
    } else {
        assert!(Sum::default().add_bytes(&frame[l3..l4]).is_right(), "IPv4 checksum");
        assert_eq!(be16(frame, l3 + 2), Some((frame.len() - l3) as u16), "total length");
        (&frame[l3 + 12..l3 + 20], [query.destination.as_slice(), &query.source].concat())
    };
    assert_eq!(addresses, turned, "addresses");
    assert_eq!(be16(frame, l4), Some(53));
    assert_eq!(be16(frame, l4 + 2), Some(query.source_port));
    assert_eq!(be16(frame, l4 + 4), Some((frame.len() - l4) as u16), "UDP length");
    assert_ne!(be16(frame, l4 + 6), Some(0), "there is a UDP checksum");
    let len = (frame.len() - l4) as u16;
    assert!(pseudo_header(addresses, 17, len).add_bytes(&frame[l4..]).is_right(), "UDP checksum");
    &frame[l4 + 8..]
}

fn read(packet: &Packet, query: &Query) -> Message {
    let message = opened(packet, query);
    let question = HEADER_LEN + query.name.len() + 4;
    assert_eq!(message[HEADER_LEN..question], query.message()[HEADER_LEN..question], "0x20");
    Message::from_vec(message).expect("an answer that others can read")
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn address(last: u8) -> Vec<u8> {
    vec![192, 0, 2, last]
}

#[test]
fn a_hit_is_a_whole_answer_with_the_client_s_own_question() {
    let mut line = line(false);
    line.learn(&query("www.example. A"), &[(0, 1, 300, address(1)), (0, 1, 200, address(2))], 10);
    for asked in [
        query("wWw.ExAmPlE. A"),
        query("WWW.example. A").over_ipv6(),
        query("www.example. A").edns(1232, false),
        Query { vlans: vec![5, 6], ..query("www.example. A") },
        Query { ipv4_options: vec![1; 8], ..query("www.example. A") },
        Query { padding: 20, ..query("www.example. A") },
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
    let mut line = line(false);
    let asked = query("www.example. A").edns(1232, false);
    let records: [Record; 4] = [
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
    let mut line = line(false);
    let asked = query("a.example. A");
    line.learn(&asked, &[(0, 1, 30, address(1)), (0, 1, 300, address(2))], 0);
    assert_eq!(line.ask(&asked, 29).step, Step::TRANSMIT);
    assert_eq!(line.ask(&asked, 30).step, Step::SLOW_PATH);
}

#[test]
fn hits_are_noted_where_somebody_wants_them_and_misses_are_not() {
    let mut line = line(false);
    let asked = query("a.example. A");
    let hash = line.entry(&asked, &[(0, 1, 30, address(1))], 0).head().hash;
    line.learn(&asked, &[(0, 1, 30, address(1))], 0);
    assert_eq!(line.ask(&asked, 1).step, Step::TRANSMIT);
    assert!(line.lookup.sampler().is_none());
    line.lookup = Lookup::sampling(Arc::clone(&line.cache));
    for (text, now) in [("a.example. A", 1), ("b.example. A", 1), ("A.example. A", 2)] {
        line.ask(&query(text), now);
    }
    assert_eq!(line.ask(&asked, 30).step, Step::SLOW_PATH, "expired");
    let sampler = line.lookup.sampler().unwrap();
    assert!(sampler.drain().eq([Hit { hash, weight: 1 }; 2]));
}

#[test]
fn other_types_names_and_dnssec_are_other_answers() {
    let mut line = line(false);
    line.learn(&query("a.example. A"), &[(0, 1, 300, address(1))], 0);
    assert_eq!(line.ask(&query("a.example. AAAA"), 1).step, Step::SLOW_PATH);
    assert_eq!(line.ask(&query("b.example. A"), 1).step, Step::SLOW_PATH);
    assert_eq!(line.ask(&query("a.example. A").edns(1232, true), 1).step, Step::SLOW_PATH);
    let checking_disabled = Query { flags: 0x0110, ..query("a.example. A") };
    assert_eq!(line.ask(&checking_disabled, 1).step, Step::SLOW_PATH);
}

#[test]
fn an_answer_too_long_for_its_client_is_truncated() {
    let mut line = line(false);
    let asked = query("big.example. TXT");
    let text = |byte| [vec![199], vec![byte; 199]].concat();
    let records: Vec<Record> = (0..4).map(|byte| (0, 16, 60, text(byte))).collect();
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
    let mut line = line(false);
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
fn errors_are_answered_with_what_can_be_repeated() {
    let mut line = line(false);
    let wrong_version = query("a.example. A").edns(1232, true);
    let mut message = wrong_version.message();
    let opt = message.len() - 11;
    message[opt + 6] = 1;
    let packet =
        line.walk(Packet::arrived(testing::frame_of(&wrong_version.frame_around(&message)), 0), 0);
    let answer = read(&packet, &wrong_version);
    assert_eq!(u16::from(answer.metadata.response_code), 16, "BADVERS");
    assert_eq!(answer.edns.unwrap().version(), 0);

    let garbled = query("a.example. A");
    let mut message = garbled.message();
    message[5] = 3;
    let packet =
        line.walk(Packet::arrived(testing::frame_of(&garbled.frame_around(&message)), 0), 0);
    let answer = opened(&packet, &garbled);
    assert_eq!(answer, [0x12, 0x34, 0x81, 0x81, 0, 0, 0, 0, 0, 0, 0, 0], "FORMERR, header only");
}

#[test]
fn a_port_that_can_is_left_the_checksums() {
    let mut line = line(true);
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
    let mut line = line(false);
    let asked = query("a.example. A").edns(1232, false);
    let records = [(0, 1, 60, address(1)), (1, 2, 50, name_of("ns.example."))];
    let entry = line.entry(&asked, &records, 5);
    let missed = line.ask(&asked, 5);
    assert_eq!(missed.step, Step::SLOW_PATH);
    let miss = pmdns_stages::miss::Miss::of(&missed);
    let pool = pmdns_nics::FramePool::Heap(pmdns_nics::HeapPool::new(1));
    let mut fresh = miss.packet(&pool, Answer::None).unwrap();
    fresh.step = line.encode.answer_with(&mut fresh, &entry, &testing::at(6));
    line.learn(&asked, &records, 5);
    let cached = line.ask(&asked, 6);
    assert_eq!(fresh.frame.bytes(), cached.frame.bytes());
    assert_eq!(read(&fresh, &asked).authorities.len(), 1);
}

#[test]
fn a_denial_of_a_name_is_read_back_as_one_of_those_below_it() {
    let mut line = line(false);
    let seed = line.cache.seed();
    let mut denial = Message::response(7, OpCode::Query);
    denial.metadata.response_code = ResponseCode::NXDomain;
    denial.add_query(hickory_proto::op::Query::query(name("gone.example."), RecordType::A));
    let soa = SOA::new(name("ns.gone.example."), name("admin.example."), 1, 2, 3, 4, 300);
    denial.add_authority(hickory_proto::rr::Record::from_rdata(
        name("example."),
        600,
        RData::SOA(soa),
    ));
    let denied = query("gone.example. A");
    let key = Key { name: &denied.name, qtype: 1, qclass: 1, flags: 0 };
    let lifetimes =
        Lifetimes { min_ttl: 0, max_ttl: 86_400, max_negative_ttl: 300, max_body: 1232 };
    let hash = key.hash(seed, seed.hash(key.name));
    let bytes = denial.to_vec().unwrap();
    assert!(bytes.windows(2).any(|pair| pair[0] == 0xc0), "there is something to be moved");
    let entry = Entry::from_reply(&bytes, key, hash, 10, &lifetimes).unwrap();
    for asked in ["gone.example. A", "x.gone.example. A", "a.very-long-label.b.c.gone.example. TXT"]
    {
        let asked = query(asked);
        let key = Key { name: &asked.name, qtype: asked.qtype, qclass: 1, flags: 0 };
        let hash = key.hash(seed, seed.hash(key.name));
        let cut = entry.cut_for(key, hash).unwrap();
        let mut packet =
            pmdns_stages::testing::act_once(&mut line.parse, asked.packet(), &testing::at(12));
        packet.step = line.encode.answer_with(&mut packet, &cut, &testing::at(12));
        let message = read(&packet, &asked);
        assert_eq!(message.metadata.response_code, ResponseCode::NXDomain);
        let mut expected = denial.authorities.clone();
        expected[0].ttl = 298;
        assert_eq!(message.authorities, expected);
    }
    let other = query("x.gone.example. A").edns(1232, true);
    let key = Key { name: &other.name, qtype: 1, qclass: 1, flags: Key::DO };
    assert_eq!(entry.cut_for(key, 0), None, "who wants proof gets none of this");
}

fn any_record() -> impl Strategy<Value = Record> {
    let data = proptest::collection::vec(any::<u8>(), 1..60);
    (0usize..3, 1000u16..1004, 1u32..100_000, data)
}

proptest! {
    /// Any cached answer, encoded for any client, is read back equal by another library.
    #[test]
    fn any_answer_for_any_client_is_read_back(
        records in proptest::collection::vec(any_record(), 1..12),
        labels in proptest::collection::vec("[a-zA-Z0-9_-]{1,20}", 1..5),
        upper: bool, ipv6: bool, edns in proptest::option::of((0u16..5000, any::<bool>())),
        vlans in proptest::collection::vec(0u16..4096, 0..3), elapsed in 0u32..2,
    ) {
        let name = labels.join(".") + ".";
        let name = if upper { name.to_uppercase() } else { name };
        let mut asked = query(&format!("{name} TYPE1000"));
        asked.edns = edns;
        asked.vlans = vlans;
        if ipv6 {
            asked = asked.over_ipv6();
        }
        let mut line = line(false);
        let mut learnt = asked.clone();
        learnt.name = learnt.name.to_ascii_lowercase();
        line.learn(&learnt, &records, 100);
        let packet = line.ask(&asked, 100 + elapsed);
        let positive = records.iter().any(|record| record.0 == 0 && record.1 == 1000);
        let least = records.iter().map(|record| record.2.min(86_400)).min().unwrap_or(0);
        if !positive || elapsed >= least {
            prop_assert_eq!(packet.step, Step::SLOW_PATH, "nothing that could be kept so long");
            return Ok(());
        }
        let message = read(&packet, &asked);
        if message.metadata.truncation {
            prop_assert!(message.answers.is_empty());
            return Ok(());
        }
        let sections = [&message.answers, &message.authorities, &message.additionals];
        for (section, got) in sections.into_iter().enumerate() {
            let sent: Vec<_> = records.iter().filter(|record| record.0 == section).collect();
            if section == 2 && got.is_empty() {
                continue;
            }
            prop_assert_eq!(got.len(), sent.len());
            for (got, (_, rtype, ttl, data)) in got.iter().zip(sent) {
                prop_assert_eq!(got.record_type(), RecordType::from(*rtype));
                prop_assert_eq!(got.ttl, (*ttl).min(86_400) - elapsed);
                let RData::Unknown { rdata, .. } = &got.data else { panic!("an unknown type") };
                prop_assert_eq!(&rdata.anything[..], &data[..]);
            }
        }
    }
}
