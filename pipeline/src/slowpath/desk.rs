//! The desk of one slow path thread: where misses are taken in, and where they leave.
//!
//! One loop turns it: misses in, replies in, what is due, queries out. In between it never waits. What it does with
//! the network is in [`super::exchange`].

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pmdns_config::Upstream;
use pmdns_stages::cache::{Cache, EntryRef, Head, Lifetimes, Writer, answers};
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::wire::subnet::Subnet;
use pmdns_stages::{Context, Tick};

use super::aliases::Leads;
use super::capabilities::Capabilities;
use super::cookies::Bakery;
use super::counters::{CacheCounters, Counters, UpstreamCounters, add, count, lower};
use super::dnssec::{Fetched, Validation};
use super::encrypted::Encrypted;
use super::failures::Failures;
use super::groups::Groups;
use super::health::Health;
use super::network::Network;
use super::orders::Orders;
use super::outlets::Outlets;
use super::output::Output;
use super::pending::{Admission, Pending, Ticket, Waiter};
use super::plan::Plan;
use super::prefetch::Prefetch;
use super::prefixes::PrefixLengths;
use super::query::{Question, Rule};
use super::random::Random;
use super::refusals::Refusals;
use super::shedding::Reason;
use super::stale::Stale;
use super::subnets::{Answer, Subnets};
use super::variants::Variants;

/// Deadlines served in one turn: as many as a ring of answers holds with room to spare, so that a
/// thousand clients whose deadlines come at once do not overflow it.
const MAX_EXPIRIES: usize = 256;

/// What one slow path thread works with.
pub(super) struct Desk {
    /// The time of this turn, as the stages see it.
    pub(super) context: Context,
    /// The time of this turn, since the process started.
    pub(super) now: Duration,
    /// How long a client waits at most.
    pub(super) deadline: Duration,
    /// The same in ticks.
    pub(super) client_patience: Tick,
    pub(super) stale: Stale,
    /// Whether NXDOMAIN is for all names below.
    pub(super) nxdomain_cut: bool,
    pub(super) queries_per_port: usize,
    pub(super) lifetimes: Lifetimes,
    pub(super) upstreams: Vec<Upstream>,
    pub(super) upstream_counters: Arc<[UpstreamCounters]>,
    pub(super) counters: Arc<Counters>,
    pub(super) cache_counters: Arc<CacheCounters>,
    pub(super) cache: Arc<Cache>,
    pub(super) writer: Writer,
    pub(super) outlets: Outlets,
    pub(super) pending: Pending<Plan>,
    pub(super) prefixes: PrefixLengths,
    pub(super) refusals: Refusals,
    pub(super) failures: Failures,
    pub(super) subnets: Subnets,
    pub(super) groups: Groups,
    pub(super) orders: Orders,
    pub(super) prefetch: Prefetch,
    pub(super) health: Health,
    /// How long to wait for the reply to a probe.
    pub(super) probe_timeout: Duration,
    /// What is known of each upstream.
    pub(super) capabilities: Vec<Capabilities>,
    pub(super) bakery: Bakery,
    pub(super) variants: Variants,
    pub(super) network: Network,
    pub(super) random: Random,
    pub(super) encrypted: Encrypted,
    pub(super) validation: Validation,
    /// Questions that wait for what their aliases lead to.
    pub(super) leads: Leads,
}

/// A time, as its users count it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    /// As the stages see it.
    pub(super) context: Context,
    /// Since the process started.
    pub(super) now: Duration,
}

/// How an exchange ends.
#[derive(Debug)]
pub(super) enum Outcome {
    /// With an answer.
    Answer(Answer),
    /// Without one, for this reason.
    Failure(ExtendedError),
    /// The same for want of room, which says nothing about the question: it is not remembered.
    Shed(ExtendedError),
}

impl Desk {
    /// It is so late now: once a turn, for all that happens in it.
    pub(super) fn set_time(&mut self, time: Time) {
        (self.context, self.now) = (time.context, time.now);
    }

    /// What is to be done next.
    pub(super) fn next_output(&mut self) -> Option<Output> {
        let output = self.network.outputs.pop_front();
        output.or_else(|| self.validation.next_work().map(Output::Validate))
    }

    /// Goes on with everything under way, and says how much there was to do.
    pub(super) fn turn(&mut self) -> usize {
        self.serve_timers();
        self.probe();
        self.expire();
        self.refresh_due();
        let carried_out = self.carry_out();
        self.depart();
        carried_out + usize::from(!self.network.is_quiet())
    }

