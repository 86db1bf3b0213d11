//! The thread that validates.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use pmdns_validator::slots::zone_of;
use pmdns_validator::{Judgement, Limits, Question, Trust, Validator, pass_on};

use super::turns::{End, Event, Turns};
use super::{Report, Sound, Verdict, Work};

/// Pieces of work taken in before the next step; there are no more in the channel anyway.
const MAX_TAKEN: usize = 64;

/// A reply under validation.
struct Owner {
    reply: Vec<u8>,
    dnssec_ok: bool,
}

/// Judges replies until nobody can send any. A reply has `patience`.
pub(super) fn serve(
    trust: Trust,
    patience: Duration,
    work: &Receiver<Work>,
    reports: &Sender<Report>,
) {
    let started = Instant::now();
    let mut validator = Validator::trusting(trust, Limits::default());
    let mut turns = Turns::new();
    // There is room for every report; who asked may have ended.
    let report = |event| drop(reports.try_send(event_report(event)));
    loop {
        for taken in 0..MAX_TAKEN {
            let may_wait = taken == 0 && !turns.is_ready();
            let now = started.elapsed();
            let received = match (may_wait, turns.first_deadline()) {
                (false, _) => work.recv_timeout(Duration::ZERO),
                (true, Some(deadline)) => work.recv_timeout(deadline.saturating_sub(now)),
                (true, None) => work.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(work) => {
                    let deadline = started.elapsed() + patience;
                    take(work, &mut turns, &mut validator, deadline).into_iter().for_each(report);
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        let now = started.elapsed();
        while let Some(event) = turns.expire(now) {
            report(event);
        }
        if let Some(event) = turns.step(&mut validator, seconds()) {
            report(event);
        }
    }
}

fn take(
    work: Work,
    turns: &mut Turns<Owner>,
    validator: &mut Validator,
    deadline: Duration,
) -> Option<Event<Owner>> {
    match work {
        Work::Validate { slot, name, qtype, qclass, reply, dnssec_ok, limits } => {
            let question = Question { name: &name, qtype, qclass };
            let job = validator.start_within(limits, question, &reply);
            let zone = zone_of(&name).unwrap_or_default().into();
            turns.add(job, (slot, zone), Owner { reply, dnssec_ok }, deadline);
            None
        }
        Work::Fetched { name, qtype, fetched } => turns.fetched(validator, &(name, qtype), fetched),
    }
}

fn event_report(event: Event<Owner>) -> Report {
    match event {
        Event::Ask(slot, (name, qtype)) => Report::Fetch { slot, name, qtype },
        Event::Done(slot, owner, end, cost) => {
            let verdict = match end {
                End::Judged(judgement) => {
                    tracing::debug!("a reply is {:?}", judgement.verdict);
                    verdict(&judgement, &owner.reply, owner.dnssec_ok)
                }
                End::Late => Verdict::Late,
                End::Shed => Verdict::Shed(owner.reply),
            };
            Report::Verdict { slot, verdict, cost }
        }
    }
}

/// What the desk is to do with a reply.
pub(super) fn verdict(judgement: &Judgement, reply: &[u8], dnssec_ok: bool) -> Verdict {
    use pmdns_validator::Verdict::{Bogus, Indeterminate, Insecure, OverBudget, Secure};
    match judgement.verdict {
        Bogus(why) => Verdict::Bogus(why),
        OverBudget(why) => Verdict::OverBudget(why),
        standing @ (Secure | Insecure | Indeterminate) => {
            let is_secure = standing == Secure;
            let limit = Limits::default().records;
            match pass_on(reply, &judgement.keep, is_secure, dnssec_ok, limit) {
                None => Verdict::Bogus(pmdns_validator::ede::BOGUS),
                Some(reply) => {
                    Verdict::Sound(Sound { standing, reply, max_ttl: judgement.max_ttl })
                }
            }
        }
    }
}

/// Seconds since 1970. A clock that stands before that finds no signature good.
fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
