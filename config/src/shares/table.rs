//! A bounded table whose places are shared by client prefix. What is displaced comes out of it.

use std::hash::{BuildHasher, Hash, RandomState};

use crate::narrow::to_u32;

use super::{Hold, Shares};

/// Values, each of which holds a part of a bounded resource for a prefix.
#[derive(Debug)]
pub struct ShareTable<K, T, S = RandomState> {
    shares: Shares<K, S>,
    places: Vec<ShareSlot<T>>,
    /// The numbers of places that are free.
    free: Vec<u32>,
}

/// Names one value in a table. When that has left, the ticket names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// The number of its place: fewer than the table has capacity.
    pub place: u32,
    /// How often that place was used before.
    pub serial: u32,
}

/// What came of a value that was to enter.
#[derive(Debug)]
#[must_use = "who is displaced is to be told"]
pub struct Entered<T> {
    /// Its ticket, or itself, if nobody holds more than its prefix.
    pub result: Result<Ticket, T>,
    /// What lost its place to it.
    pub displaced: Vec<T>,
}

#[derive(Debug)]
struct ShareSlot<T> {
    serial: u32,
    taken: Option<(Hold, T)>,
}

impl<K: Copy + Eq + Hash, T, S: BuildHasher + Default> ShareTable<K, T, S> {
    /// An empty table. Its memory grows with what is in it.
    pub fn new(capacity: usize) -> Self {
        Self { shares: Shares::new(capacity), places: Vec::new(), free: Vec::new() }
    }

    /// How much is held, and by whom.
    pub fn shares(&self) -> &Shares<K, S> {
        &self.shares
    }

    /// Lets a value enter, which holds one part of the resource.
    pub fn enter(&mut self, key: K, value: T) -> Entered<T> {
        self.enter_weight(key, value, 1)
    }

