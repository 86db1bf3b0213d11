//! From upstream messages, built by another implementation, to entries.

use std::net::Ipv4Addr;
use std::str::FromStr;

use hickory_proto::op::{Edns, Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, CNAME, NS, SOA};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use pmdns_stages::cache::{
    Entry, Head, Key, Lifetimes, MAX_RECORDS, Unusable, Words, answers, ttl_offset,
};
use pmdns_stages::wire::dns::Rcode;
use pmdns_stages::wire::{be32, put16, put32};
use proptest::prelude::*;

const NOW: u32 = 1000;

const LIFETIMES: Lifetimes =
    Lifetimes { min_ttl: 0, max_ttl: 86_400, max_negative_ttl: 900, max_body: 4096 };

/// `www.example.` in the letter case that was sent.
const QNAME: &[u8] = b"\x03wWw\x07eXample\0";

const KEY: Key<'static> = Key { name: QNAME, qtype: 1, qclass: 1, flags: 0 };

/// A question for a type that nobody knows.
const PRIVATE: Key<'static> = Key { qtype: 0xff00, ..KEY };

/// Header and question.
const QUESTION_END: usize = 12 + QNAME.len() + 4;

fn name(text: &str) -> Name {
    Name::from_str(text).expect("a name")
}

fn reply(rcode: ResponseCode) -> Message {
    let mut message = Message::response(7, OpCode::Query);
    message.metadata.response_code = rcode;
    message.add_query(Query::query(name("www.example."), RecordType::A));
    message
}

fn bytes_of(message: &Message) -> Vec<u8> {
    message.to_vec().expect("it can be encoded")
}

fn a(owner: &str, ttl: u32) -> Record {
    Record::from_rdata(name(owner), ttl, RData::A(A(Ipv4Addr::new(192, 0, 2, 1))))
}

fn alias(owner: &str, ttl: u32, to: &str) -> Record {
    Record::from_rdata(name(owner), ttl, RData::CNAME(CNAME(name(to))))
}

fn soa(ttl: u32, minimum: u32) -> Record {
    let data =
        SOA::new(name("ns.example."), name("admin.example."), 1, 7200, 900, 1_209_600, minimum);
    Record::from_rdata(name("example."), ttl, RData::SOA(data))
}

fn entry_with(message: &[u8], lifetimes: &Lifetimes) -> Result<Entry, Unusable> {
    Entry::from_reply(message, KEY, 99, NOW, lifetimes)
}

fn entry_of(message: &Message) -> Entry {
    entry_with(&bytes_of(message), &LIFETIMES).expect("an answer")
}

/// Seconds the answer is kept.
fn life(message: &Message) -> u32 {
    let head = entry_of(message).head();
    assert_eq!(head.learnt, NOW);
    head.expires - NOW
}

/// The message a client would get, put together again from the entry.
fn rebuilt(entry: &Entry) -> Vec<u8> {
    let (head, words) = (entry.head(), entry.words());
    let mut message = vec![0, 7, 0x80, 0, 0, 1];
    message.extend(head.counts().iter().flat_map(|count| count.to_be_bytes()));
    message.extend_from_slice(QNAME);
    message.extend([0, 1, 0, 1]);
    message.extend(words[head.body_at..head.ttls_at()].iter().flat_map(|word| word.to_le_bytes()));
    message.truncate(QUESTION_END + usize::from(head.body_len));
    message
}

/// The TTLs at the places where the entry says that they are.
fn ttls(entry: &Entry) -> Vec<u32> {
    let (head, words, message) = (entry.head(), entry.words(), rebuilt(entry));
    (0..usize::from(head.ttl_count))
        .map(|index| {
            be32(&message, QUESTION_END + ttl_offset(&words, &head, index)).expect("a TTL")
        })
        .collect()
}

