//! The ends of queues and rings that one worker holds. They are laid in place, and the worker owns them whole.

use pmdns_config::narrow::to_usize;
use pmdns_nics::Frame;
use pmdns_stages::cache::Hit;
use pmdns_stages::{Batch, Packet};

use crate::counters::Flow;
use crate::exceptions::KernelOutlets;
use crate::inlet::Inlet;
use crate::miss_rings::MissRings;
use crate::news::PortNews;
use crate::reply_rings::ReplyRings;
use crate::ring::{RingReceiver, RingSender};
use crate::slowpath::OutgoingAnswer;
use crate::transmitter::Transmitter;

/// One worker's ends of queues and rings.
pub(crate) struct WorkerEnds {
    /// Where packets come from: first the RX queues by port number, then the rings of other workers.
    pub(crate) inlets: Vec<Inlet>,
    /// TX queues by port number; empty if it does not transmit.
    pub(crate) transmitters: Vec<Transmitter>,
    /// Rings to the next stretch, by shard.
    pub(crate) outlets: Vec<Outlet>,
    /// Rings to the slow path, by cache shard.
    pub(crate) misses: MissRings,
    /// Rings for notes of hits, by cache shard; empty if hits are not reported.
    pub(crate) hits: Vec<RingSender<Hit>>,
    /// Rings from the slow path.
    pub(crate) answers: Vec<RingReceiver<OutgoingAnswer>>,
    /// Rings of queries from the slow path that leave by ports.
    pub(crate) queries: Vec<RingReceiver<Frame>>,
    /// Rings to the slow path for what comes for these queries.
    pub(crate) replies: ReplyRings,
    /// Rings to the TAPs for exceptions.
    pub(crate) to_kernel: KernelOutlets,
    /// Rings of frames that the kernel sends by the TAPs.
    pub(crate) from_kernel: Vec<RingReceiver<Frame>>,
    /// The ring of health checks' queries, if it polls ports.
    pub(crate) probes: Option<RingReceiver<Frame>>,
    /// The ring of frames of another process, if it polls ports.
    pub(crate) relayed: Option<RingReceiver<Packet>>,
}

/// A ring to another worker, and the packets to be sent this turn.
pub(crate) struct Outlet {
    pub(super) ring: RingSender<Packet>,
    pub(super) staged: Batch,
    pub(super) flow: Flow,
}

impl Outlet {
    /// This ring, with nothing to be sent.
    pub(crate) fn new(ring: RingSender<Packet>) -> Self {
        Self { ring, staged: Batch::new(), flow: Flow::default() }
    }
}

impl WorkerEnds {
    /// A worker without queues and rings, for which these two have places.
    pub(crate) fn new(misses: MissRings, to_kernel: KernelOutlets) -> Self {
        Self {
            inlets: Vec::new(),
            transmitters: Vec::new(),
            outlets: Vec::new(),
            misses,
            hits: Vec::new(),
            answers: Vec::new(),
            queries: Vec::new(),
            replies: ReplyRings::default(),
            to_kernel,
            from_kernel: Vec::new(),
            probes: None,
            relayed: None,
        }
    }

    /// Whether everything under way has left, but for packets to other workers. Then these may end too.
    pub(super) fn have_ended(&mut self) -> bool {
        if !self.inlets.iter().all(Inlet::has_ended) {
            return false;
        }
        // The slow path ends when no core can send it a miss any more. Then its rings of answers end.
        self.misses.clear();
        self.replies.clear();
        self.to_kernel.clear();
        let mut frames = self.queries.iter().chain(&self.from_kernel);
        self.answers.iter().all(RingReceiver::has_ended) && frames.all(RingReceiver::has_ended)
    }

    /// Publishes the counters of the rings that end here.
    pub(super) fn publish(&self) {
        self.answers.iter().for_each(RingReceiver::publish);
        self.queries.iter().chain(&self.from_kernel).for_each(RingReceiver::publish);
        self.inlets.iter().for_each(Inlet::publish);
    }

    /// The traffic, in the order of [`Topology::links`](crate::topology::Topology::links).
    pub(super) fn flows(&self) -> impl Iterator<Item = Flow> {
        let inlets = self.inlets.iter().map(Inlet::flow);
        let ports = self.transmitters.iter().map(|transmitter| transmitter.flow());
        inlets.chain(ports).chain(self.outlets.iter().map(|outlet| outlet.flow))
    }

    /// The most packets and answers that wait in one of the rings.
    pub(super) fn waiting(&self) -> usize {
        let answers = self.answers.iter().map(RingReceiver::len);
        answers.chain(self.inlets.iter().map(Inlet::waiting)).max().unwrap_or(0)
    }

    /// Gives up the queues of a port. Nothing more is received from it, and frames sent to it are refused and counted.
    pub(super) fn leave(&mut self, port: usize) {
        // If this core polls ports, its first inlets are the ports.
        if let Some(inlet) = self.inlets.get_mut(port) {
            inlet.close_port();
        }
        if let Some(transmitter) = self.transmitters.get_mut(port) {
            transmitter.close();
        }
    }

    /// Takes other queues of a port, of each kind that it has.
    pub(super) fn take_queues(&mut self, port: usize, news: &PortNews) {
        if let Some(inlet) = self.inlets.get_mut(port).filter(|inlet| inlet.is_port())
            && let Some(queue) = news.take_rx()
        {
            inlet.open_port(queue);
        }
        if let Some(transmitter) = self.transmitters.get_mut(port)
            && let Some(queue) = news.take_tx()
        {
            transmitter.open(queue);
        }
    }
}

/// Which of `shards` cores handles a key. All bits of the hash count, and no division is needed.
#[inline]
pub(super) fn shard_of(key: u64, shards: usize) -> usize {
    to_usize(((u128::from(key) * shards as u128) >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_spread_over_all_shards() {
        for shards in 1..5 {
            let mut seen = vec![0; shards];
            for key in 0..1000u64 {
                seen[shard_of(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), shards)] += 1;
            }
            assert!(seen.iter().all(|count| *count > 1000 / shards / 2), "{seen:?}");
        }
    }
}
