//! One slow path thread with a test at both ends of its rings.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pmdns::clock::{Clock, FIRST_SECOND};
use pmdns::ring::{RingReceiver, RingSender, ring};
use pmdns::rules::{LineRules, RulesInbox, RulesPublisher};
use pmdns::slowpath::{
    self, Anchors, Answered, Counters, CountersSnapshot, Inlets, Parts, SlowPathParts, Trust,
    UpstreamCounters, UpstreamSnapshot,
};
use pmdns::snapshot::CacheOrders;
use pmdns_config::{
    Config, DEFAULT_GROUP, Dnssec, Forward, Group, Health, Local, LocalRecord, Rpz, SlowPath,
    Strategy, Upstream, UpstreamAddress, View,
};
use pmdns_nics::hugepage::Arena;
use pmdns_nics::{Frame, FramePool, HeapPool};
use pmdns_stages::Step;
use pmdns_stages::acl::Acl;
use pmdns_stages::cache::{Cache, Hit, Lifetimes, Retention};
use pmdns_stages::encode::Encode;
use pmdns_stages::miss::Miss;
use pmdns_stages::parse::Parse;
use pmdns_stages::policy::{Policy, Ruleset};
use pmdns_stages::ports::{Port, Ports};
use pmdns_stages::testing::{OUR_IPV4, OUR_IPV6, OUR_MAC, Query, act_once, name_of};
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
    pub(crate) client_subnet: pmdns_config::ClientSubnet,
    /// What keys are hashed with.
    pub(crate) seed: [u8; 16],
    pub(crate) upstreams: Vec<Upstream>,
    pub(crate) groups: Vec<Group>,
    pub(crate) forwards: Vec<Forward>,
    pub(crate) views: Vec<View>,
    pub(crate) health: Health,
    pub(crate) dnssec: Dnssec,
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
        Self {
            settings: SlowPath { deadline_ms: 20_000, ..SlowPath::default() },
            keeping: pmdns_config::Cache::default(),
            prefetch: pmdns_config::Prefetch::default(),
            client_subnet: pmdns_config::ClientSubnet::default(),
            seed: SEED,
            upstreams: stubs.iter().map(|stub| upstream(stub.address.into())).collect(),
            groups: Vec::new(),
            forwards: Vec::new(),
            views: Vec::new(),
            health: Health::default(),
            dnssec: Dnssec::default(),
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

    /// The same, asking by this strategy.
    pub(crate) fn by(mut self, strategy: Strategy) -> Self {
        self.groups = vec![Group { name: DEFAULT_GROUP.into(), strategy, parallel: 2 }];
        self
    }

    /// The same, but names in `zone` are asked of upstream `index` only.
    pub(crate) fn forward(mut self, zone: &str, index: usize) -> Self {
        let group = format!("only{index}");
        self.upstreams[index].group.clone_from(&group);
        self.forwards.push(Forward { zone: zone.into(), group, views: Vec::new() });
        self
    }

    /// The same, but the client with this address is in a view of this name, for which upstream `index` is asked.
    pub(crate) fn view(mut self, name: &str, client: &str, index: usize) -> Self {
        let group = format!("only{index}");
        self.upstreams[index].group.clone_from(&group);
        let clients = vec![client.parse().unwrap()];
        self.views.push(View { name: name.into(), clients, group: Some(group) });
        self
    }

    /// The same with letters in mixed case.
    pub(crate) fn mixed(mut self) -> Self {
        for upstream in &mut self.upstreams {
            upstream.mix_case = true;
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
    acl: Acl,
    config: Config,
    /// What the line judges by, if a test is about that.
    policy: Option<Policy>,
    rules: RulesPublisher,
    /// Where the line is lent rules.
    line: RulesInbox<LineRules>,
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

/// The DNS message in a frame.
fn message(frame: &Frame) -> &[u8] {
    let ipv6 = be16(frame.bytes(), ip::ETHERTYPE) == Some(ip::TYPE_IPV6);
    let ip_len = if ipv6 { ip::IPV6_LEN } else { ip::IPV4_MIN_LEN };
    &frame.bytes()[ip::ETHERNET_LEN + ip_len + ip::UDP_LEN..]
}

impl Rig {
    fn start(setup: Setup) -> Self {
        let clock = Clock::start().with_first_second(FIRST_SECOND);
        let policy = setup.client_subnet.policy;
        let seed = Seed::new(setup.seed);
        let (cache, mut writers) = Cache::new(Arena::heap(1 << 17), 1, seed).unwrap();
        let ports: Ports = [Port::new(OUR_MAC, [OUR_IPV4.into(), OUR_IPV6.into()])].into();
        let rules = Arc::new(Ruleset::empty(seed));
        let (publisher, mut inboxes) = RulesPublisher::new(1, 1, seed, 1);
        let pool = FramePool::Heap(HeapPool::new(setup.frames));
        let (misses, inlets) = (0..setup.workers).map(|_| ring(256)).unzip();
        let (outlet, answers) = ring(setup.answers);
        let (notes, note_receiver) = ring(4096);
        let retention = Retention {
            counts_hits: setup.prefetch.enabled,
            access_window: setup.prefetch.cache_access_window_seconds,
            ..Retention::default()
        };
        let counters: Arc<Counters> = Arc::default();
        let upstreams: Arc<[UpstreamCounters]> =
            setup.upstreams.iter().map(|_| UpstreamCounters::default()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let (give, taken) = slowpath::orders();
        let config = Config {
            slowpath: setup.settings,
            upstreams: setup.upstreams,
            groups: setup.groups,
            forwards: setup.forwards,
            views: setup.views,
            health: setup.health,
            client_subnet: setup.client_subnet,
            cache: setup.keeping,
            prefetch: setup.prefetch,
            acl: pmdns_config::Acl::open(),
            ..Config::default()
        };
        let orders = CacheOrders::new(vec![give], Arc::clone(&cache), clock, config.scope_map());
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
            counters: Arc::clone(&counters),
            cache_counters: Arc::default(),
            upstream_counters: Arc::clone(&upstreams),
        };
        let parts = SlowPathParts {
            resolver,
            trust: Trust::load(&config.upstreams).unwrap(),
            inlets: Inlets {
                misses: inlets,
                hits: vec![note_receiver],
                rules: inboxes.slow_path.remove(0),
            },
            outlets: vec![outlet],
            answers_to: vec![0; setup.workers],
            clock,
            orders: taken,
            stop: Arc::clone(&stop),
        };
        let thread = std::thread::spawn(move || slowpath::run(parts));
        let parse = Parse::new(ports, seed).with_subnet_policy(policy);
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
            acl: Acl::new(&config, &Ruleset::empty(seed)),
            config,
            policy: None,
            rules: publisher,
            line: inboxes.workers.remove(0),
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
        let mut miss = Some(self.miss(query));
        wait_until(|| {
            miss = miss.take().and_then(|miss| self.misses[worker].push(miss).err());
            miss.is_none()
        });
    }

    /// A client's query as the line makes a miss of it.
    fn miss(&mut self, query: &Query) -> Miss {
        let now = self.clock.now();
        let context = self.clock.context(now);
        let packet = act_once(&mut self.parse, query.packet(), &context);
        let mut packet = act_once(&mut self.acl, packet, &context);
        if let Some(policy) = &mut self.policy {
            packet = act_once(policy, packet, &context);
            assert_eq!(packet.step, Step::SLOW_PATH, "the line answers it");
        }
        packet.received = now;
        Miss::of(&packet)
    }

    /// Tells of so many hits of the answer to a query, as a data core would.
    pub(crate) fn hit(&mut self, query: &Query, weight: u32) {
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
        self.rules.lend(fresh);
        let mut ruleset = None;
        self.line.look(|rules| {
            self.acl = rules.acl.clone();
            ruleset = Some(Arc::clone(&rules.policy));
        });
        self.policy = None;
        wait_until(|| !self.rules.collect());
        ruleset.expect("the line is lent them as well")
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
            while answers.len() < count
                && let Some(answered) = self.answers.pop()
            {
                answers.push(Answer::of(&answered.frame));
            }
            answers.len() == count
        });
        answers
    }

    /// Sends a query and waits for the frame of its answer.
    pub(crate) fn resolve_frame(&mut self, query: &Query) -> Frame {
        self.ask(query);
        let mut answered = None;
        wait_until(|| {
            answered = self.answers.pop();
            answered.is_some()
        });
        answered.expect("it came").frame
    }

    /// Sends a query and waits for its answer, all of it.
    pub(crate) fn resolve_whole(&mut self, query: &Query) -> Vec<u8> {
        message(&self.resolve_frame(query)).to_vec()
    }

    /// Waits until the counters are as they should be.
    pub(crate) fn wait_for(&self, as_it_should: impl Fn(&CountersSnapshot) -> bool) {
        wait_until(|| as_it_should(&self.counters()));
    }

    /// The counters of the thread.
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

/// An upstream at this address, asked in small letters: so scripts know names.
pub(crate) fn upstream(address: UpstreamAddress) -> Upstream {
    Upstream { timeout_ms: 5_000, mix_case: false, ..Upstream::at(address) }
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
