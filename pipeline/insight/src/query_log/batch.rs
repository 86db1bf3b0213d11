//! A batch of records on its way from the collector to the sinks, with what it takes to read their times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pmdns_engine::clock::Clock;
use pmdns_stages::Tick;

use crate::records::{self, CELL, QueryRecord};

/// Records that were collected together. All sinks read the same ones.
#[derive(Debug)]
pub(super) struct Batch {
    cells: Vec<[u8; CELL]>,
    clock: Clock,
    now: Tick,
    now_us: u64,
}

impl Batch {
    /// A batch of whole records, collected now.
    pub(super) fn new(cells: Vec<[u8; CELL]>, clock: Clock) -> Self {
        let date = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { cells, clock, now: clock.now(), now_us: microseconds(date) }
    }

    /// Its records.
    pub(super) fn records(&self) -> impl Iterator<Item = QueryRecord<'_>> {
        records::records(&self.cells)
    }

    /// How many records it has.
    pub(super) fn len(&self) -> u64 {
        self.records().count() as u64
    }

    /// A tick of the past in microseconds since 1970.
    pub(super) fn time_us(&self, tick: Tick) -> u64 {
        self.now_us.saturating_sub(self.duration_us(self.now.saturating_sub(tick)))
    }

    /// So many ticks in microseconds.
    pub(super) fn duration_us(&self, ticks: u64) -> u64 {
        microseconds(self.clock.duration_of(ticks))
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
