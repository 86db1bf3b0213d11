//! The resolver: where misses are taken in, and where they leave.
//!
//! One loop turns it: misses in, replies in, what is due, queries out. In between it never waits. What it does with
//! the network is in [`crate::upstreams::exchange`].

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pmdns_config::{Config, Upstream};
use pmdns_nics::FramePool;
use pmdns_stages::cache::{Cache, EntryRef, Head, Lifetimes, Writer, answers};
use pmdns_stages::encode::Encode;
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::wire::subnet::Subnet;
use pmdns_stages::{Context, Tick};
use pmdns_validator::Trust;

use crate::answers::aliases::AliasTargets;
use crate::answers::responder::{Deliver, Responder};
use crate::answers::stale::Stale;
use crate::answers::subnets::{Answer, Subnets};
use crate::cache_jobs::jobs::Jobs;
use crate::cache_jobs::prefetch::Prefetch;
use crate::counters::{CacheCounters, Counters, UpstreamCounters, add, count, lower};
use crate::output::Output;
use crate::questions::failures::Failures;
use crate::questions::groups::Groups;
use crate::questions::pending::{Admission, Limits, Pending, Ticket, Waiter};
use crate::questions::plan::Plan;
use crate::questions::prefixes::PrefixLengths;
use crate::questions::query::{Question, Rule};
use crate::questions::refusals::Refusals;
use crate::questions::shedding::Reason;
use crate::questions::variants::Variants;
use crate::random::Random;
use crate::upstreams::capabilities::Capabilities;
use crate::upstreams::cookies::CookieSecret;
use crate::upstreams::encrypted::Encrypted;
use crate::upstreams::health::Health;
use crate::upstreams::network::Network;
use crate::upstreams::retry::RetryTimeout;
use crate::validation::{Fetched, Validation};

/// How long a failure is remembered: as long as RFC 9520 section 3.2 demands and no longer, so that
/// clients notice the end of an outage within a second.
const FAILURE_LIFETIME: Duration = Duration::from_secs(1);
/// One place of the pending table in so many is kept for questions that no client waits for, where there are any.
const KEPT: usize = 8;

/// Deadlines served in one turn: a ring of answers holds so many with room to spare. A thousand clients whose deadlines come
/// at once do not overflow it.
const MAX_EXPIRIES: usize = 256;

/// What one slow path thread works with.
pub struct Resolver {
    /// The time of this turn, as the stages see it.
    pub(crate) context: Context,
    /// The time of this turn, since the process started.
    pub(crate) now: Duration,
    /// How long a client waits at most.
    pub(crate) deadline: Duration,
    /// The same in ticks.
    pub(crate) client_patience: Tick,
    pub(crate) stale: Stale,
    /// Whether NXDOMAIN is for all names below.
    pub(crate) nxdomain_cut: bool,
    pub(crate) queries_per_port: usize,
    pub(crate) lifetimes: Lifetimes,
    pub(crate) upstreams: Vec<Upstream>,
    pub(crate) upstream_counters: Arc<[UpstreamCounters]>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) cache_counters: Arc<CacheCounters>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) writer: Writer,
    pub(crate) responder: Responder,
    pub(crate) pending: Pending<Plan>,
    pub(crate) prefixes: PrefixLengths,
    pub(crate) refusals: Refusals,
    pub(crate) failures: Failures,
    pub(crate) subnets: Subnets,
    pub(crate) groups: Groups,
    pub(crate) orders: Jobs,
    pub(crate) prefetch: Prefetch,
    pub(crate) health: Health,
    /// How long to wait for the reply to a probe.
    pub(crate) probe_timeout: Duration,
    /// What is known of each upstream.
    pub(crate) capabilities: Vec<Capabilities>,
    pub(crate) cookie_secret: CookieSecret,
    pub(crate) variants: Variants,
    pub(crate) network: Network,
    pub(crate) random: Random,
    pub(crate) encrypted: Encrypted,
    pub(crate) validation: Validation,
    /// Questions that wait for what their aliases lead to.
    pub(crate) alias_targets: AliasTargets,
}

/// What a resolver is made of.
pub struct Parts {
    /// What the operator says.
    pub config: Arc<Config>,
    /// What replies are validated by; none: they are not.
    pub trust_anchors: Option<Trust>,
    /// How long answers are kept.
    pub lifetimes: Lifetimes,
    /// The cache, to look again before asking.
    pub cache: Arc<Cache>,
    /// Writes to this resolver's shard of the cache.
    pub writer: Writer,
    /// Writes the answers.
    pub encode: Encode,
    /// Gives the frames for them.
    pub pool: FramePool,
    /// What this resolver counts; several may share them.
    pub counters: Arc<Counters>,
    /// What is counted of its shard of the cache.
    pub cache_counters: Arc<CacheCounters>,
    /// What is counted of each upstream; all resolvers share them.
    pub upstream_counters: Arc<[UpstreamCounters]>,
}

