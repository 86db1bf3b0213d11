//! The dearest replies of 64 KB there are, read and made into entries. By hand, in a release build:
//! `cargo test --release -p pmdns-stages --test reply worst_reply -- --ignored --nocapture`.

use std::time::Instant;

use pmdns_stages::cache::{Entry, Key, Lifetimes};
use pmdns_stages::testing::name_of;

const LIFETIMES: Lifetimes =
    Lifetimes { min_ttl: 0, max_ttl: 86_400, max_negative_ttl: 900, max_body: usize::MAX };

const NS: u16 = 2;
const CNAME: u16 = 5;
const MX: u16 = 15;
const TXT: u16 = 16;
const OPT: u16 = 41;
const RRSIG: u16 = 46;
const NSEC: u16 = 47;
const NSEC3: u16 = 50;
const SVCB: u16 = 64;
const ANY: u16 = 255;

/// Runs of each case; the median counts.
const RUNS: usize = 21;
/// A pointer to the name in question.
const ASKED: &[u8] = &[0xc0, 12];

/// A reply under construction.
struct Reply {
    bytes: Vec<u8>,
    name: Box<[u8]>,
    qtype: u16,
    counts: [u16; 3],
}

impl Reply {
    fn new(name: &str, qtype: u16, rcode: u8) -> Self {
        let name: Box<[u8]> = name_of(name).to_vec().into();
        let mut bytes = vec![0, 0, 0x81, 0x80 | rcode, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend_from_slice(&name);
        bytes.extend(qtype.to_be_bytes());
        bytes.extend([0, 1]);
        Self { bytes, name, qtype, counts: [0; 3] }
    }

    /// Appends a record, unless the message is full.
    fn add(&mut self, section: usize, owner: &[u8], rtype: u16, data: &[u8]) -> bool {
        let has_room = self.bytes.len() + owner.len() + 10 + data.len() <= usize::from(u16::MAX);
        if has_room {
            self.bytes.extend_from_slice(owner);
            self.bytes.extend(rtype.to_be_bytes());
            self.bytes.extend([0, 1, 0, 0, 0, 60]);
            self.bytes.extend((data.len() as u16).to_be_bytes());
            self.bytes.extend_from_slice(data);
            self.counts[section] += 1;
        }
        has_room
    }

    /// As many records as there is room for.
    fn fill(mut self, mut next: impl FnMut(&mut Self, u16) -> bool) -> Self {
        let mut number = 0;
        while next(&mut self, number) {
            number += 1;
        }
        for (at, count) in [6, 8, 10].into_iter().zip(self.counts) {
            self.bytes[at..at + 2].copy_from_slice(&count.to_be_bytes());
        }
        self
    }

    /// At most so many of them.
    fn fill_to(self, limit: u16, mut next: impl FnMut(&mut Self, u16) -> bool) -> Self {
        self.fill(|reply, number| number < limit && next(reply, number))
    }
}

fn numbered(number: u16, len: usize) -> Vec<u8> {
    let mut data = vec![0x55; len];
    data[..2].copy_from_slice(&number.to_be_bytes());
    data
}

/// An RRSIG record's data by the root.
fn signature(covered: u16, number: u16, len: usize) -> Vec<u8> {
    let fixed = [1, 1, 0, 0, 0, 60, 0x7f, 0, 0, 0, 0x60, 0, 0, 0, 0, 1, 0];
    [&covered.to_be_bytes()[..], &[13], &fixed[1..], &numbered(number, len)].concat()
}

/// Names of one more label each, by a pointer to the one before, up to 126 of them; then from the start again.
fn chained(section: usize, rtype: u16) -> impl FnMut(&mut Reply, u16) -> bool {
    let mut last = 12;
    move |reply, number| {
        let to = if number % 126 == 0 { 12 } else { last };
        last = reply.bytes.len() as u16;
        let owner = [&[1, b'a'][..], &(0xc000 | to).to_be_bytes()].concat();
        // Pointers reach no further than 16 KB.
        let owner = if last < 0x3f00 {
            owner
        } else {
            [&[1, b'a'][..], &(0xc000 | 12_u16).to_be_bytes()].concat()
        };
        if last >= 0x3f00 {
            last = 12;
        }
        reply.add(section, &owner, rtype, &owner.clone())
    }
}

fn cases() -> Vec<(&'static str, Reply)> {
    let long = "a.".repeat(127);
    let long = &*long;
    let short = "www.example.";
    let of = |name: &str, qtype| Reply::new(name, qtype, 0);
    vec![
        (
            "127 labels in every owner and name, 4,600 NS",
            of(long, NS).fill(|r, _| r.add(0, ASKED, NS, ASKED)),
        ),
        ("the same, 512 NS", of(long, NS).fill_to(512, |r, _| r.add(0, ASKED, NS, ASKED))),
        (
            "the same, 512 MX of distinct data",
            of(long, MX)
                .fill_to(512, |r, n| r.add(0, ASKED, MX, &[&n.to_be_bytes(), ASKED].concat())),
        ),
        ("chains of 126 pointers in answers, 512", of("b.", CNAME).fill_to(512, chained(0, CNAME))),
        ("chains of 126 pointers, all", of("b.", ANY).fill(chained(0, NS))),
        ("chains of 126 pointers in additional", of("b.", NS).fill(chained(2, NS))),
        (
            "5,900 records of the root in answers",
            of(short, 1).fill(|r, _| r.add(0, &[0], 65_280, &[])),
        ),
        (
            "5,900 records of the root in authority",
            of(short, 1).fill(|r, _| r.add(1, &[0], 65_280, &[])),
        ),
        (
            "5,900 records of the root in additional",
            of(short, 1).fill(|r, _| r.add(2, &[0], 65_280, &[])),
        ),
        ("512 addresses", of(short, 1).fill_to(512, |r, n| r.add(0, ASKED, 1, &numbered(n, 4)))),
        ("4,000 addresses", of(short, 1).fill(|r, n| r.add(0, ASKED, 1, &numbered(n, 4)))),
        (
            "500 types for ANY",
            of(short, ANY).fill_to(500, |r, n| r.add(0, ASKED, 1000 + n, &numbered(n, 100))),
        ),
        (
            "500 aliases that lead on, in reverse",
            of("a0.x.", 1).fill_to(500, |r, n| {
                let (from, to) = (499 - n, 500 - n);
                r.add(0, &name_of(&format!("a{from}.x.")), CNAME, &name_of(&format!("a{to}.x.")))
            }),
        ),
        (
            "500 signatures",
            of(short, 1).fill(|r, n| match n {
                0 => r.add(0, ASKED, 1, &[192, 0, 2, 1]),
                _ => n < 500 && r.add(0, ASKED, RRSIG, &signature(1, n, 90)),
            }),
        ),
        (
            "16,000 parameters of SVCB",
            of(short, SVCB).fill_to(1, |r, _| {
                let mut data = vec![0, 1, 0];
                for key in 1000..17_000_u16 {
                    data.extend(key.to_be_bytes());
                    data.extend([0, 0]);
                }
                r.add(0, ASKED, SVCB, &data)
            }),
        ),
        (
            "65,000 empty strings of TXT",
            of(short, TXT).fill_to(1, |r, _| r.add(0, ASKED, TXT, &[0; 65_000])),
        ),
        (
            "16,000 options",
            of(short, 1).fill(|r, n| match n {
                0 => r.add(0, ASKED, 1, &[192, 0, 2, 1]),
                _ => n < 2 && r.add(2, &[0], OPT, &[0xfe, 0, 0, 0].repeat(16_200)),
            }),
        ),
        (
            "a bitmap of 256 windows, 7 of them",
            of(short, NSEC).fill(|r, n| {
                let mut data = vec![0];
                for window in 0..=255 {
                    data.extend([window, 32]);
                    data.extend([0xff; 32]);
                }
                data[3..5].copy_from_slice(&n.to_be_bytes());
                r.add(0, ASKED, NSEC, &data)
            }),
        ),
        (
            "250 NSEC3 records with signatures",
            Reply::new(short, 1, 3).fill(|r, n| {
                let owner = [&[32][..], format!("{n:032}").as_bytes(), b"\x07example\0"].concat();
                if n >= 500 {
                    return false;
                }
                match (n, n % 2) {
                    (0, _) => r.add(1, b"\x07example\0", 6, &[&[0, 0][..], &[0; 20]].concat()),
                    (_, 1) => r.add(
                        1,
                        &owner,
                        NSEC3,
                        &[&[1, 0, 0, 0, 0, 20][..], &numbered(n, 20), &[0, 32], &[0xff; 32]]
                            .concat(),
                    ),
                    _ => r.add(1, &owner, RRSIG, &signature(NSEC3, n, 64)),
                }
            }),
        ),
    ]
}

/// What is done with a reply that nobody validates.
#[inline(never)]
fn measured(reply: &Reply, flags: u8) -> usize {
    let Reply { bytes, name, qtype, .. } = reply;
    let key = Key { name, qtype: *qtype, qclass: 1, flags };
    Entry::scrub(bytes, key, 0, 0, &LIFETIMES, Vec::new())
        .map_or(0, |(entry, _)| entry.message().len())
}

#[test]
#[ignore = "a measurement"]
fn what_the_worst_replies_cost() {
    for (name, reply) in cases() {
        for flags in [0, Key::DO] {
            let mut times: Vec<_> = (0..RUNS)
                .map(|_| {
                    let started = Instant::now();
                    std::hint::black_box(measured(&reply, flags));
                    started.elapsed().as_nanos() as f64 / 1e6
                })
                .collect();
            times.sort_by(f64::total_cmp);
            let (records, kept) = (reply.counts.iter().sum::<u16>(), measured(&reply, flags));
            println!(
                "{:8.3} ms ({:.3} to {:.3}) {:6} bytes, {records:5} records, {kept:5} bytes kept{}: {name}",
                times[RUNS / 2],
                times[0],
                times[RUNS - 1],
                reply.bytes.len(),
                if flags == 0 { "" } else { ", DO" }
            );
        }
    }
}
