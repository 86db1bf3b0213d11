//! The foundations of an engine: memory, rules, stages and rings, before any thread's work is made of them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pmdns_config::Config;
use pmdns_config::narrow::to_u8;
use pmdns_nics::hugepage::{Arena, ArenaReport};
use pmdns_nics::stream::IdleTime;
use pmdns_nics::{FramePool, PortFacts, Queues};
use pmdns_stages::cache::{Cache, Retention, Writer};
use pmdns_stages::client_table::{ClientTable, ClientTableWriter};
use pmdns_stages::exceptions::KnownRouters;
use pmdns_stages::next_hop::KnownHop;
use pmdns_stages::policy::{Digest, Ruleset};
use pmdns_stages::wire::name::Seed;

use super::asking::Asking;
use super::error::EngineError;
use super::gauges::Gauges;
use super::rings::{RingNeeds, Rings};
use super::shared::SharedByThreads;
use crate::clock::Clock;
use crate::encrypted::LoadEncrypted;
use crate::line::{StageParts, Stages};
use crate::news::NewsBoard;
use crate::rule_names::ListNames;
use crate::rules::{CookieMaker, RulesInboxes, RulesPublisher};
use crate::topology::Topology;
use crate::upstreams::UpstreamsInUse;

/// The engine's parts for clients over streams, whose port comes behind the configured ones.
#[derive(Clone)]
pub struct EngineStreams {
    /// Where frames for them come from.
    pub pool: FramePool,
    /// How long an idle connection lasts, which they are told.
    pub idle_time: IdleTime,
}

/// What an engine is built of.
pub struct EngineParts<'p> {
    /// The configuration.
    pub config: &'p Config,
    /// The plan.
    pub topology: Topology,
    /// The facts of the ports.
    pub facts: &'p [PortFacts],
    /// The queues of the ports, which have been started.
    pub queues: Vec<Queues>,
    /// The frames.
    pub pool: FramePool,
    /// Those of clients over streams, if the last port is theirs.
    pub streams: Option<EngineStreams>,
    /// Who asks encrypted upstreams.
    pub load_encrypted: LoadEncrypted,
    /// What the process before has passed.
    pub passed: FromBefore,
}

/// What the process before has passed, if there is one.
#[derive(Default)]
pub struct FromBefore {
    /// Its cache.
    pub memory: Option<PassedMemory>,
    /// The next hops that it has found, on the ports of this process.
    pub hops: Vec<KnownHop>,
}

/// The cache's memory of another process, which may still write to it.
pub struct PassedMemory {
    /// The memory, in this process's layout and split into as many shards.
    pub arena: Arena,
    /// Its pages.
    pub report: ArenaReport,
    /// The seed of its hashes.
    pub seed: Seed,
    /// The clock of its seconds.
    pub clock: Clock,
}

/// What the work of every thread is made of.
pub(super) struct Foundations {
    pub(super) shared: SharedByThreads,
    pub(super) topology: Topology,
    pub(super) asking: Asking,
    /// The writers of the cache, for each thread of the slow path.
    pub(super) writers: Vec<Writer>,
    pub(super) rings: Rings,
    pub(super) arena: ArenaReport,
    pub(super) rules: RulesPublisher,
    pub(super) inboxes: RulesInboxes,
    pub(super) digest: Digest,
    pub(super) clients: Option<ClientTableWriter>,
}

