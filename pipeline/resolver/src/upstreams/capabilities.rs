//! The known capabilities of an upstream: EDNS, DNS cookies, and replies in the letter case of the query. A missing one
//! is remembered for a while, so that not every question has to discover it. Then it is tried again.
//!
//! Pure; time is an argument, counted from the start of the process. docs/adr/0026-what-is-believed-of-replies.md says
//! how each is used.

use std::time::Duration;

use crate::upstreams::cookies::CookieJar;

/// After so many questions in a row that an upstream answered only without an OPT record, it is asked without one at
/// once.
const ANSWERS_BEFORE_PLAIN: u32 = 3;
/// How long it is asked without one.
const EDNS_PAUSE: Duration = Duration::from_secs(900);
/// After so many replies in a row with another letter case, an upstream is asked in lower case.
const MISSPELT_BEFORE_PLAIN: u32 = 3;
/// How long it is asked in lower case.
const CASE_PAUSE: Duration = Duration::from_secs(3600);

/// The capabilities of one upstream.
#[derive(Clone, Debug)]
pub(crate) struct Capabilities {
    pub(crate) in_lower_case: Fallback,
    pub(crate) without_edns: Fallback,
    pub(crate) cookies: CookieJar,
}

impl Default for Capabilities {
    /// Nothing is known yet.
    fn default() -> Self {
        Self {
            in_lower_case: Fallback::new(MISSPELT_BEFORE_PLAIN, CASE_PAUSE),
            without_edns: Fallback::new(ANSWERS_BEFORE_PLAIN, EDNS_PAUSE),
            cookies: CookieJar::default(),
        }
    }
}

/// Whether a feature is turned off for an upstream: after some failures in a row, and for a while.
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
