//! The queries of one thread's clients that are under way. Pure: it is told the time.

use std::sync::{Arc, Mutex};

use pmdns_config::narrow::to_u16;
use pmdns_nics::stream::{StreamToken, Transport};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::answer::Answer;
use crate::prefix::{ClientPrefix, PrefixCounts};

/// The clients of one prefix may have one part in so many of the places. So a flood of one network leaves room for others.
const PREFIX_PART: usize = 4;

/// A query that waits for its answer.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) give: oneshot::Sender<Answer>,
    pub(crate) expires: Instant,
    pub(crate) prefix: ClientPrefix,
    pub(crate) transport: Transport,
}

#[derive(Debug, Default)]
struct Place {
    generation: u32,
    waiting: Option<Waiting>,
}

/// The places of queries. The frames of a query carry the number of its place and how often that was used before.
#[derive(Debug)]
pub(crate) struct Table {
    thread: u8,
    places: Vec<Place>,
    free: Vec<u16>,
    by_prefix: PrefixCounts,
}

/// The queries of one thread, which only this thread asks for. So nobody waits for the lock.
pub(crate) type SharedTable = Arc<Mutex<Table>>;

impl Table {
    /// A table of `capacity` places, at most 65,536.
    pub(crate) fn new(thread: u8, capacity: usize) -> Self {
        let capacity = capacity.clamp(1, 1 << 16);
        let places = (0..capacity).map(|_| Place::default()).collect();
        let free = (0..capacity).rev().map(to_u16).collect();
        Self { thread, places, free, by_prefix: PrefixCounts::default() }
    }

    /// Gives a query a place. `None`: all are taken, or its prefix has its part.
    pub(crate) fn open(&mut self, waiting: Waiting) -> Option<StreamToken> {
        let prefix = waiting.prefix;
        let most = (self.places.len() / PREFIX_PART).max(1);
        if self.by_prefix.of(prefix) >= most {
            return None;
        }
        let place = self.free.pop()?;
        self.by_prefix.add(prefix);
        let entry = &mut self.places[usize::from(place)];
        entry.waiting = Some(waiting);
        Some(StreamToken { thread: self.thread, place, generation: entry.generation })
    }

    /// Takes a query out. `None`: it has been taken out before.
    pub(crate) fn close(&mut self, token: StreamToken) -> Option<Waiting> {
        let place = self.places.get_mut(usize::from(token.place))?;
        if place.generation != token.generation {
            return None;
        }
        let waiting = place.waiting.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(token.place);
        self.by_prefix.take_away(waiting.prefix);
        Some(waiting)
    }

    /// Queries that wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Takes out all queries whose time has passed.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<Waiting> {
        let expired = |(place, entry): (usize, &Place)| {
            let is_due = entry.waiting.as_ref().is_some_and(|waiting| waiting.expires <= now);
            let (thread, generation) = (self.thread, entry.generation);
            is_due.then(|| StreamToken { thread, place: to_u16(place), generation })
        };
        let expired: Vec<StreamToken> =
            self.places.iter().enumerate().filter_map(expired).collect();
        expired.into_iter().filter_map(|token| self.close(token)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pmdns_config::RateLimit;

    use super::*;
    use crate::prefix::PrefixLengths;

    fn waiting(host: u8, expires: Instant) -> Waiting {
        let lengths = PrefixLengths::of(&RateLimit { ipv4_prefix: 32, ..RateLimit::default() });
        let prefix = lengths.prefix(([10, 0, 0, host], 1).into());
        Waiting { give: oneshot::channel().0, expires, prefix, transport: Transport::Tcp }
    }

    #[test]
    fn one_prefix_leaves_places_for_others() {
        let now = Instant::now();
        let mut table = Table::new(0, 8);
        assert!(table.open(waiting(1, now)).is_some());
        let token = table.open(waiting(1, now)).unwrap();
        assert!(table.open(waiting(1, now)).is_none(), "two of eight are its part");
        assert!(table.close(token).is_some() && table.open(waiting(1, now)).is_some());
        for host in [2, 2, 3, 3, 4, 4] {
            assert!(table.open(waiting(host, now)).is_some());
        }
        assert!(table.open(waiting(5, now)).is_none(), "all are taken");
    }

    #[test]
    fn an_answer_that_is_late_finds_nobody() {
        let now = Instant::now();
        let mut table = Table::new(7, 4);
        let late = table.open(waiting(1, now)).unwrap();
        let other = table.open(waiting(2, now + Duration::from_secs(2))).unwrap();
        assert_eq!(table.expire(now + Duration::from_secs(1)).len(), 1);
        assert!(table.close(late).is_none());
        let next = table.open(waiting(3, now)).unwrap();
        assert_eq!((next.thread, next.place), (7, late.place), "the place is used again");
        assert!(table.close(late).is_none(), "and the old token is none for it");
        assert!(table.close(other).is_some() && table.close(next).is_some());
        assert!(table.by_prefix.is_empty());
    }
}
