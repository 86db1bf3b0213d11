//! Messages to systemd: that pmdns is ready, that it stops, and that its data cores work (sd_notify(3)).

use std::time::{Duration, Instant};

use pmdns_engine::clock::Clock;
use sd_notify::NotifyState;

/// A data core that has published nothing for so long is stuck. It does so every 10 ms.
pub const STUCK_AFTER: Duration = Duration::from_secs(1);

/// The manager of this service, if the environment names one.
#[derive(Debug, Default)]
pub struct Supervisor {
    /// How often it wants to hear that the data cores work.
    interval: Option<Duration>,
    told: Option<Instant>,
}

impl Supervisor {
    /// The one that this process's environment names, or nobody.
    pub fn from_environment() -> Self {
        // Half of the time that it waits, as sd_watchdog_enabled(3) advises.
        Self { interval: sd_notify::watchdog_enabled().map(|wait| wait / 2), told: None }
    }

    /// Queries are answered from now on.
    pub fn ready(&self) {
        tell(NotifyState::Ready);
    }

    /// Waiting clients get their last answers.
    pub fn stopping(&self) {
        tell(NotifyState::Stopping);
    }

    /// Tells that the data cores work, as often as it is wanted and only if they do. A manager that hears nothing restarts
    /// the service.
    pub fn watch(&mut self, now: Instant, work: impl FnOnce() -> bool) {
        if self.is_due(now) && work() {
            tell(NotifyState::Watchdog);
            self.told = Some(now);
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        let since = self.told.map(|told| now.saturating_duration_since(told));
        self.interval.is_some_and(|interval| since.is_none_or(|since| since >= interval))
    }
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!("systemd was not told: {error}");
    }
}

/// The first worker that has published nothing for [`STUCK_AFTER`]. `published`: when each worker did so last.
pub fn stuck_worker(published: impl IntoIterator<Item = u64>, clock: &Clock) -> Option<usize> {
    let oldest = clock.now().saturating_sub(clock.ticks_of(STUCK_AFTER));
    published.into_iter().position(|tick| tick < oldest)
}

#[cfg(test)]
mod tests {
    use pmdns_engine::clock::SteppedTime;

    use super::*;

    #[test]
    fn it_is_told_in_time_and_only_while_the_cores_work() {
        let start = Instant::now();
        let mut supervisor = Supervisor { interval: Some(Duration::from_secs(5)), told: None };
        assert!(supervisor.is_due(start));
        supervisor.watch(start, || false);
        assert!(supervisor.is_due(start), "nothing was told");
        supervisor.watch(start, || true);
        assert!(!supervisor.is_due(start + Duration::from_millis(4999)));
        assert!(supervisor.is_due(start + Duration::from_secs(5)));
        Supervisor::default().watch(start, || panic!("nobody wants to know"));
    }

    #[test]
    fn a_core_that_publishes_nothing_for_a_second_is_stuck() {
        let time = SteppedTime::since(0);
        let clock = Clock::stepped(time);
        let published = clock.now();
        time.advance(STUCK_AFTER);
        assert_eq!(stuck_worker([published, published], &clock), None);
        time.advance(Duration::from_millis(1));
        assert_eq!(stuck_worker([clock.now(), published], &clock), Some(1));
    }
}
