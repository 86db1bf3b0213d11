//! ICMP errors that are believed, so many a second.

use std::time::Duration;

/// ICMP errors that a thread believes in a second. More are an attack, or a path that is down: then queries time out.
const ERRORS_PER_SECOND: u32 = 100;

/// The ICMP errors that were believed in one second. Forged ones that match no query do not count, so they keep out none.
#[derive(Debug, Default)]
pub(super) struct BelievedErrors {
    second: u64,
    count: u32,
}

impl BelievedErrors {
    pub(super) fn are_enough(&self, now: Duration) -> bool {
        self.second == now.as_secs() && self.count >= ERRORS_PER_SECOND
    }

    pub(super) fn note(&mut self, now: Duration) {
        let before = if self.second == now.as_secs() { self.count } else { 0 };
        *self = Self { second: now.as_secs(), count: before + 1 };
    }
}
