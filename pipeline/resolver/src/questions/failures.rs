//! Questions that failed a moment ago (RFC 9520). A name that cannot be resolved costs its upstreams one query a
//! second, however often clients ask.
//!
//! A pure state machine; time is an argument.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use pmdns_stages::wire::edns::ExtendedError;

use crate::questions::hashed::HashedMap;
use crate::questions::question::Question;

/// Failures remembered at once. The oldest makes room.
const MAX_FAILURES: usize = 16_384;

/// The questions that failed.
#[derive(Debug)]
pub(crate) struct Failures {
    /// How long each is remembered.
    lifetime: Duration,
    /// Until when each is remembered, and why it failed.
    until: HashedMap<Rc<Question>, (Duration, ExtendedError)>,
    /// In the order in which they failed, which is the order in which they are forgotten.
    order: VecDeque<(Duration, Rc<Question>)>,
}

impl Failures {
    /// No failures; each will be remembered for `lifetime`.
    pub(crate) fn new(lifetime: Duration) -> Self {
        Self { lifetime, until: HashedMap::default(), order: VecDeque::new() }
    }

    /// From now on failures are remembered for so long.
    pub(crate) fn set_lifetime(&mut self, lifetime: Duration) {
        if lifetime != self.lifetime {
            *self = Self::new(lifetime);
        }
    }

    /// Notes that `question` failed just now, and why.
    pub(crate) fn remember(&mut self, question: Rc<Question>, why: ExtendedError, now: Duration) {
        self.forget_old(now);
        if self.order.len() >= MAX_FAILURES {
            self.forget_first();
        }
        let until = now + self.lifetime;
        self.until.insert(Rc::clone(&question), (until, why));
        self.order.push_back((until, question));
    }

    /// Why `question` failed, if it did a moment ago.
    pub(crate) fn why(&self, question: &Question, now: Duration) -> Option<ExtendedError> {
        self.until.get(question).filter(|(until, _)| now < *until).map(|(_, why)| *why)
    }

    /// Forgets that `question` ever failed: it has been answered.
    pub(crate) fn forget(&mut self, question: &Question) {
        if !self.until.is_empty() {
            self.until.remove(question);
        }
    }

    fn forget_old(&mut self, now: Duration) {
        while self.order.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((until, question)) = self.order.pop_front() else { return };
        // If the question has failed again since, the newer failure is remembered.
        if self.until.get(&question).is_some_and(|(newest, _)| *newest == until) {
            self.until.remove(&question);
        }
    }
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::query;

    use super::*;
    use crate::upstreams::query::tests;

    fn question(text: &str) -> Question {
        tests::question(&query(text))
    }

    fn contains(failures: &Failures, question: &Question, now: Duration) -> bool {
        let why = failures.why(question, now);
        assert!(why.is_none_or(|why| why == WHY));
        why.is_some()
    }

    const WHY: ExtendedError = ExtendedError::NETWORK_ERROR;
    const START: Duration = Duration::from_secs(100);
    const LIFETIME: Duration = Duration::from_secs(1);

    #[test]
    fn a_failure_is_remembered_for_a_second() {
        let mut failures = Failures::new(LIFETIME);
        let failed = question("fails.example. A");
        failures.remember(Rc::new(failed.clone()), WHY, START);
        assert!(contains(&failures, &failed, START + LIFETIME / 2));
        assert!(!contains(&failures, &failed, START + LIFETIME));
        assert!(!contains(&failures, &question("works.example. A"), START));
    }

    #[test]
    fn failing_again_renews_it() {
        let mut failures = Failures::new(LIFETIME);
        let failed = Rc::new(question("fails.example. A"));
        failures.remember(Rc::clone(&failed), WHY, START);
        failures.remember(Rc::clone(&failed), WHY, START + LIFETIME / 2);
        failures.remember(Rc::new(question("other.example. A")), WHY, START + LIFETIME);
        assert!(contains(&failures, &failed, START + LIFETIME));
        assert_eq!(failures.order.len(), 2);
    }

    #[test]
    fn what_was_answered_is_no_failure() {
        let mut failures = Failures::new(LIFETIME);
        let failed = Rc::new(question("fails.example. A"));
        failures.remember(Rc::clone(&failed), WHY, START);
        failures.forget(&failed);
        assert!(!contains(&failures, &failed, START));
        failures.remember(Rc::clone(&failed), WHY, START + LIFETIME / 2);
        failures.remember(Rc::new(question("other.example. A")), WHY, START + LIFETIME);
        assert!(contains(&failures, &failed, START + LIFETIME), "it failed again since");
    }

    #[test]
    fn however_many_fail_the_table_is_bounded() {
        let mut failures = Failures::new(LIFETIME);
        for number in 0..MAX_FAILURES + 10 {
            failures.remember(Rc::new(question(&format!("n{number}.example. A"))), WHY, START);
        }
        assert_eq!(failures.until.len(), MAX_FAILURES);
        assert_eq!(failures.order.len(), MAX_FAILURES);
        assert!(!contains(&failures, &question("n9.example. A"), START));
        assert!(contains(&failures, &question("n10.example. A"), START));
    }
}
