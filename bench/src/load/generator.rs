//! The generator: one thread that sends what is due and checks what comes, turn by turn.
//!
//! It never waits. If a server stops answering, the offered load continues. Each latency counts from the time when its
//! query was due (no coordinated omission).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrayvec::ArrayVec;
use pmdns_config::narrow::to_usize;
use pmdns_engine::clock::Clock;
use pmdns_nics::{Burst, Frame, FramePool, MAX_BURST, RxQueue, TxQueue, release};

use super::arp::{self, Arp, Host};
use super::check::{AnswerClass, Checker};
use super::deck::Deck;
use super::figures::UpstreamCounts;
use super::flight::{Flight, InFlight, Tag};
use super::mix::Kind;
use super::pace::Pacer;
use super::path::{Path, has_right_checksums};
use super::send::send_frame;
use super::tally::Tally;
use super::upstreams::{Fate, Upstreams};

/// Due queries that are still sent when the generator has fallen behind: half of a common ring. Those
/// before them are withheld, or the generator's own hiccup would overflow the server's ring.
pub const CATCH_UP: u64 = 512;
/// Received frames kept to be sent again, at most.
const SPARE_FRAMES: usize = 1024;
/// How far ahead templates are loaded, in cards.
const LOOK_AHEAD: usize = 8;
/// How long a warm-up rests when it has nothing to do: the server's upstream may need this CPU.
const REST: Duration = Duration::from_micros(20);

/// Which answers have their checksums checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Checksums {
    /// All.
    All,
    /// The first of each burst.
    #[default]
    First,
    /// None: for ports whose peer leaves them to hardware that is not there.
    None,
}

/// What a generator is made of.
pub struct Parts {
    /// Where answers come from.
    pub rx: Box<dyn RxQueue>,
    /// Where queries go.
    pub tx: Box<dyn TxQueue>,
    /// Frames for both.
    pub pool: FramePool,
    /// The time.
    pub clock: Clock,
    /// Who asks whom.
    pub path: Path,
    /// The queries and their answers.
    pub checker: Checker,
    /// The order of queries.
    pub deck: Deck,
    /// Queries that can be under way.
    pub slots: usize,
    /// How long a query may be under way.
    pub timeout: Duration,
    /// Which checksums are checked.
    pub checksums: Checksums,
    /// The server's upstreams, if they are played here.
    pub upstreams: Option<Upstreams>,
    /// Set when the run shall end early.
    pub stop: Arc<AtomicBool>,
}

/// The generator.
pub struct Generator {
    parts: Parts,
    flying: InFlight,
    timeout: u64,
    spare: Vec<Frame>,
}

impl Generator {
    /// A generator at rest.
    pub fn new(parts: Parts) -> Self {
        let flying = InFlight::new(parts.slots);
        let timeout = parts.clock.ticks_of(parts.timeout).max(1);
        Self { parts, flying, timeout, spare: Vec::with_capacity(SPARE_FRAMES + 2 * MAX_BURST) }
    }

    /// The checker.
    pub fn checker(&self) -> &Checker {
        &self.parts.checker
    }

    /// The clock.
    pub fn clock(&self) -> Clock {
        self.parts.clock
    }

    /// What the upstreams that are played here did so far.
    pub fn upstream_counts(&self) -> Option<UpstreamCounts> {
        self.parts.upstreams.as_ref().map(Upstreams::counts)
    }