    /// Takes in a miss. The first of its kind is asked upstream.
    pub(super) fn take_in(&mut self, miss: Miss, worker: usize) {
        count(&self.counters.misses);
        if let Some(found) = miss.alias()
            && self.outlets.encode.rules().alias(found, &miss).is_none()
            && self.outlets.anew(&miss, worker, found, &self.context)
        {
            return;
        }
        let question = self.question(&miss);
        // It may have been answered while it was on its way here: the reply came to another client.
        if let Some(found) = self.find(&question)
            && self.outlets.cached(&miss, worker, found, &self.context)
        {
            return;
        }
        let waiter = Waiter { miss, worker };
        let Self { subnets, outlets, context, .. } = self;
        if let Some((entry, scope)) = subnets.find(&question, context.seconds) {
            return outlets
                .entry(&waiter, entry, scope, context, |counters| &counters.answered_for_subnet);
        }
        if let Some(entry) = self.denial(&question) {
            let Self { outlets, context, .. } = self;
            return outlets.entry(&waiter, &entry, 0, context, |counters| &counters.nxdomain_cut);
        }
        let (stale, failed) =
            (self.stale_answer(&question), self.failures.why(&question, self.now));
        let patience = match stale {
            Some(entry) if failed.is_some() || self.is_resting(&question) => {
                return self.answer_stale(&waiter, &entry);
            }
            Some(_) => self.stale.patience,
            None => self.client_patience,
        };
        if let Some(why) = failed {
            count(&self.counters.failed_recently);
            return self.outlets.servfail(&waiter, once_cached(why), &self.context);
        }
        if let Some(limit) = self.make_place(&question, &waiter.miss) {
            return self.shed(&waiter, limit.into(), stale.as_ref());
        }
        let Self { groups, health, now, .. } = self;
        let begin = |question: &Question| groups.plan(question.zone(), health, *now);
        match self.pending.admit(question, waiter, patience, begin) {
            Admission::Leads(ticket) => {
                count(&self.counters.leaders);
                count(&self.counters.pending);
                count(&self.counters.waiting);
                self.advance(ticket);
            }
            Admission::Waits => {
                count(&self.counters.coalesced);
                count(&self.counters.waiting);
            }
            Admission::Shed(limit) => count(Reason::from(limit).counter(&self.counters)),
        }
    }

    /// Refuses a miss, because the thread is about to end.
    pub(super) fn turn_away(&mut self, miss: Miss, worker: usize) {
        count(&self.counters.misses);
        let why = ExtendedError::NOT_READY;
        self.outlets.servfail(&Waiter { miss, worker }, why, &self.context);
    }

    /// Ends a question: the answer goes into the cache and to everybody who waits for it. One that has
    /// ended before is left alone, and so is the cache: an upstream that was late keeps the answer for us.
    pub(super) fn settle(&mut self, ticket: Ticket, outcome: &Outcome) {
        let Some((question, _)) = self.pending.find(ticket) else { return };
        let question = Rc::clone(question);
        self.variants.end(question.key(), ticket, self.cache.seed());
        let stale = match outcome {
            Outcome::Answer(_) => None,
            Outcome::Failure(_) | Outcome::Shed(_) => self.stale_answer(&question),
        };
        let Self { pending, outlets, counters, context, .. } = self;
        pending.settle(ticket, |waiter, deadline| {
            lower(&counters.waiting);
            match (outcome, &stale) {
                (Outcome::Answer(Answer { entry, network }), _) => {
                    let scope = network.map_or(0, Subnet::length);
                    outlets.entry(&waiter, entry, scope, context, |counters| &counters.answered);
                }
                (Outcome::Failure(_) | Outcome::Shed(_), Some(entry)) => {
                    outlets.entry(&waiter, entry, 0, context, |counters| &counters.stale);
                }
                (Outcome::Failure(why) | Outcome::Shed(why), None) => {
                    if deadline <= context.now {
                        count(&counters.deadline);
                    }
                    outlets.servfail(&waiter, *why, context);
                }
            }
        });
        lower(&counters.pending);
        self.validation.fetched(&question, || Fetched::Nothing);
        self.lead_on_from(&question, outcome);
        match outcome {
            Outcome::Answer(answer) => {
                self.wake(&question);
                self.keep(&question, answer);
            }
            Outcome::Failure(why) => {
                if stale.is_some() {
                    self.rest(Rc::clone(&question));
                }
                self.failures.remember(question, *why, self.now);
            }
            Outcome::Shed(_) => {}
        }
    }

    /// Lets those go whose deadline has come, a bounded number at a time.
    fn expire(&mut self) {
        for _ in 0..MAX_EXPIRIES {
            let Some(expired) = self.pending.expire(self.context.now) else { return };
            lower(&self.counters.waiting);
            self.give_up(&expired);
        }
    }

    /// Answers the next who wait with SERVFAIL, as many as a ring of answers holds. `true`: nobody waits any more, and all
    /// questions are forgotten.
    pub(super) fn drain(&mut self) -> bool {
        for _ in 0..MAX_EXPIRIES {
            let Some(expired) = self.pending.expire(Tick::MAX) else {
                let questions = self.pending.drain(|_| ());
                self.counters.pending.fetch_sub(questions as u64, Ordering::Relaxed);
                return true;
            };
            lower(&self.counters.waiting);
            self.outlets.servfail(&expired.waiter, ExtendedError::NOT_READY, &self.context);
        }
        false
    }

