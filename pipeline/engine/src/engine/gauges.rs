//! Gauges of a running engine.

use std::sync::Arc;

use pmdns_config::narrow::low_u32;
use pmdns_nics::FramePool;
use pmdns_stages::Tick;
use pmdns_stages::cookie::Calendar;
use pmdns_stages::next_hop::HopTable;

use super::rings::RingGauges;
use crate::clock::Clock;
use crate::counters::Published;
use crate::exceptions::TapCounters;
use crate::rule_names::RuleNames;
use crate::slowpath::{CacheCounters, Counters as SlowPathCounters};
use crate::topology::Topology;
use crate::upstreams::UpstreamsInUse;

/// The gauges of a running engine.
#[derive(Clone)]
pub struct Gauges {
    /// The workers' counters, by worker.
    pub workers: Vec<Arc<Published>>,
    /// The slow path's counters, by thread.
    pub slow_path: Vec<Arc<SlowPathCounters>>,
    /// The cache's counters, by shard.
    pub cache: Vec<Arc<CacheCounters>>,
    /// The upstreams with their counters.
    pub upstreams: UpstreamsInUse,
    /// The TAPs' counters, by port with a TAP.
    pub taps: Arc<[(usize, Arc<TapCounters>)]>,
    /// The rings, with the threads at their ends.
    pub rings: RingGauges,
    /// The next hops of queries that leave by ports.
    pub next_hops: Arc<HopTable>,
    /// The names of lists and views.
    pub names: RuleNames,
    /// The frames.
    pub pool: FramePool,
    /// The clock.
    pub clock: Clock,
    /// The date for cookies.
    pub calendar: Calendar,
}

impl Gauges {
    pub(super) fn new(
        upstreams: UpstreamsInUse,
        topology: &Topology,
        rings: RingGauges,
        next_hops: Arc<HopTable>,
        pool: FramePool,
        clock: Clock,
    ) -> Self {
        let links = (0..topology.workers.len()).map(|worker| topology.links(worker));
        let threads = topology.slow_path_shards;
        let gauges = Self {
            workers: links.map(|links| Arc::new(Published::new(links))).collect(),
            slow_path: (0..threads).map(|_| Arc::default()).collect(),
            cache: (0..threads).map(|_| Arc::default()).collect(),
            upstreams,
            taps: topology.taps.iter().map(|port| (*port, Arc::default())).collect(),
            rings,
            next_hops,
            names: RuleNames::default(),
            pool,
            clock,
            calendar: Calendar::default(),
        };
        gauges.set_calendar();
        gauges
    }

    /// When each worker has published its counters last.
    pub fn published(&self) -> impl Iterator<Item = Tick> {
        self.workers.iter().map(|worker| worker.read().tally.published_ticks)
    }

    /// Corrects the calendar by the system's wall clock. The process's own clock drifts by a few seconds a day. That
    /// would in time invalidate cookies that are shared with other servers.
    pub fn set_calendar(&self) {
        let seconds = self.clock.context(self.clock.now()).seconds;
        // Cookies contain its lower 32 bits (RFC 9018 section 4.3).
        self.calendar.set(low_u32(self.clock.date()), seconds);
    }
}
