//! NXDOMAIN for a name answers for all names below it, without asking (RFC 8020), where the operator wants that.
//!
//! One forged NXDOMAIN would take away everything below, so it has to be firm. Of one that is not, the upstreams are
//! asked again over TCP.

use pmdns_stages::cache::{Entry, Head, Key};
use pmdns_stages::wire::dns::rtype;
use pmdns_stages::wire::name::suffixes;

use super::Answers;
use crate::questions::question::{Question, Rule};

/// Ancestors looked at, the name itself included: random names are made a label or two below real ones.
const MAX_ANCESTORS: usize = 16;

/// What cached NXDOMAINs say about a name.
#[derive(Debug)]
pub(crate) enum Denial {
    /// That it does not exist: this is the answer.
    Firm(Entry),
    /// The same, but this one may be forged.
    Doubtful(Entry),
    /// Nothing.
    None,
}

impl Answers {
    /// What follows from cached NXDOMAINs of this name and of those above it, as far as `is_asked_alike` goes: what
    /// one group of upstreams denies says nothing about names that another is asked for.
    pub(crate) fn denial(
        &self,
        question: &Question,
        is_asked_alike: impl Fn(Key<'_>) -> bool,
    ) -> Denial {
        if !self.cuts_at_nxdomain || question.rule() != Rule::None {
            return Denial::None;
        }
        let asked = question.key();
        // That the root does not exist is nothing to go by.
        let names = suffixes(asked.name).take_while(|name| name.len() > 1).take(MAX_ANCESTORS);
        // NXDOMAIN is for all types, but was asked for with one: that of this question, or a usual one.
        let keys = names.flat_map(|name| {
            [asked.qtype, rtype::A, rtype::AAAA].map(|qtype| Key { name, qtype, ..asked })
        });
        let mut doubtful = Denial::None;
        for key in keys.take_while(|key| is_asked_alike(*key)) {
            let found =
                self.store.get_key(key).filter(|found| found.is_fresh(self.context.seconds));
            let Some(entry) = found.and_then(|found| found.copy()) else { continue };
            let Some(cut) = entry.cut_for(asked, question.hash()) else { continue };
            if entry.head().flags & Head::FIRM != 0 {
                return Denial::Firm(cut);
            }
            if matches!(doubtful, Denial::None) {
                doubtful = Denial::Doubtful(entry);
            }
        }
        doubtful
    }
}
