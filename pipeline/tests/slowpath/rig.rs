//! One slow path thread with a test at both ends of its rings.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pmdns::clock::Clock;
use pmdns::ring::{RingReceiver, RingSender, ring};
use pmdns::slowpath::{
    self, Answered, Counters, CountersSnapshot, SlowPathParts, UpstreamCounters, UpstreamSnapshot,
};
use pmdns::snapshot::CacheOrders;
use pmdns_config::{SlowPath, Upstream};
use pmdns_nics::hugepage::Arena;
use pmdns_nics::{Frame, FramePool, HeapPool};
use pmdns_stages::cache::{Cache, Hit, Key, Lifetimes, Retention};
use pmdns_stages::encode::Encode;
use pmdns_stages::miss::Miss;
use pmdns_stages::parse::Parse;
use pmdns_stages::policy::LocalData;
use pmdns_stages::ports::{Port, Ports};
use pmdns_stages::testing::{OUR_IPV4, OUR_IPV6, OUR_MAC, Query, act_once};
use pmdns_stages::wire::dns::{HEADER_LEN, flag, header};
use pmdns_stages::wire::name::Seed;
use pmdns_stages::wire::{be16, be32, ip, name};

use crate::stub::Stub;

/// How long a test waits for what must happen; only a broken program takes so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What a rig shall be like.
pub(crate) struct Setup {
    pub(crate) settings: SlowPath,
    pub(crate) keeping: pmdns_config::Cache,
    pub(crate) prefetch: pmdns_config::Prefetch,
    /// What keys are hashed with.
    pub(crate) seed: [u8; 16],
    pub(crate) upstreams: Vec<Upstream>,
    /// Frames in the pool.
    pub(crate) frames: usize,
    /// Slots in the ring of answers.
    pub(crate) answers: usize,
    /// Workers that send misses; the first transmits for all.
    pub(crate) workers: usize,
}

impl Setup {
    /// A rig that asks these stubs in this order, with a deadline no test comes near.
    pub(crate) fn asking(stubs: &[&Stub]) -> Self {
        let upstream =
            |stub: &&Stub| Upstream { address: stub.address, timeout_ms: 5_000, source: None };
        Self {
            settings: SlowPath { deadline_ms: 20_000, ..SlowPath::default() },
            keeping: pmdns_config::Cache::default(),
            prefetch: pmdns_config::Prefetch::default(),
            seed: SEED,
            upstreams: stubs.iter().map(upstream).collect(),
            frames: 1024,
            answers: 512,
            workers: 1,
        }
    }

    /// The same with deadline and timeouts of some milliseconds.
    pub(crate) fn hasty(mut self, deadline_ms: u64, timeout_ms: u64) -> Self {
        self.settings.deadline_ms = deadline_ms;
        for upstream in &mut self.upstreams {
            upstream.timeout_ms = timeout_ms;
        }
        self
    }

    /// Sends queries from this address.
    pub(crate) fn from(mut self, source: IpAddr) -> Self {
        for upstream in &mut self.upstreams {
            upstream.source = Some(source);
        }
        self
    }

    /// Starts it.
    pub(crate) fn start(self) -> Rig {
        Rig::start(self)
    }
}

/// What keys are hashed with, unless a test says otherwise.
const SEED: [u8; 16] = [9; 16];

/// A running slow path thread.
pub(crate) struct Rig {
    pub(crate) pool: FramePool,
    pub(crate) orders: CacheOrders,
    misses: Vec<RingSender<Miss>>,
    notes: RingSender<Hit>,
    answers: RingReceiver<Answered>,
    counters: Arc<Counters>,
    upstreams: Arc<[UpstreamCounters]>,
    clock: Clock,
    parse: Parse,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// A client's answer, as far as tests ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) id: u16,
    pub(crate) rcode: u16,
    pub(crate) truncated: bool,
    pub(crate) records: u16,
    /// TTL of the first record, if its owner is compressed; else 0.
    pub(crate) ttl: u32,
}

impl Answer {
    fn of(frame: &Frame) -> Self {
        let ipv6 = be16(frame.bytes(), ip::ETHERTYPE) == Some(ip::TYPE_IPV6);
        let ip_len = if ipv6 { ip::IPV6_LEN } else { ip::IPV4_MIN_LEN };
        let message = &frame.bytes()[ip::ETHERNET_LEN + ip_len + ip::UDP_LEN..];
        let flags = be16(message, header::FLAGS).unwrap();
        assert_ne!(flags & flag::QR, 0, "an answer is a response");
        let question_end = HEADER_LEN + name::length(&message[HEADER_LEN..]).unwrap() + 4;
        let is_compressed = message.get(question_end) == Some(&0xc0);
        Self {
            id: be16(message, header::ID).unwrap(),
            rcode: flags & flag::RCODE,
            truncated: flags & flag::TC != 0,
            records: be16(message, header::ANCOUNT).unwrap(),
            ttl: be32(message, question_end + 6).filter(|_| is_compressed).unwrap_or(0),
        }
    }
}

