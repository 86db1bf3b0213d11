//! The slow path: misses are resolved here, on threads of their own, through kernel sockets.
//!
//! ```text
//!  data cores ──rings of misses──► desk ──► pending table ──plan──► exchange ──► upstreams
//!  TX cores   ◄─rings of answers── outlets ◄──everybody who waits──┘     └──► cache writer
//! ```
//!
//! Each thread owns a share of the keys, a shard of the cache to write to, and nothing that another
//! thread touches. On it runs one loop, which never waits for the network: [`Desk`] takes misses in and
//! answers them, [`exchange`] and [`calls`] carry out what the plans say, [`reading`] judges replies, [`network`] holds sockets and timers. What
//! decides is pure and told the time: [`pending`], [`groups`], [`plan`], [`health`], [`failures`], [`subnets`], [`query`], [`retry`], [`spelling`], [`cookies`],
//! [`capabilities`], [`variants`], [`shares`], [`quota`], [`round_robin`], [`refusals`]. What
//! touches sockets is small: [`udp`], [`tcp`]; [`encrypted`] has a thread of its own, and so has [`dnssec`].
//! docs/adr/0009-queries-fly-together.md says why it is so.
//!
//! Three promises, whatever the upstreams do: a client that is admitted is answered by its deadline or
//! counted; memory is bounded by the settings; once an upstream answers again, so do we.

mod aliases;
mod calls;
mod capabilities;
mod channels;
mod cookies;
pub(crate) mod counters;
mod desk;
mod dnssec;
#[cfg(fuzzing)]
pub mod door;
mod encrypted;
mod exchange;
mod failures;
mod fallback;
mod groups;
mod health;
mod kernel;
mod lists;
mod network;
mod nxdomain;
#[cfg(test)]
mod odds;
mod orders;
mod outlets;
mod output;
mod pending;
mod plan;
mod prefetch;
mod prefixes;
mod query;
mod quota;
mod random;
mod reading;
mod refusals;
mod retry;
mod round_robin;
mod shares;
mod shedding;
mod sockets;
mod spelling;
mod stale;
mod subnets;
mod tcp;
mod udp;
mod variants;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrayvec::ArrayVec;
use crossbeam_channel::Receiver;
use pmdns_config::{
    Forward, Group, Health as HealthSettings, SlowPath as Settings, Upstream, View,
};
use pmdns_nics::FramePool;
use pmdns_stages::cache::{Cache, Hit, Lifetimes, Writer};
use pmdns_stages::encode::Encode;
use pmdns_stages::miss::Miss;
use pmdns_stages::policy::Ruleset;

pub(crate) use channels::{MAX_BLOCKS, purge};
pub use channels::{Order, orders};
pub use counters::{
    CacheCounters, CacheSnapshot, Counters, CountersSnapshot, UpstreamCounters, UpstreamSnapshot,
};
pub use dnssec::{AnchorError, Anchors};
pub use encrypted::{Trust, TrustError};
pub(crate) use orders::Block;
pub use outlets::Answered;
pub use prefixes::PrefixLengths;

use crate::clock::Clock;
use crate::ring::{RingReceiver, RingSender};
use crate::rules::Tray;
use aliases::Leads;
use capabilities::Capabilities;
use cookies::Bakery;
use desk::{Desk, Time};
use dnssec::{Validation, ValidationThread};
use encrypted::{Encrypted, EncryptedThread};
use failures::Failures;
use groups::Groups;
use health::Health;
use kernel::Kernel;
use network::Network;
use orders::Orders;
use outlets::Outlets;
use output::Output;
use pending::{Limits, Pending};
use prefetch::Prefetch;
use random::Random;
use refusals::Refusals;
use retry::RetryTimeout;
use stale::Stale;
use subnets::Subnets;
use variants::Variants;

