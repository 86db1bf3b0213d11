//! DNSSEC validation (RFC 4033 to 4035, 5155, 6840) of a reply as a resolver passes it on.
//!
//! Pure: no I/O, no threads, and time is an argument. A [`ValidationJob`] is one reply under validation. [`Validator::step`] does
//! a bounded piece of work. It returns [`Progress::Fetch`] if it needs DS or DNSKEY records. The caller asks the
//! upstreams for them (DO=1, CD=1), and hands them over with [`Validator::fetched`].
//!
//! ```text
//! start ─► Job ─► step ─► Working ─► step …
//!                  │
//!                  ├─► Fetch ─► (the caller asks) ─► fetched ─► step …
//!                  └─► Done(Judgement)
//! ```
//!
//! The caller decides what runs next, so jobs can be interleaved step by step. All jobs of a validator share a bounded
//! cache of zone data. A job finds records there that another job has fetched.

#![deny(clippy::print_stderr, clippy::print_stdout)] // They panic when nobody reads.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        reason = "numbers of tests are small"
    )
)]

mod budgets;
mod crypto;
pub mod ede;
mod evidence;
mod job;
mod judge;
mod limits;
mod message;
mod name;
mod nsec;
mod nsec3;
mod outline;
mod pass_on;
mod rdata;
mod sets;
pub mod slots;
mod table;
#[cfg(test)]
mod testing;
mod trust;
mod verdict;
mod walk;

pub use job::ValidationJob;
pub use limits::{Cost, ValidatorLimits};
pub use pass_on::{is_signed, pass_on};
pub use trust::{TrustAnchor, TrustAnchors};
pub use verdict::{Judgement, Progress, Question, SecurityStatus};

use judge::Judge;
use limits::Halt;
use table::NameStatusTable;

/// The most steps of one job. It is a second guard: the budgets end every sensible job long before.
const MAX_STEPS: u32 = 4096;

/// Validates replies. It holds the trust anchors, and the cache of zones.
#[derive(Debug)]
pub struct Validator {
    trust: TrustAnchors,
    table: NameStatusTable,
    limits: ValidatorLimits,
}

impl Validator {
    /// A validator that trusts `anchors`, but nothing at and below the `negative` names (RFC 7646; wire format).
    #[must_use]
    pub fn new(anchors: &[TrustAnchor], negative: &[&[u8]], limits: ValidatorLimits) -> Self {
        Self::trusting(TrustAnchors::new(anchors, negative), limits)
    }

    /// The same, for trust anchors that are already parsed.
    #[must_use]
    pub fn trusting(trust: TrustAnchors, limits: ValidatorLimits) -> Self {
        Self { trust, table: NameStatusTable::new(limits), limits }
    }

    /// Begins to judge a reply. `now` is in seconds since 1970, here and below.
    #[must_use]
    pub fn start(&mut self, question: Question<'_>, reply: &[u8], now: u64) -> ValidationJob {
        let _ = now;
        self.start_within(self.limits, question, reply)
    }

    /// The same, within limits that are for this reply only.
    #[must_use]
    pub fn start_within(
        &self,
        limits: ValidatorLimits,
        question: Question<'_>,
        reply: &[u8],
    ) -> ValidationJob {
        let name = name::checked(question.name);
        let mut job = ValidationJob::new(
            name.as_deref().unwrap_or(name::ROOT),
            question.qtype,
            reply,
            limits,
        );
        if name.is_none() {
            job.end(SecurityStatus::Bogus(ede::BOGUS));
        } else if question.qclass != message::CLASS_IN {
            job.pass();
        }
        job
    }

    /// Continues a job with a bounded piece of work: the signatures of one set, and the proofs that follow from them.
    pub fn step(&mut self, job: &mut ValidationJob, now: u64) -> Progress {
        if let Some(judgement) = &job.judgement {
            return Progress::Done(judgement.clone());
        }
        job.meter.is_spent = false;
        job.steps += 1;
        let Self { trust, table, .. } = self;
        let verdict = match job.steps {
            0..=MAX_STEPS => Judge { trust, table, job, now }.advance(),
            _ => Err(Halt::Over),
        };
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(Halt::Over) => SecurityStatus::OverBudget(ede::INDETERMINATE),
            Err(Halt::Pause) => return Progress::Working,
            Err(Halt::Fetch(name, qtype)) => return Progress::Fetch { name, qtype },
        };
        job.end(verdict);
        job.judgement.clone().map_or(Progress::Working, Progress::Done)
    }

    /// Hands over the reply that a job asked for; `None`: there is none. A reply that it did not ask for is ignored.
    pub fn fetched(
        &mut self,
        job: &mut ValidationJob,
        name: &[u8],
        qtype: u16,
        reply: Option<&[u8]>,
    ) {
        job.fetched(name, qtype, reply);
    }
}
