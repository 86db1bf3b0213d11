//! A cache that goes on in another process, which has nothing but the memory.

use proptest::prelude::*;

use super::model::{Action, KEYS, MAX_ACTIONS, action};
use super::*;
use crate::cache::adoption::DIGEST;

/// What is kept in the tests here: every kind has its share.
fn retention() -> Retention {
    Retention {
        max_negative_share: 0.3,
        max_negative_ttl: 300,
        max_long_share: 0.3,
        max_ttl: 300,
        max_udp_body: 200,
        ..Retention::default()
    }
}

/// The same memory, as far as the two processes do not meet in it.
fn copy(arena: &Arena) -> Arena {
    let copy = Arena::heap(arena.words().len());
    for (to, from) in copy.words().iter().zip(arena.words()) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    copy
}

/// What another process makes of this memory.
fn adopt(
    arena: Arena,
    seed: Seed,
    shards: usize,
    now: u32,
) -> Result<(Arc<Cache>, Vec<Writer>), CacheError> {
    let (cache, mut writers) = Cache::over(arena, seed, shards)?;
    writers.iter_mut().try_for_each(|writer| writer.resume(&retention(), now))?;
    Ok((cache, writers))
}

/// A cache that keeps what [`retention`] says.
fn fresh(lines: usize, shards: usize, position: u32) -> (Arc<Cache>, Vec<Writer>) {
    let (cache, writers) = cache(lines, shards, position);
    (cache, writers.into_iter().map(|writer| writer.with_retention(&retention())).collect())
}

/// The entry that is inserted as number `version`: negative, long-lived or neither, as the version has it.
fn varied(number: u32, lines: usize, version: u32) -> Entry {
    let mut entry = entry(number, hash(number), lines, version);
    entry.set_times(version, version + [20, 100, 300][version as usize % 3]);
    if version.is_multiple_of(4) {
        entry.set_flags(Head::NEGATIVE);
    }
    entry
}

/// Does the same to each cache that writers are of, and says what came of it.
fn act(
    cache: &Cache,
    writers: &mut [Writer],
    action: &Action,
    version: u32,
) -> (Option<Inserted>, bool) {
    match *action {
        Action::Insert { number, lines } => {
            let writer = &mut writers[cache.shard_of(hash(number))];
            (Some(writer.insert(&varied(number, lines, version))), false)
        }
        Action::Remove { number } => {
            (None, writers[cache.shard_of(hash(number))].remove(hash(number)))
        }
        Action::Hit { .. } => (None, false),
    }
}

/// What is counted of the events since `then`, and what is there.
fn since(now: CacheStats, then: CacheStats) -> CacheStats {
    CacheStats {
        inserted: now.inserted - then.inserted,
        replaced: now.replaced - then.replaced,
        evicted: now.evicted - then.evicted,
        kept: now.kept - then.kept,
        index_evicted: now.index_evicted - then.index_evicted,
        too_long: now.too_long - then.too_long,
        negative_refused: now.negative_refused - then.negative_refused,
        long_refused: now.long_refused - then.long_refused,
        ..now
    }
}

fn contents(cache: &Cache) -> Vec<Option<Vec<u64>>> {
    (0..KEYS).map(|number| read(cache, number, hash(number))).collect()
}

