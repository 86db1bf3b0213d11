//! Linked lists. A value lies in a slot, and knows the slots before and after it, so it can leave the middle in one
//! step.

use crate::narrow::to_u32;
use slab::Slab;

/// Values, each in at most one [`List`].
#[derive(Debug)]
pub struct LinkedLists<T> {
    nodes: Slab<Node<T>>,
}

/// A list of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List {
    first: Option<u32>,
    last: Option<u32>,
}

#[derive(Debug)]
struct Node<T> {
    value: T,
    before: Option<u32>,
    after: Option<u32>,
}

impl List {
    /// The slot of the oldest value.
    pub fn first(self) -> Option<u32> {
        self.first
    }

    /// Whether it is empty.
    pub fn is_empty(self) -> bool {
        self.first.is_none()
    }
}

impl<T> Default for LinkedLists<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> LinkedLists<T> {
    /// No values yet.
    pub fn new() -> Self {
        Self { nodes: Slab::new() }
    }

    /// No values yet, and room for so many.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { nodes: Slab::with_capacity(capacity) }
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The slot of the next value.
    pub fn next(&self) -> u32 {
        to_u32(self.nodes.vacant_key())
    }

    /// Stores a value, and returns its slot. The value is in no list yet.
    pub fn keep(&mut self, value: T) -> u32 {
        to_u32(self.nodes.insert(Node { value, before: None, after: None }))
    }

    /// Removes a value that is in no list any more.
    pub fn let_go(&mut self, slot: u32) -> T {
        self.nodes.remove(slot as usize).value
    }

    /// The values of a list, each with its slot, the oldest first.
    pub fn iter(&self, list: List) -> impl Iterator<Item = (u32, &T)> {
        let node = |slot: u32| self.nodes.get(slot as usize).map(|node| (slot, node));
        let nodes = std::iter::successors(list.first.and_then(node), move |(_, before)| {
            before.after.and_then(node)
        });
        nodes.map(|(slot, node)| (slot, &node.value))
    }

    /// The value in a slot.
    pub fn get(&self, slot: u32) -> &T {
        &self.nodes[slot as usize].value
    }

    /// The value in a slot, to be changed.
    pub fn value(&mut self, slot: u32) -> &mut T {
        &mut self.nodes[slot as usize].value
    }

    /// Puts the value in `slot` at the end of `list`.
    pub fn append(&mut self, list: &mut List, slot: u32) {
        self.nodes[slot as usize].before = list.last;
        self.nodes[slot as usize].after = None;
        match list.last.replace(slot) {
            Some(last) => self.nodes[last as usize].after = Some(slot),
            None => list.first = Some(slot),
        }
    }

    /// Takes the value in `slot` out of `list`, which contains it.
    pub fn unlink(&mut self, list: &mut List, slot: u32) {
        let Node { before, after, .. } = self.nodes[slot as usize];
        match before {
            Some(before) => self.nodes[before as usize].after = after,
            None => list.first = after,
        }
        match after {
            Some(after) => self.nodes[after as usize].before = before,
            None => list.last = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_list_is_a_queue_that_can_be_left(moves in proptest::collection::vec((any::<bool>(), 0..20usize), 0..100)) {
            let (mut lists, mut list) = (LinkedLists::new(), List::default());
            let mut model = VecDeque::new();
            for (number, (joins, at)) in moves.into_iter().enumerate() {
                if joins {
                    let slot = lists.keep(number);
                    lists.append(&mut list, slot);
                    model.push_back((slot, number));
                } else if let Some((slot, number)) = model.remove(at) {
                    lists.unlink(&mut list, slot);
                    prop_assert_eq!(lists.let_go(slot), number);
                }
                prop_assert_eq!(list.first(), model.front().map(|(slot, _)| *slot));
                prop_assert_eq!(list.last, model.back().map(|(slot, _)| *slot));
                prop_assert_eq!(list.is_empty(), model.is_empty());
                let there: Vec<(u32, usize)> = lists.iter(list).map(|(slot, number)| (slot, *number)).collect();
                prop_assert!(model.iter().copied().eq(there));
                prop_assert_eq!(lists.len(), model.len());
            }
        }
    }
}
