//! What the next process finds when a writer ends between any two of its stores.

use std::collections::HashMap;

use proptest::prelude::*;

use super::model::{Action, KEYS, action, eviction};
use super::*;
use crate::cache::entry::{PASSED_AT, with_passed};
use crate::cache::stores::tests::{Step, record};

/// Where all logs here begin: they come to the end of the numbers.
const START: u32 = u32::MAX - 200;
/// After so many actions the oldest entries are judged.
const WALK_EVERY: usize = 12;

/// What can be found, by key.
type Contents = HashMap<u32, Vec<u64>>;

/// The memory, and what a writer does to it then.
struct Recording {
    before: Vec<u64>,
    steps: Vec<Step>,
    /// The address of the memory.
    start: usize,
}

/// The history of a shard.
struct History {
    recording: Recording,
    keys: Vec<u32>,
    /// After so many steps an action was over, and this could be found.
    between: Vec<(usize, Contents)>,
    stats: CacheStats,
}

/// Moments in which writers have ended.
#[derive(Debug, Default)]
struct Ends {
    /// The log has turned, and nothing comes after it.
    turned: u32,
    /// It has turned, and everything before was given up.
    emptied: u32,
    /// One slot is there twice.
    twice: u32,
    /// An entry is there in part, or whole and without a slot.
    unfinished: u32,
}

impl Recording {
    fn of<T>(cache: &Cache, act: impl FnOnce() -> T) -> (T, Self) {
        let (before, start) = (words(cache), cache.arena.words().as_ptr() as usize);
        let (result, steps) = record(act);
        (result, Self { before, steps, start })
    }

    /// Whether the step before and the one after are words of an entry.
    fn is_inside_entry(&self, cut: usize) -> bool {
        let is_word = |step: &Step| matches!(step, Step::Store { order: Ordering::Relaxed, .. });
        let around = self.steps.get(cut.saturating_sub(1)..cut + 1);
        around.is_some_and(|steps| steps.iter().all(is_word))
    }

    /// The memory of a writer that ends after so many steps. Of the stores that follow, the compiler or the processor may have
    /// put those before that are relaxed, up to the next fence. `is_early` chooses them.
    fn image(&self, cut: usize, mut is_early: impl FnMut() -> bool) -> Vec<u64> {
        let (made, left) = self.steps.split_at(cut);
        let mut image = self.before.clone();
        let mut set = |word: usize, value| image[(word - self.start) / size_of::<u64>()] = value;
        for step in made {
            if let Step::Store { word, value, .. } = *step {
                set(word, value);
            }
        }
        let mut passed_over = Vec::new();
        for step in left {
            let Step::Store { word, value, order } = *step else { break };
            // The values of one word keep their order.
            if order == Ordering::Relaxed && !passed_over.contains(&word) && is_early() {
                set(word, value);
            } else {
                passed_over.push(word);
            }
        }
        image
    }
}

impl History {
    fn new(lines: usize, eviction: Eviction, keys: &[u32], actions: &[Action]) -> Self {
        let retention = Retention { eviction, ..Retention::default() };
        let (cache, mut writer) = cache_keeping(lines, START, &retention);
        let mut recording = Recording::of(&cache, || {}).1;
        let mut between = vec![(0, contents(&cache, keys))];
        for (version, action) in actions.iter().enumerate() {
            let ((), steps) = record(|| act(&mut writer, action, version as u32));
            recording.steps.extend(steps);
            between.push((recording.steps.len(), contents(&cache, keys)));
            if version % WALK_EVERY == 0 {
                let ((), steps) = record(|| judge(&mut writer, version as u16));
                recording.steps.extend(steps);
                between.push((recording.steps.len(), contents(&cache, keys)));
            }
        }
        Self { recording, keys: keys.to_vec(), between, stats: writer.stats() }
    }

