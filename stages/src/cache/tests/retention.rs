//! What a full cache keeps, and what it gives up.

use super::*;

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

/// Floods a cache with random names, ten times as many as it has room for, while 50 names are asked for now and
/// then. Says how many of those 50 are still there.
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
fn long_answers_have_their_share_and_the_time_of_others_is_kept() {
    let retention = Retention {
        max_long_share: 0.25,
        max_udp_body: 300,
        max_ttl: 2000,
        ..Retention::default()
    };
    let (cache, mut writer) = cache_keeping(1000, 0, &retention);
    let room = cache.geometry.laps.lines() / 4 / 8;
    let long = |number: u32| entry(number, hash(number), 8, 10);
    let kept = (0..100).filter(|number| writer.insert(&long(*number)).is_kept()).count();
    assert_eq!((kept, writer.stats().long_refused), (room, 100 - room as u64));
    let shortened = long(99).shortened();
    assert!(shortened.head().has_to_be_asked() && writer.insert(&shortened).is_kept());
    assert_eq!(shortened.head().expires, long(99).head().expires);
    assert!(writer.insert(&entry(500, hash(500), 2, 10)).is_kept(), "what is short is kept");
    assert!(writer.remove(hash(0)));
    assert_eq!(writer.insert(&long(50)), Inserted::New, "in its place");
    assert_eq!(writer.insert(&long(51)), Inserted::TooManyLong);
}
