//! The thread of a data core: turns of its worker, and waits between them. If the core resolves, it takes turns of a
//! shard of the slow path as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pmdns_config::Idle;
use pmdns_nics::{Pause, Sleeper};
use pmdns_stages::Tick;

use crate::clock::Clock;
use crate::idler::{Idler, Wait};
use crate::slowpath::SlowPath;
use crate::threads::nap;
use crate::worker::{Turn, Worker};

/// How long a worker with packets goes on if the shard had nothing to do. A slow path thread without work naps as long.
const POLL: Duration = Duration::from_micros(50);
/// The longest nap while questions are under way. Upstreams' replies over sockets do not end it.
const NAP: Duration = Duration::from_micros(50);
/// The pause between turns of the end. Other cores that resolve take their answers meanwhile.
const END_PAUSE: Duration = Duration::from_micros(500);
/// Turns of the worker between two turns of the shard's end: enough for the answers of one.
const END_TURNS: usize = 64;

/// How a data core waits, as the plan has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    pub(crate) idle: Idle,
    /// Whether other threads of pmdns are on its CPU.
    pub(crate) has_company: bool,
}

/// Runs turns of the worker until `stop` is set and everything under way has left this core.
pub(crate) fn run(mut worker: Worker, patience: Patience, stop: &AtomicBool) {
    worker.adopt_thread();
    let mut waits = Waits::new(&mut worker, patience).logged();
    while !stop.load(Ordering::Relaxed) {
        let turn = worker.turn();
        waits.after(turn, &mut worker, || true);
    }
    worker.close_ports();
    while !worker.has_ended() {
        let turn = worker.turn();
        waits.after(turn, &mut worker, || true);
    }
}

/// The same with turns of a shard of the slow path between them.
pub(crate) fn run_resolving(
    mut worker: Worker,
    mut shard: impl Shard,
    patience: Patience,
    clock: Clock,
    stop: &AtomicBool,
) {
    worker.adopt_thread();
    let mut waits = Waits::new(&mut worker, patience).logged();
    let mut shift = Shift::new(clock);
    while !stop.load(Ordering::Relaxed) {
        let turn = shift.turn(&mut worker, &mut shard);
        waits.after(turn, &mut worker, || shard.is_idle());
    }
    worker.close_ports();
    let mut shard = Some(shard);
    while !end_turn(&mut worker, &mut shard) {
        nap(END_PAUSE);
    }
}

/// How a data core waits between its turns.
struct Waits {
    patience: Patience,
    idler: Idler,
    pause: Pause,
    sleeper: Option<Arc<Sleeper>>,
}

impl Waits {
    fn new(worker: &mut Worker, patience: Patience) -> Self {
        let Patience { idle, has_company } = patience;
        let sleeper = worker.sleeper(idle);
        let idler = Idler::new(idle, sleeper.is_some(), has_company);
        let pause = Pause::of_this_processor();
        Self { patience, idler, pause, sleeper }
    }

    /// Logs how the core waits, when its thread starts.
    fn logged(self) -> Self {
        self.idler.log_mode(self.pause);
        self
    }

    /// Waits after this turn, as long as it has to. Unless the worker `may_sleep`, something may come that ends no nap.
    #[inline]
    fn after(&mut self, turn: Turn, worker: &mut Worker, may_sleep: impl FnOnce() -> bool) {
        match self.idler.after(turn) {
            Wait::None => {}
            Wait::Pause => self.pause.pause(),
            Wait::Yield => std::thread::yield_now(),
            // Its new queues are to wake it too.
            Wait::Nap(_) if worker.take_other_queues() => *self = Self::new(worker, self.patience),
            Wait::Nap(most) => {
                let (most, sleeper) = match may_sleep() {
                    true => (most, self.sleeper.as_deref()),
                    false => (most.min(NAP), None),
                };
                if worker.nap(most, sleeper) == Turn::Busy {
                    self.idler.after(Turn::Busy);
                }
            }
        }
    }
}

/// A shard of the slow path, as the core that turns it sees it.
pub trait Shard {
    /// Takes one turn, and returns how much work there was.
    fn turn(&mut self) -> usize;
    /// Whether no question is under way.
    fn is_idle(&self) -> bool;
    /// Takes one turn of the end, after which no client of the last ones waits. `true`: nobody can send it a miss any more.
    fn end(&mut self) -> bool;
}

impl Shard for SlowPath {
    fn turn(&mut self) -> usize {
        self.turn()
    }

    fn is_idle(&self) -> bool {
        self.is_idle()
    }

    fn end(&mut self) -> bool {
        self.end_turn()
    }
}

/// Divides the time of a core between its worker and a shard of the slow path.
pub struct Shift {
    clock: Clock,
    poll: Tick,
    /// Until then the worker goes on, if it finds packets.
    due: Tick,
}

impl Shift {
    /// The shard's first turn is due.
    pub fn new(clock: Clock) -> Self {
        Self { clock, poll: clock.ticks_of(POLL), due: 0 }
    }

    /// One turn of the worker. If it found nothing, or the shard is due, one of the shard.
    ///
    /// While packets come, the worker gets as much time as the shard's last turn took. So a storm of misses leaves half of
    /// the core to the line.
    pub fn turn(&mut self, worker: &mut Worker, shard: &mut impl Shard) -> Turn {
        let turn = worker.turn();
        let start = self.clock.now();
        if turn == Turn::Busy && start < self.due {
            return turn;
        }
        let done = shard.turn();
        let end = self.clock.now();
        if done == 0 {
            self.due = end + self.poll;
            return turn;
        }
        let taken = end.saturating_sub(start);
        self.due = end + taken;
        worker.note_resolving(taken);
        Turn::Busy
    }
}

