//! What is done to bytes: names, queries, TTLs and checksums.
//!
//! The first fifteen cases are those of "Making TRust-DNS faster than BIND9" (2017). Each of three names is compared
//! with itself: in another letter case, in the same, and in another case with comparison by case. It is also converted
//! to lower case, from mixed and from lower case. Names are in wire format, as received.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pmdns_bench::traffic::entry_number;
use pmdns_stages::cache::{Head, Key, answers, ttl_offset};
use pmdns_stages::testing::{QueryFrame, name_of, query};
use pmdns_stages::wire::checksum::Sum;
use pmdns_stages::wire::dns::CLASS_IN;
use pmdns_stages::wire::name::{self, Seed, equal, length};
use pmdns_stages::wire::query::ParsedQuery;
use pmdns_stages::wire::{be32, put32};

/// The post's names, and each in other letters.
const NAMES: [(&str, &str, &str); 3] = [
    ("long", "a.crazy.really.long.example.com", "a.crazy.really.long.EXAMPLE.com"),
    ("medium", "www.example.com", "www.EXAMPLE.com"),
    ("short", "com", "COM"),
];

/// Bytes of datagrams: a query, an answer, an answer with signatures, the longest.
const DATAGRAMS: [usize; 4] = [45, 61, 512, 1232];

fn names(c: &mut Criterion) {
    let mut group = c.benchmark_group("wire/name");
    for (size, plain, other) in NAMES {
        let (plain, other) = (name_of(plain), name_of(other));
        let pair = || (black_box(plain.as_slice()), black_box(other.as_slice()));
        group.bench_function(format!("cmp_{size}"), |b| {
            b.iter(|| {
                let (left, right) = pair();
                assert!(equal(left, right));
            });
        });
        group.bench_function(format!("cmp_{size}_case"), |b| {
            b.iter(|| {
                let left = black_box(plain.as_slice());
                assert!(left == black_box(plain.as_slice()));
            });
        });
        group.bench_function(format!("cmp_{size}_not_eq"), |b| {
            b.iter(|| {
                let (left, right) = pair();
                assert!(left != right);
            });
        });
        for (need, name) in [("no_lower", &plain), ("to_lower", &other)] {
            group.bench_function(format!("{need}_{size}"), |b| {
                b.iter(|| lower_all(black_box(name)));
            });
        }
        let seed = Seed::new([7; 16]);
        group.bench_function(format!("hash_{size}"), |b| b.iter(|| seed.hash(black_box(&plain))));
        group.bench_function(format!("length_{size}"), |b| b.iter(|| length(black_box(&plain))));
    }
    group.finish();
}

/// A whole name in lower case. The line never makes one: it lower-cases words on the way to the hash and to the
/// comparison.
#[inline]
fn lower_all(name: &[u8]) -> [u64; 32] {
    let mut lower = [0; 32];
    for (at, word) in (0..name.len()).step_by(8).zip(&mut lower) {
        *word = name::lower(name::word(name, at));
    }
    lower
}

fn queries(c: &mut Criterion) {
    let mut group = c.benchmark_group("wire/query");
    let plain = query("www.example.com. A");
    let cases: [(&str, QueryFrame); 3] = [
        ("plain", plain.clone()),
        ("edns", plain.edns(1232, true)),
        ("long", query("a.crazy.really.long.name.under.example.com. AAAA").edns(1232, false)),
    ];
    for (name, case) in &cases {
        let message = case.message();
        assert_eq!(ParsedQuery::read(&message).error, None);
        group.bench_function(format!("read_{name}"), |b| {
            b.iter(|| ParsedQuery::read(black_box(&message)));
        });
    }
    group.finish();
}

/// What encode does with an entry, word for word: compare the name, count the TTLs down.
fn answers_from_entries(c: &mut Criterion) {
    let mut group = c.benchmark_group("wire/entry");
    let seed = Seed::new([7; 16]);
    let entry = entry_number(4711, seed);
    let name = name_of("host0004711.EXAMPLE");
    let key = Key { name: &name, qtype: 1, qclass: CLASS_IN, flags: 0 };
    assert!(answers(&entry.words(), &key));
    group.bench_function("compare_key", |b| {
        b.iter(|| answers(&black_box(entry.words()), black_box(&key)));
    });
    let mut body = *b"\xc0\x0c\0\x01\0\x01\0\x01\x51\x80\0\x04\xc0\0\x02\x01";
    group.bench_function("ttl_patch", |b| {
        b.iter(|| {
            let words = black_box(entry.words());
            let head = Head::read(&words);
            for index in 0..usize::from(head.ttl_count) {
                let at = ttl_offset(&words, &head, index);
                let ttl = be32(&body, at).unwrap_or(0);
                put32(&mut body, at, ttl.saturating_sub(black_box(0)));
            }
            black_box(&body);
        });
    });
    group.finish();
}

fn checksums(c: &mut Criterion) {
    let mut group = c.benchmark_group("wire/checksum");
    let bytes: Vec<u8> = (0..1500u32).map(|byte| (byte & 0xff) as u8).collect();
    for len in [20].into_iter().chain(DATAGRAMS) {
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(len.to_string(), |b| {
            b.iter(|| Sum::default().add_bytes(black_box(&bytes[..len])).checksum());
        });
    }
    group.finish();
}

criterion_group!(all, names, queries, answers_from_entries, checksums);
criterion_main!(all);
