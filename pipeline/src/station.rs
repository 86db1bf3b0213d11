//! A station: a stage at its place on a core's line, with its meter.

use pmdns_stages::{Batch, Context, Exits, Stage, Step, Tick};

use crate::clock::Clock;

/// A stage at its place; without a stage, the place is manned elsewhere.
#[derive(Debug)]
pub struct Station<S> {
    stage: Option<S>,
    meter: Meter,
}

/// What a station has done, counted by the core that mans it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Batches in which at least one packet stood here.
    pub batches: u64,
    /// Ticks spent on them.
    pub ticks: u64,
    /// Where the packets went.
    pub exits: Exits,
}

/// Times consecutive pieces of work: the end of one is the start of the next.
#[derive(Debug)]
pub struct Lap {
    clock: Clock,
    last: Tick,
}

impl Lap {
    /// Starts timing at `now`.
    #[inline]
    pub fn start(clock: Clock, now: Tick) -> Self {
        Self { clock, last: now }
    }

    /// When the last piece ended.
    #[inline]
    pub fn end(&self) -> Tick {
        self.last
    }

    /// Ticks since the start or the last split.
    #[inline]
    pub fn split(&mut self) -> u64 {
        let now = self.clock.now();
        let lap = now.saturating_sub(self.last);
        self.last = now;
        lap
    }
}

impl<S: Stage> Station<S> {
    /// A station manned by `stage`, or by nobody.
    pub fn new(stage: Option<S>) -> Self {
        Self { stage, meter: Meter::default() }
    }

    /// Has the stage act on the packets that stand here. Not inlined: a call a batch is nothing, and stages that
    /// share a function's registers are slower.
    #[inline(never)]
    pub fn run(&mut self, batch: &mut Batch, context: &Context, lap: &mut Lap) {
        let Some(stage) = &mut self.stage else { return };
        if !batch.iter().any(|packet| packet.step == Step::at(S::NAME)) {
            return;
        }
        stage.process(batch, context, &mut self.meter.exits);
        self.meter.batches += 1;
        if !stage.is_idle() {
            self.meter.ticks += lap.split();
        }
    }

    /// The stage, where it is manned.
    pub fn stage_mut(&mut self) -> Option<&mut S> {
        self.stage.as_mut()
    }

    /// What the station has done so far.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }
}
