//! What a worker does beside bursts. Ports come and go, and addresses are announced. It takes the queries of health checks, and
//! frames of another process. It notes what a crash is to find.

use std::sync::Arc;

use pmdns_nics::Burst;
use pmdns_nics::crash::InHand;
use pmdns_stages::{Packet, Step, Tick};

use super::Worker;
use crate::ring::RingReceiver;
use crate::station::StageTimer;

impl Worker {
    /// The calling thread takes the turns from now on.
    pub fn adopt_thread(&self) {
        self.means.in_hand.adopt_thread();
    }

    /// Where a crash finds the packets.
    pub(crate) fn in_hand(&self) -> Arc<InHand> {
        Arc::clone(&self.means.in_hand)
    }

    /// A crash from here on finds the packets of the batch.
    #[inline]
    pub(super) fn note_in_hand(&self) {
        self.means.in_hand.note(self.batch.iter().map(|packet| &packet.frame));
        #[cfg(debug_assertions)]
        crash_on_wish(&self.batch);
    }

    /// Gives up the queues of ports that leave, and takes those that were brought.
    #[cold]
    pub(super) fn follow_ports(&mut self, changes: u32) {
        self.changes = changes;
        if self.is_ending {
            return;
        }
        for (port, news) in self.means.news.iter().enumerate() {
            if news.leaves() {
                // Queues may be on their way: they are new until they are taken.
                self.ends.leave(port);
                continue;
            }
            let brought = news.times_brought();
            if std::mem::replace(&mut self.brought[port], brought) != brought {
                self.ends.take_queues(port, news);
                self.has_other_queues = true;
            }
        }
    }

    /// Announces addresses, and reports multicast groups.
    pub(super) fn poll_ports(&mut self, now: Tick) {
        // What is announced before new queues are here reaches nobody.
        if self.means.news.changes() != self.changes {
            return;
        }
        for (port, news) in self.means.news.iter().enumerate() {
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
        self.process_beside(now);
    }

    /// Takes what another process has passed down the line, or sends it.
    pub(super) fn take_relayed(&mut self) {
        let waiting = self.ends.relayed.as_ref().map_or(0, RingReceiver::len);
        // What leaves before new queues are here reaches nobody. The ring is read first: what comes later waits for a turn.
        if self.means.news.changes() != self.changes {
            return;
        }
        for _ in 0..waiting.div_ceil(self.means.limit) {
            let Some(ring) = &mut self.ends.relayed else { return };
            let count = ring.pop_batch(&mut self.batch, self.means.limit) as u64;
            self.tally.made += count;
            self.tally.relayed += count;
            self.process_beside(self.means.clock.now());
        }
    }

    /// Takes packets of the batch that came by no inlet down the line, and sends what is to be sent.
    fn process_beside(&mut self, now: Tick) {
        self.note_in_hand();
        let mut lap = StageTimer::start(self.means.clock, now);
        let context = self.means.clock.context(now);
        self.line.process(&mut self.batch, &context, &mut lap);
        if self.hand_misses_on(&context) {
            self.line.process(&mut self.batch, &context, &mut lap);
        }
        self.hand_on();
        self.transmit();
        self.means.in_hand.clear();
    }
}

/// Ends the process, as a bug would, by a packet with the bytes that a lab names.
#[cfg(debug_assertions)]
fn crash_on_wish(batch: &pmdns_stages::Batch) {
    use std::os::unix::ffi::OsStrExt as _;
    static WISH: std::sync::LazyLock<Option<std::ffi::OsString>> =
        std::sync::LazyLock::new(|| std::env::var_os("PMDNS_CRASH_ON"));
    let Some(wish) = WISH.as_deref().map(|wish| wish.as_bytes()) else { return };
    if batch.iter().any(|packet| packet.frame.bytes().windows(wish.len()).any(|it| it == wish)) {
        std::process::abort();
    }
}
