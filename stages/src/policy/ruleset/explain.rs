//! The verdict of the rules on a query, and the rule that decides: for people who ask why.

use super::{RuleDecision, Ruleset, Verdict};
use crate::answer::LocalRef;
use crate::cache::{Entry, Head, NameBuffer};
use crate::policy::list_number::ListNumber;
use crate::wire::dns::Rcode;
use crate::wire::layout::Who;

/// The kind of rule that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSource {
    /// A name of run time.
    RunTime,
    /// Local records.
    Local,
    /// A policy zone.
    PolicyZone {
        /// Its number in the configuration.
        number: u8,
        /// Whether the rule is about the client.
        of_client: bool,
    },
    /// Block lists and `[block]`.
    Blocked,
}

/// The outcome of the rules for a client.
#[derive(Clone, Copy, Debug)]
pub enum RuleOutcome<'r> {
    /// The rules let the query pass.
    Pass,
    /// These records.
    Entry(&'r Entry),
    /// An alias, and what its target resolves to.
    Alias(&'r Entry),
    /// TC=1.
    Truncated,
    /// Nothing but an rcode.
    Rcode(Rcode),
    /// SERVFAIL, because a policy zone is not here yet.
    NotReady,
    /// No answer.
    Drop,
}

/// The decision of the rules.
#[derive(Clone, Copy, Debug)]
pub struct Explained<'r> {
    /// The kind of rule that decides. Of a query that passes, no rule but those of a policy zone are known.
    pub source: RuleSource,
    /// The list with the rule; `None`: no list decides.
    pub list: Option<ListNumber>,
    /// The outcome for the client.
    pub outcome: RuleOutcome<'r>,
}

impl Ruleset {
    /// The verdict of the rules on a query over UDP from this client, whose address has 4 or 16 bytes.
    pub fn explain(&self, name: &[u8], qtype: u16, client: &[u8], who: Who) -> Explained<'_> {
        let client = self.read.judges_clients.then_some(client);
        let candidates = self.read.filter.candidates(name);
        let (source, verdict) = self.find_rule(name, &candidates, qtype, client, who.view());
        self.explained(source, verdict)
    }

    /// The verdict of a view on an answer of the cache that several share, if the client gets something else. Rules about its
    /// addresses alone are not shown.
    pub fn explain_shared(
        &self,
        entry: &Entry,
        view: u8,
        exempt: Option<u8>,
    ) -> Option<Explained<'_>> {
        let mut buffer = NameBuffer::default();
        let is_shared = entry.head().passed == Head::BY_VIEW;
        let (source, verdict) = is_shared.then(|| {
            self.verdict_on_shared(entry.key(&mut buffer), &entry.message(), view, exempt)
        })?;
        (verdict.0 != RuleDecision::Pass).then(|| self.explained(source, verdict))
    }

    fn explained(&self, source: RuleSource, (decision, why): Verdict) -> Explained<'_> {
        let outcome = match decision {
            RuleDecision::Pass => RuleOutcome::Pass,
            RuleDecision::Truncated => RuleOutcome::Truncated,
            RuleDecision::Rcode(rcode) => RuleOutcome::Rcode(rcode),
            RuleDecision::NotReady => RuleOutcome::NotReady,
            RuleDecision::Drop => RuleOutcome::Drop,
            RuleDecision::Entry(number) => {
                let found = LocalRef { generation: self.generation, number };
                match self.entry(found) {
                    Some(entry) if self.leads_on(found) => RuleOutcome::Alias(entry),
                    Some(entry) => RuleOutcome::Entry(entry),
                    None => RuleOutcome::Pass,
                }
            }
        };
        Explained { source, list: why.and_then(ListNumber::of_reason), outcome }
    }
}
