//! A rate that client prefixes share: the more one has used of it, the more has to be left for it.
//!
//! It is for what cannot be taken back: packets that were let pass. A virtual clock (GCRA) keeps the rate. A prefix that has
//! used nothing in the last second passes while the clock is up to two bursts ahead. The more it has used, the less far: one
//! burst if it has used a burst, and so on. So a flood limits itself, and a newcomer finds room as long as fewer prefixes
//! come anew in a second than may pass.
//! docs/adr/0068-one-type-for-shares.md gives the reasons.
//!
//! Prefixes are counted in two rows of cells, by different bits of their hashes, and the lower count is used. So nobody is
//! forgotten, and no flood of prefixes takes memory. Cores may share it: a count that two of them write at once is off by one.

use std::sync::atomic::{AtomicU64, Ordering};

use pmdns_config::narrow::{low_u16, low_u32, to_usize};

use crate::packet::Tick;

/// How often a core tries again when other cores take at the same time. Then it has none.
const TRIES: usize = 4;

/// A rate, and how much of it each prefix has used.
#[derive(Debug)]
pub struct FairRate {
    /// Ticks that one takes.
    interval: Tick,
    /// How many pass at once.
    burst: u64,
    second: Tick,
    /// Until when those that passed have taken their time.
    taken: AtomicU64,
    rows: [Box<[AtomicU64]>; 2],
}

/// What a prefix has used: in the second of this number, and in the one before.
#[derive(Clone, Copy)]
struct Used {
    second: u32,
    before: u16,
    now: u16,
}

impl FairRate {
    /// So many a second, `burst` of them at once. Prefixes are counted in rows of `cells`, a power of two. `None`: the rate is 0.
    pub fn new(rate: u32, burst: u32, ticks_per_second: u64, cells: usize) -> Option<Self> {
        debug_assert!(cells.is_power_of_two(), "a cell is found by a mask");
        let interval = ticks_per_second.checked_div(rate.into())?.max(1);
        let burst = u64::from(burst.max(1));
        let row = || (0..cells).map(|_| AtomicU64::new(0)).collect();
        let (second, rows) = (ticks_per_second.max(1), [row(), row()]);
        Some(Self { interval, burst, second, taken: AtomicU64::new(0), rows })
    }

    /// Takes one for the prefix of this hash, and says whether there was one.
    pub fn take(&self, prefix: u64, now: Tick) -> bool {
        let cells = self.cells(prefix);
        let used = cells.map(|cell| self.used(cell, now)).into_iter().min().unwrap_or(0);
        let mut taken = self.taken.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            if !self.has_room(taken.saturating_sub(now), used) {
                return false;
            }
            let next = taken.max(now) + self.interval;
            let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
            match self.taken.compare_exchange_weak(taken, next, set, read) {
                Ok(_) => {
                    cells.iter().for_each(|cell| self.note(cell, now));
                    return true;
                }
                Err(other) => taken = other,
            }
        }
        false
    }

    /// Whether one may pass while the clock is so far ahead, for a prefix that has used so many.
    fn has_room(&self, is_ahead: Tick, used: u64) -> bool {
        is_ahead <= 2 * self.interval * self.burst * self.burst / (self.burst + used)
    }

    fn cells(&self, prefix: u64) -> [&AtomicU64; 2] {
        let [first, second] = &self.rows;
        let at = |row: &[AtomicU64], bits: u64| to_usize(bits) & (row.len() - 1);
        [&first[at(first, prefix)], &second[at(second, prefix >> 32)]]
    }

    /// What a prefix has used in the last second. What it used in the last whole one counts by the part that is not over.
    fn used(&self, cell: &AtomicU64, now: Tick) -> u64 {
        let Used { before, now: used, .. } = self.read(cell, now);
        u64::from(used) + u64::from(before) * (self.second - now % self.second) / self.second
    }

    fn note(&self, cell: &AtomicU64, now: Tick) {
        let used = self.read(cell, now);
        cell.store(Used { now: used.now.saturating_add(1), ..used }.packed(), Ordering::Relaxed);
    }

    /// A cell as of now.
    fn read(&self, cell: &AtomicU64, now: Tick) -> Used {
        let (used, second) = (Used::of(cell.load(Ordering::Relaxed)), low_u32(now / self.second));
        match second.wrapping_sub(used.second) {
            0 => used,
            1 => Used { second, before: used.now, now: 0 },
            _ => Used { second, before: 0, now: 0 },
        }
    }
}

