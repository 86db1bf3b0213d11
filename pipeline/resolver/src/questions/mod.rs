//! Questions: those of clients, those under way, and how clients share bounded resources.

pub(crate) mod failures;
pub(crate) mod hashed;
pub(crate) mod pending;
pub(crate) mod plan;
pub(crate) mod prefixes;
pub(crate) mod question;
pub(crate) mod quota;
pub(crate) mod refusals;
pub(crate) mod round_robin;
pub(crate) mod targets;
pub(crate) mod variants;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pmdns_config::Config;
use pmdns_stages::Tick;
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::wire::name::Seed;

use crate::counters::{Counters, count, lower};
use crate::timers::Timers;
use failures::Failures;
use pending::{Admission, Expired, Pending, PendingLimits, Ticket, Waiter};
use plan::Plan;
use prefixes::{Client, ClientHasher, ClientPrefix};
use question::Question;
use refusals::Refusals;
use targets::AliasTargets;
use targets::Ipv4Targets;
use variants::Variants;

/// How long a failure is remembered: the shortest time that RFC 9520 section 3.2 allows. So clients notice the end of
/// an outage within a second.
const FAILURE_LIFETIME: Duration = Duration::from_secs(1);
/// One place in eight of the pending table is kept for questions that no client waits for, if the settings need such
/// questions.
const KEPT: usize = 8;

/// The timers of a question under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// Its pause is over.
    Pause(Ticket),
    /// Its first query takes longer than usual.
    Hedge(Ticket),
    /// It is given up if no client waits for it.
    Abandon(Ticket),
}

/// The questions of one thread: those under way, and those that failed a moment ago.
pub(crate) struct Questions {
    pub(crate) pending: Pending<Plan>,
    pub(crate) timers: Timers<Timer>,
    pub(crate) alias_targets: AliasTargets,
    pub(crate) ipv4_targets: Ipv4Targets,
    variants: Variants,
    failures: Failures,
    /// Questions that no upstream could answer a moment ago, and that have an expired answer.
    resting: Failures,
    refusals: Refusals,
    prefixes: ClientHasher,
    counters: Arc<Counters>,
    /// How long a question may be under way that no client waits for.
    deadline: Duration,
    /// The time of this turn, since the process started.
    pub(crate) now: Duration,
}

impl Questions {
    /// No questions yet. With `asks_for_itself` some will be our own, without a client.
    pub(crate) fn new(
        config: &Config,
        asks_for_itself: bool,
        counters: Arc<Counters>,
        seed: Seed,
        now: Duration,
    ) -> Self {
        let settings = &config.slowpath;
        // The limits of the settings are for all shards together.
        let shards = config.slow_path_shards().max(1);
        let share = |limit: usize| (limit / shards).max(1);
        let prefixes = ClientHasher::new(&config.ratelimit, seed);
        let limits = PendingLimits {
            questions: share(settings.max_pending),
            kept: if asks_for_itself { share(settings.max_pending) / KEPT } else { 0 },
            waiting: share(settings.max_waiting),
            waiting_per_client: share(settings.max_waiting_per_client),
        };
        Self {
            pending: Pending::new(limits),
            timers: Timers::default(),
            alias_targets: AliasTargets::default(),
            ipv4_targets: Ipv4Targets::default(),
            variants: Variants::default(),
            failures: Failures::new(FAILURE_LIFETIME),
            resting: Failures::new(Duration::from_secs(config.cache.stale_backoff_seconds.into())),
            refusals: Refusals::default(),
            prefixes,
            counters,
            deadline: Duration::from_millis(settings.deadline_ms),
            now,
        }
    }

    /// From now on questions with an expired answer rest for so many seconds after a failure.
    pub(crate) fn set_rest(&mut self, seconds: u32) {
        self.resting.set_lifetime(Duration::from_secs(seconds.into()));
    }

    /// A question that is under way.
    pub(crate) fn find(&mut self, ticket: Ticket) -> Option<Rc<Question>> {
        self.pending.find(ticket).map(|(question, _)| Rc::clone(question))
    }

