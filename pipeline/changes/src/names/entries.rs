//! Names that are blocked or allowed at run time: one entry for each name and view. So an exception in one view lifts
//! no block in another.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;

use pmdns_config::{Config, NameError, subtree_name, view_number, without_wildcard};
use pmdns_control::answers::{EntryPage, NameEntry};
use pmdns_control::{EntryChoice, EntryRequest, EntryScope, Refusal};

use super::table::wrong;
use crate::{Author, Refused};

/// Entries that a sentence names; of more it has the number.
const MAX_TOLD: usize = 3;

/// The entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NameEntries {
    /// By name in wire format. Those of views stand before the one of all views, which has no view.
    by_name: BTreeMap<Box<[u8]>, Vec<NameEntry>>,
    count: usize,
}

/// The view of an entry; `None`: it is of all views.
fn view_of(entry: &NameEntry) -> Option<&str> {
    entry.entry.views.first().map(String::as_str)
}

/// The entries that a request asks for, one for each view, if it makes sense.
pub(super) fn asked(
    request: &EntryRequest,
    config: &Config,
    author: &Author,
) -> Result<Vec<NameEntry>, Refused> {
    subtree_name(&request.name).map_err(wrong)?;
    check_views(&request.views, config)?;
    let (name, is_wildcard) = without_wildcard(&request.name);
    let scope = if is_wildcard { EntryScope::Suffix } else { request.scope };
    let one = |views: Vec<String>| {
        let entry = EntryRequest { name: name.to_owned(), scope, views, ..request.clone() };
        let Author { by, since, until_restart } = author.clone();
        NameEntry { entry, by, since, until_restart }
    };
    Ok(match request.views.as_slice() {
        [] => vec![one(Vec::new())],
        views => views.iter().map(|view| one(vec![view.clone()])).collect(),
    })
}

/// The name and the view of an entry, which no other has.
fn key_of(entry: &NameEntry) -> (Option<Box<[u8]>>, Option<&str>) {
    (subtree_name(&entry.entry.name).ok(), view_of(entry))
}

/// Refuses two entries for a name and view in one request: nobody can mean both.
pub(super) fn check_distinct(entries: &[NameEntry]) -> Result<(), Refused> {
    let mut keys = HashSet::new();
    match entries.iter().find(|&entry| !keys.insert(key_of(entry))) {
        Some(twice) => Err(wrong(format!(
            "`{}` comes twice in {}; write one entry for it",
            twice.entry.name,
            view_of(twice).map_or_else(|| "all views".to_owned(), |view| format!("view `{view}`"))
        ))),
        None => Ok(()),
    }
}

/// Whether the configuration has these views.
pub(super) fn check_views(views: &[String], config: &Config) -> Result<(), Refused> {
    match views.iter().find(|name| view_number(name, &config.views).is_none()) {
        Some(name) => {
            Err(wrong(format!("there is no view `{name}`; the views are in the configuration")))
        }
        None => Ok(()),
    }
}

