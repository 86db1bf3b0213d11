//! The resolver: what becomes of a miss, from its arrival to its answer. It connects the rooms, which do not know each other's
//! doings, and which know nothing of it.
//!
//! Clients come in by [`Resolver::take_in`]. `asking` carries plans out, and judges what comes back. `ending` gives the answers.
//! `shedding` is for those there is no room for. `aliases`, `validating` and `upkeep` begin questions that no client waits for.

mod aliases;
mod asking;
mod ending;
mod shedding;
mod upkeep;
mod validating;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pmdns_config::Config;
use pmdns_nics::FramePool;
use pmdns_stages::cache::{Cache, Key, Lifetimes, Writer};
use pmdns_stages::encode::Encode;
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::{Context, Tick};
use pmdns_validator::Trust;

use crate::answers::Answers;
use crate::answers::nxdomain_cut::Denial;
use crate::answers::responder::{Deliver, Responder};
use crate::answers::stale::Stale;
use crate::answers::store::Store;
use crate::answers::subnets::Subnets;
use crate::cache_jobs::jobs::Jobs;
use crate::cache_jobs::prefetch::Prefetch;
use crate::counters::{CacheCounters, Counters, UpstreamCounters, count};
use crate::output::Output;
use crate::questions::Questions;
use crate::questions::pending::{Admission, Waiter};
use crate::questions::question::Question;
use crate::random::Random;
use crate::upstreams::Upstreams;
use crate::upstreams::cookies::CookieSecret;
use crate::upstreams::peers::Peers;
use crate::upstreams::replies::Answer;
use crate::validation::Validation;

/// What one slow path thread works with.
pub struct Resolver {
    questions: Questions,
    upstreams: Upstreams,
    answers: Answers,
    validation: Validation,
    jobs: Jobs,
    prefetch: Prefetch,
    counters: Arc<Counters>,
    time: Time,
    /// How long a client waits at most.
    deadline: Duration,
    /// The same in ticks.
    client_patience: Tick,
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

/// How a question ends.
#[derive(Debug)]
enum Outcome {
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
        let Parts { config, counters, .. } = parts;
        let Means { time, ticks, mut random, deliver, max_sockets } = means;
        let (settings, seed, now) = (&config.slowpath, parts.cache.seed(), time.now);
        let deadline = Duration::from_millis(settings.deadline_ms);
        let asks_for_itself = parts.trust_anchors.is_some() || config.prefetch.enabled;
        let secret = CookieSecret::new(random.bytes()?);
        let peers = Peers::new(&config, parts.upstream_counters, secret, seed, now)?;
        let (encode, pool) = (parts.encode, parts.pool);
        Ok(Self {
            questions: Questions::new(&config, asks_for_itself, Arc::clone(&counters), seed, now),
            upstreams: Upstreams::new(&config, peers, Arc::clone(&counters), random, max_sockets),
            answers: Answers {
                subnets: Subnets::new(config.client_subnet.clone(), settings.threads, seed),
                store: Store::new(parts.cache, parts.writer, parts.cache_counters, parts.lifetimes),
                stale: Stale::new(&config.cache, ticks, deadline),
                responder: Responder { encode, pool, deliver, counters: Arc::clone(&counters) },
                cuts_at_nxdomain: config.cache.nxdomain_cut,
                counters: Arc::clone(&counters),
                context: time.context,
            },
            validation: Validation::new(parts.trust_anchors),
            jobs: Jobs::default(),
            prefetch: Prefetch::new(config.prefetch.clone(), settings.threads),
            counters,
            time,
            client_patience: ticks(deadline),
            deadline,
        })
    }

    /// It is so late now: once a turn, for all that happens in it.
    pub fn set_time(&mut self, time: Time) {
        self.time = time;
        self.questions.now = time.now;
        self.upstreams.peers.now = time.now;
        self.answers.context = time.context;
    }

    /// What is to be done next.
    pub fn next_output(&mut self) -> Option<Output> {
        let output = self.upstreams.next_output();
        output.or_else(|| self.validation.next_work().map(Output::Validate))
    }

    /// The time of this turn, since the process started.
    pub fn now(&self) -> Duration {
        self.time.now
    }

    /// How long a client waits at most.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Whether no question is under way.
    pub fn is_idle(&self) -> bool {
        self.questions.pending.is_empty()
    }