    /// Ends a question with its answer. Those that others have yet to give are not needed any more.
    pub(super) fn answer(&mut self, ticket: Ticket, answer: Answer) {
        if answer.entry.head().flags & Head::LEADS_ON != 0 {
            return self.lead_on(ticket, &answer.entry);
        }
        if let Some((_, plan)) = self.pending.find(ticket) {
            // The one that brought the answer is in the air still.
            add(&self.counters.wasted, plan.in_air().saturating_sub(1) as u64);
        }
        self.settle(ticket, &Outcome::Answer(answer));
    }

    /// After how long a query without a reply counts as timed out. An upstream that usually takes longer than the
    /// operator expects is not to blame for it.
    pub(super) fn usual_patience(&self, upstream: usize) -> Duration {
        let expected = Duration::from_millis(self.upstreams[upstream].timeout_ms);
        self.health.retry_timeout(upstream, 0).max(expected)
    }

    /// An upstream replied to a query of `sent`.
    pub(super) fn note_reply(&mut self, upstream: usize, sent: Duration) {
        count(&self.upstream_counters[upstream].replies);
        self.health.replied(upstream, self.now.saturating_sub(sent), self.now);
        self.publish_health(upstream);
    }

    /// A query of `sent` has had no reply for as long as its upstream may take.
    pub(super) fn note_timeout(&mut self, upstream: usize, sent: Duration) {
        count(&self.upstream_counters[upstream].timeouts);
        self.note_failure(upstream, sent);
    }

    /// A query of `sent` has had no reply in the retry timeout.
    pub(super) fn note_retry(&mut self, upstream: usize, sent: Duration) {
        count(&self.upstream_counters[upstream].late);
        self.health.retried(upstream, sent, self.now);
    }

    /// So many queries ended with an error of the network.
    pub(super) fn note_broken(&self, upstream: usize, error: &std::io::Error, queries: u64) {
        tracing::debug!("upstream {}: {error}", self.upstreams[upstream].address);
        add(&self.upstream_counters[upstream].errors, queries);
    }

    /// An upstream did not reply, or could not be reached, by queries of `sent`.
    pub(super) fn note_failure(&mut self, upstream: usize, sent: Duration) {
        self.health.failed(upstream, sent, self.now);
        self.publish_health(upstream);
    }

    /// A socket could not be opened. It is this machine's fault, and the operator's to know, but not
    /// a thousand times a second.
    pub(super) fn note_socket_error(&self, error: &std::io::Error) {
        let before = self.counters.socket_errors.fetch_add(1, Ordering::Relaxed);
        if before == 0 || before.is_power_of_two() {
            tracing::warn!(
                "cannot open a socket to ask upstream: {error}; check upstream.source and the limit \
                 of open files (this warning is rarer each time, slowpath.socket_errors counts all)"
            );
        }
    }

    pub(super) fn find(&self, question: &Question) -> Option<EntryRef> {
        if matches!(question.rule(), Rule::Alias(..)) {
            return None;
        }
        let found = self.cache.find(question.hash())?;
        let entry = self.cache.view(found);
        let matches = answers(&entry, &question.key());
        let head = Head::read(&entry);
        let fresh = head.expires > self.context.seconds;
        // Who is exempt from rules gets what no rule has changed. What is not to be given is no answer.
        let is_changed = head.flags & Head::REWRITTEN != 0 && question.rule() != Rule::None;
        let usable = fresh && !is_changed && head.rcode != Head::SILENT;
        (matches && usable && entry.is_valid()).then_some(found)
    }

    /// Puts an answer into the cache, unless it is for its askers only (TTL 0). What was there for the same
    /// question is out of date either way. An answer for one network goes elsewhere.
    fn keep(&mut self, question: &Question, Answer { entry, network }: &Answer) {
        let Some(entry) = self.to_keep(question, entry) else { return };
        let head = entry.head();
        let is_fresh = head.expires > self.context.seconds;
        if let Some(network) = *network {
            if is_fresh {
                self.subnets.keep(question, network, entry.into_owned(), &self.counters);
            }
            return;
        }
        // What the validator asks for may belong to another thread.
        if !self.writer.owns(head.hash) {
            return;
        }
        let kept = is_fresh && self.writer.insert(&entry).is_kept();
        if !kept {
            self.writer.remove(head.hash);
        }
        self.cache_counters.publish(&self.writer.stats());
        count(if kept { &self.counters.inserted } else { &self.counters.not_cached });
    }

    fn publish_health(&self, upstream: usize) {
        let counters = &self.upstream_counters[upstream];
        let srtt_us = self.health.srtt(upstream).as_micros() as u64;
        counters.srtt_us.store(srtt_us, Ordering::Relaxed);
        counters
            .state
            .store(u64::from(self.health.next_probe(upstream).is_some()), Ordering::Relaxed);
    }
}

/// Why a question has no answer that failed for `why` a moment ago. What an upstream said, or validation found, holds
/// still; that we have found none is not found out again.
fn once_cached(why: ExtendedError) -> ExtendedError {
    match why {
        ExtendedError::NO_REACHABLE_AUTHORITY | ExtendedError::NETWORK_ERROR => {
            ExtendedError::CACHED_ERROR
        }
        _ => why,
    }
}
