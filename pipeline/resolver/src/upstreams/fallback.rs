//! A way to ask that an upstream fails at is left for a while after some failures in a row, and then tried again.
//!
//! Pure; time is an argument, counted from the start of the process.

use std::time::Duration;

/// Whether a way to ask is left.
#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    limit: u32,
    lifetime: Duration,
    failures: u32,
    until: Duration,
}

impl Fallback {
    /// After `limit` failures in a row the way is left for `lifetime`.
    pub(crate) fn new(limit: u32, lifetime: Duration) -> Self {
        Self { limit, lifetime, failures: 0, until: Duration::ZERO }
    }

    /// Whether the way is left now.
    pub(crate) fn holds(&self, now: Duration) -> bool {
        now < self.until
    }

    /// The way worked.
    pub(crate) fn note_success(&mut self) {
        self.failures = 0;
    }

    /// It failed. `true`: from now on it is left.
    pub(crate) fn note_failure(&mut self, now: Duration) -> bool {
        // Queries that left before that was known teach nothing more.
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
