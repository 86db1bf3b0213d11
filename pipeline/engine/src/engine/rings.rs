//! The rings between threads: made by the topology's plan, with each end given to its thread.

use std::sync::Arc;

use pmdns_config::{Config, StageName};
use pmdns_nics::Frame;
use pmdns_stages::Packet;
use pmdns_stages::cache::{Hit, MAX_SAMPLES, Retention};
use pmdns_stages::exceptions::ExceptionClass;
use pmdns_stages::miss::Miss;

use crate::exceptions;
use crate::occupancy::RingGauge;
use crate::ring::{RingReceiver, RingSender, ring};
use crate::slowpath::Answered;
use crate::topology::Topology;

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

/// One worker's ends of the rings.
#[derive(Default)]
pub(super) struct WorkerRings {
    pub(super) packets_in: Vec<RingReceiver<Packet>>,
    pub(super) packets_out: Vec<RingSender<Packet>>,
    pub(super) misses: Vec<RingSender<Miss>>,
    pub(super) hits: Vec<RingSender<Hit>>,
    pub(super) answers: Vec<RingReceiver<Answered>>,
    pub(super) queries: Vec<RingReceiver<Frame>>,
    pub(super) replies: Vec<RingSender<Packet>>,
    /// By port with a TAP, a ring for each class of exceptions.
    pub(super) to_kernel: Vec<(usize, Vec<RingSender<Packet>>)>,
    pub(super) from_kernel: Vec<RingReceiver<Frame>>,
}

/// The ends of the rings that the thread of a TAP holds.
pub(super) struct TapRings {
    pub(super) port: usize,
    /// From each worker, a ring for each class of exceptions.
    pub(super) exceptions: Vec<Vec<RingReceiver<Packet>>>,
    pub(super) frames: Option<RingSender<Frame>>,
}

/// The ends of the rings that one thread of the slow path holds.
#[derive(Default)]
pub(super) struct SlowPathRings {
    pub(super) misses: Vec<RingReceiver<Miss>>,
    pub(super) hits: Vec<RingReceiver<Hit>>,
    pub(super) answers: Vec<RingSender<Answered>>,
    pub(super) answers_to: Vec<usize>,
    /// The ring of queries, if an upstream is asked over a port.
    pub(super) queries: Option<RingSender<Frame>>,
    pub(super) replies: Vec<RingReceiver<Packet>>,
}

/// Every ring, with each end at its thread.
pub(super) struct Rings {
    pub(super) workers: Vec<WorkerRings>,
    pub(super) slow_path: Vec<SlowPathRings>,
    pub(super) taps: Vec<TapRings>,
    pub(super) gauges: RingGauges,
}

/// Makes every ring of the topology and gives each end to its thread.
pub(super) fn lay_rings(config: &Config, topology: &Topology) -> Rings {
    let needs_hits = Retention::of(config).needs_hits();
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
    for number in 0..topology.slow_path_shards {
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
        if topology.asks_over_ports {
            lay_port_rings(config, topology, number, &mut thread, &mut workers, &mut gauges);
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
    let taps = lay_tap_rings(topology, &mut workers, &mut gauges);
    Rings { workers, slow_path: threads, taps, gauges: gauges.into() }
}

/// Makes the rings by which a thread of the slow path asks upstreams over ports. Its queries leave by one core.
fn lay_port_rings(
    config: &Config,
    topology: &Topology,
    number: usize,
    thread: &mut SlowPathRings,
    workers: &mut [WorkerRings],
    gauges: &mut Vec<(RingEnds, Arc<RingGauge>)>,
) {
    let size = config.frames.ring as usize;
    let transmitters: Vec<usize> = topology.transmitters().collect();
    if let Some(worker) = transmitters.get(number % transmitters.len().max(1)) {
        let (sender, receiver) = ring(size);
        gauges.push((RingEnds::Queries(number, *worker), receiver.gauge()));
        thread.queries = Some(sender);
        workers[*worker].queries.push(receiver);
    }
    for index in topology.passers() {
        let (sender, receiver) = ring(size);
        gauges.push((RingEnds::Replies(index, number), receiver.gauge()));
        workers[index].replies.push(sender);
        thread.replies.push(receiver);
    }
}

/// Makes the rings to and from the TAPs. The frames of each leave by one core.
fn lay_tap_rings(
    topology: &Topology,
    workers: &mut [WorkerRings],
    gauges: &mut Vec<(RingEnds, Arc<RingGauge>)>,
) -> Vec<TapRings> {
    let transmitters: Vec<usize> = topology.transmitters().collect();
    let mut taps = Vec::new();
    for (number, port) in topology.taps.iter().enumerate() {
        let mut tap = TapRings { port: *port, exceptions: Vec::new(), frames: None };
        if let Some(worker) = transmitters.get(number % transmitters.len().max(1)) {
            let (sender, receiver) = ring(exceptions::SLOTS);
            gauges.push((RingEnds::FromKernel(*port, *worker), receiver.gauge()));
            tap.frames = Some(sender);
            workers[*worker].from_kernel.push(receiver);
        }
        for index in topology.passers() {
            let (senders, receivers): (Vec<_>, Vec<_>) = ExceptionClass::ALL
                .iter()
                .map(|class| {
                    let (sender, receiver) = ring(exceptions::SLOTS);
                    gauges.push((RingEnds::Exceptions(index, *port, *class), receiver.gauge()));
                    (sender, receiver)
                })
                .unzip();
            workers[index].to_kernel.push((*port, senders));
            tap.exceptions.push(receivers);
        }
        taps.push(tap);
    }
    taps
}
