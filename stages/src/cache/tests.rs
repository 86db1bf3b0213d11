//! The cache against a model, and at its edges.

use std::collections::HashMap;

use pmdns_config::Eviction;
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
    let entry = Entry::new(&Parts {
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

#[derive(Clone, Debug)]
enum Action {
    Insert { number: u32, lines: usize },
    Remove { number: u32 },
    Hit { number: u32, weight: u32 },
}

const KEYS: u32 = 90;

const MAX_ACTIONS: usize = if cfg!(miri) { 20 } else { 300 };

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        12 => (0..KEYS, 1_usize..6).prop_map(|(number, lines)| Action::Insert { number, lines }),
        1 => (0..KEYS, 1_usize..80).prop_map(|(number, lines)| Action::Insert { number, lines }),
        1 => (0..KEYS).prop_map(|number| Action::Remove { number }),
        6 => (0..KEYS / 3, 1_u32..5).prop_map(|(number, weight)| Action::Hit { number, weight }),
    ]
}

fn eviction() -> impl Strategy<Value = Eviction> {
    proptest::sample::select(vec![Eviction::Fifo, Eviction::Lru, Eviction::Lfu, Eviction::HitRate])
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

fn check_shard(
    cache: &Cache,
    writer: &Writer,
    shard: usize,
    model: &Model,
    removed: u64,
    eviction: Eviction,
) {
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
            (None, Some((_, at)))
                if model.used - at + step <= log_lines && eviction == Eviction::Fifo =>
            {
                missing += 1;
            }
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
        let view = cache.view(EntryRef { shard: shard as u16, position: slot as u32 });
        let place = cache.geometry.place(Head::read(&view).hash);
        assert_eq!((place.shard, place.bucket), (shard, home));
    }
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn the_cache_is_a_map_that_forgets(
        lines in 30_usize..400,
        shards in 1_usize..4,
        position in prop_oneof![Just(0), u32::MAX - 2000..=u32::MAX],
        actions in proptest::collection::vec(action(), 1..MAX_ACTIONS),
        eviction in eviction(),
    ) {
        let (cache, writers) = cache(lines, shards, position);
        let retention = Retention { eviction, ..Retention::default() };
        let mut writers: Vec<_> =
            writers.into_iter().map(|writer| writer.with_retention(&retention)).collect();
        let log_lines = cache.geometry.laps.lines();
        let mut models: Vec<_> = (0..shards).map(|_| Model::default()).collect();
        let (mut removed, mut too_long) = (vec![0; shards], vec![0; shards]);
        for (version, action) in actions.into_iter().enumerate() {
            let (Action::Insert { number, .. }
            | Action::Remove { number }
            | Action::Hit { number, .. }) = action;
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
                Action::Hit { weight, .. } => {
                    let was_there = cache.find(hash(number)).is_some();
                    let hit = Hit { hash: hash(number), weight };
                    let standing = writers[shard].credit(hit, version as u32);
                    prop_assert_eq!(standing.is_some(), was_there && retention.needs_hits());
                }
            }
            prop_assert_eq!(writers[shard].stats().too_long, too_long[shard]);
            let (writer, model) = (&writers[shard], &models[shard]);
            check_shard(&cache, writer, shard, model, removed[shard], eviction);
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
        let torn = EntryRef { shard, position: line };
        cache.prefetch_entry(torn);
        let view = cache.view(torn);
        let head = Head::read(&view);
        let _ = (view.word(index), ttl_offset(&view, &head, usize::from(head.ttl_count)));
        let _ = (answers(&view, &key(b"\x01a\0")), view.is_valid(), cache.find(words[0]));
    }
}

