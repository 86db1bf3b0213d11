//! Shedding: how misses lose their place when there is no room. The client prefix that holds most loses first. Its
//! clients are told, a bounded number of times a second. A question that is shed is not remembered as a failure.

use std::sync::atomic::AtomicU64;

use pmdns_stages::cache::Entry;
use pmdns_stages::wire::edns::ExtendedError;

use super::Resolver;
use crate::counters::{Counters, count, lower};
use crate::questions::pending::{Displaced, Expired, Limit, Ticket, Waiter};
use crate::questions::prefixes::Client;
use crate::questions::question::Question;
use crate::validation::Fetched;

/// The most that is displaced for one new client: a waiter and a question.
const MAX_DISPLACED: usize = 2;

/// The reason why a client is shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// A limit of the pending table.
    Limit(Limit),
    /// Its prefix holds most, and a client of a prefix with less has come.
    Displaced,
    /// No upstream takes another query of its prefix.
    Upstream,
}

impl From<Limit> for Reason {
    fn from(limit: Limit) -> Self {
        Self::Limit(limit)
    }
}

impl Reason {
    /// The counter for it.
    pub(super) fn counter(self, counters: &Counters) -> &AtomicU64 {
        match self {
            Self::Limit(Limit::Questions) => &counters.shed_pending,
            Self::Limit(Limit::Waiting) => &counters.shed_waiting,
            Self::Limit(Limit::WaitingPerClient) => &counters.shed_client,
            Self::Limit(Limit::WaitingPerPrefix) => &counters.shed_prefix,
            Self::Displaced => &counters.shed_displaced,
            Self::Upstream => &counters.shed_upstream,
        }
    }
}

impl Resolver {
    /// Makes room for a client that wants to wait for the answer to `question`. Otherwise returns the limit that is
    /// reached.
    pub(super) fn make_place(&mut self, question: &Question, client: Client) -> Option<Limit> {
        for _ in 0..MAX_DISPLACED {
            match self.questions.pending.displace(question, client) {
                Ok(None) => return None,
                Ok(Some(Displaced::Question(ticket))) => {
                    self.shed_question(ticket, Reason::Displaced);
                }
                Ok(Some(Displaced::Waiter(left))) => {
                    lower(&self.counters.waiting);
                    self.shed_waiter(&left, Reason::Displaced);
                }
                Err(limit) => return Some(limit),
            }
        }
        None
    }

    /// Sheds a waiter that has left the table, and ends its question if it was the last waiter.
    pub(super) fn shed_waiter(&mut self, left: &Expired, reason: Reason) {
        let question = self.questions.find(left.ticket);
        let stale = question.and_then(|question| self.answers.stale_answer(&question));
        self.shed(left.waiter.waiter(), reason, stale.as_ref());
        if left.was_last {
            self.shed_question(left.ticket, reason);
        }
    }

    /// Ends a question for want of room.
    pub(super) fn shed_question(&mut self, ticket: Ticket, reason: Reason) {
        let mut waiters = Vec::new();
        let Some(question) =
            self.questions.end(ticket, |waiter, _| waiters.push(waiter.to_seated()))
        else {
            return;
        };
        self.validation.fetched(&question, || Fetched::Shed);
        let stale = self.answers.stale_answer(&question);
        for waiter in &waiters {
            self.shed(waiter.waiter(), reason, stale.as_ref());
        }
    }

    /// Sheds a client for which there is no room. It gets an expired answer if there is one, SERVFAIL, or nothing.
    pub(super) fn shed(&mut self, waiter: Waiter<'_>, reason: Reason, stale: Option<&Entry>) {
        if let Some(entry) = stale {
            return self.answers.give_stale(waiter, entry);
        }
        count(reason.counter(&self.counters));
        if self.questions.may_notify(waiter.miss) {
            count(&self.counters.told_busy);
            self.servfail(waiter, ExtendedError::NOT_READY);
        }
    }
}
