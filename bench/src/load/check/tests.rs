//! Good answers and bad ones, judged.

use pmdns_stages::testing::name_of;
use pmdns_stages::wire::put16;

use super::*;

const ZONE: &str = "$ORIGIN example.\n$TTL 60\n@ SOA ns host 1 2 3 4 5\nwww A 192.0.2.1\n\
    www A 192.0.2.2\nalias CNAME www\n";
const FIRST: [u8; 4] = [192, 0, 2, 1];
const SECOND: [u8; 4] = [192, 0, 2, 2];

fn checker(name: &str, authority: Authority) -> Checker {
    let mut templates = Templates::default();
    templates.add_query(Kind::Hit, &name_of(name), 1, None);
    Checker::new(templates, authority)
}

fn zone() -> Authority {
    Authority::Zone(Box::new(Zone::parse(ZONE).unwrap()))
}

/// An answer to template 0: each record's compressed owner, type and data.
fn answer(checker: &Checker, records: &[(u16, u16, &[u8])]) -> Vec<u8> {
    let mut message = checker.templates.payload(checker.templates.get(0)).to_vec();
    put16(&mut message, header::FLAGS, 0x8180);
    put16(&mut message, header::ANCOUNT, records.len() as u16);
    for (owner, rtype, data) in records {
        message.extend((0xc000 | owner).to_be_bytes());
        message.extend(rtype.to_be_bytes());
        message.extend([0, 1, 0, 0, 0, 9, 0, data.len() as u8]);
        message.extend_from_slice(data);
    }
    message
}

#[test]
fn the_order_of_records_does_not_matter_and_their_number_does() {
    let mut checker = checker("www.example.", zone());
    let (first, second) = ((12, 1, &FIRST[..]), (12, 1, &SECOND[..]));
    for (records, verdict) in [
        (vec![first, second], AnswerClass::Good),
        (vec![second, first], AnswerClass::Good),
        (vec![first], AnswerClass::WrongRecords),
        (vec![first, first], AnswerClass::WrongRecords),
        (vec![first, second, second], AnswerClass::WrongRecords),
        (vec![], AnswerClass::WrongRecords),
    ] {
        let message = answer(&checker, &records);
        assert_eq!(checker.judge(&message, 0, 0), verdict, "{records:?}");
    }
}

#[test]
fn aliases_and_compressed_names_are_followed() {
    let mut checker = checker("alias.example.", zone());
    // The alias's data is `www` and a pointer to `example` at 18; it stands behind 31 + 12 bytes.
    let alias = (12, 5, &b"\x03www\xc0\x12"[..]);
    let message = answer(&checker, &[alias, (43, 1, &FIRST), (43, 1, &SECOND)]);
    assert_eq!(checker.judge(&message, 0, 0), AnswerClass::Good);
    assert_eq!(checker.judge(&message, 0, 0), AnswerClass::Good);
    assert_eq!(checker.full_checks(), 1, "the second equals the first");
    let message = answer(&checker, &[alias]);
    assert_eq!(checker.judge(&message, 0, 0), AnswerClass::WrongRecords);
}

#[test]
fn without_a_zone_the_first_answer_rules() {
    let mut checker = checker("www.other.", Authority::FirstAnswer);
    let first = answer(&checker, &[(12, 1, &FIRST)]);
    assert_eq!(checker.judge(&first, 0, 0), AnswerClass::Good);
    let second = answer(&checker, &[(12, 1, &SECOND)]);
    assert_eq!(checker.judge(&second, 0, 0), AnswerClass::WrongRecords);
}

#[test]
fn what_is_no_right_answer_says_why() {
    let mut checker = checker("www.example.", zone());
    let good = answer(&checker, &[(12, 1, &FIRST), (12, 1, &SECOND)]);
    let mut verdict = |change: fn(&mut Vec<u8>)| {
        let mut message = good.clone();
        change(&mut message);
        checker.judge(&message, 0, 0)
    };
    assert_eq!(verdict(|message| message[3] |= 2), AnswerClass::Servfail);
    assert_eq!(verdict(|message| message[3] |= 5), AnswerClass::Refused);
    assert_eq!(verdict(|message| message[2] |= 2), AnswerClass::Truncated);
    assert_eq!(verdict(|message| message[2] &= 0x7f), AnswerClass::WrongHeader);
    assert_eq!(verdict(|message| message[13] ^= 0x20), AnswerClass::WrongQuestion);
    assert_eq!(verdict(|message| message[5] = 2), AnswerClass::WrongQuestion);
    assert_eq!(verdict(|message| message[3] |= 3), AnswerClass::WrongRcode);
    assert_eq!(verdict(|message| message.truncate(40)), AnswerClass::Malformed);
    assert_eq!(verdict(|message| message.truncate(7)), AnswerClass::Malformed);
    assert_eq!(verdict(|message| message.push(0)), AnswerClass::Malformed);
    assert_eq!(verdict(|_| {}), AnswerClass::Good);
}

#[test]
fn malformed_queries_get_errors_or_nothing() {
    let mut checker = checker("www.example.", zone());
    let all = crate::load::malformed::all(&name_of("www.example."));
    all.iter().for_each(|malformed| checker.templates.add_malformed(malformed));
    let message = |flags: u16| {
        let mut message = vec![0; HEADER_LEN];
        put16(&mut message, header::FLAGS, flags);
        message
    };
    assert_eq!(checker.judge(&message(0x8001), 1, 0), AnswerClass::Good);
    assert_eq!(checker.judge(&message(0x8000), 1, 0), AnswerClass::WrongRcode);
    let last = checker.templates.len() as u32 - 1;
    assert_eq!(checker.judge(&message(0x8001), last, 0), AnswerClass::WrongHeader);
}