/// Misses taken from one ring before the next ring's turn.
const MAX_MISSES: usize = 32;
/// Notes of hits taken from one ring in a turn.
const MAX_NOTES: usize = 256;
/// Reports of the threads beside this one taken in one turn; misses wait meanwhile.
const MAX_REPORTS: usize = 256;
/// A pause while draining: longer than an idle data core naps.
const DRAIN_PAUSE: Duration = Duration::from_micros(500);
/// How long a failure is remembered: as long as RFC 9520 section 3.2 demands and no longer, so that
/// clients notice the end of an outage within a second.
const FAILURE_LIFETIME: Duration = Duration::from_secs(1);
/// One place of the pending table in so many is kept for questions that no client waits for, where there are any.
const KEPT: usize = 8;
/// The nap of a thread that finds nothing to do, and the longest one when it has been so for seconds.
const NAPS: (Duration, Duration) = (Duration::from_micros(50), Duration::from_micros(500));

/// What one slow path thread is made of.
pub struct SlowPathParts {
    /// Limits and the clients' deadline.
    pub settings: Settings,
    /// Whom to ask, in the operator's order.
    pub upstreams: Vec<Upstream>,
    /// Whom to trust of those that are encrypted.
    pub trust: Trust,
    /// What replies are validated by; none: they are not.
    pub anchors: Option<Anchors>,
    /// How groups of them are asked.
    pub groups: Vec<Group>,
    /// Which group is asked for which names.
    pub forwards: Vec<Forward>,
    /// Which clients have others.
    pub views: Vec<View>,
    /// When an upstream rests, and when it is back.
    pub health: HealthSettings,
    /// Which clients share what is bounded.
    pub prefixes: PrefixLengths,
    /// What upstreams are told of clients' networks.
    pub client_subnet: pmdns_config::ClientSubnet,
    /// How long answers are kept.
    pub lifetimes: Lifetimes,
    /// What becomes of them then.
    pub keeping: pmdns_config::Cache,
    /// Which answers are asked for again before they expire.
    pub prefetch: pmdns_config::Prefetch,
    /// Rings of misses, by worker.
    pub inlets: Vec<RingReceiver<Miss>>,
    /// Rings of notes of hits, if the workers take any.
    pub hits: Vec<RingReceiver<Hit>>,
    /// Rings to the workers that transmit.
    pub outlets: Vec<RingSender<Answered>>,
    /// The outlet that answers a worker's misses, by worker.
    pub answers_to: Vec<usize>,
    /// The cache, to look again before asking.
    pub cache: Arc<Cache>,
    /// Writes to this thread's shard of the cache.
    pub writer: Writer,
    /// Writes the answers.
    pub encode: Encode,
    /// Where other rules for `encode` come from.
    pub rules: Tray<Arc<Ruleset>>,
    /// Gives the frames for them.
    pub pool: FramePool,
    /// The clock the misses' arrival was read from.
    pub clock: Clock,
    /// What the thread is told to do with its shard of the cache.
    pub orders: Receiver<Order>,
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
    let stop = Arc::clone(&parts.stop);
    match open(parts) {
        Ok(slow_path) => slow_path.serve(&stop),
        Err(error) => tracing::error!(
            "the slow path cannot start: {error}; this process may have too few files open at once \
             (ulimit -n, LimitNOFILE=)"
        ),
    }
}

/// A resolver and all that it is told by, on one thread.
struct SlowPath {
    resolver: Desk,
    kernel: Kernel,
    encrypted: EncryptedThread,
    validation: ValidationThread,
    clock: Clock,
    misses: Vec<RingReceiver<Miss>>,
    hits: Vec<RingReceiver<Hit>>,
    rules: Tray<Arc<Ruleset>>,
    orders: Receiver<Order>,
}

