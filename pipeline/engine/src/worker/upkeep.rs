//! What a worker does between bursts: ports that come and go, addresses that are announced, and the queries of health checks.

use pmdns_nics::Burst;
use pmdns_stages::{Packet, Step, Tick};

use super::Worker;
use crate::inlet::Inlet;
use crate::station::Lap;
use crate::transmitter::Transmitter;

impl Worker {
    /// Announces addresses, reports multicast groups, and gives up the queues of ports that leave.
    pub(super) fn look_at_ports(&mut self, now: Tick) {
        for (port, news) in self.news.iter().enumerate() {
            if news.leaves() {
                leave(&mut self.inlets, &mut self.transmitters, port);
            }
            let Some(announced) = &mut self.announced else { continue };
            let ups = news.ups();
            if std::mem::replace(&mut announced[port], ups) != ups {
                self.line.announce(port, now);
            }
        }
        let mut frames = Burst::new();
        self.line.write_due(now, &self.pool, &mut frames);
        if frames.is_empty() {
            return;
        }
        let count = frames.len() as u64;
        (self.tally.made, self.tally.announced) =
            (self.tally.made + count, self.tally.announced + count);
        self.batch.extend(
            frames
                .drain(..)
                .map(|frame| Packet { step: Step::TRANSMIT, ..Packet::arrived(frame, now) }),
        );
        self.hand_on();
        self.transmit();
    }

    /// Takes the queries of health checks down the line.
    pub(super) fn take_probes(&mut self) {
        let Some(ring) = self.probes.as_mut().filter(|ring| !ring.is_empty()) else { return };
        let mut frames = Burst::new();
        let count = ring.pop_batch(&mut frames, self.limit) as u64;
        (self.tally.made, self.tally.probes) = (self.tally.made + count, self.tally.probes + count);
        let now = self.clock.now();
        self.batch.extend(frames.drain(..).map(|frame| Packet::arrived(frame, now)));
        let mut lap = Lap::start(self.clock, now);
        let context = self.clock.context(now);
        self.line.process(&mut self.batch, &context, &mut lap);
        if self.hand_misses_on(&context) {
            self.line.process(&mut self.batch, &context, &mut lap);
        }
        self.hand_on();
        self.transmit();
    }
}

/// Gives up the queues of a port. Nothing more is received from it, and frames sent to it are refused and counted.
fn leave(inlets: &mut [Inlet], transmitters: &mut [Transmitter], port: usize) {
    // If this core polls ports, its first inlets are the ports.
    if let Some(inlet) = inlets.get_mut(port) {
        inlet.close_port();
    }
    if let Some(transmitter) = transmitters.get_mut(port) {
        transmitter.close();
    }
}
