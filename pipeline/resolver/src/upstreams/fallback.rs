//! After some failures in a row, a feature that an upstream does not support is turned off for a while. Then it is
//! tried again.
//!
//! Pure; time is an argument, counted from the start of the process.

use std::time::Duration;

/// Whether a feature is turned off for an upstream.
#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    limit: u32,
    lifetime: Duration,
    failures: u32,
    until: Duration,
}

impl Fallback {
    /// After `limit` failures in a row the feature is off for `lifetime`.
    pub(crate) fn new(limit: u32, lifetime: Duration) -> Self {
        Self { limit, lifetime, failures: 0, until: Duration::ZERO }
    }

    /// Whether the feature is off now.
    pub(crate) fn holds(&self, now: Duration) -> bool {
        now < self.until
    }

    /// The feature worked.
    pub(crate) fn note_success(&mut self) {
        self.failures = 0;
    }

    /// It failed. `true`: from now on it is off.
    pub(crate) fn note_failure(&mut self, now: Duration) -> bool {
        // Queries that left before it was turned off tell nothing new.
        if self.holds(now) {
            return false;
        }
        self.failures += 1;
        if self.failures < self.limit {
            return false;
        }
        self.failures = 0;
        self.until = now + self.lifetime;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1000);
    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_feature_that_fails_in_a_row_is_off_for_a_while_and_then_tried_again() {
        let mut fallback = Fallback::new(3, HOUR);
        for _ in 1..3 {
            assert!(!fallback.holds(START) && !fallback.note_failure(START));
        }
        assert!(fallback.note_failure(START) && fallback.holds(START));
        assert!(!fallback.note_failure(START), "it is known");
        assert!(!fallback.holds(START + HOUR), "it may have been mended");
    }

    #[test]
    fn audit_low_a_feature_that_fails_now_and_then_stays_on() {
        let mut fallback = Fallback::new(3, HOUR);
        for _ in 0..100 {
            assert!(!fallback.note_failure(START) && !fallback.note_failure(START));
            fallback.note_success();
        }
        assert!(!fallback.holds(START));
    }
}
