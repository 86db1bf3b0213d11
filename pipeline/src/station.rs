//! A station: a stage at its place on a core's line, with its meter; and how a line of stations is declared.

use pmdns_stages::{Batch, Context, Exits, Stage, Step, Tick};

use crate::clock::Clock;

/// Declares the line: what a core mans, and one of each stage to man it with. No other place lists the stages in order.
macro_rules! line {
    ($($(#[doc = $about:literal])* $stage:ident: $Stage:ty,)*) => {
        use pmdns_config::Stretch;
        use pmdns_stages::{Batch, Context, Exits, Stage, StageName};

        use $crate::station::{Lap, Meter, Station};

        /// The stretch of the line that one core mans. The other stations are manned elsewhere.
        #[derive(Debug)]
        pub struct Line {
            $($stage: Station<$Stage>,)*
        }

        impl Line {
            /// Takes every packet of the batch as far down the line as this core's stretch goes.
            #[inline]
            pub fn process(&mut self, batch: &mut Batch, context: &Context, lap: &mut Lap) {
                $(self.$stage.run(batch, context, lap);)*
            }

            /// What each station has counted, in line order.
            pub fn meters(&self) -> [&Meter; StageName::COUNT] {
                [$(self.$stage.meter(),)*]
            }
        }

        /// One of each stage, to be put on as many lines as there are cores.
        #[derive(Clone, Debug)]
        pub struct Stages {
            $($(#[doc = $about])* pub $stage: $Stage,)*
        }

        impl Stages {
            /// The line of a core that mans `stretch`.
            pub fn man(&self, stretch: Stretch) -> Line {
                fn station<S: Stage + Clone>(stretch: Stretch, stage: &S) -> Station<S> {
                    Station::new(stretch.contains(S::NAME).then(|| stage.clone()))
                }
                Line { $($stage: station(stretch, &self.$stage),)* }
            }

            /// Takes a batch down the line, uncounted, as far as to the stage `end`, which is not done any more. `None`:
            /// all the way.
            pub fn process_until(
                &mut self,
                end: Option<StageName>,
                batch: &mut Batch,
                context: &Context,
            ) {
                let end = end.map_or(StageName::COUNT, |end| end as usize);
                $(if (<$Stage>::NAME as usize) < end {
                    self.$stage.process(batch, context, &mut Exits::default());
                })*
            }
        }

        // Who stands where is said by the order of the names.
        const _: () = {
            let names = [$(<$Stage>::NAME as usize,)*];
            let mut index = 0;
            while index < names.len() {
                assert!(names[index] == index, "the line has the order of `StageName`");
                index += 1;
            }
        };
    };
}

pub(crate) use line;

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