/// Reads whatever can be found, as readers do.
fn read_all(cache: &Cache) {
    for number in 0..KEYS {
        if let Some(found) = cache.find(hash(number)) {
            let entry = Entry::copy_of(&cache.view(found)).expect("it is sound");
            entry.message();
            entry.stale(1000, 30);
        }
    }
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn the_next_writer_goes_on_like_one_that_never_stopped(
        lines in 30_usize..400,
        shards in 1_usize..4,
        position in prop_oneof![Just(0), u32::MAX - 2000..=u32::MAX],
        before in proptest::collection::vec(action(), 0..MAX_ACTIONS),
        after in proptest::collection::vec(action(), 0..MAX_ACTIONS),
    ) {
        let (first, mut first_writers) = fresh(lines, shards, position);
        for (version, action) in (0..).zip(&before) {
            act(&first, &mut first_writers, action, version);
        }
        let now = before.len() as u32;
        let (second, mut second_writers) =
            adopt(copy(&first.arena), seed(), shards, now).unwrap();
        prop_assert_eq!(contents(&first), contents(&second));
        let then: Vec<_> = first_writers.iter().map(Writer::stats).collect();
        for (version, action) in (now..).zip(&after) {
            let (one, other) = (
                act(&first, &mut first_writers, action, version),
                act(&second, &mut second_writers, action, version),
            );
            prop_assert_eq!(one, other, "{:?}", action);
        }
        prop_assert_eq!(contents(&first), contents(&second));
        for ((one, other), then) in first_writers.iter().zip(&second_writers).zip(then) {
            prop_assert_eq!(since(one.stats(), then), other.stats());
            prop_assert_eq!(one.span, other.span);
        }
        let words = |cache: &Cache| -> Vec<u64> {
            cache.arena.words().iter().map(|word| word.load(Ordering::Relaxed)).collect()
        };
        (0..shards).for_each(|shard| {
            first.turn(shard).fetch_add(1, Ordering::Relaxed);
        });
        prop_assert!(words(&first) == words(&second), "to the last word");
    }

    #[test]
    fn damaged_memory_is_refused_or_does_no_harm(
        lines in 30_usize..100,
        actions in proptest::collection::vec(action(), 0..60),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u64>(), 0_u32..64), 1..4),
        is_bit in any::<bool>(),
        off in prop_oneof![4 => Just(0_u32), 1 => any::<u32>(), 1 => 0_u32..10],
        after in proptest::collection::vec(action(), 0..60),
    ) {
        let (first, mut writers) = fresh(lines, 1, u32::MAX);
        for (version, action) in (0..).zip(&actions) {
            act(&first, &mut writers, action, version);
        }
        let arena = copy(&first.arena);
        for (at, word, bit) in damage {
            let at = &arena.words()[at.index(arena.words().len())];
            let word = if is_bit { at.load(Ordering::Relaxed) ^ 1 << bit } else { word };
            at.store(word, Ordering::Relaxed);
        }
        arena.words()[8].fetch_add(off.into(), Ordering::Relaxed);
        let (cache, mut writers) = Cache::over(arena, seed(), 1).unwrap();
        let resumed = writers[0].resume(&retention(), 60);
        if resumed.is_err() {
            prop_assert_eq!(writers[0].stats().entries, 0);
            prop_assert_eq!(contents(&cache), vec![None; KEYS as usize]);
        }
        for (version, action) in (60..).zip(&after) {
            act(&cache, &mut writers, action, version);
        }
        read_all(&cache);
    }

    #[test]
    fn noise_is_refused_or_does_no_harm(
        words in proptest::collection::vec(any::<u64>(), 64..400),
        end in any::<u32>(),
        is_likely in any::<bool>(),
    ) {
        let arena = Arena::heap(words.len());
        for (to, word) in arena.words().iter().zip(words) {
            to.store(word, Ordering::Relaxed);
        }
        if is_likely {
            let tail = u64::from(end.wrapping_sub(2));
            arena.words()[0].store(tail | tail << 32, Ordering::Relaxed);
            arena.words()[8].store(end.into(), Ordering::Relaxed);
        }
        let (cache, mut writers) = Cache::over(arena, seed(), 1).unwrap();
        let _ = writers[0].resume(&retention(), 0);
        read_all(&cache);
    }
}

#[test]
fn no_mark_of_a_ruleset_is_taken_over_but_that_views_differ() {
    let (first, mut writers) = fresh(100, 1, 0);
    for (number, passed) in [(1, 7), (2, 0), (3, Head::BY_VIEW)] {
        let mut entry = entry(number, hash(number), 1, 0);
        entry.set_passed(passed);
        writers[0].insert(&entry);
    }
    let (second, _writers) = adopt(copy(&first.arena), seed(), 1, 0).unwrap();
    let passed = |number| second.get_by_hash(hash(number)).unwrap().head.passed;
    assert_eq!([1, 2, 3].map(passed), [0, 0, Head::BY_VIEW]);
}

