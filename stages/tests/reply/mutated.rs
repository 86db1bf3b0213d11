//! 100,000 replies with random faults: what is passed on of them has whole records. Those of the types that every client
//! reads, hickory, dnspython and ldns can read; data of others are for the client to judge.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::zone_text::{Line, reply};
use hickory_proto::op::Message;
use pmdns_stages::cache::{Entry, Head, Key, Lifetimes};
use pmdns_stages::testing::name_of;
use pmdns_stages::wire::labels::name_end;
use pmdns_stages::wire::record::{Records, WireRecord};
use pmdns_stages::wire::{be16, put16};

const REPLIES: u32 = 100_000;

/// Types that everybody reads: A, NS, CNAME, SOA, PTR, MX, AAAA, DNAME.
const COMMON: [u16; 8] = [1, 2, 5, 6, 12, 15, 28, 39];
/// Those of them that may have bytes behind their names, which not everybody takes.
const LOOSE: [u16; 3] = [2, 12, 15];

/// Types and data to begin with.
const CASES: &str = include_str!("../data/rdata.txt");

const LIFETIMES: Lifetimes =
    Lifetimes { min_ttl: 0, max_ttl: 86_400, max_negative_ttl: 900, max_body: usize::MAX };

/// Numbers that look random and are the same each time (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize
    }

    fn below(&mut self, limit: usize) -> usize {
        self.next() % limit.max(1)
    }
}

/// A reply, and the type that was asked for.
struct Case {
    message: Vec<u8>,
    qtype: u16,
}

fn cases() -> Vec<Case> {
    let line = |section, owner, rtype, data| Line { section, owner, rtype, data, class: 1 };
    let name = name_of("00.0000.test.");
    let whole = [
        line(0, "00.0000.test.", 5, "b.test."),
        line(0, "00.0000.test.", 46, "A test."),
        line(0, "test.", 39, "example."),
        line(0, "b.test.", 1, ""),
        line(0, "b.test.", 46, "A test."),
        line(1, "test.", 2, "ns.test."),
        line(1, "test.", 6, "ns.test."),
        line(1, "a.test.", 47, "z.test."),
        line(1, "a.test.", 46, "NSEC test."),
        line(2, "ns.test.", 1, ""),
    ];
    let mut cases = vec![
        Case { message: reply(&name, 1, 0, &whole), qtype: 1 },
        Case { message: reply(&name, 1, 3, &whole[5..]), qtype: 1 },
        Case { message: reply(&name, 1, 0, &whole[2..4]), qtype: 1 },
        Case { message: reply(&name, 255, 0, &whole), qtype: 255 },
    ];
    for case in CASES.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = case.split(' ');
        let qtype = fields.next().expect("a type").parse().expect("a number");
        let data = fields.next().expect("data").trim_matches('-').as_bytes();
        let byte = |pair: &[u8]| {
            u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16)
                .expect("hexadecimal digits")
        };
        let data: Vec<u8> = data.chunks(2).map(byte).collect();
        let mut message = reply(&name, qtype, 0, &[]);
        put16(&mut message, 6, 2);
        for _ in 0..2 {
            message.extend([&[0xc0, 12], &qtype.to_be_bytes()[..], b"\0\x01\0\0\x01\x2c"].concat());
            message.extend([&(data.len() as u16).to_be_bytes()[..], &data].concat());
        }
        cases.push(Case { message, qtype });
    }
    cases
}

/// Does one thing to a message.
fn change(message: &mut Vec<u8>, numbers: &mut Numbers) {
    let len = message.len();
    let (at, value) = (numbers.below(len), numbers.next());
    match numbers.below(7) {
        0 => message[at] ^= 1 << (value % 8),
        1 => message[at] = value as u8,
        2 => message[at] = message[value % len],
        3 if at + 1 < len => put16(message, at, 0xc00c + (value % len) as u16),
        4 => message.insert(at, value as u8),
        5 => drop(message.remove(at)),
        6 => message[at] = message[at].wrapping_add(1),
        _ => {}
    }
}

/// What is passed on of so many replies.
fn relayed() -> Vec<Vec<u8>> {
    let name = name_of("00.0000.test.");
    let (all, mut numbers) = (cases(), Numbers(0x9e37_79b9_7f4a_7c15));
    let common: Vec<&Case> = all.iter().filter(|case| COMMON.contains(&case.qtype)).collect();
    let mut relayed = Vec::new();
    for number in 0..REPLIES {
        // Half of them are of the types that everybody reads.
        let case = match number & 2 {
            0 => &all[number as usize % all.len()],
            _ => common[number as usize % common.len()],
        };
        let mut message = case.message.clone();
        let end = 12 + name.len() + 4;
        let mut behind = message.split_off(end);
        for _ in 0..1 + numbers.below(3) {
            change(&mut behind, &mut numbers);
            if behind.is_empty() {
                break;
            }
        }
        message.extend(behind);
        let flags = if number & 1 == 0 { Key::DO } else { 0 };
        let key = Key { name: &name, qtype: case.qtype, qclass: 1, flags };
        let Ok(entry) = Entry::from_reply(&message, key, 0, 0, &LIFETIMES) else { continue };
        if entry.head().flags & Head::TOO_LONG == 0 {
            let mut answer = entry.message();
            put16(&mut answer, 2, 0x8180 | u16::from(entry.head().rcode.0));
            relayed.push(answer);
        }
    }
    relayed
}

/// dnspython and ldns, if they are here.
fn others() -> Option<Command> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/read_messages.py");
    let mut python = Command::new("/usr/bin/python3");
    python.arg(script);
    let mut probe = Command::new("/usr/bin/python3");
    probe.args([script, "--probe"]).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success()).then_some(python)
}

/// The records of a message, as many as it says.
fn records(message: &[u8]) -> Vec<WireRecord> {
    let records: Vec<_> = Records::new(message).unwrap().map(Result::unwrap).collect();
    let counted: u16 = [6, 8, 10].into_iter().map(|at| be16(message, at).unwrap()).sum();
    assert_eq!(records.len(), usize::from(counted), "{message:02x?}");
    records
}

/// Whether everybody is to be able to read a record: it is of a common type, and nothing stands behind the names in it.
fn is_common(message: &[u8], record: &WireRecord) -> bool {
    let skip = if record.rtype == 15 { 2 } else { 0 };
    let end = || name_end(message, record.data_at + skip);
    COMMON.contains(&record.rtype) && (!LOOSE.contains(&record.rtype) || end() == Some(record.end))
}

#[test]
fn difference_scrub_what_is_passed_on_of_mutated_replies_others_can_read() {
    let relayed = relayed();
    assert!(relayed.len() > REPLIES as usize / 10, "{} of them are answers", relayed.len());
    let is_common = |one: &&Vec<u8>| records(one).iter().all(|record| is_common(one, record));
    let common: Vec<_> = relayed.iter().filter(is_common).collect();
    assert!(common.len() > REPLIES as usize / 20, "{} of them are common", common.len());
    let faults = common.iter().filter_map(|one| Some((Message::from_vec(one).err()?, one)));
    let faults: Vec<String> = faults.map(|(why, one)| format!("{why}: {one:02x?}")).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let Some(mut others) = others() else {
        assert!(std::env::var_os("PMDNS_LAB").is_none(), "dnspython or libldns is missing");
        return;
    };
    let mut child = others.stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    for message in common {
        pipe.write_all(&(message.len() as u16).to_be_bytes()).unwrap();
        pipe.write_all(message).unwrap();
    }
    drop(pipe);
    assert!(child.wait().unwrap().success(), "dnspython or ldns could not read them all");
}
