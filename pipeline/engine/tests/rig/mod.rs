//! One slow path with a test at both ends of its rings: what it is told, and what clients get of it.
//!
//! `driver` beside it says how it goes on. In `slowpath/` it is turned by hand, with a clock that stands still and a model of a
//! network. In `kernel/` it is a thread with the kernel's sockets. `stub` has the upstreams.

mod asked;
mod over_port;
mod setup;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use pmdns_config::{Config, Dns64Settings, Local, LocalRecord, Rpz};
use pmdns_engine::clock::Clock;
use pmdns_engine::ring::{RingReceiver, RingSender, ring};
use pmdns_engine::rules::{LineRules, RulesInbox, RulesPublisher, RulesUpdate};
use pmdns_engine::slowpath::{
    self, Anchors, Counters, CountersSnapshot, Inlets, OutgoingAnswer, Parts, SlowPathParts,
    UpstreamSnapshot,
};
use pmdns_engine::snapshot::CacheJobs;
use pmdns_engine::upstreams::UpstreamsInUse;
use pmdns_nics::hugepage::Arena;
use pmdns_nics::{Frame, FramePool, HeapPool};
use pmdns_resolver::Roster;
use pmdns_stages::Step;
use pmdns_stages::acl::Acl;
use pmdns_stages::cache::{Cache, Hit, Lifetimes, Retention};
use pmdns_stages::encode::Encode;
use pmdns_stages::miss::Miss;
use pmdns_stages::parse::Parse;
use pmdns_stages::policy::{Policy, Ruleset};
use pmdns_stages::ports::{Port, Ports};
use pmdns_stages::testing::{OUR_IPV4, OUR_IPV6, OUR_MAC, QueryFrame, act_once, name_of};
use pmdns_stages::wire::dns::{HEADER_LEN, flag, header};
use pmdns_stages::wire::name::Seed;
use pmdns_stages::wire::{be16, be32, name};

pub(crate) use asked::Asked;
use asked::message;
pub(crate) use setup::{Setup, purge_of, upstream};

use super::driver::Driver;
use super::stub::Stub;
use setup::SEED;

