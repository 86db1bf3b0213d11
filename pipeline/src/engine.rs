//! The engine: everything a topology names, built, started, watched and stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::SystemTime;

use pmdns_config::{Config, Problem, StageName, UpstreamAddress};
use pmdns_nics::hugepage::{Arena, ArenaError, ArenaReport};
use pmdns_nics::{FramePool, PortFacts, Queues, adopt_data_thread};
use pmdns_stages::Packet;
use pmdns_stages::acl::{Acl, Dropped};
use pmdns_stages::cache::{Cache, CacheError, Hit, Lifetimes, MAX_SAMPLES, Retention};
use pmdns_stages::cookie::{Calendar, Cookies};
use pmdns_stages::encode::Encode;
use pmdns_stages::fixed::FixedAnswers;
use pmdns_stages::lookup::Lookup;
use pmdns_stages::miss::Miss;
use pmdns_stages::neighbor::Neighbor;
use pmdns_stages::parse::Parse;
use pmdns_stages::policy::{Digest, Policy, Ruleset, RulesetError};
use pmdns_stages::ports::{Port, Ports};
use pmdns_stages::ratelimit::{ClientPrefixes, Limiter, RateLimit};
use pmdns_stages::vlan::Vlans;
use pmdns_stages::wire::name::Seed;

use crate::clock::{Clock, FIRST_SECOND};
use crate::counters::Published;
use crate::line::Stages;
use crate::occupancy::RingGauge;
use crate::ports::{AllPortNews, PortNews};
use crate::ring::{RingReceiver, RingSender, ring};
use crate::rules::RulesPublisher;
use crate::slowpath::{
    self, AnchorError, Anchors, Answered, CacheCounters, Counters as SlowPathCounters, Parts,
    SlowPathParts, Trust, TrustError, UpstreamCounters,
};
use crate::snapshot::CacheOrders;
use crate::threads::pin;
use crate::topology::{Topology, WorkerPlan};
use crate::worker::{Worker, WorkerParts};

/// Slots in a ring of notes of hits: what a core notes between two times of handing over, twice.
const HIT_SLOTS: usize = 2 * MAX_SAMPLES;

