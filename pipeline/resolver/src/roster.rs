//! The roster: which upstream is in which slot. All of the slow path names upstreams by their slots. An upstream keeps its slot
//! over reloads, and so its health, its counters and the queries under way to it.

use std::sync::Arc;

use pmdns_config::limits::MAX_UPSTREAMS;
use pmdns_config::{Config, Upstream};

use crate::counters::UpstreamCounters;

/// Why a configuration's upstreams cannot be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RosterError {
    /// The ways over ports are laid out at the start.
    #[error(
        "an upstream that is asked over a port and was not there at the start needs another process, or no port"
    )]
    OverPort,
    /// The slots of upstreams over ports are kept for these.
    #[error(
        "there is no room for another upstream beside those that left; another process has room"
    )]
    Full,
}

/// The upstreams by slot.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    slots: Vec<Slot>,
}

/// One upstream.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its settings.
    pub upstream: Upstream,
    /// The port by which it is asked; `None`: by sockets of the kernel.
    pub port: Option<usize>,
    /// Its counters, which all threads share. Two slots with the same counters have the same upstream.
    pub counters: Arc<UpstreamCounters>,
    /// Its place in the configuration in use; `None`: it has left, and is not asked.
    pub place: Option<usize>,
}

impl Slot {
    fn new(config: &Config, place: usize) -> Self {
        let upstream = config.upstreams[place].clone();
        let port = config.upstream_port(&upstream);
        Self { upstream, port, counters: Arc::default(), place: Some(place) }
    }

    /// Whether both have the same upstream.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.counters, &other.counters)
    }
}

impl Roster {
    /// The upstreams of a configuration, in its order.
    pub fn new(config: &Config) -> Self {
        Self { slots: (0..config.upstreams.len()).map(|place| Slot::new(config, place)).collect() }
    }

    /// The upstreams of another configuration. Those that are in both keep their slots. The others get new ones, then those of
    /// upstreams that left. An error comes with the place of its upstream.
    pub fn with_config(&self, config: &Config) -> Result<Self, (usize, RosterError)> {
        let mut slots = self.slots.clone();
        slots.iter_mut().for_each(|slot| slot.place = None);
        let mut fresh = Vec::new();
        for (place, upstream) in config.upstreams.iter().enumerate() {
            let is_it =
                |slot: &&mut Slot| slot.place.is_none() && slot.upstream.is_asked_as(upstream);
            match slots.iter_mut().find(is_it) {
                Some(slot) => {
                    slot.place = Some(place);
                    slot.upstream.clone_from(upstream);
                }
                None if upstream.port.is_some() => return Err((place, RosterError::OverPort)),
                None => fresh.push(Slot::new(config, place)),
            }
        }
        for slot in fresh {
            let (place, has_room) = (slot.place, slots.len() < MAX_UPSTREAMS);
            // A slot with a way over a port is the only one for its upstream, should that come back.
            let is_free = |slot: &Slot| slot.place.is_none() && slot.port.is_none();
            match slots.iter().position(is_free) {
                _ if has_room => slots.push(slot),
                Some(free) => slots[free] = slot,
                None => return Err((place.unwrap_or_default(), RosterError::Full)),
            }
        }
        Ok(Self { slots })
    }

    /// All slots.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The slots in use with their numbers, in the order of the configuration.
    pub fn in_use(&self) -> Vec<(usize, &Slot)> {
        let mut in_use: Vec<_> =
            self.slots.iter().enumerate().filter(|(_, slot)| slot.place.is_some()).collect();
        in_use.sort_by_key(|(_, slot)| slot.place);
        in_use
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(addresses: &[&str]) -> Config {
        let upstreams = addresses.iter().map(|address| Upstream::at(address.parse().unwrap()));
        Config { upstreams: upstreams.collect(), ..Config::default() }
    }

    fn slots(roster: &Roster) -> Vec<(usize, String)> {
        let named = |(number, slot): (usize, &Slot)| (number, slot.upstream.address.to_string());
        roster.in_use().into_iter().map(named).collect()
    }

    const A: &str = "192.0.2.1:53";
    const B: &str = "192.0.2.2:53";
    const C: &str = "192.0.2.3:53";

    #[test]
    fn who_stays_keeps_slot_and_counters() {
        let first = Roster::new(&config(&[A, B]));
        let next = first.with_config(&config(&[C, B])).unwrap();
        assert_eq!(slots(&next), [(2, C.into()), (1, B.into())], "in the order of the file");
        assert!(next.slots()[1].is_same(&first.slots()[1]));
        assert_eq!(next.slots()[0].place, None);
        let mut back = config(&[A]);
        back.upstreams[0].timeout_ms = 123;
        let back = next.with_config(&back).unwrap();
        assert_eq!(slots(&back), [(0, A.into())]);
        assert!(back.slots()[0].is_same(&first.slots()[0]), "it came back");
        assert_eq!(back.slots()[0].upstream.timeout_ms, 123, "its settings are new");
    }

    #[test]
    fn another_way_to_the_same_address_is_another_upstream() {
        let first = Roster::new(&config(&[A]));
        let mut other = config(&[A]);
        other.upstreams[0].source = Some([192, 0, 2, 9].into());
        let next = first.with_config(&other).unwrap();
        assert!(!next.slots()[1].is_same(&first.slots()[0]));
        let twice = first.with_config(&config(&[A, A])).unwrap();
        assert_eq!(twice.in_use().len(), 2);
        assert!(!twice.slots()[1].is_same(&twice.slots()[0]), "each has its own slot");
    }

    #[test]
    fn slots_are_used_again_only_when_there_are_no_more() {
        let mut roster = Roster::new(&config(&[]));
        for number in 0..2 * MAX_UPSTREAMS {
            roster = roster.with_config(&config(&[&format!("192.0.2.{number}:53")])).unwrap();
            assert_eq!(roster.in_use().len(), 1);
        }
        assert_eq!(roster.slots().len(), MAX_UPSTREAMS);
        let all: Vec<_> =
            (0..MAX_UPSTREAMS).map(|number| format!("198.51.100.{number}:53")).collect();
        let all: Vec<_> = all.iter().map(|address| &**address).collect();
        assert_eq!(roster.with_config(&config(&all)).unwrap().in_use().len(), MAX_UPSTREAMS);
    }

    #[test]
    fn ways_over_ports_are_those_of_the_start() {
        let over = |addresses: &[&str]| {
            let mut config = config(addresses);
            config.upstreams.iter_mut().for_each(|one| one.port = Some("edge".into()));
            config
        };
        let first = Roster::new(&over(&[A]));
        assert_eq!(first.with_config(&over(&[A, B])).unwrap_err(), (1, RosterError::OverPort));
        let gone = first.with_config(&config(&[B])).unwrap();
        assert_eq!(slots(&gone.with_config(&over(&[A])).unwrap()), [(0, A.into())]);
    }
}
