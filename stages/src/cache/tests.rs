//! The cache at its edges: what is found, what is not, and that a hit writes nothing.

use pmdns_config::Eviction;
use proptest::prelude::ProptestConfig;

use super::geometry::LINE_BYTES;
use super::log::STEP_LINES;
use super::*;
use crate::wire::dns::{Rcode, rtype};

mod adoption;
mod crash;
#[cfg(not(miri))]
mod killed;
mod model;
mod retention;

/// How many cases a property is tried on; few where an interpreter runs them.
pub(super) fn config(cases: u32) -> ProptestConfig {
    let cases = if cfg!(miri) { 4 } else { cases };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn seed() -> Seed {
    // Like random bytes; multipliers with a pattern make poor hashes.
    Seed::new(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835_u128.to_le_bytes())
}

/// A cache in so many lines whose logs start near `position`.
pub(super) fn cache(lines: usize, shards: usize, position: u32) -> (Arc<Cache>, Vec<Writer>) {
    let arena = Arena::heap(lines * LINE_WORDS);
    Cache::starting_at(position, arena, shards, seed()).expect("it is enough")
}

/// The same with one shard, which keeps what `retention` says.
pub(super) fn cache_keeping(
    lines: usize,
    position: u32,
    retention: &Retention,
) -> (Arc<Cache>, Writer) {
    let (cache, mut writers) = cache(lines, 1, position);
    (cache, writers.remove(0).with_retention(retention))
}

fn name(number: u32) -> Vec<u8> {
    format!("\x08{number:08x}\0").into_bytes()
}

fn key(name: &[u8]) -> Key<'_> {
    Key { name, qtype: 1, qclass: 1, flags: 0 }
}

pub(super) fn hash(number: u32) -> u64 {
    let name = name(number);
    key(&name).hash(seed(), seed().hash(&name))
}

/// An entry of `lines` lines for key `number`, told from others for the same key by its version.
pub(super) fn entry(number: u32, hash: u64, lines: usize, version: u32) -> Entry {
    // Without body it has head and name; both together are a line less one word.
    let body = vec![version as u8; lines * LINE_BYTES - 56];
    let entry = Entry::new(&EntryParts {
        key: key(&name(number)),
        hash,
        learnt: version,
        expires: version.saturating_add(1000),
        rcode: Rcode::NOERROR,
        flags: 0,
        counts: [0; 3],
        body: &body,
        optional_at: 0,
        ttls: &[],
    });
    assert_eq!(entry.words().len(), lines * LINE_WORDS);
    entry
}

/// What the cache has for key `number`, as a reader would find it.
pub(super) fn read(cache: &Cache, number: u32, hash: u64) -> Option<Vec<u64>> {
    let view = cache.view(cache.find(hash)?);
    let words = (0..Head::read(&view).words()).map(|index| view.word(index)).collect();
    assert!(view.is_valid(), "nobody writes meanwhile");
    answers(&view, &key(&name(number))).then_some(words)
}

#[test]
fn invariant_5_a_hit_writes_nothing_shared() {
    let (cache, mut writers) = cache(1024, 1, 0);
    for number in 0..50 {
        writers[0].insert(&entry(number, hash(number), 1 + number as usize % 3, 7));
    }
    let memory = || -> Vec<u64> {
        cache.arena.words().iter().map(|word| word.load(Ordering::Relaxed)).collect()
    };
    let (before, holders) = (memory(), Arc::strong_count(&cache));
    for number in 0..60 {
        cache.probe(hash(number));
        if let Some(found) = cache.find(hash(number)) {
            cache.prefetch_entry(found);
        }
        assert_eq!(read(&cache, number, hash(number)).is_some(), number < 50);
    }
    assert!(memory() == before);
    assert_eq!(Arc::strong_count(&cache), holders, "not even a reference count");
}

#[test]
fn trap_16_however_many_names_there_are_a_lookup_looks_at_two_buckets() {
    let count = if cfg!(miri) { 300 } else { 300_000 };
    let (cache, mut writers) = cache(2000, 1, 0);
    let writer = &mut writers[0];
    for number in 0..count {
        writer.insert(&entry(number, hash(number), 2, number));
    }
    let stats = writer.stats();
    let (mut away, mut all) = (0, 0);
    for (bucket, _, slot) in index::tests::check(cache.index(), cache.geometry.index(0)) {
        let view = cache.view(EntryRef { shard: 0, position: slot as u32 });
        let home = cache.geometry.place(Head::read(&view).hash).bucket;
        assert!(bucket == home || bucket == home ^ 1, "no chains, whatever was inserted and lost");
        away += u32::from(bucket != home);
        all += 1;
    }
    assert_eq!(u64::from(all), stats.entries, "no slot is left behind");
    assert!(away * 50 <= all, "and nearly all in the first: {away} of {all}");
    assert_eq!(stats.inserted, stats.entries + stats.evicted + stats.index_evicted);
}

