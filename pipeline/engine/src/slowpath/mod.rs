//! The slow path: misses are resolved here, on threads of their own, through kernel sockets.
//!
//! ```text
//!  data cores ──rings of misses──► loop ──► pmdns_resolver ──► kernel, port, encrypted, validation ──► upstreams
//!  TX cores   ◄─rings of answers──────────────────┴──► cache writer
//! ```
//!
//! The crate [`pmdns_resolver`] makes the decisions, and does no I/O. This module drives it. Each thread has a resolver
//! for a share of the keys, a shard of the cache to write to, and nothing that another thread touches. Its loop never
//! waits for the network. It takes misses in. It reads sockets ([`kernel`]), the rings of replies over ports ([`port`]), and
//! the reports of the threads beside it ([`encrypted`](crate::encrypted), [`validation`]). Then it calls the resolver, and
//! carries out its outputs.
//! docs/adr/0009-queries-fly-together.md gives the reasons.

mod channels;
mod datagrams;
pub mod descriptor_limit;
mod inlets;
mod kernel;
mod port;
mod random;
mod validation;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::Receiver;
use pmdns_resolver::{Means, NetworkLimits, Output, Resolver, Time};

pub use channels::{JobRequest, job_requests};
pub(crate) use channels::{MAX_BLOCKS, purge};
pub use inlets::{Inlets, burst, send_answers, time};
pub use kernel::{bind, unspecified};
pub(crate) use pmdns_resolver::Block;
#[cfg(fuzzing)]
pub use pmdns_resolver::fuzz_api;
pub use pmdns_resolver::{
    CacheCounters, CacheSnapshot, Counters, CountersSnapshot, OutgoingAnswer, Parts,
    UpstreamCounters, UpstreamSnapshot,
};
pub use port::{Hops, PortDriver, PortParts, Seeker};
pub use random::random;
pub use validation::{AnchorError, Anchors};

use crate::clock::Clock;
use crate::encrypted::{Encrypted, EncryptedUpstreams};
use crate::ring::RingSender;
use crate::threads;
use kernel::Kernel;
use validation::ValidationThread;

/// The most reports of other threads taken in one turn. Misses wait meanwhile.
const MAX_REPORTS: usize = 256;
/// A pause between turns of the end. It is longer than the sleep of an idle data core.
const END_PAUSE: Duration = Duration::from_micros(500);
/// The sleep of a thread without work, and the longest sleep after seconds without work.
const NAPS: (Duration, Duration) = (Duration::from_micros(50), Duration::from_micros(500));

/// The parts of one slow path thread.
pub struct SlowPathParts {
    /// The parts of its resolver.
    pub resolver: Parts,
    /// The encrypted upstreams.
    pub encrypted: Arc<dyn EncryptedUpstreams>,
    /// Its inputs: misses, hits and new rules.
    pub inlets: Inlets,
    /// The driver of queries over ports, if an upstream is asked so.
    pub ports: Option<(PortParts, Hops)>,
    /// Rings to the workers that transmit.
    pub outlets: Vec<RingSender<OutgoingAnswer>>,
    /// The clock with which misses were time-stamped.
    pub clock: Clock,
    /// Orders about its shard of the cache.
    pub requests: Receiver<JobRequest>,
    /// Set when the thread shall end.
    pub stop: Arc<AtomicBool>,
}

/// Resolves misses on the calling thread until `stop` is set.
///
/// Then all waiting clients get SERVFAIL at once, and so do later misses until the workers drop their ends of the
/// rings. It returns when they have done so, or after a client's deadline.
pub fn run(parts: SlowPathParts) {
    let stop = Arc::clone(&parts.stop);
    if let Some(slow_path) = SlowPath::start(parts) {
        slow_path.serve(&stop);
    }
}

/// A resolver with its inputs and drivers, on one thread.
pub struct SlowPath {
    resolver: Resolver,
    kernel: Kernel,
    ports: Option<PortDriver>,
    encrypted: Encrypted,
    validation: ValidationThread,
    clock: Clock,
    inlets: Inlets,
    /// Rings to the workers that transmit, by outlet.
    outlets: Vec<RingSender<OutgoingAnswer>>,
    requests: Receiver<JobRequest>,
    /// When a question was last under way.
    idle_since: Duration,
    /// When the end began.
    ends_since: Option<Duration>,
}

impl SlowPath {
    /// As [`SlowPath::new`]. `None`: it cannot start, and the log says why.
    pub(crate) fn start(parts: SlowPathParts) -> Option<Self> {
        let started = Self::new(parts).inspect_err(|error| {
            tracing::error!(
                "the slow path cannot start: {error}; this process may have too few files open at once \
                 (ulimit -n, LimitNOFILE=)"
            );
        });
        started.ok()
    }