impl Rig {
    fn start(setup: Setup) -> Self {
        let clock = Clock::start();
        let seed = Seed::new(setup.seed);
        let (cache, mut writers) = Cache::new(Arena::heap(1 << 17), 1, seed).unwrap();
        let ports: Ports = [Port::new(OUR_MAC, [OUR_IPV4.into(), OUR_IPV6.into()])].into();
        let local = Arc::new(LocalData::new(&[], &[], seed).unwrap());
        let pool = FramePool::Heap(HeapPool::new(setup.frames));
        let (misses, inlets) = (0..setup.workers).map(|_| ring(256)).unzip();
        let (outlet, answers) = ring(setup.answers);
        let (notes, note_receiver) = ring(4096);
        let retention = Retention {
            counts_hits: setup.prefetch.enabled,
            access_window: setup.prefetch.cache_access_window_secs,
            ..Retention::default()
        };
        let counters: Arc<Counters> = Arc::default();
        let upstreams: Arc<[UpstreamCounters]> =
            setup.upstreams.iter().map(|_| UpstreamCounters::default()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let (give, taken) = slowpath::orders();
        let orders = CacheOrders::new(vec![give], Arc::clone(&cache), clock);
        let parts = SlowPathParts {
            settings: setup.settings,
            keeping: setup.keeping,
            upstreams: setup.upstreams,
            lifetimes: Lifetimes {
                min_ttl: 0,
                max_ttl: 86_400,
                max_negative_ttl: 300,
                max_body: 1232,
            },
            prefetch: setup.prefetch,
            inlets,
            hits: vec![note_receiver],
            outlets: vec![outlet],
            answers_to: vec![0; setup.workers],
            orders: taken,
            writer: writers.remove(0).keeping(&retention),
            encode: Encode::new(Arc::clone(&cache), local, Arc::clone(&ports), 1232),
            cache,
            pool: pool.clone(),
            clock,
            stop: Arc::clone(&stop),
            counters: Arc::clone(&counters),
            cache_counters: Arc::default(),
            upstream_counters: Arc::clone(&upstreams),
        };
        let thread = std::thread::spawn(move || slowpath::run(parts));
        let parse = Parse::new(ports, seed);
        Self {
            pool,
            orders,
            misses,
            notes,
            answers,
            counters,
            upstreams,
            clock,
            parse,
            stop,
            thread,
        }
    }

    /// Sends a client's query as a miss of worker 0.
    pub(crate) fn ask(&mut self, query: &Query) {
        self.ask_by(0, query);
    }

    /// Sends a client's query as a miss of a worker.
    pub(crate) fn ask_by(&mut self, worker: usize, query: &Query) {
        let now = self.clock.now();
        let mut packet = act_once(&mut self.parse, query.packet(), &self.clock.context(now));
        packet.received = now;
        self.misses[worker].push(Miss::of(&packet)).expect("the ring of misses has room");
    }

    /// Tells of so many hits of the answer to a query, as a data core would.
    pub(crate) fn hit(&mut self, query: &Query, weight: u32) {
        let key = Key { name: &query.name, qtype: query.qtype, qclass: query.qclass, flags: 0 };
        let seed = Seed::new(SEED);
        let hash = key.hash(seed, seed.hash(&query.name));
        self.notes.push(Hit { hash, weight }).expect("the ring of notes has room");
    }

    /// Sends a query and waits for its answer.
    pub(crate) fn resolve(&mut self, query: &Query) -> Answer {
        self.ask(query);
        self.answers(1).remove(0)
    }

    /// Waits for so many answers.
    pub(crate) fn answers(&mut self, count: usize) -> Vec<Answer> {
        let mut answers = Vec::new();
        wait_until(|| {
            answers.extend(self.answers.pop().map(|answered| Answer::of(&answered.frame)));
            answers.len() == count
        });
        answers
    }

    /// Waits until the counters are as they should be.
    pub(crate) fn wait_for(&self, as_it_should: impl Fn(&CountersSnapshot) -> bool) {
        wait_until(|| as_it_should(&self.counters.snapshot()));
    }

    /// The counters so far.
    pub(crate) fn counters(&self) -> CountersSnapshot {
        self.counters.snapshot()
    }

    /// The counters of an upstream.
    pub(crate) fn upstream(&self, index: usize) -> UpstreamSnapshot {
        self.upstreams[index].snapshot()
    }

    /// Tells the thread to stop, and goes on as a worker would that has yet to notice.
    pub(crate) fn say_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops the thread as the engine does, and returns its counters. Whatever the test did, nobody
    /// waits any more, every miss is accounted for, no answer is left over, and no frame is lost.
    pub(crate) fn finish(self) -> CountersSnapshot {
        let (counters, leftover) = self.stop();
        assert_eq!(leftover, [], "answers nobody asked for");
        counters
    }

    /// Like [`Rig::finish`] where answers may be left over.
    pub(crate) fn stop(mut self) -> (CountersSnapshot, Vec<Answer>) {
        self.stop.store(true, Ordering::Relaxed);
        self.misses.clear();
        self.thread.join().expect("the slow path does not panic");
        let mut leftover = Vec::new();
        while let Some(answered) = self.answers.pop() {
            leftover.push(Answer::of(&answered.frame));
        }
        let counters = self.counters.snapshot();
        assert_eq!((counters.pending, counters.waiting), (0, 0));
        assert_eq!(counters.misses, counters.ended());
        assert_eq!(self.pool.in_use(), 0);
        (counters, leftover)
    }
}

/// Waits for something that must happen.
pub(crate) fn wait_until(mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < PATIENCE, "it did not happen");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// So many queries alike but for their ids: 1, 2, and so on.
pub(crate) fn alike(query: &Query, count: u16) -> Vec<Query> {
    (1..=count).map(|id| Query { id, ..query.clone() }).collect()
}

/// The ids of answers, which must all differ.
pub(crate) fn ids(answers: &[Answer]) -> HashSet<u16> {
    let ids: HashSet<u16> = answers.iter().map(|answer| answer.id).collect();
    assert_eq!(ids.len(), answers.len(), "one answer to each query");
    ids
}
