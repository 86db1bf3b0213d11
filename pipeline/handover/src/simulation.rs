//! Histories of two processes, each decided by a seed: either may be killed at any step, messages are late, steps fail or
//! never end.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use serde_json::Value;

use super::*;

mod steps;

/// Histories of the test. Those of a longer run are asked for by number.
const HISTORIES: u64 = 20_000;
/// Steps after which every history has come to rest.
const MAX_STEPS: u32 = 20_000;

/// Why a process may end although it is the only one.
const FAULTS: [&str; 4] = ["what?", "no port", "locked, or no memory", "no device"];

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// What another thread does at the same time.
    device_work: Option<(DeviceWork, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Freeze,
    Thaw,
    Drain,
    Prepare,
    Take,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeviceWork {
    Close,
    Open,
}

/// The devices that one process at a time can have.
struct Devices {
    exist: bool,
    holder: Option<Side>,
    way: Way,
    /// The incoming process was to open them.
    is_asked: bool,
}

/// The way of the devices so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// The outgoing process has had them all the time, if there are any.
    Kept,
    /// The outgoing process has closed them, and no other one has opened them.
    Closed,
    /// The outgoing process has opened them again before the other one had them.
    Reopened,
    /// The incoming process has opened them while the outgoing one was there.
    Passed,
    /// The outgoing process has opened them after the other one had them.
    Returned,
    /// The incoming process has opened them after the outgoing one had ended.
    Inherited,
}

/// How a history ends: who is left, whether there are devices, and their way.
type Outcome = (Option<Side>, bool, Way);

/// Each has to be the end of more than one history in so many.
const EXPECTED: [(Outcome, u64); 9] = [
    ((None, false, Way::Kept), 50),
    ((None, true, Way::Kept), 50),
    ((Some(Side::Outgoing), false, Way::Kept), 50),
    ((Some(Side::Outgoing), true, Way::Kept), 50),
    ((Some(Side::Outgoing), true, Way::Reopened), 100),
    ((Some(Side::Outgoing), true, Way::Returned), 1000),
    ((Some(Side::Incoming), false, Way::Kept), 50),
    ((Some(Side::Incoming), true, Way::Passed), 50),
    ((Some(Side::Incoming), true, Way::Inherited), 50),
];

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
    devices: Devices,
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
        assert!(outgoing.connected(None, now));
        assert!(!outgoing.connected(None, now), "another one is refused");
        let alive = |serves| Process { is_alive: true, serves, ..Process::default() };
        let exist = seed.is_multiple_of(2);
        let holder = exist.then_some(Side::Outgoing);
        let fault = [50, 200, 1000, u64::MAX][usize::try_from(chance.below(4)).unwrap()];
        Self {
            seed,
            now,
            outgoing: (outgoing, alive(true)),
            incoming: (Incoming::new(limits, "1.0.0", None, now), alive(false)),
            to_outgoing: VecDeque::new(),
            to_incoming: VecDeque::new(),
            lock: Some(Side::Outgoing),
            devices: Devices { exist, holder, way: Way::Kept, is_asked: false },
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

    /// What the outgoing process has.
    fn offer(&self) -> Offer {
        let device = PassedDevice { device: "net_memif0".to_owned(), facts: Value::Null };
        Offer { devices: vec![device; usize::from(self.devices.exist)], ..Offer::default() }
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
        let is_quiet = |process: &Process| match process.is_alive {
            true => process.device_work.is_none(),
            false => is_over(process),
        };
        let is_outgoing_alone = !self.outgoing.1.is_alive || !self.outgoing.0.is_under_way();
        let is_incoming_alone = !self.incoming.1.is_alive || self.incoming.0.is_alone();
        let is_one = self.outgoing.1.is_alive != self.incoming.1.is_alive;
        let is_none = !self.outgoing.1.is_alive && !self.incoming.1.is_alive;
        is_quiet(&self.outgoing.1)
            && is_quiet(&self.incoming.1)
            && (is_none || is_one && is_outgoing_alone && is_incoming_alone)
    }

    /// Lets it come to its end.
    fn play(mut self) -> Outcome {
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
            _ => return (None, self.devices.exist, self.devices.way),
        };
        assert!(self.process(left).serves && !self.process(left).drains, "seed {}", self.seed);
        assert_eq!(self.lock, Some(left), "seed {}: who is left writes", self.seed);
        let holder = self.devices.exist.then_some(left);
        assert_eq!(self.devices.holder, holder, "seed {}: who is left has the devices", self.seed);
        (Some(left), self.devices.exist, self.devices.way)
    }
}

#[test]
fn whoever_ends_on_the_way_costs_nothing() {
    let seeds = match std::env::var("PMDNS_SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).unwrap(),
        Err(_) => 1..HISTORIES + 1,
    };
    let mut outcomes = BTreeMap::<Outcome, u64>::new();
    for seed in seeds.clone() {
        *outcomes.entry(World::new(seed).play()).or_default() += 1;
    }
    if seeds.end - seeds.start > 1 {
        for (outcome, one_in) in EXPECTED {
            let count = outcomes.get(&outcome).copied().unwrap_or_default();
            assert!(count > HISTORIES / one_in, "{outcome:?} is rare: {outcomes:?}");
        }
    }
}

#[test]
fn without_faults_the_incoming_process_takes_over() {
    for seed in 1..500 {
        let mut world = World::new(seed);
        world.fault = u64::MAX;
        let way = if world.devices.exist { Way::Passed } else { Way::Kept };
        assert_eq!(world.play(), (Some(Side::Incoming), way == Way::Passed, way), "seed {seed}");
    }
}
