//! The resolver: the way of a miss, from its arrival to its answer. It connects the other modules, which know nothing
//! of it.
//!
//! Misses come in by [`Resolver::take_in`], and what upstreams send by `network`. `asking` carries out plans, and judges
//! replies. `ending` gives the answers. `shedding` handles misses for which there is no room. `aliases`, `validating` and
//! `upkeep` begin questions that no client waits for.

mod aliases;
mod asking;
mod dns64;
mod ending;
mod network;
mod rejudging;
mod shedding;
mod standing;
mod upkeep;
mod validating;

use std::io;
use std::sync::Arc;
use std::time::Duration;
use std::vec::Drain;

use pmdns_config::Config;
use pmdns_nics::FramePool;
use pmdns_stages::cache::{Cache, Entry, EntryRef, Lifetimes, Retention, Writer};
use pmdns_stages::encode::Encode;
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::{Context, Tick};
use pmdns_validator::TrustAnchors;

use crate::answers::Answers;
use crate::answers::late::LateAnswers;
use crate::answers::outlets::{OutgoingAnswer, Outlets};
use crate::answers::responder::Responder;
use crate::answers::stale::Stale;
use crate::answers::store::Store;
use crate::answers::subnets::Subnets;
use crate::cache_jobs::jobs::Jobs;
use crate::cache_jobs::prefetch::Prefetch;
use crate::counters::{CacheCounters, Counters, count};
use crate::origin::Origin;
use crate::outlook::Standing;
use crate::output::Output;
use crate::questions::Questions;
use crate::questions::pending::{Admission, Waiter};
use crate::questions::prefixes::Client;
use crate::questions::question::Question;
use crate::random::Random;
use crate::roster::Roster;
use crate::settings::Settings;
use crate::upstreams::cookies::CookieSecret;
use crate::upstreams::medium::NetworkLimits;
use crate::upstreams::replies::ResolvedAnswer;
use crate::upstreams::{Start, Upstreams};
use crate::validation::Validation;

/// The resolver of one slow path thread.
pub struct Resolver {
    questions: Questions,
    upstreams: Upstreams,
    answers: Answers,
    validation: Validation,
    jobs: Jobs,
    prefetch: Prefetch,
    counters: Arc<Counters>,
    /// The time of the last input.
    time: Time,
    /// How long a client waits at most.
    deadline: Duration,
    /// The same time in ticks.
    client_patience: Tick,
}

/// The parts that a resolver is made from.
pub struct Parts {
    /// The operator's settings.
    pub config: Arc<Config>,
    /// The trust anchors for validation; `None`: replies are not validated.
    pub trust_anchors: Option<TrustAnchors>,
    /// How long answers are kept.
    pub lifetimes: Lifetimes,
    /// The cache, which is read again before an upstream is asked.
    pub cache: Arc<Cache>,
    /// Writes to this resolver's shard of the cache.
    pub writer: Writer,
    /// Writes the answers.
    pub encode: Encode,
    /// Gives the frames for them.
    pub pool: FramePool,
    /// Gives them for clients over streams, whose port has this number.
    pub stream_pool: Option<(u8, FramePool)>,
    /// The counters of this resolver, which nobody else writes.
    pub counters: Arc<Counters>,
    /// The counters of its shard of the cache.
    pub cache_counters: Arc<CacheCounters>,
    /// The upstreams; all resolvers share their counters.
    pub roster: Roster,
}

/// The means that the driver provides.
pub struct Means<'t> {
    /// The time of the start.
    pub time: Time,
    /// Converts a duration into ticks of the misses' clock.
    pub ticks: &'t dyn Fn(Duration) -> Tick,
    /// The source of ids, letter cases and the cookie secret.
    pub random: Random,
    /// How many answers may wait at each outlet. Answers for different cores leave by different ones.
    pub outlets: Vec<usize>,
    /// How much may be under way at once.
    pub limits: NetworkLimits,
}

/// One moment, in each of the units in use.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// In the units of the stages.
    pub context: Context,
    /// Since the process started.
    pub now: Duration,
}

/// How a question ends.
#[derive(Debug)]
enum Outcome {
    /// With an answer.
    Answer(ResolvedAnswer),
    /// Without one, for this reason.
    Failure(ExtendedError),
    /// Without an answer for want of room. That says nothing about the question, so it is not remembered.
    Shed(ExtendedError),
}