#[test]
fn records_come_out_as_they_went_in() {
    let mut message = reply(ResponseCode::NoError);
    message.add_answer(a("www.example.", 300)).add_answer(a("www.example.", 200));
    message.add_authority(Record::from_rdata(
        name("example."),
        400,
        RData::NS(NS(name("ns.example."))),
    ));
    message.add_additional(a("ns.example.", 500));
    message.metadata.authentic_data = true;
    let entry = entry_of(&message);
    let head = entry.head();
    assert_eq!((head.hash, head.rcode, head.flags), (99, Rcode::NOERROR, Head::AUTHENTIC));
    assert_eq!((head.learnt, head.expires), (NOW, NOW + 200));
    assert_eq!(head.counts(), [2, 0, 0], "servers and their addresses were not asked for");
    assert_eq!(ttls(&entry), [300, 200]);
    assert!(answers(&entry.words(), &Key { name: b"\x03www\x07example\0", ..KEY }));
    let again = Message::from_vec(&rebuilt(&entry)).unwrap();
    assert_eq!(again.answers, message.answers);
}

#[test]
fn a_chain_of_aliases_lives_as_long_as_its_shortest_link() {
    let mut message = reply(ResponseCode::NoError);
    message.add_answer(alias("www.example.", 60, "a.example."));
    message.add_answer(alias("a.example.", 30, "b.example."));
    message.add_answer(a("b.example.", 3600));
    assert_eq!(life(&message), 30);
    assert_eq!(ttls(&entry_of(&message)), [60, 30, 3600]);
}

#[test]
fn negative_answers_live_as_the_soa_says() {
    for (rcode, ttl, minimum, lives) in [
        (ResponseCode::NXDomain, 600, 60, 60),
        (ResponseCode::NXDomain, 50, 60, 50),
        (ResponseCode::NXDomain, 86_400, 86_400, LIFETIMES.max_negative_ttl),
        (ResponseCode::NoError, 600, 60, 60),
        (ResponseCode::NXDomain, 600, 1 << 31, 0),
        (ResponseCode::NXDomain, 0, 60, 0),
    ] {
        let mut message = reply(rcode);
        message.add_authority(soa(ttl, minimum));
        assert_eq!(life(&message), lives, "{rcode} {ttl} {minimum}");
        assert_eq!(ttls(&entry_of(&message)), [lives], "the SOA counts down with the answer");
    }
}

#[test]
fn an_alias_to_nothing_is_negative() {
    for (rcode, soa_there, lives) in [
        (ResponseCode::NoError, true, 60),
        (ResponseCode::NXDomain, true, 60),
        (ResponseCode::NoError, false, 0),
    ] {
        let mut message = reply(rcode);
        message.add_answer(alias("www.example.", 600, "a.example."));
        if soa_there {
            message.add_authority(soa(600, 60));
        }
        assert_eq!(life(&message), lives);
    }
    let mut message = reply(ResponseCode::NXDomain);
    message.add_answer(alias("www.example.", 5, "a.example."));
    message.add_authority(soa(600, 60));
    assert_eq!(life(&message), 5, "the alias may change earlier");
}

#[test]
fn what_must_not_be_kept_expires_at_once() {
    assert_eq!(life(&reply(ResponseCode::NoError)), 0, "NODATA without SOA");
    assert_eq!(life(&reply(ResponseCode::NXDomain)), 0, "NXDOMAIN without SOA");
    for rcode in [ResponseCode::ServFail, ResponseCode::Refused, ResponseCode::FormErr] {
        let mut message = reply(rcode);
        message.add_answer(a("www.example.", 300)).add_authority(soa(600, 60));
        assert_eq!(life(&message), 0);
        assert_eq!(entry_of(&message).head().rcode, Rcode(rcode.low()));
    }
}

#[test]
fn an_extended_rcode_is_a_failure() {
    let mut message = reply(ResponseCode::BADVERS);
    message.set_edns(Edns::new());
    message.add_authority(soa(600, 60));
    let message = bytes_of(&message);
    assert_eq!(message[3] & 15, 0, "looks like NOERROR");
    let head = entry_with(&message, &LIFETIMES).unwrap().head();
    assert_eq!((head.rcode, head.expires), (Rcode::SERVFAIL, NOW));
}

