//! Misses under other rules than those that let them pass. Rules change while a miss is on its way, or waits for an upstream.

use super::{RuleDecision, Ruleset};
use crate::answer::LocalRef;
use crate::cache::Entry;
use crate::miss::Miss;

/// What rules say of a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissVerdict {
    /// Nothing: an upstream answers it.
    Passes,
    /// The answer is this alias, whose target is to be resolved.
    LeadsOn(LocalRef),
    /// They answer it, or have it dropped.
    Decided,
}

impl Ruleset {
    /// What these rules say of a miss.
    pub fn verdict_on_miss(&self, miss: &Miss) -> MissVerdict {
        match self.verdict_on(miss.query(), miss.client()).0 {
            RuleDecision::Pass => MissVerdict::Passes,
            RuleDecision::Truncated if miss.is_from_stream() => MissVerdict::Passes,
            RuleDecision::Entry(number) => {
                let found = LocalRef { generation: self.generation, number };
                // Every miss wants recursion.
                if self.leads_on(found) {
                    MissVerdict::LeadsOn(found)
                } else {
                    MissVerdict::Decided
                }
            }
            _ => MissVerdict::Decided,
        }
    }

    /// The alias that a miss is about, whose target is to be resolved. `found` is what it was when the miss left its core;
    /// the rules may be others by now.
    pub fn alias(&self, found: LocalRef, miss: &Miss) -> Option<(LocalRef, &Entry)> {
        let found = match self.entry(found) {
            Some(_) => found,
            None => match self.verdict_on(miss.query(), miss.client()) {
                (RuleDecision::Entry(number), _) => {
                    LocalRef { generation: self.generation, number }
                }
                _ => return None,
            },
        };
        self.entry(found).filter(|_| self.leads_on(found)).map(|entry| (found, entry))
    }
}
