//! The table of names of run time, and its changes. Pure: it is told the time.

use std::collections::BTreeMap;
use std::ops::Bound;

use pmdns_config::limits::{MAX_ENTRIES, MAX_RECORDS};
use pmdns_config::{
    Config, LocalRecord, NameError, subtree_name, type_number, wire_name, without_wildcard,
};
use pmdns_control::answers::{AddedRecord, EntriesDone, EntryPage, NameEntry, RecordPage};
use pmdns_control::{Call, EntryRequest, EntryScope, Page, RecordRequest, Refusal};
use pmdns_stages::policy::RuntimeNames;
use pmdns_stages::wire::name::Seed;
use serde::{Deserialize, Serialize};

use super::entries::{self, Entries, told};

/// A change, as the journal has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    /// A name is blocked or allowed in a view, or in all.
    Set(NameEntry),
    /// The entry of a name in a view is removed, or the one of all views.
    Unset(String, Option<String>),
    /// A name is blocked or allowed in these views, and nothing else is said of it: until 0.2.0 a name had one entry.
    Entry(NameEntry),
    /// A record is added.
    Record(AddedRecord),
    /// Every entry of a name is removed: until 0.2.0 it had one.
    RemoveEntry(String),
    /// The records of a name are removed; of one type, or all.
    RemoveRecords(String, Option<String>),
}

/// Why a change is refused.
pub(super) type Refused = (Refusal, String);

/// Everything that was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    entries: Entries,
    /// By name in wire format.
    records: BTreeMap<Box<[u8]>, Vec<AddedRecord>>,
}

pub(super) fn wrong(error: impl ToString) -> Refused {
    (Refusal::Wrong, error.to_string())
}

