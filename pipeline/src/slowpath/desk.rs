//! The desk of one slow path thread: where misses are taken in, and where they leave.
//!
//! Every task of the thread works on it, one at a time, so cells are all the sharing it needs. No borrow
//! is ever held across an await.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pmdns_config::Upstream;
use pmdns_stages::cache::{Cache, Entry, EntryRef, Head, Inserted, Lifetimes, Writer, answers};
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::dns::Rcode;
use pmdns_stages::{Context, Tick};

use super::counters::{CacheCounters, Counters, UpstreamCounters, count, lower};
use super::exchange::Outcome;
use super::failures::Failures;
use super::health::Health;
use super::outlets::{Fate, Outlets};
use super::pending::{Admission, Limit, Pending, Waiter};
use super::query::Question;
use super::sockets::Sockets;
use crate::clock::Clock;

/// Deadlines served in one turn: as many as a ring of answers holds with room to spare, so that a
/// thousand clients whose deadlines come at once do not overflow it.
const MAX_EXPIRIES: usize = 256;

/// A pause while draining: longer than an idle data core naps.
const DRAIN_PAUSE: Duration = Duration::from_micros(500);

/// What one slow path thread works with.
pub(super) struct Desk {
    pub(super) clock: Clock,
    pub(super) lifetimes: Lifetimes,
    pub(super) upstreams: Vec<Upstream>,
    pub(super) upstream_counters: Arc<[UpstreamCounters]>,
    pub(super) counters: Arc<Counters>,
    pub(super) cache_counters: Arc<CacheCounters>,
    pub(super) sockets: Sockets,
    pub(super) cache: Arc<Cache>,
    pub(super) writer: RefCell<Writer>,
    pub(super) outlets: RefCell<Outlets>,
    pub(super) pending: RefCell<Pending>,
    pub(super) failures: RefCell<Failures>,
    pub(super) health: RefCell<Health>,
}

impl Desk {
    /// Takes in a miss. If it is the first of its kind, the caller must ask upstream and
    /// [`settle`](Desk::settle) the question that is returned.
    pub(super) fn take_in(&self, miss: Miss, worker: usize) -> Option<Rc<Question>> {
        count(&self.counters.misses);
        let question = Question::of(&miss, self.cache.seed());
        let context = self.context();
        if self.answer_from_cache(&question, &miss, worker, &context) {
            return None;
        }
        let waiter = Waiter { miss, worker };
        if self.failures.borrow().contains(&question, self.uptime()) {
            count(&self.counters.failed_recently);
            self.answer_servfail(&waiter, &context);
            return None;
        }
        let admission = self.pending.borrow_mut().admit(question, waiter);
        match admission {
            Admission::Leads(question) => {
                count(&self.counters.leaders);
                count(&self.counters.pending);
                count(&self.counters.waiting);
                return Some(question);
            }
            Admission::Waits => {
                count(&self.counters.coalesced);
                count(&self.counters.waiting);
            }
            // Dropped, not answered: an answer would cost a frame and a ring slot, and tell a flooder
            // how fast to go on. Clients that mean it ask again.
            Admission::Shed(Limit::Questions) => count(&self.counters.shed_pending),
            Admission::Shed(Limit::Waiting) => count(&self.counters.shed_waiting),
            Admission::Shed(Limit::WaitingPerClient) => count(&self.counters.shed_client),
        }
        None
    }

    /// Refuses a miss, because the thread is about to end.
    pub(super) fn turn_away(&self, miss: Miss, worker: usize) {
        count(&self.counters.misses);
        self.answer_servfail(&Waiter { miss, worker }, &self.context());
    }

    /// Ends a question: the answer goes into the cache and to everybody who waits for it.
    pub(super) fn settle(&self, question: &Rc<Question>, outcome: &Outcome) {
        let context = self.context();
        if !self.pending.borrow().is_asked(question) {
            return;
        }
        match outcome {
            Outcome::Answer(entry) => self.keep(entry, &context),
            Outcome::Failure => {
                self.failures.borrow_mut().remember(Rc::clone(question), self.uptime());
            }
        }
        self.pending.borrow_mut().settle(question, |waiter, deadline| {
            lower(&self.counters.waiting);
            match outcome {
                Outcome::Answer(entry) => self.answer_fresh(&waiter, entry, &context),
                Outcome::Failure => {
                    if deadline <= context.now {
                        count(&self.counters.deadline);
                    }
                    self.answer_servfail(&waiter, &context);
                }
            }
        });
        lower(&self.counters.pending);
    }

