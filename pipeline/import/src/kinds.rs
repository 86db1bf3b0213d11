//! What the loss of a setting means, for settings that nothing is made of.

use crate::meaning::{Forwarder, NONE};
use crate::source::Origin;

/// The settings of a server that nothing is made of.
pub(crate) struct Kinds {
    /// Settings of its own process, and of work that pmdns does not do, or always does.
    pub(crate) unneeded: &'static [&'static str],
    /// Settings without which an answer is another one, or comes in another way.
    pub(crate) different: &'static [&'static str],
    /// Settings that decide who may ask, what they are told by who they are, or whom we ask.
    pub(crate) decisive: &'static [&'static str],
}

impl Kinds {
    /// Lists a setting by what its loss means. Whether it is known: one that is not counts as unread.
    pub(crate) fn list(&self, name: &str, origin: &Origin, forwarder: &mut Forwarder) -> bool {
        match name {
            _ if self.unneeded.contains(&name) => forwarder.draft.unneeded(origin),
            _ if self.different.contains(&name) => forwarder.draft.unmapped(origin, NONE),
            _ if self.decisive.contains(&name) => forwarder.draft.decisive(origin, NONE),
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::{dnsdist, named, unbound};

    #[test]
    fn a_setting_is_of_one_kind() {
        for kinds in [&dnsdist::KINDS, &named::KINDS, &unbound::KINDS] {
            let all = [kinds.unneeded, kinds.different, kinds.decisive].concat();
            let distinct: BTreeSet<&str> = all.iter().copied().collect();
            assert_eq!(all.len(), distinct.len());
        }
    }
}