    /// Adopts the memory that a writer has left which ended after so many steps.
    fn check(&self, cut: usize, image: &[u64], ends: &mut Ends) {
        let action = self.between.partition_point(|(steps, _)| *steps < cut);
        let (end, after) = &self.between[action];
        // Between two actions there is no doubt.
        let before = if *end == cut { after } else { &self.between[action - 1].1 };
        let (cache, writer, _) = adopted(image);
        let found = contents(&cache, &self.keys);
        for number in &self.keys {
            let [found, before, after] = [&found, before, after].map(|one| one.get(number));
            // What is replaced may have been evicted first.
            let is_lawful =
                found == after || before != after && (found == before || found.is_none());
            assert!(is_lawful, "{number} after {cut} steps");
        }
        check_writer(&cache, &writer, found.len());
        ends.note(&cache, image, &writer);
    }

    /// Who adopts that memory may end as well, or goes on.
    fn check_next(&self, image: &[u64]) {
        let (cache, mut writer, adoption) = adopted(image);
        let found = contents(&cache, &self.keys);
        for cut in 0..adoption.steps.len() {
            let (cache, writer, _) = adopted(&adoption.image(cut, || false));
            assert!(contents(&cache, &self.keys) == found, "after {cut} steps of an adoption");
            check_writer(&cache, &writer, found.len());
        }
        for (version, number) in (0..).zip(self.keys.iter().cycle().take(40)) {
            let entry = entry(*number, hash(*number), 1 + version as usize % 5, version);
            assert!(writer.insert(&entry).is_kept());
            assert_eq!(read(&cache, *number, hash(*number)).as_deref(), Some(entry.words()));
        }
        check_writer(&cache, &writer, contents(&cache, &self.keys).len());
    }
}

impl Ends {
    fn note(&mut self, cache: &Cache, image: &[u64], writer: &Writer) {
        let (laps, index) = (cache.geometry.laps, cache.geometry.index(0));
        let word = |at: usize| (low_u32(image[at]), (image[at] >> 32) as u32);
        let ((tail, lap_end), (end, _)) =
            (word(cache.geometry.tail(0)), word(cache.geometry.end(0)));
        self.turned += u32::from(lap_end != tail && lap_end == end);
        self.emptied +=
            u32::from(laps.start_of(end) != laps.start_of(tail) && writer.span.is_empty());
        let slots = |words: &[u64]| {
            let slots = &words[index.start * LINE_WORDS..index.end * LINE_WORDS];
            slots.iter().filter(|slot| **slot != 0).count()
        };
        self.twice += u32::from(slots(image) != slots(&words(cache)));
        let next = cache.geometry.entry(0, writer.span.head());
        self.unfinished += u32::from(image.get(next).is_some_and(|hash| *hash != 0));
    }
}

/// The memory as another process sees it, its writer, and what that did to adopt it.
fn adopted(image: &[u64]) -> (Arc<Cache>, Writer, Recording) {
    let arena = Arena::heap(image.len());
    for (to, word) in arena.words().iter().zip(image) {
        to.store(*word, Ordering::Relaxed);
    }
    let (cache, mut writers) = Cache::over(arena, seed(), 1).expect("it is enough");
    let mut writer = writers.remove(0);
    let (resumed, adoption) = Recording::of(&cache, || writer.resume(&Retention::default(), 0));
    assert_eq!(resumed, Ok(()), "nothing else is lost");
    (cache, writer, adoption)
}

fn check_writer(cache: &Cache, writer: &Writer, found: usize) {
    assert_eq!(writer.stats().entries, found as u64);
    let slots = index::tests::check(cache.index(), cache.geometry.index(0));
    assert_eq!(slots.len(), found);
    let [tail, end] = [cache.tail(0), cache.end(0)].map(|word| word.load(Ordering::Relaxed));
    let left = log::Span::resumed(cache.geometry.laps, tail, low_u32(end));
    assert_eq!(left, Some(writer.span));
}

fn act(writer: &mut Writer, action: &Action, version: u32) {
    match *action {
        Action::Insert { number, lines } => {
            writer.insert(&entry(number, hash(number), lines, version));
        }
        Action::Remove { number } => {
            writer.remove(hash(number));
        }
        Action::Hit { number, weight } => {
            writer.credit(Hit { hash: hash(number), weight }, version);
        }
    }
}

/// Of the oldest entries some are purged, and a ruleset lets the questions of the others pass.
fn judge(writer: &mut Writer, ruleset: u16) {
    writer.walk(&mut Walk::default(), 5, &mut 0, |_, _, head| {
        if head.hash.is_multiple_of(3) { EntryFate::Forget } else { EntryFate::Passed(ruleset) }
    });
}

