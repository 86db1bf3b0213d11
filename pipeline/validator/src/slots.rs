//! Places for replies under validation, shared fairly: nobody's clients and nobody's zone can take them all, nor all of the
//! time.
//!
//! A group is the clients of a network, or the names of a zone. It may take half as many places as are free.
//! So a single greedy group ends with a third of all places, two with a quarter each. A group without a place
//! always finds one. The group with most places is refused first.
//!
//! Each has a budget of time as well. Clients pay for all that their questions cost. With theirs used up they get no place,
//! unless hardly any is taken. A zone pays for what its replies cost beyond the usual. With its budget used up, its
//! questions have the limits of [`ValidatorLimits::frugal`]. So nobody uses up a zone's budget by asking about it, and zones
//! that share their last two labels with a costly one still validate.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use crate::budgets::{Budgets, Share};
use crate::limits::{Cost, ValidatorLimits};
use crate::name;

/// Labels that tell zones apart, before anything is known of cuts.
const ZONE_LABELS: usize = 2;

/// While fewer than one place in so many is taken, there is time for everybody.
const IDLE: usize = 8;
/// What the clients of a network may take of a thread's time: half of it, and a second at once. A site is often one network, so
/// it gets most of what there is.
const CLIENTS: Share = Share { part: 2, burst: Duration::from_secs(1) };
/// The time a zone may take beyond [`USUAL_US`] for each reply: a tenth, and half a second at once.
const ZONE: Share = Share { part: 10, burst: Duration::from_millis(500) };
/// The highest cost of a usually signed reply, in microseconds: 16 signatures with elliptic curves or RSA.
const USUAL_US: u32 = 1000;

/// A place that is taken; it has to be given back.
#[derive(Debug)]
#[must_use]
pub struct TakenSlot<C> {
    /// Whose place it is.
    pub clients: C,
    zone: Box<[u8]>,
    /// Whether the zone has used up its budget.
    pub is_frugal: bool,
}

/// All places; `C` is what tells networks of clients apart.
#[derive(Debug)]
pub struct Slots<C> {
    places: usize,
    taken: usize,
    clients: Groups<C>,
    zones: Groups<Box<[u8]>>,
}

/// Who holds how many places, and what they owe.
#[derive(Debug)]
struct Groups<G> {
    held: HashMap<G, usize>,
    budgets: Budgets,
}

impl<C: Clone + Eq + Hash> Slots<C> {
    /// So many free places.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self { places, taken: 0, clients: Groups::new(CLIENTS), zones: Groups::new(ZONE) }
    }

    /// Takes a place for a question about `name` (wire format) of these clients. `None`: its clients or
    /// its zone have their share of places, or its clients have used up their time.
    pub fn take(&mut self, clients: C, name: &[u8], now: Duration) -> Option<TakenSlot<C>> {
        let zone = zone_of(name)?;
        let share = (self.places - self.taken).div_ceil(2);
        let is_busy = self.taken >= self.places / IDLE;
        if self.clients.held_by(&clients) >= share
            || self.zones.held_by(&zone) >= share
            || is_busy && self.clients.budgets.is_spent(&clients, now)
        {
            return None;
        }
        self.taken += 1;
        self.clients.hold(clients.clone());
        self.zones.hold(zone.clone());
        let is_frugal = self.zones.budgets.is_spent(&zone, now);
        Some(TakenSlot { clients, zone, is_frugal })
    }

    /// Gives a place back, and says what validation has cost there.
    pub fn give_back(&mut self, place: TakenSlot<C>, cost: Cost, now: Duration) {
        let cost_us = cost.work_us();
        self.clients.budgets.charge(&place.clients, cost_us, now);
        self.zones.budgets.charge(&place.zone, cost_us.saturating_sub(USUAL_US), now);
        self.taken -= 1;
        self.clients.give_back(&place.clients);
        self.zones.give_back(&place.zone);
    }
}

impl<G: Eq + Hash> Groups<G> {
    fn new(share: Share) -> Self {
        Self { held: HashMap::new(), budgets: Budgets::new(share) }
    }

    fn held_by(&self, group: &G) -> usize {
        self.held.get(group).copied().unwrap_or(0)
    }

    fn hold(&mut self, group: G) {
        *self.held.entry(group).or_default() += 1;
    }

    fn give_back(&mut self, group: &G) {
        if let Some(count) = self.held.get_mut(group) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(group);
            }
        }
    }
}

impl<C> TakenSlot<C> {
    /// The limits of the reply in it.
    pub fn limits(&self) -> ValidatorLimits {
        let limits = ValidatorLimits::default();
        if self.is_frugal { limits.frugal() } else { limits }
    }
}