    /// Lets a client wait for the answer to `question`, which begins with this plan if it is the first to ask.
    pub(crate) fn admit(
        &mut self,
        question: &Question,
        waiter: Waiter<'_>,
        client: Client,
        patience: Tick,
        plan: impl FnOnce(&Question) -> Plan,
    ) -> Admission {
        let admission = self.pending.admit(question, waiter, client, patience, plan);
        match admission {
            Admission::Leads(_) => {
                count(&self.counters.leaders);
                count(&self.counters.pending);
                count(&self.counters.waiting);
            }
            Admission::Waits => {
                count(&self.counters.coalesced);
                count(&self.counters.waiting);
            }
            Admission::Shed(_) => {}
        }
        admission
    }

    /// Opens a question that no client waits for. `prefix` is charged for it. The question is abandoned after a
    /// deadline. The caller has it asked.
    pub(crate) fn open(
        &mut self,
        prefix: ClientPrefix,
        question: &Question,
        plan: impl FnOnce(&Question) -> Plan,
    ) -> Admission {
        let admission = self.pending.begin(prefix, question, plan);
        if let Admission::Leads(ticket) = admission {
            count(&self.counters.pending);
            self.abandon_later(ticket);
        }
        admission
    }

    /// Abandons a question after a deadline, as long as a client would wait.
    pub(crate) fn abandon_later(&mut self, ticket: Ticket) {
        self.timers.set(self.now + self.deadline, Timer::Abandon(ticket));
    }

    /// Ends a question. Every waiter is passed to `leave` with its deadline. `None`: the question has ended before.
    pub(crate) fn end(
        &mut self,
        ticket: Ticket,
        mut leave: impl FnMut(Waiter<'_>, Tick),
    ) -> Option<Rc<Question>> {
        let Self { pending, counters, .. } = self;
        let question = pending.settle(ticket, |waiter, deadline| {
            lower(&counters.waiting);
            leave(waiter, deadline);
        })?;
        lower(&counters.pending);
        self.variants.end(question.kin(), ticket);
        Some(question)
    }

    /// Removes the first waiter whose deadline has come at `tick`.
    pub(crate) fn expire(&mut self, tick: Tick) -> Option<Expired> {
        let expired = self.pending.expire(tick)?;
        lower(&self.counters.waiting);
        Some(expired)
    }

    /// Removes the waiters that `is_meant`.
    pub(crate) fn withdraw(
        &mut self,
        is_meant: impl FnMut(&Question, &Miss) -> bool,
    ) -> Vec<Expired> {
        let left = self.pending.withdraw(is_meant);
        left.iter().for_each(|_| lower(&self.counters.waiting));
        left
    }

    /// Whether a query for a question may go over UDP. If too many variants of it do already, it may not.
    pub(crate) fn may_use_udp(&mut self, question: &Question, ticket: Ticket) -> bool {
        let may = self.variants.may_use_udp(question.kin(), ticket);
        if !may {
            count(&self.counters.crowded);
        }
        may
    }

    /// Why a question failed, if it did a moment ago.
    pub(crate) fn why_failed(&self, question: &Question) -> Option<ExtendedError> {
        self.failures.why(question, self.now)
    }

    /// Remembers for a moment that a question failed.
    pub(crate) fn remember_failure(&mut self, question: Rc<Question>, why: ExtendedError) {
        self.failures.remember(question, why, self.now);
    }

    /// Whether a question rests: its clients get its expired answer at once, and no upstream is asked.
    pub(crate) fn is_resting(&self, question: &Question) -> bool {
        self.resting.why(question, self.now).is_some()
    }

    /// Lets a question rest: the upstreams could not answer it, or not in time.
    pub(crate) fn rest(&mut self, question: Rc<Question>, why: ExtendedError) {
        if !self.is_resting(&question) {
            self.resting.remember(question, why, self.now);
        }
    }

    /// The upstreams have answered a question.
    pub(crate) fn wake(&mut self, question: &Question) {
        self.resting.forget(question);
    }

    /// Whether a client for which there is no room may be told so now.
    pub(crate) fn may_notify(&mut self, miss: &Miss) -> bool {
        let client = self.client(miss);
        self.refusals.may_notify(client.prefix, self.now)
    }

    /// The client of a miss.
    pub(crate) fn client(&self, miss: &Miss) -> Client {
        self.prefixes.client(miss)
    }
}
