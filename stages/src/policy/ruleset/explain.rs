//! The verdict of the rules on a query, and the rule that decides: for people who ask why.

use super::{RuleDecision, RuleVerdict, Ruleset};
use crate::cache::{Entry, NameBuffer};
use crate::policy::list_number::ListNumber;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleOutcome {
    /// The rules let the query pass.
    Pass,
    /// It has an answer, or is dropped.
    Decided,
    /// TC=1.
    Truncated,
    /// SERVFAIL, because a policy zone is not here yet.
    NotReady,
}

/// The decision of the rules.
#[derive(Clone, Copy, Debug)]
pub struct Explained {
    /// The kind of rule that decides. Of a query that passes, no rule but those of a policy zone are known.
    pub source: RuleSource,
    /// The list with the rule; `None`: no list decides.
    pub list: Option<ListNumber>,
    /// The outcome for the client.
    pub outcome: RuleOutcome,
}

impl Explained {
    fn of((source, (decision, why)): (RuleSource, RuleVerdict)) -> Self {
        let outcome = match decision {
            RuleDecision::Pass => RuleOutcome::Pass,
            RuleDecision::Truncated => RuleOutcome::Truncated,
            RuleDecision::NotReady => RuleOutcome::NotReady,
            RuleDecision::Entry(_) | RuleDecision::Rcode(_) | RuleDecision::Drop => {
                RuleOutcome::Decided
            }
        };
        Self { source, list: why.and_then(ListNumber::of_reason), outcome }
    }
}

impl Ruleset {
    /// The verdict of the rules on a query over UDP from this client, whose address has 4 or 16 bytes.
    pub fn explain(&self, name: &[u8], qtype: u16, client: &[u8], who: Who) -> Explained {
        let client = self.read.judges_clients.then_some(client);
        let candidates = self.read.filter.candidates(name);
        Explained::of(self.find_rule(name, &candidates, qtype, client, who.view()))
    }

    /// The list with the rule that decides about a query of this client. `None`: none does, or a local record answers.
    pub fn list_of(&self, name: &[u8], qtype: u16, client: &[u8], view: u8) -> Option<ListNumber> {
        self.explain(name, qtype, client, Who::in_view(view, 0)).list
    }

    /// The verdict of a client's view on an answer that several share.
    pub fn explain_shared(&self, entry: &Entry, client: &[u8], who: Who) -> Explained {
        let mut buffer = NameBuffer::default();
        let (key, message) = (entry.key(&mut buffer), entry.message());
        let end = self.exemption(client, who);
        Explained::of(self.verdict_on_shared(key, &message, who.view(), end))
    }
}