#[test]
fn an_entry_may_end_with_the_log_and_none_is_split() {
    // 47 lines of log, in laps of 64: 1 + 23 + 23 end where the log ends.
    let (cache, mut writers) = cache(56, 1, u32::MAX);
    assert_eq!(cache.geometry.laps.lines(), 48);
    let writer = &mut writers[0];
    for (number, lines) in [(1, 2), (2, 23), (3, 23)] {
        writer.insert(&entry(number, hash(number), lines, number));
    }
    assert!((1..=3).all(|number| read(&cache, number, hash(number)).is_some()));
    assert_eq!(writer.stats().bytes_used, writer.stats().bytes_total);
    writer.insert(&entry(4, hash(4), 40, 4));
    assert!((1..=3).all(|number| read(&cache, number, hash(number)).is_none()));
    assert!(read(&cache, 4, hash(4)).is_some());
    writer.insert(&entry(5, hash(5), 9, 5));
    assert!(read(&cache, 4, hash(4)).is_none(), "nine lines do not fit in the eight that are left");
    assert!(read(&cache, 5, hash(5)).is_some());
    writer.insert(&entry(6, hash(6), 48, 6));
    assert!(read(&cache, 6, hash(6)).is_some(), "one that fills the log");
    assert_eq!(writer.stats().entries, 1);
}

#[test]
fn an_entry_longer_than_the_log_is_counted_and_changes_nothing() {
    let (cache, mut writers) = cache(56, 1, 0);
    writers[0].insert(&entry(1, hash(1), 2, 1));
    assert_eq!(writers[0].insert(&entry(2, hash(2), 49, 2)), Inserted::TooLong);
    assert_eq!(writers[0].stats().too_long, 1);
    assert!(read(&cache, 1, hash(1)).is_some());
}

#[test]
fn another_key_with_the_same_tag_is_found_but_does_not_answer() {
    let (cache, mut writers) = cache(100, 1, 0);
    let same_tag = hash(1) ^ 1;
    assert_eq!(cache.geometry.place(same_tag), cache.geometry.place(hash(1)));
    writers[0].insert(&entry(1, hash(1), 1, 1));
    let found = cache.find(same_tag).unwrap();
    assert!(!answers(&cache.view(found), &key(&name(2))));
    assert!(!writers[0].remove(same_tag), "it is not the other's");
    writers[0].insert(&entry(2, same_tag, 1, 1));
    assert!(read(&cache, 2, same_tag).is_some(), "the later one is found");
    assert!(read(&cache, 1, hash(1)).is_none());
    assert_eq!(writers[0].stats().entries, 1);
}

#[test]
fn a_reader_who_kept_a_reference_too_long_is_told() {
    let (cache, mut writers) = cache(56, 1, u32::MAX);
    writers[0].insert(&entry(1, hash(1), 3, 1));
    let found = cache.find(hash(1)).unwrap();
    writers[0].insert(&entry(1, hash(1), 3, 2));
    assert!(cache.view(found).is_valid(), "replaced, but still whole");
    for number in 2..20 {
        writers[0].insert(&entry(number, hash(number), 3, 1));
    }
    assert!(!cache.view(found).is_valid());
}

#[test]
fn types_classes_and_flags_make_different_keys() {
    let name = name(1);
    let plain = key(&name);
    let others = [
        Key { qtype: rtype::SOA, ..plain },
        Key { qclass: 3, ..plain },
        Key { flags: Key::DO, ..plain },
        Key { flags: Key::CD, ..plain },
    ];
    let words = entry(1, hash(1), 1, 1);
    assert!(answers(&words.words(), &plain));
    for other in others {
        assert!(!answers(&words.words(), &other));
        assert_ne!(other.hash(seed(), seed().hash(&name)), hash(1));
    }
}

#[test]
fn every_flag_has_a_bit_of_its_own_and_so_has_a_template() {
    let flags = [
        Head::AUTHENTIC,
        Head::AUTHORITATIVE,
        Head::TOO_LONG,
        Head::NEGATIVE,
        Head::STALE,
        Head::REWRITTEN,
        Head::LEADS_ON,
        Head::FIRM,
    ];
    assert_eq!(flags.into_iter().fold(0, |all, flag| all | flag), u8::MAX);
    let label = [&[63][..], &[b'a'; 63]].concat();
    let name = [&label.repeat(3)[..], &[61], &[b'a'; 61], &[0]].concat();
    let longest = Entry::new(&EntryParts {
        key: key(&name),
        hash: 1,
        learnt: 0,
        expires: 1,
        rcode: Rcode::NOERROR,
        flags: u8::MAX,
        counts: [1, 0, 0],
        body: &vec![0; usize::from(u16::MAX)],
        optional_at: u16::MAX,
        ttls: &[7; MAX_RECORDS],
    });
    let (head, len) = (longest.head(), longest.words().len());
    assert_eq!((head.words(), head.is_template()), (len, false));
    let template = longest.into_template();
    let marked = template.head();
    assert_eq!((marked.words(), marked.is_template()), (len, true));
    assert_eq!(Head { size: head.size, ..marked }, head, "nothing else has changed");
    let rewritten = entry(1, hash(1), 2, 1).with_records_of(key(&name), &template);
    assert!(rewritten.head().is_template(), "it still has to be filled in");
}