/// One turn of the end: what the worker holds leaves, and then the shard's clients are answered. A shard that has ended is
/// dropped, so that its rings end. `true`: the core has ended.
pub fn end_turn(worker: &mut Worker, shard: &mut Option<impl Shard>) -> bool {
    for _ in 0..END_TURNS {
        if worker.turn() == Turn::Idle {
            break;
        }
    }
    if shard.as_mut().is_some_and(Shard::end) {
        *shard = None;
    }
    worker.has_ended()
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use pmdns_nics::{Burst, Queues, RxQueue};

    use super::*;
    use crate::clock::SteppedTime;
    use crate::slowpath::SlowPathParts;
    use crate::testing::{Rig, config};

    const STEP: Duration = Duration::from_micros(10);

    /// A shard whose turns all take the same time.
    struct Fake {
        time: SteppedTime,
        takes: Duration,
        /// How much work it says there was.
        work: usize,
        turns: usize,
        /// Turns that its end takes.
        left: usize,
        /// The ends of its rings.
        _rings: SlowPathParts,
    }

    impl Shard for Fake {
        fn turn(&mut self) -> usize {
            self.turns += 1;
            self.time.advance(self.takes);
            self.work
        }

        fn is_idle(&self) -> bool {
            self.work == 0
        }

        fn end(&mut self) -> bool {
            self.left -= 1;
            self.left == 0
        }
    }

    /// A core that resolves, and a shard with so much work.
    fn core(work: usize) -> (Rig, Shift, Fake) {
        let (mut rig, time) =
            Rig::stepped(&config("[[placement]]\ncores = [1]\nresolver = true\n"));
        let rings = rig.slow_path.remove(0);
        let shift = Shift::new(rings.clock);
        let takes = if work > 0 { 3 * STEP } else { Duration::ZERO };
        (rig, shift, Fake { time, takes, work, turns: 0, left: 3, _rings: rings })
    }

    /// In which of these turns the shard had one too. A packet comes before each, if they come.
    fn turns_of(core: (Rig, Shift, Fake), turns: usize, packets_come: bool) -> Vec<usize> {
        let (mut rig, mut shift, mut shard) = core;
        let mut had = Vec::new();
        for number in 0..turns {
            if packets_come {
                let mut frames: Burst = std::iter::once(rig.frame(&[0; 60])).collect();
                rig.offer(0, &mut frames);
            }
            let before = shard.turns;
            let turn = shift.turn(&mut rig.workers[0], &mut shard);
            had.extend((shard.turns > before).then_some(number));
            let is_busy = packets_come || shard.work > 0;
            assert_eq!(turn, if is_busy { Turn::Busy } else { Turn::Idle });
            shard.time.advance(STEP);
        }
        had
    }

    #[test]
    fn while_packets_come_the_line_has_as_much_time_as_the_misses() {
        assert_eq!(turns_of(core(1), 10, true), [0, 3, 6, 9]);
    }

    #[test]
    fn a_shard_without_work_is_asked_now_and_then() {
        assert_eq!(turns_of(core(0), 11, true), [0, 5, 10]);
    }

    #[test]
    fn without_packets_the_shard_always_has_its_turn() {
        for work in [0, 1] {
            assert_eq!(turns_of(core(work), 4, false), [0, 1, 2, 3]);
        }
    }

    /// A queue that can wake a core.
    struct Waking;

    impl RxQueue for Waking {
        fn receive(&mut self, _burst: &mut Burst, _limit: usize) -> usize {
            0
        }

        fn wake(&mut self, _sleeper: &Arc<Sleeper>) -> bool {
            true
        }
    }

    #[test]
    fn a_core_sleeps_as_the_queues_allow_that_it_has_now() {
        let mut rig = Rig::new(&config(""));
        let patience = Patience { idle: Idle::Adaptive, has_company: false };
        let mut waits = Waits::new(&mut rig.workers[0], patience);
        assert!(waits.sleeper.is_none(), "the queues of a rig wake nobody");
        let mut wait = |rig: &mut Rig| {
            while !matches!(waits.idler.after(Turn::Idle), Wait::Nap(_)) {}
            rig.settle();
            waits.after(Turn::Idle, &mut rig.workers[0], || true);
            waits.sleeper.is_some()
        };
        rig.news.bring(0, Queues { rx: vec![Box::new(Waking)], ..Queues::default() });
        assert!(wait(&mut rig));
        rig.news.leave(0);
        assert!(wait(&mut rig), "a closed port is no reason to poll");
        assert!(rig.workers[0].sleeper(Idle::Adaptive).is_some());
        rig.news.bring(0, Queues::none(1, 1));
        assert!(!wait(&mut rig), "one that cannot wake is");
    }

    #[test]
    fn the_core_ends_when_its_shard_has() {
        let (mut rig, _, shard) = core(1);
        let (worker, mut shard) = (&mut rig.workers[0], Some(shard));
        worker.close_ports();
        assert_eq!([(); 3].map(|()| end_turn(worker, &mut shard)), [false, false, true]);
        assert!(shard.is_none(), "its rings have ended");
    }
}
