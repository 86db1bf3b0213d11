//! A sink, its thread, and counters. It may block: the collector waits for none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use pmdns_counters::counters;

use super::batch::Batch;

/// How often a sink that gets nothing does what is due.
const PAUSE: Duration = Duration::from_millis(500);
/// A sink that fails again and again has a line of the log so often.
const QUIET: Duration = Duration::from_secs(60);

counters! {
    /// The counters of a part of the query log.
    LogCounters,
    /// The counters of a part of the query log, read at one time.
    LogSnapshot {
        /// Records written: of `rings`, those given to the sinks.
        written: counter,
        /// Records lost, because the part is slower than the log, or its reader or disk is not there.
        lost: counter,
        /// Failures: connections that broke or were refused, and errors of the disk.
        failures: counter,
        /// Whether the part is in order: its reader is connected, its file open.
        up: gauge,
    }
}

/// Where records go.
pub(super) trait Sink: Send {
    /// Writes a batch. Returns how many of its records were written; the others are lost.
    fn write(&mut self, batch: &Batch, stop: &AtomicBool) -> u64;

    /// Does what is due: connects again, opens again, deletes old records. Called often.
    fn tend(&mut self);
}

/// What the log was told of a sink: that it fails, and that it is well again. A disk that is full every other second gets no
/// line a second.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    is_told: bool,
    next: Option<Instant>,
}

impl Complaints {
    /// The sink has failed. Says whether that is worth a line.
    pub(super) fn fails(&mut self, now: Instant) -> bool {
        let is_worth = !self.is_told && self.next.is_none_or(|next| now >= next);
        if is_worth {
            (self.is_told, self.next) = (true, Some(now + QUIET));
        }
        is_worth
    }

    /// The sink works. Says whether the log has told the opposite.
    pub(super) fn works(&mut self) -> bool {
        std::mem::take(&mut self.is_told)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_that_fails_every_second_has_a_line_a_minute() {
        let (mut complaints, start) = (Complaints::default(), Instant::now());
        let lines = (0..180).filter(|second| {
            let is_told = complaints.fails(start + Duration::from_secs(*second));
            complaints.works();
            is_told
        });
        assert_eq!(lines.count(), 3);
        assert!(complaints.fails(start + Duration::from_secs(180)));
        let later = start + Duration::from_secs(3600);
        assert!(!complaints.fails(later), "it has failed all the time");
        assert!(complaints.works() && complaints.fails(later));
    }
}