/// What counts as the zone of a name (wire format), as long as nothing is known of cuts; `None`: it is no name.
#[must_use]
pub fn zone_of(name: &[u8]) -> Option<Box<[u8]>> {
    let name = name::checked(name)?;
    Some(name::last(&name, ZONE_LABELS).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::name;

    const START: Duration = Duration::from_secs(1000);

    /// What takes so many checks of 60 microseconds.
    fn cost(checks: u32) -> Cost {
        Cost { checks, check_us: 60 * checks, ..Cost::default() }
    }

    #[test]
    fn audit_03_neither_a_clients_network_nor_a_zone_takes_more_than_a_third() {
        let mut slots = Slots::new(900);
        let mut places = Vec::new();
        // One zone, from everywhere.
        for n in 0..2000 {
            places.extend(slots.take((n % 250) as u8, &name("x.evil.example"), START));
        }
        assert_eq!(places.len(), 300);
        assert!(slots.take(251, &name("www.evil.example"), START).is_none());
        // One network, about everything.
        for n in 0..2000 {
            places.extend(slots.take(252, &name(&format!("x.e{n}.example")), START));
        }
        assert_eq!(places.len(), 500, "half of what is free after each");
        for n in 0..50_u8 {
            let place = slots.take(n, &name(&format!("www.good{n}.example")), START);
            places.push(place.expect("others have places"));
        }
        for place in places {
            slots.give_back(place, Cost::default(), START);
        }
        assert_eq!((slots.taken, slots.clients.held.len(), slots.zones.held.len()), (0, 0, 0));
    }

    #[test]
    fn the_last_place_is_for_somebody_who_has_none() {
        let mut slots = Slots::new(2);
        let first = slots.take(1, &name("a.b"), START).unwrap();
        assert!(slots.take(1, &name("c.d"), START).is_none(), "one has its share");
        assert!(slots.take(2, &name("x.a.b"), START).is_none(), "so has the zone");
        let second = slots.take(2, &name("e.f"), START).unwrap();
        assert!(slots.take(3, &name("g.h"), START).is_none(), "there is none left");
        slots.give_back(first, Cost::default(), START);
        assert!(slots.take(3, &name("g.h"), START).is_some());
        slots.give_back(second, Cost::default(), START);
    }

    #[test]
    fn audit_03_a_zone_that_costs_too_much_is_cut_short_and_others_are_not() {
        let mut slots = Slots::new(100);
        let mut asked = 0;
        // Each from another network, so that it is the zone that pays.
        for n in 0..1000_u32 {
            let place = slots.take(n, &name(&format!("x{n}.evil.example")), START).unwrap();
            asked += u32::from(!place.is_frugal);
            slots.give_back(place, cost(64), START);
        }
        let excess = 64 * 60 - USUAL_US;
        assert_eq!(asked, ZONE.burst.as_micros() as u32 / excess + 1);
        let is_frugal = |slots: &mut Slots<u32>, owner: &str, now| {
            let place = slots.take(2000, &name(owner), now).unwrap();
            let is_frugal = place.is_frugal;
            assert_eq!(place.limits() == ValidatorLimits::default(), !is_frugal);
            slots.give_back(place, Cost::default(), now);
            is_frugal
        };
        assert!(is_frugal(&mut slots, "www.evil.example", START));
        assert!(!is_frugal(&mut slots, "www.good.example", START));
        assert!(!is_frugal(&mut slots, "www.evil.example", START + 6 * Duration::from_secs(1)));
    }

    #[test]
    fn audit_03_to_ask_about_an_honest_zone_does_not_use_up_its_budget() {
        let mut slots = Slots::new(100);
        for n in 0..100_000_u32 {
            let place = slots.take(n % 100, &name("www.good.example"), START).unwrap();
            assert!(!place.is_frugal);
            slots.give_back(place, cost(16), START);
        }
    }

    #[test]
    fn audit_03_clients_that_cause_too_much_work_wait_and_others_do_not() {
        let mut slots = Slots::new(100);
        let mut served = 0;
        for n in 0..1000_u32 {
            let zone = name(&format!("www.good{n}.example"));
            let Some(place) = slots.take(1, &zone, START) else { continue };
            slots.give_back(place, cost(32), START);
            served += 1;
        }
        assert_eq!(served, 1000, "nobody else needs the time");
        // Now an eighth of the places is taken by others.
        let held: Vec<_> =
            (100..113).map(|n| slots.take(n, &name(&format!("a.b{n}")), START).unwrap()).collect();
        let one = name("www.good.example");
        assert!(slots.take(1, &one, START).is_none());
        let other = slots.take(2, &one, START).expect("others are not held up");
        let later = START + Duration::from_secs(2);
        let paid = slots.take(1, &one, later).expect("its debt is paid");
        for place in held.into_iter().chain([other, paid]) {
            slots.give_back(place, Cost::default(), later);
        }
        assert_eq!(slots.taken, 0);
    }
}
