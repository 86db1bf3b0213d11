//! News of changed files, and when a reload that failed is repeated.

use std::time::{Duration, Instant};

/// The pause after the first reload that failed although files had changed. It doubles with each further one.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest of these pauses.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// News of changed files that the configuration in use names. News comes only once, so it is kept until a reload has
/// read the files.
#[derive(Default, Debug)]
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
    // Long before so many doublings it is the longest.
    (FIRST_PAUSE * (1 << pauses.min(16))).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_that_an_operator_asks_for_puts_nothing_off_and_settles_what_is_owed() {
        let start = Instant::now();
        let mut news = News { is_fresh: true, ..News::default() };
        news.begin(start);
        news.fail(start);
        let due = start + FIRST_PAUSE;
        assert!(!news.are_due(start) && news.are_due(due));
        news.begin(start);
        news.fail(start + FIRST_PAUSE / 2);
        assert_eq!(news.due, Some(due), "as it was");
        news.begin(start);
        news.is_fresh = true;
        news.settle();
        assert!(!news.is_owed && news.due.is_none());
        assert!(news.are_due(start), "what came meanwhile is still to be read");
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew_after_a_success() {
        let mut now = Instant::now();
        let mut news = News { is_fresh: true, ..News::default() };
        let mut next = |news: &mut News| {
            news.begin(now);
            news.fail(now);
            let seconds = (news.due.unwrap() - now).as_secs();
            now = news.due.unwrap();
            seconds
        };
        let pauses = [(); 7].map(|()| next(&mut news));
        assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
        news.settle();
        news.is_fresh = true;
        assert_eq!(next(&mut news), 10);
    }
}