/// What its driver lends it.
pub struct Means<'t> {
    /// The time of the start.
    pub time: Time,
    /// How many ticks of the misses' clock a duration is.
    pub ticks: &'t dyn Fn(Duration) -> Tick,
    /// Where ids, letters and the secret of cookies come from.
    pub random: Random,
    /// Takes answers to a core that transmits.
    pub deliver: Deliver,
    /// Sockets that may be open at once.
    pub max_sockets: usize,
}

/// A time, as its users count it.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// As the stages see it.
    pub context: Context,
    /// Since the process started.
    pub now: Duration,
}

/// How an exchange ends.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// With an answer.
    Answer(Answer),
    /// Without one, for this reason.
    Failure(ExtendedError),
    /// The same for want of room, which says nothing about the question: it is not remembered.
    Shed(ExtendedError),
}

impl Resolver {
    /// A resolver with nothing under way. An error is the machine's, or a group's that asks nobody.
    pub fn new(parts: Parts, means: Means<'_>) -> io::Result<Self> {
        let config = &*parts.config;
        let (settings, upstreams) = (&config.slowpath, &config.upstreams);
        // What the settings allow is for all threads together.
        let share = |limit: usize| (limit / settings.threads.max(1)).max(1);
        let deadline = Duration::from_millis(settings.deadline_ms);
        let asks_for_itself = parts.trust_anchors.is_some() || config.prefetch.enabled;
        let prefixes = PrefixLengths::of(&config.ratelimit);
        let limits = Limits {
            questions: share(settings.max_pending),
            kept: if asks_for_itself { share(settings.max_pending) / KEPT } else { 0 },
            waiting: share(settings.max_waiting),
            waiting_per_client: share(settings.max_waiting_per_client),
            prefixes,
        };
        let groups = Groups::new(upstreams, &config.groups, &config.forwards, &config.views);
        parts.cache_counters.publish(&parts.writer.stats());
        let Time { context, now } = means.time;
        let retries = upstreams
            .iter()
            .map(|one| RetryTimeout::new(Duration::from_millis(one.timeout_ms), deadline));
        let (mut random, deliver) = (means.random, means.deliver);
        Ok(Self {
            context,
            now,
            stale: Stale::new(&config.cache, means.ticks, deadline),
            nxdomain_cut: config.cache.nxdomain_cut,
            client_patience: (means.ticks)(deadline),
            deadline,
            queries_per_port: settings.queries_per_port,
            lifetimes: parts.lifetimes,
            groups: groups.map_err(io::Error::other)?,
            health: Health::new(&config.health, retries),
            probe_timeout: Duration::from_millis(config.health.timeout_ms),
            capabilities: upstreams.iter().map(|one| Capabilities::new(one.mix_case)).collect(),
            cookie_secret: CookieSecret::new(random.bytes()?),
            variants: Variants::default(),
            network: Network::new(upstreams.len(), means.max_sockets),
            random,
            encrypted: Encrypted::new(upstreams.len()),
            validation: Validation::new(parts.trust_anchors),
            upstreams: upstreams.clone(),
            upstream_counters: parts.upstream_counters,
            cache_counters: parts.cache_counters,
            subnets: Subnets::new(
                config.client_subnet.clone(),
                settings.threads,
                parts.cache.seed(),
            ),
            cache: parts.cache,
            writer: parts.writer,
            responder: Responder {
                encode: parts.encode,
                pool: parts.pool,
                deliver,
                counters: Arc::clone(&parts.counters),
            },
            counters: parts.counters,
            pending: Pending::new(limits),
            prefixes,
            refusals: Refusals::default(),
            failures: Failures::new(FAILURE_LIFETIME),
            orders: Jobs::default(),
            prefetch: Prefetch::new(config.prefetch.clone(), settings.threads),
            alias_targets: AliasTargets::default(),
        })
    }

    /// It is so late now: once a turn, for all that happens in it.
    pub fn set_time(&mut self, time: Time) {
        (self.context, self.now) = (time.context, time.now);
    }

    /// What is to be done next.
    pub fn next_output(&mut self) -> Option<Output> {
        let output = self.network.outputs.pop_front();
        output.or_else(|| self.validation.next_work().map(Output::Validate))
    }

    /// The time of this turn, since the process started.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// How long a client waits at most.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Whether no question is under way.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Goes on with everything under way, and says how much there was to do.
    pub fn turn(&mut self) -> usize {
        self.serve_timers();
        self.probe();
        self.expire();
        self.refresh_due();
        let carried_out = self.carry_out();
        self.send_queued();
        carried_out + usize::from(!self.network.is_quiet())
    }

