//! A worker: one data core's poll loop, turn by turn.
//!
//! A turn takes a batch from each inlet (an RX queue or a ring) and takes it down the core's stretch of the line. Then
//! every packet goes to its ring or queue. Nothing here allocates, locks, logs or waits. If a ring or queue is full,
//! the newest packet is dropped and counted.

use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use pmdns_config::Idle;
use pmdns_nics::{Burst, Frame, FramePool, MAX_BURST, Sleeper, release};
use pmdns_resolver::Origin;
use pmdns_stages::cache::{Cache, Hit};
use pmdns_stages::zone_limits::ZoneLimits;
use pmdns_stages::{Batch, Context, Packet, Step, Tick};

use crate::answers::Answers;
use crate::clock::Clock;
use crate::counters::{Counters, Ends, Flow, Published, Tally};
use crate::exceptions::KernelOutlets;
use crate::inlet::Inlet;
use crate::latency::{Class, Latency};
use crate::line::Line;
use crate::miss_rings::MissRings;
use crate::observe::{Observers, Sent};
use crate::ports::AllPortNews;
use crate::reply_rings::ReplyRings;
use crate::ring::{RingReceiver, RingSender};
use crate::rules::{LineRules, RulesInbox};
use crate::shard::shard_of;
use crate::slowpath::Answered;
use crate::station::Lap;
use crate::threads;
use crate::transmitter::{self, Transmitter};

mod parts;
mod upkeep;

pub use self::parts::WorkerParts;

/// How often a worker publishes its counters and looks for new rules.
const HOUSEKEEPING: Duration = Duration::from_millis(10);

/// Everything one data core owns.
pub struct Worker {
    inlets: Vec<Inlet>,
    line: Line,
    batch: Batch,
    limit: usize,
    transmitters: Vec<Transmitter>,
    rings_out: Vec<Outlet>,
    misses: MissRings,
    hits: Vec<RingSender<Hit>>,
    answers: Vec<RingReceiver<Answered>>,
    queries: Vec<RingReceiver<Frame>>,
    replies: ReplyRings,
    to_kernel: KernelOutlets,
    from_kernel: Vec<RingReceiver<Frame>>,
    probes: Option<RingReceiver<Frame>>,
    cache: Arc<Cache>,
    rules: RulesInbox<LineRules>,
    zone_limits: RulesInbox<Arc<ZoneLimits>>,
    observers: Observers,
    news: AllPortNews,
    /// Link changes announced so far, by port; `None`: another core announces.
    announced: Option<Vec<u32>>,
    pool: FramePool,
    clock: Clock,
    tally: Tally,
    ends: Ends,
    latency: Latency,
    sent: Answers,
    published: Arc<Published>,
    next_housekeeping: Tick,
}

/// A ring to another worker, and the packets to be sent this turn.
struct Outlet {
    ring: RingSender<Packet>,
    staged: Batch,
    flow: Flow,
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It found packets.
    Busy,
    /// It found none.
    Idle,
}

impl Worker {
    /// A worker that has not turned yet.
    pub fn new(parts: WorkerParts) -> Self {
        let flow = Flow::default();
        let ports = parts.receivers.into_iter().map(Inlet::port);
        let rings = parts.rings_in.into_iter().map(Inlet::ring);
        let transmitters = parts.transmitters.into_iter();
        let outlets = parts.rings_out.into_iter();
        Self {
            inlets: ports.chain(rings).collect(),
            line: parts.line,
            batch: Batch::new(),
            limit: parts.batch,
            transmitters: transmitters.map(Transmitter::new).collect(),
            rings_out: outlets.map(|ring| Outlet { ring, staged: Batch::new(), flow }).collect(),
            misses: MissRings::new(parts.misses, parts.prefixes),
            hits: parts.hits,
            answers: parts.answers,
            queries: parts.queries,
            replies: ReplyRings::new(parts.replies),
            to_kernel: parts.to_kernel,
            from_kernel: parts.from_kernel,
            probes: parts.probes,
            cache: parts.cache,
            rules: parts.rules,
            zone_limits: parts.zone_limits,
            observers: parts.observers,
            announced: parts.announces.then(|| vec![0; parts.news.len()]),
            news: parts.news,
            pool: parts.pool,
            clock: parts.clock,
            tally: Tally::default(),
            ends: Ends::default(),
            latency: Latency::default(),
            sent: Answers::default(),
            published: parts.published,
            next_housekeeping: 0,
        }
    }

    /// What its RX queues wake. `None`: it polls something else too, or a driver has no interrupts.
    pub(crate) fn sleeper(&mut self, idle: Idle) -> Option<Arc<Sleeper>> {
        let sleeper = Arc::new(Sleeper::new().ok().filter(|_| idle == Idle::Adaptive)?);
        let is_woken = self.inlets.iter_mut().all(|inlet| inlet.wake(&sleeper));
        is_woken.then_some(sleeper)
    }

