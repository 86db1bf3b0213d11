//! A sink and its thread. It may block: the collector waits for none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::batch::Batch;
use super::counters::LogCounters;

/// How often a sink that gets nothing does what is due.
const PAUSE: Duration = Duration::from_millis(500);

/// Where records go.
pub(super) trait Sink: Send {
    /// Writes a batch. Returns how many of its records were written; the others are lost.
    fn write(&mut self, batch: &Batch, stop: &AtomicBool) -> u64;

    /// Does what is due: connects again, opens again, deletes old records. Called often.
    fn tend(&mut self);
}

/// The collector's end of a sink's channel.
pub(super) struct Tap {
    pub(super) batches: Sender<Arc<Batch>>,
    pub(super) counters: Arc<LogCounters>,
}

impl Tap {
    /// Gives a batch to the sink, or counts its records as lost.
    pub(super) fn give(&self, batch: &Arc<Batch>, records: u64) {
        if self.batches.try_send(Arc::clone(batch)).is_err() {
            self.counters.lost.fetch_add(records, Ordering::Relaxed);
        }
    }
}

/// Writes batches until the collector has ended.
pub(super) fn sink_thread(
    mut sink: Box<dyn Sink>,
    batches: &Receiver<Arc<Batch>>,
    stop: &AtomicBool,
    counters: &LogCounters,
) {
    loop {
        sink.tend();
        match batches.recv_timeout(PAUSE) {
            Ok(batch) => {
                let written = sink.write(&batch, stop);
                counters.written.fetch_add(written, Ordering::Relaxed);
                let lost = batch.len().saturating_sub(written);
                counters.lost.fetch_add(lost, Ordering::Relaxed);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
