//! The queries of one thread's clients that are under way. Pure: it is told the time.
//!
//! Places are shared by client prefix ([`pmdns_config::shares`]): when all are taken, the prefix with most queries under way
//! loses its oldest one to a prefix with fewer.

use std::sync::{Arc, Mutex};

use pmdns_config::ClientPrefix;
use pmdns_config::narrow::to_u16;
use pmdns_config::shares::{Entered, ShareTable, Ticket};
use pmdns_nics::stream::{StreamToken, Transport};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::answer::AnswerMessage;
use crate::reader::Reader;

/// The most places: their numbers have 16 bits.
const MAX_PLACES: usize = 1 << 16;

/// A query that waits for its answer.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) give: oneshot::Sender<AnswerMessage>,
    pub(crate) expires: Instant,
    pub(crate) prefix: ClientPrefix,
    pub(crate) transport: Transport,
    /// Who reads the answer.
    pub(crate) reader: Arc<Reader>,
    /// What a refusal needs of it.
    pub(crate) query: Box<[u8]>,
}

/// The places of queries. The frames of a query carry the number of its place and how often that was used before.
#[derive(Debug)]
pub(crate) struct StreamQueryTable {
    thread: u8,
    places: ShareTable<ClientPrefix, Waiting>,
}

/// What came of a query that was to get a place.
pub(crate) struct Opened {
    /// Its token, or itself: no prefix has more queries under way than its own.
    pub(crate) result: Result<StreamToken, Waiting>,
    /// What lost its place to it.
    pub(crate) displaced: Vec<Waiting>,
}

/// The queries of one thread, which only this thread asks for. So nobody waits for the lock.
pub(crate) type SharedTable = Arc<Mutex<StreamQueryTable>>;

impl StreamQueryTable {
    /// A table of `capacity` places, at most 65,536.
    pub(crate) fn new(thread: u8, capacity: usize) -> Self {
        Self { thread, places: ShareTable::new(capacity.clamp(1, MAX_PLACES)) }
    }

    /// Gives a query a place.
    pub(crate) fn open(&mut self, waiting: Waiting) -> Opened {
        let Entered { result, displaced } = self.places.enter(waiting.prefix, waiting);
        Opened { result: result.map(|ticket| self.token(ticket)), displaced }
    }

    /// Takes a query out. `None`: it has been taken out before.
    pub(crate) fn close(&mut self, token: StreamToken) -> Option<Waiting> {
        self.places.leave(Ticket { place: token.place.into(), serial: token.generation })
    }

    /// Queries that wait.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn len(&self) -> usize {
        self.places.shares().held()
    }

    /// Takes out all queries whose time has passed.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<Waiting> {
        let due = self.places.iter().filter(|(_, waiting)| waiting.expires <= now);
        let due: Vec<Ticket> = due.map(|(ticket, _)| ticket).collect();
        due.into_iter().filter_map(|ticket| self.places.leave(ticket)).collect()
    }

    fn token(&self, Ticket { place, serial }: Ticket) -> StreamToken {
        StreamToken { thread: self.thread, place: to_u16(place as usize), generation: serial }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::prefix;

    fn waiting(host: u8, expires: Instant) -> Waiting {
        let (give, transport) = (oneshot::channel().0, Transport::Tcp);
        let (reader, query) = (Arc::default(), [host].into());
        Waiting { give, expires, prefix: prefix(host), transport, reader, query }
    }

    /// Opens a query of a host, and returns the hosts that lost one for it; `None`: it got no place.
    fn open(table: &mut StreamQueryTable, host: u8, now: Instant) -> Option<Vec<u8>> {
        let Opened { result, displaced } = table.open(waiting(host, now));
        let hosts = displaced.iter().map(|waiting| waiting.query[0]).collect();
        result.is_ok().then_some(hosts)
    }

    #[test]
    fn attack_b_prefixes_with_slow_questions_lose_places_to_a_newcomer() {
        let now = Instant::now();
        let mut table = StreamQueryTable::new(0, 8);
        for host in [1, 2, 3, 4, 1, 2, 3, 4] {
            assert_eq!(open(&mut table, host, now), Some(vec![]));
        }
        assert_eq!(open(&mut table, 5, now), Some(vec![1]), "a newcomer always gets in");
        assert_eq!(open(&mut table, 2, now), None, "who has most displaces nobody");
        assert_eq!(open(&mut table, 6, now), Some(vec![2]));
        assert_eq!(table.len(), 8);
    }

    #[test]
    fn an_answer_that_is_late_finds_nobody() {
        let now = Instant::now();
        let mut table = StreamQueryTable::new(7, 4);
        let late = table.open(waiting(1, now)).result.unwrap();
        let other = table.open(waiting(2, now + Duration::from_secs(2))).result.unwrap();
        assert_eq!(table.expire(now + Duration::from_secs(1)).len(), 1);
        assert!(table.close(late).is_none());
        let next = table.open(waiting(3, now)).result.unwrap();
        assert_eq!((next.thread, next.place), (7, late.place), "the place is used again");
        assert!(table.close(late).is_none(), "and the old token is none for it");
        assert!(table.close(other).is_some() && table.close(next).is_some());
        assert_eq!(table.len(), 0);
    }
}
