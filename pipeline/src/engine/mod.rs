//! The engine: builds, starts, watches and stops everything that a topology names.

mod asking;
mod gauges;
mod rings;
mod threads;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crossbeam_channel::Sender;
use pmdns_config::narrow::to_u8;
use pmdns_config::{Config, Problem, StageName};
use pmdns_nics::hugepage::{Arena, ArenaError, ArenaReport};
use pmdns_nics::stream::IdleTime;
use pmdns_nics::{FramePool, PortFacts, Queues};
use pmdns_resolver::Roster;
use pmdns_stages::Packet;
use pmdns_stages::cache::{Cache, CacheError, Lifetimes, Retention, Writer};
use pmdns_stages::client_table::{ClientTable, ClientTableWriter};
use pmdns_stages::exceptions::ClassLimit;
use pmdns_stages::policy::{Digest, Ruleset, RulesetError};
use pmdns_stages::ports::Ports;
use pmdns_stages::ratelimit::ClientPrefixes;
use pmdns_stages::wire::name::Seed;

pub use self::asking::Asking;
pub use self::gauges::Gauges;
pub use self::rings::{RingEnds, RingGauges};
use self::rings::{SlowPathRings, TapRings, WorkerRings, lay_rings};
pub use self::threads::Running;
use crate::clock::{Clock, FIRST_SECOND};
use crate::exceptions::{KernelOutlets, PortOutlet, TapThread};
use crate::line::{StageParts, Stages};
use crate::observe::{ObserverLender, Observers};
use crate::ports::{AllPortNews, PortNews};
use crate::probe::{self, ProbeEnds, Prober};
use crate::ring::RingSender;
use crate::rule_names::ListNames;
use crate::rules::{CookieMaker, LineRules, ResolverRules, RulesInbox, RulesPublisher};
use crate::slowpath::{
    self, AnchorError, Anchors, Inlets, Order, Parts, PortParts, SlowPathParts, Trust, TrustError,
};
use crate::snapshot::CacheOrders;
use crate::topology::{Topology, WorkerPlan};
use crate::worker::{Worker, WorkerParts};
use crate::zone_limits::{LimitsInbox, LimitsLender};

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
    /// Certificates of encrypted upstreams cannot be checked.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The trust anchors cannot be used.
    #[error(transparent)]
    Anchors(#[from] AnchorError),
    /// The system gives no random numbers.
    #[error("no random numbers from the system: {0}")]
    Random(getrandom::Error),
    /// There is no memory for the client table.
    #[error("the client table: {0}; or lower clients.max_entries")]
    Clients(ArenaError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// The engine's parts for clients over streams, whose port comes behind the configured ones.
#[derive(Clone)]
pub struct EngineStreams {
    /// Where frames for them come from.
    pub pool: FramePool,
    /// How long an idle connection lasts, which they are told.
    pub idle_time: IdleTime,
}

/// Everything is built, nothing is started. Tests call the workers' turns themselves.
pub struct Engine {
    /// The data cores' work, in the order of the topology.
    pub workers: Vec<Worker>,
    /// The slow path's threads' work.
    pub slow_path: Vec<SlowPathParts>,
    /// The work of the TAPs' threads. One without an interface is not started.
    pub taps: Vec<TapThread>,
    /// The gauges, which can be read while they run.
    pub gauges: Gauges,
    /// The news of the ports for the data cores.
    pub news: AllPortNews,
    /// Jobs on the cache while they run.
    pub orders: CacheOrders,
    /// Lends observers to the data cores.
    pub observers: ObserverLender,
    /// The pages that the cache got.
    pub arena: ArenaReport,
    /// A summary of the rules.
    pub digest: Digest,
    /// Asks the data cores for health checks; taken by those.
    pub prober: Option<Prober>,
    /// Lends limits of zones to the data cores.
    pub zone_limits: Option<LimitsLender>,
    /// Lends new rules to the threads; taken by the reloader.
    pub rules: Option<RulesPublisher>,
    /// Changes the client table, if there is one; taken by the thread that does.
    pub clients: Option<ClientTableWriter>,
    topology: Topology,
    stop: Arc<AtomicBool>,
}

impl Engine {
    /// Builds what `topology` names over the started ports' queues. With `streams`, the last port is theirs.
    pub fn build(
        config: &Config,
        topology: Topology,
        facts: &[PortFacts],
        queues: Vec<Queues>,
        pool: FramePool,
        streams: Option<EngineStreams>,
    ) -> Result<Self, EngineError> {
        let clock = Clock::start().with_first_second(FIRST_SECOND);
        Self::build_from((clock, random_seed()?), config, topology, facts, queues, pool, streams)
    }

    /// The same, with a given clock and seed.
    pub(crate) fn build_from(
        (clock, seed): (Clock, Seed),
        config: &Config,
        topology: Topology,
        facts: &[PortFacts],
        queues: Vec<Queues>,
        pool: FramePool,
        streams: Option<EngineStreams>,
    ) -> Result<Self, EngineError> {
        let (cache, writers, arena) = cache(config, facts, topology.slow_path_shards, seed)?;
        let rings = lay_rings(config, &topology);
        let asking = Asking::new(config, facts, seed);
        let next_hops = Arc::clone(&asking.table);
        let mut gauges = Gauges::new(config, &topology, rings.gauges, next_hops, pool, clock);
        let (ruleset, digest) = Ruleset::load(config, cache.seed(), RulesPublisher::FIRST)?;
        let ruleset = Arc::new(ruleset);
        let clients = client_table(config, facts, cache.seed())?;
        let table = clients.as_ref().map(|writer| Arc::clone(writer.table()));
        let cookies = CookieMaker { random: random()?, calendar: gauges.calendar.clone() };
        let mut stages = Stages::new(StageParts {
            config,
            ports: Arc::clone(&asking.ports),
            cache: Arc::clone(&cache),
            rules: Arc::clone(&ruleset),
            clients: table,
            cookies: cookies.make(&config.cookies).map_err(EngineError::Cookies)?,
            ticks_per_second: clock.ticks_per_second(),
        });
        let (workers, threads) = (topology.workers.len(), topology.slow_path_shards);
        let burst = slowpath::burst(topology.cores_resolve, workers);
        if let Some(streams) = &streams {
            stages.encode = stages.encode.with_idle_time(streams.idle_time.clone());
        }
        let stream_pool = streams.map(|streams| (to_u8(config.ports.len()), streams.pool));
        let ticks_per_second = clock.ticks_per_second();
        let (mut rules, inboxes) =
            RulesPublisher::new(workers, threads, cache.seed(), ticks_per_second);
        rules.begin_with(&ruleset);
        rules.set_upstreams(gauges.upstreams.clone());
        rules.set_cookies(cookies);
        gauges.names = rules.names();
        gauges.names.set_lists(ListNames::of(config).read(&digest));
        let news: AllPortNews = config.ports.iter().map(|_| PortNews::default()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let ports = Arc::clone(&asking.ports);
        let shared = {
            let config = Arc::new(config.clone());
            Shared { config, ports, cache, stages, gauges, stream_pool, news, stop }
        };
        let (slow_path, orders) =
            shared.slow_path(asking, writers, rings.slow_path, burst, inboxes.slow_path)?;
        let (observers, of_cores) = ObserverLender::new(workers);
        let (zone_limits, limits_of_cores) = LimitsLender::new(workers);
        let inboxes = inboxes.workers.into_iter().zip(limits_of_cores).zip(of_cores);
        let taps = shared.taps(rings.taps);
        let (prober, probes) = probe::lay(&topology, &shared.gauges.pool);
        let rings = rings.workers.into_iter().zip(probes);
        let workers = shared.workers(&topology, queues, rings, inboxes);
        let Shared { cache, gauges, news, stop, .. } = shared;
        let orders = CacheOrders::new(orders, cache, clock, config.scope_map());
        let rules = Some(rules);
        Ok(Self {
            workers,
            slow_path,
            taps,
            gauges,
            news,
            orders,
            observers,
            arena,
            digest,
            prober: Some(prober),
            zone_limits: Some(zone_limits),
            rules,
            clients,
            topology,
            stop,
        })
    }
}

/// The parts that all threads share.
struct Shared {
    config: Arc<Config>,
    ports: Ports,
    cache: Arc<Cache>,
    stages: Stages,
    gauges: Gauges,
    stream_pool: Option<(u8, FramePool)>,
    news: AllPortNews,
    stop: Arc<AtomicBool>,
}

impl Shared {
    /// The slow path's threads' work, and the channel for each thread's cache orders.
    fn slow_path(
        &self,
        mut asking: Asking,
        writers: Vec<Writer>,
        rings: Vec<SlowPathRings>,
        burst: usize,
        inboxes: Vec<RulesInbox<ResolverRules>>,
    ) -> Result<(Vec<SlowPathParts>, Vec<Sender<Order>>), EngineError> {
        let trust = Trust::load(&self.config.upstreams)?;
        let anchors = Anchors::load(&self.config.dnssec)?;
        let threads = writers.into_iter().zip(rings).zip(inboxes).enumerate();
        let threads = threads.map(|(index, ((writer, rings), rules))| {
            let (give, orders) = slowpath::orders();
            let resolver = Parts {
                config: Arc::clone(&self.config),
                trust_anchors: anchors.as_ref().map(|anchors| anchors.trust().clone()),
                lifetimes: Lifetimes::of(&self.config),
                cache: Arc::clone(&self.cache),
                writer,
                encode: self.stages.encode.clone(),
                pool: self.gauges.pool.clone(),
                stream_pool: self.stream_pool.clone(),
                counters: Arc::clone(&self.gauges.slow_path[index]),
                cache_counters: Arc::clone(&self.gauges.cache[index]),
                roster: Roster::clone(&self.gauges.upstreams.roster()),
            };
            let ports = rings.queries.map(|queries| {
                let parts = PortParts {
                    thread: to_u8(index),
                    sources: Arc::clone(&asking.sources),
                    ports: Arc::clone(&asking.ports),
                    pool: self.gauges.pool.clone(),
                    queries,
                    replies: rings.replies,
                    burst,
                };
                (parts, asking.hops(&self.config, &self.news))
            });
            let parts = SlowPathParts {
                resolver,
                ports,
                trust: trust.clone(),
                inlets: Inlets { misses: rings.misses, hits: rings.hits, burst, rules },
                outlets: rings.answers,
                answers_to: rings.answers_to,
                clock: self.gauges.clock,
                orders,
                stop: Arc::clone(&self.stop),
            };
            (parts, give)
        });
        Ok(threads.unzip())
    }

    /// The work of the TAPs' threads.
    fn taps(&self, rings: Vec<TapRings>) -> Vec<TapThread> {
        let threads = rings.into_iter().zip(&*self.gauges.taps);
        let threads = threads.map(|(rings, (_, counters))| TapThread {
            port: rings.port,
            kernel: None,
            exceptions: rings.exceptions,
            left: Default::default(),
            frames: rings.frames,
            pool: self.gauges.pool.clone(),
            partial_checksums: self.ports[rings.port].partial_checksums,
            news: Arc::clone(&self.news),
            counters: Arc::clone(counters),
            stop: Arc::clone(&self.stop),
        });
        threads.collect()
    }

    /// The ways of one data core to the TAPs.
    fn to_kernel(&self, rings: Vec<(usize, Vec<RingSender<Packet>>)>) -> KernelOutlets {
        let (ticks, seed) = (self.gauges.clock.ticks_per_second(), self.cache.seed());
        let outlets = rings.into_iter().map(|(port, rings)| {
            let limits = ClassLimit::of_all(&self.config, ticks, seed);
            PortOutlet { port, classes: rings.into_iter().zip(limits).collect() }
        });
        let pool = self.gauges.pool.clone();
        KernelOutlets::new(outlets.collect(), Arc::clone(&self.ports), pool)
    }

    /// The data cores' work, in the order of the topology.
    fn workers(
        &self,
        topology: &Topology,
        mut queues: Vec<Queues>,
        rings: impl Iterator<Item = (WorkerRings, ProbeEnds)>,
        inboxes: impl Iterator<Item = ((RulesInbox<LineRules>, LimitsInbox), Observers)>,
    ) -> Vec<Worker> {
        let has_neighbor = |plan: &WorkerPlan| plan.stages.contains(StageName::Neighbor);
        let announcer = topology.workers.iter().position(has_neighbor);
        let workers = topology.workers.iter().zip(rings).zip(inboxes).enumerate();
        let workers = workers.map(|(index, ((plan, (rings, probes)), (rules, observers)))| {
            let (rules, zone_limits) = rules;
            let mut parts = WorkerParts {
                line: self.stages.man(plan.stages),
                batch: usize::from(self.config.frames.batch),
                receivers: Vec::new(),
                rings_in: rings.packets_in,
                transmitters: Vec::new(),
                rings_out: rings.packets_out,
                misses: rings.misses,
                prefixes: ClientPrefixes::new(&self.config.ratelimit, self.cache.seed()),
                hits: rings.hits,
                answers: rings.answers,
                queries: rings.queries,
                replies: rings.replies,
                to_kernel: self.to_kernel(rings.to_kernel),
                from_kernel: rings.from_kernel,
                probes: probes.probes,
                cache: Arc::clone(&self.cache),
                rules,
                zone_limits,
                observers,
                news: Arc::clone(&self.news),
                announces: announcer == Some(index),
                pool: self.gauges.pool.clone(),
                clock: self.gauges.clock,
                published: Arc::clone(&self.gauges.workers[index]),
            };
            // Queues are given out in the order of their numbers, as in the plan.
            for port in &mut queues {
                parts.receivers.extend(plan.rx_queue.map(|_| port.rx.remove(0)));
                parts.transmitters.extend(plan.tx_queue.map(|_| port.tx.remove(0)));
            }
            parts.transmitters.extend(probes.exit);
            Worker::new(parts)
        });
        workers.collect()
    }
}

/// The cache in memory of its own, with a writer for each shard.
fn cache(
    config: &Config,
    facts: &[PortFacts],
    shards: usize,
    seed: Seed,
) -> Result<(Arc<Cache>, Vec<Writer>, ArenaReport), EngineError> {
    let (size, node) = (config.cache.size.bytes(), cache_node(config, facts));
    let (arena, report) = Arena::new(size, config.cache.pages, node)?;
    let (cache, writers) = Cache::new(arena, shards, seed)?;
    let retention = Retention::of(config);
    let writers = writers.into_iter().map(|writer| writer.with_retention(&retention)).collect();
    Ok((cache, writers, report))
}

/// The writer of the client table, if there is to be one.
fn client_table(
    config: &Config,
    facts: &[PortFacts],
    seed: Seed,
) -> Result<Option<ClientTableWriter>, EngineError> {
    let max_entries = config.clients.max_entries as usize;
    if max_entries == 0 {
        return Ok(None);
    }
    let (bytes, node) = (ClientTable::bytes_for(max_entries), cache_node(config, facts));
    let arena = Arena::new(bytes, config.cache.pages, node);
    let (arena, _) = arena.map_err(EngineError::Clients)?;
    Ok(Some(ClientTable::new(arena, max_entries, seed).1))
}

/// A random seed for the hashes of names, so that nobody can predict them.
pub(crate) fn random_seed() -> Result<Seed, EngineError> {
    Ok(Seed::new(random()?))
}

/// The NUMA node of the cache: the one the config names, else the first port's.
fn cache_node(config: &Config, facts: &[PortFacts]) -> Option<u32> {
    config.cache.numa_node.or_else(|| facts.first()?.numa_node)
}

fn random() -> Result<[u8; 16], EngineError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(EngineError::Random)?;
    Ok(random)
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
    fn trap_23_memory_is_where_the_port_is_as_far_as_anybody_knows() {
        let node = |more: &str, port| cache_node(&config(more), &facts(port));
        assert_eq!(node("", Some(7)), Some(7), "the last of eight nodes");
        assert_eq!(node("", None), None, "a VM that does not say");
        assert_eq!(node("[cache]\nnuma_node = 3\n", Some(7)), Some(3), "as the operator says");
    }
}
