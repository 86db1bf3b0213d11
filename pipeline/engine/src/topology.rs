//! The plan: which stages each core runs, which queues and rings there are, and how many frames they need.
//!
//! Pure data, made from the config and the facts of the ports. It can be tested without a machine, and is printed at
//! start.

use std::fmt;

use pmdns_config::narrow::to_u16;
use pmdns_config::{Config, Idle, Placement, StageName, Stretch};
use pmdns_nics::{MAX_BURST, POOL_CACHE_FRAMES, PortFacts, PortPlan, Rss};
use pmdns_stages::exceptions::ExceptionClass;

use crate::counters::Link;
use crate::{exceptions, relay};

/// Frames that the slow path may hold while it answers.
const SLOW_PATH_FRAMES: usize = 256;

/// The whole plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// One for each data core, in line order.
    pub workers: Vec<WorkerPlan>,
    /// The rings between them.
    pub rings: Vec<RingPlan>,
    /// The queues and frames that each port is asked for.
    pub ports: Vec<PortPlan>,
    /// Names of the ports.
    pub port_names: Vec<String>,
    /// Shards of the slow path.
    pub slow_path_shards: usize,
    /// Whether each core turns one of them, in the order of the workers. Else each has a thread of its own.
    pub cores_resolve: bool,
    /// Whether upstreams are asked over ports.
    pub asks_over_ports: bool,
    /// Ports with a TAP, by number.
    pub taps: Vec<usize>,
    /// Frames in the pool: enough that no load can empty it.
    pub frames: usize,
}

/// One data core's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerPlan {
    /// The CPU it is pinned to.
    pub core: usize,
    /// The stretch of the line it runs.
    pub stages: Stretch,
    /// How it waits without work.
    pub idle: Idle,
    /// The RX queue it polls, on every port.
    pub rx_queue: Option<u16>,
    /// The TX queue it fills, on every port.
    pub tx_queue: Option<u16>,
    /// Rings it takes packets from, as indexes into [`Topology::rings`].
    pub rings_in: Vec<usize>,
    /// Rings it puts packets into, by shard.
    pub rings_out: Vec<usize>,
    /// The worker that sends the slow path's answers to this worker's misses.
    pub answered_by: usize,
}

/// A ring between two workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlan {
    /// The worker that fills it.
    pub from: usize,
    /// The worker that empties it.
    pub to: usize,
}

/// Why no topology could be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// A CPU does not exist.
    #[error(
        "placement uses core {core}, which this process may not run on; it may use {available:?} \
         (change `cores`, or the process's CPU set)"
    )]
    NoSuchCore {
        /// The CPU asked for.
        core: usize,
        /// The CPUs there are.
        available: Vec<usize>,
    },
    /// A port has too few queues.
    #[error(
        "port `{port}` ({driver}) has at most {max} {direction} queues, but {cores} cores run \
         `{stages}`; use fewer cores there, or a port with more queues"
    )]
    TooFewQueues {
        /// The port's name.
        port: String,
        /// Its driver.
        driver: String,
        /// `RX` or `TX`.
        direction: &'static str,
        /// Queues it can have.
        max: u16,
        /// Queues needed.
        cores: usize,
        /// The stretch whose cores need them.
        stages: Stretch,
    },
    /// A port would let clients exceed the rate limits.
    #[error(
        "port `{port}` ({driver}) spreads a client's queries over {cores} RX queues. Each of {cores} cores would \
         grant it the limits of [ratelimit]. Place `parse..ratelimit` on one core, or give the port RSS by address \
         (QEMU: mq=on,rss=on,hash=on). Or accept it with ratelimit.per_core = true"
    )]
    InexactLimits {
        /// The port's name.
        port: String,
        /// Its driver.
        driver: String,
        /// The cores that poll it.
        cores: usize,
    },
}

impl Topology {
    /// Those of the `available` CPUs that no data core uses.
    pub fn spare_cores(&self, available: &[usize]) -> impl DoubleEndedIterator<Item = usize> {
        let is_data = |core: &usize| self.workers.iter().any(|worker| worker.core == *core);
        available.iter().copied().filter(move |core| !is_data(core))
    }

