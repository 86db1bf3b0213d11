//! Names that an operator blocks, allows or answers at run time.

use std::fmt;
use std::str::FromStr;

use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::answers::NameEntry;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// It is blocked, whatever lists and policy zones say.
    Block,
    /// It is not blocked, whatever lists and policy zones say.
    Allow,
}

/// Of which names it is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EntryScope {
    /// Of the name alone.
    #[default]
    Exact,
    /// Of the name and every name below it.
    Suffix,
}

/// The answer for a blocked name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RuleAction {
    /// NXDOMAIN: there is no such name.
    #[default]
    Nxdomain,
    /// NOERROR without records.
    Nodata,
    /// REFUSED.
    Refused,
    /// The addresses 0.0.0.0 and ::.
    Null,
    /// Nothing.
    Drop,
}

/// A name to block or allow. It replaces the entry of the name in the same view, and no entry of another view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EntryRequest {
    /// The name, as `ads.example.com`. `*.ads.example.com` is the same with the scope `suffix`.
    #[schema(example = "ads.example.com")]
    pub name: String,
    /// Whether it is blocked or allowed.
    pub kind: EntryKind,
    /// Whether names below it are meant too.
    #[serde(default)]
    pub scope: EntryScope,
    /// The answer to clients for a blocked name.
    #[serde(default)]
    pub action: RuleAction,
    /// The views in which it holds, with an entry for each; none: all. The entry of a client's view stands before the one of
    /// all views.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<String>,
}

/// Which entry of a name is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryChoice {
    /// The name.
    pub name: String,
    /// Its view; `None`: the entry of all views.
    pub view: Option<String>,
}

/// The view of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct EntryView {
    /// The view; absent: the entry of all views.
    #[param(required = false)]
    pub view: Option<String>,
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Block => "blocked",
            Self::Allow => "allowed",
        })
    }
}

impl FromStr for RuleAction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let word: StrDeserializer<'_, Error> = text.into_deserializer();
        Self::deserialize(word).map_err(|_| {
            format!("`{text}` is no action; write nxdomain, nodata, refused, null or drop")
        })
    }
}

impl fmt::Display for RuleAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nxdomain => "nxdomain",
            Self::Nodata => "nodata",
            Self::Refused => "refused",
            Self::Null => "null",
            Self::Drop => "drop",
        })
    }
}

/// `z.example with names below blocked in view kids`.
impl fmt::Display for EntryRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, scope, views, .. } = self;
        let below = match scope {
            EntryScope::Exact => "",
            EntryScope::Suffix => " with names below",
        };
        write!(f, "{name}{below} {kind} in {}", views_of(views))
    }
}

/// `z.example with names below blocked in view kids by user 0`.
impl fmt::Display for NameEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.entry, self.by)
    }
}

/// Views in a sentence.
pub(crate) fn views_of(views: &[String]) -> String {
    match views {
        [] => "all views".to_owned(),
        [one] => format!("view {one}"),
        many => format!("views {}", many.join(", ")),
    }
}

/// A local record. The records of a name replace all that the file and its zones say of that name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordRequest {
    /// The owner.
    #[schema(example = "printer.lan")]
    pub name: String,
    /// The record type, as in a zone file.
    #[schema(example = "A")]
    pub r#type: String,
    /// Time to live, in seconds.
    #[serde(default = "default_ttl")]
    #[schema(maximum = 2147483647, default = 300)]
    pub ttl: u32,
    /// The data, as in a zone file.
    #[schema(example = "192.0.2.7")]
    pub data: String,
}

fn default_ttl() -> u32 {
    300
}

/// A prefix of clients to put into a view. It replaces what was said of the prefix before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientChange {
    /// The prefix, or an address.
    #[schema(example = "192.0.2.7")]
    pub prefix: String,
    /// The name of the view; absent or null: the prefix is taken out of the table.
    #[serde(default)]
    #[schema(example = "kids")]
    pub view: Option<String>,
}