impl SlowPath {
    fn serve(mut self, stop: &AtomicBool) {
        let mut idle_since = self.resolver.now;
        while !stop.load(Ordering::Relaxed) {
            self.read_clock();
            let Self { resolver, rules, misses, .. } = &mut self;
            rules.look(|rules| resolver.exchange_rules(rules));
            let taken =
                take::<_, MAX_MISSES>(misses, |miss, worker| resolver.take_in(miss, worker));
            let heard = self.hear();
            let done = heard + self.resolver.turn();
            self.carry_out();
            if taken > 0 || !self.resolver.pending.is_empty() {
                idle_since = self.resolver.now;
            }
            if taken + done == 0 {
                // Data cores make no system calls, so nobody can wake this thread: it has to look. Waiting
                // for sockets instead would round its naps up to milliseconds.
                std::thread::sleep(nap(self.resolver.now.saturating_sub(idle_since)));
            }
        }
        self.end();
    }

    /// Answers everybody with SERVFAIL: those who wait, and those whose misses come until the workers have ended.
    fn end(mut self) {
        // It pauses now and then, so that the rings of answers do not overflow.
        while !self.resolver.drain() {
            std::thread::sleep(DRAIN_PAUSE);
        }
        let stopped = self.resolver.now;
        while !self.misses.iter().all(RingReceiver::has_ended)
            && self.resolver.now.saturating_sub(stopped) < self.resolver.deadline
        {
            self.read_clock();
            let Self { resolver, misses, .. } = &mut self;
            if take::<_, MAX_MISSES>(misses, |miss, worker| resolver.turn_away(miss, worker)) == 0 {
                std::thread::sleep(NAPS.0);
            }
        }
    }

    /// Reads the clock: once a turn, for all that happens in it.
    fn read_clock(&mut self) {
        self.resolver.set_time(time(&self.clock));
    }

    /// Tells the resolver what has come, and says how much that was.
    fn hear(&mut self) -> usize {
        let Self { resolver, kernel, encrypted, validation, hits, orders, .. } = self;
        if resolver.takes_jobs()
            && let Ok(order) = orders.try_recv()
        {
            resolver.begin_job(order.into_job());
        }
        let mut heard = kernel.hear(resolver);
        heard += std::iter::from_fn(|| encrypted.hear())
            .take(MAX_REPORTS)
            .map(|report| resolver.hear_encrypted(report))
            .count();
        heard += std::iter::from_fn(|| validation.hear())
            .take(MAX_REPORTS)
            .map(|report| resolver.hear_validation(report))
            .count();
        heard + take::<_, MAX_NOTES>(hits, |hit, _| resolver.credit(hit))
    }

    /// Does what the resolver wants done.
    fn carry_out(&mut self) {
        let Self { resolver, kernel, encrypted, validation, .. } = self;
        while let Some(output) = resolver.next_output() {
            match output {
                Output::SendFlight(slot) => kernel.send_flight(slot, resolver),
                Output::CloseFlight(slot) => kernel.close_flight(slot),
                Output::Connect(slot) => kernel.connect(slot, resolver),
                Output::Write(slot) => kernel.write(slot, resolver),
                Output::CloseConnection(slot) => kernel.close_connection(slot),
                Output::AskEncrypted(request) => {
                    if let Err(report) = encrypted.ask(request) {
                        resolver.hear_encrypted(report);
                    }
                }
                Output::Validate(work) => validation.begin(work),
            }
        }
    }
}

/// The time now.
fn time(clock: &Clock) -> Time {
    let now = clock.now();
    Time { context: clock.context(now), now: clock.duration_of(now) }
}

/// Hands up to so many values from each ring to `take_in`, with the worker they come from, and says how
/// many there were.
fn take<T, const MOST: usize>(
    rings: &mut [RingReceiver<T>],
    mut take_in: impl FnMut(T, usize),
) -> usize {
    let mut taken = 0;
    let mut values: ArrayVec<T, MOST> = ArrayVec::new();
    for (worker, ring) in rings.iter_mut().enumerate() {
        taken += ring.pop_batch(&mut values, MOST);
        if !values.is_empty() {
            ring.publish();
        }
        for value in values.drain(..) {
            take_in(value, worker);
        }
    }
    taken
}

