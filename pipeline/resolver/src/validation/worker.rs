//! The worker that validates: it takes work in, does it step by step, and returns reports. Pure: time is an argument,
//! and the caller may be a thread or a test.

use std::time::Duration;

use pmdns_validator::slots::zone_of;
use pmdns_validator::{Judgement, Question, TrustAnchors, Validator, ValidatorLimits, pass_on};

use super::turns::{Event, JobEnd, Turns};
use super::{ReplyVerdict, Sound, ValidationReport, Work};

/// Replies under validation, and their validator.
pub struct ReplyValidator {
    validator: Validator,
    turns: Turns<Owner>,
    patience: Duration,
}

/// A reply under validation.
struct Owner {
    reply: Vec<u8>,
    dnssec_ok: bool,
}

impl ReplyValidator {
    /// Without work. A reply is judged within `patience`.
    pub fn new(trust: TrustAnchors, patience: Duration) -> Self {
        let validator = Validator::trusting(trust, ValidatorLimits::default());
        Self { validator, turns: Turns::new(), patience }
    }

    /// Whether a job can continue.
    pub fn is_ready(&self) -> bool {
        self.turns.is_ready()
    }

    /// When the first job has to end.
    pub fn first_deadline(&mut self) -> Option<Duration> {
        self.turns.first_deadline()
    }

    /// Takes work in.
    pub fn take(&mut self, work: Work, now: Duration) -> Option<ValidationReport> {
        match work {
            Work::Validate { slot, name, qtype, qclass, reply, dnssec_ok, limits } => {
                let question = Question { name: &name, qtype, qclass };
                let job = self.validator.start_within(limits, question, &reply);
                let zone = zone_of(&name).unwrap_or_default().into();
                let owner = Owner { reply, dnssec_ok };
                self.turns.add(job, (slot, zone), owner, now + self.patience);
                None
            }
            Work::Fetched { name, qtype, fetched } => {
                self.turns.fetched(&mut self.validator, &(name, qtype), fetched).map(report)
            }
        }
    }

    /// Ends the first job that has taken too long.
    pub fn expire(&mut self, now: Duration) -> Option<ValidationReport> {
        self.turns.expire(now).map(report)
    }

    /// Does a step for the next reply. `seconds` is the Unix time.
    pub fn step(&mut self, seconds: u64) -> Option<ValidationReport> {
        self.turns.step(&mut self.validator, seconds).map(report)
    }
}

fn report(event: Event<Owner>) -> ValidationReport {
    match event {
        Event::Ask(slot, (name, qtype)) => ValidationReport::Fetch { slot, name, qtype },
        Event::Done(slot, owner, end, cost) => {
            let verdict = match end {
                JobEnd::Judged(judgement) => {
                    tracing::debug!("a reply is {:?}", judgement.verdict);
                    verdict(&judgement, &owner.reply, owner.dnssec_ok)
                }
                JobEnd::Late => ReplyVerdict::Late,
                JobEnd::Shed => ReplyVerdict::Shed(owner.reply),
            };
            ValidationReport::Verdict { slot, verdict, cost }
        }
    }
}

/// Turns a judgement into the verdict for the resolver.
pub(crate) fn verdict(judgement: &Judgement, reply: &[u8], dnssec_ok: bool) -> ReplyVerdict {
    use pmdns_validator::SecurityStatus::{Bogus, Indeterminate, Insecure, OverBudget, Secure};
    match judgement.verdict {
        Bogus(why) => ReplyVerdict::Bogus(why),
        OverBudget(why) => ReplyVerdict::OverBudget(why),
        standing @ (Secure | Insecure | Indeterminate) => {
            let is_secure = standing == Secure;
            let limit = ValidatorLimits::default().records;
            match pass_on(reply, &judgement.keep, is_secure, dnssec_ok, limit) {
                None => ReplyVerdict::Bogus(pmdns_validator::ede::BOGUS),
                Some(reply) => {
                    ReplyVerdict::Sound(Sound { standing, reply, max_ttl: judgement.max_ttl })
                }
            }
        }
    }
}