    /// Sleeps for so long, or until a packet comes. Busy: one had come before it could sleep.
    pub(crate) fn nap(&mut self, most: Duration, sleeper: Option<&Sleeper>) -> Turn {
        let Some(sleeper) = sleeper else {
            threads::nap(most);
            return Turn::Idle;
        };
        self.inlets.iter_mut().for_each(Inlet::arm);
        // What came before the queues were armed wakes nobody.
        let turn = self.turn();
        if turn == Turn::Idle {
            sleeper.sleep(most);
        }
        self.inlets.iter_mut().for_each(Inlet::disarm);
        turn
    }

    /// Stops taking frames from ports, because the worker is to end.
    pub fn close_ports(&mut self) {
        self.inlets.iter_mut().for_each(Inlet::close_port);
    }

    /// Whether everything under way has left this core, which no longer polls ports. The rings run dry in the order of
    /// the line: the cores before this one end first.
    pub fn has_ended(&mut self) -> bool {
        if !self.inlets.iter().all(Inlet::has_ended) {
            return false;
        }
        // The slow path ends when no core can send it a miss any more. Then its rings of answers end.
        self.misses.clear();
        self.replies.clear();
        self.to_kernel.clear();
        let mut frames = self.queries.iter().chain(&self.from_kernel);
        let is_over =
            self.answers.iter().all(RingReceiver::has_ended) && frames.all(RingReceiver::has_ended);
        if !is_over {
            return false;
        }
        self.tally.published_ticks = self.clock.now();
        self.publish();
        self.rings_out.clear();
        true
    }

    fn publish(&self) {
        let flows = self.flows();
        let answered = (&self.latency, &self.sent);
        self.published.publish(&self.tally, &self.ends, &self.line, flows, answered);
        self.answers.iter().for_each(RingReceiver::publish);
        self.queries.iter().chain(&self.from_kernel).for_each(RingReceiver::publish);
        self.inlets.iter().for_each(Inlet::publish);
    }

    /// The traffic over the links, in the order of [`Topology::links`](crate::topology::Topology::links).
    fn flows(&self) -> impl Iterator<Item = Flow> {
        let inlets = self.inlets.iter().map(Inlet::flow);
        let ports = self.transmitters.iter().map(|transmitter| transmitter.flow());
        inlets.chain(ports).chain(self.rings_out.iter().map(|outlet| outlet.flow))
    }

    /// One pass of the poll loop.
    pub fn turn(&mut self) -> Turn {
        let start = self.clock.now();
        let mut found = 0;
        for index in 0..self.inlets.len() {
            let now = if index == 0 { start } else { self.clock.now() };
            found += self.inlets[index].take(&mut self.batch, self.limit, now);
            if self.batch.is_empty() {
                continue;
            }
            let mut lap = Lap::start(self.clock, now);
            self.ends.receive.count(lap.split());
            let context = self.clock.context(now);
            self.process(&context, &mut lap);
            if self.hand_misses_on(&context) {
                self.process(&context, &mut lap);
            }
            self.tally.dry_run_passed = self.line.dry_run_passed();
            self.tally.note_cookies(self.line.cookies());
            self.hand_on();
        }
        found += self.take_answers() + self.take_frames();
        let end = self.transmit();
        let refused = self.transmitters.iter().map(|transmitter| transmitter.flow().refused).sum();
        self.latency.settle(end, refused);
        if end >= self.next_housekeeping {
            self.next_housekeeping = end + self.clock.ticks_of(HOUSEKEEPING);
            if let Some(mut rules) = self.rules.take() {
                match rules.names {
                    Some(_) => self.line.swap_rules(&mut rules),
                    None => self.drain_rings(),
                }
                self.rules.give_back(rules);
            }
            self.zone_limits.look(|limits| self.line.swap_zone_limits(limits));
            self.observers.look();
            self.hand_hits_on();
            self.replies.renew();
            self.look_at_ports(end);
            self.take_probes();
            self.tally.published_ticks = end;
            self.publish();
            self.tally.housekeeping_ticks += self.clock.now().saturating_sub(end);
        }
        if found > 0 {
            self.tally.busy_turns += 1;
            self.tally.busy_ticks += end - start;
            Turn::Busy
        } else {
            self.tally.idle_turns += 1;
            self.tally.idle_ticks += end - start;
            Turn::Idle
        }
    }

    /// Takes the batch down this core's stretch of the line.
    #[inline]
    fn process(&mut self, context: &Context, lap: &mut Lap) {
        if self.observers.watch_no_stations() {
            self.line.process(&mut self.batch, context, lap);
        } else {
            self.line.process_observed(&mut self.batch, context, lap, &mut self.observers);
        }
    }

    /// Sends the batch's misses to the slow path. Returns whether some of their packets are answered here instead.
    #[inline]
    fn hand_misses_on(&mut self, context: &Context) -> bool {
        let Self { misses, batch, cache, line, tally, .. } = self;
        misses.hand_on(batch, cache, || line.generation(), context, tally)
    }

    /// Works until everything has left that waits in its rings now. It may have been judged by rules that are no longer in use.
    #[cold]
    fn drain_rings(&mut self) {
        let answers = self.answers.iter().map(RingReceiver::len);
        let waiting = answers.chain(self.inlets.iter().map(Inlet::waiting)).max().unwrap_or(0);
        for _ in 0..waiting.div_ceil(self.limit) {
            self.turn();
        }
    }

