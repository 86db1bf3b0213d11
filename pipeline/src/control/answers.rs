//! The report of answers: by rcode, type, transport and view, and by list.

use std::collections::BTreeMap;

use pmdns_engine::answers::Answers;
use pmdns_stages::policy::ListNumber;
use serde::{Deserialize, Serialize};

use super::named::Named;

/// Answers over all data cores, each counted once in each table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AnswerReport {
    /// By rcode.
    pub rcodes: Named,
    /// By class of type.
    pub qtypes: Named,
    /// By transport.
    pub transports: Named,
    /// By view; `none`: the client is in none.
    pub views: Named,
}

/// A block list or policy zone, or another source of blocked names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListReport {
    /// Queries that it decided.
    pub hits: u64,
    /// When its file was written, or confirmed by its server, in seconds since 1970; absent: it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<u64>,
}

impl AnswerReport {
    /// What was counted. `views` has the names of all views, by number; those of views that are gone are empty.
    pub(super) fn of(answers: &Answers, views: &[String]) -> Self {
        Self {
            rcodes: named(answers.rcodes()),
            qtypes: named(answers.qtypes()),
            transports: named(answers.transports()),
            views: named(views.iter().map(String::as_str).zip(answers.views())),
        }
    }
}

impl ListReport {
    /// What was counted of each list, by name. Two lists of one file have one entry.
    pub(super) fn all(
        answers: &Answers,
        lists: Vec<(ListNumber, String, Option<u64>)>,
    ) -> BTreeMap<String, Self> {
        let mut all: BTreeMap<String, Self> = BTreeMap::new();
        for (number, name, modified) in lists {
            let entry = all.entry(name).or_default();
            entry.hits += answers.of_list(number);
            entry.modified = modified;
        }
        all
    }
}

/// Names may repeat; their counts are added.
fn named<'n>(counts: impl Iterator<Item = (&'n str, u64)>) -> Named {
    let mut all = Named::new();
    for (name, count) in counts.filter(|(name, _)| !name.is_empty()) {
        *all.entry(name.to_owned()).or_default() += count;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_one_file_have_one_entry() {
        let list = |number, name: &str| (ListNumber::List(number), name.to_owned(), Some(7));
        let all = ListReport::all(&Answers::default(), vec![list(0, "ads"), list(1, "ads")]);
        assert_eq!(all, [("ads".to_owned(), ListReport { hits: 0, modified: Some(7) })].into());
    }
}