impl Resolver {
    /// A resolver with nothing under way. An error means that there are no random numbers.
    pub fn new(parts: Parts, means: Means<'_>) -> io::Result<Self> {
        let Parts { config, counters, .. } = parts;
        let Means { time, ticks, mut random, outlets, limits } = means;
        let (shards, seed, now) = (config.slow_path_shards(), parts.cache.seed(), time.now);
        let deadline = Duration::from_millis(config.slowpath.deadline_ms);
        let asks_for_itself = parts.trust_anchors.is_some() || config.prefetch.enabled;
        let cookie_secret = CookieSecret::new(random.bytes()?);
        let settings = Settings::new(&config, parts.roster)?;
        let mut jobs = Jobs::default();
        if parts.writer.stats().entries > 0 {
            // Another process has left them, and other rules have judged them.
            jobs.note_rules();
        }
        let (encode, pool, stream_pool) = (parts.encode, parts.pool, parts.stream_pool);
        Ok(Self {
            questions: Questions::new(&config, asks_for_itself, Arc::clone(&counters), seed, now),
            upstreams: Upstreams::new(
                settings,
                Arc::clone(&counters),
                Start { cookie_secret, seed, now, random, limits },
            ),
            answers: Answers {
                subnets: Subnets::new(config.client_subnet.clone(), shards, seed),
                store: Store::new(
                    parts.cache,
                    parts.writer,
                    parts.cache_counters,
                    parts.lifetimes,
                    Retention::of(&config),
                ),
                stale: Stale::new(&config.cache, ticks, deadline),
                responder: Responder {
                    encode,
                    pool,
                    stream_pool,
                    outlets: Outlets::new(&outlets),
                    counters: Arc::clone(&counters),
                },
                late: LateAnswers::new(
                    outlets.len(),
                    (config.slowpath.max_waiting / shards.max(1)).max(1),
                ),
                cuts_at_nxdomain: config.cache.nxdomain_cut,
                counters: Arc::clone(&counters),
                context: time.context,
            },
            validation: Validation::new(parts.trust_anchors),
            jobs,
            prefetch: Prefetch::new(config.prefetch.clone(), shards),
            counters,
            time,
            client_patience: ticks(deadline),
            deadline,
        })
    }

    /// Sets the time of an input. All inputs of a turn of the driver have the same.
    #[inline]
    fn set_time(&mut self, time: Time) {
        if time.context.now == self.time.context.now {
            return;
        }
        self.time = time;
        self.questions.now = time.now;
        self.upstreams.peers.now = time.now;
        self.answers.context = time.context;
    }

    /// The next output.
    pub fn next_output(&mut self) -> Option<Output> {
        let output = self.upstreams.next_output();
        output.or_else(|| self.validation.next_work().map(Output::Validate))
    }

