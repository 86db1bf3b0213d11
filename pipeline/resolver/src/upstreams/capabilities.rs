//! What is known of an upstream: whether it understands EDNS, shows cookies and keeps letters. What it cannot do is
//! remembered for a while, so that not every question finds it out anew; then it is tried again.
//!
//! Pure; time is an argument, counted from the start of the process. docs/adr/0026-what-is-believed-of-replies.md says
//! what follows from each.

use std::time::Duration;

use crate::upstreams::cookies::CookieState;
use crate::upstreams::fallback::Fallback;
use crate::upstreams::letter_case::CaseMixer;

/// Questions in a row that an upstream answered without OPT record only, before it is asked without from the start.
const ANSWERS_BEFORE_PLAIN: u32 = 3;
/// How long it is.
const PLAIN_LIFETIME: Duration = Duration::from_secs(900);

/// What is known of one upstream.
#[derive(Clone, Debug)]
pub(crate) struct Capabilities {
    pub(crate) case_mixer: CaseMixer,
    pub(crate) cookies: CookieState,
    without_edns: Fallback,
}

impl Capabilities {
    /// Of one of which nothing is known, and whose letters are mixed or not.
    pub(crate) fn new(mix_case: bool) -> Self {
        Self {
            case_mixer: CaseMixer::new(mix_case),
            cookies: CookieState::default(),
            without_edns: Fallback::new(ANSWERS_BEFORE_PLAIN, PLAIN_LIFETIME),
        }
    }

    /// Whether a query that leaves now has an OPT record.
    pub(crate) fn takes_edns(&self, now: Duration) -> bool {
        !self.without_edns.holds(now)
    }

    /// It answered a query with an OPT record.
    pub(crate) fn took_edns(&mut self) {
        self.without_edns.note_success();
    }

    /// It answered a question without OPT record that it had refused with one. `true`: from now on it is asked without.
    pub(crate) fn took_plain(&mut self, now: Duration) -> bool {
        self.without_edns.note_failure(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1000);

    #[test]
    fn who_takes_no_edns_is_asked_without_for_a_while_and_then_with_it_again() {
        let mut upstream = Capabilities::new(true);
        for _ in 1..ANSWERS_BEFORE_PLAIN {
            assert!(upstream.takes_edns(START) && !upstream.took_plain(START));
        }
        assert!(upstream.took_plain(START) && !upstream.takes_edns(START));
        assert!(!upstream.took_plain(START), "it is known");
        assert!(upstream.takes_edns(START + PLAIN_LIFETIME), "it may have been mended");
    }

    #[test]
    fn audit_low_single_questions_refused_with_edns_take_it_away_from_no_other() {
        let mut upstream = Capabilities::new(true);
        for _ in 0..100 {
            assert!(!upstream.took_plain(START) && !upstream.took_plain(START));
            upstream.took_edns();
        }
        assert!(upstream.takes_edns(START));
    }
}
