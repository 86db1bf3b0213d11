//! News of changed files, and when a reload that failed is repeated.

use std::time::{Duration, Instant};

use pmdns_engine::clock::back_off;

/// The pause after the first reload that failed although files had changed. It doubles with each further one.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest of these pauses.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// News of changed files that the configuration in use names. News comes only once, so it is kept until a reload has
/// read the files.
#[derive(Default)]
pub(super) struct News {
    /// News has come since the last reload began.
    pub(super) is_fresh: bool,
    /// There was news when a reload began, and no reload has succeeded since.
    pub(super) is_owed: bool,
    /// When a failed reload is repeated.
    pub(super) due: Option<Instant>,
    /// Pauses since the last success.
    pub(super) pauses: u32,
}

impl News {
    pub(super) fn are_due(&self, now: Instant) -> bool {
        self.is_fresh || self.is_past_due(now)
    }

    fn is_past_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// A reload begins. Whatever its cause, it reads the changed files.
    pub(super) fn begin(&mut self, now: Instant) {
        self.is_owed |= std::mem::take(&mut self.is_fresh);
        if self.is_past_due(now) {
            self.due = None;
        }
    }

    /// It has succeeded. It may not have read files that changed meanwhile.
    pub(super) fn settle(&mut self) {
        *self = Self { is_fresh: self.is_fresh, ..Self::default() };
    }

    /// It has failed. A time that is set already stays, so requests for reloads cannot delay the repetition.
    pub(super) fn fail(&mut self, now: Instant) {
        if self.is_owed && self.due.is_none() {
            self.due = Some(now + pause(self.pauses));
            self.pauses = self.pauses.saturating_add(1);
        }
    }
}

/// The length of the next pause, after `pauses` earlier ones.
pub(super) fn pause(pauses: u32) -> Duration {
    back_off(FIRST_PAUSE, pauses.into(), LONGEST_PAUSE)
}
