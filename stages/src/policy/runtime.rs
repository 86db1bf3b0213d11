//! Names that an operator blocks, allows and answers at run time.
//!
//! They stand before everything that files say, in tables of their own. So a change makes these small tables anew, and
//! not those of millions of names. The longest name decides. Of one name an entry of the client's view stands before one of
//! all views, so that an exception in a view lifts nothing elsewhere.

use pmdns_config::narrow::to_u32;
use pmdns_config::{BlockAction, LocalRecord, ViewSet};

use super::builtin::pointers;
use super::filter::Filter;
use super::local::{Entries, FoundLocal, Local};
use super::local_error::LocalDataError;
use super::names::{Listing, Names};
use crate::cache::Entry;
use crate::wire::name::{Seed, equal};

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
    /// The value of a name is the place of its first entry.
    names: Names,
    /// The entries of a name stand together, those of views before the one of all views.
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
        mut said: Vec<RuntimeEntry>,
        mut records: Vec<LocalRecord>,
        auto_ptr: bool,
        seed: Seed,
    ) -> Result<Self, LocalDataError> {
        if auto_ptr {
            records.extend(pointers(&records));
        }
        let mut entries = Entries::new(seed);
        let local = Local::new(&records, |_| false, &mut entries)?;
        said.sort_by(|one, other| {
            let of_all = |entry: &RuntimeEntry| entry.views == ViewSet::ALL;
            one.name.cmp(&other.name).then(of_all(one).cmp(&of_all(other)))
        });
        let mut listing = Listing::default();
        for (number, entry) in said.iter().enumerate() {
            if !listing.add(&entry.name, to_u32(number)) {
                return Err(LocalDataError::TooMany);
            }
        }
        let names = listing.build(seed, |first, _| first);
        let mut filter = Filter::with_capacity(names.len() + local.names.len(), seed);
        names.add_to(&mut filter);
        local.names.add_to(&mut filter);
        Ok(Self { filter, names, said: said.into(), local, entries })
    }

    /// The entry that answers a query of this type, if a record is about the name.
    pub(super) fn local(&self, name: &[u8], qtype: u16) -> Option<FoundLocal> {
        self.local.find(name, &self.filter.candidates(name), qtype)
    }

    /// The entry of this number.
    pub(super) fn entry(&self, number: u32) -> Option<&Entry> {
        self.entries.get(number)
    }

    /// What is said of a name in a view, if anything is: what clients get, or that it is not blocked.
    pub(super) fn override_of(&self, name: &[u8], view: u8) -> Option<Option<BlockAction>> {
        let candidates = self.filter.candidates(name);
        let said = |listed: &[u8], hash| {
            let of_name = self.said.get(self.names.find(hash, listed)? as usize..)?;
            let mut of_name = of_name.iter().take_while(|entry| equal(&entry.name, listed));
            let is_meant = |entry: &&RuntimeEntry| entry.below || listed.len() == name.len();
            let decides = |entry: &&RuntimeEntry| is_meant(entry) && entry.views.has(view);
            of_name.find(decides).map(|entry| entry.action)
        };
        candidates.iter().rev().find_map(|one| said(one.name, one.hash))
    }
}

#[cfg(test)]
mod tests {
    use pmdns_config::View;

    use super::*;
    use crate::testing::name_of;

    fn entry(name: &str, below: bool, action: Option<BlockAction>, views: ViewSet) -> RuntimeEntry {
        RuntimeEntry { name: name_of(name).into(), below, action, views }
    }

    fn view_of(name: &str) -> View {
        let name = name.to_owned();
        View { name, clients: Vec::new(), group: None, queries_per_second: None, burst: None }
    }

    #[test]
    fn the_longest_name_decides_in_its_views() {
        let (nxdomain, drop) = (Some(BlockAction::Nxdomain), Some(BlockAction::Drop));
        let one = ViewSet::ALL.without(ViewSet::of(&["default".to_owned()], &[]));
        let entries = vec![
            entry("example.", true, nxdomain, ViewSet::ALL),
            entry("good.example.", true, None, ViewSet::ALL),
            entry("bad.good.example.", false, drop, ViewSet::ALL),
            entry("only.example.", true, drop, one),
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
            assert_eq!(names.override_of(&name_of(name), view), expected, "{name} in view {view}");
        }
    }

    #[test]
    fn an_entry_of_one_view_stands_before_that_of_all_views_and_lifts_nothing_elsewhere() {
        let views: Vec<_> = ["kids", "lab"].map(view_of).into();
        let of = |name: &str| ViewSet::of(&[name.to_owned()], &views);
        let nxdomain = Some(BlockAction::Nxdomain);
        let mut entries = vec![
            entry("z.example.", true, nxdomain, ViewSet::ALL),
            entry("z.example.", false, None, of("kids")),
            entry("z.example.", true, Some(BlockAction::Drop), of("lab")),
            entry("y.example.", false, nxdomain, of("kids")),
        ];
        for _ in 0..entries.len() {
            entries.rotate_left(1);
            let names =
                RuntimeNames::new(entries.clone(), Vec::new(), false, Seed::new([7; 16])).unwrap();
            for (name, view, expected) in [
                ("z.example.", 0, Some(nxdomain)),
                ("z.example.", 1, Some(None)),
                ("x.z.example.", 1, Some(nxdomain)),
                ("Z.example.", 2, Some(Some(BlockAction::Drop))),
                ("x.z.example.", 2, Some(Some(BlockAction::Drop))),
                ("y.example.", 1, Some(nxdomain)),
                ("y.example.", 0, None),
                ("y.example.", 2, None),
            ] {
                assert_eq!(
                    names.override_of(&name_of(name), view),
                    expected,
                    "{name} in view {view}"
                );
            }
        }
    }
}
