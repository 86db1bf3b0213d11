//! Quotas: every client prefix leaves enough of a bounded resource for others.
//!
//! A pure count, for pieces that cannot be taken back while they are held. A prefix gets another piece if it holds
//! fewer than are free. This threshold falls as more is held (Choudhury and Hahne, "Dynamic queue length thresholds",
//! 1998). It also gets one if it holds less than an equal part of all but a reserve, so that one prefix alone gets
//! most. Either way something is left for a prefix that holds nothing yet.

use crate::questions::hashed::HashedMap;
use crate::questions::prefixes::ClientPrefix;

/// One piece in nine is for prefixes that come later.
const RESERVE: usize = 9;

/// One resource of `capacity` pieces.
#[derive(Debug)]
pub(crate) struct Quota {
    capacity: usize,
    held: usize,
    /// How many pieces each prefix holds; never zero.
    by_prefix: HashedMap<ClientPrefix, usize>,
}

impl Quota {
    /// A resource of which nothing is held.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, held: 0, by_prefix: HashedMap::default() }
    }

    /// Whether a prefix may hold one more piece.
    pub(crate) fn has_room_for(&self, prefix: ClientPrefix) -> bool {
        let free = self.capacity.saturating_sub(self.held);
        let held = self.by_prefix.get(&prefix).copied();
        let part = || {
            let holders = self.by_prefix.len() + usize::from(held.is_none());
            (self.capacity - self.capacity / RESERVE) / holders
        };
        let held = held.unwrap_or(0);
        free > 0 && (held < free || held < part())
    }

    /// Lets a prefix hold one more piece.
    pub(crate) fn take(&mut self, prefix: ClientPrefix) {
        self.held += 1;
        *self.by_prefix.entry(prefix).or_insert(0) += 1;
    }

    /// Takes a piece back.
    pub(crate) fn give_back(&mut self, prefix: ClientPrefix) {
        let Some(held) = self.by_prefix.get_mut(&prefix) else {
            debug_assert!(false, "nobody gives back what it does not hold");
            return;
        };
        *held -= 1;
        self.held -= 1;
        if *held == 0 {
            self.by_prefix.remove(&prefix);
        }
    }

    /// How much is held.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::questions::prefixes::tests::prefix;

    /// A quota that these prefixes have filled in turns.
    fn filled(capacity: usize, prefixes: u16) -> Quota {
        let mut quota = Quota::new(capacity);
        for _ in 0..capacity {
            for of in (0..prefixes).map(prefix) {
                if quota.has_room_for(of) {
                    quota.take(of);
                }
            }
        }
        quota
    }

    #[test]
    fn one_prefix_gets_most_and_many_leave_room_for_a_newcomer() {
        for (prefixes, most) in [(1, 1821), (2, 1820), (64, 2017)] {
            let mut quota = filled(2048, prefixes);
            assert_eq!(quota.held(), most, "{prefixes} prefixes");
            for _ in 0..15 {
                assert!(quota.has_room_for(prefix(999)), "{prefixes} prefixes");
                quota.take(prefix(999));
            }
        }
        assert!(!filled(2048, 10_000).has_room_for(prefix(10_001)), "there is none left");
    }

    proptest! {
        #[test]
        fn what_is_held_is_given_back(
            capacity in 0..20usize,
            moves in proptest::collection::vec((0..5u16, any::<bool>()), 1..100),
        ) {
            let (mut quota, mut held) = (Quota::new(capacity), [0; 5]);
            for (of, takes) in moves {
                let count: &mut usize = &mut held[usize::from(of)];
                if takes && quota.has_room_for(prefix(of)) {
                    quota.take(prefix(of));
                    *count += 1;
                } else if !takes && *count > 0 {
                    quota.give_back(prefix(of));
                    *count -= 1;
                }
                prop_assert!(quota.held() <= capacity);
                prop_assert_eq!(quota.held(), held.iter().sum::<usize>());
                prop_assert_eq!(quota.by_prefix.len(), held.iter().filter(|held| **held > 0).count());
            }
        }
    }
}
