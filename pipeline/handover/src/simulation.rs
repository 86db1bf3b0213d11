//! Histories of two processes, each decided by a seed: either may be killed at any step, messages are late, steps fail or
//! never end.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::*;

/// Histories of the test. Those of a longer run are asked for by number.
const HISTORIES: u64 = 20_000;
/// Steps after which every history has come to rest.
const MAX_STEPS: u32 = 20_000;

/// Why a process may end although it is the only one.
const FAULTS: [&str; 3] = ["what?", "no port", "locked, or no memory"];

fn end(why: &str) -> IncomingOutput {
    IncomingOutput::End(why.to_owned())
}

/// A small generator of numbers that look random (xorshift64*).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }

    fn one_in(&mut self, end: u64) -> bool {
        self.below(end) == 0
    }
}

/// The two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Outgoing,
    Incoming,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Outgoing => Self::Incoming,
            Self::Incoming => Self::Outgoing,
        }
    }
}

/// What everybody can see of a process.
#[derive(Debug, Default)]
struct Process {
    is_alive: bool,
    /// It takes what comes to ports and sockets.
    serves: bool,
    /// It reads what had come before.
    drains: bool,
    /// The other one hears of its end after so many steps more.
    closes_in: Option<u64>,
    /// The kernel has its files for so many steps more.
    unlocks_in: u64,
    /// What a thread of it does, and how many steps more.
    work: Option<(Work, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Freeze,
    Thaw,
    Drain,
    Prepare,
    Take,
}

/// A packet, and how many steps it takes.
type Packet<M> = (u64, M);

struct World {
    seed: u64,
    chance: Chance,
    now: Instant,
    outgoing: (Outgoing, Process),
    incoming: (Incoming, Process),
    to_outgoing: VecDeque<Packet<FromIncoming>>,
    to_incoming: VecDeque<Packet<FromOutgoing>>,
    /// Who may write to the cache.
    lock: Option<Side>,
    /// Nothing is killed any more, and everything works.
    is_calm: bool,
    /// How often something fails: one step in so many.
    fault: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let (now, limits) = (Instant::now(), HandoverLimits::default());
        let mut outgoing = Outgoing::new(limits);
        assert!(outgoing.connected(now));
        assert!(!outgoing.connected(now), "another one is refused");
        let alive = |serves| Process { is_alive: true, serves, ..Process::default() };
        let fault = [50, 200, 1000, u64::MAX][usize::try_from(chance.below(4)).unwrap()];
        Self {
            seed,
            now,
            outgoing: (outgoing, alive(true)),
            incoming: (Incoming::new(limits, "1.0.0", now), alive(false)),
            to_outgoing: VecDeque::new(),
            to_incoming: VecDeque::new(),
            lock: Some(Side::Outgoing),
            is_calm: false,
            fault,
            chance,
        }
    }

    fn process(&mut self, side: Side) -> &mut Process {
        match side {
            Side::Outgoing => &mut self.outgoing.1,
            Side::Incoming => &mut self.incoming.1,
        }
    }

    fn kill(&mut self, side: Side) {
        let (closes_in, unlocks_in) = (self.chance.below(4), self.chance.below(6));
        let process = self.process(side);
        if process.is_alive {
            let closes_in = Some(closes_in);
            *process = Process { closes_in, unlocks_in, ..Process::default() };
        }
    }

    fn fails(&mut self) -> bool {
        !self.is_calm && self.chance.one_in(self.fault)
    }

    /// What happens next.
    fn step(&mut self) {
        let is_leap = self.fails();
        self.now += Duration::from_millis(if is_leap { 20_000 } else { self.chance.below(200) });
        for side in [Side::Outgoing, Side::Incoming] {
            if self.fails() {
                self.kill(side);
            }
            self.after_end(side);
        }
        self.deliver();
        self.garble();
        for side in [Side::Outgoing, Side::Incoming] {
            self.work(side);
        }
        let now = self.now;
        if self.outgoing.1.is_alive {
            self.outgoing.0.turn(now);
            self.carry_out_outgoing();
        }
        if self.incoming.1.is_alive {
            self.incoming.0.turn(now);
            self.carry_out_incoming();
        }
        self.check();
    }

    /// The kernel closes what a dead process had, in any order.
    fn after_end(&mut self, side: Side) {
        let process = self.process(side);
        if process.is_alive {
            return;
        }
        process.unlocks_in = process.unlocks_in.saturating_sub(1);
        let is_unlocked = process.unlocks_in == 0;
        let has_closed = match process.closes_in {
            Some(0) => process.closes_in.take().is_some(),
            Some(steps) => {
                process.closes_in = Some(steps - 1);
                false
            }
            None => false,
        };
        if is_unlocked && self.lock == Some(side) {
            self.lock = None;
        }
        if has_closed && self.process(side.other()).is_alive {
            // What was sent before arrives before.
            self.deliver_all();
            match side {
                Side::Outgoing => self.incoming.0.closed(),
                Side::Incoming => self.outgoing.0.closed(),
            }
        }
    }

