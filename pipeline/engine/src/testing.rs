//! A rig for tests and benches: an engine on memory ports. The test calls the workers' turns. [`BareStages`] are less.

use std::sync::Arc;

use pmdns_config::Config;
use pmdns_nics::hugepage::Arena;
use pmdns_nics::{
    Burst, Frame, FramePool, HeapPool, MAX_BURST, PortFacts, PortPlan, Queues, memory,
};
use pmdns_stages::cache::{Cache, Entry, Writer};
use pmdns_stages::client_table::ClientTableWriter;
use pmdns_stages::cookie::Cookies;
use pmdns_stages::policy::{Ruleset, RulesetError};
use pmdns_stages::ports::Port;
use pmdns_stages::testing::{QueryFrame, ReplyRecord, entry_of, frame_from};
use pmdns_stages::wire::name::Seed;

#[cfg(debug_assertions)]
use crate::clock::SteppedTime;
use crate::clock::{Clock, FIRST_SECOND};
use crate::encrypted::asked_by_test;
use crate::engine::{Engine, EngineParts, EngineStreams, FromBefore, Gauges, random_seed};
use crate::exceptions::TapThread;
use crate::lending::LimitsLender;
use crate::line::{StageParts, Stages};
use crate::lookup_line::LookupLine;
use crate::news::AllPortNews;
use crate::observe::ObserverLender;
use crate::probe::Prober;
use crate::relay::RelayRings;
use crate::rules::RulesPublisher;
use crate::slowpath::{Parts, SlowPathParts};
use crate::topology::Topology;
use crate::worker::{Turn, Worker};

/// Frames in the rig's pool.
const FRAMES: usize = 8192;
/// Slots in each direction of the rig's link.
const DEPTH: usize = 4096;

/// The config of a rig: one port with the addresses of `stages::testing`, in a few VLANs. `more` is added to it. Every
/// client may ask, unless `more` has an `[acl]`.
pub fn config(more: &str) -> Config {
    let acl = if more.contains("[acl]") { "" } else { "[acl]\ndefault = \"allow\"" };
    let text = format!(
        r#"
        [[port]]
        name = "p0"
        device = "memory"
        addresses = ["10.77.0.2/24", "fd77::2/64"]
        vlans = ["untagged", 7, [7, 7]]
        [[upstream]]
        address = "127.0.0.1:5353"
        [control]
        socket = "unused"
        {more}
        {acl}
        "#
    );
    Config::from_toml(&text).expect("the test's config is lawful")
}

/// The stages of one port over one cache, without an engine.
pub struct BareStages {
    /// One of each stage.
    pub stages: Stages,
    /// The cache.
    pub cache: Arc<Cache>,
    /// Its writer.
    pub writer: Writer,
    /// The rules.
    pub rules: Arc<Ruleset>,
}

/// What stages need that their configuration does not say.
pub struct StageNeeds {
    /// The port.
    pub port: Port,
    /// Memory of the cache.
    pub arena: Arena,
    /// The seed of all hashes.
    pub seed: Seed,
    /// The check of clients' cookies.
    pub cookies: Option<Cookies>,
    /// Ticks of the clock in a second.
    pub ticks_per_second: u64,
}

impl BareStages {
    /// The stages that `config` describes.
    ///
    /// # Errors
    ///
    /// The rules are refused.
    pub fn new(config: &Config, needs: StageNeeds) -> Result<Self, RulesetError> {
        let StageNeeds { port, arena, seed, cookies, ticks_per_second } = needs;
        let (rules, _) = Ruleset::load(config, seed, 1)?;
        let rules = Arc::new(rules);
        let (cache, mut writers) = Cache::new(arena, 1, seed).expect("the arena is large enough");
        let stages = Stages::new(StageParts {
            config,
            ports: [port].into(),
            cache: Arc::clone(&cache),
            rules: Arc::clone(&rules),
            clients: None,
            cookies,
            ticks_per_second,
        });
        let writer = writers.pop().expect("one shard has one writer");
        Ok(Self { stages, cache, writer, rules })
    }
}

/// An engine that is not started, and the far end of its port.
pub struct Rig {
    /// The workers, in the order of the topology.
    pub workers: Vec<Worker>,
    /// The slow path, which does not run either.
    pub slow_path: Vec<SlowPathParts>,
    /// The threads of TAPs, which do not run either.
    pub taps: Vec<TapThread>,
    /// The counters.
    pub gauges: Gauges,
    /// Where other rules are lent from.
    pub rules: RulesPublisher,
    /// Finds out what would become of queries.
    pub lookups: LookupLine,
    /// Where observers are lent from.
    pub observers: ObserverLender,
    /// Changes the client table, if there is one.
    pub clients: Option<ClientTableWriter>,
    /// Where limits of zones are lent from.
    pub zone_limits: Option<LimitsLender>,
    /// Asks the workers for health checks.
    pub prober: Prober,
    /// Passes frames of another process.
    pub relay: RelayRings,
    /// The plan.
    pub topology: Topology,
    /// The news of the port for the workers.
    pub news: AllPortNews,
    /// Where frames come from.
    pub pool: FramePool,
    /// The far end of the port.
    pub far: Queues,
}

