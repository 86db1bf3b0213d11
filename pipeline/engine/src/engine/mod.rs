//! The engine: builds, starts, watches and stops everything that a topology names.

mod asking;
mod error;
mod foundations;
mod gauges;
mod rings;
mod shared;
mod threads;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use pmdns_config::Config;
use pmdns_nics::crash::InHand;
use pmdns_nics::hugepage::ArenaReport;
use pmdns_stages::cache::{Retention, Writer};
use pmdns_stages::client_table::ClientTableWriter;
use pmdns_stages::policy::Digest;
use pmdns_stages::ports::Claim;
use pmdns_stages::wire::name::Seed;

pub use self::asking::Asking;
pub use self::error::EngineError;
pub use self::foundations::{EngineParts, EngineStreams, FromBefore, PassedMemory};
use self::foundations::{Foundations, random};
pub use self::gauges::Gauges;
pub use self::rings::{RingEnds, RingGauges};
use self::shared::SharedByThreads;
pub use self::threads::Running;
use crate::clock::{Clock, FIRST_SECOND};
use crate::exceptions::TapThread;
use crate::lending::LimitsLender;
use crate::lookup_line::LookupLine;
use crate::news::AllPortNews;
use crate::observe::ObserverLender;
use crate::probe::Prober;
use crate::relay::RelayRings;
use crate::rules::RulesPublisher;
use crate::slowpath::{self, SlowPathParts};
use crate::snapshot::CacheJobs;
use crate::topology::Topology;
use crate::worker::{Lent, Worker};

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
    /// Whether this node claims its addresses.
    pub claim: Claim,
    /// Jobs on the cache while they run.
    pub cache_jobs: CacheJobs,
    /// Finds out what would become of queries.
    pub lookups: LookupLine,
    /// Lends observers to the data cores.
    pub observers: ObserverLender,
    /// The pages that the cache got.
    pub arena: ArenaReport,
    /// A summary of the rules.
    pub digest: Digest,
    /// Asks the data cores for health checks; taken by those.
    pub prober: Option<Prober>,
    /// Frames of another process in a hand-over; taken by who passes them.
    pub relay: Option<RelayRings>,
    /// Lends limits of zones to the data cores.
    pub zone_limits: Option<LimitsLender>,
    /// Lends new rules to the threads; taken by the reloader.
    pub rules: Option<RulesPublisher>,
    /// Changes the client table, if there is one; taken by the thread that does.
    pub clients: Option<ClientTableWriter>,
    topology: Topology,
    stop: Arc<AtomicBool>,
}

/// How long the lock of a process that has ended may take to fall.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// How often to look for that.
const LOCK_LOOK: Duration = Duration::from_millis(1);

impl Engine {
    /// Builds what its topology names.
    pub fn build(parts: EngineParts<'_>) -> Result<Self, EngineError> {
        let (clock, seed) = match &parts.passed.memory {
            None => (Clock::start().with_first_second(FIRST_SECOND), random_seed()?),
            Some(passed) => (passed.clock, passed.seed),
        };
        Self::build_from(clock, seed, parts)
    }

    /// The other process writes no more to its cache: this one goes on with it. It comes before [`Engine::start`]. `false`: the
    /// cache is this process's own, or lacks some of its answers.
    pub fn take_cache(&mut self, config: &Config) -> Result<bool, EngineError> {
        if !self.slow_path.iter().any(|parts| parts.resolver.writer.is_frozen()) {
            return Ok(false);
        }
        let (arena, begun) = (self.cache_jobs.cache().arena(), Instant::now());
        while !arena.lock().map_err(EngineError::Lock)? {
            if begun.elapsed() > LOCK_PATIENCE {
                return Err(EngineError::Locked);
            }
            std::thread::sleep(LOCK_LOOK);
        }
        let (retention, now) = (Retention::of(config), self.cache_jobs.context().seconds);
        let writers = self.slow_path.iter_mut().map(|parts| &mut parts.resolver.writer);
        let is_sound = std::thread::scope(|threads| {
            let resume = |writer: &mut Writer| {
                let resumed = writer.resume(&retention, now);
                resumed.inspect_err(|error| tracing::warn!("{error}")).is_ok()
            };
            let threads = writers.map(|writer| threads.spawn(move || resume(writer)));
            let threads: Vec<_> = threads.collect();
            threads.into_iter().all(|thread| thread.join().unwrap_or(false))
        });
        let entries: u64 =
            self.slow_path.iter().map(|parts| parts.resolver.writer.stats().entries).sum();
        tracing::info!("the cache comes with {entries} answers, read in {:?}", begun.elapsed());
        Ok(is_sound && entries > 0)
    }

    /// Where a crash finds the packets of each data core.
    pub fn in_hand(&self) -> Vec<Arc<InHand>> {
        self.workers.iter().map(Worker::in_hand).collect()
    }

    /// The same, with a given clock and seed.
    pub(crate) fn build_from(
        clock: Clock,
        seed: Seed,
        parts: EngineParts<'_>,
    ) -> Result<Self, EngineError> {
        let foundations = Foundations::lay(clock, seed, parts)?;
        let Foundations { shared, topology, asking, writers, rings, inboxes, .. } = foundations;
        let (cores, claim) = (topology.workers.len(), asking.claim.clone());
        let burst = slowpath::burst(topology.cores_resolve, cores);
        let (slow_path, cache_jobs) =
            shared.slow_path(asking, writers, rings.slow_path, burst, inboxes.slow_path)?;
        let (observers, of_cores) = ObserverLender::new(cores);
        let (zone_limits, limits_of_cores) = LimitsLender::new(cores);
        let lent = inboxes.workers.into_iter().zip(limits_of_cores).zip(of_cores);
        let lent =
            lent.map(|((rules, zone_limits), observers)| Lent { rules, zone_limits, observers });
        let taps = shared.taps(rings.taps);
        let workers = shared.workers(&topology, rings.workers, lent);
        let SharedByThreads { config, cache, gauges, news, stop, stages, ports, .. } = shared;
        Ok(Self {
            lookups: LookupLine::new(stages, ports, seed),
            cache_jobs: CacheJobs::new(cache_jobs, cache, gauges.clock, config.scope_map()),
            workers,
            slow_path,
            taps,
            gauges,
            news,
            claim,
            observers,
            arena: foundations.arena,
            digest: foundations.digest,
            prober: Some(rings.prober),
            relay: Some(rings.relay),
            zone_limits: Some(zone_limits),
            rules: Some(foundations.rules),
            clients: foundations.clients,
            topology,
            stop,
        })
    }
}

/// A random seed for the hashes of names, so that nobody can predict them.
pub fn random_seed() -> Result<Seed, EngineError> {
    Ok(Seed::new(random()?))
}
