//! Places for replies under validation, shared fairly: nobody's clients and nobody's zone can take them all.
//!
//! A group, be it the clients of a network or the names of a zone, may take as many places as half of those that are free.
//! So one that takes all it can get ends with a third, two with a quarter each, and there always is a place for a group
//! that has none. Who has most is refused first.

use std::collections::HashMap;
use std::hash::Hash;

use crate::name;

/// Labels that tell zones apart, before anything is known of cuts.
const ZONE_LABELS: usize = 2;

/// Who takes a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Group<C> {
    Clients(C),
    Zone(Box<[u8]>),
}

/// A place that is taken; it has to be given back.
#[derive(Debug)]
#[must_use]
pub struct Place<C>([Group<C>; 2]);

/// All places; `C` is what tells networks of clients apart.
#[derive(Debug)]
pub struct Slots<C> {
    places: usize,
    taken: usize,
    groups: HashMap<Group<C>, usize>,
}

impl<C: Clone + Eq + Hash> Slots<C> {
    /// So many free places.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self { places, taken: 0, groups: HashMap::new() }
    }

    /// Takes a place for a question about `name` (wire format) of these clients. `None`: its clients or
    /// its zone have their share.
    pub fn take(&mut self, clients: C, name: &[u8]) -> Option<Place<C>> {
        let zone = name::checked(name)?;
        let zone = name::last(&zone, ZONE_LABELS).into();
        let groups = [Group::Clients(clients), Group::Zone(zone)];
        let free = self.places - self.taken;
        let share = free.div_ceil(2);
        if groups.iter().any(|group| self.groups.get(group).copied().unwrap_or(0) >= share) {
            return None;
        }
        self.taken += 1;
        for group in &groups {
            *self.groups.entry(group.clone()).or_default() += 1;
        }
        Some(Place(groups))
    }

    /// Gives a place back.
    pub fn give_back(&mut self, place: Place<C>) {
        self.taken -= 1;
        for group in place.0 {
            if let Some(count) = self.groups.get_mut(&group) {
                *count -= 1;
                if *count == 0 {
                    self.groups.remove(&group);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::name;

    #[test]
    fn audit_03_neither_a_clients_network_nor_a_zone_takes_more_than_a_third() {
        let mut slots = Slots::new(900);
        let mut places = Vec::new();
        // One zone, from everywhere.
        for n in 0..2000 {
            places.extend(slots.take((n % 250) as u8, &name("x.evil.example")));
        }
        assert_eq!(places.len(), 300);
        assert!(slots.take(251, &name("www.evil.example")).is_none());
        // One network, about everything.
        for n in 0..2000 {
            places.extend(slots.take(252, &name(&format!("x.e{n}.example"))));
        }
        assert_eq!(places.len(), 500, "half of what is free after each");
        for n in 0..50_u8 {
            let place = slots.take(n, &name(&format!("www.good{n}.example")));
            places.push(place.expect("others have places"));
        }
        for place in places {
            slots.give_back(place);
        }
        assert_eq!((slots.taken, slots.groups.len()), (0, 0));
    }

    #[test]
    fn the_last_place_is_for_somebody_who_has_none() {
        let mut slots = Slots::new(2);
        let first = slots.take(1, &name("a.b")).unwrap();
        assert!(slots.take(1, &name("c.d")).is_none(), "one has its share");
        assert!(slots.take(2, &name("x.a.b")).is_none(), "so has the zone");
        let second = slots.take(2, &name("e.f")).unwrap();
        assert!(slots.take(3, &name("g.h")).is_none(), "there is none left");
        slots.give_back(first);
        assert!(slots.take(3, &name("g.h")).is_some());
        slots.give_back(second);
    }
}