    /// Lets a value enter that holds `weight` parts. If there is no room, values of the heaviest prefix leave, as long
    /// as that holds more than the prefix of `key`.
    pub fn enter_weight(&mut self, key: K, value: T, weight: u32) -> Entered<T> {
        let mut displaced = Vec::new();
        while self.shares.held() + weight.max(1) as usize > self.shares.capacity() {
            let heaviest = self.shares.heavier_than(key);
            let Some(lost) = heaviest.and_then(|heaviest| self.take(heaviest.oldest)) else {
                return Entered { result: Err(value), displaced };
            };
            displaced.push(lost);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(ShareSlot { serial: 0, taken: None });
            to_u32(self.places.len() - 1)
        });
        let hold = self.shares.hold_weight(key, place, weight);
        let entry = &mut self.places[place as usize];
        entry.taken = Some((hold, value));
        Entered { result: Ok(Ticket { place, serial: entry.serial }), displaced }
    }

    /// Takes a value out. `None`: it has left before.
    pub fn leave(&mut self, ticket: Ticket) -> Option<T> {
        self.find(ticket)?;
        self.take(ticket.place)
    }

    /// The value of a ticket.
    pub fn get(&mut self, ticket: Ticket) -> Option<&mut T> {
        self.find(ticket).map(|(_, value)| value)
    }

    /// Makes a value the youngest of its prefix.
    pub fn renew(&mut self, ticket: Ticket) {
        if let Some(place) = self.places.get(ticket.place as usize)
            && place.serial == ticket.serial
            && let Some((hold, _)) = &place.taken
        {
            self.shares.renew(hold);
        }
    }

    /// Has a value count for the prefix of `key` from now on.
    pub fn pass_on(&mut self, ticket: Ticket, key: K) {
        if let Some(place) = self.places.get_mut(ticket.place as usize)
            && place.serial == ticket.serial
            && let Some((hold, _)) = &mut place.taken
        {
            self.shares.pass_on(hold, key);
        }
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = (Ticket, &T)> {
        (0..to_u32(self.places.len())).filter_map(|place| self.at(place))
    }

    /// The values of a prefix, the oldest first.
    pub fn of(&self, key: K) -> impl Iterator<Item = (Ticket, &T)> {
        self.shares.names_of(key).filter_map(|place| self.at(place))
    }

    /// The values of the prefix that holds most, the oldest first, if it holds more than that of `key`.
    pub fn of_heavier(&self, key: K) -> impl Iterator<Item = (Ticket, &T)> {
        let heaviest = self.shares.heavier_than(key);
        let taken = heaviest.and_then(|it| self.places[it.oldest as usize].taken.as_ref());
        let heavier = taken.map(|(hold, _)| self.shares.key_of(hold));
        heavier.into_iter().flat_map(|key| self.of(key))
    }

    fn at(&self, place: u32) -> Option<(Ticket, &T)> {
        let ShareSlot { serial, taken } = self.places.get(place as usize)?;
        let ticket = Ticket { place, serial: *serial };
        taken.as_ref().map(|(_, value)| (ticket, value))
    }

    fn find(&mut self, ticket: Ticket) -> Option<&mut (Hold, T)> {
        let place = self.places.get_mut(ticket.place as usize)?;
        place.taken.as_mut().filter(|_| place.serial == ticket.serial)
    }

    /// Empties a place.
    fn take(&mut self, place: u32) -> Option<T> {
        let entry = self.places.get_mut(place as usize)?;
        let (hold, value) = entry.taken.take()?;
        entry.serial = entry.serial.wrapping_add(1);
        self.shares.release(hold);
        self.free.push(place);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_heaviest_loses_its_oldest_and_a_place_is_used_again_under_another_ticket() {
        let mut table = ShareTable::<u8, &str>::new(3);
        let first = table.enter(1, "a").result.unwrap();
        let second = table.enter(1, "b").result.unwrap();
        assert!(table.enter(2, "c").displaced.is_empty());
        let entry = table.enter(3, "d");
        assert_eq!(entry.displaced, ["a"]);
        let fourth = entry.result.unwrap();
        assert_eq!((fourth.place, fourth.serial), (first.place, first.serial + 1));
        assert_eq!((table.leave(first), table.get(second)), (None, Some(&mut "b")));
        assert_eq!(table.enter(1, "e").result, Err("e"), "it is as heavy as any");
    }

    #[test]
    fn who_is_renewed_loses_its_place_later() {
        let mut table = ShareTable::<u8, &str>::new(3);
        let first = table.enter(1, "a").result.unwrap();
        let _second = table.enter(1, "b").result.unwrap();
        let _third = table.enter(1, "c").result.unwrap();
        table.renew(first);
        assert_eq!(table.of(1).map(|(_, name)| *name).collect::<String>(), "bca");
        assert_eq!(table.enter(2, "d").displaced, ["b"]);
    }

    #[test]
    fn a_value_counts_for_whom_it_is_passed_on_to() {
        let mut table = ShareTable::<u8, u8>::new(4);
        let tickets: Vec<Ticket> = (0..4).map(|it| table.enter(1, it).result.unwrap()).collect();
        table.pass_on(tickets[0], 2);
        assert_eq!([1, 2].map(|key| table.shares().held_by(key)), [3, 1]);
        assert_eq!(table.of_heavier(2).map(|(_, value)| *value).collect::<Vec<u8>>(), [1, 2, 3]);
        assert_eq!(table.of_heavier(1).count(), 0);
    }

    proptest! {
        #[test]
        fn a_newcomer_always_gets_in_and_memory_is_bounded(
            capacity in 4..40usize,
            events in proptest::collection::vec((0..8u8, 1..5u32, any::<bool>(), 0..40usize), 1..200),
        ) {
            let mut table = ShareTable::<u8, (u8, u32)>::new(capacity);
            let mut held: Vec<Ticket> = Vec::new();
            for (key, weight, enters, which) in events {
                if enters {
                    let entry = table.enter_weight(key, (key, weight), weight);
                    for (loser, _) in &entry.displaced {
                        prop_assert_ne!(*loser, key);
                    }
                    held.extend(entry.result.ok());
                } else if !held.is_empty() {
                    table.leave(held.remove(which % held.len()));
                }
                let mut weights: HashMap<u8, usize> = HashMap::new();
                for (_, (key, weight)) in table.iter() {
                    *weights.entry(*key).or_default() += *weight as usize;
                }
                for key in 0..8 {
                    prop_assert_eq!(table.shares().held_by(key), weights.get(&key).copied().unwrap_or(0));
                }
                prop_assert_eq!(table.shares().held(), weights.values().sum::<usize>());
                prop_assert!(table.shares().held() <= capacity && table.places.len() <= capacity);
            }
            // Whoever holds nothing gets in, whatever is there.
            prop_assert!(table.enter_weight(99, (99, 4), 4).result.is_ok());
        }
    }
}
