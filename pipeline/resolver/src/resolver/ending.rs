//! Ending: the clients that wait for a question get its answer, an expired answer, or SERVFAIL.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use pmdns_stages::Tick;
use pmdns_stages::cache::Head;
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::wire::subnet::Subnet;

use super::shedding::Reason;
use super::{Outcome, Resolver, Time};
use crate::answers::late::Given;
use crate::counters::{add, count};
use crate::origin::Origin;
use crate::questions::pending::{Expired, Ticket};
use crate::questions::question::Question;
use crate::upstreams::replies::ResolvedAnswer;
use crate::validation::Fetched;

/// The most deadlines served in one turn. A ring of answers holds more, so a thousand clients whose deadlines come at
/// once do not overflow it.
const MAX_EXPIRIES: usize = 256;
/// The error if the upstreams take longer than a client waits.
const TOO_LATE: ExtendedError = ExtendedError::NO_REACHABLE_AUTHORITY;

impl Resolver {
    /// Applies the rules to an upstream's answer, and ends the question with the result.
    pub(super) fn answer_by_rules(
        &mut self,
        ticket: Ticket,
        question: &Question,
        answer: ResolvedAnswer,
        reply: &[u8],
    ) {
        let entry = self.answers.judged(question, answer.entry, reply);
        self.answer(ticket, ResolvedAnswer { entry, ..answer });
    }

    /// Ends a question with its answer. Answers that other upstreams may still send are not needed any more.
    pub(super) fn answer(&mut self, ticket: Ticket, answer: ResolvedAnswer) {
        if answer.entry.head().flags & Head::LEADS_ON != 0 {
            return self.lead_on(ticket, &answer.entry);
        }
        if let Some(answer) = self.with_ipv6(ticket, answer) {
            self.give(ticket, answer);
        }
    }

    /// Ends a question with its answer, in which no addresses are to be made.
    pub(super) fn give(&mut self, ticket: Ticket, answer: ResolvedAnswer) {
        if let Some((_, plan)) = self.questions.pending.find(ticket) {
            // The query that brought the answer is still counted as under way.
            add(&self.counters.wasted, plan.in_air().saturating_sub(1) as u64);
        }
        let outcome = Outcome::Answer(answer);
        self.settle(ticket, &outcome);
        if let Outcome::Answer(ResolvedAnswer { entry, .. }) = outcome {
            self.upstreams.recycle(entry);
        }
    }

    /// Ends a question: the answer goes into the cache and to all its waiters. If the question has ended before,
    /// nothing is done, and a late answer does not enter the cache: the upstream will have cached it.
    pub(super) fn settle(&mut self, ticket: Ticket, outcome: &Outcome) {
        let Some(question) = self.questions.find(ticket) else { return };
        let stale = match outcome {
            Outcome::Answer(_) => None,
            Outcome::Failure(_) | Outcome::Shed(_) => self.answers.stale_answer(&question),
        };
        // It may have been made under other rules, and have waited since for what belongs to it.
        let judged = match outcome {
            Outcome::Answer(ResolvedAnswer { entry, network, origin }) => {
                let entry = self.answers.judged_again(&question, entry);
                entry.map(|entry| {
                    Outcome::Answer(ResolvedAnswer { entry, network: *network, origin: *origin })
                })
            }
            Outcome::Failure(_) | Outcome::Shed(_) => None,
        };
        let outcome = judged.as_ref().unwrap_or(outcome);
        let given = match (outcome, &stale) {
            (Outcome::Answer(ResolvedAnswer { entry, network, origin }), _) => Given::Entry {
                entry: Cow::Borrowed(entry),
                scope: network.map_or(0, Subnet::length),
                origin: *origin,
            },
            (Outcome::Failure(_) | Outcome::Shed(_), Some(entry)) => {
                Given::Entry { entry: Cow::Borrowed(entry), scope: 0, origin: Origin::Stale }
            }
            (Outcome::Failure(why) | Outcome::Shed(why), None) => Given::Failure(*why),
        };
        self.give_to_all(ticket, &given);
        self.validation.fetched(&question, || Fetched::Nothing);
        self.lead_on_from(&question, outcome);
        self.make_ipv6_from(&question, outcome);
        match outcome {
            Outcome::Answer(answer) => {
                self.questions.wake(&question);
                self.answers.keep(&question, answer);
            }
            Outcome::Failure(why) => {
                if stale.is_some() {
                    self.questions.rest(Rc::clone(&question), TOO_LATE);
                }
                self.prefetch.try_again(&question, &mut self.answers);
                self.questions.remember_failure(question, *why);
            }
            Outcome::Shed(_) => {}
        }
    }

