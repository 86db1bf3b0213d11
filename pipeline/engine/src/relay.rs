//! Frames of another process, beside which this one serves for a moment in a hand-over, seen from the main thread.
//!
//! The process that has the ports gets replies to queries of the other one, and passes them on. The other one takes them down its
//! line. It may have no port for its answers any more. Then the process that has it sends them.

use std::sync::Arc;

use pmdns_nics::{Frame, FramePool, Verified};
use pmdns_stages::ports::Ports;
use pmdns_stages::query_sources::QuerySources;
use pmdns_stages::{Packet, Step};

use crate::clock::Clock;
use crate::ring::{RingReceiver, RingSender};

/// Packets that may wait in each of the rings.
pub(crate) const SLOTS: usize = 256;

/// The main thread's ends of the rings for such frames.
pub struct RelayRings {
    /// To a data core that polls ports.
    pub(crate) entrance: Option<RingSender<Packet>>,
    /// From each data core that finds replies for the process before.
    pub(crate) exits: Vec<RingReceiver<Packet>>,
    pub(crate) ports: Ports,
    pub(crate) sources: Arc<QuerySources>,
    pub(crate) pool: FramePool,
    pub(crate) clock: Clock,
}

impl RelayRings {
    /// Where frames are taken from.
    pub fn pool(&self) -> &FramePool {
        &self.pool
    }

    /// Whether a reply for which no query waits may be one for the process before.
    pub fn set_beside(&self, is_beside: bool) {
        self.sources.set_beside(is_beside);
    }

    /// Whether the data core takes one more frame.
    pub fn has_room(&self) -> bool {
        self.entrance.as_ref().is_some_and(|ring| ring.free(1) > 0)
    }

    /// A frame that has come to the other process, as if it had come to the same port here.
    pub fn take_in(&mut self, mut frame: Frame) {
        let Some(port) = self.ports.get(usize::from(frame.port())) else { return };
        // The other process may have another NIC on the link.
        if let Some(to) = frame.bytes_mut().first_chunk_mut() {
            *to = port.mac;
            // The line of the other process has checked them. The fields themselves may be unfinished, as a port may take them.
            frame.set_verified(Verified::ALL);
            self.push(Packet::arrived(frame, self.clock.now()));
        }
    }

    /// A frame of the other process, which has the port no more that it is to leave by.
    pub fn send_on(&mut self, frame: Frame) {
        if usize::from(frame.port()) < self.ports.len() {
            let packet = Packet::arrived(frame, self.clock.now());
            self.push(Packet { step: Step::TRANSMIT, ..packet });
        }
    }

    fn push(&mut self, packet: Packet) {
        if let Some(ring) = &mut self.entrance {
            // There is room, or it was not asked for.
            let _ = ring.push(packet);
        }
    }

    /// The next reply for the process before. The data cores have their turns, so that a flood on one leaves those on others.
    pub fn next_reply(&mut self) -> Option<Frame> {
        for _ in 0..self.exits.len() {
            self.exits.rotate_left(1);
            if let Some(packet) = self.exits.last_mut().and_then(RingReceiver::pop) {
                return Some(packet.frame);
            }
        }
        None
    }
}
