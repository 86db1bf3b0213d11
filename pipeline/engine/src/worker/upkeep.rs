//! What a worker does between bursts: ports that come and go, addresses that are announced, and the queries of health checks.

use pmdns_nics::Burst;
use pmdns_stages::{Packet, Step, Tick};

use super::Worker;
use crate::station::StageTimer;

impl Worker {
    /// Announces addresses, reports multicast groups, and gives up the queues of ports that leave.
    pub(super) fn poll_ports(&mut self, now: Tick) {
        for (port, news) in self.means.news.iter().enumerate() {
            if news.leaves() {
                self.ends.leave(port);
            }
            let ups = news.ups();
            let changed = std::mem::replace(&mut self.announced[port], ups) != ups;
            if changed && self.means.announces {
                self.line.announce(port, now);
            }
        }
        let mut frames = Burst::new();
        self.line.write_due(now, &self.means.pool, &mut frames);
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
        let Some(ring) = self.ends.probes.as_mut().filter(|ring| !ring.is_empty()) else { return };
        let mut frames = Burst::new();
        let count = ring.pop_batch(&mut frames, self.means.limit) as u64;
        (self.tally.made, self.tally.probes) = (self.tally.made + count, self.tally.probes + count);
        let now = self.means.clock.now();
        self.batch.extend(frames.drain(..).map(|frame| Packet::arrived(frame, now)));
        let mut lap = StageTimer::start(self.means.clock, now);
        let context = self.means.clock.context(now);
        self.line.process(&mut self.batch, &context, &mut lap);
        if self.hand_misses_on(&context) {
            self.line.process(&mut self.batch, &context, &mut lap);
        }
        self.hand_on();
        self.transmit();
    }
}
