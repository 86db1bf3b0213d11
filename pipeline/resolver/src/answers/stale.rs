//! Expired answers while the upstreams fail (RFC 8767).
//!
//! An answer that has expired stays in the cache until it is overwritten. Data cores take it for a miss; a client
//! gets it, with a short TTL, when the upstreams have failed or its patience is over, and never before they were
//! asked. Asking goes on without the client. Where that does not help either, the question rests: for some seconds
//! clients get the expired answer at once, and nobody is asked.

use std::rc::Rc;
use std::time::Duration;

use pmdns_config::Cache as Settings;
use pmdns_stages::Tick;
use pmdns_stages::cache::{Entry, Head, answers};
use pmdns_stages::wire::edns::ExtendedError;

use crate::counters::count;
use crate::questions::failures::Failures;
use crate::questions::pending::{Expired, Ticket, Waiter};
use crate::questions::query::{Question, Rule};
use crate::questions::shedding::Reason;
use crate::resolver::{Outcome, Resolver};
use crate::upstreams::network::Timer;

/// Why there is no answer if the upstreams take longer than a client waits.
const TOO_LATE: ExtendedError = ExtendedError::NO_REACHABLE_AUTHORITY;

/// How expired answers are served.
#[derive(Debug)]
pub(crate) struct Stale {
    is_served: bool,
    /// Seconds after it has expired that an answer may be served.
    window: u32,
    /// Their TTL, in seconds.
    ttl: u32,
    /// Ticks that a client waits for better.
    pub(crate) patience: Tick,
    /// Questions that nobody could answer a moment ago.
    resting: Failures,
}

impl Stale {
    /// As the settings say; clients wait no longer than `deadline`. A duration is so many `ticks`.
    pub(crate) fn new(
        settings: &Settings,
        ticks: impl Fn(Duration) -> Tick,
        deadline: Duration,
    ) -> Self {
        let patience = Duration::from_millis(settings.stale_client_timeout_ms).min(deadline);
        Self {
            is_served: settings.serve_stale,
            window: settings.stale_window_seconds,
            ttl: settings.stale_ttl,
            patience: ticks(patience),
            resting: Failures::new(Duration::from_secs(settings.stale_backoff_seconds.into())),
        }
    }
}

impl Stale {
    /// Until when an answer that expires then may be of use.
    pub(crate) fn usable_until(&self, expires: u32) -> u32 {
        expires.saturating_add(if self.is_served { self.window } else { 0 })
    }
}

impl Resolver {
    /// The expired answer to `question`, as clients get it. This is the one place where it is made.
    pub(crate) fn stale_answer(&self, question: &Question) -> Option<Entry> {
        // What the cache has is not for those whom rules treat otherwise.
        if !self.stale.is_served || question.rule() != Rule::None {
            return None;
        }
        let view = self.cache.view(self.cache.find(question.hash())?);
        let usable_until = self.stale.usable_until(Head::read(&view).expires);
        if !answers(&view, &question.key()) || self.context.seconds >= usable_until {
            return None;
        }
        Some(Entry::copy_of(&view)?.stale(self.context.seconds, self.stale.ttl))
    }

    /// Whether `question` rests, so that its clients need not wait.
    pub(crate) fn is_resting(&self, question: &Question) -> bool {
        self.stale.resting.why(question, self.now).is_some()
    }

    /// The upstreams could not answer `question`, or not in time.
    pub(crate) fn rest(&mut self, question: Rc<Question>) {
        if !self.is_resting(&question) {
            self.stale.resting.remember(question, TOO_LATE, self.now);
        }
    }

    /// The upstreams have answered `question`.
    pub(crate) fn wake(&mut self, question: &Question) {
        self.stale.resting.forget(question);
    }

    /// Answers with an expired answer.
    pub(crate) fn answer_stale(&mut self, waiter: &Waiter, entry: &Entry) {
        self.responder.entry(waiter, entry, 0, &self.context, |counters| &counters.stale);
    }

    /// A waiter's time is up: it gets an expired answer, if there is one, or SERVFAIL.
    ///
    /// With the last one who waits for it a question ends: a table full of questions nobody waits for is how
    /// forwarders come to refuse all others (unbound#227). Only if there is an expired answer to replace, and
    /// room, does it go on for a while.
    pub(crate) fn give_up(&mut self, expired: &Expired) {
        let Expired { waiter, ticket, was_last } = expired;
        if self.pending.find(*ticket).is_some_and(|(_, plan)| plan.was_shed()) {
            return self.shed_waiter(expired, Reason::Upstream);
        }
        let question = self.pending.find(*ticket).map(|(question, _)| Rc::clone(question));
        let stale = question.and_then(|question| Some((self.stale_answer(&question)?, question)));
        let Some((entry, question)) = stale else {
            count(&self.counters.deadline);
            self.responder.servfail(waiter, TOO_LATE, &self.context);
            if *was_last {
                self.settle(*ticket, &Outcome::Failure(TOO_LATE));
            }
            return;
        };
        self.answer_stale(waiter, &entry);
        self.rest(question);
        if *was_last && self.pending.is_half_full() {
            self.settle(*ticket, &Outcome::Failure(TOO_LATE));
        } else if *was_last {
            self.network.wake_at(self.now + self.deadline, Timer::Abandon(*ticket));
        }
    }

    /// Ends a question that has been under way for long enough, unless clients wait for it again.
    pub(crate) fn abandon(&mut self, ticket: Ticket) {
        if self.pending.is_unattended(ticket) {
            self.settle(ticket, &Outcome::Failure(TOO_LATE));
        }
    }
}
