//! The cache against a model, and at its edges.

use std::collections::HashMap;

use proptest::prelude::*;

use super::geometry::LINE_BYTES;
use super::log::STEP_LINES;
use super::*;
use crate::wire::dns::{Rcode, rtype};

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
fn cache(lines: usize, shards: usize, position: u32) -> (Arc<Cache>, Vec<Writer>) {
    let arena = Arena::heap(lines * LINE_WORDS);
    Cache::starting_at(position, arena, shards, seed()).expect("it is enough")
}

fn name(number: u32) -> Vec<u8> {
    format!("\x08{number:08x}\0").into_bytes()
}

fn key(name: &[u8]) -> Key<'_> {
    Key { name, qtype: 1, qclass: 1, flags: 0 }
}

fn hash(number: u32) -> u64 {
    let name = name(number);
    key(&name).hash(seed(), seed().hash(&name))
}

/// An entry of `lines` lines for key `number`, told from others for the same key by its version.
fn entry(number: u32, hash: u64, lines: usize, version: u32) -> Entry {
    // Without body it has head and name; both together are a line less one word.
    let body = vec![version as u8; lines * LINE_BYTES - 56];
    let entry = Entry::new(&Parts {
        key: key(&name(number)),
        hash,
        learnt: version,
        expires: version,
        rcode: Rcode::NOERROR,
        flags: 0,
        counts: [0; 3],
        body: &body,
        additional_at: 0,
        ttls: &[],
    });
    assert_eq!(entry.words().len(), lines * LINE_WORDS);
    entry
}

/// What the cache has for key `number`, as a reader would find it.
fn read(cache: &Cache, number: u32, hash: u64) -> Option<Vec<u64>> {
    let view = cache.view(cache.find(hash)?);
    let words = (0..usize::from(Head::read(&view).words)).map(|index| view.word(index)).collect();
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

#[derive(Clone, Debug)]
enum Action {
    Insert { number: u32, lines: usize },
    Remove { number: u32 },
}

const KEYS: u32 = 90;

const MAX_ACTIONS: usize = if cfg!(miri) { 20 } else { 300 };

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        12 => (0..KEYS, 1_usize..6).prop_map(|(number, lines)| Action::Insert { number, lines }),
        1 => (0..KEYS, 1_usize..80).prop_map(|(number, lines)| Action::Insert { number, lines }),
        1 => (0..KEYS).prop_map(|number| Action::Remove { number }),
    ]
}

/// What should be in one shard.
#[derive(Default)]
struct Model {
    /// By key: the entry last inserted, and how many lines of log were used before it.
    last: HashMap<u32, (Entry, usize)>,
    /// Lines of log used so far, those left free at the end of laps among them.
    used: usize,
}

impl Model {
    fn insert(&mut self, number: u32, entry: Entry, log_lines: usize) {
        let lines = entry.words().len() / LINE_WORDS;
        let line = self.used % log_lines;
        if line + lines > log_lines {
            self.used += log_lines - line;
        }
        self.last.insert(number, (entry, self.used));
        self.used += lines;
    }
}

