//! The rings between threads: made by the topology's plan, with each end given to its thread.

use std::sync::Arc;

use pmdns_config::{Config, StageName};
use pmdns_nics::{Frame, FramePool, Queues};
use pmdns_stages::Packet;
use pmdns_stages::cache::{Hit, MAX_SAMPLES, Retention};
use pmdns_stages::exceptions::{ClassLimit, ExceptionClass, KnownRouters};
use pmdns_stages::miss::Miss;
use pmdns_stages::ports::Ports;
use pmdns_stages::query_sources::QuerySources;
use pmdns_stages::ratelimit::ClientPrefixes;
use pmdns_stages::wire::name::Seed;

use crate::clock::Clock;
use crate::exceptions::{self, KernelOutlets, TapRings};
use crate::inlet::Inlet;
use crate::miss_rings::MissRings;
use crate::probe::{self, Prober};
use crate::relay::{self, RelayRings};
use crate::ring::{RingReceiver, RingSender, ring};
use crate::slowpath::OutgoingAnswer;
use crate::topology::{Topology, WorkerPlan};
use crate::transmitter::Transmitter;
use crate::worker::{Outlet, WorkerEnds};
use pmdns_counters::RingGauge;

/// Slots in a ring of hit notes: twice the most that a core notes between two hand-overs.
const HIT_SLOTS: usize = 2 * MAX_SAMPLES;

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
    /// Queries that leave by a port, from a thread of the slow path to a worker.
    Queries(usize, usize),
    /// What came for them, from a worker to a thread of the slow path.
    Replies(usize, usize),
    /// Exceptions of a class, from a worker to the TAP of a port.
    Exceptions(usize, usize, ExceptionClass),
    /// Frames of the kernel, from the TAP of a port to a worker.
    FromKernel(usize, usize),
}

/// Every ring: the threads at its ends, and its counters.
pub type RingGauges = Arc<[(RingEnds, Arc<RingGauge>)]>;

/// The ends of the rings that one thread of the slow path holds.
#[derive(Default)]
pub(super) struct SlowPathRings {
    pub(super) misses: Vec<RingReceiver<Miss>>,
    pub(super) hits: Vec<RingReceiver<Hit>>,
    pub(super) answers: Vec<RingSender<OutgoingAnswer>>,
    pub(super) answers_to: Vec<usize>,
    /// The ring of queries, if an upstream is asked over a port.
    pub(super) queries: Option<RingSender<Frame>>,
    pub(super) replies: Vec<RingReceiver<Packet>>,
}

/// What rings are laid by.
pub(super) struct RingNeeds<'n> {
    pub(super) config: &'n Config,
    pub(super) topology: &'n Topology,
    /// The queues of the ports, which their workers get with their rings.
    pub(super) queues: Vec<Queues>,
    pub(super) pool: &'n FramePool,
    pub(super) ports: &'n Ports,
    pub(super) sources: &'n Arc<QuerySources>,
    /// The routers that the kernel has sessions with.
    pub(super) peers: &'n Arc<KnownRouters>,
    pub(super) seed: Seed,
    pub(super) clock: Clock,
}

/// Every queue and ring, with each end at its thread.
pub(super) struct Rings {
    pub(super) workers: Vec<WorkerEnds>,
    pub(super) slow_path: Vec<SlowPathRings>,
    pub(super) taps: Vec<TapRings>,
    pub(super) prober: Prober,
    pub(super) relay: RelayRings,
    pub(super) gauges: RingGauges,
}

impl Rings {
    /// Makes every ring of the topology and gives each end to its thread.
    pub(super) fn lay(mut needs: RingNeeds<'_>) -> Self {
        let queues = std::mem::take(&mut needs.queues);
        let mut layer = Layer::new(&needs, queues);
        let prober = probe::lay(needs.topology, needs.pool, &mut layer.workers);
        layer.lay_stretches();
        let threads = 0..needs.topology.slow_path_shards;
        let slow_path = threads.map(|number| layer.lay_thread(number)).collect();
        let taps = needs.topology.taps.iter().enumerate();
        let taps = taps.map(|(number, port)| layer.lay_tap(number, *port)).collect();
        let relay = layer.lay_relay();
        let Layer { workers, gauges, .. } = layer;
        Self { workers, slow_path, taps, prober, relay, gauges: gauges.into() }
    }
}

/// Lays rings between the workers, which it has, and other threads.
struct Layer<'n> {
    needs: &'n RingNeeds<'n>,
    workers: Vec<WorkerEnds>,
    gauges: Vec<(RingEnds, Arc<RingGauge>)>,
}

impl<'n> Layer<'n> {
    /// Workers with their queues, which are given out in the order of their numbers, as in the plan.
    fn new(needs: &'n RingNeeds<'n>, mut queues: Vec<Queues>) -> Self {
        let prefixes = ClientPrefixes::new(&needs.config.ratelimit, needs.seed);
        let worker = |plan: &WorkerPlan| {
            let (ports, peers) = (Arc::clone(needs.ports), Arc::clone(needs.peers));
            let to_kernel = KernelOutlets::new(ports, peers, needs.pool.clone());
            let mut ends = WorkerEnds::new(MissRings::new(prefixes), to_kernel);
            for port in &mut queues {
                ends.inlets.extend(plan.rx_queue.map(|_| Inlet::port(port.rx.remove(0))));
                let transmitter = plan.tx_queue.map(|_| Transmitter::new(port.tx.remove(0)));
                ends.transmitters.extend(transmitter);
            }
            ends
        };
        let workers = needs.topology.workers.iter().map(worker).collect();
        Self { needs, workers, gauges: Vec::new() }
    }

