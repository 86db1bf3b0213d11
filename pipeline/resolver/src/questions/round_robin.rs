//! A queue in which client prefixes, or other groups, take turns: one that has much waiting holds up its own, and not others.
//!
//! A pure state machine. Every step takes the same time but for groups that may not go, of which a bounded number is
//! looked at.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use crate::questions::prefixes::ClientPrefix;

/// Groups looked at for one that may go. The others are looked at the next time.
const MAX_LOOKED_AT: usize = 64;

/// What waits, by group.
#[derive(Debug)]
pub(crate) struct RoundRobin<T, G = ClientPrefix> {
    /// None is empty.
    waiting: HashMap<G, VecDeque<T>>,
    /// Each group that has something waiting, once.
    order: VecDeque<G>,
    len: usize,
}

impl<T, G> Default for RoundRobin<T, G> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), order: VecDeque::new(), len: 0 }
    }
}

impl<T, G: Clone + Eq + Hash> RoundRobin<T, G> {
    /// How much waits.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Lets one more wait.
    pub(crate) fn push(&mut self, group: G, item: T) {
        let waiting = self.waiting.entry(group.clone()).or_default();
        if waiting.is_empty() {
            self.order.push_back(group);
        }
        waiting.push_back(item);
        self.len += 1;
    }

    /// The first of the next group, if it may go.
    pub(crate) fn pop(&mut self, mut may_go: impl FnMut(&G, &T) -> bool) -> Option<(G, T)> {
        for _ in 0..self.order.len().min(MAX_LOOKED_AT) {
            let group = self.order.pop_front()?;
            let first = self.waiting.get(&group).and_then(VecDeque::front);
            let may_go = first.is_some_and(|first| may_go(&group, first));
            let item = may_go.then(|| self.take(&group)).flatten();
            if self.waiting.contains_key(&group) {
                self.order.push_back(group.clone());
            }
            if let Some(item) = item {
                return Some((group, item));
            }
        }
        None
    }

    /// Forgets what need not wait any more, as far as it is next of its group.
    pub(crate) fn forget(&mut self, mut is_over: impl FnMut(&T) -> bool) {
        for _ in 0..self.order.len().min(MAX_LOOKED_AT) {
            let Some(group) = self.order.pop_front() else { return };
            while self.waiting.get(&group).and_then(VecDeque::front).is_some_and(&mut is_over) {
                self.take(&group);
            }
            if self.waiting.contains_key(&group) {
                self.order.push_back(group);
            }
        }
    }

    fn take(&mut self, group: &G) -> Option<T> {
        let waiting = self.waiting.get_mut(group)?;
        let item = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(group);
        }
        self.len -= usize::from(item.is_some());
        item
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::questions::shares::tests::prefix;

    /// A queue of what these prefixes have sent, numbered as it came.
    fn queue(sent: impl IntoIterator<Item = u16>) -> RoundRobin<usize> {
        let mut queue = RoundRobin::default();
        for (number, of) in sent.into_iter().enumerate() {
            queue.push(prefix(of), number);
        }
        queue
    }

    fn next(queue: &mut RoundRobin<usize>) -> Option<usize> {
        queue.pop(|_, _| true).map(|(_, number)| number)
    }

    #[test]
    fn who_has_much_waiting_does_not_hold_up_others() {
        let mut queue = queue([1, 1, 1, 1, 2, 3, 2]);
        let order: Vec<usize> = std::iter::from_fn(|| next(&mut queue)).collect();
        assert_eq!(order, [0, 4, 5, 1, 6, 2, 3]);
        assert!(queue.is_empty() && queue.order.is_empty() && queue.waiting.is_empty());
    }

    #[test]
    fn who_may_not_go_keeps_its_place_and_holds_up_nobody() {
        let mut queue = queue([1, 1, 2]);
        assert_eq!(queue.pop(|of, _| *of != prefix(1)), Some((prefix(2), 2)));
        assert_eq!(queue.pop(|of, _| *of != prefix(1)), None);
        assert_eq!(queue.len(), 2);
        assert_eq!((next(&mut queue), next(&mut queue)), (Some(0), Some(1)));
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let mut queue = queue([1, 1, 2, 1, 3]);
        queue.forget(|number| *number != 1);
        assert_eq!(queue.len(), 2, "what stands behind one that still waits is kept with it");
        assert_eq!(
            (next(&mut queue), next(&mut queue), next(&mut queue)),
            (Some(1), Some(3), None)
        );
    }

    proptest! {
        #[test]
        fn everything_leaves_once_and_in_the_order_of_its_prefix(
            moves in proptest::collection::vec((0..5u16, any::<bool>(), any::<bool>()), 1..200),
        ) {
            let mut queue = RoundRobin::default();
            let mut left = vec![Vec::new(); 5];
            let mut pushed = vec![Vec::new(); 5];
            for (number, (of, pushes, only_even)) in moves.into_iter().enumerate() {
                if pushes {
                    queue.push(prefix(of), (of, number));
                    pushed[usize::from(of)].push(number);
                } else if let Some((_, (of, number))) = queue.pop(|one, _| !only_even || *one != prefix(1)) {
                    prop_assert!(!only_even || of != 1);
                    left[usize::from(of)].push(number);
                }
                let waiting: usize = queue.waiting.values().map(VecDeque::len).sum();
                prop_assert_eq!(waiting, queue.len());
                prop_assert_eq!(queue.order.len(), queue.waiting.len());
            }
            while let Some((_, (of, number))) = queue.pop(|_, _| true) {
                left[usize::from(of)].push(number);
            }
            prop_assert_eq!(left, pushed);
        }
    }
}
