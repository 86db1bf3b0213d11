//! A queue in which client prefixes, or other groups, take turns. A group with many items delays its own items, not
//! those of others.
//!
//! A pure state machine. Every step takes constant time, except that a bounded number of groups is skipped that may not
//! go now.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash};

use pmdns_config::shares::lists::{LinkedLists, List};

use crate::questions::hashed::AsHashed;
use crate::questions::prefixes::ClientPrefix;

/// The most groups that one step looks at. The others are looked at in the next step.
const MAX_LOOKED_AT: usize = 64;

/// The waiting items, by group.
#[derive(Debug)]
pub(crate) struct RoundRobin<T, G = ClientPrefix, S = BuildHasherDefault<AsHashed>> {
    items: LinkedLists<T>,
    /// The groups with waiting items.
    groups: LinkedLists<Group<G>>,
    /// All of these, in the order of their turns.
    order: List,
    by_name: HashMap<G, u32, S>,
}

/// A group.
#[derive(Debug)]
struct Group<G> {
    name: G,
    /// At least one.
    items: List,
}

impl<T, G, S: Default> Default for RoundRobin<T, G, S> {
    fn default() -> Self {
        let (items, groups) = (LinkedLists::new(), LinkedLists::new());
        Self { items, groups, order: List::default(), by_name: HashMap::default() }
    }
}

impl<T, G: Clone + Eq + Hash, S: BuildHasher> RoundRobin<T, G, S> {
    /// How much waits.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Lets one more wait.
    pub(crate) fn push(&mut self, group: G, item: T) {
        let Self { items, groups, order, by_name } = self;
        let slot = *by_name.entry(group).or_insert_with_key(|name| {
            let slot = groups.keep(Group { name: name.clone(), items: List::default() });
            groups.append(order, slot);
            slot
        });
        let item = items.keep(item);
        items.append(&mut groups.value(slot).items, item);
    }

    /// The first of the next group, if it may go.
    pub(crate) fn pop(&mut self, mut may_go: impl FnMut(&G, &T) -> bool) -> Option<(G, T)> {
        for _ in 0..self.groups.len().min(MAX_LOOKED_AT) {
            let slot = self.order.first()?;
            let Group { name, items } = self.groups.value(slot);
            let first = items.first()?;
            if !may_go(name, self.items.value(first)) {
                self.take_turn(slot);
                continue;
            }
            let name = name.clone();
            let item = self.take_first(slot, first);
            return Some((name, item));
        }
        None
    }

    /// All items, in no order.
    pub(crate) fn into_items(mut self) -> Vec<T> {
        let mut items = Vec::with_capacity(self.len());
        while let Some((_, item)) = self.pop(|_, _| true) {
            items.push(item);
        }
        items
    }

    /// Removes items that need not wait any more, from the front of each group.
    pub(crate) fn forget(&mut self, mut is_over: impl FnMut(&T) -> bool) {
        for _ in 0..self.groups.len().min(MAX_LOOKED_AT) {
            let Some(slot) = self.order.first() else { return };
            self.take_turn(slot);
            let mut items = self.groups.value(slot).items;
            while let Some(first) = items.first()
                && is_over(self.items.value(first))
            {
                self.items.unlink(&mut items, first);
                self.items.let_go(first);
            }
            self.keep_rest(slot, items);
        }
    }

    /// The group had its turn.
    fn take_turn(&mut self, slot: u32) {
        self.groups.unlink(&mut self.order, slot);
        self.groups.append(&mut self.order, slot);
    }

    /// Takes out the first item of a group, which had its turn then.
    fn take_first(&mut self, slot: u32, first: u32) -> T {
        self.take_turn(slot);
        let mut items = self.groups.value(slot).items;
        self.items.unlink(&mut items, first);
        self.keep_rest(slot, items);
        self.items.let_go(first)
    }

    /// Leaves these items to a group. A group without items is removed.
    fn keep_rest(&mut self, slot: u32, items: List) {
        self.groups.value(slot).items = items;
        if items.is_empty() {
            self.groups.unlink(&mut self.order, slot);
            let Group { name, .. } = self.groups.let_go(slot);
            self.by_name.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::questions::prefixes::tests::prefix;

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
        assert_eq!((queue.is_empty(), queue.items.len(), queue.by_name.len()), (true, 0, 0));
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
                let groups: Vec<List> = queue.groups.iter(queue.order).map(|(_, group)| group.items).collect();
                let waiting: usize = groups.iter().map(|items| queue.items.iter(*items).count()).sum();
                prop_assert_eq!((waiting, groups.len()), (queue.len(), queue.by_name.len()));
                prop_assert!(groups.iter().all(|items| !items.is_empty()));
            }
            while let Some((_, (of, number))) = queue.pop(|_, _| true) {
                left[usize::from(of)].push(number);
            }
            prop_assert_eq!(left, pushed);
        }
    }
}
