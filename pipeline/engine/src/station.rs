//! A station: a stage at its place on a core's line, with its meter. The macro `line!` declares a line of stations.

use pmdns_stages::{Batch, Context, Exits, Stage, Step, Tick};

use crate::clock::Clock;

/// Declares the line: the stations of a core, and one of each stage for them. No other place lists the stages in order.
macro_rules! line {
    ($($(#[doc = $about:literal])* $stage:ident: $Stage:ty,)*) => {
        use pmdns_config::Stretch;
        use pmdns_stages::{Batch, Context, Exits, Stage, StageName};

        use $crate::observe::Observers;
        use $crate::station::{StageTimer, Meter, Station};

        /// The stretch of the line that one core runs. Other cores run the other stations.
        #[derive(Debug)]
        pub struct Line {
            $($stage: Station<$Stage>,)*
        }

        impl Line {
            /// Takes every packet of the batch down the line, to the end of this core's stretch.
            #[inline]
            pub fn process(&mut self, batch: &mut Batch, context: &Context, lap: &mut StageTimer) {
                $(self.$stage.run(batch, context, lap);)*
            }

            /// The same, and shows `observers` every packet that leaves a station.
            #[cold]
            pub fn process_observed(
                &mut self,
                batch: &mut Batch,
                context: &Context,
                lap: &mut StageTimer,
                observers: &mut Observers,
            ) {
                $({
                    let run = |batch: &mut Batch, lap: &mut StageTimer| self.$stage.run(batch, context, lap);
                    observers.watch(batch, <$Stage>::NAME, lap, run);
                })*
            }

            /// The counts of each station, in line order.
            pub fn meters(&self) -> [&Meter; StageName::COUNT] {
                [$(self.$stage.meter(),)*]
            }
        }

        /// One of each stage, which is copied to the line of each core.
        #[derive(Clone, Debug)]
        pub struct Stages {
            $($(#[doc = $about])* pub $stage: $Stage,)*
        }

        impl Stages {
            /// The line of a core that runs `stretch`.
            pub fn line_for(&self, stretch: Stretch) -> Line {
                fn station<S: Stage + Clone>(stretch: Stretch, stage: &S) -> Station<S> {
                    Station::new(stretch.contains(S::NAME).then(|| stage.clone()))
                }
                Line { $($stage: station(stretch, &self.$stage),)* }
            }

            /// Has one stage act on the packets that stand there, without counting.
            pub fn process_at(&mut self, stage: StageName, batch: &mut Batch, context: &Context) {
                $(if stage == <$Stage>::NAME {
                    self.$stage.process(batch, context, &mut Exits::default());
                })*
            }

            /// Takes a batch down the line without counting, up to but not including the stage `end`. `None`: all
            /// stages.
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

        // The order of the stations must be the order of the names.
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

/// A stage at its place. `None`: another core runs it.
#[derive(Debug)]
pub struct Station<S> {
    stage: Option<S>,
    meter: Meter,
}

/// The counters of a station, written by its core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Batches in which at least one packet stood here.
    pub batches: u64,
    /// Ticks spent on them.
    pub ticks: u64,
    /// Where the packets went.
    pub exits: Exits,
}

/// Times consecutive pieces of work. The end of one is the start of the next.
#[derive(Debug)]
pub struct StageTimer {
    clock: Clock,
    last: Tick,
}

impl StageTimer {
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
    /// A station with `stage`, or an empty one.
    pub fn new(stage: Option<S>) -> Self {
        Self { stage, meter: Meter::default() }
    }

    /// Has the stage act on the packets that are at this station. Not inlined: one call for each batch costs nothing,
    /// and stages that share the registers of one function are slower.
    #[inline(never)]
    pub fn run(&mut self, batch: &mut Batch, context: &Context, lap: &mut StageTimer) {
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

    /// The stage, if this core runs it.
    pub fn stage_mut(&mut self) -> Option<&mut S> {
        self.stage.as_mut()
    }

    /// The stage, if this core runs it.
    pub fn stage(&self) -> Option<&S> {
        self.stage.as_ref()
    }

    /// The counters so far.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }
}
