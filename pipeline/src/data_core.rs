//! The thread of a data core: turns of its worker, turns of a shard of the slow path if the core resolves, and waits
//! between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pmdns_config::Idle;
use pmdns_nics::{Pause, Sleeper};
use pmdns_stages::Tick;

use crate::clock::Clock;
use crate::idler::{Idler, Wait};
use crate::slowpath::SlowPath;
use crate::worker::{Turn, Worker};

/// How long a worker with packets goes on if the shard had nothing to do. A slow path thread without work naps as long.
const POLL: Duration = Duration::from_micros(50);
/// The longest nap while questions are under way. Upstreams' replies over sockets do not end it.
const NAP: Duration = Duration::from_micros(50);
/// The pause between turns of the end. Other cores that resolve take their answers meanwhile.
const END_PAUSE: Duration = Duration::from_micros(500);
/// Turns of the worker between two turns of the shard's end: enough for the answers of one.
const END_TURNS: usize = 64;

/// Runs turns of the worker until `stop` is set and everything under way has left this core.
pub(crate) fn run(mut worker: Worker, idle: Idle, stop: &AtomicBool) {
    let mut waits = Waits::new(&mut worker, idle);
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
    idle: Idle,
    clock: Clock,
    stop: &AtomicBool,
) {
    let (mut waits, mut shift) = (Waits::new(&mut worker, idle), Shift::new(clock));
    while !stop.load(Ordering::Relaxed) {
        let turn = shift.turn(&mut worker, &mut shard);
        waits.after(turn, &mut worker, || shard.is_idle());
    }
    worker.close_ports();
    let mut shard = Some(shard);
    while !end_turn(&mut worker, &mut shard) {
        std::thread::sleep(END_PAUSE);
    }
}

/// How a data core waits between its turns.
struct Waits {
    idler: Idler,
    pause: Pause,
    sleeper: Option<Arc<Sleeper>>,
}

impl Waits {
    fn new(worker: &mut Worker, idle: Idle) -> Self {
        let sleeper = worker.sleeper(idle);
        let (idler, pause) = (Idler::new(idle, sleeper.is_some()), Pause::of_this_processor());
        idler.tell(pause);
        Self { idler, pause, sleeper }
    }

    /// Waits after this turn, as long as it has to. Unless the worker `may_sleep`, something may come that ends no nap.
    #[inline]
    fn after(&mut self, turn: Turn, worker: &mut Worker, may_sleep: impl FnOnce() -> bool) {
        match self.idler.after(turn) {
            Wait::None => {}
            Wait::Pause => self.pause.pause(),
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
        let taken = end.saturating_sub(start);
        worker.note_resolving(taken);
        self.due = end + if done > 0 { taken } else { self.poll };
        if done > 0 { Turn::Busy } else { turn }
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
