//! Where a worker takes packets from: the RX queues of ports, and rings.

use std::sync::Arc;

use pmdns_nics::{Burst, RxQueue, Sleeper};
use pmdns_stages::{Batch, Packet, Tick};

use crate::counters::Flow;
use crate::ring::RingReceiver;

/// A source of packets, and how many came from it.
pub(crate) struct Inlet {
    source: Source,
    flow: Flow,
}

/// The kind of an inlet.
enum Source {
    Port(Box<dyn RxQueue>),
    Ring(RingReceiver<Packet>),
    /// A port that is not polled any more.
    Closed,
}

impl Inlet {
    /// The RX queue of a port.
    pub(crate) fn port(queue: Box<dyn RxQueue>) -> Self {
        Self { source: Source::Port(queue), flow: Flow::default() }
    }

    /// A ring that another worker fills.
    pub(crate) fn ring(ring: RingReceiver<Packet>) -> Self {
        Self { source: Source::Ring(ring), flow: Flow::default() }
    }

    /// Fills the batch with up to `limit` packets, and returns how many there were.
    #[inline]
    pub(crate) fn take(&mut self, batch: &mut Batch, limit: usize, now: Tick) -> usize {
        let count = match &mut self.source {
            Source::Port(queue) => {
                let mut burst = Burst::new();
                let count = queue.receive(&mut burst, limit);
                batch.extend(burst.drain(..).map(|frame| Packet::arrived(frame, now)));
                count
            }
            Source::Ring(ring) => ring.pop_batch(batch, limit),
            Source::Closed => 0,
        };
        self.flow.count(count, 0);
        count
    }

    /// The packets that wait in its ring; 0: it is no ring.
    pub(crate) fn waiting(&self) -> usize {
        match &self.source {
            Source::Ring(ring) => ring.len(),
            Source::Port(_) | Source::Closed => 0,
        }
    }

    /// Has packets that come here wake `sleeper`. `false`: they cannot. To a closed port none come, so nothing has to wake for it.
    pub(crate) fn wake(&mut self, sleeper: &Arc<Sleeper>) -> bool {
        match &mut self.source {
            Source::Port(queue) => queue.wake(sleeper),
            Source::Ring(_) => false,
            Source::Closed => true,
        }
    }

    /// From now on a packet wakes.
    pub(crate) fn arm(&mut self) {
        if let Source::Port(queue) = &mut self.source {
            queue.arm();
        }
    }

    /// Packets wake nobody any more.
    pub(crate) fn disarm(&mut self) {
        if let Source::Port(queue) = &mut self.source {
            queue.disarm();
        }
    }

    /// Takes nothing from its port any more, if it has one.
    pub(crate) fn close_port(&mut self) {
        if matches!(self.source, Source::Port(_)) {
            self.source = Source::Closed;
        }
    }

    /// Takes from this queue of its port from now on.
    pub(crate) fn open_port(&mut self, queue: Box<dyn RxQueue>) {
        self.source = Source::Port(queue);
    }

    /// Whether it is a port's, which may be closed.
    pub(crate) fn is_port(&self) -> bool {
        !matches!(self.source, Source::Ring(_))
    }

    /// Whether no more packets will come from here.
    pub(crate) fn has_ended(&self) -> bool {
        match &self.source {
            Source::Port(_) => false,
            Source::Ring(ring) => ring.has_ended(),
            Source::Closed => true,
        }
    }

    /// Publishes the counters of its ring.
    pub(crate) fn publish(&self) {
        if let Source::Ring(ring) = &self.source {
            ring.publish();
        }
    }

    /// What came from here.
    pub(crate) fn flow(&self) -> Flow {
        self.flow
    }
}
