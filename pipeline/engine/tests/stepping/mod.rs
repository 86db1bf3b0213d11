//! A rig for tests: a whole pmdns in one thread, whose time stands still until the test lets it go on.
//!
//! ```text
//!  frames in ──► port ──► workers ──► rings ──► resolvers ──► Network: the test's own upstreams
//!  frames out ◄───┘            cache, rules, validation
//! ```
//!
//! The engine, its rings, its cache and its resolvers are the real ones. The test turns each worker and each thread of
//! the slow path by hand, and its [`Network`] stands in for the kernel's sockets. Chance comes from one seed. So the
//! same calls give the same run, byte for byte. [`Stepping::new`] is the one place that knows how the line is put
//! together.

pub(crate) mod link;
mod network;
pub(crate) mod port_wire;
mod slow_path;

use std::time::Duration;

use pmdns_config::Config;
use pmdns_counters::Totals;
use pmdns_engine::clock::{Clock, FIRST_SECOND, SteppedTime};
use pmdns_engine::data_core::{Shift, end_turn};
use pmdns_engine::slowpath::CountersSnapshot;
use pmdns_engine::testing::Rig;
use pmdns_engine::worker::{Turn, Worker};
use pmdns_hierarchy::Rng;
use pmdns_nics::{Burst, Frame, MAX_BURST};
use pmdns_stages::wire::name::Seed;

use link::{Link, Taken};
pub(crate) use network::{Arrival, Bytes, Network, Socket, Transport};
use slow_path::AtWork;
pub(crate) use slow_path::SlowPath;

/// A date, in seconds since 1970: when the test hierarchy's signatures are good.
pub(crate) const DATE: u32 = pmdns_hierarchy::NOW;

/// What a rig is like apart from its configuration.
pub(crate) struct Setup {
    /// Where hashes, ids, ports and letters come from.
    pub(crate) seed: u64,
    /// Frames in the pool.
    pub(crate) frames: usize,
    /// Sockets that a thread of the slow path may have open.
    pub(crate) sockets: usize,
    /// Queries over a port that such a thread may have under way, if it has UDP ports for as many.
    pub(crate) port_queries: usize,
    /// The date at the start, in seconds since 1970.
    pub(crate) date: u32,
}

/// A pmdns that is turned by hand.
pub(crate) struct Stepping {
    /// The engine: its workers, its counters, and what its rules are lent by.
    pub(crate) rig: Rig,
    /// The threads of the slow path.
    pub(crate) slow_path: Vec<SlowPath>,
    /// The far end of the port, if upstreams are asked over it.
    pub(crate) link: Option<Link>,
    /// The time.
    pub(crate) time: SteppedTime,
    /// If its cores resolve: how each divides its time.
    shifts: Vec<Shift>,
    clock: Clock,
    seed: Seed,
}

impl Stepping {
    /// Builds one for a configuration.
    pub(crate) fn new(config: &Config, setup: &Setup) -> Self {
        let mut chance = Rng::new(setup.seed);
        let mut bytes = [0; 16];
        chance.fill(&mut bytes);
        let time = SteppedTime::since(setup.date);
        let clock = Clock::stepped(time).with_first_second(FIRST_SECOND);
        let seed = Seed::new(bytes);
        let mut rig = Rig::of(config, clock, seed, setup.frames);
        let queues = rig.topology.workers.iter().filter(|worker| worker.rx_queue.is_some()).count();
        let parts = rig.slow_path.drain(..).enumerate();
        let slow_path: Vec<SlowPath> = parts
            .map(|(number, parts)| SlowPath::new(number, parts, Rng::new(chance.number()), setup))
            .collect();
        let wire = slow_path.first().and_then(|thread| thread.port.as_ref());
        let link = wire.map(|wire| Link::new(wire, queues));
        let resolving = config.placements.iter().filter(|placement| placement.resolver);
        let cores = resolving.flat_map(|placement| &placement.cores);
        let shifts = cores.map(|_| Shift::new(clock)).collect();
        Self { rig, slow_path, link, time, shifts, clock, seed }
    }

    /// How far the time has come.
    pub(crate) fn now(&self) -> Duration {
        self.time.now()
    }

    /// Puts a frame into a receive queue of the port, as the wire would. `false`: the queue or the pool has no room for it.
    pub(crate) fn offer(&mut self, queue: usize, bytes: &[u8]) -> bool {
        let Some(mut frame) = self.rig.pool.take() else { return false };
        frame.resize(bytes.len()).expect("it fits a frame");
        frame.bytes_mut().copy_from_slice(bytes);
        let mut burst: Burst = std::iter::once(frame).collect();
        self.rig.far.tx[queue].transmit(&mut burst) == 1
    }

    /// How many threads it has: the workers, and those of the slow path behind them, unless the cores resolve.
    pub(crate) fn threads(&self) -> usize {
        let own = if self.shifts.is_empty() { self.slow_path.len() } else { 0 };
        self.rig.workers.len() + own
    }

    /// Whether a thread works on misses.
    pub(crate) fn resolves(&self, thread: usize) -> bool {
        thread >= self.rig.workers.len() || !self.shifts.is_empty()
    }

