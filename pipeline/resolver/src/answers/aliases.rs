//! Aliases by a rule: what clients asked is answered with the alias, and with what its target is found to be in the
//! clients' view, so that stub resolvers reach a walled garden.
//!
//! A question whose answer is an alias stays pending. Its target is another question, which nobody waits for but this one
//! (and others with the same target). No rule about answers holds for the target: who wrote the rule wants it, and an alias
//! that led to itself would have no end.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use pmdns_stages::answer::LocalRef;
use pmdns_stages::cache::{Alias, Entry, Head, Key, NoAlias, Parts};
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::dns::Rcode;
use pmdns_stages::wire::edns::ExtendedError;

use crate::answers::subnets::Answer;
use crate::counters::count;
use crate::questions::pending::{Admission, Ticket};
use crate::questions::query::{Question, Rule};
use crate::resolver::{Outcome, Resolver};
use crate::upstreams::network::Timer;

/// Local aliases on the way from one name to the next that is not local.
const MAX_LOCAL: usize = 4;
/// Policy zones from which number on rules about answers do not hold: none does.
const NO_ZONE: u8 = 0;

/// Questions that wait for the targets of their aliases, by the question that the target is. There are no more than
/// questions pending.
#[derive(Debug, Default)]
pub(crate) struct AliasTargets(HashMap<Rc<Question>, Vec<(Ticket, Alias)>>);

impl Resolver {
    /// What rules make of the question of a miss.
    pub(crate) fn rule_of(&self, miss: &Miss) -> Rule {
        let (rules, who) = (self.responder.encode.rules(), miss.query().layout().who);
        let alias = miss.alias().and_then(|found| rules.alias(found, miss));
        let exemption = || rules.exemption(miss.client(), who).map(Rule::Exempt);
        match alias {
            Some((found, _)) => Rule::Alias(found, who.view()),
            None => exemption().unwrap_or_default(),
        }
    }

    /// An upstream's answer to a question, and what rules make of that.
    pub(crate) fn judged(&self, question: &Question, entry: Entry, reply: &[u8]) -> Entry {
        let (rules, key) = (self.responder.encode.rules(), question.key());
        match question.rule() {
            Rule::Exempt(zone) => rules.respond_before(entry, key, reply, zone),
            _ => rules.respond(entry, key, reply),
        }
    }

