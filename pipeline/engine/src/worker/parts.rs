//! The parts that a worker is made of.

use std::sync::Arc;

use pmdns_nics::{Frame, FramePool, RxQueue, TxQueue};
use pmdns_stages::Packet;
use pmdns_stages::cache::{Cache, Hit};
use pmdns_stages::miss::Miss;
use pmdns_stages::ratelimit::ClientPrefixes;
use pmdns_stages::zone_limits::ZoneLimits;

use crate::clock::Clock;
use crate::counters::Published;
use crate::exceptions::KernelOutlets;
use crate::line::Line;
use crate::observe::Observers;
use crate::ports::AllPortNews;
use crate::ring::{RingReceiver, RingSender};
use crate::rules::{LineRules, RulesInbox};
use crate::slowpath::Answered;

/// The parts of a worker.
pub struct WorkerParts {
    /// The stretch of the line it runs.
    pub line: Line,
    /// Frames it takes at a time.
    pub batch: usize,
    /// RX queues it polls.
    pub receivers: Vec<Box<dyn RxQueue>>,
    /// Rings it takes packets from.
    pub rings_in: Vec<RingReceiver<Packet>>,
    /// TX queues by port number; empty if it does not transmit.
    pub transmitters: Vec<Box<dyn TxQueue>>,
    /// Rings to the next stretch, by shard.
    pub rings_out: Vec<RingSender<Packet>>,
    /// Rings to the slow path, by cache shard.
    pub misses: Vec<RingSender<Miss>>,
    /// The client prefixes that share these rings.
    pub prefixes: ClientPrefixes,
    /// Rings for notes of hits, by cache shard; empty if hits are not reported.
    pub hits: Vec<RingSender<Hit>>,
    /// Rings from the slow path.
    pub answers: Vec<RingReceiver<Answered>>,
    /// Rings of queries from the slow path that leave by ports.
    pub queries: Vec<RingReceiver<Frame>>,
    /// Rings to the slow path for what comes for these queries, by thread.
    pub replies: Vec<RingSender<Packet>>,
    /// Rings to the TAPs for exceptions.
    pub to_kernel: KernelOutlets,
    /// Rings of frames that the kernel sends by the TAPs.
    pub from_kernel: Vec<RingReceiver<Frame>>,
    /// The ring of health checks' queries, if it polls ports.
    pub probes: Option<RingReceiver<Frame>>,
    /// The cache, which knows the shard of each key.
    pub cache: Arc<Cache>,
    /// Where new rules come from.
    pub rules: RulesInbox<LineRules>,
    /// Where other limits of zones come from.
    pub zone_limits: RulesInbox<Arc<ZoneLimits>>,
    /// Those that see packets leave stations.
    pub observers: Observers,
    /// The news of the ports.
    pub news: AllPortNews,
    /// Whether it announces addresses when a link comes up.
    pub announces: bool,
    /// Where frames for announcements come from.
    pub pool: FramePool,
    /// The clock.
    pub clock: Clock,
    /// Where the counters are published.
    pub published: Arc<Published>,
}
