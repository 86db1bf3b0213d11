//! The places that connections hold: so many in all, and so many for the clients of one prefix, over all transports.
//!
//! Places in all are shared by client prefix ([`pmdns_config::shares`]). When they are taken, a prefix with fewer connections
//! displaces one of the prefix with most: the one that has asked nothing for longest.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pmdns_config::shares::{Entered, ShareTable, Ticket};
use pmdns_config::{ClientPrefix, Config, PrefixLengths};
use pmdns_counters::count;
use pmdns_nics::stream::{IdleTime, Transport};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use crate::counters::AllCounters;
use crate::load::Load;
use crate::lock::lock;

/// The places of all connections. Cloning it gives another handle to the same places.
#[derive(Clone, Debug)]
pub struct ConnectionPlaces(Arc<PlaceTable>);

#[derive(Debug)]
struct PlaceTable {
    held: Mutex<ShareTable<ClientPrefix, Holder>>,
    most: usize,
    most_of_prefix: usize,
    lengths: PrefixLengths,
    load: watch::Sender<Load>,
    calm: Duration,
    /// What clients are told.
    told: IdleTime,
    counters: AllCounters,
}

/// The connection in a place.
#[derive(Debug)]
struct Holder {
    transport: Transport,
    /// Dropping it ends the connection.
    _hold: oneshot::Sender<()>,
}

/// Ends when a connection has lost its place.
pub type Lost = oneshot::Receiver<()>;

/// A place of a connection. Dropping it gives it back.
#[derive(Debug)]
pub struct ConnectionPlace {
    places: Arc<PlaceTable>,
    ticket: Ticket,
    transport: Transport,
}

/// How a connection tells that its client has asked, which makes it the last of its prefix to lose its place.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    places: Arc<PlaceTable>,
    ticket: Ticket,
}

impl ConnectionPlaces {
    /// All places are free. `told` is what clients are told of how long an idle connection lasts.
    pub fn new(config: &Config, counters: AllCounters, told: IdleTime) -> Self {
        let settings = &config.streams;
        let calm = Duration::from_millis(settings.idle_timeout_ms);
        told.set(calm);
        Self(Arc::new(PlaceTable {
            held: Mutex::new(ShareTable::new(settings.max_connections)),
            most: settings.max_connections,
            most_of_prefix: settings.max_connections_per_prefix,
            lengths: PrefixLengths::of(&config.ratelimit),
            load: watch::Sender::new(Load::Low),
            calm,
            told,
            counters,
        }))
    }

    /// A place for a new connection of `client`, or `None` if there is none. Either is counted.
    pub fn enter(
        &self,
        client: SocketAddr,
        transport: Transport,
    ) -> Option<(ConnectionPlace, Lost)> {
        let (places, counters) = (&self.0, self.0.counters.of(transport));
        let prefix = places.lengths.of_peer(client);
        let mut held = lock(&places.held);
        if held.shares().held_by(prefix) >= places.most_of_prefix {
            count(&counters.refused_prefix);
            return None;
        }
        let (hold, lost) = oneshot::channel();
        let Entered { result, displaced } = held.enter(prefix, Holder { transport, _hold: hold });
        places.note_load(held.shares().held());
        drop(held);
        for Holder { transport, .. } in displaced {
            count(&places.counters.of(transport).displaced);
        }
        let Ok(ticket) = result else {
            count(&counters.refused_full);
            return None;
        };
        count(&counters.accepted);
        count(&counters.open);
        Some((ConnectionPlace { places: Arc::clone(places), ticket, transport }, lost))
    }

    /// Whether a client should show that it is at its address, because places are few. Fewer than half are free, or its prefix
    /// has a quarter of its own.
    pub fn are_few_for(&self, client: SocketAddr) -> bool {
        let places = &self.0;
        let held = lock(&places.held);
        let of_prefix = held.shares().held_by(places.lengths.of_peer(client));
        Load::of(held.shares().held(), places.most) != Load::Low
            || of_prefix >= places.most_of_prefix / 4
    }

