//! The recorder on a data core. It puts records into the core's ring.

use pmdns_engine::observe::{Observer, Sent};
use pmdns_engine::ring::RingSender;
use pmdns_stages::wire::layout::Layout;
use pmdns_stages::{Batch, Step, Tick};

use super::cells::{Cell, push};
use super::sample::Sample;
use super::source::{Facts, Source, source_of};

/// What is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recording {
    /// Slots of each core's ring. A record has two or three.
    pub(crate) slots: usize,
    /// One in so many packets that are answered, or dropped by a rule.
    pub(crate) sample: u32,
    /// Whether somebody wants whole messages.
    pub(crate) whole: bool,
    /// Whether every miss is taken too, and every answer to one: there are few, and floods are made of them.
    pub(crate) every_miss: bool,
}

/// The observer on one core.
pub(super) struct Recorder {
    ring: RingSender<Cell>,
    sample: Sample,
    what: Recording,
}

impl Recorder {
    /// One whose sample this seed draws.
    pub(super) fn new(ring: RingSender<Cell>, what: Recording, seed: u64) -> Self {
        Self { ring, sample: Sample::new(what.sample, seed), what }
    }

    #[inline]
    fn note(&mut self, facts: &Facts, layout: Layout, frame: &[u8]) {
        if !push(&mut self.ring, facts, layout, frame, self.what.whole) {
            // Counted by ring: under overload, cores do not write a line of each other.
            self.ring.refuse(1);
        }
    }
}

impl Observer for Recorder {
    fn leave(&mut self, batch: &Batch, sends: bool, now: Tick) {
        if !self.what.every_miss && self.sample.passes_by(batch.len()) {
            return;
        }
        for packet in batch {
            let source = if self.what.every_miss && packet.step == Step::SLOW_PATH {
                Source::Miss
            } else if self.sample.takes()
                && let Some(source) = source_of(packet, sends)
            {
                source
            } else {
                continue;
            };
            self.note(&Facts::of(packet, source, now), packet.layout, packet.frame.bytes());
        }
    }

    fn sent(&mut self, sent: &Sent<'_>) {
        if !self.what.every_miss && !self.sample.takes() {
            return;
        }
        if let Some(facts) = Facts::of_sent(sent) {
            self.note(&facts, sent.layout, sent.frame.bytes());
        }
    }
}
