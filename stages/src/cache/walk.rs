//! A look at every entry of a shard, some at a time, so that inserts go on in between.

use arrayvec::ArrayVec;
use pmdns_config::narrow::to_u16;

use super::entry::Head;
use super::writer::{Writer, lines_of};
use super::{EntryRef, EntryView};

/// Lines by which memory is asked for ahead of the walk.
const AHEAD_LINES: u32 = 32;
/// Entries that are forgotten together, their buckets loaded meanwhile.
const CONDEMNED: usize = 32;

/// How far a walk has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walk {
    /// The entry to be looked at next; none before the first step.
    next: Option<u32>,
}

/// The fate of an entry that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryFate {
    /// It stays.
    Stay,
    /// It stays, and the ruleset of this generation lets its question pass, as in [`Head`].
    Passed(u16),
    /// It is taken out of the cache.
    Forget,
}

impl Writer {
    /// Takes so many steps of a walk from the oldest entry to the newest, and says whether that is reached. Each
    /// step shows an entry to `look`; some cannot be found any more, because there is a newer one for the
    /// same key. What is inserted, or appended again, while the walk is under way is looked at as well, so an
    /// entry is never passed over. How many were forgotten is added to `forgotten`. A writer that is frozen only shows.
    pub fn walk(
        &mut self,
        walk: &mut Walk,
        steps: usize,
        forgotten: &mut u64,
        mut look: impl FnMut(EntryRef, &EntryView<'_>, &Head) -> EntryFate,
    ) -> bool {
        let mut position = walk.next.unwrap_or_else(|| self.span.tail());
        let mut condemned: ArrayVec<(Head, u32), CONDEMNED> = ArrayVec::new();
        for _ in 0..steps {
            if position == self.span.head() {
                break;
            }
            // What was to be next has been overwritten since.
            if !self.cache.geometry.laps.is_whole(position, self.span.tail()) {
                position = self.span.tail();
                continue;
            }
            let view = self.view(position);
            let head = Head::read(&view);
            let found = EntryRef { shard: to_u16(self.shard), position };
            // Each says where the next one is, so that no processor would load them ahead of itself.
            self.cache
                .prefetch_entry(EntryRef { position: position.wrapping_add(AHEAD_LINES), ..found });
            match look(found, &view, &head) {
                _ if self.is_frozen() => {}
                EntryFate::Passed(ruleset) if ruleset != head.passed => {
                    self.set_passed(position, ruleset);
                }
                EntryFate::Stay | EntryFate::Passed(_) => {}
                EntryFate::Forget => {
                    self.cache.probe(head.hash);
                    condemned.push((head, position));
                }
            }
            if condemned.is_full() {
                *forgotten += self.forget_all(&mut condemned);
            }
            position = self.span.after(position, lines_of(&head));
        }
        *forgotten += self.forget_all(&mut condemned);
        walk.next = Some(position);
        position == self.span.head()
    }

    /// Takes entries whose buckets are being loaded out of the cache, and says how many could be found.
    fn forget_all(&mut self, condemned: &mut ArrayVec<(Head, u32), CONDEMNED>) -> u64 {
        let forgotten = condemned.drain(..).filter(|(head, position)| self.forget(head, *position));
        forgotten.count() as u64
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;

    use pmdns_config::Eviction;
    use proptest::prelude::*;

    use super::*;
    use crate::cache::tests::{cache, cache_keeping, entry, hash, read};
    use crate::cache::{Cache, Hit, Retention};

    /// The numbers of the entries that a whole walk of so many steps a slice sees, `meanwhile` between slices.
    fn seen(
        cache: &Cache,
        writer: &mut Writer,
        steps: usize,
        mut meanwhile: impl FnMut(&mut Writer),
    ) -> HashSet<u64> {
        let (mut walk, mut seen) = (Walk::default(), HashSet::new());
        let look = |seen: &mut HashSet<u64>, found, head: &Head| {
            if cache.find(head.hash) == Some(found) {
                seen.insert(head.hash);
            }
            EntryFate::Stay
        };
        while !writer.walk(&mut walk, steps, &mut 0, |found, _, head| look(&mut seen, found, head))
        {
            meanwhile(writer);
        }
        seen
    }

    #[test]
    fn an_empty_shard_is_walked_at_once() {
        let (_cache, mut writers) = cache(100, 1, u32::MAX);
        let look = |_: EntryRef, _: &EntryView<'_>, _: &Head| panic!("there is nothing");
        assert!(writers[0].walk(&mut Walk::default(), 1, &mut 0, look));
    }

    #[test]
    fn what_is_to_be_forgotten_is_not_found_any_more() {
        let (cache, mut writers) = cache(1000, 1, u32::MAX);
        let writer = &mut writers[0];
        for number in (0..100).chain(0..50) {
            writer.insert(&entry(number, hash(number), 2, number));
        }
        let (mut walk, mut forgotten) = (Walk::default(), 0);
        while !writer.walk(&mut walk, 7, &mut forgotten, |_, _, head| {
            if head.learnt % 2 == 1 { EntryFate::Forget } else { EntryFate::Stay }
        }) {}
        assert_eq!(forgotten, 50, "those that were replaced do not count twice");
        assert!((0..100).all(|n| read(&cache, n, hash(n)).is_some() == (n % 2 == 0)));
        assert_eq!(writer.stats().entries, 50);
    }

    #[test]
    fn what_passes_is_marked_and_found_as_before() {
        let (cache, mut writers) = cache(1000, 1, u32::MAX);
        let writer = &mut writers[0];
        let counts = entry(0, hash(0), 2, 0).head().counts;
        for number in 0..100 {
            writer.insert(&entry(number, hash(number), 2, number));
        }
        for round in [7, 8] {
            let look = |_: EntryRef, _: &EntryView<'_>, head: &Head| {
                if head.learnt % 2 == 1 { EntryFate::Passed(round) } else { EntryFate::Stay }
            };
            while !writer.walk(&mut Walk::default(), 1000, &mut 0, look) {}
            for number in 0..100 {
                assert!(read(&cache, number, hash(number)).is_some());
                let head = Head::read(&cache.view(cache.find(hash(number)).unwrap()));
                let passed = if number % 2 == 1 { round } else { 0 };
                assert_eq!((head.passed, head.counts), (passed, counts), "{number}");
            }
        }
    }

    proptest! {
        #![proptest_config(crate::cache::tests::config(100))]

        #[test]
        fn whatever_happens_meanwhile_no_entry_is_passed_over(
            lines in 60_usize..300,
            position in prop_oneof![Just(0), u32::MAX - 300..=u32::MAX],
            before in 0_u32..200,
            steps in 1_usize..20,
            inserts in 0_u32..4,
            popular in 0_u32..100,
            keeps in any::<bool>(),
        ) {
            let eviction = if keeps { Eviction::Lru } else { Eviction::Fifo };
            let retention = Retention { eviction, ..Retention::default() };
            let (cache, mut writer) = cache_keeping(lines, position, &retention);
            let mut next = before;
            for number in 0..before {
                writer.insert(&entry(number, hash(number), 1 + number as usize % 4, 0));
            }
            for number in (0..before).filter(|number| number % 100 < popular) {
                writer.credit(Hit { hash: hash(number), weight: 1 }, 0);
            }
            let seen = seen(&cache, &mut writer, steps, |writer| {
                // Fewer lines than the slice has passed, or the walk would never end.
                for _ in 0..inserts.min(steps as u32 / 5) {
                    writer.insert(&entry(next, hash(next), 1, 0));
                    next += 1;
                }
            });
            for number in 0..next {
                let is_there = cache.find(hash(number)).is_some();
                prop_assert!(!is_there || seen.contains(&hash(number)), "{}", number);
            }
        }
    }
}
