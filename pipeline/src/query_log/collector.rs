//! The collector takes records out of the cores' rings and gives them to the sinks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrayvec::ArrayVec;
use pmdns_engine::clock::Clock;
use pmdns_engine::ring::RingReceiver;
use pmdns_engine::threads::nap;

use super::batch::Batch;
use super::counters::LogCounters;
use super::record::{CELL, Cell, cells_of};
use super::sink::Tap;

/// Cells that are taken from a ring at a time.
const AT_ONCE: usize = 64;
/// Cells of a batch, about: 1 MiB.
const BATCH: usize = 16_384;
/// How long it sleeps when no core has logged anything.
const NAP: Duration = Duration::from_millis(2);

/// The thread between the cores and the sinks.
pub(super) struct Collector {
    cores: Vec<Core>,
    taps: Vec<Tap>,
    clock: Clock,
    counters: Arc<LogCounters>,
}

/// A core's ring, and the beginning of a record whose end has not been taken yet.
pub(crate) struct Core {
    ring: RingReceiver<Cell>,
    begun: Vec<[u8; CELL]>,
}

impl Collector {
    pub(super) fn new(
        rings: Vec<RingReceiver<Cell>>,
        taps: Vec<Tap>,
        clock: Clock,
        counters: Arc<LogCounters>,
    ) -> Self {
        counters.up.store(1, Ordering::Relaxed);
        let cores = rings.into_iter().map(Core::new).collect();
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

impl Core {
    pub(crate) fn new(ring: RingReceiver<Cell>) -> Self {
        Self { ring, begun: Vec::new() }
    }

    /// Takes whole records to `cells`, as far as there is room.
    pub(crate) fn take(&mut self, cells: &mut Vec<[u8; CELL]>) {
        let mut popped: ArrayVec<Cell, AT_ONCE> = ArrayVec::new();
        while cells.len() + self.begun.len() < BATCH
            && self.ring.pop_batch(&mut popped, AT_ONCE) > 0
        {
            self.begun.extend(popped.drain(..).map(|Cell(bytes)| bytes));
        }
        let mut end = 0;
        while let Some(head) = self.begun.get(end)
            && end + cells_of(head) <= self.begun.len()
        {
            end += cells_of(head);
        }
        cells.extend(self.begun.drain(..end));
    }
}
