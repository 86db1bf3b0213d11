//! The slow path: misses are resolved here, on threads of their own, through kernel sockets.
//!
//! ```text
//!  data cores ──rings of misses──► loop ──► pmdns_resolver ──► kernel, encrypted, validation ──► upstreams
//!  TX cores   ◄─rings of answers──────────────────┴──► cache writer
//! ```
//!
//! What decides is the crate [`pmdns_resolver`], which does no I/O. Here is what drives it. Each thread has a resolver for a share
//! of the keys, a shard of the cache to write to, and nothing that another thread touches. On it runs one loop, which never
//! waits for the network. It takes misses in, and hears sockets ([`kernel`]) and the threads beside it ([`encrypted`],
//! [`validation`]). Then it lets the resolver go on, and does what that wants done.
//! docs/adr/0009-queries-fly-together.md says why it is so.

mod channels;
mod descriptor_limit;
mod encrypted;
mod inlets;
mod kernel;
mod validation;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::Receiver;
use pmdns_resolver::{Means, Output, Resolver};

pub(crate) use channels::{MAX_BLOCKS, purge};
pub use channels::{Order, orders};
pub use encrypted::{Trust, TrustError};
pub use inlets::{Inlets, time};
pub(crate) use pmdns_resolver::Block;
#[cfg(fuzzing)]
pub use pmdns_resolver::fuzz_api;
pub use pmdns_resolver::{
    Answered, CacheCounters, CacheSnapshot, Counters, CountersSnapshot, Parts, PrefixLengths,
    UpstreamCounters, UpstreamSnapshot,
};
pub use validation::{AnchorError, Anchors};

use crate::clock::Clock;
use crate::ring::RingSender;
use encrypted::EncryptedThread;
use kernel::Kernel;
use validation::ValidationThread;

/// Reports of the threads beside this one taken in one turn; misses wait meanwhile.
const MAX_REPORTS: usize = 256;
/// A pause while draining: longer than an idle data core naps.
const DRAIN_PAUSE: Duration = Duration::from_micros(500);
/// The nap of a thread that finds nothing to do, and the longest one when it has been so for seconds.
const NAPS: (Duration, Duration) = (Duration::from_micros(50), Duration::from_micros(500));

/// What one slow path thread is made of.
pub struct SlowPathParts {
    /// What its resolver is made of.
    pub resolver: Parts,
    /// Whom to trust of the upstreams that are encrypted.
    pub trust: Trust,
    /// What the workers tell it, and where other rules come from.
    pub inlets: Inlets,
    /// Rings to the workers that transmit.
    pub outlets: Vec<RingSender<Answered>>,
    /// The outlet that answers a worker's misses, by worker.
    pub answers_to: Vec<usize>,
    /// The clock the misses' arrival was read from.
    pub clock: Clock,
    /// What the thread is told to do with its shard of the cache.
    pub orders: Receiver<Order>,
    /// Set when the thread shall end.
    pub stop: Arc<AtomicBool>,
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
    resolver: Resolver,
    kernel: Kernel,
    encrypted: EncryptedThread,
    validation: ValidationThread,
    clock: Clock,
    inlets: Inlets,
    orders: Receiver<Order>,
}

impl SlowPath {
    fn serve(mut self, stop: &AtomicBool) {
        let mut idle_since = self.resolver.now();
        while !stop.load(Ordering::Relaxed) {
            self.read_clock();
            let taken = self.inlets.take_misses(&mut self.resolver);
            let heard = self.hear();
            let done = heard + self.resolver.turn();
            self.carry_out();
            if taken > 0 || !self.resolver.is_idle() {
                idle_since = self.resolver.now();
            }
            if taken + done == 0 {
                // Data cores make no system calls, so nobody can wake this thread: it has to look. Waiting
                // for sockets instead would round its naps up to milliseconds.
                std::thread::sleep(nap(self.resolver.now().saturating_sub(idle_since)));
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
        let stopped = self.resolver.now();
        while !self.inlets.have_ended()
            && self.resolver.now().saturating_sub(stopped) < self.resolver.deadline()
        {
            self.read_clock();
            if self.inlets.turn_away(&mut self.resolver) == 0 {
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
        let Self { resolver, kernel, encrypted, validation, inlets, orders, .. } = self;
        if resolver.takes_jobs()
            && let Ok(order) = orders.try_recv()
        {
            resolver.begin_job(order.into_job());
        }
        let mut heard = kernel.hear(resolver);
        heard += tell(|| encrypted.hear(), |report| resolver.hear_encrypted(report));
        heard += tell(|| validation.hear(), |report| resolver.hear_validation(report));
        heard + inlets.take_hits(resolver)
    }

    /// Does what the resolver wants done.
    fn carry_out(&mut self) {
        let Self { resolver, kernel, encrypted, validation, .. } = self;
        while let Some(output) = resolver.next_output() {
            match output {
                Output::SendBatch(slot) => kernel.send_batch(slot, resolver),
                Output::CloseBatch(slot) => kernel.close_batch(slot),
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

/// Hands the next reports to `hear`, a bounded number of them, and says how many there were.
fn tell<T>(next: impl FnMut() -> Option<T>, hear: impl FnMut(T)) -> usize {
    std::iter::from_fn(next).take(MAX_REPORTS).map(hear).count()
}

/// How long to nap after having had nothing to do for so long.
fn nap(idle: Duration) -> Duration {
    let seconds = u32::try_from(idle.as_secs()).unwrap_or(u32::MAX);
    NAPS.0.saturating_mul(seconds.saturating_add(1)).min(NAPS.1)
}

fn open(all: SlowPathParts) -> io::Result<SlowPath> {
    let SlowPathParts {
        resolver: parts,
        trust,
        inlets,
        mut outlets,
        answers_to,
        clock,
        orders,
        stop: _,
    } = all;
    let (config, trust_anchors) = (&parts.config, parts.trust_anchors.clone());
    let settings = &config.slowpath;
    let encrypted = EncryptedThread::start(
        &config.upstreams,
        &settings.bootstrap,
        &trust,
        &parts.upstream_counters,
    )?;
    let means = Means {
        time: time(&clock),
        ticks: &|duration| clock.ticks_of(duration),
        random: kernel::random(),
        deliver: Box::new(move |worker, answer| outlets[answers_to[worker]].push(answer)),
        max_sockets: descriptor_limit::share(settings),
    };
    let validation =
        ValidationThread::start(trust_anchors, Duration::from_millis(settings.deadline_ms))?;
    Ok(SlowPath {
        resolver: Resolver::new(parts, means)?,
        kernel: Kernel::new(kernel::random())?,
        encrypted,
        validation,
        clock,
        inlets,
        orders,
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