fn words(cache: &Cache) -> Vec<u64> {
    cache.arena.words().iter().map(|word| word.load(Ordering::Relaxed)).collect()
}

fn contents(cache: &Cache, keys: &[u32]) -> Contents {
    let found = keys.iter().filter_map(|number| {
        let mut words = read(cache, *number, hash(*number))?;
        // Marks of rulesets do not pass.
        words[PASSED_AT] = with_passed(words[PASSED_AT], 0);
        Some((*number, words))
    });
    found.collect()
}

/// Keys with one home.
fn neighbours(lines: usize, count: usize) -> Vec<u32> {
    let (cache, _) = cache(lines, 1, 0);
    let home = |number| cache.geometry.place(hash(number));
    (0..).filter(|number| home(*number) == home(0)).take(count).collect()
}

/// Actions of all kinds on so many keys, in a log of so many lines, often on the first ones.
fn script(keys: &[u32], log_lines: usize) -> Vec<Action> {
    let insert = |number, lines| Action::Insert { number, lines };
    let mut actions: Vec<_> = keys.iter().map(|number| insert(*number, 1)).collect();
    for (at, number) in (0..).zip(keys.iter().cycle().take(40)) {
        let hot = keys[at % 3];
        actions.push(Action::Hit { number: hot, weight: 3 });
        actions.push(insert(*number, 1 + at % 7));
        if at % 5 == 0 {
            actions.push(Action::Remove { number: keys[at % keys.len()] });
        }
    }
    actions.push(insert(keys[0], log_lines));
    actions.extend(keys.iter().map(|number| insert(*number, 1)));
    actions.push(insert(keys[1], log_lines / 2 + 1));
    actions.push(insert(keys[2], log_lines / 2 + 1));
    actions
}

#[test]
#[cfg_attr(miri, ignore = "thousands of adoptions")]
fn whenever_a_writer_ends_only_what_it_was_about_is_in_doubt() {
    let (mut ends, mut all) = (Ends::default(), CacheStats::default());
    // 48 lines in laps of 64, and 64.
    for (lines, log_lines, eviction) in [(56, 48, Eviction::Lru), (74, 64, Eviction::Fifo)] {
        assert_eq!(cache(lines, 1, 0).0.geometry.laps.lines(), log_lines);
        for keys in [(0..30).collect(), neighbours(lines, 20)] {
            let history = History::new(lines, eviction, &keys, &script(&keys, log_lines));
            let recording = &history.recording;
            for cut in 0..=recording.steps.len() {
                let image = recording.image(cut, || false);
                history.check(cut, &image, &mut ends);
                // Inside of an entry neither makes a difference.
                if !recording.is_inside_entry(cut) {
                    history.check_next(&image);
                    history.check(cut, &recording.image(cut, || true), &mut ends);
                }
            }
            all.replaced += history.stats.replaced;
            all.evicted += history.stats.evicted;
            all.index_evicted += history.stats.index_evicted;
            all.kept += history.stats.kept;
        }
    }
    let Ends { turned, emptied, twice, unfinished } = ends;
    let moments = [turned, emptied, twice, unfinished];
    assert!(moments.iter().all(|count| *count > 0), "not every moment is tried: {moments:?}");
    let kinds = [all.replaced, all.evicted, all.index_evicted, all.kept];
    assert!(kinds.iter().all(|count| *count > 0), "not every insert is tried: {kinds:?}");
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn whatever_is_done_a_writer_may_end_at_any_store(
        lines in 30_usize..200,
        eviction in eviction(),
        actions in proptest::collection::vec(action(), 1..if cfg!(miri) { 10 } else { 150 }),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 1..20),
    ) {
        let keys: Vec<u32> = (0..KEYS).collect();
        let history = History::new(lines, eviction, &keys, &actions);
        for (cut, early) in cuts {
            let cut = cut.index(history.recording.steps.len() + 1);
            let mut early = early;
            let is_early = || {
                early = early.rotate_left(1);
                early & 1 != 0
            };
            let image = history.recording.image(cut, is_early);
            history.check(cut, &image, &mut Ends::default());
            history.check_next(&image);
        }
    }
}
