//! The cache under loom: every interleaving, and every value that a relaxed load may see.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p pmdns-stages --no-default-features --release --test cache_loom`
//!
//! The log has four lines and an entry is one of them, so four inserts go once round.
#![cfg(loom)]

use std::sync::Arc;

use loom::thread;
use pmdns_nics::hugepage::Arena;
use pmdns_stages::cache::{
    Cache, Entry, EntryFate, EntryParts, EntryView, Head, Key, Walk, Words, Writer, answers,
};
use pmdns_stages::wire::dns::Rcode;
use pmdns_stages::wire::name::Seed;

const KEY: Key<'static> = Key { name: b"\0", qtype: 1, qclass: 1, flags: 0 };

/// Tail, two buckets, and four lines of log.
const ARENA_WORDS: usize = 8 * 8;

/// The hash of a key; all of them have their home in bucket 0.
fn hash(number: u64) -> u64 {
    (number + 1) << 33
}

/// An entry of one line that says in its first word, its second, and its last which it is.
fn entry(number: u64) -> Entry {
    let mut body = [0; 16];
    body[8..].copy_from_slice(&number.to_le_bytes());
    let entry = Entry::new(&EntryParts {
        key: KEY,
        hash: hash(number),
        learnt: number as u32,
        expires: 0,
        rcode: Rcode::NOERROR,
        flags: 0,
        counts: [0; 3],
        body: &body,
        optional_at: 0,
        ttls: &[],
    });
    assert_eq!(entry.words().len(), 8);
    entry
}

fn cache_with(entries: u64) -> (Arc<Cache>, Writer) {
    let (cache, mut writers) =
        Cache::new(Arena::heap(ARENA_WORDS), 1, Seed::new([7; 16])).expect("it is enough");
    let mut writer = writers.remove(0);
    for number in 0..entries {
        writer.insert(&entry(number));
    }
    (cache, writer)
}

/// Reads some of an entry, as encode does, and says which it was if it was whole.
fn read(view: EntryView<'_>) -> Option<u64> {
    let (hash, learnt, last) = (view.word(0), view.word(1), view.word(7));
    if !view.is_valid() {
        return None;
    }
    assert!(learnt == last && hash == self::hash(last), "torn: {hash:x} {learnt} {last}");
    Some(last)
}

#[test]
fn an_entry_that_is_overwritten_while_it_is_read_is_not_whole() {
    loom::model(|| {
        let (cache, mut writer) = cache_with(4);
        let found = cache.find(hash(0)).unwrap();
        let reader = thread::spawn(move || {
            assert!(matches!(read(cache.view(found)), None | Some(0)), "the entry that was found");
        });
        writer.insert(&entry(4));
        reader.join().unwrap();
    });
}

#[test]
fn an_entry_that_is_found_has_been_written() {
    loom::model(|| {
        let (cache, mut writer) = cache_with(0);
        let reader = thread::spawn(move || {
            if let Some(found) = cache.find(hash(0)) {
                assert_eq!(read(cache.view(found)), Some(0));
            }
        });
        writer.insert(&entry(0));
        reader.join().unwrap();
    });
}

#[test]
fn the_second_time_round_is_no_different() {
    loom::model(|| {
        let (cache, mut writer) = cache_with(4);
        let reader = thread::spawn(move || {
            // The first key is evicted, the fifth takes its line.
            for number in [0, 4] {
                if let Some(found) = cache.find(hash(number)) {
                    assert!(matches!(read(cache.view(found)), None | Some(0 | 4)));
                }
            }
        });
        writer.insert(&entry(4));
        reader.join().unwrap();
    });
}

#[test]
fn an_entry_whose_mark_is_renewed_stays_whole_and_the_mark_is_one_of_the_two() {
    loom::model(|| {
        let (cache, mut writer) = cache_with(1);
        let found = cache.find(hash(0)).unwrap();
        let reader = thread::spawn(move || {
            let view = cache.view(found);
            let head = Head::read(&view);
            assert!(matches!(head.passed, 0 | 7) && head.counts() == [0; 3]);
            assert_eq!(read(view), Some(0));
        });
        writer.walk(&mut Walk::default(), 1, &mut 0, |_, _, _| EntryFate::Passed(7));
        reader.join().unwrap();
    });
}

#[test]
fn what_is_replaced_stays_whole_until_it_is_overwritten() {
    loom::model(|| {
        let (cache, mut writer) = cache_with(1);
        let reader = thread::spawn(move || {
            let found = cache.find(hash(0)).expect("it is replaced, never gone");
            let view = cache.view(found);
            let head = Head::read(&view);
            assert!(answers(&view, &KEY));
            assert!(view.is_valid() && head.hash == hash(0));
        });
        writer.insert(&entry(0));
        reader.join().unwrap();
    });
}
