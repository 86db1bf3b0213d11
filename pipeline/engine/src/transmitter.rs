//! A worker's end of a TX queue. Frames are collected, and sent in bursts.

use pmdns_nics::{Burst, Frame, NoQueue, TxQueue, release};

use crate::counters::Flow;
use crate::ring::RingReceiver;

/// A TX queue, and the frames to be sent this turn.
pub(crate) struct Transmitter {
    queue: Box<dyn TxQueue>,
    burst: Burst,
    flow: Flow,
}

impl Transmitter {
    /// A transmitter for this queue, without frames.
    pub(crate) fn new(queue: Box<dyn TxQueue>) -> Self {
        Self { queue, burst: Burst::new(), flow: Flow::default() }
    }

    /// Counts of frames that the queue took, and of those that it refused.
    pub(crate) fn flow(&self) -> Flow {
        self.flow
    }

    /// Whether there is nothing to be sent.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.burst.is_empty()
    }

    /// Gives the queue up. Frames that are sent to it from now on are refused and counted.
    pub(crate) fn close(&mut self) {
        self.queue = Box::new(NoQueue);
    }

    /// Sends by this queue from now on.
    pub(crate) fn open(&mut self, queue: Box<dyn TxQueue>) {
        self.queue = queue;
    }

    /// Gives the burst to the queue. Frames that the queue refuses are dropped: the client will ask again. Waiting here
    /// would let the RX queue overflow uncounted.
    #[inline]
    pub(crate) fn flush(&mut self) {
        if self.burst.is_empty() {
            return;
        }
        let sent = self.queue.transmit(&mut self.burst);
        self.flow.count(sent, self.burst.len());
        release(&mut self.burst);
    }
}

/// Puts a frame into the burst of its port. A full burst is flushed first.
#[inline]
pub(crate) fn send(transmitters: &mut [Transmitter], frame: Frame) {
    let transmitter = &mut transmitters[usize::from(frame.port())];
    if transmitter.burst.is_full() {
        transmitter.flush();
    }
    transmitter.burst.push(frame);
}

/// Puts frames from rings into the bursts of their ports, up to `limit` from each ring, and returns how many.
#[inline]
pub(crate) fn send_from(
    rings: &mut [RingReceiver<Frame>],
    transmitters: &mut [Transmitter],
    limit: usize,
) -> usize {
    let mut found = 0;
    for ring in rings {
        let mut frames = Burst::new();
        found += ring.pop_batch(&mut frames, limit);
        frames.drain(..).for_each(|frame| send(transmitters, frame));
    }
    found
}
