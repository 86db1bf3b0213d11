//! Names that an operator blocks, allows or answers at run time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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

/// A name to block or allow. It replaces what was said of the name before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EntryRequest {
    /// The name, as `ads.example.com`.
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
    /// The views in which it holds; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<String>,
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
