//! The slow path: misses are resolved here, on threads of their own, through kernel sockets.
//!
//! ```text
//!  data cores ──rings of misses──► desk ──► pending table ──leader──► exchange ──► upstreams
//!  TX cores   ◄──rings of frames── outlets ◄──everybody who waits──┘      └──► cache writer
//! ```
//!
//! Each thread owns a share of the keys, a shard of the cache to write to, and nothing that another
//! thread touches. On it runs one loop, [`Desk`]'s, which polls the rings and serves
//! deadlines, and one task per question under way ([`exchange`]). What decides is pure and told the time:
//! [`pending`], [`plan`], [`health`], [`failures`], [`query`]. What touches the network is small: [`udp`],
//! [`tcp`]. docs/adr/0007-misses-resolve-on-tokio-tasks.md says why it is so.
//!
//! Three promises, whatever the upstreams do: a client that is admitted is answered by its deadline or
//! counted; memory is bounded by the settings; once an upstream answers again, so do we.

mod counters;
mod desk;
mod exchange;
mod failures;
mod health;
mod outlets;
mod pending;
mod plan;
mod query;
mod sockets;
mod tcp;
mod udp;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use pmdns_config::{SlowPath, Upstream};
use pmdns_nics::{Frame, FramePool};
use pmdns_stages::cache::{Cache, Lifetimes, Writer};
use pmdns_stages::encode::Encode;
use pmdns_stages::miss::Miss;
use tokio::task::{LocalSet, spawn_local, yield_now};

pub use counters::{
    CacheCounters, CacheSnapshot, Counters, CountersSnapshot, UpstreamCounters, UpstreamSnapshot,
};

use crate::clock::Clock;
use crate::ring::{RingReceiver, RingSender};
use desk::Desk;
use exchange::Outcome;
use health::Health;
use outlets::Outlets;
use pending::{Limits, Pending};
use query::Question;
use sockets::Sockets;

/// Misses taken from one ring before the next ring's turn.
const TAKE: usize = 32;
/// The nap of a thread that finds nothing to do, and the longest one when it has been so for seconds.
const NAPS: (Duration, Duration) = (Duration::from_micros(50), Duration::from_micros(500));

/// What one slow path thread is made of.
pub struct SlowPathParts {
    /// Limits and the clients' deadline.
    pub settings: SlowPath,
    /// Whom to ask, in the operator's order.
    pub upstreams: Vec<Upstream>,
    /// How long answers are kept.
    pub lifetimes: Lifetimes,
    /// Rings of misses, by worker.
    pub inlets: Vec<RingReceiver<Miss>>,
    /// Rings to the workers that transmit.
    pub outlets: Vec<RingSender<Frame>>,
    /// The outlet that answers a worker's misses, by worker.
    pub answers_to: Vec<usize>,
    /// The cache, to look again before asking.
    pub cache: Arc<Cache>,
    /// Writes to this thread's shard of the cache.
    pub writer: Writer,
    /// Writes the answers.
    pub encode: Encode,
    /// Gives the frames for them.
    pub pool: FramePool,
    /// The clock the misses' arrival was read from.
    pub clock: Clock,
    /// Set when the thread shall end.
    pub stop: Arc<AtomicBool>,
    /// What this thread counts; threads may share them.
    pub counters: Arc<Counters>,
    /// What is counted of this thread's shard of the cache.
    pub cache_counters: Arc<CacheCounters>,
    /// What is counted of each upstream; all threads share them.
    pub upstream_counters: Arc<[UpstreamCounters]>,
}

/// Resolves misses on the calling thread until `stop` is set.
///
/// Then everybody who waits is answered with SERVFAIL at once, and so is what else the workers send until
/// they drop their ends of the rings; it returns when they have, or a client's deadline later.
pub fn run(parts: SlowPathParts) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    match runtime {
        Ok(runtime) => LocalSet::new().block_on(&runtime, serve(parts)),
        Err(error) => tracing::error!(
            "the slow path cannot start: {error}; this process may have too few files open at once \
             (ulimit -n, LimitNOFILE=)"
        ),
    }
}