    /// Takes one turn of a thread of the slow path, or up to `most` turns of a core, until it finds nothing to do.
    pub(crate) fn turn(&mut self, thread: usize, most: usize, network: &mut dyn Network) {
        let Self { rig, slow_path, shifts, clock, .. } = self;
        if let Some(thread) = thread.checked_sub(rig.workers.len()) {
            slow_path[thread].turn(clock, network);
            return;
        }
        let worker = &mut rig.workers[thread];
        for _ in 0..most {
            let turn = match shifts.get_mut(thread) {
                None => worker.turn(),
                Some(shift) => {
                    let slow_path = &mut slow_path[thread];
                    shift.turn(worker, &mut AtWork { slow_path, clock, network: &mut *network })
                }
            };
            if turn == Turn::Idle {
                return;
            }
        }
    }

    /// Tells the threads of the slow path what has arrived.
    pub(crate) fn receive(&mut self, network: &mut dyn Network) {
        while let Some(arrival) = network.arrival(self.time.now()) {
            let thread = &mut self.slow_path[arrival.thread];
            match thread.frame_of(&arrival).filter(|_| self.link.is_some()) {
                Some((frame, left_by)) => {
                    let frame = frame.iter();
                    frame.for_each(|frame| self.feed(frame, left_by));
                }
                None => thread.receive(arrival, &self.clock, network),
            }
        }
    }

    /// A frame comes from the far end of the link; it has to do with a query that left by this queue.
    pub(crate) fn feed(&mut self, frame: &[u8], left_by: usize) {
        let queue = self.link.as_mut().map(|link| link.queue_of(frame, left_by));
        let is_in = queue.is_some_and(|queue| self.offer(queue, frame));
        self.link.iter_mut().for_each(|link| link.fed += u64::from(is_in));
    }

    /// What the cache hashes with.
    pub(crate) fn seed(&self) -> Seed {
        self.seed
    }

    /// Stops everything as the engine does: ports first, then what they feed, in the order of the line. `false`: something has not
    /// ended in so many turns.
    pub(crate) fn stop(&mut self, turns: usize, network: &mut dyn Network) -> bool {
        self.rig.workers.iter_mut().for_each(Worker::close_ports);
        match self.shifts.is_empty() {
            true => self.stop_threads(turns, network),
            false => self.stop_cores(turns, network),
        }
    }

    fn stop_threads(&mut self, turns: usize, network: &mut dyn Network) -> bool {
        for _ in 0..turns {
            for worker in &mut self.rig.workers {
                worker.turn();
            }
            // Each has to look whether it has.
            let workers = self.rig.workers.iter_mut();
            let left = workers.map(Worker::has_ended).filter(|has_ended| !has_ended).count();
            self.slow_path.retain_mut(|thread| {
                let is_drained = thread.drain(network, &self.clock);
                !(is_drained && thread.has_ended())
            });
            if left == 0 {
                return self.slow_path.is_empty();
            }
        }
        false
    }

    fn stop_cores(&mut self, turns: usize, network: &mut dyn Network) -> bool {
        let Self { rig, slow_path, clock, .. } = self;
        let mut shards: Vec<_> = slow_path.drain(..).map(Some).collect();
        (0..turns).any(|_| {
            let cores = rig.workers.iter_mut().zip(&mut shards);
            let left = cores.filter_map(|(worker, shard)| {
                let mut at_work = shard.as_mut().map(|slow_path| AtWork {
                    slow_path,
                    clock,
                    network: &mut *network,
                });
                let has_ended = end_turn(worker, &mut at_work);
                if at_work.is_none() {
                    *shard = None;
                }
                (!has_ended).then_some(())
            });
            left.count() == 0
        })
    }

    /// Takes every frame that was sent to a client. Queries to upstreams and for next hops go to the far end of the link.
    pub(crate) fn sent(&mut self, network: &mut dyn Network) -> Vec<Frame> {
        let (mut frames, mut answers) = (Vec::new(), Vec::new());
        for (number, queue) in self.rig.far.rx.iter_mut().enumerate() {
            let mut burst = Burst::new();
            while queue.receive(&mut burst, MAX_BURST) > 0 {
                for frame in burst.drain(..) {
                    let Some(link) = &mut self.link else {
                        frames.push(frame);
                        continue;
                    };
                    match link.take(frame.bytes(), number) {
                        Taken::NotOurs => frames.push(frame),
                        Taken::OutgoingAnswer(answer) => answers.push((answer, number)),
                        Taken::Query(owner, asked) => {
                            if let Some(thread) = self.slow_path.get_mut(usize::from(owner.thread))
                            {
                                thread.reach(owner.slot as usize, asked, network);
                            }
                        }
                        Taken::Lost => {}
                    }
                }
            }
        }
        answers.iter().for_each(|(answer, left_by)| self.feed(answer, *left_by));
        frames
    }

    /// The sums over all workers.
    pub(crate) fn totals(&self) -> Totals {
        let counters: Vec<_> = self.rig.workers.iter().map(|worker| worker.counters()).collect();
        pmdns_engine::counters::totals(&counters)
    }

    /// What each thread of the slow path has counted.
    pub(crate) fn counters(&self) -> impl Iterator<Item = CountersSnapshot> {
        self.rig.gauges.slow_path.iter().map(|counters| counters.snapshot())
    }
}