    /// The load, and news of it.
    pub fn load(&self) -> watch::Receiver<Load> {
        self.0.load.subscribe()
    }

    /// What `work` gives, if that is within the time that a connection has for its first query at the load of each moment.
    ///
    /// The work has memory of its own, which it gives back: a task keeps room for all that it ever waits for.
    pub(crate) fn in_time<T>(
        &self,
        calm: Duration,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = Option<T>> {
        let (begun, mut load, mut work) = (Instant::now(), self.load(), Box::pin(work));
        async move {
            loop {
                let limit = load.borrow_and_update().first_time(calm);
                tokio::select! {
                    biased;
                    done = &mut work => return Some(done),
                    () = sleep_until(begun + limit) => return None,
                    // The sender is in the places, and does not end.
                    _ = load.changed() => {}
                }
            }
        }
    }
}

impl PlaceTable {
    fn note_load(&self, taken: usize) {
        let load = Load::of(taken, self.most);
        let is_news = |known: &mut Load| std::mem::replace(known, load) != load;
        if self.load.send_if_modified(is_news) {
            self.told.set(load.idle_time(self.calm));
        }
    }
}

impl ConnectionPlace {
    /// How its client asks.
    pub(crate) fn transport(&self) -> Transport {
        self.transport
    }

    /// For the code that reads queries.
    pub(crate) fn renewal(&self) -> Renewal {
        Renewal { places: Arc::clone(&self.places), ticket: self.ticket }
    }

