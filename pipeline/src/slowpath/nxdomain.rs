//! NXDOMAIN for a name answers for all names below it, without asking (RFC 8020), where the operator wants that.

use pmdns_stages::cache::{Entry, Head, Key, answers};
use pmdns_stages::wire::dns::rtype;

use super::desk::Desk;
use super::query::Question;

/// Ancestors looked at, the name itself included: random names are made a label or two below real ones.
const MAX_ANCESTORS: usize = 16;

impl Desk {
    /// An answer that follows from a cached NXDOMAIN of this name, or of one above it.
    pub(super) fn denial(&self, question: &Question) -> Option<Entry> {
        if !self.nxdomain_cut {
            return None;
        }
        let asked = question.key();
        let mut name = asked.name;
        for _ in 0..MAX_ANCESTORS {
            // NXDOMAIN is for all types, but was asked for with one: that of this question, or a usual one.
            for qtype in [asked.qtype, rtype::A, rtype::AAAA] {
                let denied = self.fresh(Key { name, qtype, ..asked });
                let cut = denied.and_then(|entry| entry.cut_for(asked, question.hash()));
                if cut.is_some() {
                    return cut;
                }
            }
            let (label, rest) = name.split_first()?;
            name = rest.get(usize::from(*label)..)?;
            // That the root does not exist is nothing to go by.
            if name.len() <= 1 {
                return None;
            }
        }
        None
    }

    /// A copy of what the cache has for `key`, if it has not expired.
    fn fresh(&self, key: Key<'_>) -> Option<Entry> {
        let seed = self.cache.seed();
        let found = self.cache.find(key.hash(seed, seed.hash(key.name)))?;
        let view = self.cache.view(found);
        let is_it = answers(&view, &key) && Head::read(&view).expires > self.context.seconds;
        is_it.then(|| Entry::copy_of(&view)).flatten()
    }
}
