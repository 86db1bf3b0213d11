//! Names that an operator blocks, allows and answers at run time.
//!
//! They stand before everything that files say, in tables of their own. So a change makes these small tables anew, and
//! not those of millions of names. What is said of the longest name counts.

use pmdns_config::narrow::to_u32;
use pmdns_config::{BlockAction, LocalRecord, ViewSet};

use super::builtin::pointers;
use super::filter::Filter;
use super::local::{Entries, Found, Local, LocalError};
use super::names::{Listing, Names};
use crate::cache::Entry;
use crate::wire::name::Seed;

/// A rule about a name of run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeEntry {
    /// The name in wire format, lower case.
    pub name: Box<[u8]>,
    /// Whether it is said of every name below it too.
    pub below: bool,
    /// The answer to clients; `None`: the name is not blocked.
    pub action: Option<BlockAction>,
    /// The views in which it is said.
    pub views: ViewSet,
}

/// Rules about names of run time, ready to be looked up.
#[derive(Debug)]
pub struct RuntimeNames {
    filter: Filter,
    /// The value of a name is the place of its entry.
    names: Names,
    said: Box<[RuntimeEntry]>,
    local: Local,
    entries: Entries,
}

impl RuntimeNames {
    /// Makes them ready. `seed` is the one of all rules; `auto_ptr` adds a PTR record for each address.
    ///
    /// # Errors
    ///
    /// The records contradict each other.
    pub fn new(
        said: Vec<RuntimeEntry>,
        mut records: Vec<LocalRecord>,
        auto_ptr: bool,
        seed: Seed,
    ) -> Result<Self, LocalError> {
        if auto_ptr {
            records.extend(pointers(&records));
        }
        let mut entries = Entries::new(seed);
        let local = Local::new(&records, |_| false, &mut entries)?;
        let mut listing = Listing::default();
        for (number, entry) in said.iter().enumerate() {
            if !listing.add(&entry.name, to_u32(number)) {
                return Err(LocalError::TooMany);
            }
        }
        let names = listing.build(seed, |_, later| later);
        let mut filter = Filter::with_capacity(names.len() + local.names.len(), seed);
        names.add_to(&mut filter);
        local.names.add_to(&mut filter);
        Ok(Self { filter, names, said: said.into(), local, entries })
    }

    /// The entry that answers a query of this type, if a record is about the name.
    pub(super) fn local(&self, name: &[u8], qtype: u16) -> Option<Found> {
        self.local.find(name, &self.filter.candidates(name), qtype)
    }

    /// The entry of this number.
    pub(super) fn entry(&self, number: u32) -> Option<&Entry> {
        self.entries.get(number)
    }

    /// What is said of a name in a view, if anything is: what clients get, or that it is not blocked.
    pub(super) fn said_of(&self, name: &[u8], view: u8) -> Option<Option<BlockAction>> {
        let candidates = self.filter.candidates(name);
        let said = |listed: &[u8], hash| {
            let entry = self.said.get(self.names.find(hash, listed)? as usize)?;
            let is_meant = entry.below || listed.len() == name.len();
            (is_meant && entry.views.has(view)).then_some(entry.action)
        };
        candidates.iter().rev().find_map(|one| said(one.name, one.hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::name_of;

    #[test]
    fn the_longest_name_decides_in_its_views() {
        let said = |name: &str, below, action, views| RuntimeEntry {
            name: name_of(name).into(),
            below,
            action,
            views,
        };
        let (nxdomain, drop) = (Some(BlockAction::Nxdomain), Some(BlockAction::Drop));
        let one = ViewSet::ALL.without(ViewSet::of(&["default".to_owned()], &[]));
        let entries = vec![
            said("example.", true, nxdomain, ViewSet::ALL),
            said("good.example.", true, None, ViewSet::ALL),
            said("bad.good.example.", false, drop, ViewSet::ALL),
            said("only.example.", true, drop, one),
        ];
        let names = RuntimeNames::new(entries, Vec::new(), false, Seed::new([7; 16])).unwrap();
        for (name, view, expected) in [
            ("x.example.", 0, Some(nxdomain)),
            ("Good.Example.", 0, Some(None)),
            ("x.good.example.", 0, Some(None)),
            ("bad.good.example.", 0, Some(drop)),
            ("x.bad.good.example.", 0, Some(None)),
            ("only.example.", 0, Some(nxdomain)),
            ("only.example.", 1, Some(drop)),
            ("other.", 0, None),
        ] {
            assert_eq!(names.said_of(&name_of(name), view), expected, "{name} in view {view}");
        }
    }
}
