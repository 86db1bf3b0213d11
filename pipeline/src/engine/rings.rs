//! The rings between threads: laid as the topology plans them, each end with its holder.

use std::sync::Arc;

use pmdns_config::{Config, StageName};
use pmdns_stages::Packet;
use pmdns_stages::cache::{Hit, MAX_SAMPLES, Retention};
use pmdns_stages::miss::Miss;

use crate::occupancy::RingGauge;
use crate::ring::{RingReceiver, RingSender, ring};
use crate::slowpath::Answered;
use crate::topology::Topology;

/// Slots in a ring of notes of hits: what a core notes between two times of handing over, twice.
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
}

/// Every ring: what it joins, and what its ends have counted.
pub type RingGauges = Arc<[(RingEnds, Arc<RingGauge>)]>;

/// One worker's ends of the rings.
#[derive(Default)]
pub(super) struct WorkerRings {
    pub(super) packets_in: Vec<RingReceiver<Packet>>,
    pub(super) packets_out: Vec<RingSender<Packet>>,
    pub(super) misses: Vec<RingSender<Miss>>,
    pub(super) hits: Vec<RingSender<Hit>>,
    pub(super) answers: Vec<RingReceiver<Answered>>,
}

/// The ends of the rings that one thread of the slow path holds.
#[derive(Default)]
pub(super) struct SlowPathRings {
    pub(super) misses: Vec<RingReceiver<Miss>>,
    pub(super) hits: Vec<RingReceiver<Hit>>,
    pub(super) answers: Vec<RingSender<Answered>>,
    pub(super) answers_to: Vec<usize>,
}

/// Lays every ring of the topology and gives each end to its holder.
pub(super) fn lay_rings(
    config: &Config,
    topology: &Topology,
) -> (Vec<WorkerRings>, Vec<SlowPathRings>, RingGauges) {
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