    /// Plans for `config`, on ports with these facts and on these CPUs.
    pub fn plan(
        config: &Config,
        facts: &[PortFacts],
        available: &[usize],
    ) -> Result<Self, TopologyError> {
        // The default is the last CPU, because the first one serves the interrupts of most machines.
        let default_core = available.last().copied().unwrap_or(0);
        let mut groups = config.placements_or_default(default_core);
        groups.sort_by_key(|group| group.stages.first);
        check_cores(&groups, available)?;
        check_queues(&groups, facts)?;
        check_limits(&groups, facts, config)?;
        let (workers, rings) = assign(&groups);
        let queues =
            |has: fn(&WorkerPlan) -> bool| to_u16(workers.iter().filter(|w| has(w)).count());
        let port = PortPlan {
            rx_queues: queues(|worker| worker.rx_queue.is_some()),
            tx_queues: queues(|worker| worker.tx_queue.is_some()),
            rss: Rss::None,
            interrupts: workers
                .iter()
                .any(|worker| worker.rx_queue.is_some() && worker.idle == Idle::Adaptive),
        };
        let mut topology = Self {
            ports: facts
                .iter()
                .map(|facts| PortPlan { rss: rss(&groups, facts, config), ..port })
                .collect(),
            port_names: facts.iter().map(|port| port.name.clone()).collect(),
            slow_path_shards: config.slow_path_shards(),
            cores_resolve: groups.iter().any(|group| group.resolver),
            asks_over_ports: config.upstreams.iter().any(|one| config.upstream_port(one).is_some()),
            taps: (0..config.ports.len())
                .filter(|port| config.ports[*port].tap.is_some())
                .collect(),
            frames: 0,
            workers,
            rings,
        };
        topology.frames = topology.frames_needed(config, facts);
        Ok(topology)
    }

    /// The queues and rings of a worker: first its inputs, then its outputs.
    pub fn links(&self, worker: usize) -> impl Iterator<Item = Link> {
        let plan = &self.workers[worker];
        let ports = |queue: Option<u16>, count| 0..queue.map_or(0, |_| count);
        let rings_in = plan.rings_in.iter().map(|ring| Link::RingFrom(self.rings[*ring].from));
        let rings_out = plan.rings_out.iter().map(|ring| Link::RingTo(self.rings[*ring].to));
        let inlets = ports(plan.rx_queue, self.ports.len()).map(Link::Rx).chain(rings_in);
        // The last outlet is the port of health checks.
        let outlets = ports(plan.tx_queue, self.ports.len() + 1).map(Link::Tx);
        inlets.chain(outlets).chain(rings_out)
    }

    /// The workers that have TX queues.
    pub(crate) fn transmitters(&self) -> impl Iterator<Item = usize> {
        let all = self.workers.iter().enumerate();
        all.filter(|(_, worker)| worker.tx_queue.is_some()).map(|(index, _)| index)
    }

    /// The workers at which packets leave the line that are for the slow path or for the kernel: those of parse and neighbor.
    pub(crate) fn passers(&self) -> impl Iterator<Item = usize> {
        let passes = |plan: &WorkerPlan| {
            plan.stages.contains(StageName::Parse) || plan.stages.contains(StageName::Neighbor)
        };
        let all = self.workers.iter().enumerate();
        all.filter(move |(_, worker)| passes(worker)).map(|(index, _)| index)
    }

    /// Frames that can be in queues, in rings and in the hands of threads at the same time.
    fn frames_needed(&self, config: &Config, facts: &[PortFacts]) -> usize {
        if config.frames.count > 0 {
            return config.frames.count as usize;
        }
        let in_queues: usize = facts
            .iter()
            .zip(&self.ports)
            .map(|(port, plan)| {
                usize::from(port.rx_descriptors) * usize::from(plan.rx_queues)
                    + usize::from(port.tx_descriptors) * usize::from(plan.tx_queues)
            })
            .sum();
        let ring = config.frames.ring as usize;
        let receivers = self.workers.iter().filter(|w| w.rx_queue.is_some()).count();
        // A thread has a ring of answers to each core that transmits, one of queries, and one of replies from each core
        // that receives.
        let of_ports = if self.asks_over_ports { 1 + 2 * receivers } else { 0 };
        let of_a_thread = self.transmitters().count() + of_ports;
        let of_a_tap = 1 + ExceptionClass::ALL.len() * self.passers().count();
        let in_rings = ring * (self.rings.len() + of_a_thread * self.slow_path_shards)
            + (exceptions::SLOTS * of_a_tap + exceptions::HELD) * self.taps.len()
            + relay::SLOTS * (1 + usize::from(self.asks_over_ports) * self.passers().count());
        let threads = self.workers.len() + self.slow_path_shards + self.taps.len();
        let in_hands =
            threads * (2 * MAX_BURST + POOL_CACHE_FRAMES as usize * 3 / 2) + SLOW_PATH_FRAMES;
        // A pool of 2^n - 1 uses its memory best (rte_mempool_create).
        (in_queues + in_rings + in_hands).next_power_of_two() - 1
    }
}

fn check_cores(groups: &[Placement], available: &[usize]) -> Result<(), TopologyError> {
    match groups.iter().flat_map(|group| &group.cores).find(|core| !available.contains(core)) {
        None => Ok(()),
        Some(core) => Err(TopologyError::NoSuchCore { core: *core, available: available.to_vec() }),
    }
}

fn check_queues(groups: &[Placement], facts: &[PortFacts]) -> Result<(), TopologyError> {
    for port in facts {
        for (group, direction, max) in
            [(groups.first(), "RX", port.max_rx_queues), (groups.last(), "TX", port.max_tx_queues)]
        {
            let Some(group) = group else { continue };
            if group.cores.len() > usize::from(max) {
                return Err(TopologyError::TooFewQueues {
                    port: port.name.clone(),
                    driver: port.driver.clone(),
                    direction,
                    max,
                    cores: group.cores.len(),
                    stages: group.stages,
                });
            }
        }
    }
    Ok(())
}

