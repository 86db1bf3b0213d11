//! The table of names of run time, and its changes. Pure: it is told the time.

use std::collections::BTreeMap;
use std::ops::Bound;

use pmdns_config::limits::{MAX_ENTRIES, MAX_RECORDS};
use pmdns_config::{BlockAction, Config, LocalRecord, type_number, view_number, wire_name};
use pmdns_control::answers::{Entry, EntryPage, Record, RecordPage};
use pmdns_control::{
    Call, EntryKind, EntryRequest, EntryScope, Page, RecordRequest, Refusal, RuleAction,
};
use pmdns_stages::policy::{RuntimeEntry, RuntimeNames};
use pmdns_stages::wire::name::{Seed, suffixes};
use serde::{Deserialize, Serialize};

/// A change, as the journal has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    /// A name is blocked or allowed.
    Entry(Entry),
    /// A record is added.
    Record(Record),
    /// What was said of a name is forgotten.
    RemoveEntry(String),
    /// The records of a name are removed; of one type, or all.
    RemoveRecords(String, Option<String>),
}

/// Why a change is refused.
pub(super) type Refused = (Refusal, String);

/// Everything that was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// By name in wire format.
    entries: BTreeMap<Box<[u8]>, Entry>,
    records: BTreeMap<Box<[u8]>, Vec<Record>>,
}

