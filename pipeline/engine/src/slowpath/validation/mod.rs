//! DNSSEC validation (RFC 4033 to 4035), on a thread of its own beside the slow path.
//!
//! ```text
//!  loop ──Work: a reply, keys──────────► thread ──► pmdns-validator, a step at a time
//!       ◄──ValidationReport: a verdict, a fetch──         ◄── (signatures, proofs, chain of trust)
//! ```
//!
//! Every reply gets exactly one verdict, in the worst case that it was late. Both channels have room for everything
//! that may be under way, so no sender waits. docs/adr/0024-a-validator-of-our-own.md gives the reasons.

mod anchors;
mod thread;

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use pmdns_resolver::validation::{MAX_REPORTS, ReplyValidator, ValidationReport, Work};
use pmdns_validator::TrustAnchors;

use crate::clock::Clock;
use crate::threads::{beside, join};

pub use anchors::{AnchorError, Anchors};

/// The thread that validates, if there are trust anchors.
pub(super) struct ValidationThread {
    work: Option<Sender<Work>>,
    reports: Receiver<ValidationReport>,
    thread: Option<JoinHandle<()>>,
}

impl ValidationThread {
    /// Starts the thread, if there are trust anchors. A reply is judged within `patience`, by the date of `clock`.
    pub(super) fn start(
        trust: Option<TrustAnchors>,
        patience: Duration,
        clock: Clock,
    ) -> io::Result<Self> {
        let (report, reports) = bounded(MAX_REPORTS);
        let mut this = Self { work: None, reports, thread: None };
        let Some(trust) = trust else { return Ok(this) };
        let (sender, work) = bounded(MAX_REPORTS);
        let body =
            move || thread::serve(ReplyValidator::new(trust, patience), &work, &report, clock);
        this.thread = Some(beside("sec", body)?);
        this.work = Some(sender);
        Ok(this)
    }

    /// Hands over work.
    pub(super) fn begin(&self, piece: Work) {
        let sent = self.work.as_ref().is_some_and(|work| work.try_send(piece).is_ok());
        debug_assert!(sent, "the channel has room for all that may be under way");
    }

    /// The next report, if there is one.
    pub(super) fn receive(&self) -> Option<ValidationReport> {
        self.reports.try_recv().ok()
    }
}

impl Drop for ValidationThread {
    fn drop(&mut self) {
        // The thread ends when its channel of work is closed.
        self.work = None;
        join(self.thread.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_validate_has_no_thread() {
        let (patience, clock) = (Duration::from_secs(1), Clock::start());
        let validation = ValidationThread::start(None, patience, clock).unwrap();
        assert!(validation.thread.is_none());
    }
}
