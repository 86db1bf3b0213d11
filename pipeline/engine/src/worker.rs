//! A worker: one data core's poll loop, turn by turn.
//!
//! A turn takes a batch from each inlet (an RX queue or a ring) and takes it down the core's stretch of the line. Then
//! every packet goes to its ring or queue. Nothing here allocates, locks, logs or waits. If a ring or queue is full,
//! the newest packet is dropped and counted.

use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use pmdns_config::Idle;
use pmdns_nics::crash::InHand;
use pmdns_nics::{Burst, FramePool, MAX_BURST, Sleeper, release};
use pmdns_resolver::Origin;
use pmdns_stages::cache::Cache;
use pmdns_stages::{Batch, Context, Step, Tick};

use crate::answers::Answers;
use crate::clock::Clock;
use crate::counters::{Counters, Ends, Published, Tally};
use crate::inlet::Inlet;
use crate::latency::{Class, Latency};
use crate::lending::LimitsInbox;
use crate::line::Line;
use crate::news::AllPortNews;
use crate::observe::{Observers, Sent};
use crate::rules::{LineRules, RulesInbox};
use crate::slowpath::OutgoingAnswer;
use crate::station::StageTimer;
use crate::threads;
use crate::transmitter::{self, Transmitter};

mod ends;
mod upkeep;

use self::ends::shard_of;
pub(crate) use self::ends::{Outlet, WorkerEnds};

/// How often a worker publishes its counters and looks for new rules.
const HOUSEKEEPING: Duration = Duration::from_millis(10);

/// Everything one data core owns.
pub struct Worker {
    /// The stretch of the line it runs.
    line: Line,
    batch: Batch,
    ends: WorkerEnds,
    lent: Lent,
    means: WorkerMeans,
    /// Link changes announced so far, by port.
    announced: Vec<u32>,
    /// Changes of queues so far, and by port how often others were brought.
    changes: u32,
    brought: Vec<u32>,
    /// Whether it has queues that wake nobody yet.
    has_other_queues: bool,
    /// Whether it takes nothing from ports any more.
    is_ending: bool,
    tally: Tally,
    handled: Ends,
    latency: Latency,
    sent: Answers,
    next_housekeeping: Tick,
}

/// Where a worker finds what it is lent.
pub(crate) struct Lent {
    pub(crate) rules: RulesInbox<LineRules>,
    /// Other limits of zones.
    pub(crate) zone_limits: LimitsInbox,
    /// Those that see packets leave stations.
    pub(crate) observers: Observers,
}

/// What a worker works with and does not own alone.
pub(crate) struct WorkerMeans {
    /// Frames it takes at a time.
    pub(crate) limit: usize,
    /// The cache, which knows the shard of each key.
    pub(crate) cache: Arc<Cache>,
    /// The news of the ports.
    pub(crate) news: AllPortNews,
    /// Whether it announces addresses when a link comes up.
    pub(crate) announces: bool,
    /// Where frames for announcements come from.
    pub(crate) pool: FramePool,
    /// The clock.
    pub(crate) clock: Clock,
    /// Where the counters are published.
    pub(crate) published: Arc<Published>,
    /// Where a crash finds the packets.
    pub(crate) in_hand: Arc<InHand>,
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
    pub(crate) fn new(line: Line, ends: WorkerEnds, lent: Lent, means: WorkerMeans) -> Self {
        Self {
            line,
            batch: Batch::new(),
            ends,
            lent,
            announced: vec![0; means.news.len()],
            changes: 0,
            brought: vec![0; means.news.len()],
            has_other_queues: false,
            is_ending: false,
            means,
            tally: Tally::default(),
            handled: Ends::default(),
            latency: Latency::default(),
            sent: Answers::default(),
            next_housekeeping: 0,
        }
    }

    /// What its RX queues wake. `None`: it polls something else too, or a driver has no interrupts.
    pub(crate) fn sleeper(&mut self, idle: Idle) -> Option<Arc<Sleeper>> {
        let sleeper = Arc::new(Sleeper::new().ok().filter(|_| idle == Idle::Adaptive)?);
        let is_woken = self.ends.inlets.iter_mut().all(|inlet| inlet.wake(&sleeper));
        is_woken.then_some(sleeper)
    }

    /// Sleeps for so long, or until a packet comes. Busy: one had come before it could sleep.
    pub(crate) fn nap(&mut self, most: Duration, sleeper: Option<&Sleeper>) -> Turn {
        let Some(sleeper) = sleeper else {
            threads::nap(most);
            return Turn::Idle;
        };
        self.ends.inlets.iter_mut().for_each(Inlet::arm);
        // What came before the queues were armed wakes nobody.
        let turn = self.turn();
        if turn == Turn::Idle {
            sleeper.sleep(most);
        }
        self.ends.inlets.iter_mut().for_each(Inlet::disarm);
        turn
    }

