//! Lines of files of before, which had names only: until 0.2.0 a name had one entry, and until then each kind of changes had a
//! form of its own.

use pmdns_config::{NameError, subtree_name, wire_name, without_wildcard};
use pmdns_control::answers::{AddedRecord, NameEntry};
use pmdns_control::{EntryRequest, EntryScope, RecordChoice};
use serde::Deserialize;

use super::table::{NameTable, wrong};
use crate::Refused;

/// A change, as such a file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OldChange {
    /// A name is blocked or allowed in a view, or in all.
    Set(NameEntry),
    /// The entry of a name in a view is removed, or the one of all views.
    Unset(String, Option<String>),
    /// A name is blocked or allowed in these views, and nothing else is said of it.
    Entry(NameEntry),
    /// A record is added.
    Record(AddedRecord),
    /// Every entry of a name is removed.
    RemoveEntry(String),
    /// The records of a name are removed; of one type, or all.
    RemoveRecords(String, Option<String>),
}

/// What such a file says. An error names the change, from 0.
pub(crate) fn read_old(changes: &[OldChange]) -> Result<NameTable, (usize, String)> {
    let mut table = NameTable::default();
    for (number, change) in changes.iter().enumerate() {
        make(&mut table, change).map_err(|(_, why)| (number, why))?;
    }
    Ok(table)
}

fn make(table: &mut NameTable, change: &OldChange) -> Result<(), Refused> {
    match change {
        OldChange::Set(entry) => table.entries.set(entry.clone()).map_err(wrong),
        OldChange::Unset(name, view) => table.entries.remove(name, view.as_deref()).map_err(wrong),
        OldChange::Entry(entry) => make_entry(table, entry).map_err(wrong),
        OldChange::Record(record) => table.add_record(record.clone()),
        OldChange::RemoveEntry(name) if is_no_rule(name) => Ok(()),
        OldChange::RemoveEntry(name) => table.entries.remove_all(name).map_err(wrong),
        OldChange::RemoveRecords(name, r#type) => {
            let choice = RecordChoice { name: name.clone(), r#type: r#type.clone() };
            table.chosen_records(&choice)?.iter().try_for_each(|one| table.remove_record(one))
        }
    }
}

/// An entry was the only one of its name.
fn make_entry(table: &mut NameTable, old: &NameEntry) -> Result<(), NameError> {
    if is_no_rule(&old.entry.name) {
        tracing::warn!("the entry `{}` is left out: it matches no name", old.entry.name);
        return Ok(());
    }
    table.entries.remove_all(&old.entry.name)?;
    let (name, is_wildcard) = without_wildcard(&old.entry.name);
    let mut entry = old.clone();
    if is_wildcard {
        tracing::warn!("the entry `*.{name}` is about {name} and all names below it now");
        (entry.entry.name, entry.entry.scope) = (name.to_owned(), EntryScope::Suffix);
    }
    let views = std::mem::take(&mut entry.entry.views);
    if views.is_empty() {
        return table.entries.set(entry);
    }
    views.into_iter().try_for_each(|view| {
        let entry = EntryRequest { views: vec![view], ..entry.entry.clone() };
        table.entries.set(NameEntry { entry, ..old.clone() })
    })
}

/// Whether a name has a `*` that is not in front: until 0.2.0 it could be said, and nobody asks for such a name.
fn is_no_rule(name: &str) -> bool {
    wire_name(name).is_ok() && subtree_name(name).is_err()
}