impl NameEntries {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Every entry, with its name in wire format.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &NameEntry)> {
        self.by_name.iter().flat_map(|(name, all)| all.iter().map(|entry| (&**name, entry)))
    }

    /// Sets an entry of one view, or of all. It takes the place of the one of the same name and view.
    pub(super) fn set(&mut self, entry: NameEntry) -> Result<(), NameError> {
        let of_name = self.by_name.entry(subtree_name(&entry.entry.name)?).or_default();
        match of_name.iter_mut().find(|one| view_of(one) == view_of(&entry)) {
            Some(one) => *one = entry,
            None => {
                of_name.push(entry);
                of_name.sort_by(|one, other| {
                    let rank = |entry: &NameEntry| {
                        (entry.entry.views.is_empty(), entry.entry.views.clone())
                    };
                    rank(one).cmp(&rank(other))
                });
                self.count += 1;
            }
        }
        Ok(())
    }

    /// Removes the entry of a name in a view, or the one of all views.
    pub(super) fn remove(&mut self, name: &str, view: Option<&str>) -> Result<(), NameError> {
        let name = subtree_name(name)?;
        if let Some(of_name) = self.by_name.get_mut(&name) {
            let before = of_name.len();
            of_name.retain(|one| view_of(one) != view);
            self.count -= before - of_name.len();
            if of_name.is_empty() {
                self.by_name.remove(&name);
            }
        }
        Ok(())
    }

    /// Removes every entry of a name.
    pub(super) fn remove_all(&mut self, name: &str) -> Result<(), NameError> {
        let of_name = self.by_name.remove(&subtree_name(name)?);
        self.count -= of_name.map_or(0, |of_name| of_name.len());
        Ok(())
    }

    fn of_name(&self, name: &str) -> &[NameEntry] {
        let name = subtree_name(name).ok();
        name.and_then(|name| self.by_name.get(&name)).map_or(&[], Vec::as_slice)
    }

    /// The entry that these would take the place of, or that a removal takes away.
    fn same(&self, name: &str, view: Option<&str>) -> Option<&NameEntry> {
        self.of_name(name).iter().find(|one| view_of(one) == view)
    }

    /// The entries that no longer hold when these are set.
    pub(super) fn replaced_by(&self, new: &[NameEntry]) -> Vec<NameEntry> {
        let same = |one: &NameEntry| self.same(&one.entry.name, view_of(one)).cloned();
        new.iter().filter_map(same).collect()
    }

    /// Entries of the same names that decide in their views although these are set for all.
    pub(super) fn beside(&self, new: &[NameEntry]) -> Vec<NameEntry> {
        let of_all = new.iter().filter(|one| one.entry.views.is_empty());
        let new: HashSet<_> = new.iter().map(key_of).collect();
        let others = of_all.flat_map(|one| self.of_name(&one.entry.name));
        others.filter(|one| !new.contains(&key_of(one))).cloned().collect()
    }

    /// The entry that a choice means, and those of the same name that stay.
    pub(super) fn chosen(
        &self,
        choice: &EntryChoice,
    ) -> Result<(&NameEntry, Vec<NameEntry>), Refused> {
        let EntryChoice { name, view } = choice;
        subtree_name(name).map_err(wrong)?;
        let others = self.of_name(name).iter().filter(|one| view_of(one) != view.as_deref());
        let others: Vec<NameEntry> = others.cloned().collect();
        match self.same(name, view.as_deref()) {
            Some(entry) => Ok((entry, others)),
            None => {
                let place = match view {
                    Some(view) => format!("view `{view}`"),
                    None => "all views".to_owned(),
                };
                let hint = match others.as_slice() {
                    [] => String::new(),
                    others => {
                        format!("; name the view of one that there is: {}", list_entries(others))
                    }
                };
                Err((Refusal::Unknown, format!("`{name}` has no entry in {place}{hint}")))
            }
        }
    }

    /// What decides about a name in a view, if an entry does. All are in wire format and lower case. It is the choice of
    /// `pmdns_stages::policy::RuntimeNames`.
    pub(super) fn about(&self, name: &[u8], view: u8, config: &Config) -> Option<&NameEntry> {
        suffixes(name).find_map(|suffix| {
            let is_meant = |one: &&NameEntry| {
                (suffix.len() == name.len() || one.entry.scope == EntryScope::Suffix)
                    && config.view_set(&one.entry.views).has(view)
            };
            self.by_name.get(suffix)?.iter().find(is_meant)
        })
    }

    /// The entries behind a name, of whole names.
    pub(super) fn page(&self, after: Bound<Box<[u8]>>, limit: usize) -> EntryPage {
        let (entries, is_last) = super::table::whole_names(&self.by_name, after, limit);
        let next = entries.last().filter(|_| !is_last).map(|last| last.entry.name.clone());
        EntryPage { entries, total: self.count, next }
    }
}

/// Entries in a sentence.
pub(super) fn list_entries(entries: &[NameEntry]) -> String {
    let (shown, others) = entries.split_at(entries.len().min(MAX_TOLD));
    let mut text = shown.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    if !others.is_empty() {
        text += &format!("; and {} more", others.len());
    }
    text
}

/// The name and every name above it: first the whole name, last the root.
fn suffixes(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(name), |name| {
        let label = usize::from(*name.first()?);
        if label == 0 { None } else { name.get(1 + label..) }
    })
}

#[cfg(test)]
mod tests {
    use pmdns_control::{Call, EntryKind, RuleAction};

    use super::*;
    use crate::names::NameTable;
    use crate::testing::{author, config};

    fn views() -> Config {
        config(
            "[[view]]\nname = \"kids\"\nclients = [\"192.0.2.0/24\"]\nqueries_per_second = 10\n\
             [[view]]\nname = \"lab\"\nclients = [\"198.51.100.0/24\"]\nqueries_per_second = 10\n",
        )
    }

    fn request(name: &str, kind: EntryKind, views: &[&str]) -> EntryRequest {
        EntryRequest {
            name: name.to_owned(),
            kind,
            scope: EntryScope::Exact,
            action: RuleAction::Nxdomain,
            views: views.iter().map(|view| (*view).to_owned()).collect(),
        }
    }

