//! The recorder on a data core for heavy hitters. It puts records of the query log's form into a ring.
//!
//! Of packets that are answered or dropped by a rule it takes one in so many. It takes every miss, and every answer to one: there
//! are few, and floods are made of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pmdns_engine::observe::{Observer, Sent};
use pmdns_engine::ring::RingSender;
use pmdns_stages::wire::layout::Layout;
use pmdns_stages::{Batch, Step, Tick};

use super::counters::HitterCounters;
use crate::query_log::record::{Cell, Facts, Source, push};
use crate::query_log::recorder::{Sample, source_of};

/// The observer on one core.
pub(super) struct Recorder {
    ring: RingSender<Cell>,
    sample: Sample,
    counters: Arc<HitterCounters>,
}

impl Recorder {
    pub(super) fn new(
        ring: RingSender<Cell>,
        sample: Sample,
        counters: Arc<HitterCounters>,
    ) -> Self {
        Self { ring, sample, counters }
    }

    #[inline]
    fn note(&mut self, facts: &Facts, layout: Layout, frame: &[u8]) {
        if !push(&mut self.ring, facts, layout, frame, false) {
            self.counters.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Observer for Recorder {
    fn leave(&mut self, batch: &Batch, sends: bool, now: Tick) {
        for packet in batch {
            let source = if packet.step == Step::SLOW_PATH {
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
        if let Some(facts) = Facts::of_sent(sent) {
            self.note(&facts, sent.layout, sent.frame.bytes());
        }
    }
}
