//! The table of names of run time, and its changes. Pure: it is told whose they are, and since when.

use std::collections::BTreeMap;
use std::ops::Bound;

use pmdns_config::limits::{MAX_ENTRIES, MAX_RECORDS};
use pmdns_config::{Config, LocalRecord, type_number, wire_name};
use pmdns_control::answers::{AddedRecord, EntriesDone, EntryPage, NameEntry, RecordPage};
use pmdns_control::{Call, EntryRequest, Page, RecordChoice, RecordRequest, Refusal};

use super::entries::{self, NameEntries, list_entries};
use crate::{Author, JournalLine, KeptChanges, OperatorChange, Refused, Subject, What};

/// Everything that was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameTable {
    pub(super) entries: NameEntries,
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

impl NameTable {
    /// What a file has kept of names. An error names what it has of none.
    pub fn of_kept(kept: &KeptChanges) -> (Self, Vec<(Subject, String)>) {
        let (mut table, mut left_out) = (Self::default(), Vec::new());
        for change in kept.iter() {
            if let Err((_, why)) = table.set(change) {
                left_out.push((change.what.subject(), why));
            }
        }
        (table, left_out)
    }

    /// What these calls say, by somebody.
    ///
    /// # Errors
    ///
    /// One of them cannot be made.
    pub fn after(calls: &[Call], config: &Config, author: &Author) -> Result<Self, Refused> {
        let mut table = Self::default();
        for call in calls {
            let changes = table.changes(call, config, author)?;
            changes.iter().try_for_each(|change| table.make(change))?;
        }
        Ok(table)
    }

    /// How many entries there are.
    pub fn entry_count(&self) -> usize {
        self.entries.len()
    }

    /// How many records there are.
    pub fn record_count(&self) -> usize {
        self.records.values().map(Vec::len).sum()
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.entries.len() == 0 && self.records.is_empty()
    }

    /// The changes that a call means, if all of them can be made.
    ///
    /// # Errors
    ///
    /// They cannot; the text says why.
    pub fn changes(
        &self,
        call: &Call,
        config: &Config,
        author: &Author,
    ) -> Result<Vec<JournalLine>, Refused> {
        let set = |change: OperatorChange| JournalLine::Set(Box::new(change));
        match call {
            Call::AddEntries(entries) => {
                let asked = |entry: &EntryRequest| entries::asked(entry, config, author);
                let asked: Result<Vec<_>, _> = entries.iter().map(asked).collect();
                let asked: Vec<NameEntry> = asked?.into_iter().flatten().collect();
                entries::check_distinct(&asked)?;
                Ok(asked.into_iter().map(|entry| set(entry.into())).collect())
            }
            Call::RemoveEntry(choice) => {
                self.entries.chosen(choice)?;
                let (name, view) = (choice.name.clone(), choice.view.clone());
                Ok(vec![JournalLine::Unset(Subject::Entry { name, view })])
            }
            Call::AddRecords(records) => {
                records.iter().try_for_each(|record| record_of(record).map(drop))?;
                let (author, what) =
                    (|| author.clone(), |one: &RecordRequest| What::Record(one.clone()));
                let change = |one| set(OperatorChange { what: what(one), author: author() });
                Ok(records.iter().map(change).collect())
            }
            Call::RemoveRecords(choice) => {
                let chosen = self.chosen_records(choice)?;
                if chosen.is_empty() {
                    let why = format!("`{}` has no such record of run time", choice.name);
                    return Err((Refusal::Unknown, why));
                }
                let unset = |record| JournalLine::Unset(What::Record(record).subject());
                Ok(chosen.into_iter().map(unset).collect())
            }
            _ => Err((Refusal::Unable, "this is no change of names".to_owned())),
        }
    }

    /// The records that a choice means.
    pub(super) fn chosen_records(
        &self,
        choice: &RecordChoice,
    ) -> Result<Vec<RecordRequest>, Refused> {
        let wire = wire_name(&choice.name).map_err(wrong)?;
        let number = choice.r#type.as_deref().map(number_of).transpose()?;
        let of_name = self.records.get(&wire).into_iter().flatten();
        Ok(of_name.filter(|one| is_of(one, number)).map(|one| one.record.clone()).collect())
    }

    /// The sentence about a call on entries that is about to be made, with the entries that will no longer hold. `None`: it is
    /// about records.
    pub fn entries_done(&self, call: &Call, changes: &[JournalLine]) -> Option<EntriesDone> {
        match call {
            Call::AddEntries(asked) => {
                let set = changes.iter().filter_map(|change| match change {
                    JournalLine::Set(change) => entry_of(change),
                    JournalLine::Unset(_) => None,
                });
                let set: Vec<NameEntry> = set.collect();
                let (before, beside) = (self.entries.replaced_by(&set), self.entries.beside(&set));
                let mut done = match asked.len() {
                    1 => "1 name set".to_owned(),
                    count => format!("{count} names set"),
                };
                if !before.is_empty() {
                    done += &format!("; replaces: {}", list_entries(&before));
                }
                if !beside.is_empty() {
                    done += &format!("; in their views others stay: {}", list_entries(&beside));
                }
                Some(EntriesDone { done, before })
            }
            Call::RemoveEntry(choice) => {
                let (entry, others) = self.entries.chosen(choice).ok()?;
                let mut done = format!("removed: {entry}");
                if !others.is_empty() {
                    done += &format!("; what stays: {}", list_entries(&others));
                }
                Some(EntriesDone { done, before: vec![entry.clone()] })
            }
            _ => None,
        }
    }

