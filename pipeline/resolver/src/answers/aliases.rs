//! Aliases that a rule gives: which rule applies to a question, and the local part of the chain behind its alias.

use pmdns_stages::cache::{Alias, Entry, EntryParts, Head, NoAlias};
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::dns::Rcode;

use super::Answers;
use crate::questions::question::{Question, Rule};

/// The most local aliases that are followed before a name that is not local.
const MAX_LOCAL: usize = 4;

/// Where an alias leads.
pub(crate) enum Target {
    /// To a name that is not local.
    Name(Alias),
    /// To an answer.
    Answer(Entry),
}

impl Answers {
    /// The rule that applies to the question of a miss.
    pub(crate) fn rule_of(&self, miss: &Miss) -> Rule {
        let (rules, who) = (self.rules(), miss.query().layout().who);
        let alias = miss.alias().and_then(|found| rules.alias(found, miss));
        let exemption = || rules.exemption(miss.client(), who).map(Rule::Exempt);
        match alias {
            Some((found, _)) => Rule::Alias(found, who.view()),
            None if self.is_reverse(miss.key()) => Rule::Reverse(who.view()),
            None => exemption().unwrap_or_default(),
        }
    }

    /// Follows an alias through local records. `None`: the chain of aliases is too long, or has no target.
    pub(crate) fn follow_alias(&self, question: &Question, entry: &Entry) -> Option<Target> {
        match self.local_end(question, entry) {
            Ok(target) => Some(target),
            Err(NoAlias::TooLong) => Some(Target::Answer(self.yxdomain(question))),
            Err(NoAlias::Missing) => None,
        }
    }

    fn local_end(&self, question: &Question, entry: &Entry) -> Result<Target, NoAlias> {
        let key = question.key();
        let rules = self.rules();
        let view = match question.rule() {
            Rule::Alias(_, view) | Rule::Reverse(view) => view,
            // All views of a scope have the same policy zones. The scope's number is that of its first view.
            _ => key.scope(),
        };
        let mut alias = Alias::of(entry, key.name)?;
        if alias.answers(key.qtype) {
            let whole = self.composed(question, &alias, None);
            return whole.map(Target::Answer).ok_or(NoAlias::Missing);
        }
        for _ in 0..MAX_LOCAL {
            let Some(local) = rules.local(alias.target(), key.qtype, view) else {
                return Ok(Target::Name(alias));
            };
            let whole = self.composed(question, &alias, Some(local)).ok_or(NoAlias::Missing)?;
            if local.head().flags & Head::LEADS_ON == 0 {
                return Ok(Target::Answer(whole));
            }
            alias = Alias::of(&whole, key.name)?;
        }
        Err(NoAlias::Missing)
    }

    /// The answer to a question: the alias, followed by the records found for its target.
    pub(crate) fn composed(
        &self,
        question: &Question,
        alias: &Alias,
        found: Option<&Entry>,
    ) -> Option<Entry> {
        let (now, lifetimes) = (self.context.seconds, &self.store.lifetimes);
        alias.answer(question.key(), question.hash(), found, now, lifetimes)
    }

    /// The answer if a wildcard target would make a name that is too long.
    fn yxdomain(&self, question: &Question) -> Entry {
        Entry::new(&EntryParts {
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
}
