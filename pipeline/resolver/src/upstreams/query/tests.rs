use pmdns_stages::miss::Miss;
use pmdns_stages::parse::Parse;
use pmdns_stages::ports::{PROBED_V4, Port};
use pmdns_stages::testing::{OUR_IPV4, OUR_MAC, QueryFrame as ClientQuery, act_once, at, query};
use pmdns_stages::wire::edns::option_in;
use pmdns_stages::wire::name::Seed;
use pmdns_stages::wire::subnet::Subnet;

use super::*;

fn seed() -> Seed {
    Seed::new([7; 16])
}

/// The miss of a client's query.
pub(crate) fn miss(client: &ClientQuery) -> Miss {
    let mut parse = Parse::new([Port::new(OUR_MAC, [OUR_IPV4.into()])].into(), seed());
    Miss::of(&act_once(&mut parse, client.packet(), &at(0)), 0)
}

/// The miss of a health check that asks in the name of this query's client.
pub(crate) fn probe(client: &ClientQuery) -> Miss {
    let destination = PROBED_V4.octets().to_vec();
    let client = ClientQuery { destination, ..client.clone() };
    let mut parse = Parse::new([Port::probes()].into(), seed());
    let mut packet = client.packet();
    packet.frame.bytes_mut()[..6].copy_from_slice(&Port::probes().mac);
    Miss::of(&act_once(&mut parse, packet, &at(0)), 0)
}

/// The question of a client's query.
pub(crate) fn question(client: &ClientQuery) -> Question {
    Question::of(&miss(client), seed())
}

/// A reply to `query`, which has an OPT record.
fn reply_to(query: &Query) -> Vec<u8> {
    let mut reply = query.bytes()[..query.bytes().len() - OPT_LEN].to_vec();
    put16(&mut reply, header::FLAGS, flag::QR | flag::RD | flag::RA);
    put16(&mut reply, header::ARCOUNT, 0);
    reply
}

#[test]
fn letter_case_makes_no_other_question_but_do_and_cd_do() {
    let plain = question(&query("www.example. A"));
    assert_eq!(plain, question(&query("WWW.eXample. A")));
    assert_ne!(plain, question(&query("www.example. AAAA")));
    assert_ne!(plain, question(&query("www.example. A").edns(1232, true)));
    assert_eq!(plain, question(&query("www.example. A").edns(1232, false)));
    let mut checking_disabled = query("www.example. A");
    checking_disabled.flags |= flag::CD;
    assert_ne!(plain, question(&checking_disabled));
}

#[test]
fn the_message_is_what_the_standards_say() {
    let mut client = query("WWW.example. A").edns(4096, true);
    client.flags |= flag::CD;
    let query = Query::new(&question(&client), 0xabcd, None, true);
    let expected = [
        b"\xab\xcd\x01\x30\0\x01\0\0\0\0\0\x01".as_slice(),
        b"\x03www\x07example\0\0\x01\0\x01",
        b"\0\0\x29\x04\xd0\0\0\x80\0\0\0",
    ];
    assert_eq!(query.bytes(), expected.concat());
    let without = Query::new(&question(&client), 0xabcd, None, false);
    assert_eq!(without.bytes()[10..12], [0, 0]);
    assert_eq!(without.bytes().len(), query.bytes().len() - OPT_LEN);
}

#[test]
fn who_validates_asks_with_do_and_cd_and_the_zone_above_for_ds() {
    let plain = question(&query("www.example. TYPE43"));
    assert!(!plain.is_checked());
    assert_eq!(plain.zone().name, b"\x07example\0", "with validation or without");
    let checked = plain.validating(true);
    assert!(checked.is_checked());
    assert_eq!(checked.zone().name, b"\x07example\0");
    let message = Query::new(&checked, 0, None, true);
    assert_eq!(message.bytes()[2..4], [0x01, 0x30], "RD, AD and CD");
    assert_eq!(message.bytes()[message.bytes().len() - 4], 0x80, "DO");
    assert_eq!(checked.key().flags, 0, "its answer is for those who asked");
    let mut own = query("www.example. A");
    own.flags |= flag::CD;
    assert!(!question(&own).validating(true).is_checked(), "RFC 4035 section 4.9.2");
    assert_eq!(question(&query(". TYPE43")).validating(true).zone().name, [0]);
}

#[test]
fn padded_queries_are_128_or_256_or_384_bytes_long() {
    for len in [1, 60, 63] {
        let label = "a".repeat(len);
        let name = [&*label, &label, &label, "example"].join(".");
        let query = Query::new(&question(&query(&format!("{name}. A"))), 0, None, true);
        let padded = query.padded();
        assert_eq!(padded.len() % PADDING_BLOCK, 0);
        assert!(padded.len() - query.bytes().len() < PADDING_BLOCK + OPTION_HEAD_LEN);
        let message = hickory_proto::op::Message::from_vec(&padded).unwrap();
        let edns = message.edns.as_ref().unwrap();
        assert!(edns.option(hickory_proto::rr::rdata::opt::EdnsCode::Padding).is_some());
    }
    let plain = Query::new(&question(&query("www.example. A")), 0, None, false);
    assert_eq!(plain.padded(), plain.bytes());
}