    /// Goes on with everything under way, and says how much there was to do.
    pub fn turn(&mut self) -> usize {
        self.serve_timers();
        self.upstreams.probe();
        self.learn_failures();
        self.expire();
        self.refresh_due();
        let carried_out = self.jobs.turn(&mut self.answers);
        self.upstreams.send_queued(&mut self.questions.pending);
        self.learn_failures();
        carried_out + usize::from(!self.upstreams.is_quiet())
    }

    /// Takes in a miss. The first of its kind is asked upstream.
    pub fn take_in(&mut self, miss: Miss, worker: usize) {
        count(&self.counters.misses);
        let waiter = Waiter { miss, worker };
        if self.is_local_now(&waiter) {
            return;
        }
        let question = self.question(&waiter.miss);
        if self.is_known_now(&question, &waiter) {
            return;
        }
        let stale = self.answers.stale_answer(&question);
        let failed = self.questions.why_failed(&question);
        let patience = match stale {
            Some(entry) if failed.is_some() || self.questions.is_resting(&question) => {
                return self.answers.give_stale(&waiter, &entry);
            }
            Some(_) => self.answers.stale.patience,
            None => self.client_patience,
        };
        if let Some(why) = failed {
            count(&self.counters.failed_recently);
            return self.servfail(&waiter, once_cached(why));
        }
        if let Some(limit) = self.make_place(&question, &waiter.miss) {
            return self.shed(&waiter, limit.into(), stale.as_ref());
        }
        let Self { questions, upstreams, .. } = self;
        let plan = |question: &Question| upstreams.peers.plan(question);
        match questions.admit(question, waiter, patience, plan) {
            Admission::Leads(ticket) => self.advance(ticket),
            Admission::Waits => {}
            Admission::Shed(limit) => count(shedding::Reason::from(limit).counter(&self.counters)),
        }
    }

    /// Refuses a miss, because the thread is about to end.
    pub fn turn_away(&mut self, miss: Miss, worker: usize) {
        count(&self.counters.misses);
        self.servfail(&Waiter { miss, worker }, ExtendedError::NOT_READY);
    }

    /// Answers a miss by a local alias, if that needs nobody to be asked by the rules in use now.
    fn is_local_now(&mut self, Waiter { miss, worker }: &Waiter) -> bool {
        let Answers { responder, context, .. } = &mut self.answers;
        miss.alias().is_some_and(|found| {
            let is_end = responder.encode.rules().alias(found, miss).is_none();
            is_end && responder.anew(miss, *worker, found, context)
        })
    }

    /// Answers a miss from what is known. It may have been answered while it was on its way here: the reply came to
    /// another client.
    fn is_known_now(&mut self, question: &Question, waiter: &Waiter) -> bool {
        let found = self.answers.find(question);
        let Answers { subnets, responder, context, .. } = &mut self.answers;
        if found.is_some_and(|found| responder.cached(&waiter.miss, waiter.worker, found, context))
        {
            return true;
        }
        if let Some((entry, scope)) = subnets.find(question, context.seconds) {
            responder
                .entry(waiter, entry, scope, context, |counters| &counters.answered_for_subnet);
            return true;
        }
        let peers = &self.upstreams.peers;
        let group = peers.group_of(question.zone());
        let is_asked_alike = |key: Key<'_>| peers.group_of(question.zone_of(key)) == group;
        match self.answers.denial(question, is_asked_alike) {
            Denial::Firm(entry) => {
                let Answers { responder, context, .. } = &mut self.answers;
                responder.entry(waiter, &entry, 0, context, |counters| &counters.nxdomain_cut);
                true
            }
            Denial::Doubtful(entry) => {
                self.confirm(&entry);
                false
            }
            Denial::None => false,
        }
    }

    /// What a client asks, for the network that upstreams will be told, and what rules make of it.
    fn question(&self, miss: &Miss) -> Question {
        let seed = self.answers.store.seed();
        let question = Question::of(miss, seed).validating(self.validation.is_on());
        let mut question = question.under(self.answers.rule_of(miss), seed);
        if let Some(subnet) = self.answers.subnets.told(miss)
            && self.upstreams.peers.tells_subnets(question.key())
        {
            question.ask_for(Some(subnet), seed);
        }
        question
    }

    fn servfail(&mut self, waiter: &Waiter, why: ExtendedError) {
        let Answers { responder, context, .. } = &mut self.answers;
        responder.servfail(waiter, why, context);
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