#[test]
fn ttls_are_bounded() {
    let lifetimes = Lifetimes { min_ttl: 60, max_ttl: 3600, ..LIFETIMES };
    let bounded = |ttl| {
        let mut message = reply(ResponseCode::NoError);
        message.add_answer(a("www.example.", ttl));
        let entry = entry_with(&bytes_of(&message), &lifetimes).unwrap();
        assert_eq!(ttls(&entry), [entry.head().expires - NOW]);
        entry.head().expires - NOW
    };
    assert_eq!([0, 59, 60, 3600, 3601].map(bounded), [60, 60, 60, 3600, 3600]);
    assert_eq!(bounded(1 << 31), 60, "RFC 2181 section 8: it is zero");
    let mut message = reply(ResponseCode::NoError);
    message.add_answer(a("www.example.", u32::MAX));
    assert_eq!(life(&message), 0);
    let mut message = reply(ResponseCode::NXDomain);
    message.add_authority(soa(600, 5));
    let entry = entry_with(&bytes_of(&message), &lifetimes).unwrap();
    assert_eq!(entry.head().expires - NOW, 60, "negative answers, too");
}

#[test]
fn time_does_not_run_over() {
    let mut message = reply(ResponseCode::NoError);
    message.add_answer(a("www.example.", 300));
    let message = bytes_of(&message);
    let entry = Entry::from_reply(&message, KEY, 0, u32::MAX - 5, &LIFETIMES).unwrap();
    assert_eq!(entry.head().expires, u32::MAX);
}

/// The root's OPT record with a client subnet option's worth of bytes.
const OPT: &[u8] = b"\0\0\x29\x04\xd0\0\0\x80\0\0\x04\xff\xff\0\0";

/// An A record owned by the question's name.
const GLUE: &[u8] = b"\xc0\x0c\0\x01\0\x01\0\0\0\x09\0\x04\xc0\0\x02\x09";

#[test]
fn opt_is_left_out_wherever_it_stands() {
    let mut message = reply(ResponseCode::NoError);
    message.add_answer(a("www.example.", 300));
    let plain = bytes_of(&message);
    for records in [[OPT].as_slice(), &[GLUE, OPT], &[OPT, GLUE], &[OPT, OPT]] {
        let mut message = plain.clone();
        put16(&mut message, 10, records.len() as u16);
        message.extend(records.concat());
        let entry = entry_with(&message, &LIFETIMES).unwrap();
        let head = entry.head();
        assert_eq!(head.counts(), [1, 0, 0]);
        assert_eq!(usize::from(head.optional_at), plain.len() - QUESTION_END);
        assert_eq!(head.optional_at, head.body_len);
        assert_eq!(Message::from_vec(&rebuilt(&entry)).unwrap().answers.len(), 1);
    }
    let mut message = plain;
    message.extend_from_slice(OPT);
    put16(&mut message, 8, 1);
    assert_eq!(entry_with(&message, &LIFETIMES), Err(Unusable::Malformed), "OPT as authority");
}