    /// Whether it has other queues than when it was asked last, which wake nobody yet.
    pub(crate) fn take_other_queues(&mut self) -> bool {
        std::mem::take(&mut self.has_other_queues)
    }

    /// Stops taking frames from ports, because the worker is to end.
    pub fn close_ports(&mut self) {
        self.is_ending = true;
        self.ends.inlets.iter_mut().for_each(Inlet::close_port);
    }

    /// Whether everything under way has left this core, which no longer polls ports. The rings run dry in the order of
    /// the line: the cores before this one end first.
    pub fn has_ended(&mut self) -> bool {
        if !self.ends.have_ended() {
            return false;
        }
        self.tally.published_ticks = self.means.clock.now();
        self.publish();
        self.ends.outlets.clear();
        true
    }

    fn publish(&self) {
        let answered = (&self.latency, &self.sent);
        let (handled, flows) = (&self.handled, self.ends.flows());
        self.means.published.publish(&self.tally, handled, &self.line, flows, answered);
        self.ends.publish();
    }

    /// One pass of the poll loop.
    pub fn turn(&mut self) -> Turn {
        let changes = self.means.news.changes();
        if changes != self.changes {
            self.follow_ports(changes);
        }
        let start = self.means.clock.now();
        let mut found = 0;
        for index in 0..self.ends.inlets.len() {
            let now = if index == 0 { start } else { self.means.clock.now() };
            found += self.ends.inlets[index].take(&mut self.batch, self.means.limit, now);
            if self.batch.is_empty() {
                continue;
            }
            self.note_in_hand();
            let mut lap = StageTimer::start(self.means.clock, now);
            self.handled.receive.count(lap.split());
            let context = self.means.clock.context(now);
            self.process(&context, &mut lap);
            if self.hand_misses_on(&context) {
                self.process(&context, &mut lap);
            }
            self.tally.dry_run_passed = self.line.dry_run_passed();
            self.tally.note_cookies(self.line.cookies());
            self.hand_on();
            self.means.in_hand.clear();
        }
        found += self.take_answers() + self.take_frames();
        let end = self.transmit();
        let refused =
            self.ends.transmitters.iter().map(|transmitter| transmitter.flow().refused).sum();
        self.latency.settle(end, refused);
        if end >= self.next_housekeeping {
            self.next_housekeeping = end + self.means.clock.ticks_of(HOUSEKEEPING);
            if let Some(mut rules) = self.lent.rules.take() {
                match rules.names {
                    Some(_) => self.line.swap_rules(&mut rules),
                    None => self.drain_rings(),
                }
                self.lent.rules.give_back(rules);
            }
            self.lent.zone_limits.poll(|limits| self.line.swap_zone_limits(limits));
            self.lent.observers.poll();
            self.hand_hits_on();
            self.ends.replies.renew();
            self.poll_ports(end);
            self.take_probes();
            self.take_relayed();
            // What had come by then is read, though this core may have been interrupted since.
            self.tally.published_ticks = start;
            self.publish();
            self.tally.housekeeping_ticks += self.means.clock.now().saturating_sub(end);
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
    fn process(&mut self, context: &Context, lap: &mut StageTimer) {
        if self.lent.observers.watch_no_stations() {
            self.line.process(&mut self.batch, context, lap);
        } else {
            self.line.process_observed(&mut self.batch, context, lap, &mut self.lent.observers);
        }
    }

    /// Sends the batch's misses to the slow path. Returns whether some of their packets are answered here instead.
    #[inline]
    fn hand_misses_on(&mut self, context: &Context) -> bool {
        let Self { ends, batch, means, line, tally, .. } = self;
        ends.misses.hand_on(batch, &means.cache, || line.generation(), context, tally)
    }

    /// Works until everything has left that waits in its rings now. It may have been judged by rules that are no longer in use.
    #[cold]
    fn drain_rings(&mut self) {
        for _ in 0..self.ends.waiting().div_ceil(self.means.limit) {
            self.turn();
        }
    }

    /// Takes the slow path's answers, which only need to be sent.
    #[inline]
    fn take_answers(&mut self) -> usize {
        let mut found = 0;
        for ring in &mut self.ends.answers {
            let mut answers: ArrayVec<OutgoingAnswer, MAX_BURST> = ArrayVec::new();
            found += ring.pop_batch(&mut answers, self.means.limit);
            if !self.lent.observers.are_none() {
                let now = self.means.clock.now();
                for OutgoingAnswer { frame, received, layout, origin, .. } in &answers {
                    let (received, layout, origin) = (*received, *layout, *origin);
                    self.lent.observers.show(&Sent { frame, received, now, layout, origin });
                }
            }
            for OutgoingAnswer { frame, received, layout, origin, why } in answers.drain(..) {
                self.tally.made += 1;
                if origin != Origin::Silence {
                    self.sent.note(layout, frame.bytes());
                    self.sent.note_list(why);
                }
                self.latency.note(Class::Miss, received, &self.means.clock);
                transmitter::send(&mut self.ends.transmitters, frame);
            }
        }
        found
    }

    /// Takes the slow path's queries to upstreams, and what the kernel sends.
    #[inline]
    fn take_frames(&mut self) -> usize {
        let queries = transmitter::send_from(
            &mut self.ends.queries,
            &mut self.ends.transmitters,
            self.means.limit,
        );
        let from_kernel = transmitter::send_from(
            &mut self.ends.from_kernel,
            &mut self.ends.transmitters,
            self.means.limit,
        );
        self.tally.queries += queries as u64;
        self.tally.from_kernel += from_kernel as u64;
        self.tally.made += (queries + from_kernel) as u64;
        queries + from_kernel
    }

    /// Sends every packet of the batch to the destination of its step.
    #[inline]
    fn hand_on(&mut self) {
        if !self.lent.observers.are_none() {
            let sends = !self.ends.transmitters.is_empty();
            self.lent.observers.show_leaving(&self.batch, sends, self.means.clock.now());
        }
        let mut dropped = Burst::new();
        for packet in self.batch.drain(..) {
            let transmits = packet.step == Step::TRANSMIT;
            if transmits && !self.ends.transmitters.is_empty() {
                self.sent.note_packet(&packet);
                self.latency.note(Class::of(packet.answer), packet.received, &self.means.clock);
                transmitter::send(&mut self.ends.transmitters, packet.frame);
            } else if transmits || packet.step.is_on_the_line() {
                let shard = shard_of(packet.key, self.ends.outlets.len());
                self.ends.outlets[shard].staged.push(packet);
            } else if packet.step == Step::REPLY {
                self.ends.to_kernel.pass_copy(&packet, &mut self.tally);
                self.ends.replies.stage(packet, &mut self.tally);
            } else if packet.step.as_exception().is_some() {
                self.tally.exceptions += 1;
                dropped.extend(self.ends.to_kernel.pass(packet, &mut self.tally));
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
                if self.ends.transmitters.is_empty() {
                    let shard = shard_of(note.key, self.ends.outlets.len());
                    self.ends.outlets[shard].staged.push(note);
                } else {
                    transmitter::send(&mut self.ends.transmitters, note.frame);
                }
            }
        }
        for outlet in &mut self.ends.outlets {
            let pushed = outlet.ring.push_batch(&mut outlet.staged);
            outlet.flow.count(pushed, outlet.staged.len());
            outlet.staged.clear();
        }
        self.ends.replies.flush(&mut self.tally);
        release(&mut dropped);
    }

    /// Passes the notes of hits to the threads that own their parts of the cache.
    fn hand_hits_on(&mut self) {
        let shards = self.ends.hits.len();
        let Some(sampler) = self.line.sampler().filter(|_| shards > 0) else { return };
        for hit in sampler.drain() {
            let shard = if shards == 1 { 0 } else { self.means.cache.shard_of(hit.hash) };
            self.tally.notes_lost += u64::from(self.ends.hits[shard].push(hit).is_err());
        }
    }

    /// Gives this turn's frames to the ports, and returns the time afterwards.
    #[inline]
    fn transmit(&mut self) -> Tick {
        let start = self.means.clock.now();
        if self.ends.transmitters.iter().all(Transmitter::is_idle) {
            return start;
        }
        self.ends.transmitters.iter_mut().for_each(Transmitter::flush);
        let mut lap = StageTimer::start(self.means.clock, start);
        self.handled.transmit.count(lap.split());
        lap.end()
    }

    /// Counts the time that its core has spent on a shard of the slow path.
    pub(crate) fn note_resolving(&mut self, ticks: Tick) {
        self.tally.resolving_ticks += ticks;
    }

    /// The counters of this worker so far.
    pub fn counters(&self) -> Counters {
        self.publish();
        self.means.published.read()
    }
}
