//! A timer wheel: timers that are nearly always taken back before they are due. Pure; time is an argument, in nanoseconds or
//! in ticks.
//!
//! A timer that is far off waits in a list of those that are due in the same millisecond or so. It leaves the list in one step.
//! When that time comes near, the list is sorted. So timers still come due in their exact order.

use std::collections::BTreeSet;

use pmdns_config::narrow::to_usize;

/// Bits of a time within one list: 2^20 nanoseconds are a millisecond, and so many ticks are less.
const LIST_BITS: u32 = 20;
/// Lists. A timer that is due after more than one round is passed over once a round.
const LISTS: usize = 4096;
/// Stands for no timer.
const NONE: u32 = u32::MAX;

/// Timers, each named by a small number of its owner. An owner has one timer at most.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// The first timer of each list.
    lists: Box<[u32]>,
    /// By name.
    timers: Vec<Timer>,
    /// The first list of the future, counted since time zero.
    future: u64,
    /// The timers of all lists before that.
    near: BTreeSet<(u64, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    due: u64,
    place: TimerPosition,
    before: u32,
    after: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimerPosition {
    Unset,
    Near,
    /// In the list of its time.
    Far,
}

const UNSET: Timer = Timer { due: 0, place: TimerPosition::Unset, before: NONE, after: NONE };

impl Default for Wheel {
    fn default() -> Self {
        let lists = vec![NONE; LISTS].into();
        Self { lists, timers: Vec::new(), future: 0, near: BTreeSet::new() }
    }
}

impl Wheel {
    /// Lets the timer `name` come due at `due`, and not when it was set to before.
    pub(crate) fn set(&mut self, name: u32, due: u64) {
        self.clear(name);
        let index = name as usize;
        if index >= self.timers.len() {
            self.timers.resize(index + 1, UNSET);
        }
        if due >> LIST_BITS < self.future {
            self.near.insert((due, name));
            self.timers[index] = Timer { due, place: TimerPosition::Near, ..UNSET };
            return;
        }
        let after = std::mem::replace(&mut self.lists[list_of(due)], name);
        if let Some(after) = self.timers.get_mut(after as usize) {
            after.before = name;
        }
        self.timers[index] = Timer { due, place: TimerPosition::Far, before: NONE, after };
    }

    /// Takes a timer back, if it is set.
    pub(crate) fn clear(&mut self, name: u32) {
        let Some(timer) = self.timers.get_mut(name as usize) else { return };
        let Timer { due, place, before, after } = std::mem::replace(timer, UNSET);
        match place {
            TimerPosition::Unset => {}
            TimerPosition::Near => {
                self.near.remove(&(due, name));
            }
            TimerPosition::Far => {
                match self.timers.get_mut(before as usize) {
                    Some(before) => before.after = after,
                    None => self.lists[list_of(due)] = after,
                }
                if let Some(after) = self.timers.get_mut(after as usize) {
                    after.before = before;
                }
            }
        }
    }

    /// Takes out the first timer that is due by `now`. Of those that are due at once it is the one with the lowest name.
    pub(crate) fn next_due(&mut self, now: u64) -> Option<u32> {
        self.come_near(now >> LIST_BITS);
        let (_, name) = self.near.first().copied().filter(|(due, _)| *due <= now)?;
        self.clear(name);
        Some(name)
    }

    /// Sorts the timers of all lists up to this one.
    fn come_near(&mut self, last: u64) {
        let lists = (last + 1).saturating_sub(self.future).min(LISTS as u64);
        for list in self.future..self.future + lists {
            let mut next = self.lists[list_at(list)];
            while let Some(Timer { due, after, .. }) = self.timers.get(next as usize).copied() {
                let name = std::mem::replace(&mut next, after);
                // Others are due a round later.
                if due >> LIST_BITS <= last {
                    self.clear(name);
                    self.near.insert((due, name));
                    self.timers[name as usize] = Timer { due, place: TimerPosition::Near, ..UNSET };
                }
            }
        }
        self.future = self.future.max(last + 1);
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.timers.iter().all(|timer| timer.place == TimerPosition::Unset)
    }
}

/// The list of a time.
fn list_of(due: u64) -> usize {
    list_at(due >> LIST_BITS)
}

/// The list with this number since time zero.
fn list_at(number: u64) -> usize {
    to_usize(number % LISTS as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Nanoseconds of one list.
    const LIST: u64 = 1 << LIST_BITS;

    #[test]
    fn a_timer_is_taken_back_wherever_it_waits() {
        let mut wheel = Wheel::default();
        wheel.set(1, LIST);
        wheel.set(2, LIST);
        wheel.set(3, LIST);
        wheel.clear(2);
        assert_eq!(wheel.next_due(LIST), Some(1), "the others are near now");
        wheel.clear(3);
        wheel.clear(3);
        assert_eq!(wheel.next_due(u64::MAX), None);
        assert!(wheel.is_empty() && wheel.near.is_empty());
        wheel.set(7, 5);
        assert_eq!(wheel.next_due(5), Some(7), "the past is due at once");
    }

    proptest! {
        #[test]
        fn timers_come_due_in_the_order_of_a_sorted_set(
            moves in proptest::collection::vec((0..4u8, 0..12u32, 0..3u64, 0..3 * LIST), 1..200),
        ) {
            let (mut wheel, mut model, mut now) = (Wheel::default(), BTreeSet::new(), 0);
            for (kind, name, rounds, time) in moves {
                let set = model.iter().copied().find(|(_, other)| *other == name);
                match kind {
                    0 | 1 => {
                        let due = now + time + rounds * (LISTS as u64 - 1) * LIST;
                        model.retain(|old| Some(*old) != set);
                        model.insert((due, name));
                        wheel.set(name, due);
                    }
                    2 => {
                        model.retain(|old| Some(*old) != set);
                        wheel.clear(name);
                    }
                    _ => {
                        now += time + rounds * LISTS as u64 * LIST / 2;
                        while let Some((due, first)) = model.first().copied().filter(|(due, _)| *due <= now) {
                            model.remove(&(due, first));
                            prop_assert_eq!(wheel.next_due(now), Some(first));
                        }
                        prop_assert_eq!(wheel.next_due(now), None);
                    }
                }
                prop_assert_eq!(wheel.is_empty(), model.is_empty());
            }
        }
    }
}