#[test]
fn an_entry_whose_parts_do_not_fill_it_is_refused() {
    let (first, mut writers) = fresh(100, 1, 0);
    for number in 1..3 {
        writers[0].insert(&entry(number, hash(number), 2, 0));
    }
    let start = first.geometry.entry(0, 0);
    // The hash, the type, the length of the name and its first label. Then of the body its length, the part that may be
    // left out, the number of TTLs, the words in all.
    let bits = [(0, 40), (2, 3), (2, 36), (5, 0), (3, 3), (3, 31), (3, 32), (3, 51)];
    for (word, bit) in bits {
        let arena = copy(&first.arena);
        let word_there = &arena.words()[start + word];
        word_there.store(word_there.load(Ordering::Relaxed) ^ 1 << bit, Ordering::Relaxed);
        let adopted = adopt(arena, seed(), 1, 0);
        assert_eq!(adopted.map(|_| ()), Err(CacheError::Unsound(0)), "bit {bit} of word {word}");
    }
}

#[test]
fn a_log_that_ends_inside_an_entry_is_refused() {
    let (first, mut writers) = fresh(100, 1, 0);
    for number in 0..100 {
        writers[0].insert(&entry(number, hash(number), 3, number));
    }
    for (less, expected) in [(0, Ok(())), (1, Err(CacheError::Unsound(0)))] {
        first.end(0).fetch_sub(less, Ordering::Relaxed);
        let adopted = adopt(copy(&first.arena), seed(), 1, 100);
        assert_eq!(adopted.map(|_| ()), expected, "what follows are older entries");
    }
}

#[test]
fn another_seed_or_split_is_refused() {
    let (first, mut writers) = fresh(200, 2, 0);
    for number in 0..20 {
        writers[first.shard_of(hash(number))].insert(&entry(number, hash(number), 1, 0));
    }
    let adopt = |seed, shards| adopt(copy(&first.arena), seed, shards, 0).map(|_| ());
    assert_eq!(adopt(seed(), 2), Ok(()));
    assert_eq!(adopt(Seed::new([1; 16]), 2), Err(CacheError::Unsound(0)));
    assert_eq!(adopt(seed(), 1), Err(CacheError::Unsound(0)));
    assert_eq!(adopt(seed(), 0), Err(CacheError::Shards(0)));
}

#[test]
#[cfg(not(miri))]
fn readers_of_the_old_process_see_what_the_new_writer_does() {
    let (arena, _) = Arena::new(64 << 10, pmdns_config::Pages::Normal, None).unwrap();
    let descriptor = arena.descriptor().unwrap().try_clone_to_owned().unwrap();
    let (old, mut writers) = Cache::new(arena, 1, seed()).unwrap();
    writers[0].insert(&entry(1, hash(1), 3, 1));
    let found = old.find(hash(1)).unwrap();
    let (arena, _) = Arena::adopt(descriptor).unwrap();
    writers[0].freeze();
    let (new, mut new_writers) = adopt(arena, seed(), 1, 1).unwrap();
    assert!(old.view(found).is_valid());
    for number in 1..1000 {
        new_writers[0].insert(&entry(number, hash(number), 3, 2));
        assert_eq!(read(&old, number, hash(number)), read(&new, number, hash(number)));
        assert!(read(&old, number, hash(number)).is_some());
    }
    assert!(!old.view(found).is_valid(), "its lines have been written again");
    new_writers[0].freeze();
    writers[0].resume(&retention(), 2).unwrap();
    writers[0].insert(&entry(1, hash(1), 3, 3));
    assert_eq!(read(&old, 1, hash(1)), read(&new, 1, hash(1)), "and writing has come back");
}