    fn add(name: &str, kind: EntryKind, views: &[&str]) -> Call {
        Call::AddEntries(vec![request(name, kind, views)])
    }

    fn remove(name: &str, view: Option<&str>) -> Call {
        Call::RemoveEntry(EntryChoice { name: name.to_owned(), view: view.map(str::to_owned) })
    }

    /// The sentence about a call after others.
    fn done(before: &[Call], call: &Call) -> Result<String, String> {
        let config = views();
        let table = NameTable::after(before, &config, &author()).unwrap();
        let changes = table.changes(call, &config, &author()).map_err(|(_, why)| why)?;
        Ok(table.entries_done(call, &changes).unwrap().done)
    }

    #[test]
    fn an_exception_in_a_view_replaces_nothing_and_a_second_entry_there_says_what_it_replaces() {
        use EntryKind::{Allow, Block};
        let block = add("z.example", Block, &[]);
        let allow = add("Z.example", Allow, &["kids"]);
        assert_eq!(done(std::slice::from_ref(&block), &allow).unwrap(), "1 name set");
        let both = [block, allow];
        assert_eq!(
            done(&both, &add("z.example", Allow, &[])).unwrap(),
            "1 name set; replaces: z.example blocked in all views by user 0; \
             in their views others stay: Z.example allowed in view kids by user 0"
        );
        assert_eq!(
            done(&both, &add("z.example", Block, &["kids", "lab"])).unwrap(),
            "1 name set; replaces: Z.example allowed in view kids by user 0"
        );
        let config = views();
        let table = NameTable::after(&both, &config, &author()).unwrap();
        let kind = |view| {
            let name = pmdns_config::wire_name("z.example").unwrap();
            table.entry_about(&name, view, &config).unwrap().entry.kind
        };
        assert_eq!((kind(0), kind(1), kind(2)), (Block, Allow, Block));
    }

    #[test]
    fn a_removal_takes_the_entry_of_one_view_and_says_which() {
        use EntryKind::{Allow, Block};
        let both = [add("z.example", Block, &[]), add("z.example", Allow, &["kids"])];
        assert_eq!(
            done(&both, &remove("z.example", Some("kids"))).unwrap(),
            "removed: z.example allowed in view kids by user 0; \
             what stays: z.example blocked in all views by user 0"
        );
        let why = done(&both[1..], &remove("z.example", None)).unwrap_err();
        assert_eq!(
            why,
            "`z.example` has no entry in all views; name the view of one that there is: \
             z.example allowed in view kids by user 0"
        );
        let why = done(&[], &remove("z.example", Some("kids"))).unwrap_err();
        assert_eq!(why, "`z.example` has no entry in view `kids`");
        let calls = [both[0].clone(), both[1].clone(), remove("z.example", None)];
        let table = NameTable::after(&calls, &views(), &author()).unwrap();
        assert_eq!(table.entry_count(), 1);
    }

    #[test]
    fn a_leading_star_is_the_subtree_and_stands_under_its_name() {
        use EntryKind::Block;
        let star = add("*.foo.example", Block, &[]);
        let config = views();
        let table = NameTable::after(std::slice::from_ref(&star), &config, &author()).unwrap();
        for (name, is_blocked) in
            [("foo.example", true), ("www.foo.example", true), ("xfoo.example", false)]
        {
            let name = pmdns_config::wire_name(name).unwrap();
            assert_eq!(table.entry_about(&name, 0, &config).is_some(), is_blocked, "{name:?}");
        }
        for name in ["*.foo.example", "foo.example"] {
            assert_eq!(
                done(std::slice::from_ref(&star), &remove(name, None)).unwrap(),
                "removed: foo.example with names below blocked in all views by user 0"
            );
        }
        assert!(done(&[], &add("a.*.example", Block, &[])).unwrap_err().contains("not in front"));
        assert!(done(&[], &add("*", Block, &[])).unwrap_err().contains("not in front"));
    }

    #[test]
    fn one_request_does_not_say_two_things_of_a_name_in_a_view() {
        use EntryKind::{Allow, Block};
        let one = |kind, views: &[&str]| request("z.example", kind, views);
        let twice = Call::AddEntries(vec![one(Block, &["kids", "lab"]), one(Allow, &["lab"])]);
        let why = done(&[], &twice).unwrap_err();
        assert_eq!(why, "`z.example` comes twice in view `lab`; write one entry for it");
        let both = Call::AddEntries(vec![one(Block, &[]), one(Allow, &["lab"])]);
        assert_eq!(done(&[], &both).unwrap(), "2 names set");
        assert!(done(&[], &add("z.example", Block, &["nobody"])).is_err());
    }
}
