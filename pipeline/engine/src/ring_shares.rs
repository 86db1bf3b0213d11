//! Shares of a ring: from which client prefixes its waiting values came, as counted by the sending core.
//!
//! A pure count, written by one core only. Each pushed value leaves a note. The ring tells how many values have been
//! popped, and as many notes are taken back. Prefixes are counted in two rows of cells, by different bits of their
//! hashes, and the lower count is used. It is too high only for a prefix that shares a cell with a heavy one in both
//! rows. Every step takes constant time, and nothing is allocated after the start.
//! docs/adr/0025-shares-by-client-prefix.md gives the reasons.

use pmdns_config::narrow::low_u16;

/// Cells in a row; a power of two.
const CELLS: usize = 4096;
/// One slot in nine is for prefixes that come later.
const RESERVE: usize = 9;

/// How many of the values in one ring each prefix has.
#[derive(Debug)]
pub(crate) struct RingShares {
    rows: [Box<[u32]>; 2],
    /// Cells of the first row that are not zero: about the number of prefixes with values in the ring.
    holders: usize,
    /// The cells of the values in the ring, in order; one place for each slot.
    notes: Box<[[u16; 2]]>,
    /// The index of the oldest value's note, and the number of notes.
    first: usize,
    len: usize,
}

impl RingShares {
    /// The shares of an empty ring with `capacity` slots.
    pub(crate) fn new(capacity: usize) -> Self {
        let row = || vec![0; CELLS].into_boxed_slice();
        Self {
            rows: [row(), row()],
            holders: 0,
            notes: vec![[0; 2]; capacity].into_boxed_slice(),
            first: 0,
            len: 0,
        }
    }

    /// Takes back the notes of popped values: `free` slots are free.
    pub(crate) fn settle(&mut self, free: usize) {
        while self.len > self.notes.len().saturating_sub(free) {
            let [first, second] = self.notes[self.first].map(usize::from);
            self.rows[0][first] -= 1;
            self.rows[1][second] -= 1;
            self.holders -= usize::from(self.rows[0][first] == 0);
            self.first = (self.first + 1) % self.notes.len();
            self.len -= 1;
        }
    }

    /// Whether a prefix with this hash may put one more value into the ring.
    pub(crate) fn has_room_for(&self, prefix: u64) -> bool {
        let capacity = self.notes.len();
        let free = capacity - self.len;
        let [first, second] = cells(prefix).map(usize::from);
        let held = self.rows[0][first].min(self.rows[1][second]) as usize;
        // No prefix holds more than all notes together.
        if self.len < free {
            return true;
        }
        let part = (capacity - capacity / RESERVE) / self.holders.max(1);
        free > 0 && held < free.max(part)
    }

    /// Whether the ring is full.
    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.notes.len()
    }

    /// Notes that a prefix with this hash has put a value into the ring. There was room.
    pub(crate) fn note(&mut self, prefix: u64) {
        let cells = cells(prefix);
        let [first, second] = cells.map(usize::from);
        self.holders += usize::from(self.rows[0][first] == 0);
        self.rows[0][first] += 1;
        self.rows[1][second] += 1;
        let last = (self.first + self.len) % self.notes.len();
        self.notes[last] = cells;
        self.len += 1;
    }
}

/// The cells of a prefix.
fn cells(prefix: u64) -> [u16; 2] {
    const { assert!(CELLS.is_power_of_two() && CELLS <= 1 << 16, "a cell's number has 16 bits") };
    [prefix, prefix >> 32].map(|bits| low_u16(bits & (CELLS as u64 - 1)))
}

/// The refusals sent in this second.
#[derive(Debug)]
pub(crate) struct Refusals {
    second: u32,
    all: u32,
    cells: Box<[u8]>,
}

impl Refusals {
    /// Refusals of one core in a second.
    const MAX: u32 = 1000;
    /// Refusals to one client prefix in a second.
    const MAX_TO_A_PREFIX: u8 = 20;

    /// No refusals yet.
    pub(crate) fn new() -> Self {
        Self { second: 0, all: 0, cells: vec![0; CELLS].into_boxed_slice() }
    }

    /// Whether a client whose prefix has this hash may be told in this second. If so, it counts as told.
    pub(crate) fn may_notify(&mut self, prefix: u64, second: u32) -> bool {
        if self.second != second {
            self.second = second;
            self.all = 0;
            self.cells.fill(0);
        }
        let told = &mut self.cells[usize::from(cells(prefix)[0])];
        let may_notify = self.all < Self::MAX && *told < Self::MAX_TO_A_PREFIX;
        self.all += u32::from(may_notify);
        *told += u8::from(may_notify);
        may_notify
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// A hash for a prefix, whose bits are spread as a seeded hash's are.
    fn hash(prefix: usize) -> u64 {
        (prefix as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)
    }

    /// A ring that is never emptied, after `prefixes` prefixes have tried in turns to put `values` values into it.
    fn flooded(capacity: usize, prefixes: usize, values: usize) -> RingShares {
        let mut shares = RingShares::new(capacity);
        for prefix in (0..prefixes).cycle().take(values).map(hash) {
            if shares.has_room_for(prefix) {
                shares.note(prefix);
            }
        }
        shares
    }

    #[test]
    fn audit_09_a_flood_leaves_room_in_the_ring_for_others() {
        for (prefixes, taken) in [(1, 3641), (2, 3640), (64, 4032)] {
            let mut shares = flooded(4096, prefixes, 100_000);
            assert!(shares.len <= taken + 64, "{prefixes} prefixes: {}", shares.len);
            for _ in 0..15 {
                let newcomer = hash(77_777);
                assert!(shares.has_room_for(newcomer), "{prefixes} prefixes");
                shares.note(newcomer);
            }
        }
        assert!(flooded(4096, 100_000, 100_000).len >= 4095, "nobody is heavy: all of it is used");
    }

    #[test]
    fn nobody_is_limited_while_half_is_free() {
        let shares = flooded(64, 1, 32);
        assert_eq!(shares.len, 32);
    }

    #[test]
    fn so_many_are_told_and_so_many_of_one_prefix() {
        let mut refusals = Refusals::new();
        let mut notified =
            |prefix, second| (0..100).filter(|_| refusals.may_notify(hash(prefix), second)).count();
        assert_eq!(notified(1, 1), 20);
        let all: usize = (2..200).map(|prefix| notified(prefix, 1)).sum();
        assert_eq!(all, 980);
        assert_eq!(notified(1, 2), 20, "a new second");
    }

    proptest! {
        #[test]
        fn what_is_noted_is_what_waits(
            capacity in 1..40usize,
            moves in proptest::collection::vec((0..6usize, any::<bool>(), 0..10usize), 1..200),
        ) {
            let (mut shares, mut model) = (RingShares::new(capacity), VecDeque::new());
            for (prefix, pushes, pops) in moves {
                let prefix = hash(prefix);
                if pushes && shares.has_room_for(prefix) {
                    shares.note(prefix);
                    model.push_back(prefix);
                } else if !pushes {
                    model.drain(..pops.min(model.len()));
                    shares.settle(capacity - model.len());
                }
                prop_assert!(model.len() <= capacity && shares.len == model.len());
                for row in 0..2 {
                    prop_assert_eq!(shares.rows[row].iter().sum::<u32>() as usize, model.len());
                }
                let cells = shares.rows[0].iter().filter(|cell| **cell > 0).count();
                prop_assert_eq!(shares.holders, cells);
            }
            shares.settle(capacity);
            prop_assert_eq!((shares.len, shares.holders), (0, 0));
        }
    }
}