async fn serve(parts: SlowPathParts) {
    let stop = Arc::clone(&parts.stop);
    let grace = Duration::from_millis(parts.settings.deadline_ms);
    let (desk, mut inlets) = open(parts);
    let mut idle_since = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let taken = take(&mut inlets, |miss, worker| {
            if let Some(question) = desk.take_in(miss, worker) {
                spawn_local(lead(Rc::clone(&desk), question));
            }
        });
        desk.expire();
        if taken > 0 || !desk.pending.borrow().is_empty() {
            idle_since = Instant::now();
        }
        if taken == 0 {
            // Data cores make no system calls, so nobody can wake this thread: it has to look. Timers
            // would round its naps up to milliseconds. Blocking the runtime's thread is right here, for
            // all it delays are replies and timers of this very thread, and only by a nap.
            std::thread::sleep(nap(idle_since.elapsed()));
        }
        // Lets the other tasks run, and the runtime look at its sockets and timers. One yield is good for
        // some sixty tasks, so questions are finished at least as fast as they are started.
        for _ in 0..=taken / TAKE {
            yield_now().await;
        }
    }
    desk.drain();
    let stopped = Instant::now();
    while !inlets.iter().all(RingReceiver::has_ended) && stopped.elapsed() < grace {
        if take(&mut inlets, |miss, worker| desk.turn_away(miss, worker)) == 0 {
            std::thread::sleep(NAPS.0);
        }
    }
}

/// Asks upstream on behalf of everybody who waits for `question`.
async fn lead(desk: Rc<Desk>, question: Rc<Question>) {
    let mut lead = Lead { desk: &desk, question: &question, outcome: Outcome::Failure };
    lead.outcome = exchange::ask(&desk, &question).await;
}

/// A question's leadership. However the task ends, by its last line, by a panic, by being dropped, this
/// is dropped too, and everybody who waits is answered.
struct Lead<'d> {
    desk: &'d Desk,
    question: &'d Rc<Question>,
    outcome: Outcome,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.desk.settle(self.question, &self.outcome);
    }
}

/// Hands up to [`TAKE`] misses from each ring to `take_in`, with the worker they come from, and says how
/// many there were.
fn take(inlets: &mut [RingReceiver<Miss>], mut take_in: impl FnMut(Miss, usize)) -> usize {
    let mut taken = 0;
    let mut misses: ArrayVec<Miss, TAKE> = ArrayVec::new();
    for (worker, inlet) in inlets.iter_mut().enumerate() {
        taken += inlet.pop_batch(&mut misses, TAKE);
        for miss in misses.drain(..) {
            take_in(miss, worker);
        }
    }
    taken
}

/// How long to nap after having had nothing to do for so long.
fn nap(idle: Duration) -> Duration {
    let seconds = u32::try_from(idle.as_secs()).unwrap_or(u32::MAX);
    NAPS.0.saturating_mul(seconds.saturating_add(1)).min(NAPS.1)
}

fn open(parts: SlowPathParts) -> (Rc<Desk>, Vec<RingReceiver<Miss>>) {
    let settings = &parts.settings;
    // What the settings allow is for all threads together.
    let share = |limit: usize| (limit / settings.threads.max(1)).max(1);
    let limits = Limits {
        questions: share(settings.max_pending),
        waiting: share(settings.max_waiting),
        waiting_per_client: share(settings.max_waiting_per_client),
        deadline: parts.clock.ticks_of(Duration::from_millis(settings.deadline_ms)),
    };
    let timeouts = parts.upstreams.iter().map(|one| Duration::from_millis(one.timeout_ms));
    parts.cache_counters.publish(&parts.writer.stats());
    let desk = Desk {
        cache_counters: parts.cache_counters,
        clock: parts.clock,
        lifetimes: parts.lifetimes,
        health: RefCell::new(Health::new(timeouts)),
        upstreams: parts.upstreams,
        upstream_counters: parts.upstream_counters,
        counters: parts.counters,
        sockets: Sockets::share(settings.threads, limits.questions),
        cache: parts.cache,
        writer: RefCell::new(parts.writer),
        outlets: RefCell::new(Outlets {
            encode: parts.encode,
            pool: parts.pool,
            rings: parts.outlets,
            answers_to: parts.answers_to,
        }),
        pending: RefCell::new(Pending::new(limits)),
        failures: RefCell::default(),
    };
    (Rc::new(desk), parts.inlets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naps_grow_with_idleness_up_to_a_bound() {
        assert_eq!(nap(Duration::ZERO), NAPS.0);
        assert_eq!(nap(Duration::from_millis(999)), NAPS.0);
        assert_eq!(nap(Duration::from_secs(4)), NAPS.0 * 5);
        assert_eq!(nap(Duration::from_secs(3600)), NAPS.1);
        assert_eq!(nap(Duration::MAX), NAPS.1);
    }
}
