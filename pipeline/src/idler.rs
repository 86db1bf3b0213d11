//! How a worker waits when no packets come.

use std::time::Duration;

use pmdns_config::Idle;

use crate::worker::Turn;

/// Idle turns before an adaptive worker starts to sleep.
const PATIENCE: u32 = 2000;
/// An adaptive worker's first nap and longest nap.
const NAPS: (Duration, Duration) = (Duration::from_micros(20), Duration::from_micros(200));

/// How a worker waits between turns.
pub(crate) struct Idler {
    idle: Idle,
    idle_turns: u32,
}

impl Idler {
    pub(crate) fn new(idle: Idle) -> Self {
        Self { idle, idle_turns: 0 }
    }

    /// After an idle turn an adaptive worker pauses. After many it sleeps, longer each time.
    #[inline]
    pub(crate) fn after(&mut self, turn: Turn) {
        if self.idle == Idle::Spin {
            return;
        }
        if turn == Turn::Busy {
            self.idle_turns = 0;
            return;
        }
        self.idle_turns = self.idle_turns.saturating_add(1);
        match self.idle_turns.checked_sub(PATIENCE) {
            None => std::hint::spin_loop(),
            Some(naps) => std::thread::sleep((NAPS.0 * (naps / 16 + 1)).min(NAPS.1)),
        }
    }
}
