//! The driver of a rig without threads and sockets. The slow path is turned by hand, and time stands still
//! until nothing is left to do.

use std::cell::Cell;
use std::time::Duration;

use pmdns_engine::clock::{Clock, FIRST_SECOND, SteppedTime};
use pmdns_engine::slowpath::SlowPathParts;
use pmdns_hierarchy::Rng;

use super::network::Loopback;
use super::stepping::{DATE, Network as _, Setup, SlowPath};

/// The longest step of the time: short beside every timer.
const STEP: Duration = Duration::from_millis(1);
/// What a turn takes that finds something to do.
const TURN: Duration = Duration::from_micros(1);
/// What all chance of the slow path comes from.
const SEED: u64 = 1;
/// Sockets it may have open.
const SOCKETS: usize = 4096;

thread_local! {
    /// The date at which the next rig of this test starts, in seconds since 1970: when the one before has ended.
    static TODAY: Cell<u32> = const { Cell::new(DATE) };
}

/// A thread of the slow path that is no thread.
pub(crate) struct Driver {
    time: SteppedTime,
    network: Loopback,
    pub(crate) slow_path: Option<SlowPath>,
    /// When it was told to stop, and how long misses are refused after that.
    ends_since: Option<Duration>,
    patience: Duration,
}

impl Default for Driver {
    fn default() -> Self {
        Self {
            time: SteppedTime::since(TODAY.get()),
            network: Loopback::default(),
            slow_path: None,
            ends_since: None,
            patience: Duration::ZERO,
        }
    }
}

impl Driver {
    /// The clock that the slow path shall have.
    pub(crate) fn clock(&self) -> Clock {
        Clock::stepped(self.time).with_first_second(FIRST_SECOND)
    }

    /// The date at which a rig starts, in seconds since 1970.
    pub(crate) fn date() -> u32 {
        TODAY.get()
    }

    /// Starts it.
    pub(crate) fn start(&mut self, parts: SlowPathParts) {
        let config = &parts.resolver.config;
        self.patience = Duration::from_millis(config.slowpath.deadline_ms);
        self.network.upstreams = config.upstreams.iter().map(|one| one.address.clone()).collect();
        let setup = Setup {
            seed: SEED,
            frames: 0,
            sockets: SOCKETS,
            port_queries: usize::MAX,
            date: Self::date(),
        };
        self.slow_path = Some(SlowPath::new(0, parts, Rng::new(SEED), &setup));
    }

    /// How long it has run.
    pub(crate) fn now(&self) -> Duration {
        self.time.now()
    }

    /// Takes a turn, and takes in what has arrived. Says how much there was to do.
    pub(crate) fn turn(&mut self) -> usize {
        let clock = self.clock();
        let Self { time, network, slow_path, .. } = self;
        let Some(slow_path) = slow_path else { return 0 };
        if let Some(since) = self.ends_since {
            let is_drained = slow_path.drain(network, &clock);
            let is_late = time.now() - since >= self.patience;
            if is_drained && (is_late || slow_path.has_ended()) {
                self.slow_path = None;
                TODAY.set(self.time.date() as u32);
            }
            return 0;
        }
        network.now = time.now();
        let mut done = slow_path.turn(&clock, network);
        while let Some(arrival) = network.arrival(time.now()) {
            slow_path.receive(arrival, &clock, network);
            done += 1;
        }
        done
    }

    /// Takes a turn, and lets time pass: a moment if there was something to do, else until something arrives, but for a step
    /// at most.
    pub(crate) fn go_on(&mut self) {
        if self.turn() > 0 {
            return self.time.advance(TURN);
        }
        let next = self.network.next().map_or(STEP, |at| at.saturating_sub(self.now()));
        self.time.advance(next.clamp(TURN, STEP));
    }

    /// Tells it to stop.
    pub(crate) fn say_stop(&mut self) {
        self.ends_since.get_or_insert_with(|| self.time.now());
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.slow_path.is_none()
    }

    /// Waits for its end.
    pub(crate) fn end(&mut self) {
        while !self.has_ended() {
            self.go_on();
        }
    }
}
