//! Questions that failed a moment ago (RFC 9520): a name that nobody can resolve costs its upstreams one
//! exchange a second, however often clients ask.
//!
//! A pure state machine; time is an argument.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::query::Question;

/// How long a failure is remembered: as long as RFC 9520 section 3.2 demands and no longer, so that
/// clients notice the end of an outage within a second.
const LIFETIME: Duration = Duration::from_secs(1);

/// Failures remembered at once. The oldest makes room.
const MAX_FAILURES: usize = 16_384;

/// The questions that failed.
#[derive(Debug, Default)]
pub(super) struct Failures {
    until: HashMap<Rc<Question>, Duration>,
    /// In the order in which they failed, which is the order in which they are forgotten.
    order: VecDeque<(Duration, Rc<Question>)>,
}

impl Failures {
    /// Notes that `question` failed just now.
    pub(super) fn remember(&mut self, question: Rc<Question>, now: Duration) {
        self.forget_old(now);
        if self.order.len() >= MAX_FAILURES {
            self.forget_first();
        }
        let until = now + LIFETIME;
        self.until.insert(Rc::clone(&question), until);
        self.order.push_back((until, question));
    }

    /// Whether `question` failed a moment ago.
    pub(super) fn contains(&self, question: &Question, now: Duration) -> bool {
        self.until.get(question).is_some_and(|until| now < *until)
    }

    fn forget_old(&mut self, now: Duration) {
        while self.order.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((until, question)) = self.order.pop_front() else { return };
        // It may have failed again since, and is then remembered for that.
        if self.until.get(&question) == Some(&until) {
            self.until.remove(&question);
        }
    }
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::query;

    use super::*;
    use crate::slowpath::query::tests;

    fn question(text: &str) -> Question {
        tests::question(&query(text))
    }

    const START: Duration = Duration::from_secs(100);

    #[test]
    fn a_failure_is_remembered_for_a_second() {
        let mut failures = Failures::default();
        let failed = question("fails.example. A");
        failures.remember(Rc::new(failed.clone()), START);
        assert!(failures.contains(&failed, START + LIFETIME / 2));
        assert!(!failures.contains(&failed, START + LIFETIME));
        assert!(!failures.contains(&question("works.example. A"), START));
    }

    #[test]
    fn failing_again_renews_it() {
        let mut failures = Failures::default();
        let failed = Rc::new(question("fails.example. A"));
        failures.remember(Rc::clone(&failed), START);
        failures.remember(Rc::clone(&failed), START + LIFETIME / 2);
        failures.remember(Rc::new(question("other.example. A")), START + LIFETIME);
        assert!(failures.contains(&failed, START + LIFETIME));
        assert_eq!(failures.order.len(), 2);
    }

    #[test]
    fn however_many_fail_the_table_is_bounded() {
        let mut failures = Failures::default();
        for number in 0..MAX_FAILURES + 10 {
            failures.remember(Rc::new(question(&format!("n{number}.example. A"))), START);
        }
        assert_eq!(failures.until.len(), MAX_FAILURES);
        assert_eq!(failures.order.len(), MAX_FAILURES);
        assert!(!failures.contains(&question("n9.example. A"), START));
        assert!(failures.contains(&question("n10.example. A"), START));
    }
}
