//! The life of an answer is the same over groups of upstreams and over encrypted ones. It is refreshed while it is popular.
//! It is served when it has expired and nobody has a better one. Failures are remembered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use pmdns_config::{Prefetch, Strategy};
use pmdns_stages::testing::query;

use super::rig::{SECOND, Setup, alike};
use super::stale::ask_when_expired;
use super::stub::{Asked, Stub};

/// Ways to ask.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Two upstreams by a strategy.
    Group(Strategy),
    /// One upstream over an encrypted transport.
    Encrypted(&'static str),
}

const WAYS: [Way; 7] = [
    Way::Group(Strategy::RoundRobin),
    Way::Group(Strategy::Fastest),
    Way::Group(Strategy::Parallel),
    Way::Group(Strategy::Hedged),
    Way::Encrypted("tls"),
    Way::Encrypted("https"),
    Way::Encrypted("quic"),
];

/// Tests every way.
fn in_every_way(test: impl Fn(Way)) {
    WAYS.into_iter().for_each(test);
}

/// What all upstreams of a test do.
#[derive(Clone, Default)]
struct Mood {
    /// The TTL of their answers; 0: they fail.
    ttl: Arc<AtomicU32>,
    /// How often they have been asked.
    asked: Arc<AtomicUsize>,
}

impl Mood {
    fn answering(ttl: u32) -> Self {
        let mood = Self::default();
        mood.answer(ttl);
        mood
    }

    fn answer(&self, ttl: u32) {
        self.ttl.store(ttl, Ordering::Relaxed);
    }

    fn fail(&self) {
        self.answer(0);
    }

    fn reply(&self, asked: &Asked) -> Vec<u8> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.ttl.load(Ordering::Relaxed) {
            0 => asked.rcode(2),
            ttl => asked.addresses(1, ttl),
        }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Way {
    /// Upstreams that are asked this way.
    fn open(self, mood: &Mood) -> ([Stub; 2], Setup) {
        let stubs = [(); 2].map(|()| {
            let mood = mood.clone();
            Stub::replying(move |asked| mood.reply(asked))
        });
        let setup = match self {
            Self::Group(strategy) => Setup::asking(&[&stubs[0], &stubs[1]]).by(strategy),
            Self::Encrypted(scheme) => {
                Setup { upstreams: vec![stubs[0].encrypted(scheme)], ..Setup::asking(&[]) }
            }
        };
        (stubs, setup)
    }

    /// How many are asked for one question that fails.
    fn upstreams(self) -> usize {
        if matches!(self, Self::Group(_)) { 2 } else { 1 }
    }

    /// How many are asked for one that does not.
    fn at_once(self) -> usize {
        if matches!(self, Self::Group(Strategy::Parallel)) { 2 } else { 1 }
    }
}

#[test]
fn a_popular_answer_is_refreshed_and_outlives_a_refresh_that_fails() {
    in_every_way(|way| {
        let mood = Mood::answering(300);
        let (_stubs, mut setup) = way.open(&mood);
        setup.prefetch =
            Prefetch { enabled: true, cache_refresh_threshold: 0.0, ..Prefetch::default() };
        let mut rig = setup.start();
        let popular = query("www.example. A");
        assert_eq!(rig.resolve(&popular).ttl, 300, "{way:?}");
        mood.answer(500);
        rig.hit(&popular, 10);
        rig.wait_for(|counters| (counters.inserted, counters.pending) == (2, 0));
        assert_eq!(rig.resolve(&popular).ttl, 500, "{way:?}");
        mood.fail();
        rig.hit(&popular, 10);
        rig.wait_for(|counters| (counters.prefetched, counters.pending) == (2, 0));
        assert_eq!(rig.resolve(&popular).ttl, 500, "{way:?}");
        let counters = rig.finish();
        assert_eq!((counters.leaders, counters.servfail, counters.inserted), (1, 0, 2), "{way:?}");
    });
}

#[test]
fn an_expired_answer_is_given_while_everybody_fails_and_replaced_when_they_do_not() {
    in_every_way(|way| {
        let mood = Mood::answering(1);
        let (_stubs, mut setup) = way.open(&mood);
        setup.keeping.stale_backoff_seconds = 1;
        let mut rig = setup.start();
        assert_eq!(rig.resolve(&query("www.example. A")).ttl, 1, "{way:?}");
        rig.wait_until(|_| mood.asked() == way.at_once());
        mood.fail();
        let answer = ask_when_expired(&mut rig);
        assert_eq!((answer.rcode, answer.records, answer.ttl), (0, 1, 30), "{way:?}");
        assert_eq!(mood.asked(), way.at_once() + way.upstreams(), "{way:?}: all were asked");
        mood.answer(300);
        rig.pass(SECOND);
        assert_eq!(rig.resolve(&query("www.example. A")).ttl, 300, "{way:?}");
        let counters = rig.finish();
        assert!(counters.stale >= 1 && counters.servfail == 0, "{way:?}: {counters:?}");
    });
}

#[test]
fn nobody_waits_for_upstreams_where_an_expired_answer_is_given_at_once() {
    in_every_way(|way| {
        let mood = Mood::answering(1);
        let (_stubs, mut setup) = way.open(&mood);
        setup.keeping.stale_client_timeout_ms = 0;
        let mut rig = setup.start();
        assert_eq!(rig.resolve(&query("www.example. A")).ttl, 1, "{way:?}");
        mood.answer(300);
        assert_eq!(ask_when_expired(&mut rig).ttl, 30, "{way:?}");
        rig.wait_for(|counters| counters.inserted == 2);
        assert_eq!(rig.resolve(&query("www.example. A")).ttl, 300, "{way:?}");
        assert_eq!(rig.finish().stale, 1, "{way:?}");
    });
}

#[test]
fn a_failure_is_remembered_and_not_for_long() {
    in_every_way(|way| {
        let mood = Mood::default();
        let (_stubs, setup) = way.open(&mood);
        let mut rig = setup.start();
        let clients = alike(&query("www.example. A"), 20);
        assert!(clients.iter().all(|client| rig.resolve(client).rcode == 2), "{way:?}");
        let counters = rig.counters();
        // RFC 9520: at most one exchange a second for a name that fails.
        assert_eq!(mood.asked(), way.upstreams(), "{way:?}");
        assert_eq!((counters.leaders, counters.failed_recently), (1, 19), "{way:?}");
        mood.answer(300);
        rig.pass(SECOND);
        assert_eq!(rig.resolve(&query("www.example. A")).rcode, 0, "{way:?}");
        assert_eq!(rig.finish().inserted, 1, "{way:?}");
    });
}