    /// Whether the run shall end early.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.parts.stop.load(Ordering::Relaxed)
    }

    /// Offers `rate` queries per second for `duration`, and waits for the last answers.
    pub fn offer(&mut self, rate: u64, duration: Duration, slice: Duration) -> Tally {
        let (clock, before) = (self.parts.clock, self.upstream_counts());
        let (ticks, second) = (clock.ticks_of(duration), clock.ticks_per_second());
        let start = clock.now();
        let mut pacer = Pacer::new(rate, second, start, ticks);
        let mut tally = Tally::new(start, ticks, clock.ticks_of(slice), second);
        tally.planned = pacer.planned();
        while !pacer.has_ended() && !self.is_stopped() {
            let (now, _) = self.collect(&mut tally);
            let mut due = pacer.due(now);
            if due > CATCH_UP {
                tally.withheld += due - CATCH_UP;
                pacer.skip(due - CATCH_UP);
                due = CATCH_UP;
            }
            if due > 0 {
                let count = to_usize(due.min(MAX_BURST as u64));
                let sent = self.send(count, now, &mut tally, |deck| (pacer.take(), deck.draw()));
                let missing = (count - sent) as u64;
                tally.withheld += missing;
                pacer.skip(missing.min(pacer.due(now)));
            }
        }
        tally.end = clock.now();
        self.drain(&mut tally);
        tally.upstream = before.zip(self.upstream_counts()).map(|(before, now)| now.since(before));
        tally
    }

    /// Asks every query in `wanted` that has no known answer, `window` at a time, and gives those that stay
    /// without a right one.
    pub fn warm_up(&mut self, wanted: &[u32], window: usize, tally: &mut Tally) {
        let mut wanted = wanted
            .iter()
            .copied()
            .filter(|number| !self.parts.checker.templates.has_image(*number))
            .collect::<Vec<_>>()
            .into_iter();
        let mut quiet_since = self.parts.clock.now();
        while (wanted.len() > 0 || self.flying.count() > 0) && !self.is_stopped() {
            let (now, received) = self.collect(tally);
            let room = window.saturating_sub(self.flying.count());
            let count = room.min(wanted.len()).min(MAX_BURST);
            if count > 0 {
                self.send(count, now, tally, |_| (now, wanted.next().unwrap_or_default()));
            }
            if received > 0 {
                quiet_since = now;
            } else if now.saturating_sub(quiet_since) > self.timeout {
                self.give_up_all(tally);
                quiet_since = now;
            } else {
                std::thread::sleep(REST);
            }
        }
        tally.end = self.parts.clock.now();
        self.drain(tally);
    }

    /// Takes answers until none is awaited, or none came for as long as one may take.
    fn drain(&mut self, tally: &mut Tally) {
        let mut quiet_since = self.parts.clock.now();
        while self.flying.count() > 0 {
            let (now, received) = self.collect(tally);
            if received > 0 {
                quiet_since = now;
            } else if now.saturating_sub(quiet_since) > self.timeout {
                break;
            }
        }
        self.give_up_all(tally);
    }

    fn give_up_all(&mut self, tally: &mut Tally) {
        let now = self.parts.clock.now();
        tally.turn(now, self.flying.count());
        let templates = &self.parts.checker.templates;
        self.flying.sweep(|gone| give_up(tally, templates.get(gone.template).kind, gone, now));
    }

    /// Makes and sends `count` queries: each with the intended time and the template that `next` gives. Says how
    /// many there were frames for.
    #[inline]
    fn send(
        &mut self,
        count: usize,
        now: u64,
        tally: &mut Tally,
        mut next: impl FnMut(&mut Deck) -> (u64, u32),
    ) -> usize {
        let Parts { pool, path, checker, deck, tx, .. } = &mut self.parts;
        let mut burst = Burst::new();
        let mut queries = ArrayVec::<(Kind, u64, u32), MAX_BURST>::new();
        let deadline = now.saturating_sub(self.timeout);
        for _ in 0..count {
            let Some(mut frame) = self.spare.pop().or_else(|| pool.take()) else { break };
            let (intended, card) = next(deck);
            checker.templates.prefetch(deck.look_ahead(LOOK_AHEAD));
            let template = checker.templates.get(card);
            let (number, gone) = self.flying.insert(intended, card, deadline);
            if let Some(gone) = gone {
                give_up(tally, checker.templates.get(gone.template).kind, gone, now);
            }
            let payload = checker.templates.payload(template);
            if path.write(&mut frame, template, payload, number).is_err() {
                self.flying.cancel(number);
                continue;
            }
            burst.push(frame);
            queries.push((template.kind, intended, number));
        }
        let made = burst.len();
        let sent = tx.transmit(&mut burst);
        tally.left(now, queries[..sent].iter().map(|(kind, intended, _)| (*kind, *intended)));
        if sent < made {
            tally.refused(queries[sent..].iter().map(|(kind, ..)| *kind));
            for (_, _, number) in &queries[sent..] {
                self.flying.cancel(*number);
            }
            self.spare.extend(burst.drain(..));
        }
        made
    }

    /// Takes what has come, checks it, and says when that was and how much it was.
    #[inline]
    fn collect(&mut self, tally: &mut Tally) -> (u64, usize) {
        let mut burst = Burst::new();
        let received = self.parts.rx.receive(&mut burst, MAX_BURST);
        let now = self.parts.clock.now();
        tally.turn(now, self.flying.count());
        if received > 0 {
            self.sort(&mut burst, now, tally);
        }
        self.send_upstream_answers(now);
        while self.spare.len() > SPARE_FRAMES {
            let rest = self.spare.len() - MAX_BURST;
            burst.extend(self.spare.drain(rest..));
            release(&mut burst);
        }
        (now, received)
    }

    /// Checks the answers of a burst, and lets the upstreams have the queries.
    #[inline]
    fn sort(&mut self, burst: &mut Burst, now: u64, tally: &mut Tally) {
        burst.iter().for_each(Frame::prefetch);
        let mut tags = [Tag::NONE; MAX_BURST];
        for (frame, tag) in burst.iter().zip(&mut tags) {
            *tag = self.parts.path.tag(frame.bytes());
            self.flying.prefetch(*tag);
        }
        for tag in &tags[..burst.len()] {
            if let Some(template) = self.flying.peek(*tag) {
                self.parts.checker.templates.prefetch(template);
            }
        }
        for (index, (mut frame, tag)) in burst.drain(..).zip(tags).enumerate() {
            let sums = match self.parts.checksums {
                Checksums::All => true,
                Checksums::First => index == 0,
                Checksums::None => false,
            };
            if tag == Tag::NONE
                && let Some(upstreams) = &mut self.parts.upstreams
            {
                match upstreams.take(&mut frame, sums) {
                    Fate::NotOurs => {}
                    Fate::Answer => {
                        self.spare.extend(upstreams.hold(frame, now));
                        continue;
                    }
                    Fate::Spare => {
                        self.spare.push(frame);
                        continue;
                    }
                }
            }
            self.judge(&frame, tag, now, sums, tally);
            self.spare.push(frame);
        }
    }

    /// Sends the answers of the upstreams that are due.
    #[inline]
    fn send_upstream_answers(&mut self, now: u64) {
        if let Some(upstreams) = &mut self.parts.upstreams {
            let mut answers = Burst::new();
            upstreams.send_due(now, self.parts.tx.as_mut(), &mut answers);
            self.spare.extend(answers.drain(..));
        }
    }

    #[inline]
    fn judge(&mut self, frame: &Frame, tag: Tag, now: u64, sums: bool, tally: &mut Tally) {
        if tag == Tag::NONE {
            self.meet_stranger(frame.bytes(), tally);
            return;
        }
        let Some(Flight { intended, number, template }) = self.flying.take(tag) else {
            tally.unexpected += 1;
            return;
        };
        let Parts { path, checker, .. } = &mut self.parts;
        let verdict = match path.message(frame.bytes(), number) {
            None => AnswerClass::WrongAddress,
            Some(_) if sums && !has_right_checksums(frame.bytes()) => AnswerClass::WrongChecksum,
            Some(message) => checker.judge(message, template, number),
        };
        let kind = checker.templates.get(template).kind;
        tally.answered(kind, verdict, now.saturating_sub(intended), now);
    }

    /// A frame that answers no query. ARP requests and solicitations for a client
    /// or an upstream get an answer.
    #[cold]
    fn meet_stranger(&mut self, bytes: &[u8], tally: &mut Tally) {
        tally.strays += 1;
        let Parts { path, pool, tx, upstreams, .. } = &mut self.parts;
        if let Some(upstreams) = upstreams
            && upstreams.tell_where(bytes, pool, tx.as_mut())
        {
            return;
        }
        if let Some(Arp::Request(asker, wanted)) = Arp::read(bytes)
            && path.is_client(wanted)
        {
            let ours = Host { mac: path.ends().client_mac, address: wanted };
            send_frame(pool, tx.as_mut(), &arp::reply(ours, asker));
        }
    }
}

#[inline]
fn give_up(tally: &mut Tally, kind: Kind, gone: Flight, now: u64) {
    tally.gave_up(kind, now.saturating_sub(gone.intended));
}