    /// Takes in a miss. The first of its kind is asked upstream.
    pub fn take_in(&mut self, miss: Miss, worker: usize) {
        count(&self.counters.misses);
        if let Some(found) = miss.alias()
            && self.responder.encode.rules().alias(found, &miss).is_none()
            && self.responder.anew(&miss, worker, found, &self.context)
        {
            return;
        }
        let question = self.question(&miss);
        // It may have been answered while it was on its way here: the reply came to another client.
        if let Some(found) = self.find(&question)
            && self.responder.cached(&miss, worker, found, &self.context)
        {
            return;
        }
        let waiter = Waiter { miss, worker };
        let Self { subnets, responder, context, .. } = self;
        if let Some((entry, scope)) = subnets.find(&question, context.seconds) {
            return responder
                .entry(&waiter, entry, scope, context, |counters| &counters.answered_for_subnet);
        }
        if let Some(entry) = self.denial(&question) {
            let Self { responder, context, .. } = self;
            return responder.entry(&waiter, &entry, 0, context, |counters| &counters.nxdomain_cut);
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
            return self.responder.servfail(&waiter, once_cached(why), &self.context);
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
    pub fn turn_away(&mut self, miss: Miss, worker: usize) {
        count(&self.counters.misses);
        let why = ExtendedError::NOT_READY;
        self.responder.servfail(&Waiter { miss, worker }, why, &self.context);
    }

    /// Ends a question: the answer goes into the cache and to everybody who waits for it. One that has
    /// ended before is left alone, and so is the cache: an upstream that was late keeps the answer for us.
    pub(crate) fn settle(&mut self, ticket: Ticket, outcome: &Outcome) {
        let Some((question, _)) = self.pending.find(ticket) else { return };
        let question = Rc::clone(question);
        self.variants.end(question.key(), ticket, self.cache.seed());
        let stale = match outcome {
            Outcome::Answer(_) => None,
            Outcome::Failure(_) | Outcome::Shed(_) => self.stale_answer(&question),
        };
        let Self { pending, responder, counters, context, .. } = self;
        pending.settle(ticket, |waiter, deadline| {
            lower(&counters.waiting);
            match (outcome, &stale) {
                (Outcome::Answer(Answer { entry, network }), _) => {
                    let scope = network.map_or(0, Subnet::length);
                    responder.entry(&waiter, entry, scope, context, |counters| &counters.answered);
                }
                (Outcome::Failure(_) | Outcome::Shed(_), Some(entry)) => {
                    responder.entry(&waiter, entry, 0, context, |counters| &counters.stale);
                }
                (Outcome::Failure(why) | Outcome::Shed(why), None) => {
                    if deadline <= context.now {
                        count(&counters.deadline);
                    }
                    responder.servfail(&waiter, *why, context);
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
    pub fn drain(&mut self) -> bool {
        for _ in 0..MAX_EXPIRIES {
            let Some(expired) = self.pending.expire(Tick::MAX) else {
                let questions = self.pending.drain(|_| ());
                self.counters.pending.fetch_sub(questions as u64, Ordering::Relaxed);
                return true;
            };
            lower(&self.counters.waiting);
            self.responder.servfail(&expired.waiter, ExtendedError::NOT_READY, &self.context);
        }
        false
    }

    /// Ends a question with its answer. Those that others have yet to give are not needed any more.
    pub(crate) fn answer(&mut self, ticket: Ticket, answer: Answer) {
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
    pub(crate) fn usual_patience(&self, upstream: usize) -> Duration {
        let expected = Duration::from_millis(self.upstreams[upstream].timeout_ms);
        self.health.retry_timeout(upstream, 0).max(expected)
    }

    /// An upstream replied to a query of `sent`.
    pub(crate) fn note_reply(&mut self, upstream: usize, sent: Duration) {
        count(&self.upstream_counters[upstream].replies);
        self.health.replied(upstream, self.now.saturating_sub(sent), self.now);
        self.publish_health(upstream);
    }

    /// A query of `sent` has had no reply for as long as its upstream may take.
    pub(crate) fn note_timeout(&mut self, upstream: usize, sent: Duration) {
        count(&self.upstream_counters[upstream].timeouts);
        self.note_failure(upstream, sent);
    }

    /// A query of `sent` has had no reply in the retry timeout.
    pub(crate) fn note_retry(&mut self, upstream: usize, sent: Duration) {
        count(&self.upstream_counters[upstream].late);
        self.health.retried(upstream, sent, self.now);
    }

    /// So many queries ended with an error of the network.
    pub(crate) fn note_broken(&self, upstream: usize, error: &std::io::Error, queries: u64) {
        tracing::debug!("upstream {}: {error}", self.upstreams[upstream].address);
        add(&self.upstream_counters[upstream].errors, queries);
    }

    /// An upstream did not reply, or could not be reached, by queries of `sent`.
    pub(crate) fn note_failure(&mut self, upstream: usize, sent: Duration) {
        self.health.failed(upstream, sent, self.now);
        self.publish_health(upstream);
    }

    /// A socket could not be opened. It is this machine's fault, and the operator's to know, but not
    /// a thousand times a second.
    pub(crate) fn note_socket_error(&self, error: &std::io::Error) {
        let before = self.counters.socket_errors.fetch_add(1, Ordering::Relaxed);
        if before == 0 || before.is_power_of_two() {
            tracing::warn!(
                "cannot open a socket to ask upstream: {error}; check upstream.source and the limit \
                 of open files (this warning is rarer each time, slowpath.socket_errors counts all)"
            );
        }
    }

    pub(crate) fn find(&self, question: &Question) -> Option<EntryRef> {
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
