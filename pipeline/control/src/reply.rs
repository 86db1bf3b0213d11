//! The reply to a call.

use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::answers::{
    BlockLists, ClientAnswer, ClientPage, ConfigDifference, Configuration, Done, EntriesDone,
    EntryPage, InstanceState, RecordPage, UpstreamTable, Views,
};
use crate::cache::CachePage;
use crate::crashes::CrashList;
use crate::health::NodeHealth;
use crate::hitters::{Floods, HitterTable, LimitTable};
use crate::lookup::LookupReport;
use crate::query_log::LogPage;
use crate::report::Report;
use crate::trace::TraceReport;

/// What a call can be replied with. The call's row names the type.
pub trait Reply: Serialize + DeserializeOwned + ToSchema {
    /// The value on its way to the client, whatever the call.
    fn into_reply(self) -> CallReply {
        CallReply::of(&self)
    }
}

impl Reply for BlockLists {}
impl Reply for CachePage {}
impl Reply for ClientAnswer {}
impl Reply for ClientPage {}
impl Reply for ConfigDifference {}
impl Reply for Configuration {}
impl Reply for CrashList {}
impl Reply for Done {
    fn into_reply(self) -> CallReply {
        CallReply::Done(self.done)
    }
}
impl Reply for EntriesDone {
    fn into_reply(self) -> CallReply {
        CallReply::Entries(self)
    }
}
impl Reply for EntryPage {}
impl Reply for Floods {}
impl Reply for HitterTable {}
impl Reply for InstanceState {}
impl Reply for LimitTable {}
impl Reply for LogPage {}
impl Reply for LookupReport {}
impl Reply for NodeHealth {
    fn into_reply(self) -> CallReply {
        CallReply::Health(Box::new(self))
    }
}
impl Reply for RecordPage {}
impl Reply for Report {}
impl Reply for TraceReport {}
impl Reply for UpstreamTable {}
impl Reply for Views {}

/// Schemas with their names.
pub(crate) type ReplySchemas = Vec<(String, RefOr<Schema>)>;

/// The schemas that a reply refers to, and its own behind them.
pub(crate) fn schemas_of<R: Reply>() -> ReplySchemas {
    let mut schemas = Vec::new();
    R::schemas(&mut schemas);
    schemas.push((R::name().into_owned(), R::schema()));
    schemas
}

/// The reply to some call, on its way to the client.
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

/// A refusal with its reason.
pub type Refused = (Refusal, String);

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