    /// Makes a change.
    ///
    /// # Errors
    ///
    /// It makes no sense.
    pub fn make(&mut self, line: &JournalLine) -> Result<(), Refused> {
        match line {
            JournalLine::Set(change) => self.set(change),
            JournalLine::Unset(Subject::Entry { name, view }) => {
                self.entries.remove(name, view.as_deref()).map_err(wrong)
            }
            JournalLine::Unset(Subject::Record { name, r#type, data }) => {
                let (name, r#type, data) = (name.clone(), r#type.clone(), data.clone());
                self.remove_record(&RecordRequest { name, r#type, ttl: 0, data })
            }
            JournalLine::Unset(_) => Ok(()),
        }
    }

    /// Takes in what holds, if it is about a name.
    fn set(&mut self, change: &OperatorChange) -> Result<(), Refused> {
        let Author { by, since, until_restart } = change.author.clone();
        match &change.what {
            What::Entry(_) => {
                entry_of(change).map_or(Ok(()), |entry| self.entries.set(entry).map_err(wrong))
            }
            What::Record(record) => {
                let record = record.clone();
                self.add_record(AddedRecord { record, by, since, until_restart })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn add_record(&mut self, record: AddedRecord) -> Result<(), Refused> {
        self.remove_record(&record.record)?;
        let name = record_of(&record.record)?.name;
        self.records.entry(name).or_default().push(record);
        Ok(())
    }

    /// Removes the record of this name, type and data.
    pub(super) fn remove_record(&mut self, record: &RecordRequest) -> Result<(), Refused> {
        let LocalRecord { name, rtype, data, .. } = record_of(record)?;
        if let Some(of_name) = self.records.get_mut(&name) {
            of_name.retain(|one| {
                record_of(&one.record).is_ok_and(|one| (one.rtype, &one.data) != (rtype, &data))
            });
            if of_name.is_empty() {
                self.records.remove(&name);
            }
        }
        Ok(())
    }

    /// Whether there are not too many. A file of before may have more: an entry of several views was one.
    ///
    /// # Errors
    ///
    /// There are; the text says how many are allowed.
    pub fn check_room(&self) -> Result<(), Refused> {
        if self.entry_count() > MAX_ENTRIES || self.record_count() > MAX_RECORDS {
            let what = format!(
                "there are {MAX_ENTRIES} entries or {MAX_RECORDS} records already; remove some, or use a block list"
            );
            return Err((Refusal::Unable, what));
        }
        Ok(())
    }

    /// What decides about a name in a view: the entry of the longest name. All are in wire format and lower case.
    pub fn entry_about(&self, name: &[u8], view: u8, config: &Config) -> Option<&NameEntry> {
        self.entries.about(name, view, config)
    }

    /// A record of a name: of this type if it has one.
    pub fn record_of(&self, name: &[u8], qtype: u16) -> Option<&AddedRecord> {
        let of_name = self.records.get(name)?;
        of_name.iter().find(|one| is_of(one, Some(qtype))).or_else(|| of_name.first())
    }

    /// The entries, each with its name in wire format.
    pub fn all_entries(&self) -> impl Iterator<Item = (&[u8], &NameEntry)> {
        self.entries.iter()
    }

    /// The entries alone.
    pub fn without_records(&self) -> Self {
        Self { entries: self.entries.clone(), records: BTreeMap::new() }
    }

    /// The records.
    ///
    /// # Errors
    ///
    /// One of them is none.
    pub fn all_records(&self) -> Result<Vec<LocalRecord>, Refused> {
        self.records.values().flatten().map(|one| record_of(&one.record)).collect()
    }

    /// Everything that holds.
    pub fn all_changes(&self) -> impl Iterator<Item = OperatorChange> {
        let entries = self.entries.iter().map(|(_, entry)| entry.clone().into());
        entries.chain(self.records.values().flatten().cloned().map(OperatorChange::from))
    }

    /// Every line that leads here from nothing.
    pub(crate) fn history(&self) -> impl Iterator<Item = JournalLine> {
        self.all_changes().map(|change| JournalLine::Set(Box::new(change)))
    }

    /// A page of the entries.
    ///
    /// # Errors
    ///
    /// The page begins after no name.
    pub fn entries(&self, page: &Page) -> Result<EntryPage, Refused> {
        Ok(self.entries.page(after(page)?, page.limit))
    }

    /// A page of the records.
    ///
    /// # Errors
    ///
    /// As of [`Self::entries`].
    pub fn records(&self, page: &Page) -> Result<RecordPage, Refused> {
        let (records, is_last) = whole_names(&self.records, after(page)?, page.limit);
        let next = records.last().filter(|_| !is_last).map(|last| last.record.name.clone());
        Ok(RecordPage { records, total: self.record_count(), next })
    }
}

/// The entry that a change sets.
fn entry_of(change: &OperatorChange) -> Option<NameEntry> {
    let Author { by, since, until_restart } = change.author.clone();
    match &change.what {
        What::Entry(entry) => Some(NameEntry { entry: entry.clone(), by, since, until_restart }),
        _ => None,
    }
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
mod tests {
    use super::*;
    use crate::testing::author;

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
        let table = NameTable::after(&[Call::AddRecords(records)], &config, &author()).unwrap();
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
