//! The thread that validates.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use pmdns_resolver::validation::{ReplyValidator, ValidationReport, Work};

use crate::clock::Clock;

/// The most pieces of work taken in before the next step. The channel does not hold more.
const MAX_TAKEN: usize = 64;

/// Validates replies until the channel is closed.
pub(super) fn serve(
    mut worker: ReplyValidator,
    work: &Receiver<Work>,
    reports: &Sender<ValidationReport>,
    clock: Clock,
) {
    let started = Instant::now();
    // There is room for every report; the receiver may have ended.
    let report = |report| drop(reports.try_send(report));
    loop {
        for taken in 0..MAX_TAKEN {
            let may_wait = taken == 0 && !worker.is_ready();
            let now = started.elapsed();
            let received = match (may_wait, worker.first_deadline()) {
                (false, _) => work.recv_timeout(Duration::ZERO),
                (true, Some(deadline)) => work.recv_timeout(deadline.saturating_sub(now)),
                (true, None) => work.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(work) => worker.take(work, started.elapsed()).into_iter().for_each(report),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        let now = started.elapsed();
        while let Some(expired) = worker.expire(now) {
            report(expired);
        }
        if let Some(done) = worker.step(clock.date()) {
            report(done);
        }
    }
}
