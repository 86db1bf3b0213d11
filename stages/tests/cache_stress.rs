//! Readers and the writer at the same few cache lines for some time: no torn entry is taken for whole.
#![cfg(not(loom))]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pmdns_config::Eviction;
use pmdns_nics::hugepage::Arena;
use pmdns_stages::cache::{Cache, Entry, EntryParts, Head, Hit, Key, Retention, Words, answers};
use pmdns_stages::wire::dns::Rcode;
use pmdns_stages::wire::name::Seed;

const KEYS: u64 = 40;
const READERS: u64 = 2;
const DURATION: Duration = Duration::from_millis(if cfg!(miri) { 20 } else { 400 });

/// Of 64 words a line of tail, index and log: room for some ten entries.
const ARENA_WORDS: usize = 64 * 8;

fn name(number: u64) -> Vec<u8> {
    format!("\x04{number:04}\0").into_bytes()
}

fn hash(seed: Seed, number: u64) -> u64 {
    let name = name(number);
    key(&name).hash(seed, seed.hash(&name))
}

fn key(name: &[u8]) -> Key<'_> {
    Key { name, qtype: 1, qclass: 1, flags: 0 }
}

/// An entry whose body is one number again and again, and that number says how often.
fn entry(number: u64, hash: u64, version: u32) -> Entry {
    let words = 1 + version as usize % 50;
    let body = (u64::from(version) << 32 | number).to_le_bytes().repeat(words);
    Entry::new(&EntryParts {
        key: key(&name(number)),
        hash,
        learnt: version,
        expires: !version,
        rcode: Rcode::NOERROR,
        flags: 0,
        counts: [0; 3],
        body: &body,
        optional_at: 0,
        ttls: &[],
    })
}

/// Reads the entry of key `number` as the line does, and says whether there was a whole one.
fn read(cache: &Cache, number: u64) -> bool {
    let hash = hash(cache.seed(), number);
    let Some(found) = cache.find(hash) else { return false };
    cache.prefetch_entry(found);
    let view = cache.view(found);
    let head = Head::read(&view);
    let is_answer = answers(&view, &key(&name(number)));
    let body: Vec<u64> = (head.body_at..head.ttls_at()).map(|index| view.word(index)).collect();
    if !view.is_valid() {
        return false;
    }
    assert!(is_answer && head.hash == hash);
    assert_eq!(head.expires, !head.learnt);
    let version = head.learnt;
    assert_eq!(body.len(), 1 + version as usize % 50);
    assert!(body.iter().all(|word| *word == u64::from(version) << 32 | number), "{body:x?}");
    true
}

/// Numbers in no order that matters.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn no_torn_entry_is_taken_for_whole() {
    stress(Eviction::Fifo);
}

#[test]
fn nor_one_that_is_appended_again() {
    stress(Eviction::Lru);
}

fn stress(eviction: Eviction) {
    let seed = Seed::new(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835_u128.to_le_bytes());
    let (cache, mut writers) = Cache::new(Arena::heap(ARENA_WORDS), 1, seed).expect("it is enough");
    let retention = Retention { eviction, ..Retention::default() };
    let mut writer = writers.remove(0).with_retention(&retention);
    let (stop, hits) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for reader in 1..=READERS {
            let (cache, stop, hits) = (&cache, &stop, &hits);
            scope.spawn(move || {
                let (mut state, mut whole) = (reader, 0);
                while !stop.load(Ordering::Relaxed) {
                    whole += u64::from(read(cache, random(&mut state) % KEYS));
                }
                hits.fetch_add(whole, Ordering::Relaxed);
            });
        }
        let (start, mut state, mut version) = (Instant::now(), 99, 0);
        while start.elapsed() < DURATION || writer.stats().evicted < 20 {
            for _ in 0..if cfg!(miri) { 1 } else { 100 } {
                let number = random(&mut state) % KEYS;
                writer.insert(&entry(number, hash(seed, number), version));
                version += 1;
                let hash = hash(seed, random(&mut state) % (KEYS / 4));
                writer.credit(Hit { hash, weight: 1 }, 0);
            }
        }
        assert_eq!(writer.stats().kept > 0, eviction != Eviction::Fifo);
        stop.store(true, Ordering::Relaxed);
    });
    assert!(cfg!(miri) || hits.into_inner() > 0, "readers do find entries");
}
