//! The changes that a file keeps: the last of each subject.

use std::collections::BTreeMap;

use crate::change::{Key, OperatorChange};
use crate::journal::JournalLine;

/// Changes by subject, with their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptChanges {
    by_key: BTreeMap<Key, (u64, OperatorChange)>,
    next: u64,
}

impl KeptChanges {
    /// Takes a line in.
    pub fn take(&mut self, line: JournalLine) {
        match line {
            JournalLine::Set(change) => {
                self.by_key.insert(change.what.subject().key(), (self.next, *change));
                self.next += 1;
            }
            JournalLine::Unset(subject) => drop(self.by_key.remove(&subject.key())),
        }
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
        let mut all: Vec<&(u64, OperatorChange)> = self.by_key.values().collect();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, change)| change)
    }

    /// The lines that lead here from nothing.
    pub(crate) fn history(&self) -> impl Iterator<Item = JournalLine> {
        self.iter().map(|change| JournalLine::Set(Box::new(change.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::limit;
    use crate::{Subject, What};

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
}
