//! NXDOMAIN for a name also answers for all names below it, without asking (RFC 8020). The operator turns this on.
//!
//! One forged NXDOMAIN would deny every name below it, so the NXDOMAIN must be firm (hard to forge). If it is not, the
//! upstreams are asked again over TCP.

use pmdns_stages::cache::{Entry, Head, Key};
use pmdns_stages::wire::dns::rtype;
use pmdns_stages::wire::name::suffixes;

use super::Answers;
use crate::questions::question::{Question, Rule};

/// The most names that are looked up: the name itself and its ancestors. Floods of random names add one or two labels
/// to a real name.
const MAX_ANCESTORS: usize = 16;

/// The verdict of cached NXDOMAINs on a name.
#[derive(Debug)]
pub(crate) enum Denial {
    /// The name does not exist. This is the answer.
    Firm(Entry),
    /// The name may not exist, but this NXDOMAIN may be forged.
    Doubtful(Entry),
    /// Nothing.
    None,
}

impl Answers {
    /// Searches the cache for an NXDOMAIN of this name or of a name above it. The search stops at the first name for
    /// which `is_asked_alike` is false: another group of upstreams is asked for that name.
    pub(crate) fn denial(
        &self,
        question: &Question,
        is_asked_alike: impl Fn(Key<'_>) -> bool,
    ) -> Denial {
        if !self.cuts_at_nxdomain || question.rule() != Rule::None {
            return Denial::None;
        }
        let asked = question.key();
        // An NXDOMAIN for the root is ignored.
        let names = suffixes(asked.name).take_while(|name| name.len() > 1).take(MAX_ANCESTORS);
        // NXDOMAIN denies all types, but its cache key has one type: that of this question, or a common one.
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
