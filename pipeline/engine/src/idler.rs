//! How a worker waits when no packets come.

use std::time::Duration;

use pmdns_config::Idle;
use pmdns_nics::Pause;

use crate::worker::Turn;

/// Idle turns before an adaptive worker starts to sleep.
const PATIENCE: u32 = 2000;
/// An adaptive worker's first nap.
const FIRST_NAP: Duration = Duration::from_micros(20);
/// Naps of one length.
const NAPS_ALIKE: u32 = 16;
/// The longest nap if packets do not end it.
const LONGEST_NAP: Duration = Duration::from_micros(200);
/// The longest nap if packets end it. Answers and queries of the slow path do not.
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// How a worker waits between turns.
pub(crate) struct Idler {
    idle: Idle,
    longest: Duration,
    has_company: bool,
    idle_turns: u32,
}

/// The wait before the next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    None,
    Pause,
    /// Other threads of this CPU go first.
    Yield,
    Nap(Duration),
}

impl Idler {
    /// How one waits whose naps may end early, when packets come, or not. With company, other threads of pmdns are on its CPU.
    pub(crate) fn new(idle: Idle, is_woken: bool, has_company: bool) -> Self {
        let longest = if is_woken { LONGEST_SLEEP } else { LONGEST_NAP };
        Self { idle, longest, has_company, idle_turns: 0 }
    }

    /// Logs how it waits, when its thread starts.
    pub(crate) fn log_mode(&self, pause: Pause) {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("a worker");
        let pauses = if pause.is_timed() { "tpause" } else { "the processor has no tpause" };
        match self.idle {
            Idle::Spin => tracing::info!("{name} polls without pause"),
            Idle::Adaptive if self.longest == LONGEST_SLEEP => tracing::info!(
                "{name} sleeps when nothing comes, and packets wake it by RX interrupts ({pauses})"
            ),
            Idle::Adaptive => tracing::info!(
                "{name} sleeps up to {LONGEST_NAP:?} when nothing comes: its inputs have no RX interrupts ({pauses})"
            ),
        }
    }

    /// After an idle turn an adaptive worker pauses, or lets others go first: what they do may be what it waits for. After many it
    /// sleeps, longer each time.
    #[inline]
    pub(crate) fn after(&mut self, turn: Turn) -> Wait {
        if self.idle == Idle::Spin {
            return Wait::None;
        }
        if turn == Turn::Busy {
            self.idle_turns = 0;
            return Wait::None;
        }
        self.idle_turns = self.idle_turns.saturating_add(1);
        match self.idle_turns.checked_sub(PATIENCE) {
            None if self.has_company => Wait::Yield,
            None => Wait::Pause,
            Some(naps) => {
                Wait::Nap(FIRST_NAP.saturating_mul(naps / NAPS_ALIKE + 1).min(self.longest))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What so many idle turns lead to, the last of them.
    fn after(idler: &mut Idler, idle_turns: u32) -> Wait {
        let waits = (0..idle_turns).map(|_| idler.after(Turn::Idle));
        waits.last().unwrap()
    }

    #[test]
    fn one_that_spins_never_waits() {
        let mut idler = Idler::new(Idle::Spin, true, true);
        assert_eq!(after(&mut idler, 10 * PATIENCE), Wait::None);
    }

    #[test]
    fn an_adaptive_one_pauses_then_naps_longer_each_time_until_work_comes() {
        for (is_woken, longest) in [(false, LONGEST_NAP), (true, LONGEST_SLEEP)] {
            let mut idler = Idler::new(Idle::Adaptive, is_woken, false);
            assert_eq!(after(&mut idler, PATIENCE - 1), Wait::Pause);
            assert_eq!(after(&mut idler, NAPS_ALIKE), Wait::Nap(FIRST_NAP));
            assert_eq!(after(&mut idler, 1), Wait::Nap(FIRST_NAP * 2));
            assert_eq!(after(&mut idler, PATIENCE), Wait::Nap(longest));
            assert_eq!(idler.after(Turn::Busy), Wait::None);
            assert_eq!(idler.after(Turn::Idle), Wait::Pause, "it starts anew");
        }
    }

    #[test]
    fn with_company_it_lets_others_go_first() {
        let mut idler = Idler::new(Idle::Adaptive, true, true);
        assert_eq!(idler.after(Turn::Busy), Wait::None);
        assert_eq!(after(&mut idler, PATIENCE - 1), Wait::Yield);
        assert_eq!(idler.after(Turn::Idle), Wait::Nap(FIRST_NAP));
    }

    /// What comes over a ring waits until a nap ends.
    #[test]
    fn a_nap_is_short_beside_the_time_without_work() {
        let mut idler = Idler::new(Idle::Adaptive, true, false);
        let mut idle = Duration::ZERO;
        for _ in 0..10 * PATIENCE {
            if let Wait::Nap(nap) = idler.after(Turn::Idle) {
                idle += nap;
                assert!(
                    idle < Duration::from_millis(20) || nap * 20 <= idle,
                    "{nap:?} after {idle:?}"
                );
            }
        }
    }
}