    /// What the cache is to keep of the answer to a question; `None`: nothing, for others would get something else.
    pub(crate) fn to_keep<'e>(
        &self,
        question: &Question,
        entry: &'e Entry,
    ) -> Option<Cow<'e, Entry>> {
        let rules = self.responder.encode.rules();
        match question.rule() {
            Rule::None => Some(Cow::Borrowed(entry)),
            Rule::Exempt(_) => {
                let for_others = rules.respond_again(entry.clone());
                (for_others.head().flags & Head::REWRITTEN == 0).then_some(Cow::Owned(for_others))
            }
            Rule::Alias(found, _) => {
                let is_fresh = entry.head().expires > self.context.seconds;
                (is_fresh && rules.shares_alias(question.key(), found)).then(|| {
                    let mut entry = entry.clone();
                    entry.set_passed(rules.generation());
                    Cow::Owned(entry)
                })
            }
        }
    }

    /// Begins with a question that a rule answers with an alias.
    pub(crate) fn begin_alias(&mut self, ticket: Ticket, found: LocalRef) {
        match self.responder.encode.rules().entry(found).cloned() {
            Some(entry) => self.lead_on(ticket, &entry),
            // The rules have changed since it was admitted.
            None => self.settle(ticket, &Outcome::Failure(ExtendedError::NOT_READY)),
        }
    }

    /// Finds what the alias in `entry`, the answer to a question, leads to, and ends the question with that.
    pub(crate) fn lead_on(&mut self, ticket: Ticket, entry: &Entry) {
        let Some((question, _)) = self.pending.find(ticket) else { return };
        let question = Rc::clone(question);
        let alias = match self.local_end(&question, entry) {
            Ok(Led::On(alias)) => alias,
            Ok(Led::To(entry)) => return self.end_alias(ticket, Some(entry)),
            Err(NoAlias::TooLong) => return self.end_alias(ticket, Some(self.yxdomain(&question))),
            Err(NoAlias::Missing) => return self.end_alias(ticket, None),
        };
        let target = self.target(&question, alias.target());
        if let Some(found) = self.find(&target).map(|found| self.cache.view(found))
            && let Some(found) = Entry::copy_of(&found)
        {
            let whole = self.composed(&question, &alias, Some(&found));
            return self.end_alias(ticket, whole);
        }
        if let Some(why) = self.failures.why(&target, self.now) {
            return self.settle(ticket, &Outcome::Failure(why));
        }
        let Self { groups, health, now, .. } = self;
        let begin = |question: &Question| groups.plan(question.zone(), health, *now);
        let admission = self.pending.begin(target.clone(), begin);
        if matches!(admission, Admission::Shed(_)) {
            return self.settle(ticket, &Outcome::Failure(ExtendedError::NOT_READY));
        }
        self.alias_targets.0.entry(Rc::new(target)).or_default().push((ticket, alias));
        if let Admission::Leads(target) = admission {
            count(&self.counters.pending);
            self.network.wake_at(self.now + self.deadline, Timer::Abandon(target));
            self.advance(target);
        }
    }

    /// Ends the questions whose aliases lead to one that has ended.
    pub(crate) fn lead_on_from(&mut self, target: &Rc<Question>, outcome: &Outcome) {
        for (ticket, alias) in self.alias_targets.0.remove(target).unwrap_or_default() {
            let Some((question, _)) = self.pending.find(ticket) else { continue };
            let question = Rc::clone(question);
            match outcome {
                Outcome::Answer(Answer { entry, network }) => {
                    match self.composed(&question, &alias, Some(entry)) {
                        Some(entry) => self.answer(ticket, Answer { entry, network: *network }),
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
        let seed = self.cache.seed();
        let target = Question::of_key(Key { name, ..question.key() }, seed)
            .validating(self.validation.is_on());
        let mut target = target.under(Rule::Exempt(NO_ZONE), seed);
        if question.subnet().is_some() && self.groups.tells_subnets(target.key()) {
            target.ask_for(question.subnet(), seed);
        }
        target
    }

    /// Follows an alias through local records.
    fn local_end(&self, question: &Question, entry: &Entry) -> Result<Led, NoAlias> {
        let key = question.key();
        let rules = self.responder.encode.rules();
        let view = match question.rule() {
            Rule::Alias(_, view) => view,
            // Policy zones hold alike in all views of a scope, and the first of them gave it its number.
            _ => key.scope(),
        };
        let mut alias = Alias::of(entry, key.name)?;
        if alias.answers(key.qtype) {
            return self.composed(question, &alias, None).map(Led::To).ok_or(NoAlias::Missing);
        }
        for _ in 0..MAX_LOCAL {
            let Some(local) = rules.local(alias.target(), key.qtype, view) else {
                return Ok(Led::On(alias));
            };
            let whole = self.composed(question, &alias, Some(local)).ok_or(NoAlias::Missing)?;
            if local.head().flags & Head::LEADS_ON == 0 {
                return Ok(Led::To(whole));
            }
            alias = Alias::of(&whole, key.name)?;
        }
        Err(NoAlias::Missing)
    }

    fn composed(&self, question: &Question, alias: &Alias, found: Option<&Entry>) -> Option<Entry> {
        let now = self.context.seconds;
        alias.answer(question.key(), question.hash(), found, now, &self.lifetimes)
    }

    /// That a name made of a wildcard target would be too long.
    fn yxdomain(&self, question: &Question) -> Entry {
        Entry::new(&Parts {
            key: question.key(),
            hash: question.hash(),
            learnt: self.context.seconds,
            expires: self.context.seconds,
            rcode: Rcode::YXDOMAIN,
            flags: Head::REWRITTEN,
            counts: [0; 3],
            body: &[],
            optional_at: 0,
            ttls: &[],
        })
    }

    fn end_alias(&mut self, ticket: Ticket, entry: Option<Entry>) {
        match entry {
            Some(entry) => self.answer(ticket, Answer { entry, network: None }),
            None => self.settle(ticket, &Outcome::Failure(ExtendedError::INVALID_DATA)),
        }
    }
}

/// Where an alias leads.
enum Led {
    /// To a name that is not local.
    On(Alias),
    /// To an answer.
    To(Entry),
}
