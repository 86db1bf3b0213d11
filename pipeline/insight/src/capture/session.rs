//! The recorders of all cores while a capture or a trace goes on, and its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pmdns_engine::observe::{ObserverLender, TooManyObservers};
use pmdns_engine::threads::nap;

use super::filter::Filter;
use super::recorder::{Counts, PacketRecord, Reader, recorder};

/// How long cores have to take their recorders, and to give them back. They do so within 10 ms, unless they sleep or are stuck.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(5);

/// Recorders on all cores.
pub(super) struct Session {
    readers: Vec<Reader>,
    ended: Arc<AtomicBool>,
    lender: ObserverLender,
}

/// The counts of all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) captured: u64,
    pub(super) dropped: u64,
}

impl Session {
    /// Lends recorders to all cores, and waits until they have them.
    pub(super) fn start(
        lender: &ObserverLender,
        filter: &Filter,
    ) -> Result<Self, TooManyObservers> {
        let ended = Arc::<AtomicBool>::default();
        let mut readers = Vec::new();
        lender.lend(|_| {
            let (recorder, reader) = recorder(filter.clone(), Arc::clone(&ended));
            readers.push(reader);
            Box::new(recorder)
        })?;
        let start = Instant::now();
        while !lender.are_taken() && start.elapsed() < PATIENCE {
            nap(LOOK);
        }
        Ok(Self { readers, ended, lender: lender.clone() })
    }

    /// Takes what has come, core by core, until `see` returns `false`. Returns how many records there were.
    pub(super) fn take(&mut self, mut see: impl FnMut(&PacketRecord, &[u8]) -> bool) -> usize {
        self.readers.iter_mut().map(|reader| reader.take(&mut see)).sum()
    }

    /// Ends the recording, and waits until the cores have given the recorders back. What they have recorded can still be taken.
    pub(super) fn end(&self) -> Counted {
        self.ended.store(true, Ordering::Relaxed);
        let start = Instant::now();
        let is_lent = |reader: &Reader| Arc::strong_count(&reader.counts) > 1;
        while self.readers.iter().any(is_lent) && start.elapsed() < PATIENCE {
            self.lender.collect();
            nap(LOOK);
        }
        let sum = |count: fn(&Counts) -> &AtomicU64| {
            self.readers.iter().map(|reader| count(&reader.counts).load(Ordering::Relaxed)).sum()
        };
        Counted { captured: sum(|counts| &counts.captured), dropped: sum(|counts| &counts.dropped) }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}