    /// The answers that wait at an outlet. The driver takes them to the core that transmits them.
    pub fn take_answers(&mut self, outlet: usize) -> Drain<'_, OutgoingAnswer> {
        self.answers.responder.outlets.take(outlet)
    }

    /// From now on so many answers may wait at an outlet, and further ones are dropped. Returns how many were dropped since
    /// the last call.
    pub fn set_room(&mut self, outlet: usize, room: usize) -> usize {
        self.answers.responder.outlets.set_room(outlet, room)
    }

    /// How long a client waits at most.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Whether no question is under way, and no answer waits for room.
    pub fn is_idle(&self) -> bool {
        self.questions.pending.is_empty() && self.answers.late.is_empty()
    }

    /// Gives answers that have waited for room. Returns how many.
    fn give_late(&mut self) -> usize {
        let Answers { responder, late, context, .. } = &mut self.answers;
        late.give(responder, context)
    }

    /// Continues everything under way, and returns how much work there was.
    pub fn turn(&mut self, now: Time) -> usize {
        self.set_time(now);
        self.serve_timers();
        self.upstreams.probe();
        self.learn_failures();
        self.expire();
        // Behind the others of this turn, which cannot wait.
        let late = self.give_late();
        self.refresh_due();
        let carried_out = self.jobs.turn(&mut self.answers);
        self.upstreams.send_queued(&mut self.questions.pending);
        self.learn_failures();
        late + carried_out + usize::from(!self.upstreams.is_quiet())
    }

    /// Starts loading what [`Resolver::take_in`] reads first of the cache, which is in no near memory.
    pub fn expect(&self, miss: &Miss) {
        self.answers.store.prefetch(miss);
    }

    /// Takes in a miss, whose answer leaves by `outlet`. The first miss of a question has it asked upstream.
    pub fn take_in(&mut self, now: Time, miss: &Miss, outlet: usize) {
        self.set_time(now);
        count(&self.counters.misses);
        let waiter = Waiter { miss, outlet };
        match miss.judged() == self.answers.rules().generation() {
            true => self.take_in_judged(waiter),
            false => self.judge_and_take_in(waiter),
        }
    }

    /// The same for a miss that the rules in use let pass.
    fn take_in_judged(&mut self, waiter: Waiter<'_>) {
        let miss = waiter.miss;
        if self.is_local_now(waiter) {
            return;
        }
        let question = self.question(miss);
        let (is_cached, mut doubt) = (self.answers.store.get(&question).is_some(), None);
        let standing = match self.standing(&question, miss, is_cached, &mut doubt) {
            Standing::Cached(found) if self.give_cached(waiter, found) => return,
            // It has been evicted, or is not for this client.
            Standing::Cached(_) => self.standing_beside_cache(&question, miss, true, &mut doubt),
            standing => standing,
        };
        if let Some(entry) = doubt {
            self.confirm(&entry);
        }
        let stale = match standing {
            Standing::NotReady | Standing::Cached(_) => {
                return self.servfail(waiter, ExtendedError::NOT_READY);
            }
            Standing::ForSubnet(length) => return self.give_for_subnet(waiter, &question, length),
            Standing::Denied(entry) => return self.give_denial(waiter, &entry),
            Standing::Stale(entry) => return self.answers.give_stale(waiter, &entry),
            Standing::Failed(why) => {
                count(&self.counters.failed_recently);
                return self.servfail(waiter, why);
            }
            Standing::Asked { stale } => stale,
        };
        let patience = match stale {
            Some(_) => self.answers.stale.patience,
            None => self.client_patience,
        };
        let client = self.questions.client(miss);
        let mut admission = self.admit(&question, waiter, client, patience);
        if let Admission::Shed(_) = admission {
            if let Some(limit) = self.make_place(&question, client) {
                return self.shed(waiter, limit.into(), stale.as_ref());
            }
            admission = self.admit(&question, waiter, client, patience);
        }
        match admission {
            Admission::Leads(ticket) => self.advance(ticket),
            Admission::Waits => {}
            Admission::Shed(limit) => count(shedding::Reason::from(limit).counter(&self.counters)),
        }
    }

    fn admit(
        &mut self,
        question: &Question,
        waiter: Waiter<'_>,
        client: Client,
        patience: Tick,
    ) -> Admission {
        let Self { questions, upstreams, .. } = self;
        let plan = |question: &Question| upstreams.peers.plan(question);
        questions.admit(question, waiter, client, patience, plan)
    }

    /// Refuses a miss, because the thread is about to end.
    pub fn turn_away(&mut self, now: Time, miss: &Miss, outlet: usize) {
        self.set_time(now);
        count(&self.counters.misses);
        self.servfail(Waiter { miss, outlet }, ExtendedError::NOT_READY);
    }

    /// Answers a miss by a local alias, if the rules in use now can do so without asking an upstream.
    fn is_local_now(&mut self, waiter: Waiter<'_>) -> bool {
        let Answers { responder, context, .. } = &mut self.answers;
        waiter.miss.alias().is_some_and(|found| {
            let is_end = responder.encode.rules().alias(found, waiter.miss).is_none();
            let local = pmdns_stages::Answer::Local(found);
            is_end && responder.staged(waiter, local, context, |counters| &counters.answered)
        })
    }

    /// Answers a miss from the cache. The answer may have come for another client while the miss was on its way here.
    fn give_cached(&mut self, waiter: Waiter<'_>, found: EntryRef) -> bool {
        let Answers { responder, context, .. } = &mut self.answers;
        let cached = pmdns_stages::Answer::Cached(found);
        responder.staged(waiter, cached, context, |counters| &counters.answered_from_cache_late)
    }

    fn give_for_subnet(&mut self, waiter: Waiter<'_>, question: &Question, length: u8) {
        let Answers { subnets, responder, context, .. } = &mut self.answers;
        if let Some(entry) = subnets.use_answer(question, length) {
            responder.entry(waiter, entry, length, Origin::Cache, context, |counters| {
                &counters.answered_for_subnet
            });
        }
    }

    fn give_denial(&mut self, waiter: Waiter<'_>, entry: &Entry) {
        let Answers { responder, context, .. } = &mut self.answers;
        let origin = Origin::Cache;
        responder.entry(waiter, entry, 0, origin, context, |counters| &counters.nxdomain_cut);
    }

    /// The question of a client, with the network that upstreams will be told, and the rule that applies.
    fn question(&self, miss: &Miss) -> Question {
        let seed = self.answers.store.seed();
        let mut question = Question::of(miss, seed);
        question.validates = self.validation.is_on();
        question.apply(self.answers.rule_of(miss), seed);
        if let Some(subnet) = self.answers.subnets.forwarded(miss)
            && self.upstreams.peers.sends_subnets(question.zone())
        {
            question.ask_for(Some(subnet), seed);
        }
        question
    }

    fn servfail(&mut self, waiter: Waiter<'_>, why: ExtendedError) {
        let Answers { responder, context, .. } = &mut self.answers;
        responder.servfail(waiter, why, context);
    }
}
