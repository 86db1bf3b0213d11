//! The reply to a call.

use serde::Serialize;

use crate::answers::EntriesDone;

/// The reply to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// What was asked for, as JSON.
    Json(String),
    /// It is done; a sentence says how.
    Done(String),
    /// The same of entries, with those that no longer hold.
    Entries(EntriesDone),
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

impl Reply {
    /// A reply with this value.
    pub fn of(value: &impl Serialize) -> Self {
        match serde_json::to_string(value) {
            Ok(text) => Self::Json(text),
            Err(error) => {
                Self::Refused(Refusal::Unable, format!("no JSON can be made of it: {error}"))
            }
        }
    }

    /// The reply that this text of the control socket means.
    pub fn of_text(text: &str) -> Self {
        let line = text.trim_end();
        match line.split_once(' ') {
            Some(("ok", done)) => Self::Done(done.to_owned()),
            Some(("error:", why)) => Self::Refused(Refusal::Unable, why.to_owned()),
            _ => Self::Json(line.to_owned()),
        }
    }

    /// The text that the control socket gives.
    pub fn to_text(&self) -> String {
        match self {
            Self::Json(json) => json.clone(),
            Self::Done(done) | Self::Entries(EntriesDone { done, .. }) => format!("ok {done}\n"),
            Self::Refused(_, why) => format!("error: {why}\n"),
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

    #[test]
    fn texts_of_the_socket_are_replies() {
        for (text, reply) in [
            ("ok 3 answers purged\n", Reply::Done("3 answers purged".into())),
            ("error: no such name\n", Reply::Refused(Refusal::Unable, "no such name".into())),
            ("{\"a\":1}", Reply::Json("{\"a\":1}".into())),
        ] {
            assert_eq!(Reply::of_text(text), reply);
            assert_eq!(reply.to_text(), text);
        }
    }
}
