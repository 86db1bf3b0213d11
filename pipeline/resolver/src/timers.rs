//! Timers, ordered by the time when they are due. Pure; time is an argument, counted from the start of the process.

use std::collections::BTreeSet;
use std::time::Duration;

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

    /// Takes out the first timer that is due by `now`. A turn serves [`MAX_DUE`].
    pub(crate) fn next_due(&mut self, now: Duration) -> Option<T> {
        let (time, timer) = self.0.first().copied()?;
        if time > now {
            return None;
        }
        self.0.pop_first();
        Some(timer)
    }
}

/// Nanoseconds since the process started, which suffice for five centuries. Arithmetic is cheaper with them.
pub(crate) fn nanos(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos().into())
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
        let mut due = |now| std::iter::from_fn(|| timers.next_due(now)).collect::<String>();
        assert_eq!([SECOND / 2, SECOND * 2, SECOND * 4].map(&mut due), ["", "ab", "c"]);
    }
}
