//! The cache against a model of what it should have.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
pub(super) enum Action {
    Insert { number: u32, lines: usize },
    Remove { number: u32 },
    Hit { number: u32, weight: u32 },
}

pub(super) const KEYS: u32 = 90;

pub(super) const MAX_ACTIONS: usize = if cfg!(miri) { 20 } else { 300 };

pub(super) fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        12 => (0..KEYS, 1_usize..6).prop_map(|(number, lines)| Action::Insert { number, lines }),
        1 => (0..KEYS, 1_usize..80).prop_map(|(number, lines)| Action::Insert { number, lines }),
        1 => (0..KEYS).prop_map(|number| Action::Remove { number }),
        6 => (0..KEYS / 3, 1_u32..5).prop_map(|(number, weight)| Action::Hit { number, weight }),
    ]
}

pub(super) fn eviction() -> impl Strategy<Value = Eviction> {
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
    let [tail, end] =
        [cache.tail(shard), cache.end(shard)].map(|word| word.load(Ordering::Relaxed));
    let left = log::Span::resumed(cache.geometry.laps, tail, low_u32(end));
    assert_eq!(left, Some(writer.span), "another writer could go on");
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