    /// Takes the slow path's answers, which only need to be sent.
    #[inline]
    fn take_answers(&mut self) -> usize {
        let mut found = 0;
        for ring in &mut self.answers {
            let mut answers: ArrayVec<Answered, MAX_BURST> = ArrayVec::new();
            found += ring.pop_batch(&mut answers, self.limit);
            if !self.observers.are_none() {
                let now = self.clock.now();
                for Answered { frame, received, layout, origin, .. } in &answers {
                    let (received, layout, origin) = (*received, *layout, *origin);
                    self.observers.show(&Sent { frame, received, now, layout, origin });
                }
            }
            for Answered { frame, received, layout, origin, why } in answers.drain(..) {
                self.tally.made += 1;
                if origin != Origin::Silence {
                    self.sent.note(layout, frame.bytes());
                    self.sent.note_list(why);
                }
                self.latency.note(Class::Miss, received, &self.clock);
                transmitter::send(&mut self.transmitters, frame);
            }
        }
        found
    }

    /// Takes the slow path's queries to upstreams, and what the kernel sends.
    #[inline]
    fn take_frames(&mut self) -> usize {
        let queries = transmitter::send_from(&mut self.queries, &mut self.transmitters, self.limit);
        let from_kernel =
            transmitter::send_from(&mut self.from_kernel, &mut self.transmitters, self.limit);
        self.tally.queries += queries as u64;
        self.tally.from_kernel += from_kernel as u64;
        self.tally.made += (queries + from_kernel) as u64;
        queries + from_kernel
    }

    /// Sends every packet of the batch to the destination of its step.
    #[inline]
    fn hand_on(&mut self) {
        if !self.observers.are_none() {
            let sends = !self.transmitters.is_empty();
            self.observers.show_leaving(&self.batch, sends, self.clock.now());
        }
        let mut dropped = Burst::new();
        for packet in self.batch.drain(..) {
            let transmits = packet.step == Step::TRANSMIT;
            if transmits && !self.transmitters.is_empty() {
                self.sent.note_packet(&packet);
                self.latency.note(Class::of(packet.answer), packet.received, &self.clock);
                transmitter::send(&mut self.transmitters, packet.frame);
            } else if transmits || packet.step.is_on_the_line() {
                let shard = shard_of(packet.key, self.rings_out.len());
                self.rings_out[shard].staged.push(packet);
            } else if packet.step == Step::REPLY {
                self.to_kernel.pass_copy(&packet, &mut self.tally);
                self.replies.stage(packet, &mut self.tally);
            } else if packet.step.as_exception().is_some() {
                self.tally.exceptions += 1;
                dropped.extend(self.to_kernel.pass(packet, &mut self.tally));
            } else if packet.step.reason().is_none() {
                dropped.push(packet.frame);
            } else {
                self.tally.dropped += 1;
                self.sent.note_list(packet.extended_error);
                if !packet.layout.is_stream() {
                    dropped.push(packet.frame);
                    continue;
                }
                // Its connection learns that nothing follows.
                let note = packet.into_dropped_note();
                self.tally.made += 1;
                if self.transmitters.is_empty() {
                    let shard = shard_of(note.key, self.rings_out.len());
                    self.rings_out[shard].staged.push(note);
                } else {
                    transmitter::send(&mut self.transmitters, note.frame);
                }
            }
        }
        for outlet in &mut self.rings_out {
            let pushed = outlet.ring.push_batch(&mut outlet.staged);
            outlet.flow.count(pushed, outlet.staged.len());
            outlet.staged.clear();
        }
        self.replies.flush(&mut self.tally);
        release(&mut dropped);
    }

    /// Passes the notes of hits to the threads that own their parts of the cache.
    fn hand_hits_on(&mut self) {
        let shards = self.hits.len();
        let Some(sampler) = self.line.sampler().filter(|_| shards > 0) else { return };
        for hit in sampler.drain() {
            let shard = if shards == 1 { 0 } else { self.cache.shard_of(hit.hash) };
            self.tally.notes_lost += u64::from(self.hits[shard].push(hit).is_err());
        }
    }

    /// Gives this turn's frames to the ports, and returns the time afterwards.
    #[inline]
    fn transmit(&mut self) -> Tick {
        let start = self.clock.now();
        if self.transmitters.iter().all(Transmitter::is_idle) {
            return start;
        }
        self.transmitters.iter_mut().for_each(Transmitter::flush);
        let mut lap = Lap::start(self.clock, start);
        self.ends.transmit.count(lap.split());
        lap.end()
    }

    /// Counts the time that its core has spent on a shard of the slow path.
    pub(crate) fn note_resolving(&mut self, ticks: Tick) {
        self.tally.resolving_ticks += ticks;
    }

    /// The counters of this worker so far.
    pub fn counters(&self) -> Counters {
        self.publish();
        self.published.read()
    }
}