fn wrong(error: impl ToString) -> Refused {
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
        self.entries.is_empty() && self.records.is_empty()
    }

    /// The changes that a call means, if all of them can be made.
    pub(super) fn changes(
        &self,
        call: &Call,
        config: &Config,
        (by, since): (&str, u64),
    ) -> Result<Vec<Change>, Refused> {
        let by = || by.to_owned();
        match call {
            Call::AddEntries(entries) => {
                entries.iter().try_for_each(|entry| check(entry, config))?;
                let change = |entry: &EntryRequest| {
                    Change::Entry(Entry { entry: entry.clone(), by: by(), since })
                };
                Ok(entries.iter().map(change).collect())
            }
            Call::RemoveEntry(name) => {
                let wire = wire_name(name).map_err(wrong)?;
                match self.entries.contains_key(&wire) {
                    true => Ok(vec![Change::RemoveEntry(name.clone())]),
                    false => {
                        Err((Refusal::Unknown, format!("nothing was said of `{name}` at run time")))
                    }
                }
            }
            Call::AddRecords(records) => {
                records.iter().try_for_each(|record| record_of(record).map(drop))?;
                let change = |record: &RecordRequest| {
                    Change::Record(Record { record: record.clone(), by: by(), since })
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

    /// Makes a change.
    pub(super) fn make(&mut self, change: &Change) -> Result<(), Refused> {
        match change {
            Change::Entry(entry) => {
                let name = wire_name(&entry.entry.name).map_err(wrong)?;
                self.entries.insert(name, entry.clone());
            }
            Change::Record(record) => {
                let wire = record_of(&record.record)?;
                let of_name = self.records.entry(wire.name.clone()).or_default();
                of_name.retain(|one| {
                    record_of(&one.record)
                        .is_ok_and(|one| (one.rtype, &one.data) != (wire.rtype, &wire.data))
                });
                of_name.push(record.clone());
            }
            Change::RemoveEntry(name) => {
                self.entries.remove(&wire_name(name).map_err(wrong)?);
            }
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
        let (entries, records) = (self.entry_count(), self.record_count());
        if entries > MAX_ENTRIES || records > MAX_RECORDS {
            let what = format!(
                "there are {MAX_ENTRIES} names or {MAX_RECORDS} records already; remove some, or use a block list"
            );
            return Err((Refusal::Unable, what));
        }
        Ok(())
    }

    /// What decides about a name in a view: what is said of the longest name. All are in wire format and lower case.
    pub(crate) fn entry_about(&self, name: &[u8], view: u8, config: &Config) -> Option<&Entry> {
        suffixes(name).find_map(|suffix| {
            let entry = self.entries.get(suffix)?;
            let is_meant = suffix.len() == name.len() || entry.entry.scope == EntryScope::Suffix;
            (is_meant && config.view_set(&entry.entry.views).has(view)).then_some(entry)
        })
    }

    /// A record of a name: of this type if it has one.
    pub(crate) fn record_of(&self, name: &[u8], qtype: u16) -> Option<&Record> {
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
        let entry = |name: &[u8], entry: &Entry| RuntimeEntry {
            name: name.into(),
            below: entry.entry.scope == EntryScope::Suffix,
            action: (entry.entry.kind == EntryKind::Block).then(|| action_of(entry.entry.action)),
            views: config.view_set(&entry.entry.views),
        };
        let records = self.records.values().flatten().map(|one| record_of(&one.record));
        let records = records.collect::<Result<Vec<_>, _>>()?;
        let names = self.entries.iter().map(|(name, said)| entry(name, said)).collect();
        RuntimeNames::new(names, records, config.policy.auto_ptr, seed).map(Some).map_err(wrong)
    }

    /// Every change that leads here from nothing.
    pub(super) fn history(&self) -> impl Iterator<Item = Change> {
        let entries = self.entries.values().cloned().map(Change::Entry);
        entries.chain(self.records.values().flatten().cloned().map(Change::Record))
    }

    pub(super) fn entries(&self, page: &Page) -> Result<EntryPage, Refused> {
        let mut rest = self.entries.range((after(page)?, Bound::Unbounded));
        let entries: Vec<Entry> =
            rest.by_ref().take(page.limit).map(|(_, entry)| entry.clone()).collect();
        let next = rest.next().and_then(|_| entries.last()).map(|last| last.entry.name.clone());
        Ok(EntryPage { entries, total: self.entry_count(), next })
    }

    pub(super) fn records(&self, page: &Page) -> Result<RecordPage, Refused> {
        let mut rest = self.records.range((after(page)?, Bound::Unbounded)).peekable();
        let mut records: Vec<Record> = Vec::new();
        // The records of a name are not parted, because the next page begins behind a name.
        let has_room = |records: &[Record], of_name: &[Record]| {
            records.is_empty() || records.len() + of_name.len() <= page.limit
        };
        while let Some((_, of_name)) = rest.next_if(|(_, of_name)| has_room(&records, of_name)) {
            records.extend_from_slice(of_name);
        }
        let next = rest.next().and_then(|_| records.last()).map(|last| last.record.name.clone());
        Ok(RecordPage { records, total: self.record_count(), next })
    }
}

fn after(page: &Page) -> Result<Bound<Box<[u8]>>, Refused> {
    let name = page.after.as_deref().map(wire_name).transpose().map_err(wrong)?;
    Ok(name.map_or(Bound::Unbounded, Bound::Excluded))
}

fn check(entry: &EntryRequest, config: &Config) -> Result<(), Refused> {
    wire_name(&entry.name).map_err(wrong)?;
    let is_known = |name: &String| view_number(name, &config.views).is_some();
    match entry.views.iter().find(|name| !is_known(name)) {
        Some(name) => {
            Err(wrong(format!("there is no view `{name}`; the views are in the configuration")))
        }
        None => Ok(()),
    }
}

fn number_of(text: &str) -> Result<u16, Refused> {
    type_number(text)
        .ok_or_else(|| wrong(format!("there is no record type `{text}`; write A or TYPE1")))
}

fn is_of(record: &Record, number: Option<u16>) -> bool {
    number.is_none_or(|number| type_number(&record.record.r#type) == Some(number))
}

fn action_of(action: RuleAction) -> BlockAction {
    match action {
        RuleAction::Nxdomain => BlockAction::Nxdomain,
        RuleAction::Nodata => BlockAction::Nodata,
        RuleAction::Refused => BlockAction::Refused,
        RuleAction::Null => BlockAction::Null,
        RuleAction::Drop => BlockAction::Drop,
    }
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
