//! Budgets: how much of a validator's time one group of clients, or one zone, may use over time.
//!
//! A pure count; time is an argument. The cost of a group is added to its debt. The debt falls by a fixed part of the
//! time that passes. A group whose debt is larger than the burst has used up its budget.
//!
//! Debts are kept in two rows of cells, by different bits of a seeded hash, and the lower one is used. So no debt is
//! forgotten, however many other groups come. A debt is too high only for a group that shares a cell with another debt
//! in both rows. Few groups are in debt at a time, because a thread does one second of work in a second.

use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

/// Cells in a row; a power of two.
const CELLS: usize = 4096;

/// How much of a thread's time a group may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Over time, one in `part`.
    pub(crate) part: u64,
    /// At once, before any of it is used up.
    pub(crate) burst: Duration,
}

/// The debts of groups.
#[derive(Debug)]
pub(crate) struct Budgets {
    share: Share,
    seed: RandomState,
    rows: [Box<[Debt]>; 2],
}

/// The debt of the groups of one cell, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Debt {
    us: u64,
    /// The time of this debt.
    at: u64,
}

impl Budgets {
    /// Without debts.
    pub(crate) fn new(share: Share) -> Self {
        let row = || vec![Debt::default(); CELLS].into_boxed_slice();
        Self { share, seed: RandomState::new(), rows: [row(), row()] }
    }

    /// Whether a group has used up its budget.
    pub(crate) fn is_spent(&self, group: &impl Hash, now: Duration) -> bool {
        let cells = self.rows.iter().zip(self.cells(group));
        let debts = cells.map(|(row, cell)| self.left_of(row[cell], now));
        debts.min().unwrap_or(0) > us(self.share.burst)
    }

    /// Adds the cost of a group's work. Its debt never exceeds two bursts.
    pub(crate) fn charge(&mut self, group: &impl Hash, cost_us: u32, now: Duration) {
        let most = 2 * us(self.share.burst);
        for (row, cell) in self.cells(group).into_iter().enumerate() {
            let before = self.left_of(self.rows[row][cell], now);
            let debt = Debt { us: (before + u64::from(cost_us)).min(most), at: us(now) };
            self.rows[row][cell] = debt;
        }
    }

    /// The rest of a debt.
    fn left_of(&self, debt: Debt, now: Duration) -> u64 {
        debt.us.saturating_sub(us(now).saturating_sub(debt.at) / self.share.part)
    }

    fn cells(&self, group: &impl Hash) -> [usize; 2] {
        const { assert!(CELLS.is_power_of_two(), "a cell is found by the bits of a hash") };
        let hash = self.seed.hash_one(group);
        [hash, hash >> 32].map(|bits| usize::try_from(bits & (CELLS as u64 - 1)).unwrap_or(0))
    }
}

fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: Share = Share { part: 4, burst: Duration::from_millis(100) };
    const START: Duration = Duration::from_secs(1000);

    #[test]
    fn a_burst_is_free_and_then_the_share_is_all_there_is() {
        let mut budgets = Budgets::new(SHARE);
        budgets.charge(&"evil", 100_000, START);
        assert!(!budgets.is_spent(&"evil", START), "the burst is its own");
        // It costs a millisecond whenever it may.
        let (mut paid, seconds) = (0, 10);
        for ms in 0..seconds * 1000 {
            let now = START + Duration::from_millis(ms);
            if !budgets.is_spent(&"evil", now) {
                budgets.charge(&"evil", 1000, now);
                paid += 1;
            }
        }
        let share = seconds * 1000 / SHARE.part;
        assert!((share..=share + 2).contains(&paid), "{paid} of {share}");
        assert!(!budgets.is_spent(&"good", START));
    }

    #[test]
    fn a_debt_is_bounded_and_paid_off_in_time() {
        let mut budgets = Budgets::new(SHARE);
        for _ in 0..1000 {
            budgets.charge(&1, u32::MAX, START);
        }
        // One burst above what it may owe, at a quarter of the time.
        assert!(budgets.is_spent(&1, START + Duration::from_millis(399)));
        assert!(!budgets.is_spent(&1, START + Duration::from_millis(400)));
        budgets.charge(&2, u32::MAX, START);
        assert!(budgets.is_spent(&2, START - Duration::from_secs(1)), "no clock before pays");
    }

    #[test]
    fn nobody_gets_rid_of_a_debt_by_bringing_others() {
        let mut budgets = Budgets::new(SHARE);
        budgets.charge(&"evil", 150_000, START);
        for group in 0..100_000_u32 {
            budgets.charge(&group, 1, START);
        }
        assert!(budgets.is_spent(&"evil", START));
        assert!((0..100_000_u32).all(|group| !budgets.is_spent(&group, START)));
    }

    #[test]
    fn few_groups_in_debt_leave_all_others_alone() {
        let mut budgets = Budgets::new(SHARE);
        // A second's work keeps four groups above a quarter.
        for group in 0..4_u32 {
            budgets.charge(&group, 150_000, START);
        }
        let hit = (4..10_000_u32).filter(|group| budgets.is_spent(group, START)).count();
        assert!(hit <= 2, "{hit} of 10,000 meet two of them");
    }
}
