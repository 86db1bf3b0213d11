//! Timers, ordered by the time when they are due. Pure; time is an argument, counted from the start of the process.

use std::collections::BTreeSet;
use std::time::Duration;

use arrayvec::ArrayVec;

/// Timers served in one turn.
pub(crate) const MAX_DUE: usize = 256;

/// Timers of one kind, by time.
#[derive(Debug)]
pub(crate) struct Timers<T>(BTreeSet<(Duration, T)>);

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<T: Copy + Ord> Timers<T> {
    /// Lets `timer` come due at `time`.
    pub(crate) fn set(&mut self, time: Duration, timer: T) {
        self.0.insert((time, timer));
    }

    /// Takes out the timers that are due by `now`, the earliest first, a bounded number at a time.
    pub(crate) fn due(&mut self, now: Duration) -> ArrayVec<T, MAX_DUE> {
        let mut due = ArrayVec::new();
        while let Some((time, timer)) = self.0.first().copied()
            && time <= now
            && !due.is_full()
        {
            self.0.pop_first();
            due.push(timer);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_earliest_comes_first_and_none_before_its_time() {
        let mut timers = Timers::default();
        timers.set(SECOND * 2, 'b');
        timers.set(SECOND, 'a');
        timers.set(SECOND * 3, 'c');
        assert!(timers.due(SECOND / 2).is_empty());
        assert_eq!(timers.due(SECOND * 2)[..], ['a', 'b']);
        assert_eq!(timers.due(SECOND * 4)[..], ['c']);
    }

    #[test]
    fn a_turn_serves_a_bounded_number() {
        let mut timers = Timers::default();
        (0..MAX_DUE + 1).for_each(|number| timers.set(SECOND, number));
        assert_eq!(timers.due(SECOND).len(), MAX_DUE);
        assert_eq!(timers.due(SECOND)[..], [MAX_DUE]);
    }
}