    /// A packet that is no message.
    fn garble(&mut self) {
        if self.outgoing.1.is_alive && self.fails() {
            self.outgoing.0.misunderstood(FAULTS[0].to_owned());
        }
        if self.incoming.1.is_alive && self.fails() {
            self.incoming.0.misunderstood(FAULTS[0].to_owned());
        }
    }

    fn deliver(&mut self) {
        let now = self.now;
        if let Some((left, _)) = self.to_outgoing.front_mut() {
            *left = left.saturating_sub(1);
        }
        if let Some((left, _)) = self.to_incoming.front_mut() {
            *left = left.saturating_sub(1);
        }
        if let Some((_, message)) = self.to_outgoing.pop_front_if(|(left, _)| *left == 0)
            && self.outgoing.1.is_alive
        {
            self.outgoing.0.receive(message, Offer::default, now);
        }
        if let Some((_, message)) = self.to_incoming.pop_front_if(|(left, _)| *left == 0)
            && self.incoming.1.is_alive
        {
            self.incoming.0.receive(message);
        }
    }

    fn deliver_all(&mut self) {
        let now = self.now;
        for (_, message) in std::mem::take(&mut self.to_outgoing) {
            self.outgoing.0.receive(message, Offer::default, now);
        }
        for (_, message) in std::mem::take(&mut self.to_incoming) {
            self.incoming.0.receive(message);
        }
    }

    fn begin(&mut self, side: Side, work: Work) {
        // What waits for others may never end.
        let may_hang = matches!(work, Work::Prepare | Work::Take | Work::Drain);
        let steps = match may_hang && self.fails() {
            true => u64::from(MAX_STEPS),
            false => self.chance.below(20),
        };
        let before = self.process(side).work.replace((work, steps));
        let is_over = matches!(before, None | Some((Work::Drain, _)));
        assert!(is_over, "seed {}: {before:?} is not over, and {work:?} begins", self.seed);
    }

    /// A thread of the process goes on.
    fn work(&mut self, side: Side) {
        let Some((work, left)) = self.process(side).work.take() else { return };
        if left > 1000 && self.is_calm && !self.process(side.other()).is_alive {
            // The supervisor's watchdog ends it.
            return self.kill(side);
        }
        if left > 0 {
            self.process(side).work = Some((work, left - 1));
            return;
        }
        let (now, is_free) = (self.now, self.lock.is_none_or(|holder| holder == side));
        match work {
            Work::Freeze => {
                assert_eq!(self.lock.take(), Some(Side::Outgoing));
                self.outgoing.0.frozen(NodeRole::default(), now);
            }
            Work::Thaw => {
                if is_free {
                    self.lock = Some(Side::Outgoing);
                }
                self.outgoing.0.thawed(is_free);
            }
            Work::Drain => self.outgoing.0.drained(),
            Work::Prepare => {
                let outcome = if self.fails() { Err(FAULTS[1].to_owned()) } else { Ok(()) };
                self.incoming.0.prepared(outcome, now);
            }
            Work::Take if !is_free && !self.outgoing.1.is_alive => {
                // It tries again as long as the dead one's files are closed.
                self.process(side).work = Some((Work::Take, 1));
            }
            Work::Take => {
                let outcome = match is_free && !self.fails() {
                    true => Ok(()),
                    false => Err(FAULTS[2].to_owned()),
                };
                if outcome.is_ok() {
                    self.lock = Some(Side::Incoming);
                    self.incoming.1.serves = true;
                }
                self.incoming.0.taken(outcome, now);
            }
        }
    }

    fn carry_out_outgoing(&mut self) {
        while let Some(output) = self.outgoing.0.next_output() {
            match output {
                OutgoingOutput::Send(message) => {
                    let late = self.chance.below(5);
                    self.to_incoming.push_back((late, message));
                }
                OutgoingOutput::Freeze => self.begin(Side::Outgoing, Work::Freeze),
                OutgoingOutput::Thaw => self.begin(Side::Outgoing, Work::Thaw),
                OutgoingOutput::Drain => {
                    (self.outgoing.1.serves, self.outgoing.1.drains) = (false, true);
                    self.begin(Side::Outgoing, Work::Drain);
                }
                OutgoingOutput::Resume => {
                    (self.outgoing.1.serves, self.outgoing.1.drains) = (true, false);
                }
                OutgoingOutput::Kill(_) => self.kill(Side::Incoming),
                OutgoingOutput::Close(_) => {
                    self.deliver_all();
                    self.incoming.0.closed();
                }
                OutgoingOutput::End => {
                    self.kill(Side::Outgoing);
                    return;
                }
            }
        }
    }