    /// Answers those whose deadline has come with SERVFAIL, a bounded number at a time.
    pub(super) fn expire(&self) {
        let context = self.context();
        self.pending.borrow_mut().expire(context.now, MAX_EXPIRIES, |waiter| {
            lower(&self.counters.waiting);
            count(&self.counters.deadline);
            self.answer_servfail(&waiter, &context);
        });
    }

    /// Answers everybody who waits with SERVFAIL and forgets all questions. It pauses now and then, so
    /// that the rings of answers do not overflow.
    pub(super) fn drain(&self) {
        let context = self.context();
        let mut answered = 0;
        let questions = self.pending.borrow_mut().drain(|waiter| {
            lower(&self.counters.waiting);
            self.answer_servfail(&waiter, &context);
            answered += 1;
            if answered % MAX_EXPIRIES == 0 {
                std::thread::sleep(DRAIN_PAUSE);
            }
        });
        for _ in 0..questions {
            lower(&self.counters.pending);
        }
    }

    /// An upstream replied.
    pub(super) fn note_reply(&self, upstream: usize, rtt: Duration, now: Duration) {
        self.health.borrow_mut().replied(upstream, rtt, now);
        self.publish_health(upstream);
    }

    /// An upstream did not reply, or could not be reached.
    pub(super) fn note_failure(&self, upstream: usize, sent: Duration, now: Duration) {
        self.health.borrow_mut().failed(upstream, sent, now);
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

    /// Time since the process started.
    pub(super) fn uptime(&self) -> Duration {
        self.clock.duration_of(self.clock.now())
    }

    /// The time as the stages see it.
    pub(super) fn context(&self) -> Context {
        let now: Tick = self.clock.now();
        self.clock.context(now)
    }

    /// A miss may have been answered while it was on its way here: the reply came to another client.
    fn answer_from_cache(
        &self,
        question: &Question,
        miss: &Miss,
        worker: usize,
        context: &Context,
    ) -> bool {
        let Some(found) = self.find(question, context) else { return false };
        let fate = self.outlets.borrow_mut().answer_cached(miss, worker, found, context);
        if fate == Fate::Evicted {
            return false;
        }
        self.count_fate(fate, &self.counters.answered_from_cache_late);
        true
    }

    fn find(&self, question: &Question, context: &Context) -> Option<EntryRef> {
        let found = self.cache.find(question.hash())?;
        let entry = self.cache.view(found);
        let matches = answers(&entry, &question.key());
        let fresh = Head::read(&entry).expires > context.seconds;
        (matches && fresh && entry.is_valid()).then_some(found)
    }

    /// Puts an answer into the cache, unless it is for its askers only (TTL 0).
    fn keep(&self, entry: &Entry, context: &Context) {
        let lives = entry.head().expires > context.seconds;
        let mut writer = self.writer.borrow_mut();
        let kept = lives && writer.insert(entry) != Inserted::TooLong;
        self.cache_counters.publish(&writer.stats());
        count(if kept { &self.counters.inserted } else { &self.counters.not_cached });
    }

    fn answer_fresh(&self, waiter: &Waiter, entry: &Entry, context: &Context) {
        let fate = self.outlets.borrow_mut().answer_fresh(waiter, entry, context);
        self.count_fate(fate, &self.counters.answered);
    }

    fn answer_servfail(&self, waiter: &Waiter, context: &Context) {
        let fate = self.outlets.borrow_mut().answer_rcode(waiter, Rcode::SERVFAIL, context);
        self.count_fate(fate, &self.counters.servfail);
    }

    /// Every miss is counted here or where it is shed, and nowhere else: once.
    fn count_fate(&self, fate: Fate, sent: &AtomicU64) {
        count(match fate {
            Fate::Sent => sent,
            Fate::NoFrame => &self.counters.shed_no_frame,
            Fate::RingFull => &self.counters.shed_ring_full,
            Fate::TooLong | Fate::Evicted => &self.counters.shed_too_long,
        });
    }

    fn publish_health(&self, upstream: usize) {
        let health = self.health.borrow();
        let counters = &self.upstream_counters[upstream];
        let srtt_us = health.srtt(upstream).as_micros() as u64;
        counters.srtt_us.store(srtt_us, Ordering::Relaxed);
        counters.state.store(u64::from(health.is_resting(upstream)), Ordering::Relaxed);
    }
}