    /// Makes it the place of `client`, for whom a proxy has connected. `false`: the client's prefix has no place left, which is
    /// counted.
    pub(crate) fn move_to(&self, client: SocketAddr) -> bool {
        let places = &self.places;
        let prefix = places.lengths.of_peer(client);
        let mut held = lock(&places.held);
        held.pass_on(self.ticket, prefix);
        let has_place = held.shares().held_by(prefix) <= places.most_of_prefix;
        if !has_place {
            count(&places.counters.of(self.transport).refused_prefix);
        }
        has_place
    }
}

impl Renewal {
    /// The client has asked. While places are not few, only the first query counts, and others need no lock.
    pub(crate) fn renew(&self, is_first: bool) {
        if is_first || *self.places.load.borrow() != Load::Low {
            lock(&self.places.held).renew(self.ticket);
        }
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut held = lock(&self.places.held);
        drop(held.leave(self.ticket));
        self.places.note_load(held.shares().held());
        drop(held);
        let open: &AtomicU64 = &self.places.counters.of(self.transport).open;
        open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;
    use crate::testing::config;

    #[test]
    fn places_are_counted_in_all_and_of_a_prefix_over_all_transports() {
        let config = config("max_connections = 4\nmax_connections_per_prefix = 2");
        let counters = AllCounters::default();
        let places = ConnectionPlaces::new(&config, counters.clone(), IdleTime::default());
        let enter = |host: u8, transport| places.enter(([10, 0, host, 1], 1).into(), transport);
        let first = enter(1, Transport::Tcp).unwrap();
        let second = enter(1, Transport::Quic).unwrap();
        assert!(enter(1, Transport::Https).is_none());
        let (third, fourth) = (enter(2, Transport::Tls), enter(3, Transport::Tls));
        assert!(third.is_some() && fourth.is_some());
        let (fifth, _) = enter(4, Transport::Tls).expect("the prefix with two loses one");
        drop(fifth);
        drop((first, second));
        assert!(enter(1, Transport::Https).is_some());
        let report = counters.read();
        let refused = |at: usize| (report[at].1.refused_full, report[at].1.refused_prefix);
        assert_eq!([refused(0), refused(1), refused(2)], [(0, 0), (0, 0), (0, 1)]);
        assert_eq!(report.iter().map(|one| one.1.open).sum::<u64>(), 2);
    }

    #[test]
    fn attack_a_full_places_go_from_the_heaviest_prefix_and_from_who_asks_nothing() {
        let config = config("max_connections = 6\nmax_connections_per_prefix = 6");
        let counters = AllCounters::default();
        let places = ConnectionPlaces::new(&config, counters.clone(), IdleTime::default());
        let enter = |host: u8| places.enter(([10, 0, host, 1], 1).into(), Transport::Tcp);
        let mut held: Vec<(ConnectionPlace, Lost)> =
            [1, 1, 1, 2, 2, 3].into_iter().flat_map(enter).collect();
        held[0].0.renewal().renew(true);
        let (newcomer, _) = enter(4).expect("a newcomer always gets in");
        let is_lost =
            |(_, lost): &mut (ConnectionPlace, Lost)| lost.try_recv() == Err(TryRecvError::Closed);
        let mut lost = || held.iter_mut().map(is_lost).collect::<Vec<bool>>();
        assert_eq!(lost(), [false, true, false, false, false, false], "its oldest without a query");
        assert!(enter(1).is_none(), "who has most displaces nobody");
        let others: Vec<_> = [5, 6].into_iter().flat_map(enter).collect();
        assert_eq!(lost(), [false, true, true, true, false, false], "of all that have two");
        drop((newcomer, others));
        let report = counters.read()[0].1;
        assert_eq!((report.displaced, report.refused_full), (3, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn attack_a_the_time_for_first_bytes_shrinks_with_the_load() {
        let config = config("max_connections = 4");
        let places = ConnectionPlaces::new(&config, AllCounters::default(), IdleTime::default());
        let enter = |host: u8| places.enter(([10, 0, host, 1], 1).into(), Transport::Tcp).unwrap();
        let calm = Duration::from_secs(5);
        let begun = Instant::now();
        assert_eq!(places.in_time(calm, std::future::pending::<()>()).await, None);
        assert_eq!(begun.elapsed(), calm);
        let waiting = places.clone();
        let waiting =
            tokio::spawn(async move { waiting.in_time(calm, std::future::pending::<()>()).await });
        tokio::task::yield_now().await;
        let begun = Instant::now();
        let _held: Vec<(ConnectionPlace, Lost)> = (0..4).map(enter).collect();
        assert_eq!(waiting.await.unwrap(), None);
        assert!(begun.elapsed() <= Duration::from_millis(200), "also for those that wait already");
    }

    #[test]
    fn places_are_few_for_a_prefix_that_has_a_quarter_of_its_own() {
        let few = |keys: &str, held: &[u8], host: u8| {
            let places =
                ConnectionPlaces::new(&config(keys), AllCounters::default(), IdleTime::default());
            let address = |host: u8| ([10, 0, host, 1], 1).into();
            let enter = |host: &u8| places.enter(address(*host), Transport::Quic).unwrap();
            let _held: Vec<(ConnectionPlace, Lost)> = held.iter().map(enter).collect();
            places.are_few_for(address(host))
        };
        let keys = "max_connections = 100\nmax_connections_per_prefix = 8";
        assert!(!few(keys, &[1], 1));
        assert!(few(keys, &[1, 1], 1));
        assert!(!few(keys, &[1, 1], 2), "another prefix has all of its places");
        let keys = "max_connections = 4\nmax_connections_per_prefix = 100";
        assert!(!few(keys, &[1, 1], 1));
        assert!(few(keys, &[1, 1, 1], 2), "fewer than half are free");
        let keys = "max_connections = 100\nmax_connections_per_prefix = 3";
        assert!(few(keys, &[], 1), "one forged address would take a third");
    }

    #[test]
    fn news_of_the_load_is_told_to_connections_and_clients() {
        let config = config("max_connections = 10\nidle_timeout_ms = 30000");
        let told = IdleTime::default();
        let places = ConnectionPlaces::new(&config, AllCounters::default(), told.clone());
        assert_eq!((*places.load().borrow(), told.tenths()), (Load::Low, 300));
        let enter = |_| places.enter(([10, 0, 0, 1], 1).into(), Transport::Tcp).unwrap();
        let held: Vec<(ConnectionPlace, Lost)> = (0..9).map(enter).collect();
        assert_eq!((*places.load().borrow(), told.tenths()), (Load::Full, 0));
        drop(held);
        assert_eq!((*places.load().borrow(), told.tenths()), (Load::Low, 300));
    }
}
