//! Which data are relayed: what others do, and what is done here.

use pmdns_stages::cache::{Entry, Key, Lifetimes, Unusable};

/// Types, data, and the verdicts of BIND, Unbound and dnsdist.
const CASES: &str = include_str!("../data/rdata.txt");

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

/// A line of [`CASES`].
struct Case {
    line: &'static str,
    rtype: u16,
    data: Vec<u8>,
    /// Whether two of the three relay it.
    is_relayed: bool,
    /// Whether there is a reason to do something else.
    is_exempt: bool,
}

fn cases() -> impl Iterator<Item = Case> {
    CASES.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let fields: Vec<&str> = line.splitn(7, ' ').collect();
        let relayed = fields[2..5].iter().filter(|verdict| **verdict == "ok").count();
        assert!(matches!(fields[5], "-" | "read" | "meta"), "{line}");
        Case {
            line,
            rtype: fields[0].parse().unwrap(),
            data: bytes(fields[1]),
            is_relayed: relayed >= 2,
            is_exempt: fields[5] != "-",
        }
    })
}

fn read(message: &[u8], qtype: u16) -> Result<Entry, Unusable> {
    let key = Key { name: QNAME, qtype, qclass: 1, flags: Key::DO };
    Entry::from_reply(message, key, 0, 0, &LIFETIMES)
}

/// What two of BIND, Unbound and dnsdist relay is relayed, and nothing else, but for the exceptions that the table gives
/// a reason for.
#[test]
fn difference_scrub_data_is_relayed_where_the_majority_relays_it() {
    let wrong: Vec<_> = cases()
        .filter(|case| {
            let is_relayed = read(&reply(case.rtype, &case.data), case.rtype).is_ok();
            is_relayed != (case.is_relayed != case.is_exempt)
        })
        .map(|case| case.line)
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A record that is dropped may be anything: in the additional section, in that of the authority, and of another name.
#[test]
fn data_of_records_that_are_dropped_are_nobody_s_business() {
    const ADDRESS: &[u8] = b"\xc0\x0c\0\x01\0\x01\0\0\x01\x2c\0\x04\xc0\0\x02\x01";
    let head = b"\0\0\x81\x80\0\x01\0\x01\0\0\0\0";
    let question = [QNAME, b"\0\x01\0\x01"].concat();
    for case in cases().filter(|case| ![41, 250].contains(&case.rtype)) {
        let mut other = b"\x05other\0".to_vec();
        other.extend([case.rtype.to_be_bytes(), [0, 1]].concat());
        other.extend([0, 0, 1, 0x2c]);
        other.extend((case.data.len() as u16).to_be_bytes());
        other.extend(&case.data);
        for count_at in [6, 8, 10] {
            let mut head = head.to_vec();
            head[count_at + 1] += 1;
            let message = [&head[..], &question, ADDRESS, &other].concat();
            let entry = read(&message, 1).unwrap_or_else(|why| panic!("{why:?}: {}", case.line));
            assert_eq!(entry.head().counts(), [1, 0, 0], "{}", case.line);
        }
    }
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
