//! The windows of one table: the last second, minute and hour, made of merged epochs.
//!
//! When a second is over, its sketch is merged into a tenth of a minute. That one is merged into a tenth of an hour, and so on.
//! So each key of a packet is counted once, and a window is the sum of a few sketches.

use std::collections::VecDeque;

use pmdns_control::Window;

use super::sketch::Sketch;

/// Seconds of the epochs that a minute and an hour are made of.
const STEPS: [u64; 2] = [6, 360];
/// Epochs that make a window, the one under way among them.
const EPOCHS: usize = 10;

/// The counts of the last second, minute and hour.
#[derive(Debug)]
pub(super) struct Windows {
    keys: usize,
    /// The second under way.
    now: Sketch,
    /// The last whole second.
    second: Sketch,
    minute: Epochs,
    hour: Epochs,
}

/// A window that moves on step by step.
#[derive(Debug)]
struct Epochs {
    /// Seconds of an epoch.
    step: u64,
    /// The newest one is under way.
    epochs: VecDeque<Sketch>,
    /// When the newest began, in steps.
    at: u64,
    /// Seconds that the newest has.
    seconds: u64,
}

impl Windows {
    pub(super) fn new(keys: usize) -> Self {
        let [minute, hour] = STEPS.map(|step| Epochs::new(step, keys));
        Self { keys, now: Sketch::new(keys), second: Sketch::new(keys), minute, hour }
    }

    /// Counts a key so often.
    pub(super) fn add(&mut self, key: &[u8], count: u64) {
        self.now.add(key, count);
    }

    /// The second with this number is over.
    pub(super) fn end_second(&mut self, second: u64) {
        std::mem::swap(&mut self.now, &mut self.second);
        self.now.clear();
        self.minute.take(second, &self.second);
        self.hour.take(second, &self.second);
    }

    /// What was counted in a window, and the seconds that it has.
    pub(super) fn of(&self, window: Window) -> (Sketch, u64) {
        match window {
            Window::Second => (self.second.clone(), 1),
            Window::Minute => self.minute.sum(self.keys),
            Window::Hour => self.hour.sum(self.keys),
        }
    }
}

impl Epochs {
    fn new(step: u64, keys: usize) -> Self {
        Self { step, epochs: VecDeque::from([Sketch::new(keys)]), at: 0, seconds: 0 }
    }

    /// Takes over what a second has counted.
    fn take(&mut self, second: u64, counted: &Sketch) {
        let at = second / self.step;
        // After a pause the window is empty.
        for _ in 0..at.saturating_sub(self.at).min(EPOCHS as u64) {
            let mut next = match self.epochs.len() {
                EPOCHS => self.epochs.pop_front(),
                _ => None,
            }
            .unwrap_or_else(|| self.epochs[0].clone());
            next.clear();
            self.epochs.push_back(next);
        }
        self.at = self.at.max(at);
        self.seconds = second % self.step + 1;
        if let Some(newest) = self.epochs.back_mut() {
            newest.merge(counted);
        }
    }

    fn sum(&self, keys: usize) -> (Sketch, u64) {
        let mut sum = Sketch::new(keys);
        self.epochs.iter().for_each(|epoch| sum.merge(epoch));
        let whole = self.epochs.len() as u64 - 1;
        (sum, whole * self.step + self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const KEYS: usize = 32;

    /// What came in each second: a few heavy keys and many light ones, other ones each second.
    fn second_of(second: u64) -> impl Iterator<Item = ([u8; 8], u64)> {
        let heavy = (0..4).map(move |key| (key, 10 + second % 7));
        let light = (0..200).map(move |key| (1000 + key * 7 % 5000 + second * 31, 1));
        heavy.chain(light).map(|(key, count)| (key.to_be_bytes(), count))
    }

    #[test]
    fn windows_are_within_the_error_of_exact_counts() {
        let mut windows = Windows::new(KEYS);
        let last = 4000;
        for second in 0..=last {
            second_of(second).for_each(|(key, count)| windows.add(&key, count));
            windows.end_second(second);
            if second % 997 != 0 && second != last {
                continue;
            }
            for (window, most) in [(Window::Second, 1), (Window::Minute, 60), (Window::Hour, 3600)]
            {
                let (sketch, seconds) = windows.of(window);
                let all = seconds == second + 1;
                assert!(all || seconds > most * 9 / 10 && seconds <= most, "{window:?}: {seconds}");
                let mut exact: HashMap<[u8; 8], u64> = HashMap::new();
                for (key, count) in (second + 1 - seconds..=second).flat_map(second_of) {
                    *exact.entry(key).or_default() += count;
                }
                assert_eq!(sketch.total(), exact.values().sum::<u64>());
                assert!(sketch.floor() <= sketch.total() / KEYS as u64);
                for (key, count) in &exact {
                    let counted = sketch.estimate(key);
                    assert!(counted.count >= *count && counted.count - counted.error <= *count);
                }
                let heaviest: Vec<_> = sketch.top(4).into_iter().map(|(key, _)| key[7]).collect();
                assert!((0..4).all(|key| heaviest.contains(&key)), "{heaviest:?}");
            }
        }
    }

    #[test]
    fn what_is_long_past_is_forgotten() {
        let mut windows = Windows::new(KEYS);
        windows.add(b"old", 5);
        windows.end_second(0);
        windows.end_second(1);
        assert_eq!(windows.of(Window::Second).0.total(), 0);
        assert_eq!(windows.of(Window::Minute).0.total(), 5);
        windows.end_second(100);
        assert_eq!(windows.of(Window::Minute).0.total(), 0);
        assert_eq!(windows.of(Window::Hour).0.total(), 5);
        windows.end_second(10_000);
        assert_eq!(windows.of(Window::Hour).0.total(), 0);
    }

    /// The room of a table is bounded by the keys that it may have, however many come.
    ///
    /// Two sketches with fewer than `2k` keys meet in a merge. A table grows only when it is more than half full, so no table
    /// has more room than one that was made for `8k` keys. Up to there it depends on the hash function, which is another in
    /// each run.
    #[test]
    fn no_table_has_room_for_more_than_eight_times_its_keys() {
        let most = HashMap::<(), ()>::with_capacity(8 * KEYS).capacity();
        let mut windows = Windows::new(KEYS);
        for second in 0..2 * 3600_u64 {
            for number in 0..3 * KEYS as u64 {
                windows.add(&(second << 8 | number).to_be_bytes(), 1 + number % 7);
            }
            windows.end_second(second);
            let Windows { now, second: last, minute, hour, .. } = &windows;
            let epochs = minute.epochs.iter().chain(&hour.epochs);
            let widest = epochs.chain([now, last]).map(Sketch::room).max();
            assert!(widest <= Some(most), "{widest:?} of {most} after {second} s");
        }
    }
}