#[test]
fn only_an_answer_to_what_was_asked_is_one() {
    let mut message = reply(ResponseCode::NoError);
    message.add_answer(a("www.example.", 300));
    let message = bytes_of(&message);
    let changed = |at: usize, to: u8| {
        let mut message = message.clone();
        message[at] = to;
        entry_with(&message, &LIFETIMES)
    };
    assert!(entry_with(&message, &LIFETIMES).is_ok());
    assert!(changed(13, b'W').is_ok(), "letter case apart");
    assert_eq!(changed(13, b'v'), Err(Unusable::OtherQuestion));
    assert_eq!(changed(QUESTION_END - 3, 28), Err(Unusable::OtherQuestion), "qtype");
    assert_eq!(changed(QUESTION_END - 1, 3), Err(Unusable::OtherQuestion), "qclass");
    assert_eq!(changed(5, 0), Err(Unusable::OtherQuestion), "no question");
    assert_eq!(changed(5, 2), Err(Unusable::OtherQuestion), "two questions");
    assert_eq!(changed(2, 0), Err(Unusable::Malformed), "QR=0");
    assert_eq!(changed(2, 0xa8), Err(Unusable::Malformed), "another opcode");
    assert_eq!(changed(7, 2), Err(Unusable::Malformed), "fewer records than said");
    assert_eq!(changed(12, 0xc0), Err(Unusable::Malformed), "a compressed question");
    let other = Key { name: b"", ..KEY };
    assert_eq!(
        Entry::from_reply(&message, other, 0, NOW, &LIFETIMES),
        Err(Unusable::OtherQuestion),
        "a key without name is nobody's"
    );
}

#[test]
fn names_in_data_are_checked() {
    let mut message = reply(ResponseCode::NXDomain);
    message.add_authority(soa(600, 60));
    let whole = bytes_of(&message);
    let data_len_at = QUESTION_END + 2 + 8;
    let at = |text: &[u8]| whole.windows(text.len()).position(|part| part == text);
    assert_eq!(be32(&whole, data_len_at - 4), Some(600), "the owner is a pointer");
    for len in 0..22 {
        let mut short = whole[..data_len_at + 2 + len].to_vec();
        put16(&mut short, data_len_at, len as u16);
        assert_eq!(entry_with(&short, &LIFETIMES), Err(Unusable::Malformed), "SOA of {len}");
    }
    let mut astray = whole.clone();
    let pointer = at(b"\x02ns\xc0").unwrap() + 3;
    put16(&mut astray, pointer, 0xc000 + whole.len() as u16 - 1);
    assert_eq!(entry_with(&astray, &LIFETIMES), Err(Unusable::Malformed), "forward");
}

#[test]
fn an_answer_that_is_too_long_keeps_only_its_time() {
    let data = (60_000_u16).to_be_bytes();
    let whole = [&[0xc0, 12, 0xff, 0, 0, 1, 0, 0, 1, 44], &data[..], &[b'x'; 60_000]].concat();
    let mut bytes = bytes_of(&reply(ResponseCode::NoError));
    put16(&mut bytes, 6, 2);
    put16(&mut bytes, QUESTION_END - 4, PRIVATE.qtype);
    bytes.extend(b"\xc0\x0c\xff\0\0\x01\0\0\x02\x58\0\x01x");
    bytes.extend(whole);
    let entry_with = |lifetimes| Entry::from_reply(&bytes, PRIVATE, 99, NOW, lifetimes);
    assert!(bytes.len() > 60_000);
    let head = entry_with(&LIFETIMES).unwrap().head();
    assert_eq!(head.flags, Head::TOO_LONG);
    assert_eq!((head.body_len, head.ttl_count, head.counts(), head.optional_at), (0, 0, [0; 3], 0));
    assert_eq!(head.expires, NOW + 300);

    let unbounded = Lifetimes { max_body: usize::MAX, ..LIFETIMES };
    let entry = entry_with(&unbounded).unwrap();
    assert_eq!(entry.head().flags, 0);
    assert_eq!(entry.head().words(), entry.words().len());
    assert_eq!(ttls(&entry), [600, 300]);
}

