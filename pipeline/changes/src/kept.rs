//! The changes that a file keeps: the last of each subject.

use std::collections::{BTreeMap, HashSet};

use pmdns_config::limits::{MAX_ENTRIES, MAX_RECORDS, MAX_ZONE_LIMITS};

use crate::change::{Key, OperatorChange, Subject, What};
use crate::journal::JournalLine;
use crate::overlay::MAX_CHANGES;

/// Prefixes of clients that the file of all changes keeps.
const MAX_SHARED_CLIENTS: usize = 1 << 18;
/// How many changes of each kind are kept, by the numbers of [`Subject::key`], and what to do then.
const MOST: [(usize, &str); 6] = [
    (MAX_ENTRIES, "remove entries for good"),
    (MAX_RECORDS, "remove records for good"),
    (MAX_CHANGES, "put changes of upstreams into the file"),
    (MAX_CHANGES, "put lists into the file"),
    (MAX_SHARED_CLIENTS, "set `clients.journal`, and reload"),
    (MAX_ZONE_LIMITS, "lift limits for good"),
];

/// Changes by subject, with their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptChanges {
    by_key: BTreeMap<Key, (u64, OperatorChange)>,
    next: u64,
    /// How many there are of each kind.
    counts: [usize; MOST.len()],
}

impl KeptChanges {
    /// Takes a line in.
    pub fn take(&mut self, line: JournalLine) {
        match line {
            JournalLine::Set(change) => {
                let key = change.what.subject().key();
                let kind = usize::from(key.0);
                let is_new = self.by_key.insert(key, (self.next, *change)).is_none();
                self.counts[kind] += usize::from(is_new);
                self.next += 1;
            }
            JournalLine::Unset(subject) => {
                let key = subject.key();
                let was_there = self.by_key.remove(&key).is_some();
                self.counts[usize::from(key.0)] -= usize::from(was_there);
            }
        }
    }

    /// Whether these lines have room. What is hidden until a restart is kept too, so the file would grow without end.
    ///
    /// # Errors
    ///
    /// The text says what to do.
    pub(crate) fn check_room(&self, lines: &[JournalLine]) -> Result<(), String> {
        let mut counts = self.counts;
        for line in lines {
            let JournalLine::Set(change) = line else { continue };
            let key = change.what.subject().key();
            let kind = usize::from(key.0);
            counts[kind] += usize::from(!self.by_key.contains_key(&key));
            let (most, hint) = MOST[kind];
            if counts[kind] > most.max(self.counts[kind]) {
                return Err(format!("{most} changes of this kind are kept already; {hint}"));
            }
        }
        Ok(())
    }

    /// The change of a subject.
    pub fn of(&self, subject: &Subject) -> Option<&OperatorChange> {
        self.by_key.get(&subject.key()).map(|(_, change)| change)
    }

    /// Those of local records.
    pub(crate) fn records(&self) -> Self {
        let mut records = Self::default();
        let is_record =
            |(_, change): &&(u64, OperatorChange)| matches!(change.what, What::Record(_));
        in_order(self.by_key.values().filter(is_record))
            .for_each(|change| records.take(set(change)));
        records
    }

    /// Those that do not hold, if these are all that do: they come back with a restart. Who has the table of clients knows about
    /// those of clients.
    pub(crate) fn hidden(
        &self,
        holds: impl Iterator<Item = OperatorChange>,
    ) -> Vec<OperatorChange> {
        let lasting = holds.filter(|change| !change.author.until_restart);
        let lasting: HashSet<Key> = lasting.map(|change| change.what.subject().key()).collect();
        let hidden = self.by_key.iter().filter(|(key, (_, change))| {
            !matches!(change.what, What::Client(_)) && !lasting.contains(*key)
        });
        in_order(hidden.map(|(_, change)| change)).cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The changes, those that were made last at the end.
    pub fn iter(&self) -> impl Iterator<Item = &OperatorChange> {
        in_order(self.by_key.values())
    }

    /// The lines that lead here from nothing.
    pub(crate) fn history(&self) -> impl Iterator<Item = JournalLine> {
        self.iter().map(set)
    }
}

/// Changes, those that were made last at the end.
fn in_order<'c>(
    changes: impl Iterator<Item = &'c (u64, OperatorChange)>,
) -> impl Iterator<Item = &'c OperatorChange> {
    let mut all: Vec<&(u64, OperatorChange)> = changes.collect();
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, change)| change)
}

/// The line that makes a change.
fn set(change: &OperatorChange) -> JournalLine {
    JournalLine::Set(Box::new(change.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::limit;

    #[test]
    fn there_is_one_change_of_a_subject_however_it_is_written() {
        let mut kept = KeptChanges::default();
        let zone = |zone: &str, rate| JournalLine::Set(Box::new(limit(zone, rate)));
        for line in [zone("a.example", 1), zone("b.example", 2), zone("A.example.", 3)] {
            kept.take(line);
        }
        let rates = |kept: &KeptChanges| -> Vec<u32> {
            let rate = |change: &OperatorChange| match &change.what {
                What::Limit(limit) => limit.rate,
                other => panic!("{other:?}"),
            };
            kept.iter().map(rate).collect()
        };
        assert_eq!(rates(&kept), [2, 3], "the last one is at the end");
        kept.take(JournalLine::Unset(Subject::Limit("B.EXAMPLE".into())));
        kept.take(JournalLine::Unset(Subject::Upstream("a.example".into())));
        assert_eq!((rates(&kept), kept.len()), (vec![3], 1));
        let mut again = KeptChanges::default();
        kept.history().for_each(|line| again.take(line));
        assert!(again.iter().eq(kept.iter()));
    }

    #[test]
    fn what_is_kept_is_hidden_unless_it_holds_and_lasts() {
        let mut kept = KeptChanges::default();
        let all = ["a.example", "b.example", "c.example"].map(|zone| limit(zone, 1));
        all.iter().for_each(|change| kept.take(set(change)));
        let [lasting, mut passing, _] = all.clone();
        passing.author.until_restart = true;
        let told = kept.hidden([lasting, passing].into_iter());
        assert_eq!(told, all[1..], "one is said otherwise, and one not at all");
        assert!(kept.hidden(all.into_iter()).is_empty());
    }
}
