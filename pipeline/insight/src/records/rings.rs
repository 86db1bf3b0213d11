//! The rings between the recorders of the data cores and a thread that reads.

use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use pmdns_engine::engine::random_seed;
use pmdns_engine::observe::{ObserverLender, TooManyObservers};
use pmdns_engine::ring::{RingReceiver, ring};

use super::cells::{CELL, Cell, cells_of};
use super::recorder::{Recorder, Recording};

/// Cells that are taken from a ring at a time.
const AT_ONCE: usize = 64;
/// Cells of a batch, about: 1 MiB.
const BATCH: usize = 16_384;
/// How long a reader sleeps when no core has recorded anything.
pub(crate) const NAP: Duration = Duration::from_millis(2);

/// The ends of the data cores' rings, with recorders at the others. A thread has them; benches let them fill.
pub struct Rings<C> {
    pub(crate) cores: Vec<Core>,
    pub(crate) counters: Arc<C>,
}

/// A core's ring, and the beginning of a record whose end has not been taken yet.
pub(crate) struct Core {
    ring: RingReceiver<Cell>,
    begun: Vec<[u8; CELL]>,
}

impl<C: Default> Rings<C> {
    /// Lends a recorder to each data core.
    pub(crate) fn lend(what: Recording, lender: &ObserverLender) -> Result<Self, TooManyObservers> {
        let mut this = Self { cores: Vec::new(), counters: Arc::default() };
        lender.lend(|_| {
            let (sender, ring) = ring(what.slots);
            this.cores.push(Core { ring, begun: Vec::new() });
            // Without chance every core takes the same distances, which harms nothing.
            let seed = random_seed().map_or(1, |seed| seed.hash(b""));
            Box::new(Recorder::new(sender, what, seed))
        })?;
        Ok(this)
    }
}

impl<C> Rings<C> {
    /// How many cells wait in them.
    pub fn waiting(&self) -> usize {
        self.cores.iter().map(|core| core.ring.len()).sum()
    }
}

/// How many records found no room in the rings of these cores.
pub(crate) fn lost(cores: &[Core]) -> u64 {
    cores.iter().map(|core| core.ring.gauge().refused()).sum()
}

impl Core {
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