impl Used {
    fn of(packed: u64) -> Self {
        let [second, before] = [packed >> 32, packed >> 16];
        Self { second: low_u32(second), before: low_u16(before), now: low_u16(packed) }
    }

    fn packed(self) -> u64 {
        u64::from(self.second) << 32 | u64::from(self.before) << 16 | u64::from(self.now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TICKS: u64 = 10_000;

    /// A hash for a prefix, whose bits are spread as a seeded hash's are.
    fn hash(prefix: u64) -> u64 {
        (prefix + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)
    }

    fn rate(rate: u32) -> FairRate {
        FairRate::new(rate, rate / 10, TICKS, 8192).unwrap()
    }

    /// How many pass in a second of a flood of so many for each tick, from `prefixes` in turns, and of one in so many
    /// ticks from an honest prefix.
    fn flood(rate: &FairRate, second: u64, prefixes: u64, each: u64, honest: u64) -> (u64, u64) {
        let (mut passed, mut of_honest, mut turn) = (0, 0, 0);
        for now in second * TICKS..(second + 1) * TICKS {
            for _ in 0..each {
                turn += 1;
                passed += u64::from(rate.take(hash(turn % prefixes), now));
            }
            if now % honest == honest / 2 {
                of_honest += u64::from(rate.take(hash(1 << 40), now));
            }
        }
        (passed, of_honest)
    }

    #[test]
    fn one_prefix_alone_has_nearly_the_whole_rate() {
        let rate = rate(1000);
        let passed: Vec<u64> =
            (1..4).map(|second| flood(&rate, second, 1, 2, TICKS * 9).0).collect();
        assert!(passed.iter().all(|passed| (990..=1030).contains(passed)), "{passed:?}");
    }

    #[test]
    fn attack_e_one_that_asks_little_passes_beside_floods_of_thousands_of_prefixes() {
        // Of 4,000 prefixes each may have 1.25 a second, so one that asks more has no more either.
        for (prefixes, asks) in [(1, 4), (16, 4), (700, 4), (4000, 1)] {
            let rate = rate(5000);
            flood(&rate, 1, prefixes, 8, TICKS);
            let (passed, of_honest) = flood(&rate, 2, prefixes, 8, TICKS / asks);
            assert_eq!(of_honest, asks, "{prefixes} prefixes");
            assert!((4900..=5100).contains(&passed), "{prefixes}: {passed}");
        }
    }

    #[test]
    fn a_rate_of_zero_is_none() {
        assert!(FairRate::new(0, 0, TICKS, 1).is_none());
    }

    proptest! {
        #[test]
        fn no_more_pass_than_the_rate_and_two_bursts_and_a_newcomer_does(
            steps in proptest::collection::vec((0..40u64, 0..20u64), 1..400),
        ) {
            let rate = rate(200);
            let (mut now, mut passed) = (TICKS, 0);
            for (prefix, pause) in steps {
                now += pause;
                passed += u64::from(rate.take(hash(prefix), now));
            }
            let most = 200 * (now - TICKS) / TICKS + 2 * 20 + 2;
            prop_assert!(passed <= most, "{} of {}", passed, most);
            // 40 prefixes that are new take no more than two bursts at once.
            now += TICKS / 100;
            prop_assert!(rate.take(hash(99), now));
        }
    }
}