fn check_shard(cache: &Cache, writer: &Writer, shard: usize, model: &Model, removed: u64) {
    let log_lines = cache.geometry.laps.lines();
    let step = (STEP_LINES as usize).min(log_lines / 8);
    let (mut found, mut missing) = (0, 0);
    for number in (0..KEYS).filter(|number| cache.shard_of(hash(*number)) == shard) {
        let last = model.last.get(&number);
        match (read(cache, number, hash(number)), last) {
            (Some(words), Some((entry, _))) => {
                assert_eq!(words, entry.words(), "the last that was inserted");
                found += 1;
            }
            (Some(_), None) => panic!("{number} was never inserted, or removed"),
            (None, Some((_, at))) if model.used - at + step <= log_lines => missing += 1,
            (None, _) => {}
        }
    }
    let stats = writer.stats();
    assert_eq!(stats.entries, found);
    assert!(missing <= stats.index_evicted, "{missing} were lost that there was room for");
    let lost = stats.replaced + stats.evicted + stats.index_evicted + removed;
    assert_eq!(stats.inserted, stats.entries + lost);
    assert!(stats.bytes_used <= stats.bytes_total);
    assert_eq!(stats.bytes_total, cache.geometry.shard_bytes() as u64);
    for (_, home, slot) in index::tests::check(cache.index(), cache.geometry.index(shard)) {
        let view = cache.view(EntryRef { shard: shard as u16, line: slot as u32 });
        let place = cache.geometry.place(Head::read(&view).hash);
        assert_eq!((place.shard, place.bucket), (shard, home));
    }
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn the_cache_is_a_map_that_forgets_the_oldest(
        lines in 30_usize..400,
        shards in 1_usize..4,
        position in prop_oneof![Just(0), u32::MAX - 2000..=u32::MAX],
        actions in proptest::collection::vec(action(), 1..MAX_ACTIONS),
    ) {
        let (cache, mut writers) = cache(lines, shards, position);
        let log_lines = cache.geometry.laps.lines();
        let mut models: Vec<_> = (0..shards).map(|_| Model::default()).collect();
        let (mut removed, mut too_long) = (vec![0; shards], vec![0; shards]);
        for (version, action) in actions.into_iter().enumerate() {
            let (Action::Insert { number, .. } | Action::Remove { number }) = action;
            let shard = cache.shard_of(hash(number));
            match action {
                Action::Insert { lines, .. } => {
                    let entry = entry(number, hash(number), lines, version as u32);
                    let inserted = writers[shard].insert(&entry);
                    prop_assert_eq!(inserted == Inserted::TooLong, lines > log_lines);
                    if lines > log_lines {
                        too_long[shard] += 1;
                    } else {
                        models[shard].insert(number, entry, log_lines);
                    }
                }
                Action::Remove { .. } => {
                    let was_there = read(&cache, number, hash(number)).is_some();
                    prop_assert_eq!(writers[shard].remove(hash(number)), was_there);
                    removed[shard] += u64::from(was_there);
                    models[shard].last.remove(&number);
                }
            }
            prop_assert_eq!(writers[shard].stats().too_long, too_long[shard]);
            check_shard(&cache, &writers[shard], shard, &models[shard], removed[shard]);
        }
    }

    #[test]
    fn any_reference_can_be_read_without_harm(
        shard in 0_u16..2, line in any::<u32>(), index in any::<usize>(), words in any::<[u64; 8]>(),
    ) {
        let (cache, _writers) = cache(40, 2, 0);
        for (word, value) in cache.arena.words().iter().zip(words.iter().cycle()) {
            word.store(*value, Ordering::Relaxed);
        }
        let torn = EntryRef { shard, line };
        cache.prefetch_entry(torn);
        let view = cache.view(torn);
        let head = Head::read(&view);
        let _ = (view.word(index), ttl_offset(&view, &head, usize::from(head.ttl_count)));
        let _ = (answers(&view, &key(b"\x01a\0")), view.is_valid(), cache.find(words[0]));
    }
}

#[test]
fn a_full_cache_keeps_inserting_and_never_grows() {
    let count = if cfg!(miri) { 300 } else { 200_000 };
    let (cache, mut writers) = cache(1000, 1, u32::MAX);
    let writer = &mut writers[0];
    let log_lines = cache.geometry.laps.lines();
    for number in 0..count {
        let inserted = writer.insert(&entry(number, hash(number), 2, number));
        assert_eq!(inserted, Inserted::New);
        assert!(read(&cache, number, hash(number)).is_some(), "the newest is there");
    }
    let stats = writer.stats();
    if !cfg!(miri) {
        assert!(stats.bytes_used + u64::from(2 * STEP_LINES) * 64 > stats.bytes_total, "and full");
        assert!(stats.entries as usize > log_lines / 2 - STEP_LINES as usize - 20);
    }
    assert!(stats.index_evicted * 100 <= u64::from(count), "the index is large enough: {stats:?}");
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