/// A second.
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// How long a test waits for what must happen, by the clock of its driver; only a broken program takes so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A slow path that runs.
pub(crate) struct Rig {
    pub(crate) pool: FramePool,
    cache_jobs: CacheJobs,
    misses: Vec<RingSender<Miss>>,
    notes: RingSender<Hit>,
    /// By worker that transmits.
    answers: Vec<RingReceiver<OutgoingAnswer>>,
    counters: Arc<Counters>,
    upstreams: UpstreamsInUse,
    clock: Clock,
    parse: Parse,
    acl: Acl,
    config: Config,
    /// What the line judges by, if a test is about that.
    policy: Option<Policy>,
    rules: RulesPublisher,
    /// Where the line is lent rules.
    line: RulesInbox<LineRules>,
    pub(crate) driver: Driver,
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
        let message = message(frame);
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
        let mut driver = Driver::default();
        let clock = driver.clock();
        let policy = setup.client_subnet.policy;
        let seed = Seed::new(setup.seed);
        let (cache, mut writers) = Cache::new(Arena::heap(1 << 17), 1, seed).unwrap();
        let ports: Ports = [Port::new(OUR_MAC, [OUR_IPV4.into(), OUR_IPV6.into()])].into();
        let rules = Arc::new(Ruleset::empty(seed));
        let (mut publisher, mut inboxes) = RulesPublisher::new(1, 1, seed, 1);
        let pool = FramePool::Heap(HeapPool::new(setup.frames));
        let (misses, inlets) = (0..setup.workers).map(|_| ring(256)).unzip();
        let (outlets, answers) = (0..setup.transmitters).map(|_| ring(setup.answers)).unzip();
        let (notes, note_receiver) = ring(4096);
        let retention = Retention {
            counts_hits: setup.prefetch.enabled,
            access_window: setup.prefetch.cache_access_window_seconds,
            ..Retention::default()
        };
        let counters: Arc<Counters> = Arc::default();
        let (give, taken) = slowpath::job_requests();
        let mut config = Config {
            slowpath: setup.settings,
            upstreams: setup.upstreams,
            groups: setup.groups,
            forwards: setup.forwards,
            views: setup.views,
            health: setup.health,
            client_subnet: setup.client_subnet,
            cache: setup.keeping,
            prefetch: setup.prefetch,
            acl: pmdns_config::AclSettings::open(),
            ..Config::default()
        };
        if super::BY_PORT {
            over_port::ask(&mut config, setup.gateways);
        }
        let upstreams = UpstreamsInUse::new(&config, super::LOAD_ENCRYPTED);
        publisher.set_upstreams(upstreams.clone());
        let cache_jobs = CacheJobs::new(vec![give], Arc::clone(&cache), clock, config.scope_map());
        let anchors = Anchors::load(&setup.dnssec).unwrap();
        // A test wrote it for this rig only.
        let _ = setup.dnssec.trust_anchor.as_ref().map(std::fs::remove_file);
        let resolver = Parts {
            config: Arc::new(config.clone()),
            trust_anchors: anchors.map(|anchors| anchors.trust().clone()),
            lifetimes: Lifetimes {
                min_ttl: 0,
                max_ttl: 86_400,
                max_negative_ttl: 300,
                max_body: 1232,
            },
            writer: writers.remove(0).with_retention(&retention),
            encode: Encode::new(Arc::clone(&cache), rules, Arc::clone(&ports), 1232),
            cache,
            pool: pool.clone(),
            stream_pool: None,
            counters: Arc::clone(&counters),
            cache_counters: Arc::default(),
            roster: Roster::clone(&upstreams.roster()),
        };
        let parts = SlowPathParts {
            resolver,
            encrypted: (super::LOAD_ENCRYPTED)(&config).unwrap_or_else(|error| panic!("{error}")),
            inlets: Inlets {
                misses: inlets,
                answered_by: (0..setup.workers).map(|one| one % setup.transmitters).collect(),
                hits: vec![note_receiver],
                burst: pmdns_engine::slowpath::burst(false, setup.workers),
                rules: inboxes.slow_path.remove(0),
            },
            ports: super::BY_PORT.then(|| over_port::parts(&config, &pool, seed)),
            outlets,
            clock,
            requests: taken,
            stop: Arc::default(),
        };
        driver.start(parts);
        let parse = Parse::new(ports, seed).with_subnet_policy(policy);
        Self {
            pool,
            cache_jobs,
            misses,
            notes,
            answers,
            counters,
            upstreams,
            clock,
            parse,
            acl: Acl::new(&config, &Ruleset::empty(seed)),
            config,
            policy: None,
            rules: publisher,
            line: inboxes.workers.remove(0),
            driver,
        }
    }

    /// Sends a client's query as a miss of worker 0.
    pub(crate) fn ask(&mut self, query: &QueryFrame) {
        self.ask_by(0, query);
    }

    /// Sends a client's query as a miss of a worker.
    pub(crate) fn ask_by(&mut self, worker: usize, query: &QueryFrame) {
        let mut miss = Some(self.miss(query));
        self.wait_until(|rig| {
            miss = miss.take().and_then(|miss| rig.misses[worker].push(miss).err());
            miss.is_none()
        });
    }

    /// A client's query as the line makes a miss of it.
    fn miss(&mut self, query: &QueryFrame) -> Miss {
        let now = self.clock.now();
        let context = self.clock.context(now);
        let packet = act_once(&mut self.parse, query.packet(), &context);
        let mut packet = act_once(&mut self.acl, packet, &context);
        if let Some(policy) = &mut self.policy {
            packet = act_once(policy, packet, &context);
            assert_eq!(packet.step, Step::SLOW_PATH, "the line answers it");
        }
        packet.received = now;
        Miss::of(&packet, 0)
    }

    /// Tells of so many hits of the answer to a query, as a data core would.
    pub(crate) fn hit(&mut self, query: &QueryFrame, weight: u32) {
        let miss = self.miss(query);
        let hash = miss.key().hash(Seed::new(SEED), miss.key);
        self.notes.push(Hit { hash, weight }).expect("the ring of notes has room");
    }

    /// Lends the thread rules by which every IPv4 address makes an answer NXDOMAIN.
    pub(crate) fn deny_all_addresses(&mut self, test: &str) {
        self.deny_all_addresses_in(&[], test);
    }

    /// The same in some views only.
    pub(crate) fn deny_all_addresses_in(&mut self, views: &[&str], test: &str) {
        let rules = "0.0.0.0.0.rpz-ip 60 CNAME .\n16.zz.2001.rpz-ip 60 CNAME .\n";
        self.judge_in(views, test, rules);
    }

    /// Lends the thread these rules of a policy zone.
    pub(crate) fn judge_by(&mut self, test: &str, rules: &str) {
        self.judge_in(&[], test, rules);
    }

    /// The same, and the line judges by them as well. Local records are those of the configuration.
    pub(crate) fn judge_all_by(&mut self, test: &str, rules: &str, local: &[(&str, u16, Vec<u8>)]) {
        let local = local.iter().map(|(name, rtype, data)| Local {
            record: LocalRecord {
                name: name_of(name).into(),
                rtype: *rtype,
                ttl: 300,
                data: data.as_slice().into(),
            },
            views: Vec::new(),
        });
        self.config.local = local.collect();
        let ruleset = self.judge_in(&[], test, rules);
        self.policy = Some(Policy::new(ruleset, Seed::new(SEED)));
    }

    /// The same in some views only, by way of a file that only one `test` writes. The rules it has made.
    fn judge_in(&mut self, views: &[&str], test: &str, rules: &str) -> Arc<Ruleset> {
        let path = std::env::temp_dir().join(format!("pmdns-rpz-{}-{test}", std::process::id()));
        std::fs::write(&path, format!("$ORIGIN rpz.\n@ 60 SOA ns admin 1 2 3 4 5\n{rules}"))
            .unwrap();
        let rpz = vec![Rpz {
            file: path.clone(),
            views: views.iter().map(|name| (*name).to_owned()).collect(),
            ..Rpz::default()
        }];
        let config = Config { rpz, ..self.config.clone() };
        let fresh = self.rules.builder().make(&config).unwrap();
        std::fs::remove_file(&path).unwrap();
        self.lend(fresh)
    }

    /// Has the thread take over a changed configuration.
    pub(crate) fn reload(&mut self, change: impl FnOnce(&mut Config)) {
        let mut config = self.config.clone();
        change(&mut config);
        self.config = config.following(&self.config).unwrap();
        let fresh = self.rules.builder().make(&self.config).unwrap();
        self.lend(fresh);
    }

    /// Lends the thread rules by which AAAA records are made under these prefixes.
    pub(crate) fn translate(&mut self, dns64: Vec<Dns64Settings>) {
        self.reload(|config| config.dns64 = dns64);
    }

    fn lend(&mut self, fresh: RulesUpdate) -> Arc<Ruleset> {
        self.rules.lend(fresh);
        let mut ruleset = None;
        self.line.poll(|rules| {
            self.acl = rules.clients.as_ref().expect("rules that were read").acl.clone();
            ruleset = rules.names.as_ref().map(|names| Arc::clone(&names.policy));
        });
        self.policy = None;
        self.wait_until(|rig| {
            rig.line.poll(|_| {});
            !rig.rules.collect()
        });
        ruleset.expect("the line is lent them as well")
    }

    /// Sends a query and waits for its answer.
    pub(crate) fn resolve(&mut self, query: &QueryFrame) -> Answer {
        self.ask(query);
        self.answers(1).remove(0)
    }

    /// Waits for so many answers.
    pub(crate) fn answers(&mut self, count: usize) -> Vec<Answer> {
        self.answers_by(0, count)
    }

    /// Waits for so many answers that this worker transmits.
    pub(crate) fn answers_by(&mut self, worker: usize, count: usize) -> Vec<Answer> {
        let mut answers = Vec::new();
        self.wait_until(|rig| {
            while answers.len() < count
                && let Some(answered) = rig.answers[worker].pop()
            {
                answers.push(Answer::of(&answered.frame));
            }
            answers.len() == count
        });
        answers
    }

    /// Sends a query and waits for the frame of its answer.
    pub(crate) fn resolve_frame(&mut self, query: &QueryFrame) -> Frame {
        self.ask(query);
        let mut answered = None;
        self.wait_until(|rig| {
            answered = rig.answers[0].pop();
            answered.is_some()
        });
        answered.expect("it came").frame
    }

    /// Sends a query and waits for its answer, all of it.
    pub(crate) fn resolve_whole(&mut self, query: &QueryFrame) -> Vec<u8> {
        message(&self.resolve_frame(query)).to_vec()
    }

    /// Waits until the counters are as they should be.
    pub(crate) fn wait_for(&mut self, as_it_should: impl Fn(&CountersSnapshot) -> bool) {
        self.wait_until(|rig| as_it_should(&rig.counters()));
    }

    /// Waits for something that must happen.
    pub(crate) fn wait_until(&mut self, mut happened: impl FnMut(&mut Self) -> bool) {
        let start = self.driver.now();
        while !happened(self) {
            assert!(self.driver.now().saturating_sub(start) < PATIENCE, "it did not happen");
            self.driver.go_on();
        }
    }

    /// Lets so much time pass.
    pub(crate) fn pass(&mut self, duration: Duration) {
        let end = self.driver.now() + duration;
        while self.driver.now() < end {
            self.driver.go_on();
        }
    }

    /// Has something done to the whole cache, by another thread, as the control socket does. Time does not pass meanwhile.
    pub(crate) fn cache_job<T: Send>(&mut self, give: impl FnOnce(&CacheJobs) -> T + Send) -> T {
        let cache_jobs = self.cache_jobs.clone();
        std::thread::scope(|threads| {
            let given = threads.spawn(move || give(&cache_jobs));
            while !given.is_finished() {
                self.driver.turn();
                std::thread::yield_now();
            }
            given.join().expect("it does not panic")
        })
    }

    /// Asks for jobs on the cache, also when this has ended.
    pub(crate) fn cache_jobs(&self) -> CacheJobs {
        self.cache_jobs.clone()
    }

    /// The counters of the thread.
    pub(crate) fn counters(&self) -> CountersSnapshot {
        self.counters.snapshot()
    }

    /// The counters of an upstream.
    pub(crate) fn upstream(&self, index: usize) -> UpstreamSnapshot {
        self.upstreams.roster().slots()[index].counters.snapshot()
    }

    /// Tells the thread to stop, and goes on as a worker would that has yet to notice.
    pub(crate) fn say_stop(&mut self) {
        self.driver.say_stop();
    }

    /// Whether the thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.driver.has_ended()
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
        self.driver.say_stop();
        self.misses.clear();
        self.driver.end();
        let mut leftover = Vec::new();
        for answered in self.answers.iter_mut().flat_map(|ring| std::iter::from_fn(|| ring.pop())) {
            leftover.push(Answer::of(&answered.frame));
        }
        let counters = self.counters.snapshot();
        assert_eq!((counters.pending, counters.waiting), (0, 0));
        assert_eq!(counters.misses, counters.ended());
        assert_eq!(self.pool.in_use(), 0);
        (counters, leftover)
    }
}

/// So many queries alike but for their ids: 1, 2, and so on.
pub(crate) fn alike(query: &QueryFrame, count: u16) -> Vec<QueryFrame> {
    (1..=count).map(|id| QueryFrame { id, ..query.clone() }).collect()
}

/// The ids of answers, which must all differ.
pub(crate) fn ids(answers: &[Answer]) -> HashSet<u16> {
    let ids: HashSet<u16> = answers.iter().map(|answer| answer.id).collect();
    assert_eq!(ids.len(), answers.len(), "one answer to each query");
    ids
}