    fn carry_out_incoming(&mut self) {
        while let Some(output) = self.incoming.0.next_output() {
            match &output {
                IncomingOutput::Send(message) => {
                    let late = self.chance.below(5);
                    self.to_outgoing.push_back((late, message.clone()));
                }
                IncomingOutput::Prepare(_) => self.begin(Side::Incoming, Work::Prepare),
                IncomingOutput::Take => self.begin(Side::Incoming, Work::Take),
                IncomingOutput::Kill => self.kill(Side::Outgoing),
                IncomingOutput::Own => assert!(!self.outgoing.1.is_alive, "seed {}", self.seed),
                // The socket of the other one refuses it, or is gone.
                IncomingOutput::StartAlone | IncomingOutput::End(_) => {
                    let (seed, is_fault) =
                        (self.seed, FAULTS.iter().any(|fault| output == end(fault)));
                    let other_is_left =
                        self.outgoing.1.is_alive || self.outgoing.1.closes_in.is_some();
                    let may_end = other_is_left || is_fault || output == IncomingOutput::StartAlone;
                    assert!(may_end, "seed {seed}: nobody is left, by {output:?}");
                    self.kill(Side::Incoming);
                    return;
                }
            }
        }
    }

    /// What holds at every moment.
    fn check(&mut self) {
        let (seed, outgoing, incoming) = (self.seed, &self.outgoing.1, &self.incoming.1);
        if outgoing.is_alive {
            let is_served = outgoing.serves || incoming.serves || self.is_told_soon();
            assert!(is_served, "seed {seed}: nobody serves");
        }
        if self.lock == Some(Side::Incoming) && incoming.is_alive {
            assert!(incoming.serves, "seed {seed}: who writes serves");
        }
        if outgoing.drains && outgoing.is_alive {
            assert_ne!(self.lock, Some(Side::Outgoing), "seed {seed}: who drains does not write");
        }
    }

    /// The incoming process has been killed, and the outgoing one, which drains, is about to learn that.
    fn is_told_soon(&self) -> bool {
        let is_thawing = matches!(self.outgoing.1.work, Some((Work::Thaw, _)));
        !self.incoming.1.is_alive && (self.incoming.1.closes_in.is_some() || is_thawing)
    }

    /// Whether nothing happens any more.
    fn is_at_rest(&self) -> bool {
        let is_over = |process: &Process| process.closes_in.is_none() && process.unlocks_in == 0;
        let is_quiet = |process: &Process| process.is_alive || is_over(process);
        let is_outgoing_alone = !self.outgoing.1.is_alive || !self.outgoing.0.is_under_way();
        let is_incoming_alone = !self.incoming.1.is_alive || self.incoming.0.is_alone();
        let is_one = self.outgoing.1.is_alive != self.incoming.1.is_alive;
        let is_none = !self.outgoing.1.is_alive && !self.incoming.1.is_alive;
        is_quiet(&self.outgoing.1)
            && is_quiet(&self.incoming.1)
            && (is_none || is_one && is_outgoing_alone && is_incoming_alone)
    }

    /// Lets it come to its end. Whether the incoming process has taken over, or `None` if both were killed.
    fn play(mut self) -> Option<bool> {
        let noisy = self.chance.below(400);
        let mut steps = 0;
        while !self.is_at_rest() {
            self.is_calm = u64::from(steps) > noisy;
            self.step();
            steps += 1;
            assert!(
                steps < MAX_STEPS,
                "seed {} does not come to rest: {:?} {:?} {:?}",
                self.seed,
                self.outgoing,
                self.incoming,
                self.lock
            );
        }
        let left = match (self.outgoing.1.is_alive, self.incoming.1.is_alive) {
            (true, _) => Side::Outgoing,
            (_, true) => Side::Incoming,
            _ => return None,
        };
        assert!(self.process(left).serves && !self.process(left).drains, "seed {}", self.seed);
        assert_eq!(self.lock, Some(left), "seed {}: who is left writes", self.seed);
        Some(left == Side::Incoming)
    }
}

#[test]
fn whoever_ends_on_the_way_costs_nothing() {
    let seeds = match std::env::var("PMDNS_SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).unwrap(),
        Err(_) => 1..HISTORIES + 1,
    };
    let mut outcomes = [0; 3];
    for seed in seeds.clone() {
        let outcome = World::new(seed).play();
        outcomes[outcome.map_or(2, usize::from)] += 1;
    }
    if seeds.end - seeds.start > 1 {
        let is_rich = outcomes.iter().all(|count| *count > HISTORIES / 50);
        assert!(is_rich, "histories end in few ways: {outcomes:?}");
    }
}

#[test]
fn without_faults_the_incoming_process_takes_over() {
    for seed in 1..500 {
        let mut world = World::new(seed);
        world.fault = u64::MAX;
        assert_eq!(world.play(), Some(true), "seed {seed}");
    }
}