#[test]
fn trap_15_a_full_cache_keeps_inserting_and_never_grows() {
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

/// Floods a cache with random names, ten times as many as it has room for, while 50 names are asked for now and
/// then, and says how many of those are still there.
fn survivors(eviction: Eviction) -> usize {
    let retention = Retention { eviction, ..Retention::default() };
    let (cache, mut writer) = cache_keeping(2000, u32::MAX, &retention);
    for number in 0..50 {
        writer.insert(&entry(number, hash(number), 2, 0));
    }
    for number in 1000..10_000 {
        if number % 100 == 0 {
            for hot in 0..50 {
                let is_there = read(&cache, hot, hash(hot)).is_some();
                let credited = writer.credit(Hit { hash: hash(hot), weight: 1 }, number / 100);
                assert_eq!(credited.is_some(), is_there && eviction != Eviction::Fifo);
            }
        }
        assert_eq!(writer.insert(&entry(number, hash(number), 2, 0)), Inserted::New);
        assert!(read(&cache, number, hash(number)).is_some(), "the newest is there");
    }
    assert_eq!(writer.stats().kept > 0, eviction != Eviction::Fifo);
    (0..50).filter(|number| read(&cache, *number, hash(*number)).is_some()).count()
}

#[test]
#[cfg_attr(miri, ignore = "ten thousand inserts")]
fn trap_16_many_random_names_do_not_push_out_what_is_asked_for() {
    assert_eq!(survivors(Eviction::Fifo), 0, "first in, first out");
    for eviction in [Eviction::Lru, Eviction::Lfu, Eviction::HitRate] {
        assert_eq!(survivors(eviction), 50, "{eviction:?}");
    }
}

#[test]
fn what_is_kept_is_found_at_every_moment_and_expired_answers_are_not_kept() {
    let retention = Retention { eviction: Eviction::Lru, ..Retention::default() };
    let (cache, mut writer) = cache_keeping(300, 0, &retention);
    writer.insert(&entry(1, hash(1), 3, 0));
    writer.insert(&entry(2, hash(2), 3, 0));
    let (first, mut moves) = (cache.find(hash(1)), 0);
    for number in 100..1000 {
        for hash in [hash(1), hash(2)] {
            writer.credit(Hit { hash, weight: 1 }, 0);
        }
        writer.insert(&entry(number, hash(number), 1 + number as usize % 5, 0));
        assert!(read(&cache, 1, hash(1)).is_some() && read(&cache, 2, hash(2)).is_some());
        moves += u32::from(cache.find(hash(1)) != first);
    }
    assert!(moves > 0);
    for number in 1000..1400 {
        for hash in [hash(1), hash(2)] {
            // Its thousand seconds are over.
            writer.credit(Hit { hash, weight: 1 }, 1000);
        }
        writer.insert(&entry(number, hash(number), 2, 0));
    }
    assert!(read(&cache, 1, hash(1)).is_none() && read(&cache, 2, hash(2)).is_none());
}

#[test]
fn where_all_are_popular_an_insert_still_makes_room() {
    let retention = Retention { eviction: Eviction::Lru, ..Retention::default() };
    let (_cache, mut writer) = cache_keeping(1000, 0, &retention);
    for number in 0..3000 {
        assert_eq!(writer.insert(&entry(number, hash(number), 2, 0)), Inserted::New);
        for number in number.saturating_sub(600)..=number {
            writer.credit(Hit { hash: hash(number), weight: 1 }, 0);
        }
    }
    let stats = writer.stats();
    assert!(stats.evicted > 2000, "{stats:?}");
    // Room is made for 64 lines at least; at most 256 are appended again for that.
    assert!(stats.kept <= stats.inserted * 4 + 200, "{stats:?}");
}

#[test]
fn negative_answers_have_their_share_and_no_more() {
    let retention =
        Retention { max_negative_share: 0.25, max_negative_ttl: 300, ..Retention::default() };
    let (cache, mut writer) = cache_keeping(1000, 0, &retention);
    let limit = cache.geometry.laps.lines() as u64 / 4;
    let negative = |number: u32, now: u32| {
        let mut entry = entry(number, hash(number), 2, now);
        entry.set_flags(Head::NEGATIVE);
        entry.set_times(now, now + 300);
        entry
    };
    let refused = (0..400).filter(|number| !writer.insert(&negative(*number, 10)).is_kept());
    assert_eq!(refused.count() as u64, 400 - limit / 2);
    assert_eq!(writer.stats().negative_refused, 400 - limit / 2);
    assert!(writer.insert(&entry(500, hash(500), 2, 10)).is_kept(), "what is positive is kept");
    assert!(read(&cache, 399, hash(399)).is_none());

    assert!(writer.remove(hash(0)));
    assert_eq!(writer.insert(&negative(399, 10)), Inserted::New, "in its place");
    assert_eq!(writer.insert(&negative(398, 10)), Inserted::TooManyNegative);
    writer.insert(&entry(1, hash(1), 2, 10));
    assert_eq!(
        writer.insert(&negative(398, 10)),
        Inserted::New,
        "instead of one that was replaced"
    );
    for number in 1000..2000 {
        writer.insert(&entry(number, hash(number), 2, 10));
    }
    assert_eq!(writer.insert(&negative(1, 10)), Inserted::New, "instead of those evicted");
    for number in 2..limit as u32 {
        writer.insert(&negative(number, 10));
    }
    assert_eq!(writer.insert(&negative(398, 11)), Inserted::TooManyNegative);
    assert_eq!(
        writer.insert(&negative(398, 320)),
        Inserted::New,
        "what has expired counts no more"
    );
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
    let longest = Entry::new(&Parts {
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
