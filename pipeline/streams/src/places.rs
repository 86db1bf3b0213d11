//! The places that connections hold: so many in all, and so many for the clients of one prefix, over all transports.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pmdns_config::Config;
use pmdns_nics::counters::count;
use pmdns_nics::stream::{IdleTime, Transport};
use tokio::sync::watch;

use crate::counters::AllCounters;
use crate::load::Load;
use crate::lock::lock;
use crate::prefix::{ClientPrefix, PrefixCounts, PrefixLengths};

/// The places of all connections. Cloning it gives another handle to the same places.
#[derive(Clone, Debug)]
pub struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    held: Mutex<Held>,
    most: usize,
    most_of_prefix: usize,
    lengths: PrefixLengths,
    load: watch::Sender<Load>,
    calm: Duration,
    /// What clients are told.
    told: IdleTime,
    counters: AllCounters,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    by_prefix: PrefixCounts,
}

/// A place of a connection. Dropping it gives it back.
#[derive(Debug)]
pub struct Place {
    places: Arc<Shared>,
    prefix: ClientPrefix,
    transport: Transport,
}

impl Places {
    /// All places are free. `told` is what clients are told of how long an idle connection lasts.
    pub fn new(config: &Config, counters: AllCounters, told: IdleTime) -> Self {
        let settings = &config.streams;
        let calm = Duration::from_millis(settings.idle_timeout_ms);
        told.set(calm);
        Self(Arc::new(Shared {
            held: Mutex::default(),
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
    pub fn enter(&self, client: SocketAddr, transport: Transport) -> Option<Place> {
        let (places, counters) = (&self.0, self.0.counters.of(transport));
        let prefix = places.lengths.prefix(client);
        let mut held = lock(&places.held);
        if held.all >= places.most {
            count(&counters.refused_full);
            return None;
        }
        if held.by_prefix.of(prefix) >= places.most_of_prefix {
            count(&counters.refused_prefix);
            return None;
        }
        held.by_prefix.add(prefix);
        held.all += 1;
        places.note_load(held.all);
        drop(held);
        count(&counters.accepted);
        count(&counters.open);
        Some(Place { places: Arc::clone(places), prefix, transport })
    }

    /// Whether a client should show that it is at its address, because places are few. Fewer than half are free, or its prefix
    /// has a quarter of its own.
    pub(crate) fn are_few_for(&self, client: SocketAddr) -> bool {
        let places = &self.0;
        let held = lock(&places.held);
        Load::of(held.all, places.most) != Load::Low
            || held.by_prefix.of(places.lengths.prefix(client)) >= places.most_of_prefix / 4
    }

    /// The load, and news of it.
    pub fn load(&self) -> watch::Receiver<Load> {
        self.0.load.subscribe()
    }
}

impl Shared {
    fn note_load(&self, taken: usize) {
        let load = Load::of(taken, self.most);
        let is_news = |known: &mut Load| std::mem::replace(known, load) != load;
        if self.load.send_if_modified(is_news) {
            self.told.set(load.idle_time(self.calm));
        }
    }
}

impl Place {
    /// How its client asks.
    pub(crate) fn transport(&self) -> Transport {
        self.transport
    }

    /// Makes it the place of `client`, for whom a proxy has connected. `false`: the client's prefix has no place left, which is
    /// counted.
    pub(crate) fn move_to(&mut self, client: SocketAddr) -> bool {
        let places = &self.places;
        let prefix = places.lengths.prefix(client);
        let mut held = lock(&places.held);
        held.by_prefix.take_away(self.prefix);
        held.by_prefix.add(prefix);
        self.prefix = prefix;
        let has_place = held.by_prefix.of(prefix) <= places.most_of_prefix;
        if !has_place {
            count(&places.counters.of(self.transport).refused_prefix);
        }
        has_place
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = lock(&self.places.held);
        held.all -= 1;
        held.by_prefix.take_away(self.prefix);
        self.places.note_load(held.all);
        drop(held);
        let open: &AtomicU64 = &self.places.counters.of(self.transport).open;
        open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;

    #[test]
    fn places_are_counted_in_all_and_of_a_prefix_over_all_transports() {
        let config = config("max_connections = 4\nmax_connections_per_prefix = 2");
        let counters = AllCounters::default();
        let places = Places::new(&config, counters.clone(), IdleTime::default());
        let enter = |host: u8, transport| places.enter(([10, 0, host, 1], 1).into(), transport);
        let first = enter(1, Transport::Tcp).unwrap();
        let second = enter(1, Transport::Quic).unwrap();
        assert!(enter(1, Transport::Https).is_none());
        let (third, fourth) = (enter(2, Transport::Tls), enter(3, Transport::Tls));
        assert!(third.is_some() && fourth.is_some() && enter(4, Transport::Tls).is_none());
        drop((first, second));
        assert!(enter(1, Transport::Https).is_some());
        let report = counters.report();
        let refused =
            |at: usize| (report[at].counters.refused_full, report[at].counters.refused_prefix);
        assert_eq!([refused(0), refused(1), refused(2)], [(0, 0), (1, 0), (0, 1)]);
        assert_eq!(report.iter().map(|one| one.counters.open).sum::<u64>(), 2);
    }

    #[test]
    fn places_are_few_for_a_prefix_that_has_a_quarter_of_its_own() {
        let few = |keys: &str, held: &[u8], host: u8| {
            let places = Places::new(&config(keys), AllCounters::default(), IdleTime::default());
            let address = |host: u8| ([10, 0, host, 1], 1).into();
            let enter = |host: &u8| places.enter(address(*host), Transport::Quic).unwrap();
            let _held: Vec<Place> = held.iter().map(enter).collect();
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
        let places = Places::new(&config, AllCounters::default(), told.clone());
        assert_eq!((*places.load().borrow(), told.tenths()), (Load::Low, 300));
        let enter = |_| places.enter(([10, 0, 0, 1], 1).into(), Transport::Tcp).unwrap();
        let held: Vec<Place> = (0..9).map(enter).collect();
        assert_eq!((*places.load().borrow(), told.tenths()), (Load::Full, 0));
        drop(held);
        assert_eq!((*places.load().borrow(), told.tenths()), (Load::Low, 300));
    }
}