#[test]
fn the_longest_message_and_the_most_records() {
    let unbounded = Lifetimes { max_body: usize::MAX, ..LIFETIMES };
    let mut message = bytes_of(&reply(ResponseCode::NoError));
    let fits = (usize::from(u16::MAX) - message.len()) / GLUE.len();
    for (count, flags) in
        [(MAX_RECORDS, 0), (MAX_RECORDS + 1, Head::TOO_LONG), (fits, Head::TOO_LONG)]
    {
        let mut message = message.clone();
        put16(&mut message, 6, count as u16);
        message.extend(GLUE.repeat(count));
        let entry = entry_with(&message, &unbounded).unwrap();
        assert_eq!(entry.head().flags, flags, "{count}");
        assert_eq!(entry.head().expires, NOW + 9);
    }
    // One record that fills the message to its last byte.
    put16(&mut message, QUESTION_END - 4, PRIVATE.qtype);
    let data_len = usize::from(u16::MAX) - message.len() - 12;
    put16(&mut message, 6, 1);
    message.extend(b"\xc0\x0c\xff\0\0\x01\0\0\0\x09");
    message.extend((data_len as u16).to_be_bytes());
    message.resize(usize::from(u16::MAX), 0);
    let entry = Entry::from_reply(&message, PRIVATE, 99, NOW, &unbounded).unwrap();
    assert_eq!(usize::from(entry.head().body_len), message.len() - QUESTION_END);
    assert_eq!(usize::from(entry.head().optional_at), message.len() - QUESTION_END);
    assert!(rebuilt(&entry)[QUESTION_END..] == message[QUESTION_END..]);
    message.push(0);
    let longer = Entry::from_reply(&message, PRIVATE, 99, NOW, &unbounded);
    assert_eq!(longer, Err(Unusable::Malformed), "longer than TCP has");
}

/// A reply with something of everything.
fn rich() -> Vec<u8> {
    let mut message = reply(ResponseCode::NoError);
    message.add_answer(alias("www.example.", 60, "a.example.")).add_answer(a("a.example.", 30));
    message.add_authority(soa(600, 60)).add_additional(a("ns.example.", 500));
    message.set_edns(Edns::new());
    bytes_of(&message)
}

#[test]
fn a_reply_cut_anywhere_is_malformed() {
    let whole = rich();
    assert!(entry_with(&whole, &LIFETIMES).is_ok());
    for len in 0..whole.len() {
        assert!(entry_with(&whole[..len], &LIFETIMES).is_err(), "{len}");
    }
}

fn cases() -> ProptestConfig {
    let cases = if cfg!(miri) { 10 } else { 4000 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn garbage_never_panics_and_what_is_taken_is_whole(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        tail in proptest::collection::vec(any::<u8>(), 0..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut message = rich();
        for (at, byte) in changes {
            let at = at.index(message.len());
            message[at] = byte;
        }
        message.extend(tail);
        message.truncate(12.max(cut.index(message.len() * 4)));
        if let Ok(entry) = entry_with(&message, &LIFETIMES) {
            let (head, body_end) = (entry.head(), QUESTION_END + usize::from(entry.head().body_len));
            prop_assert!(head.optional_at <= head.body_len);
            prop_assert_eq!(head.words(), entry.words().len());
            prop_assert_eq!(ttls(&entry).len(), head.counts().iter().map(|count| usize::from(*count)).sum());
            prop_assert_eq!(rebuilt(&entry).len(), body_end);
            // What we pass on, we would take again, and others can read it.
            prop_assert!(Message::from_vec(&rebuilt(&entry)).is_ok());
            let again = entry_with(&rebuilt(&entry), &LIFETIMES).unwrap();
            prop_assert_eq!(again.head().counts(), head.counts());
        }
    }

    #[test]
    fn pure_noise_never_panics(mut message in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = entry_with(&message, &LIFETIMES);
        if message.len() >= 12 {
            put32(&mut message, 2, 0x8180_0001);
            let _ = entry_with(&message, &LIFETIMES);
            message.splice(12..12, QNAME.iter().copied().chain([0, 1, 0, 1]));
            let _ = entry_with(&message, &LIFETIMES);
        }
    }

    #[test]
    fn any_words_can_be_read_as_an_entry(words in proptest::collection::vec(any::<u64>(), 0..20)) {
        let words = words.as_slice();
        let head = Head::read(&words);
        let _ = (ttl_offset(&words, &head, usize::from(head.ttl_count)), words.word(usize::MAX));
        let _ = answers(&words, &KEY);
    }
}
