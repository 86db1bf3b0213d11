//! Floods of random names: zones with many different misses in a second of which few have an answer. Pure: it is told the time.
//!
//! The zones of a second stand in a table of sets. A new zone takes the place of the one of its set with fewest misses. So a zone
//! with many misses stays, whatever else comes.

use std::collections::BTreeMap;

use pmdns_config::narrow::low_u16;
use pmdns_stages::wire::name::Seed;

use super::distinct::Distinct;
use super::sketch::Key;

/// Sets of the table, a power of two, and the zones of a set.
const SETS: usize = 128;
const WAYS: usize = 8;
/// Floods that are known at once.
pub(super) const MAX_FLOODS: usize = 64;
/// Seconds over the bounds that make a flood. One alone may be a burst whose answers are on their way.
const BEGINS: u64 = 2;
/// Seconds below the bounds that end it.
const ENDS: u64 = 10;

/// When a zone is flooded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Different names a second that miss.
    pub(super) names: u64,
    /// Misses without an answer, in percent.
    pub(super) share: u64,
}

/// A flooded zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flood {
    /// The second in which it began.
    pub(super) since: u64,
    /// The last second over the bounds, and how many there were.
    last: u64,
    over: u64,
    /// Different names in that second, about.
    pub(super) names: u64,
    /// Misses in that second.
    pub(super) misses: u64,
    /// Misses with an answer in that second.
    pub(super) answered: u64,
}

impl Flood {
    /// Whether it has lasted long enough to be one.
    fn is_one(&self) -> bool {
        self.over >= BEGINS
    }
}

/// News of a flood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    Began(Key, Flood),
    Ended(Key),
}

/// A zone in the second under way.
#[derive(Debug, Default)]
struct Zone {
    name: Vec<u8>,
    misses: u64,
    answered: u64,
    names: Distinct,
}

/// Which zones are flooded.
#[derive(Debug)]
pub(super) struct Floods {
    bounds: Bounds,
    seed: Seed,
    zones: Vec<Zone>,
    floods: BTreeMap<Key, Flood>,
}

impl Floods {
    pub(super) fn new(bounds: Bounds, seed: Seed) -> Self {
        let zones = std::iter::repeat_with(Zone::default).take(SETS * WAYS).collect();
        Self { bounds, seed, zones, floods: BTreeMap::new() }
    }

    /// A name below a zone misses.
    pub(super) fn miss(&mut self, zone: &[u8], name: &[u8]) {
        let set = self.set_of(zone);
        let set = &mut self.zones[set];
        let place = match set.iter().position(|one| one.name == zone && one.misses > 0) {
            Some(place) => place,
            None => {
                let fewest = (0..WAYS).min_by_key(|place| set[*place].misses).unwrap_or(0);
                let Zone { name, misses, answered, names } = &mut set[fewest];
                name.clear();
                name.extend_from_slice(zone);
                (*misses, *answered, *names) = (0, 0, Distinct::default());
                fewest
            }
        };
        let zone = &mut set[place];
        zone.misses += 1;
        zone.names.add(self.seed.mix(self.seed.hash(name), 0));
    }

    /// A miss below a zone has an answer.
    pub(super) fn answer(&mut self, zone: &[u8]) {
        let set = self.set_of(zone);
        let of_set = self.zones[set].iter_mut();
        if let Some(one) = of_set.into_iter().find(|one| one.name == zone && one.misses > 0) {
            one.answered += 1;
        }
    }

    /// The second with this number is over.
    pub(super) fn end_second(&mut self, second: u64) -> Vec<News> {
        let Bounds { names, share } = self.bounds;
        let mut over = Vec::new();
        for zone in &mut self.zones {
            let misses = std::mem::take(&mut zone.misses);
            let unanswered = misses.saturating_sub(zone.answered);
            // There are no more different names than misses.
            if misses >= names && unanswered * 100 >= misses * share {
                let different = zone.names.estimate().min(misses);
                if different >= names {
                    over.push((misses, different, zone.answered, Key::from(&zone.name[..])));
                }
            }
        }
        over.sort_unstable_by(|one, other| other.cmp(one));
        let mut news = Vec::new();
        for (misses, names, answered, zone) in over {
            let has_place = self.floods.len() < MAX_FLOODS || self.floods.contains_key(&zone);
            if !has_place && !self.displace_smallest(misses, &mut news) {
                continue;
            }
            let begin = || Flood { since: second, ..Flood::default() };
            let flood = self.floods.entry(Key::clone(&zone)).or_insert_with(begin);
            if !flood.is_one() && flood.last + 1 < second {
                *flood = begin();
            }
            let over = flood.over + 1;
            *flood = Flood { since: flood.since, last: second, over, names, misses, answered };
            if over == BEGINS {
                news.push(News::Began(zone, *flood));
            }
        }
        self.floods.retain(|zone, flood| {
            let stays = flood.last + if flood.is_one() { ENDS } else { 1 } > second;
            if !stays && flood.is_one() {
                news.push(News::Ended(Key::clone(zone)));
            }
            stays
        });
        news
    }