impl Rig {
    /// Builds an engine for `config`, whose placements may name any core.
    pub fn new(config: &Config) -> Self {
        let clock = Clock::start().with_first_second(FIRST_SECOND);
        let seed = random_seed().expect("the system has random numbers");
        Self::of(config, clock, seed, FRAMES)
    }

    /// The same with a port of clients over streams, which has these facts and is opened by its plan.
    pub fn with_streams(
        config: &Config,
        facts: PortFacts,
        open: impl FnOnce(&PortPlan) -> (Queues, EngineStreams),
    ) -> Self {
        let clock = Clock::start().with_first_second(FIRST_SECOND);
        let seed = random_seed().expect("the system has random numbers");
        Self::build(config, clock, seed, FRAMES, Some((facts, open)))
    }

    /// The same with a clock that stands still until the test advances the returned time.
    #[cfg(debug_assertions)]
    pub fn stepped(config: &Config) -> (Self, SteppedTime) {
        let time = SteppedTime::default();
        let clock = Clock::stepped(time).with_first_second(FIRST_SECOND);
        let seed = random_seed().expect("the system has random numbers");
        (Self::of(config, clock, seed, FRAMES), time)
    }

    /// The same with this clock, this seed of all hashes, and this number of frames.
    pub fn of(config: &Config, clock: Clock, seed: Seed, frames: usize) -> Self {
        type NoPort = fn(&PortPlan) -> (Queues, EngineStreams);
        Self::build(config, clock, seed, frames, None::<(_, NoPort)>)
    }

    fn build(
        config: &Config,
        clock: Clock,
        seed: Seed,
        frames: usize,
        streams: Option<(PortFacts, impl FnOnce(&PortPlan) -> (Queues, EngineStreams))>,
    ) -> Self {
        let all_cores: Vec<usize> = (0..64).collect();
        let queues = 8;
        let (nic, near, far) = memory::link("p0", 0, queues, DEPTH);
        let mut facts = vec![pmdns_nics::Nic::facts(&nic).clone()];
        let open = streams.map(|(of_streams, open)| {
            facts.push(of_streams);
            open
        });
        let topology = Topology::plan(config, &facts, &all_cores).expect("a lawful placement");
        let pool = FramePool::Heap(HeapPool::new(frames));
        let opened = open.map(|open| open(&topology.ports[1]));
        let (of_streams, streams) = opened.unzip();
        let parts = EngineParts {
            config,
            topology: topology.clone(),
            facts: &facts,
            queues: std::iter::once(near).chain(of_streams).collect(),
            pool: pool.clone(),
            streams,
            load_encrypted: asked_by_test,
            passed: FromBefore::default(),
        };
        let engine = Engine::build_from(clock, seed, parts).expect("the engine can be built");
        let Engine {
            workers,
            slow_path,
            taps,
            gauges,
            rules,
            lookups,
            observers,
            clients,
            news,
            prober,
            relay,
            zone_limits,
            ..
        } = engine;
        let (rules, prober) = (rules.expect("nobody took them"), prober.expect("nobody took it"));
        let relay = relay.expect("nobody took it");
        Self {
            workers,
            slow_path,
            taps,
            gauges,
            rules,
            lookups,
            observers,
            clients,
            zone_limits,
            prober,
            relay,
            topology,
            news,
            pool,
            far,
        }
    }

    /// Puts an answer to `query` into the cache.
    pub fn learn(&mut self, query: &QueryFrame, records: &[ReplyRecord]) {
        let cache = &self.slow_path[0].resolver.cache;
        let now = self.gauges.clock.context(self.gauges.clock.now()).seconds;
        self.keep(entry_of(query, records, now, cache.seed()));
    }

    /// Puts an answer into the cache.
    pub fn keep(&mut self, entry: Entry) {
        let shard = self.slow_path[0].resolver.cache.shard_of(entry.head().hash);
        let Parts { encode, writer, .. } = &mut self.slow_path[shard].resolver;
        writer.insert(&encode.rules().respond_again(entry));
    }

    /// A frame with these bytes from the rig's pool.
    pub fn frame(&self, bytes: &[u8]) -> Frame {
        frame_from(&self.pool, bytes)
    }

    /// Puts frames into RX queue `queue` of the port, as the wire would.
    pub fn offer(&mut self, queue: usize, frames: &mut Burst) {
        self.far.tx[queue].transmit(frames);
    }

    /// Turns every worker until none finds work.
    pub fn settle(&mut self) {
        while self
            .workers
            .iter_mut()
            .map(Worker::turn)
            .fold(false, |busy, turn| busy | (turn == Turn::Busy))
        {}
    }

    /// Takes every frame that was sent, queue by queue.
    pub fn sent(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        for queue in &mut self.far.rx {
            let mut burst = Burst::new();
            while queue.receive(&mut burst, MAX_BURST) > 0 {
                frames.extend(burst.drain(..));
            }
        }
        frames
    }
}
