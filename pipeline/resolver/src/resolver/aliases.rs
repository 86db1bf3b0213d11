//! Aliases that a rule gives. The answer has the alias, and the records of its target as found in the client's view. So
//! stub resolvers reach a walled garden.
//!
//! A question whose answer is an alias stays pending. Its target becomes another question, for which no client waits.
//! Only the questions whose aliases lead to it wait for it. Rules about answers do not apply to the target. The
//! operator who wrote the rule chose it, and an alias that leads to itself would never end.

use std::rc::Rc;

use pmdns_stages::answer::LocalRef;
use pmdns_stages::cache::{Entry, Key};
use pmdns_stages::wire::edns::ExtendedError;

use super::{Outcome, Resolver};
use crate::answers::aliases::Target;
use crate::origin::Origin;
use crate::questions::pending::{Admission, Ticket};
use crate::questions::prefixes::ClientPrefix;
use crate::questions::question::{Question, Rule};
use crate::upstreams::replies::ResolvedAnswer;

/// The number of the policy zone from which on rules about answers do not apply. With 0 none applies.
const NO_ZONE: u8 = 0;

impl Resolver {
    /// Begins with a question that a rule answers with an alias.
    pub(super) fn begin_alias(&mut self, ticket: Ticket, found: LocalRef) {
        match self.answers.rules().entry(found).cloned() {
            Some(entry) => self.lead_on(ticket, &entry),
            // The rules have changed since the question was admitted.
            None => self.settle(ticket, &Outcome::Failure(ExtendedError::NOT_READY)),
        }
    }

    /// Finds the target of the alias in `entry`, which is the answer to a question, and ends the question with it.
    pub(super) fn lead_on(&mut self, ticket: Ticket, entry: &Entry) {
        let Some(question) = self.questions.find(ticket) else { return };
        let alias = match self.answers.follow_alias(&question, entry) {
            Some(Target::Name(alias)) => alias,
            Some(Target::Answer(entry)) => return self.end_alias(ticket, Some(entry)),
            None => return self.end_alias(ticket, None),
        };
        let target = self.target(&question, alias.target());
        if let Some(found) = self.answers.known(&target) {
            let whole = self.answers.composed(&question, &alias, Some(&found));
            return self.end_alias(ticket, whole);
        }
        if let Some(why) = self.questions.why_failed(&target) {
            return self.settle(ticket, &Outcome::Failure(why));
        }
        // A rule has few aliases, but under a prefix there are as many as addresses: each costs its clients a place.
        let clients = match question.rule() {
            Rule::Reverse(_) => self.questions.pending.prefix_of(ticket),
            _ => None,
        };
        let admission = self.open(clients.unwrap_or(ClientPrefix::OURS), target.clone());
        if matches!(admission, Admission::Shed(_)) {
            return self.settle(ticket, &Outcome::Failure(ExtendedError::NOT_READY));
        }
        self.questions.alias_targets.wait(target, ticket, alias);
        if let Admission::Leads(target) = admission {
            self.advance(target);
        }
    }

    /// Ends the questions whose aliases lead to `target`, a question that has ended.
    pub(super) fn lead_on_from(&mut self, target: &Rc<Question>, outcome: &Outcome) {
        for (ticket, alias) in self.questions.alias_targets.take(target) {
            let Some(question) = self.questions.find(ticket) else { continue };
            match outcome {
                Outcome::Answer(ResolvedAnswer { entry, network, origin }) => {
                    match self.answers.composed(&question, &alias, Some(entry)) {
                        Some(entry) => {
                            let (network, origin) = (*network, *origin);
                            self.answer(ticket, ResolvedAnswer { entry, network, origin });
                        }
                        None => self.end_alias(ticket, None),
                    }
                }
                Outcome::Failure(why) => self.settle(ticket, &Outcome::Failure(*why)),
                Outcome::Shed(why) => self.settle(ticket, &Outcome::Shed(*why)),
            }
        }
    }

    /// The question that an alias leads to, as the clients of `question` would ask it.
    fn target(&self, question: &Question, name: &[u8]) -> Question {
        let seed = self.answers.store.seed();
        let target = Question::of_key(Key { name, ..question.key() }, seed)
            .validating(self.validation.is_on());
        let mut target = target.under(Rule::Exempt(NO_ZONE), seed);
        if question.subnet().is_some() && self.upstreams.peers.sends_subnets(target.zone()) {
            target.ask_for(question.subnet(), seed);
        }
        target
    }

    fn end_alias(&mut self, ticket: Ticket, entry: Option<Entry>) {
        match entry {
            Some(entry) => {
                self.answer(ticket, ResolvedAnswer { entry, network: None, origin: Origin::Rules });
            }
            None => self.settle(ticket, &Outcome::Failure(ExtendedError::INVALID_DATA)),
        }
    }
}
