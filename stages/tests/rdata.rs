//! Whether data is well-formed: what others say of it, and what is done here.
#![cfg(not(loom))]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of tests are small"
)]

use hickory_proto::op::Message;
use pmdns_stages::cache::{Entry, Key, Lifetimes, Unusable};
use pmdns_stages::wire::dns::rtype;

/// Types, data, and the verdicts of BIND, dnspython and ldns.
const CASES: &str = include_str!("data/rdata.txt");

const LIFETIMES: Lifetimes =
    Lifetimes { min_ttl: 0, max_ttl: 86_400, max_negative_ttl: 900, max_body: usize::MAX };

/// `00.0000.test.`: the first label is one that an NSEC3 record may have.
const QNAME: &[u8] = b"\x0200\x040000\x04test\0";

/// A reply with one record of this type, which is what was asked for.
fn reply(rtype: u16, data: &[u8]) -> Vec<u8> {
    let mut message = b"\0\0\x81\x80\0\x01\0\x01\0\0\0\0".to_vec();
    message.extend_from_slice(QNAME);
    message.extend([&rtype.to_be_bytes()[..], b"\0\x01\xc0\x0c"].concat());
    message.extend([&rtype.to_be_bytes()[..], b"\0\x01\0\0\x01\x2c"].concat());
    message.extend((data.len() as u16).to_be_bytes());
    message.extend_from_slice(data);
    message
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.strip_prefix('-').unwrap_or(hex).as_bytes();
    let byte = |pair: &[u8]| {
        u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16)
            .expect("hexadecimal digits")
    };
    digits.chunks(2).map(byte).collect()
}

/// Data that BIND, dnspython, ldns and hickory all read are passed on, and none that one of them refuses. A compressed
/// name where there must be none is written out first, because ldns refuses it.
#[test]
fn difference_scrub_data_is_taken_if_all_others_can_read_it() {
    let mut wrong = Vec::new();
    for case in CASES.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = case.split(' ');
        let rtype: u16 = fields.next().unwrap().parse().unwrap();
        let data = bytes(fields.next().unwrap());
        let verdicts: Vec<bool> = fields.by_ref().take(3).map(|one| one == "ok").collect();
        // Those that are no data, and those that are long dead (NSAP-PTR, SINK).
        let is_meta = matches!(rtype, 23 | rtype::SIG | 40 | rtype::OPT | 128..=255);
        let is_compressed = data.windows(2).any(|pair| pair == [0xc0, 12]);
        // Whether BIND reads this one depends on how long the name is.
        let is_exempt = rtype == rtype::RRSIG && is_compressed;
        let is_read = verdicts[0] || is_exempt;
        let expected = !is_meta && is_read && verdicts[1] && (verdicts[2] || is_compressed);
        let message = reply(rtype, &data);
        let expected = expected && (Message::from_vec(&message).is_ok() || is_compressed);
        let key = Key { name: QNAME, qtype: rtype, qclass: 1, flags: Key::DO };
        if Entry::from_reply(&message, key, 0, 0, &LIFETIMES).is_ok() != expected {
            wrong.push(case);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn cve_2026_10822_a_name_ends_in_its_data() {
    // MX, and behind its data a byte that would end the name.
    let mut reply =
        b"\0\0\x81\x80\0\x01\0\x01\0\0\0\0\x01a\0\0\x0f\0\x01\xc0\x0c\0\x0f\0\x01".to_vec();
    reply.extend(b"\0\0\0\x09\0\x04\0\x01\x01b\0");
    let key = Key { name: b"\x01a\0", qtype: 15, qclass: 1, flags: 0 };
    let read = |reply: &[u8]| Entry::from_reply(reply, key, 0, 0, &LIFETIMES);
    assert_eq!(read(&reply), Err(Unusable::Malformed));
    let len_at = reply.len() - 6;
    reply[len_at] = 5;
    assert!(read(&reply).is_ok());
}