#[test]
fn a_network_is_part_of_the_question_and_its_option_stands_before_the_padding() {
    let everybody = question(&query("www.example. A"));
    let networks = [[10, 1, 0, 0], [10, 2, 0, 0]].map(|net| Subnet::of_address(&net).cut(16));
    let [one, other] = networks.map(|network| {
        let mut question = everybody.clone();
        question.ask_for(Some(network), seed());
        assert_ne!((&question, question.full_hash), (&everybody, everybody.full_hash));
        assert_eq!(question.hash(), everybody.hash(), "the cache knows of no networks");
        question
    });
    assert_ne!((&one, one.full_hash), (&other, other.full_hash));
    let mut back = one.clone();
    back.ask_for(None, seed());
    assert_eq!(back, everybody);
    let query = Query::new(&one, 0, None, true);
    for message in [query.bytes(), &query.padded()] {
        let data = option_in(message, option::SUBNET);
        assert_eq!(data, Some(&[0, 1, 16, 0, 10, 1][..]));
        assert!(hickory_proto::op::Message::from_vec(message).is_ok());
    }
    assert!(option_in(&query.padded(), PADDING).is_some());
    assert_eq!(query.padded().len(), PADDING_BLOCK);
    let plain = Query::new(&one, 0, None, false);
    let without = Query::new(&everybody, 0, None, false);
    assert_eq!(plain.bytes(), without.bytes(), "without OPT record there is no place for it");
}

#[test]
fn only_the_very_reply_matches() {
    let question = question(&query("www.example. A"));
    let right = reply_to(&Query::new(&question, 0xabcd, None, true));
    let matches = |reply: &[u8]| question.is_answered_by(0xabcd, None, reply);
    assert!(matches(&right));
    for bit in 0..16 {
        let mut other_id = right.clone();
        other_id[bit / 8] ^= 1 << (bit % 8);
        assert!(!matches(&other_id));
    }
    for at in HEADER_LEN..right.len() {
        let mut other_question = right.clone();
        other_question[at] ^= 1;
        assert!(!matches(&other_question));
        assert!(!matches(&right[..at]), "cut off");
    }
    let mut not_a_response = right.clone();
    not_a_response[2] &= 0x7f;
    assert!(!matches(&not_a_response));
    let mut notify = right.clone();
    notify[2] |= 0x20;
    assert!(!matches(&notify));
    let mut no_question = right;
    no_question[5] = 0;
    assert!(!matches(&no_question));
    assert!(!matches(&no_question[..HEADER_LEN]), "NOERROR without a question");
    no_question[3] |= 1;
    assert!(matches(&no_question[..HEADER_LEN]), "a bare FORMERR");
}

#[test]
fn difference_letter_case_only_matters_where_letters_were_mixed() {
    let question = question(&query("www.example. A"));
    let letter_case = LetterCase::new(0b1010_1010_1010);
    let right = reply_to(&Query::new(&question, 7, Some(letter_case), true));
    assert!(question.is_answered_by(7, Some(letter_case), &right));
    let mut small = right.clone();
    small.make_ascii_lowercase();
    for reply in [&right, &small] {
        assert!(question.is_answered_by(7, None, reply));
        assert!(!question.is_answered_by(8, None, reply));
    }
    assert!(!question.is_answered_by(7, Some(letter_case), &small));
    assert!(!question.is_answered_by(7, Some(LetterCase::new(0)), &right));
    small[13] = b'x';
    assert!(!question.is_answered_by(7, None, &small));
}

#[test]
fn faces() {
    let query = Query::new(&question(&query("www.example. A")), 1, None, true);
    let kind = |change: fn(&mut Vec<u8>)| {
        let mut reply = reply_to(&query);
        change(&mut reply);
        ReplyKind::of(&reply)
    };
    assert_eq!(kind(|_| {}), ReplyKind::Answer);
    assert_eq!(kind(|reply| reply[3] |= 3), ReplyKind::Answer);
    assert_eq!(kind(|reply| reply[2] |= 2), ReplyKind::Truncated);
    assert_eq!(kind(|reply| reply[3] |= 1), ReplyKind::FormatError);
    assert_eq!(kind(|reply| reply[3] |= 2), ReplyKind::Failure);
    assert_eq!(kind(|reply| reply[3] |= 5), ReplyKind::Failure);
}

#[test]
fn audit_low_edns_is_given_up_for_what_cannot_be_forged_only() {
    let query = Query::new(&question(&query("www.example. A")), 1, None, true);
    let mut whole = reply_to(&query);
    whole[3] |= 1;
    let mut bare = whole[..HEADER_LEN].to_vec();
    bare[5] = 0;
    for (reply, proof, validates, gives_up) in [
        (&bare, Proof::Guessed, false, false),
        (&bare, Proof::Firm, false, true),
        (&whole, Proof::Guessed, false, true),
        (&whole, Proof::Guessed, true, false),
        (&whole, Proof::Firm, true, true),
    ] {
        assert_eq!(shows_no_edns(reply, proof, validates), gives_up, "{proof:?} {validates}");
    }
}

#[test]
fn a_cookie_stands_behind_the_subnet_and_the_longest_of_both_fit() {
    let mut longest =
        question(&query(&format!("{0}.{0}.{0}.{1}. A", "a".repeat(63), "b".repeat(61))));
    longest.ask_for(Some(Subnet::of_address(&[0xff; 16])), seed());
    let cookie = [7; MAX_COOKIE];
    let mut query = Query::new(&longest, 0, None, true);
    query.add_cookie(&cookie);
    assert_eq!(query.bytes().len(), MAX_QUERY);
    assert_eq!(option_in(query.bytes(), option::COOKIE), Some(&cookie[..]));
    assert!(option_in(query.bytes(), option::SUBNET).is_some());
    assert!(hickory_proto::op::Message::from_vec(query.bytes()).is_ok());
    let plain = Query::new(&longest, 0, None, false);
    let mut with_cookie = plain.clone();
    with_cookie.add_cookie(&cookie);
    assert_eq!(with_cookie.bytes(), plain.bytes());
}