fn record_of(record: &RecordRequest) -> Result<LocalRecord, Refused> {
    let RecordRequest { name, r#type, ttl, data } = record;
    if i32::try_from(*ttl).is_err() {
        return Err(wrong(format!(
            "local record `{name}`: ttl is {ttl}; allowed: 0 to {}",
            i32::MAX
        )));
    }
    LocalRecord::new(name, r#type, *ttl, data).map_err(wrong)
}

impl Table {
    pub(super) fn entry_count(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn record_count(&self) -> usize {
        self.records.values().map(Vec::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.len() == 0 && self.records.is_empty()
    }

    /// The changes that a call means, if all of them can be made.
    pub(super) fn changes(
        &self,
        call: &Call,
        config: &Config,
        (author, since): (&str, u64),
    ) -> Result<Vec<Change>, Refused> {
        let by = || author.to_owned();
        match call {
            Call::AddEntries(entries) => {
                let asked = |entry: &EntryRequest| entries::asked(entry, config, (author, since));
                let asked: Result<Vec<_>, _> = entries.iter().map(asked).collect();
                let asked: Vec<NameEntry> = asked?.into_iter().flatten().collect();
                entries::check_distinct(&asked)?;
                Ok(asked.into_iter().map(Change::Set).collect())
            }
            Call::RemoveEntry(choice) => {
                self.entries.chosen(choice)?;
                Ok(vec![Change::Unset(choice.name.clone(), choice.view.clone())])
            }
            Call::AddRecords(records) => {
                records.iter().try_for_each(|record| record_of(record).map(drop))?;
                let change = |record: &RecordRequest| {
                    Change::Record(AddedRecord { record: record.clone(), by: by(), since })
                };
                Ok(records.iter().map(change).collect())
            }
            Call::RemoveRecords(choice) => {
                let wire = wire_name(&choice.name).map_err(wrong)?;
                let number = choice.r#type.as_deref().map(number_of).transpose()?;
                let of_name = self.records.get(&wire).into_iter().flatten();
                match of_name.filter(|one| is_of(one, number)).count() {
                    0 => Err((
                        Refusal::Unknown,
                        format!("`{}` has no such record of run time", choice.name),
                    )),
                    _ => {
                        Ok(vec![Change::RemoveRecords(choice.name.clone(), choice.r#type.clone())])
                    }
                }
            }
            _ => Err((Refusal::Unable, "this is no change of names".to_owned())),
        }
    }

    /// The sentence about a call on entries that is about to be made, with the entries that will no longer hold. `None`: it is
    /// about records.
    pub(super) fn entries_done(&self, call: &Call, changes: &[Change]) -> Option<EntriesDone> {
        match call {
            Call::AddEntries(asked) => {
                let set = changes.iter().filter_map(|change| match change {
                    Change::Set(entry) => Some(entry.clone()),
                    _ => None,
                });
                let set: Vec<NameEntry> = set.collect();
                let (before, beside) = (self.entries.replaced_by(&set), self.entries.beside(&set));
                let mut done = match asked.len() {
                    1 => "1 name set".to_owned(),
                    count => format!("{count} names set"),
                };
                if !before.is_empty() {
                    done += &format!("; replaces: {}", told(&before));
                }
                if !beside.is_empty() {
                    done += &format!("; in their views others stay: {}", told(&beside));
                }
                Some(EntriesDone { done, before })
            }
            Call::RemoveEntry(choice) => {
                let (entry, others) = self.entries.chosen(choice).ok()?;
                let mut done = format!("removed: {entry}");
                if !others.is_empty() {
                    done += &format!("; what stays: {}", told(&others));
                }
                Some(EntriesDone { done, before: vec![entry.clone()] })
            }
            _ => None,
        }
    }

    /// Makes a change.
    pub(super) fn make(&mut self, change: &Change) -> Result<(), Refused> {
        match change {
            Change::Set(entry) => self.entries.set(entry.clone()).map_err(wrong)?,
            Change::Unset(name, view) => {
                self.entries.remove(name, view.as_deref()).map_err(wrong)?;
            }
            Change::Entry(entry) => self.make_old(entry).map_err(wrong)?,
            Change::Record(record) => {
                let wire = record_of(&record.record)?;
                let of_name = self.records.entry(wire.name.clone()).or_default();
                of_name.retain(|one| {
                    record_of(&one.record)
                        .is_ok_and(|one| (one.rtype, &one.data) != (wire.rtype, &wire.data))
                });
                of_name.push(record.clone());
            }
            Change::RemoveEntry(name) if is_no_rule(name) => {}
            Change::RemoveEntry(name) => self.entries.remove_all(name).map_err(wrong)?,
            Change::RemoveRecords(name, r#type) => {
                let name = wire_name(name).map_err(wrong)?;
                let number = r#type.as_deref().map(number_of).transpose()?;
                if let Some(of_name) = self.records.get_mut(&name) {
                    of_name.retain(|one| !is_of(one, number));
                    if of_name.is_empty() {
                        self.records.remove(&name);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether there are not too many. A file of before may have more: an entry of several views was one.
    pub(super) fn check_room(&self) -> Result<(), Refused> {
        if self.entry_count() > MAX_ENTRIES || self.record_count() > MAX_RECORDS {
            let what = format!(
                "there are {MAX_ENTRIES} entries or {MAX_RECORDS} records already; remove some, or use a block list"
            );
            return Err((Refusal::Unable, what));
        }
        Ok(())
    }

    /// Makes a change of a journal of before, when an entry was the only one of its name.
    fn make_old(&mut self, old: &NameEntry) -> Result<(), NameError> {
        if is_no_rule(&old.entry.name) {
            tracing::warn!("the entry `{}` is left out: it matches no name", old.entry.name);
            return Ok(());
        }
        self.entries.remove_all(&old.entry.name)?;
        let (name, is_wildcard) = without_wildcard(&old.entry.name);
        let mut entry = old.clone();
        if is_wildcard {
            tracing::warn!("the entry `*.{name}` is about {name} and all names below it now");
            (entry.entry.name, entry.entry.scope) = (name.to_owned(), EntryScope::Suffix);
        }
        let views = std::mem::take(&mut entry.entry.views);
        if views.is_empty() {
            return self.entries.set(entry);
        }
        views.into_iter().try_for_each(|view| {
            let entry = EntryRequest { views: vec![view], ..entry.entry.clone() };
            self.entries.set(NameEntry { entry, ..old.clone() })
        })
    }

    /// What decides about a name in a view: the entry of the longest name. All are in wire format and lower case.
    pub(crate) fn entry_about(&self, name: &[u8], view: u8, config: &Config) -> Option<&NameEntry> {
        self.entries.about(name, view, config)
    }

    /// A record of a name: of this type if it has one.
    pub(crate) fn record_of(&self, name: &[u8], qtype: u16) -> Option<&AddedRecord> {
        let of_name = self.records.get(name)?;
        of_name.iter().find(|one| is_of(one, Some(qtype))).or_else(|| of_name.first())
    }

    /// Ready to be looked up. `None`: nothing is said.
    pub(crate) fn names(
        &self,
        config: &Config,
        seed: Seed,
    ) -> Result<Option<RuntimeNames>, Refused> {
        if self.is_empty() {
            return Ok(None);
        }
        let records = self.records.values().flatten().map(|one| record_of(&one.record));
        let records = records.collect::<Result<Vec<_>, _>>()?;
        RuntimeNames::new(self.entries.ready(config), records, config.policy.auto_ptr, seed)
            .map(Some)
            .map_err(wrong)
    }

    /// Every change that leads here from nothing.
    pub(super) fn history(&self) -> impl Iterator<Item = Change> {
        let entries = self.entries.iter().map(|(_, entry)| Change::Set(entry.clone()));
        entries.chain(self.records.values().flatten().cloned().map(Change::Record))
    }

    pub(super) fn entries(&self, page: &Page) -> Result<EntryPage, Refused> {
        Ok(self.entries.page(after(page)?, page.limit))
    }

    pub(super) fn records(&self, page: &Page) -> Result<RecordPage, Refused> {
        let (records, is_last) = whole_names(&self.records, after(page)?, page.limit);
        let next = records.last().filter(|_| !is_last).map(|last| last.record.name.clone());
        Ok(RecordPage { records, total: self.record_count(), next })
    }
}

/// Whether a name has a `*` that is not in front: until 0.2.0 it could be said, and nobody asks for such a name.
fn is_no_rule(name: &str) -> bool {
    wire_name(name).is_ok() && subtree_name(name).is_err()
}

fn after(page: &Page) -> Result<Bound<Box<[u8]>>, Refused> {
    let name = page.after.as_deref().map(wire_name).transpose().map_err(wrong)?;
    Ok(name.map_or(Bound::Unbounded, Bound::Excluded))
}

/// What whole names behind `after` have, and whether no name follows. What a name has is not parted, because the next page
/// begins behind a name.
pub(super) fn whole_names<T: Clone>(
    all: &BTreeMap<Box<[u8]>, Vec<T>>,
    after: Bound<Box<[u8]>>,
    limit: usize,
) -> (Vec<T>, bool) {
    let mut rest = all.range((after, Bound::Unbounded)).peekable();
    let mut page: Vec<T> = Vec::new();
    let has_room =
        |page: &[T], of_name: &[T]| page.is_empty() || page.len() + of_name.len() <= limit;
    while let Some((_, of_name)) = rest.next_if(|(_, of_name)| has_room(&page, of_name)) {
        page.extend_from_slice(of_name);
    }
    (page, rest.next().is_none())
}

fn number_of(text: &str) -> Result<u16, Refused> {
    type_number(text)
        .ok_or_else(|| wrong(format!("there is no record type `{text}`; write A or TYPE1")))
}

fn is_of(record: &AddedRecord, number: Option<u16>) -> bool {
    number.is_none_or(|number| type_number(&record.record.r#type) == Some(number))
}

#[cfg(test)]
impl Table {
    /// What these calls say, by somebody at a time.
    pub(crate) fn after(calls: &[Call], config: &Config, by: (&str, u64)) -> Self {
        let mut table = Self::default();
        for call in calls {
            let changes = table.changes(call, config, by).unwrap();
            changes.iter().for_each(|change| table.make(change).unwrap());
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_no_more_records_than_its_limit_unless_one_name_has() {
        let record = |name: &str, last: u8| RecordRequest {
            name: name.to_owned(),
            r#type: "A".to_owned(),
            ttl: 300,
            data: format!("192.0.2.{last}"),
        };
        let records = [("a.example", 1), ("b.example", 1), ("b.example", 2), ("c.example", 1)];
        let records = records.map(|(name, last)| record(name, last)).into();
        let config = Config::default();
        let table = Table::after(&[Call::AddRecords(records)], &config, ("user 0", 7));
        let page = |after: Option<&str>, limit| {
            let page = Page { after: after.map(str::to_owned), limit };
            let RecordPage { records, total, next } = table.records(&page).unwrap();
            assert_eq!(total, 4);
            (records.len(), next)
        };
        let next = |name: &str| Some(name.to_owned());
        assert_eq!(page(None, 2), (1, next("a.example")), "the next name has two");
        assert_eq!(page(Some("a.example"), 2), (2, next("b.example")));
        assert_eq!(page(Some("a.example"), 1), (2, next("b.example")), "they come together");
        assert_eq!(page(Some("b.example"), 2), (1, None));
        assert_eq!(page(None, 3), (3, next("b.example")));
        assert_eq!(page(None, 4), (4, None));
    }
}