/// Why the engine could not be built.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No memory for the cache.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// The cache does not fit its memory.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The rules cannot be made ready.
    #[error(transparent)]
    Rules(#[from] RulesetError),
    /// The file with cookie secrets has changed since it was checked.
    #[error("cookies.secret_file {0}")]
    Cookies(Problem),
    /// Encrypted upstreams cannot be trusted.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// There is nothing to validate with.
    #[error(transparent)]
    Anchors(#[from] AnchorError),
    /// The system gives no random numbers.
    #[error("no random numbers from the system: {0}")]
    Random(getrandom::Error),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// Everything built, nothing started: tests turn the workers by hand.
pub struct Engine {
    /// The data cores' work, in the order of the topology.
    pub workers: Vec<Worker>,
    /// The slow path's threads' work.
    pub slow_path: Vec<SlowPathParts>,
    /// What can be watched while they run.
    pub gauges: Gauges,
    /// What the data cores are told of the ports.
    pub news: AllPortNews,
    /// What can be done to the cache while they run.
    pub orders: CacheOrders,
    /// Which pages the cache got.
    pub arena: ArenaReport,
    /// What the rules consist of.
    pub digest: Digest,
    /// Where other rules are lent from, until somebody takes it.
    pub rules: Option<RulesPublisher>,
    topology: Topology,
    stop: Arc<AtomicBool>,
}

/// What can be read of a running engine.
#[derive(Clone)]
pub struct Gauges {
    /// The workers' counters, by worker.
    pub workers: Vec<Arc<Published>>,
    /// The slow path's counters, by thread.
    pub slow_path: Vec<Arc<SlowPathCounters>>,
    /// The cache's counters, by shard.
    pub cache: Vec<Arc<CacheCounters>>,
    /// The upstreams' counters, by upstream.
    pub upstreams: Arc<[UpstreamCounters]>,
    /// The upstreams' addresses, by upstream.
    pub upstream_addresses: Arc<[UpstreamAddress]>,
    /// The rings, with what lies at their ends.
    pub rings: RingGauges,
    /// The frames.
    pub pool: FramePool,
    /// The clock.
    pub clock: Clock,
    /// The date, as cookies have it.
    pub calendar: Calendar,
}

impl Gauges {
    /// Corrects the calendar by the clock on the wall. The process's own clock is a few seconds a day fast or slow,
    /// which cookies shared with other servers would not forgive for long.
    pub fn set_calendar(&self) {
        set_calendar(&self.calendar, self.clock);
    }
}

/// Which two threads a ring joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingEnds {
    /// Packets, from worker to worker.
    Packets(usize, usize),
    /// Misses, from a worker to a thread of the slow path.
    Misses(usize, usize),
    /// Notes of hits, from a worker to a thread of the slow path.
    Hits(usize, usize),
    /// Answers, from a thread of the slow path to a worker.
    Answers(usize, usize),
}

/// Every ring: what it joins, and what its ends have counted.
pub type RingGauges = Arc<[(RingEnds, Arc<RingGauge>)]>;

/// An engine whose threads run.
pub struct Running {
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

/// One worker's ends of the rings.
#[derive(Default)]
struct WorkerRings {
    packets_in: Vec<RingReceiver<Packet>>,
    packets_out: Vec<RingSender<Packet>>,
    misses: Vec<RingSender<Miss>>,
    hits: Vec<RingSender<Hit>>,
    answers: Vec<RingReceiver<Answered>>,
}

/// The ends of the rings that one thread of the slow path holds.
#[derive(Default)]
struct SlowPathRings {
    misses: Vec<RingReceiver<Miss>>,
    hits: Vec<RingReceiver<Hit>>,
    answers: Vec<RingSender<Answered>>,
    answers_to: Vec<usize>,
}

impl Engine {
    /// Builds what `topology` names over the started ports' queues.
    pub fn build(
        config: &Config,
        topology: Topology,
        facts: &[PortFacts],
        queues: Vec<Queues>,
        pool: FramePool,
    ) -> Result<Self, EngineError> {
        let clock = Clock::start().counting_from(FIRST_SECOND);
        Self::build_from((clock, random_seed()?), config, topology, facts, queues, pool)
    }

    /// The same with a clock and a seed that a test has chosen.
    pub(crate) fn build_from(
        (clock, seed): (Clock, Seed),
        config: &Config,
        topology: Topology,
        facts: &[PortFacts],
        mut queues: Vec<Queues>,
        pool: FramePool,
    ) -> Result<Self, EngineError> {
        let (arena, arena_report) =
            Arena::new(config.cache.size.bytes(), config.cache.pages, cache_node(config, facts))?;
        let (cache, writers) = Cache::new(arena, topology.slow_path_threads, seed)?;
        let retention = retention(config);
        let writers: Vec<_> = writers.into_iter().map(|one| one.keeping(&retention)).collect();
        let calendar = Calendar::default();
        set_calendar(&calendar, clock);
        let cookies = cookies(&config.cookies, &calendar)?;
        let trust = Trust::load(&config.upstreams)?;
        let anchors = Anchors::load(&config.dnssec)?;
        let (ruleset, digest) = Ruleset::load(config, seed, RulesPublisher::FIRST)?;
        let stages = stages(config, facts, &cache, cookies, Arc::new(ruleset), clock);
        let (worker_rings, slow_path_rings, rings) = lay_rings(config, &topology);
        let (workers, threads) = (topology.workers.len(), topology.slow_path_threads);
        let (rules, inboxes) =
            RulesPublisher::new(workers, threads, seed, clock.ticks_per_second());
        let gauges = Gauges {
            workers: (0..topology.workers.len())
                .map(|worker| Arc::new(Published::new(topology.links(worker))))
                .collect(),
            slow_path: writers.iter().map(|_| Arc::default()).collect(),
            cache: writers.iter().map(|_| Arc::default()).collect(),
            upstreams: config.upstreams.iter().map(|_| UpstreamCounters::default()).collect(),
            upstream_addresses: config.upstreams.iter().map(|one| one.address.clone()).collect(),
            rings,
            pool,
            clock,
            calendar,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let shared_config = Arc::new(config.clone());
        let mut slow_path = Vec::new();
        let mut threads = Vec::new();
        for (index, ((writer, rings), rules)) in
            writers.into_iter().zip(slow_path_rings).zip(inboxes.slow_path).enumerate()
        {
            let (give, taken) = slowpath::orders();
            threads.push(give);
            let resolver = Parts {
                config: Arc::clone(&shared_config),
                trust_anchors: anchors.as_ref().map(|anchors| anchors.trust().clone()),
                lifetimes: lifetimes(config),
                cache: Arc::clone(&cache),
                writer,
                encode: stages.encode.clone(),
                pool: gauges.pool.clone(),
                counters: Arc::clone(&gauges.slow_path[index]),
                cache_counters: Arc::clone(&gauges.cache[index]),
                upstream_counters: Arc::clone(&gauges.upstreams),
            };
            slow_path.push(SlowPathParts {
                resolver,
                trust: trust.clone(),
                inlets: rings.misses,
                hits: rings.hits,
                outlets: rings.answers,
                answers_to: rings.answers_to,
                rules,
                clock,
                orders: taken,
                stop: Arc::clone(&stop),
            });
        }
        let news: AllPortNews = config.ports.iter().map(|_| PortNews::default()).collect();
        let has_neighbor = |plan: &WorkerPlan| plan.stages.contains(StageName::Neighbor);
        let announcer = topology.workers.iter().position(has_neighbor);
        let mut workers: Vec<Worker> = Vec::new();
        for (((plan, rings), published), rules) in
            topology.workers.iter().zip(worker_rings).zip(&gauges.workers).zip(inboxes.workers)
        {
            let mut parts = WorkerParts {
                line: stages.man(plan.stages),
                batch: usize::from(config.frames.batch),
                receivers: Vec::new(),
                rings_in: rings.packets_in,
                transmitters: Vec::new(),
                rings_out: rings.packets_out,
                misses: rings.misses,
                prefixes: ClientPrefixes::new(&config.ratelimit, seed),
                hits: rings.hits,
                answers: rings.answers,
                cache: Arc::clone(&cache),
                rules,
                news: Arc::clone(&news),
                announces: announcer == Some(workers.len()),
                pool: gauges.pool.clone(),
                clock,
                published: Arc::clone(published),
            };
            // Queues are handed out in the order of their numbers, as the plan counts them.
            for port in &mut queues {
                parts.receivers.extend(plan.rx_queue.map(|_| port.rx.remove(0)));
                parts.transmitters.extend(plan.tx_queue.map(|_| port.tx.remove(0)));
            }
            workers.push(Worker::new(parts));
        }
        Ok(Self {
            workers,
            slow_path,
            gauges,
            news,
            orders: CacheOrders::new(threads, cache, clock, config.scope_map()),
            arena: arena_report,
            digest,
            rules: Some(rules),
            topology,
            stop,
        })
    }

    /// Starts every thread. Data cores are pinned if `pin` says so.
    pub fn start(self, config: &Config, pin: bool) -> Result<Running, EngineError> {
        let mut running = Running { threads: Vec::new(), stop: Arc::clone(&self.stop) };
        let available = core_affinity::get_core_ids().unwrap_or_default();
        let available: Vec<usize> = available.into_iter().map(|core| core.id).collect();
        let slow_path_cores = slow_path_cores(config, &self.topology, &available);
        for (index, parts) in self.slow_path.into_iter().enumerate() {
            let core = slow_path_cores.get(index % slow_path_cores.len().max(1)).copied();
            running.spawn(format!("slowpath-{index}"), core.filter(|_| pin), move || {
                slowpath::run(parts);
            })?;
        }
        for (worker, plan) in self.workers.into_iter().zip(&self.topology.workers) {
            let (idle, stop) = (plan.idle, Arc::clone(&self.stop));
            let name = format!("worker-{}", plan.core);
            running.spawn(name, Some(plan.core).filter(|_| pin), move || {
                worker.run(idle, &stop);
            })?;
        }
        Ok(running)
    }
}

impl Running {
    fn spawn(
        &mut self,
        name: String,
        core: Option<usize>,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), EngineError> {
        let body = move || {
            pin(core);
            // Held until the thread ends: DPDK keeps a share of the frame pool for it.
            let adopted = adopt_data_thread();
            if let Err(error) = &adopted {
                tracing::warn!("{error}; this thread takes frames more slowly");
            }
            work();
        };
        let thread = std::thread::Builder::new().name(name).spawn(body);
        self.threads.push(thread.map_err(EngineError::Thread)?);
        Ok(())
    }

    /// Whether a thread has ended on its own, which none should.
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Stops taking frames in, lets everything under way leave, and waits for the threads. `true` if
    /// all of them ended in good order.
    pub fn stop(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        let panicked = self.threads.drain(..).filter_map(|thread| thread.join().err()).count();
        panicked == 0
    }
}

impl Drop for Running {
    /// No thread outlives the engine, also when starting the next one fails.
    fn drop(&mut self) {
        self.end();
    }
}

/// The NUMA node of the cache: the one the config names, else the first port's.
fn cache_node(config: &Config, facts: &[PortFacts]) -> Option<u32> {
    config.cache.numa_node.or_else(|| facts.first()?.numa_node)
}

pub(crate) fn random_seed() -> Result<Seed, EngineError> {
    Ok(Seed::new(random()?))
}

fn random() -> Result<[u8; 16], EngineError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(EngineError::Random)?;
    Ok(random)
}

/// Cookies as the config wants them, with a secret of their own if it names none.
fn cookies(
    settings: &pmdns_config::Cookies,
    calendar: &Calendar,
) -> Result<Option<Cookies>, EngineError> {
    if !settings.enabled {
        return Ok(None);
    }
    let secrets = settings.secrets().map_err(EngineError::Cookies)?;
    let secret = match secrets.secret {
        Some(secret) => secret.0,
        None => random()?,
    };
    let accepted = secrets.accepted.map(|secret| secret.0);
    Ok(Some(Cookies::new(secret, accepted, settings.require, calendar.clone())))
}

fn set_calendar(calendar: &Calendar, clock: Clock) {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Cookies have its last 32 bits (RFC 9018 section 4.3).
    calendar.set(since_1970.as_secs() as u32, clock.context(clock.now()).seconds);
}

/// One of each stage, as the config describes them.
fn stages(
    config: &Config,
    facts: &[PortFacts],
    cache: &Arc<Cache>,
    cookies: Option<Cookies>,
    rules: Arc<Ruleset>,
    clock: Clock,
) -> Stages {
    let ports: Ports = config.ports.iter().zip(facts).map(stage_port).collect();
    let seed = cache.seed();
    let misses = Limiter::of_misses(&config.ratelimit, clock.ticks_per_second(), seed);
    let errors = Limiter::of_error_replies(&config.ratelimit, clock.ticks_per_second(), seed);
    let fixed = Arc::new(FixedAnswers::new(&config.answers));
    Stages {
        parse: Parse::new(Arc::clone(&ports), seed)
            .with_cookies(cookies)
            .with_subnet_policy(config.client_subnet.policy)
            .with_fixed_answers(Arc::clone(&fixed))
            .dropping(Dropped::new(config)),
        neighbor: Neighbor::new(Arc::clone(&ports), clock.ticks_per_second(), seed)
            .limited(errors.clone()),
        acl: Acl::new(config, &rules),
        ratelimit: RateLimit::new(&config.ratelimit, clock.ticks_per_second(), seed),
        lookup: Lookup::new(Arc::clone(cache), Arc::clone(&rules))
            .sampling(retention(config).needs_hits()),
        policy: Policy::new(Arc::clone(&rules), seed).limited(misses).answering_any(&fixed),
        encode: Encode::new(Arc::clone(cache), rules, ports, config.answers.max_udp_size)
            .with_fixed_answers(fixed, config.answers.nsid.as_deref())
            .limited(errors),
    }
}

fn stage_port((settings, facts): (&pmdns_config::Port, &PortFacts)) -> Port {
    let addresses = settings.addresses.iter().map(|address| address.address);
    Port {
        vlans: Vlans::of(&settings.vlans),
        dns_port: settings.dns_port,
        checksum_offload: settings.checksum_offload && facts.checksum_offload,
        partial_checksums: facts.partial_checksums,
        ..Port::new(facts.mac, addresses)
    }
}

fn lifetimes(config: &Config) -> Lifetimes {
    Lifetimes {
        min_ttl: config.cache.min_ttl,
        max_ttl: config.cache.max_ttl,
        max_negative_ttl: config.cache.max_negative_ttl,
        max_body: usize::from(config.answers.max_udp_size),
    }
}

fn retention(config: &Config) -> Retention {
    Retention {
        max_negative_share: config.cache.max_negative_share,
        max_negative_ttl: config.cache.max_negative_ttl,
        eviction: config.cache.eviction,
        counts_hits: config.prefetch.enabled,
        access_window: config.prefetch.cache_access_window_secs,
    }
}

/// Lays every ring of the topology and gives each end to its holder.
fn lay_rings(
    config: &Config,
    topology: &Topology,
) -> (Vec<WorkerRings>, Vec<SlowPathRings>, RingGauges) {
    let needs_hits = retention(config).needs_hits();
    let mut gauges = Vec::new();
    let mut workers: Vec<WorkerRings> =
        topology.workers.iter().map(|_| WorkerRings::default()).collect();
    // The plan lists rings in the order in which both ends count them.
    for plan in &topology.rings {
        let (sender, receiver) = ring(config.frames.ring as usize);
        gauges.push((RingEnds::Packets(plan.from, plan.to), receiver.gauge()));
        workers[plan.from].packets_out.push(sender);
        workers[plan.to].packets_in.push(receiver);
    }
    let mut threads = Vec::new();
    for number in 0..topology.slow_path_threads {
        let mut thread = SlowPathRings::default();
        let mut outlet_of = vec![0; workers.len()];
        for (index, plan) in topology.workers.iter().enumerate() {
            if plan.tx_queue.is_some() {
                let (sender, receiver) = ring(config.frames.ring as usize);
                gauges.push((RingEnds::Answers(number, index), receiver.gauge()));
                outlet_of[index] = thread.answers.len();
                thread.answers.push(sender);
                workers[index].answers.push(receiver);
            }
        }
        for (index, (worker, plan)) in workers.iter_mut().zip(&topology.workers).enumerate() {
            let (sender, receiver) = ring(config.slowpath.ring as usize);
            gauges.push((RingEnds::Misses(index, number), receiver.gauge()));
            worker.misses.push(sender);
            thread.misses.push(receiver);
            thread.answers_to.push(outlet_of[plan.answered_by]);
            if needs_hits && plan.stages.contains(StageName::Lookup) {
                let (sender, receiver) = ring(HIT_SLOTS);
                gauges.push((RingEnds::Hits(index, number), receiver.gauge()));
                worker.hits.push(sender);
                thread.hits.push(receiver);
            }
        }
        threads.push(thread);
    }
    (workers, threads, gauges.into())
}

/// CPUs for the slow path: those the config names, else those of `available` that no data core uses; none: any CPU.
fn slow_path_cores(config: &Config, topology: &Topology, available: &[usize]) -> Vec<usize> {
    if !config.slowpath.cores.is_empty() {
        return config.slowpath.cores.clone();
    }
    let is_data = |core: &usize| topology.workers.iter().any(|worker| worker.core == *core);
    available.iter().copied().filter(|core| !is_data(core)).collect()
}

#[cfg(test)]
mod tests {
    use pmdns_nics::{Nic as _, memory};

    use super::*;
    use crate::testing::config;

    fn facts(numa_node: Option<u32>) -> Vec<PortFacts> {
        let (nic, _, _) = memory::link("p0", 0, 1, 64);
        vec![PortFacts { numa_node, ..nic.facts().clone() }]
    }

    #[test]
    fn trap_23_the_slow_path_keeps_to_the_cpu_set_and_off_the_data_cores() {
        let on = |more: &str, available: &[usize]| {
            let config = config(more);
            let topology = Topology::plan(&config, &facts(None), available).expect("a plan");
            slow_path_cores(&config, &topology, available)
        };
        assert_eq!(on("", &[0, 1]), [0], "the data core is the last one");
        assert_eq!(on("", &[2, 5, 7]), [2, 5]);
        assert_eq!(on("", &[0]), [0; 0], "one CPU for everything: the scheduler decides");
        assert_eq!(on("[slowpath]\ncores = [1]\n", &[0, 1]), [1], "as the operator says");
    }

    #[test]
    fn trap_23_memory_is_where_the_port_is_as_far_as_anybody_knows() {
        let node = |more: &str, port| cache_node(&config(more), &facts(port));
        assert_eq!(node("", Some(7)), Some(7), "the last of eight nodes");
        assert_eq!(node("", None), None, "a VM that does not say");
        assert_eq!(node("[cache]\nnuma_node = 3\n", Some(7)), Some(3), "as the operator says");
    }
}
