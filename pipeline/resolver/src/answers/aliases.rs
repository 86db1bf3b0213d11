//! Aliases by a rule: what a rule makes of a question, and what is local of where its alias leads.

use pmdns_stages::cache::{Alias, Entry, Head, NoAlias, Parts};
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::dns::Rcode;

use super::Answers;
use crate::questions::question::{Question, Rule};

/// Local aliases on the way from one name to the next that is not local.
const MAX_LOCAL: usize = 4;

/// Where an alias leads.
pub(crate) enum Target {
    /// To a name that is not local.
    Name(Alias),
    /// To an answer.
    Answer(Entry),
}

impl Answers {
    /// What rules make of the question of a miss.
    pub(crate) fn rule_of(&self, miss: &Miss) -> Rule {
        let (rules, who) = (self.rules(), miss.query().layout().who);
        let alias = miss.alias().and_then(|found| rules.alias(found, miss));
        let exemption = || rules.exemption(miss.client(), who).map(Rule::Exempt);
        match alias {
            Some((found, _)) => Rule::Alias(found, who.view()),
            None => exemption().unwrap_or_default(),
        }
    }

    /// Follows an alias through local records. `None`: it leads nowhere.
    pub(crate) fn follow(&self, question: &Question, entry: &Entry) -> Option<Target> {
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
            Rule::Alias(_, view) => view,
            // Policy zones hold alike in all views of a scope, and the first of them gave it its number.
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

    /// The answer to a question: the alias, and what its target was found to be.
    pub(crate) fn composed(
        &self,
        question: &Question,
        alias: &Alias,
        found: Option<&Entry>,
    ) -> Option<Entry> {
        let (now, lifetimes) = (self.context.seconds, &self.store.lifetimes);
        alias.answer(question.key(), question.hash(), found, now, lifetimes)
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
}