#[test]
fn who_is_frozen_writes_nothing_and_finds_everything() {
    let (cache, mut writers) = fresh(100, 1, 0);
    let writer = &mut writers[0];
    writer.insert(&entry(1, hash(1), 2, 1));
    let words = |cache: &Cache| -> Vec<u64> {
        cache.arena.words().iter().map(|word| word.load(Ordering::Relaxed)).collect()
    };
    let before = words(&cache);
    writer.freeze();
    assert_eq!(writer.insert(&entry(2, hash(2), 2, 1)), Inserted::Frozen);
    assert!(!writer.remove(hash(1)));
    for fate in [EntryFate::Forget, EntryFate::Passed(7)] {
        let (mut seen, mut forgotten) = (0, 0);
        writer.walk(&mut Walk::default(), 10, &mut forgotten, |_, _, _| {
            seen += 1;
            fate
        });
        assert_eq!((seen, forgotten), (1, 0));
    }
    assert!(words(&cache) == before && read(&cache, 1, hash(1)).is_some());
    let stats = writer.stats();
    assert_eq!(writer.resume(&retention(), 2), Ok(()));
    assert!(words(&cache) == before && writer.stats() == stats, "nobody has written meanwhile");
    assert_eq!(writer.insert(&entry(2, hash(2), 2, 1)), Inserted::New);
}

#[test]
fn who_is_frozen_learns_that_another_writes() {
    let (first, mut writers) = fresh(100, 1, 0);
    writers[0].freeze();
    assert!(!writers[0].is_overtaken());
    // The same memory, as another process sees it.
    let mut other = Writer::new(Arc::clone(&first), 0, writers[0].span);
    other.resume(&retention(), 1).unwrap();
    assert!(writers[0].is_overtaken() && !other.is_overtaken());
    other.insert(&entry(1, hash(1), 2, 1));
    writers[0].resume(&retention(), 2).unwrap();
    assert_eq!(writers[0].stats().entries, 1);
    other.freeze();
    assert!(other.is_overtaken() && !writers[0].is_overtaken());
}

#[test]
fn a_shard_that_is_not_sound_is_emptied_and_goes_on() {
    let (first, mut writers) = fresh(100, 1, u32::MAX);
    for number in 0..60 {
        writers[0].insert(&entry(number, hash(number), 3, number));
    }
    let held = first.find(hash(59)).unwrap();
    let arena = copy(&first.arena);
    arena.words()[first.geometry.entry(0, held.position)].fetch_xor(1 << 40, Ordering::Relaxed);
    let (cache, mut writers) = Cache::over(arena, seed(), 1).unwrap();
    assert_eq!(writers[0].resume(&retention(), 60), Err(CacheError::Unsound(0)));
    assert!(!cache.view(held).is_valid() && contents(&cache).iter().all(Option::is_none));
    for number in 0..200 {
        assert!(writers[0].insert(&entry(number, hash(number), 3, 60)).is_kept());
        assert!(read(&cache, number, hash(number)).is_some() && !cache.view(held).is_valid());
    }
    assert_eq!(writers[0].resume(&retention(), 61), Ok(()));
}

/// If this fails, memory is laid out anew. Raise [`LAYOUT`], so that no process takes over what it would misread, and put
/// the new digest beside it.
#[test]
fn the_layout_is_that_of_its_number() {
    let (cache, mut writers) = fresh(200, 2, 0);
    for number in 0..120 {
        let (mut entry, shard) =
            (varied(number, 1 + number as usize % 3, number), cache.shard_of(hash(number)));
        entry.set_passed(number as u16);
        writers[shard].insert(&entry);
    }
    let whole = Entry::new(&EntryParts {
        key: Key { name: &name(200), qtype: rtype::SOA, qclass: 3, flags: Key::DO },
        hash: hash(200),
        learnt: 120,
        expires: 220,
        rcode: Rcode::NXDOMAIN,
        flags: Head::AUTHENTIC,
        counts: [1, 2, 3],
        body: b"seventeen letters",
        optional_at: 9,
        ttls: &[1, 2, 3, 4, 5],
    });
    writers[cache.shard_of(hash(200))].insert(&whole.into_template());
    let words = cache.arena.words().iter().map(|word| word.load(Ordering::Relaxed));
    let digest = words.fold(0, |digest: u64, word| {
        (digest.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    assert!(digest == DIGEST, "layout {LAYOUT} has the digest {digest:#x}");
}