/// Each core keeps rate limits of its own, so a client must stay on one core. The port guarantees that, or the operator
/// accepts limits for each core.
fn check_limits(
    groups: &[Placement],
    facts: &[PortFacts],
    config: &Config,
) -> Result<(), TopologyError> {
    let Some(first) = groups.first() else { return Ok(()) };
    if first.cores.len() < 2 || !limits_clients(first, config) || config.ratelimit.per_core {
        return Ok(());
    }
    match facts.iter().find(|port| !port.keeps_clients) {
        None => Ok(()),
        Some(port) => Err(TopologyError::InexactLimits {
            port: port.name.clone(),
            driver: port.driver.clone(),
            cores: first.cores.len(),
        }),
    }
}

/// Whether the cores of a stretch keep limits of clients.
fn limits_clients(group: &Placement, config: &Config) -> bool {
    let holds = |stage, limit: u32| limit > 0 && group.stages.contains(stage);
    let limits = &config.ratelimit;
    let mut of_views = config.views.iter().filter_map(|view| view.queries_per_second);
    holds(StageName::RateLimit, limits.queries_per_second)
        || of_views.any(|limit| holds(StageName::RateLimit, limit))
        || holds(StageName::Policy, limits.miss_queries_per_second)
}

/// How a port spreads queries: by client where limits of clients ask for it, else as evenly as it can.
fn rss(groups: &[Placement], port: &PortFacts, config: &Config) -> Rss {
    match groups.first() {
        Some(first) if first.cores.len() > 1 => {
            let is_limited = limits_clients(first, config);
            if port.spreads_flows && !(is_limited && port.keeps_clients) {
                Rss::Flows
            } else if port.keeps_clients {
                Rss::Clients
            } else {
                Rss::None
            }
        }
        _ => Rss::None,
    }
}

/// Gives every core its stages, and plans a ring from each core of one stretch to each core of the next.
fn assign(groups: &[Placement]) -> (Vec<WorkerPlan>, Vec<RingPlan>) {
    let mut workers: Vec<WorkerPlan> = Vec::new();
    let mut rings = Vec::new();
    let mut previous = 0..0;
    for (index, group) in groups.iter().enumerate() {
        let first = workers.len();
        for (shard, core) in group.cores.iter().enumerate() {
            let worker = workers.len();
            let queue = to_u16(shard);
            let rings_in = previous
                .clone()
                .map(|from: usize| {
                    rings.push(RingPlan { from, to: worker });
                    workers[from].rings_out.push(rings.len() - 1);
                    rings.len() - 1
                })
                .collect();
            workers.push(WorkerPlan {
                core: *core,
                stages: group.stages,
                idle: group.idle,
                rx_queue: (index == 0).then_some(queue),
                tx_queue: (index + 1 == groups.len()).then_some(queue),
                rings_in,
                rings_out: Vec::new(),
                answered_by: worker,
            });
        }
        previous = first..workers.len();
    }
    let transmitters: Vec<usize> = previous.collect();
    for (index, worker) in workers.iter_mut().enumerate() {
        if worker.tx_queue.is_none() {
            worker.answered_by = transmitters[index % transmitters.len()];
        }
    }
    (workers, rings)
}

impl Topology {
    /// The stretches of the line, each on cores of its own.
    pub fn stretches(&self) -> usize {
        let pairs = self.workers.windows(2);
        1 + pairs.filter(|pair| pair[0].stages != pair[1].stages).count()
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, worker) in self.workers.iter().enumerate() {
            write!(f, "worker {index}  core {}  {}", worker.core, worker.stages)?;
            for name in &self.port_names {
                if let Some(queue) = worker.rx_queue {
                    write!(f, "  {name}:rx{queue}")?;
                }
                if let Some(queue) = worker.tx_queue {
                    write!(f, "  {name}:tx{queue}")?;
                }
            }
            for ring in &worker.rings_out {
                write!(f, "  -> worker {}", self.rings[*ring].to)?;
            }
            if worker.stages.contains(StageName::Policy) {
                write!(f, "  misses -> slow path -> worker {}", worker.answered_by)?;
            }
            writeln!(f)?;
        }
        for (name, plan) in
            self.port_names.iter().zip(&self.ports).filter(|(_, plan)| plan.rx_queues > 1)
        {
            let by = match plan.rss {
                Rss::None => "as the device or its peer chooses",
                Rss::Clients => "RSS by client address",
                Rss::Flows => "RSS by addresses and UDP ports",
            };
            writeln!(f, "port {name}  {} RX queues  {by}", plan.rx_queues)?;
        }
        let of = if self.cores_resolve { "shard(s), turned by the workers" } else { "thread(s)" };
        write!(f, "slow path  {} {of}    frames  {}", self.slow_path_shards, self.frames)
    }
}
