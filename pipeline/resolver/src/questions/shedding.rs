//! What is done with those it has no room for: the heaviest client prefix loses, and is told, a bounded number of
//! times a second. That a question is shed says nothing about it: it is no failure that is remembered.

use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use pmdns_stages::cache::Entry;
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::edns::ExtendedError;

use crate::counters::{Counters, count, lower};
use crate::questions::pending::{Displaced, Expired, Limit, Ticket, Waiter};
use crate::questions::prefixes::client_of;
use crate::questions::query::Question;
use crate::resolver::Resolver;
use crate::validation::Fetched;

/// What is displaced at most for one client that comes: a waiter, and a question.
const MAX_DISPLACED: usize = 2;

/// Why there is no room for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A limit of the pending table.
    Limit(Limit),
    /// Its prefix has most, and another one with less has come.
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
    /// Where it is counted.
    pub(crate) fn counter(self, counters: &Counters) -> &AtomicU64 {
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
    /// Makes room for a client that wants to wait for the answer to `question`; otherwise says which limit is reached.
    pub(crate) fn make_place(&mut self, question: &Question, miss: &Miss) -> Option<Limit> {
        for _ in 0..MAX_DISPLACED {
            match self.pending.displace(question, miss) {
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

    /// Lets a waiter go that has left, and its question if nobody else waits for that.
    pub(crate) fn shed_waiter(&mut self, left: &Expired, reason: Reason) {
        let question = self.pending.find(left.ticket).map(|(question, _)| Rc::clone(question));
        let stale = question.and_then(|question| self.stale_answer(&question));
        self.shed(&left.waiter, reason, stale.as_ref());
        if left.was_last {
            self.shed_question(left.ticket, reason);
        }
    }

    /// Ends a question for want of room.
    pub(crate) fn shed_question(&mut self, ticket: Ticket, reason: Reason) {
        let mut waiters = Vec::new();
        let Some(question) = self.pending.settle(ticket, |waiter, _| waiters.push(waiter)) else {
            return;
        };
        self.variants.end(question.key(), ticket, self.cache.seed());
        lower(&self.counters.pending);
        self.validation.fetched(&question, || Fetched::Shed);
        let stale = self.stale_answer(&question);
        for waiter in &waiters {
            lower(&self.counters.waiting);
            self.shed(waiter, reason, stale.as_ref());
        }
    }

    /// Lets a client go that there is no room for: with an expired answer if there is one, with SERVFAIL, or with nothing.
    pub(crate) fn shed(&mut self, waiter: &Waiter, reason: Reason, stale: Option<&Entry>) {
        if let Some(entry) = stale {
            return self.answer_stale(waiter, entry);
        }
        count(reason.counter(&self.counters));
        let prefix = self.prefixes.prefix(client_of(&waiter.miss));
        if self.refusals.may_tell(prefix, self.now) {
            count(&self.counters.told_busy);
            self.responder.servfail(waiter, ExtendedError::NOT_READY, &self.context);
        }
    }
}
