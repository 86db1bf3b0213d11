//! The reply to a call.

use serde::Serialize;

use crate::answers::EntriesDone;
use crate::health::NodeHealth;

/// The reply to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallReply {
    /// What was asked for, as JSON.
    Json(String),
    /// It is done; a sentence says how.
    Done(String),
    /// The same of entries, with those that no longer hold.
    Entries(EntriesDone),
    /// Whether the node is fit to serve.
    Health(Box<NodeHealth>),
    /// It is not done.
    Refused(Refusal, String),
}

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// What was asked means nothing here; the text says what to change.
    Wrong,
    /// There is no such thing.
    Unknown,
    /// It is well asked, and cannot be done as things are.
    Unable,
    /// Too much is under way.
    Busy,
    /// The instance is about to stop.
    Stopping,
}

/// Names that a refusal has of those that there are.
const MAX_NAMED: usize = 8;

/// The names that there are, for a refusal of one that there is not: who reads it may have no other way to see them.
pub fn named(names: impl IntoIterator<Item = String>) -> String {
    let mut names: Vec<String> = names.into_iter().collect();
    let others = names.len().saturating_sub(MAX_NAMED);
    names.truncate(MAX_NAMED);
    match (names.is_empty(), others) {
        (true, _) => "there are none".to_owned(),
        (false, 0) => format!("there are {}", names.join(", ")),
        (false, _) => format!("there are {} and {others} more", names.join(", ")),
    }
}

impl CallReply {
    /// A reply with this value.
    pub fn of(value: &impl Serialize) -> Self {
        match serde_json::to_string(value) {
            Ok(text) => Self::Json(text),
            Err(error) => {
                Self::Refused(Refusal::Unable, format!("no JSON can be made of it: {error}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_there_is_and_has_an_end() {
        let names = |count: usize| named((0..count).map(|number| format!("n{number}")));
        assert_eq!(names(0), "there are none");
        assert_eq!(names(2), "there are n0, n1");
        assert_eq!(names(10), "there are n0, n1, n2, n3, n4, n5, n6, n7 and 2 more");
    }
}