    /// A ring between these threads.
    fn ring<T>(&mut self, between: RingEnds, slots: usize) -> (RingSender<T>, RingReceiver<T>) {
        let (sender, receiver) = ring(slots);
        self.gauges.push((between, receiver.gauge()));
        (sender, receiver)
    }

    /// Makes the rings from each stretch of the line to the next one.
    fn lay_stretches(&mut self) {
        // The plan lists rings in the order in which both ends count them.
        for plan in &self.needs.topology.rings {
            let slots = self.needs.config.frames.ring as usize;
            let (sender, receiver) = self.ring(RingEnds::Packets(plan.from, plan.to), slots);
            self.workers[plan.from].outlets.push(Outlet::new(sender));
            self.workers[plan.to].inlets.push(Inlet::ring(receiver));
        }
    }

    /// Makes the rings of a thread of the slow path.
    fn lay_thread(&mut self, number: usize) -> SlowPathRings {
        let RingNeeds { config, topology, .. } = self.needs;
        let mut thread = SlowPathRings::default();
        let mut outlet_of = vec![0; self.workers.len()];
        for index in topology.transmitters() {
            let slots = config.frames.ring as usize;
            let (sender, receiver) = self.ring(RingEnds::Answers(number, index), slots);
            outlet_of[index] = thread.answers.len();
            thread.answers.push(sender);
            self.workers[index].answers.push(receiver);
        }
        if topology.asks_over_ports {
            self.lay_port_rings(number, &mut thread);
        }
        let needs_hits = Retention::of(config).needs_hits();
        for (index, plan) in topology.workers.iter().enumerate() {
            let slots = config.slowpath.ring as usize;
            let (sender, receiver) = self.ring(RingEnds::Misses(index, number), slots);
            self.workers[index].misses.push(sender);
            thread.misses.push(receiver);
            thread.answers_to.push(outlet_of[plan.answered_by]);
            if needs_hits && plan.stages.contains(StageName::Lookup) {
                let (sender, receiver) = self.ring(RingEnds::Hits(index, number), HIT_SLOTS);
                self.workers[index].hits.push(sender);
                thread.hits.push(receiver);
            }
        }
        thread
    }

    /// Makes the rings by which a thread of the slow path asks upstreams over ports. Its queries leave by one core.
    fn lay_port_rings(&mut self, number: usize, thread: &mut SlowPathRings) {
        let slots = self.needs.config.frames.ring as usize;
        if let Some(worker) = self.sender_of(number) {
            let (sender, receiver) = self.ring(RingEnds::Queries(number, worker), slots);
            thread.queries = Some(sender);
            self.workers[worker].queries.push(receiver);
        }
        for index in self.needs.topology.passers() {
            let (sender, receiver) = self.ring(RingEnds::Replies(index, number), slots);
            self.workers[index].replies.push(sender);
            thread.replies.push(receiver);
        }
    }

    /// Makes the rings to and from the TAP of a port. Its frames leave by one core.
    fn lay_tap(&mut self, number: usize, port: usize) -> TapRings {
        let mut tap = TapRings { port, exceptions: Vec::new(), frames: None };
        if let Some(worker) = self.sender_of(number) {
            let (sender, receiver) =
                self.ring(RingEnds::FromKernel(port, worker), exceptions::SLOTS);
            tap.frames = Some(sender);
            self.workers[worker].from_kernel.push(receiver);
        }
        let RingNeeds { config, clock, seed, .. } = *self.needs;
        for index in self.needs.topology.passers() {
            let limits = ClassLimit::of_all(config, clock.ticks_per_second(), seed);
            let classes = ExceptionClass::ALL.iter().zip(limits).map(|(class, limit)| {
                let between = RingEnds::Exceptions(index, port, *class);
                let (sender, receiver) = self.ring(between, exceptions::SLOTS);
                ((sender, limit), receiver)
            });
            let (outlet, receivers) = classes.unzip();
            self.workers[index].to_kernel.add(port, outlet);
            tap.exceptions.push(receivers);
        }
        tap
    }

    /// Makes the rings for frames of another process. They are empty but in a hand-over.
    fn lay_relay(&mut self) -> RelayRings {
        let RingNeeds { topology, ports, sources, pool, clock, .. } = *self.needs;
        let (mut entrance, mut exits) = (None, Vec::new());
        let mut pollers = topology.workers.iter().zip(&mut self.workers);
        if let Some((_, worker)) = pollers.find(|(plan, _)| plan.rx_queue.is_some()) {
            let (sender, receiver) = ring(relay::SLOTS);
            (entrance, worker.relayed) = (Some(sender), Some(receiver));
        }
        for index in topology.passers().filter(|_| topology.asks_over_ports) {
            let (sender, receiver) = ring(relay::SLOTS);
            self.workers[index].replies.set_beside(sender);
            exits.push(receiver);
        }
        RelayRings {
            entrance,
            exits,
            ports: Arc::clone(ports),
            sources: Arc::clone(sources),
            pool: pool.clone(),
            clock,
        }
    }

    /// The worker that sends for the thread or TAP of this number.
    fn sender_of(&self, number: usize) -> Option<usize> {
        let transmitters: Vec<usize> = self.needs.topology.transmitters().collect();
        transmitters.get(number % transmitters.len().max(1)).copied()
    }
}
