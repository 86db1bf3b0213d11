//! Rules that change while clients wait. Cores and threads take new rules one after another, and a question may be under way
//! for seconds. So a miss says which rules let it pass. If those are others than ours, it is judged again: when it comes, and
//! when our rules change while it waits.

use std::sync::Arc;

use pmdns_stages::cache::{Entry, Head};
use pmdns_stages::miss::Miss;
use pmdns_stages::policy::{MissVerdict, Ruleset};

use super::{Resolver, Time};
use crate::answers::Answers;
use crate::questions::pending::{Expired, Waiter};
use crate::questions::question::{Question, Rule};

impl Resolver {
    /// Swaps the rules in use for others. All answers in the cache are then judged again. So are the clients that wait: one
    /// whose question rules decide on now is answered by them at once.
    pub fn swap_rules(&mut self, now: Time, rules: &mut Arc<Ruleset>) {
        self.set_time(now);
        self.answers.responder.encode.swap_rules(rules);
        self.jobs.note_rules();
        let Self { questions, answers, .. } = self;
        let misjudged = questions.withdraw(|question, miss| !still_holds(answers, question, miss));
        for Expired { waiter, ticket, was_last, .. } in misjudged {
            if was_last {
                self.questions.abandon_later(ticket);
            }
            self.judge_and_take_in(waiter.waiter());
        }
    }

    /// Whether the rules in use hold for everything that clients may get from here. Then they have judged all answers in the
    /// cache, if they say anything of the content of answers. No answer waits for room that was made under rules before them.
    pub fn has_judged(&self) -> bool {
        let rules = self.answers.rules();
        (!self.jobs.is_judging() || !rules.judges_answers())
            && self.answers.late.are_judged_by(rules.generation())
    }

    /// Takes in a miss that other rules let pass.
    #[cold]
    pub(super) fn judge_and_take_in(&mut self, waiter: Waiter<'_>) {
        let Waiter { miss, outlet } = waiter;
        let rules = self.answers.rules();
        let judged = rules.generation();
        let alias = match rules.verdict_on_miss(miss) {
            MissVerdict::Passes => None,
            MissVerdict::LeadsOn(found) => Some(found),
            MissVerdict::Decided => {
                let Answers { responder, context, .. } = &mut self.answers;
                if responder.by_rules(waiter, context) {
                    return;
                }
                None
            }
        };
        if alias.is_none() && miss.alias().is_none() {
            return self.take_in_judged(waiter);
        }
        self.take_in_judged(Waiter { miss: &miss.judged_again(judged, alias), outlet });
    }
}

/// Whether the rules in use let a client wait for the answer to the question that it waits for.
fn still_holds(answers: &Answers, question: &Question, miss: &Miss) -> bool {
    let passes = || answers.rules().verdict_on_miss(miss) == MissVerdict::Passes;
    match question.rule() {
        // A place in other rules.
        Rule::Alias(..) => false,
        rule => passes() && answers.rule_of(miss) == rule,
    }
}

impl Answers {
    /// An answer as the rules in use leave it, if those that it was made under may have been others.
    pub(crate) fn judged_again(&self, question: &Question, entry: &Entry) -> Option<Entry> {
        let (rules, head) = (self.rules(), entry.head());
        let is_judged = head.passed == rules.generation() || head.flags & Head::REWRITTEN != 0;
        if is_judged || question.rule() != Rule::None || !rules.judges_answer(&head) {
            return None;
        }
        Some(rules.respond_again(entry.clone()))
    }
}