    /// The thread's resolver and drivers, before the first turn. An error is the machine's: it gives no random numbers, no
    /// threads, or no files.
    pub fn new(all: SlowPathParts) -> io::Result<Self> {
        let SlowPathParts {
            resolver: parts,
            encrypted,
            inlets,
            ports,
            outlets,
            clock,
            requests,
            stop: _,
        } = all;
        let (config, trust_anchors) = (&parts.config, parts.trust_anchors.clone());
        let (settings, upstreams) = (&config.slowpath, config.upstreams.len());
        let (shards, now) = (config.slow_path_shards(), time(&clock));
        let encrypted = Encrypted::start(&*encrypted, &parts.roster)?;
        let ports = ports.map(|(parts, hops)| PortDriver::new(parts, hops, upstreams, random()));
        let means = Means {
            time: now,
            ticks: &|duration| clock.ticks_of(duration),
            random: random(),
            outlets: outlets.iter().map(RingSender::capacity).collect(),
            limits: NetworkLimits {
                sockets: descriptor_limit::share(config, shards),
                port_queries: ports.iter().flat_map(|ports| ports.max_queries(shards)).collect(),
            },
        };
        let validation = ValidationThread::start(
            trust_anchors,
            Duration::from_millis(settings.deadline_ms),
            clock,
        )?;
        let resolver = Resolver::new(parts, means)?;
        Ok(Self {
            idle_since: now.now,
            resolver,
            kernel: Kernel::new(random())?,
            ports,
            encrypted,
            validation,
            clock,
            inlets,
            outlets,
            requests,
            ends_since: None,
        })
    }

    /// Takes one turn, and returns how much work there was. [`run`] turns until it is stopped; benches turn by hand.
    pub fn turn(&mut self) -> usize {
        let now = time(&self.clock);
        self.send_answers();
        let Self { inlets, resolver, encrypted, .. } = self;
        inlets.take_rules(now, resolver, |change| encrypted.apply(change));
        let taken = self.inlets.take_misses(now, &mut self.resolver);
        let received = self.receive(now);
        self.send_answers();
        let done = received + self.resolver.turn(now);
        self.carry_out(now);
        self.send_answers();
        if taken > 0 || !self.resolver.is_idle() {
            self.idle_since = now.now;
        }
        taken + done
    }

    fn serve(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            if self.turn() == 0 {
                // Data cores make no system calls, so they cannot wake this thread: it has to poll. Waiting for sockets
                // instead would round the sleep up to milliseconds.
                threads::nap(nap(time(&self.clock).now.saturating_sub(self.idle_since)));
            }
        }
        // The pauses keep the rings of answers from overflowing.
        while !self.end_turn() {
            threads::nap(END_PAUSE);
        }
    }

    /// Whether no question is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.resolver.is_idle()
    }

    /// Takes one turn of the end. Clients get SERVFAIL: those that wait, and those whose misses come until the workers have
    /// ended. `true`: no client waits, and the workers have ended, or a client's deadline has passed meanwhile.
    pub(crate) fn end_turn(&mut self) -> bool {
        let now = time(&self.clock);
        let since = *self.ends_since.get_or_insert(now.now);
        self.send_answers();
        let is_drained = self.resolver.drain(now);
        self.inlets.turn_away(now, &mut self.resolver);
        self.send_answers();
        let is_late = now.now.saturating_sub(since) >= self.resolver.deadline();
        is_drained && (is_late || self.inlets.have_ended())
    }

    /// Passes all input to the resolver. Returns how much there was.
    fn receive(&mut self, now: Time) -> usize {
        let Self { resolver, kernel, ports, encrypted, validation, inlets, requests, .. } = self;
        if resolver.takes_jobs()
            && let Ok(request) = requests.try_recv()
        {
            resolver.begin_job(now, request.into_job());
        }
        let mut received = kernel.receive(now, resolver);
        received += ports.as_mut().map_or(0, |ports| ports.receive(now, resolver));
        received +=
            pass_reports(|| encrypted.receive(), |report| resolver.receive_encrypted(now, report));
        received += pass_reports(
            || validation.receive(),
            |report| resolver.receive_validation(now, report),
        );
        received + inlets.take_hits(now, resolver)
    }

    /// Sends the answers that wait, and tells the resolver for how many more there is room.
    fn send_answers(&mut self) {
        send_answers(&mut self.resolver, &mut self.outlets);
    }

    /// Carries out the resolver's outputs.
    fn carry_out(&mut self, now: Time) {
        let Self { resolver, kernel, ports, encrypted, validation, .. } = self;
        while let Some(output) = resolver.next_output() {
            match output {
                Output::SendBatch { slot, route } => match ports {
                    Some(ports) if route.port.is_some() => {
                        ports.send_batch(now, slot, route, resolver)
                    }
                    _ => kernel.send_batch(now, slot, route, resolver),
                },
                Output::CloseBatch(slot) => {
                    ports.iter_mut().for_each(|ports| ports.close_batch(slot));
                    kernel.close_batch(slot);
                }
                Output::Connect { slot, route } => kernel.connect(now, slot, route, resolver),
                Output::Write(slot) => kernel.write(now, slot, resolver),
                Output::CloseConnection(slot) => kernel.close_connection(slot),
                Output::AskEncrypted(request) => {
                    if let Err(report) = encrypted.ask(request) {
                        resolver.receive_encrypted(now, report);
                    }
                }
                Output::Validate(work) => validation.begin(work),
            }
        }
        ports.iter_mut().for_each(PortDriver::flush);
    }
}

/// Passes the next reports to `receive`, a bounded number of them. Returns how many there were.
fn pass_reports<T>(next: impl FnMut() -> Option<T>, receive: impl FnMut(T)) -> usize {
    std::iter::from_fn(next).take(MAX_REPORTS).map(receive).count()
}

/// How long to sleep after `idle` without work.
fn nap(idle: Duration) -> Duration {
    let seconds = u32::try_from(idle.as_secs()).unwrap_or(u32::MAX);
    NAPS.0.saturating_mul(seconds.saturating_add(1)).min(NAPS.1)
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