    /// Forgets the flood with fewest misses, if these are fewer than so many.
    fn displace_smallest(&mut self, misses: u64, news: &mut Vec<News>) -> bool {
        let smallest = self.floods.iter().min_by_key(|(_, flood)| flood.misses);
        let smaller = smallest.filter(|(_, flood)| flood.misses < misses);
        let Some((zone, flood)) = smaller.map(|(zone, flood)| (Key::clone(zone), *flood)) else {
            return false;
        };
        self.floods.remove(&zone);
        if flood.is_one() {
            news.push(News::Ended(zone));
        }
        true
    }

    /// The flooded zones.
    pub(super) fn list(&self) -> impl Iterator<Item = (&Key, &Flood)> {
        self.floods.iter().filter(|(_, flood)| flood.is_one())
    }

    fn set_of(&self, zone: &[u8]) -> std::ops::Range<usize> {
        let set = usize::from(low_u16(self.seed.hash(zone))) % SETS;
        set * WAYS..(set + 1) * WAYS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: &[u8] = b"\x06victim\x04test\0";

    fn floods() -> Floods {
        Floods::new(Bounds { names: 100, share: 80 }, Seed::new(*b"sixteen letters!"))
    }

    fn child(number: u32, zone: &[u8]) -> Vec<u8> {
        [&[4][..], &number.to_be_bytes(), zone].concat()
    }

    /// A second in which so many different names of the zone come, each twice, and so many have an answer.
    fn second(floods: &mut Floods, second: u64, names: u32, answered: u32) -> Vec<News> {
        for number in (0..names).flat_map(|number| [number; 2]) {
            floods.miss(ZONE, &child(number, ZONE));
        }
        (0..answered).for_each(|_| floods.answer(ZONE));
        floods.end_second(second)
    }

    #[test]
    fn a_flood_begins_in_its_second_second_and_ends_after_ten_quiet_ones() {
        let mut floods = floods();
        assert_eq!(second(&mut floods, 1, 1000, 0), []);
        assert_eq!(floods.list().count(), 0);
        let began = second(&mut floods, 2, 1000, 0);
        let [News::Began(zone, flood)] = &began[..] else { panic!("{began:?}") };
        assert_eq!((&**zone, flood.since, flood.misses), (ZONE, 1, 2000));
        assert!(flood.names.abs_diff(1000) < 260, "{}", flood.names);
        assert_eq!(second(&mut floods, 3, 1000, 0), [], "it is told once");
        for quiet in 4..13 {
            assert_eq!(second(&mut floods, quiet, 10, 0), [], "{quiet}");
            assert_eq!(floods.list().count(), 1);
        }
        assert_eq!(second(&mut floods, 13, 10, 0), [News::Ended(ZONE.into())]);
        assert_eq!(floods.list().count(), 0);
    }

    #[test]
    fn answers_and_repetitions_are_no_flood() {
        let mut floods = floods();
        for at in 0..20 {
            assert_eq!(second(&mut floods, at, 1000, 500), [], "a quarter has an answer");
        }
        for at in 20..40 {
            (0..5000).for_each(|_| floods.miss(ZONE, &child(7, ZONE)));
            assert_eq!(floods.end_second(at), [], "one name");
        }
        for at in (40..80).step_by(2) {
            assert_eq!(second(&mut floods, at, 1000, 0), [], "each other second is none");
        }
    }

    #[test]
    fn a_flood_is_seen_among_many_other_zones() {
        let mut floods = floods();
        let mut news = Vec::new();
        for at in 0..2 {
            for number in 0..1000_u32 {
                floods.miss(ZONE, &child(number, ZONE));
                for other in 0..20_u32 {
                    let zone = child(number * 20 + other, b"\0");
                    floods.miss(&zone, &zone);
                }
            }
            news = floods.end_second(at);
        }
        assert!(matches!(&news[..], [News::Began(zone, _)] if **zone == *ZONE), "{news:?}");
    }

    #[test]
    fn there_is_a_bound_on_floods() {
        let mut floods = floods();
        for at in 0..2 {
            for zone in 0..2 * MAX_FLOODS as u32 {
                let zone = child(zone, b"\0");
                (0..200).for_each(|number| floods.miss(&zone, &child(number, &zone)));
            }
            floods.end_second(at);
        }
        assert_eq!(floods.list().count(), MAX_FLOODS);
        // Many small ones hide no large one.
        second(&mut floods, 2, 300, 0);
        let news = second(&mut floods, 3, 300, 0);
        assert!(news.iter().any(|one| matches!(one, News::Began(zone, _) if **zone == *ZONE)));
        assert!(news.iter().all(|one| !matches!(one, News::Ended(zone) if **zone == *ZONE)));
        assert_eq!(floods.list().count(), MAX_FLOODS);
    }
}