/// How long to nap after having had nothing to do for so long.
fn nap(idle: Duration) -> Duration {
    let seconds = u32::try_from(idle.as_secs()).unwrap_or(u32::MAX);
    NAPS.0.saturating_mul(seconds.saturating_add(1)).min(NAPS.1)
}

fn open(parts: SlowPathParts) -> io::Result<SlowPath> {
    let settings = &parts.settings;
    // What the settings allow is for all threads together.
    let share = |limit: usize| (limit / settings.threads.max(1)).max(1);
    let deadline = Duration::from_millis(settings.deadline_ms);
    let asks_for_itself = parts.anchors.is_some() || parts.prefetch.enabled;
    let limits = Limits {
        questions: share(settings.max_pending),
        kept: if asks_for_itself { share(settings.max_pending) / KEPT } else { 0 },
        waiting: share(settings.max_waiting),
        waiting_per_client: share(settings.max_waiting_per_client),
        prefixes: parts.prefixes,
    };
    let groups = Groups::new(&parts.upstreams, &parts.groups, &parts.forwards, &parts.views);
    parts.cache_counters.publish(&parts.writer.stats());
    let Time { context, now } = time(&parts.clock);
    let retries = parts
        .upstreams
        .iter()
        .map(|one| RetryTimeout::new(Duration::from_millis(one.timeout_ms), deadline));
    let encrypted = EncryptedThread::start(
        &parts.upstreams,
        &settings.bootstrap,
        &parts.trust,
        &parts.upstream_counters,
    )?;
    let trust = parts.anchors.map(|anchors| anchors.trust().clone());
    let (mut rings, answers_to) = (parts.outlets, parts.answers_to);
    let mut random = Random::of_the_system();
    let resolver = Desk {
        context,
        now,
        stale: Stale::new(&parts.keeping, |duration| parts.clock.ticks_of(duration), deadline),
        nxdomain_cut: parts.keeping.nxdomain_cut,
        client_patience: parts.clock.ticks_of(deadline),
        deadline,
        queries_per_port: settings.queries_per_port,
        lifetimes: parts.lifetimes,
        groups: groups.map_err(io::Error::other)?,
        health: Health::new(&parts.health, retries),
        probe_timeout: Duration::from_millis(parts.health.timeout_ms),
        capabilities: parts.upstreams.iter().map(|one| Capabilities::new(one.mix_case)).collect(),
        bakery: Bakery::new(random.bytes()?),
        variants: Variants::default(),
        network: Network::new(parts.upstreams.len(), sockets::share(settings)),
        random,
        encrypted: Encrypted::new(parts.upstreams.len()),
        validation: Validation::new(trust.clone()),
        upstreams: parts.upstreams,
        upstream_counters: parts.upstream_counters,
        cache_counters: parts.cache_counters,
        subnets: Subnets::new(parts.client_subnet, settings.threads, parts.cache.seed()),
        cache: parts.cache,
        writer: parts.writer,
        outlets: Outlets {
            encode: parts.encode,
            pool: parts.pool,
            deliver: Box::new(move |worker, answer| rings[answers_to[worker]].push(answer)),
            counters: Arc::clone(&parts.counters),
        },
        counters: parts.counters,
        pending: Pending::new(limits),
        prefixes: parts.prefixes,
        refusals: Refusals::default(),
        failures: Failures::new(FAILURE_LIFETIME),
        orders: Orders::default(),
        prefetch: Prefetch::new(parts.prefetch, settings.threads),
        leads: Leads::default(),
    };
    Ok(SlowPath {
        resolver,
        kernel: Kernel::new(Random::of_the_system())?,
        encrypted,
        validation: ValidationThread::start(trust, deadline)?,
        clock: parts.clock,
        misses: parts.inlets,
        hits: parts.hits,
        rules: parts.rules,
        orders: parts.orders,
    })
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
