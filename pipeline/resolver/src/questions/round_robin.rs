//! A queue in which client prefixes, or other groups, take turns. A group with many items delays its own items, not
//! those of others.
//!
//! A pure state machine. Every step takes constant time, except that a bounded number of groups is skipped that may not
//! go now.

use std::collections::hash_map::{Entry, OccupiedEntry};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hash};

use crate::questions::hashed::AsHashed;
use crate::questions::prefixes::ClientPrefix;

/// The most groups that one step looks at. The others are looked at in the next step.
const MAX_LOOKED_AT: usize = 64;

/// The waiting items, by group.
#[derive(Debug)]
pub(crate) struct RoundRobin<T, G = ClientPrefix, S = BuildHasherDefault<AsHashed>> {
    waiting: HashMap<G, Waiting<T>, S>,
    /// Each group with waiting items, once.
    order: VecDeque<G>,
    len: usize,
}

/// The items of one group. Most groups have one, which takes no memory of its own.
#[derive(Debug)]
struct Waiting<T> {
    first: T,
    others: VecDeque<T>,
}

impl<T, G, S: Default> Default for RoundRobin<T, G, S> {
    fn default() -> Self {
        Self { waiting: HashMap::default(), order: VecDeque::new(), len: 0 }
    }
}

impl<T, G: Clone + Eq + Hash, S: BuildHasher> RoundRobin<T, G, S> {
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
        self.len += 1;
        match self.waiting.entry(group.clone()) {
            Entry::Occupied(mut waiting) => waiting.get_mut().others.push_back(item),
            Entry::Vacant(place) => {
                place.insert(Waiting { first: item, others: VecDeque::new() });
                self.order.push_back(group);
            }
        }
    }

    /// The first of the next group, if it may go.
    pub(crate) fn pop(&mut self, mut may_go: impl FnMut(&G, &T) -> bool) -> Option<(G, T)> {
        for _ in 0..self.order.len().min(MAX_LOOKED_AT) {
            let group = self.order.pop_front()?;
            let Entry::Occupied(waiting) = self.waiting.entry(group.clone()) else { continue };
            if !may_go(&group, &waiting.get().first) {
                self.order.push_back(group);
                continue;
            }
            let (item, rest) = take_first(waiting);
            self.len -= 1;
            if rest.is_some() {
                self.order.push_back(group.clone());
            }
            return Some((group, item));
        }
        None
    }

    /// Removes items that need not wait any more, from the front of each group.
    pub(crate) fn forget(&mut self, mut is_over: impl FnMut(&T) -> bool) {
        for _ in 0..self.order.len().min(MAX_LOOKED_AT) {
            let Some(group) = self.order.pop_front() else { return };
            let Entry::Occupied(waiting) = self.waiting.entry(group.clone()) else { continue };
            let mut left = Some(waiting);
            while let Some(waiting) = left.take_if(|waiting| is_over(&waiting.get().first)) {
                left = take_first(waiting).1;
                self.len -= 1;
            }
            if left.is_some() {
                self.order.push_back(group);
            }
        }
    }
}

/// Takes out the first item of a group. A group without items is removed.
fn take_first<G, T>(
    mut group: OccupiedEntry<'_, G, Waiting<T>>,
) -> (T, Option<OccupiedEntry<'_, G, Waiting<T>>>) {
    let waiting = group.get_mut();
    match waiting.others.pop_front() {
        Some(next) => (std::mem::replace(&mut waiting.first, next), Some(group)),
        None => (group.remove().first, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::questions::shares::tests::prefix;

    /// A queue of items that these prefixes have sent, numbered in order of arrival.
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
            let mut queue = RoundRobin::<(u16, usize)>::default();
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
                let waiting: usize = queue.waiting.values().map(|waiting| 1 + waiting.others.len()).sum();
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
