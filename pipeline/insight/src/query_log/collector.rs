//! The collector takes records out of the cores' rings and gives them to the sinks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pmdns_engine::clock::Clock;
use pmdns_engine::threads::nap;

use super::batch::Batch;
use super::sink::{LogCounters, Tap};
use crate::records::{Core, NAP, Rings, lost};

/// The thread between the cores and the sinks.
pub(super) struct Collector {
    cores: Vec<Core>,
    taps: Vec<Tap>,
    clock: Clock,
    counters: Arc<LogCounters>,
}

impl Collector {
    pub(super) fn new(rings: Rings<LogCounters>, taps: Vec<Tap>, clock: Clock) -> Self {
        let Rings { cores, counters } = rings;
        counters.up.store(1, Ordering::Relaxed);
        Self { cores, taps, clock, counters }
    }

    /// Collects until it is told to stop and the rings are empty.
    pub(super) fn run(mut self, stop: &AtomicBool) {
        loop {
            let is_last = stop.load(Ordering::Relaxed);
            match self.turn() {
                0 if is_last => return,
                0 => nap(NAP),
                _ => {}
            }
        }
    }

    /// Collects a batch and gives it to the sinks. Returns how many records it had.
    pub(super) fn turn(&mut self) -> u64 {
        let mut cells = Vec::new();
        self.cores.iter_mut().for_each(|core| core.take(&mut cells));
        self.counters.lost.store(lost(&self.cores), Ordering::Relaxed);
        if cells.is_empty() {
            return 0;
        }
        let batch = Arc::new(Batch::new(cells, self.clock));
        let records = batch.len();
        self.counters.written.fetch_add(records, Ordering::Relaxed);
        for tap in &self.taps {
            tap.give(&batch, records);
        }
        records
    }
}
