//! Images, questions and fresh names.

use std::collections::HashSet;

use pmdns_stages::testing::name_of;

use super::*;

fn one(name: &str, edns: Option<Edns>) -> Templates {
    let mut templates = Templates::default();
    templates.add_query(Kind::Hit, &name_of(name), 1, edns);
    templates
}

/// The query itself as an answer with one record.
fn answer(templates: &Templates, ttl: u32, last: u8) -> Vec<u8> {
    let mut message = templates.payload(templates.get(0)).to_vec();
    put16(&mut message, header::FLAGS, 0x8180);
    put16(&mut message, header::ANCOUNT, 1);
    message.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1]);
    message.extend_from_slice(&ttl.to_be_bytes());
    message.extend_from_slice(&[0, 4, 192, 0, 2, last]);
    message
}

fn mask(len: usize) -> Vec<u8> {
    let mut mask = vec![0xff; len];
    mask[len - 10..len - 6].fill(0);
    mask
}

#[test]
fn an_image_is_the_answer_but_for_the_ttl() {
    let longest = format!("{0}.{0}.{0}.{1}.", "a".repeat(63), "b".repeat(61));
    for name in ["www.example.", "a.rather.long.name.that.fills.its.template.example.", &longest] {
        let mut templates = one(name, None);
        let first = answer(&templates, 300, 1);
        assert!(!templates.is_image(templates.get(0), &first), "nothing is known yet");
        templates.learn(0, &first, &mask(first.len()));
        let template = templates.get(0);
        assert!(templates.has_image(0));
        assert!(templates.is_image(template, &first), "{name}");
        assert!(templates.is_image(template, &answer(&templates, 17, 1)));
        assert!(!templates.is_image(template, &answer(&templates, 300, 2)), "other data");
        assert!(!templates.is_image(template, &first[..first.len() - 1]), "cut off");
        let mut other_rcode = first.clone();
        other_rcode[3] ^= 3;
        assert!(!templates.is_image(template, &other_rcode));
        let question = &first[HEADER_LEN..template.question_end()];
        assert_eq!(templates.known_answer(template, question), Some(first.clone()));
        let payload = templates.payload(template);
        assert!(template.is_question(payload, &first, 0), "the payload is still there");
    }
}

#[test]
fn every_byte_of_the_question_counts() {
    let templates = one("www.example.", Some(Edns { udp_size: 1232, dnssec_ok: true }));
    let template = templates.get(0);
    let payload = templates.payload(template);
    assert_eq!(payload.len(), 12 + 17 + 11);
    for at in HEADER_LEN..template.question_end() {
        let mut other = payload.to_vec();
        other[at] ^= 0x20;
        assert!(!template.is_question(payload, &other, 0), "byte {at}");
    }
    assert!(!template.is_question(payload, &payload[..20], 0));
}

#[test]
fn fresh_names_never_come_twice() {
    let names: HashSet<_> = (0..200_000).map(digits).collect();
    assert_eq!(names.len(), 200_000);
    let mut templates = Templates::default();
    templates.add_query(Kind::Miss, &name_of("s1234xxxxxxxx.example."), 1, None);
    let template = templates.get(0);
    let payload = templates.payload(template).to_vec();
    let mut sent = payload.clone();
    template.complete(&mut sent, 0xabcd, 7);
    assert_eq!(sent[..2], [0xab, 0xcd]);
    assert_eq!(sent[13..18], *b"s1234");
    assert_eq!(sent[18..26], digits(7));
    assert!(template.is_question(&payload, &sent, 7));
    assert!(!template.is_question(&payload, &sent, 8), "another query's name");
}