    /// Ends a question, and gives this to its waiters. Those for whom the ring has no room get it in later turns.
    fn give_to_all(&mut self, ticket: Ticket, given: &Given<'_>) {
        let Self { questions, answers, counters, .. } = self;
        let mut kept = None;
        questions.end(ticket, |waiter, deadline| {
            if matches!(given, Given::Failure(_)) && deadline <= answers.context.now {
                count(&counters.deadline);
            }
            let keep = || Rc::clone(kept.get_or_insert_with(|| given.kept()));
            answers.give(waiter, deadline, given, keep);
        });
    }

    /// Ends waiters whose deadline has come, a bounded number at a time.
    pub(super) fn expire(&mut self) {
        for _ in 0..MAX_EXPIRIES {
            let Some(expired) = self.questions.expire(self.time.context.now) else { return };
            self.give_up(&expired);
        }
    }

    /// A waiter's time is up: it gets an expired answer, if there is one, or SERVFAIL.
    ///
    /// A question ends with its last waiter. Otherwise the table could fill with questions that no client waits for,
    /// and all others would be refused (unbound#227). A question continues for a while only if there is an expired
    /// answer to replace, and room in the table.
    fn give_up(&mut self, expired: &Expired) {
        let Expired { waiter, ticket, was_last, .. } = expired;
        let waiter = waiter.waiter();
        if self.questions.pending.find(*ticket).is_some_and(|(_, plan)| plan.was_shed()) {
            return self.shed_waiter(expired, Reason::Upstream);
        }
        let question = self.questions.find(*ticket);
        let stale =
            question.and_then(|question| Some((self.answers.stale_answer(&question)?, question)));
        let Some((entry, question)) = stale else {
            count(&self.counters.deadline);
            self.servfail(waiter, TOO_LATE);
            if *was_last {
                self.settle(*ticket, &Outcome::Failure(TOO_LATE));
            }
            return;
        };
        self.answers.give_stale(waiter, &entry);
        self.questions.rest(question, TOO_LATE);
        if *was_last && self.questions.pending.is_half_full() {
            self.settle(*ticket, &Outcome::Failure(TOO_LATE));
        } else if *was_last {
            self.questions.abandon_later(*ticket);
        }
    }

    /// Ends a question that has been under way for long enough, unless clients wait for it again.
    pub(super) fn abandon(&mut self, ticket: Ticket) {
        if self.questions.pending.is_unattended(ticket) {
            self.settle(ticket, &Outcome::Failure(TOO_LATE));
        }
    }

    /// Answers the next waiters with SERVFAIL, as many as a ring of answers holds. `true`: no waiter is left, and all
    /// questions are forgotten. Behind answers that wait for room it waits too, until its client's deadline at most. So a core
    /// that takes no answers holds up the end no longer, and clients of other cores not at all.
    pub fn drain(&mut self, now: Time) -> bool {
        self.set_time(now);
        self.give_late();
        let given = Given::Failure(ExtendedError::NOT_READY);
        for _ in 0..MAX_EXPIRIES {
            let Some(expired) = self.questions.expire(Tick::MAX) else {
                if !self.answers.late.is_empty() {
                    return false;
                }
                let questions = self.questions.pending.drain(|_| ());
                self.counters.pending.fetch_sub(questions as u64, Ordering::Relaxed);
                return true;
            };
            let Expired { waiter, deadline, .. } = expired;
            self.answers.give(waiter.waiter(), deadline, &given, || given.kept());
        }
        false
    }
}