impl Foundations {
    /// Takes the memory, reads the rules, makes the stages and lays the rings.
    pub(super) fn lay(
        clock: Clock,
        seed: Seed,
        parts: EngineParts<'_>,
    ) -> Result<Self, EngineError> {
        let EngineParts { config, topology, facts, queues, pool, streams, load_encrypted, passed } =
            parts;
        let shards = topology.slow_path_shards;
        let (cache, writers, arena) = cache(config, facts, passed.memory, shards, seed)?;
        let asking = Asking::new(config, facts, seed, &passed.hops);
        let gateways = config.ports.iter().flat_map(|port| port.gateways.iter().copied());
        let peers = Arc::new(KnownRouters::new(gateways, seed));
        let rings = Rings::lay(RingNeeds {
            config,
            topology: &topology,
            queues,
            pool: &pool,
            ports: &asking.ports,
            sources: &asking.sources,
            peers: &peers,
            seed,
            clock,
        });
        let (gauged, next_hops) = (Arc::clone(&rings.gauges), Arc::clone(&asking.table));
        let upstreams = UpstreamsInUse::new(config, load_encrypted);
        let mut gauges = Gauges::new(upstreams, &topology, gauged, next_hops, pool, clock);
        let (ruleset, digest) = Ruleset::load(config, cache.seed(), RulesPublisher::FIRST)?;
        let ruleset = Arc::new(ruleset);
        let clients = client_table(config, facts, cache.seed())?;
        let cookies = CookieMaker { random: random()?, calendar: gauges.calendar.clone() };
        let mut stages = Stages::new(StageParts {
            config,
            ports: Arc::clone(&asking.ports),
            cache: Arc::clone(&cache),
            rules: Arc::clone(&ruleset),
            clients: clients.as_ref().map(|writer| Arc::clone(writer.table())),
            cookies: cookies.make(&config.cookies).map_err(EngineError::Cookies)?,
            ticks_per_second: clock.ticks_per_second(),
        });
        if let Some(streams) = &streams {
            stages.encode = stages.encode.with_idle_time(streams.idle_time.clone());
        }
        let (rules, inboxes) = publisher(&topology, &ruleset, cookies, &gauges, seed);
        gauges.names = rules.names();
        gauges.names.set_lists(ListNames::of(config).read(&digest));
        let shared = SharedByThreads {
            config: Arc::new(config.clone()),
            ports: Arc::clone(&asking.ports),
            cache,
            stages,
            gauges,
            stream_pool: streams.map(|streams| (to_u8(config.ports.len()), streams.pool)),
            news: Arc::new(NewsBoard::new(config.ports.len())),
            peers,
            load_encrypted,
            stop: Arc::new(AtomicBool::new(false)),
        };
        Ok(Self {
            shared,
            topology,
            asking,
            writers,
            rings,
            arena,
            rules,
            inboxes,
            digest,
            clients,
        })
    }
}

/// Lends `ruleset` and those after it to the threads of `topology`.
fn publisher(
    topology: &Topology,
    ruleset: &Arc<Ruleset>,
    cookies: CookieMaker,
    gauges: &Gauges,
    seed: Seed,
) -> (RulesPublisher, RulesInboxes) {
    let (cores, threads) = (topology.workers.len(), topology.slow_path_shards);
    let ticks_per_second = gauges.clock.ticks_per_second();
    let (mut rules, inboxes) = RulesPublisher::new(cores, threads, seed, ticks_per_second);
    rules.begin_with(ruleset);
    rules.set_stretches(topology.stretches());
    rules.set_upstreams(gauges.upstreams.clone());
    rules.set_cookies(cookies);
    (rules, inboxes)
}

/// The cache in the memory that was passed, or in memory of its own, with a writer for each shard.
fn cache(
    config: &Config,
    facts: &[PortFacts],
    passed: Option<PassedMemory>,
    shards: usize,
    seed: Seed,
) -> Result<(Arc<Cache>, Vec<Writer>, ArenaReport), EngineError> {
    if let Some(PassedMemory { arena, report, .. }) = passed {
        let (cache, writers) = Cache::over(arena, seed, shards)?;
        return Ok((cache, writers, report));
    }
    let (size, node) = (config.cache.size.bytes(), cache_node(config, facts));
    let (arena, report) = Arena::new(size, config.cache.pages, node)?;
    arena.lock().map_err(EngineError::Lock)?;
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

/// The NUMA node of the cache: the one the config names, else the first port's.
fn cache_node(config: &Config, facts: &[PortFacts]) -> Option<u32> {
    config.cache.numa_node.or_else(|| facts.first()?.numa_node)
}

pub(super) fn random() -> Result<[u8; 16], EngineError> {
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
