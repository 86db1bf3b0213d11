//! The answers to calls, as JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::entries::{EntryRequest, RecordRequest};

/// The running instance, and its age.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = State)]
pub struct InstanceState {
    /// The program's version.
    pub version: String,
    /// Seconds since its start.
    pub uptime_seconds: u64,
    /// A summary of the rules in use.
    pub rules: String,
    /// Whether files are being read for a reload.
    pub reloading: bool,
    /// Names blocked or allowed at run time.
    pub entries: usize,
    /// Local records of run time.
    pub records: usize,
    /// Whether what is said at run time is kept in a file.
    pub kept: bool,
    /// The number of the process.
    #[serde(default)]
    pub process: u32,
    /// Whether another node has the addresses.
    #[serde(default)]
    pub standby: bool,
    /// Whether clients shall come no more.
    #[serde(default)]
    pub drained: bool,
    /// How far another process has come that takes over, or why the last one has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hand_over: Option<HandOverState>,
}

/// How a hand-over to another process goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandOverState {
    /// The next process was asked for, and has not come yet.
    Starting,
    /// Another process takes over: its number.
    UnderWay(Option<u32>),
    /// The last one did not, and why.
    Failed(String),
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// A sentence that says it.
    pub done: String,
}

/// A change of entries that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EntriesDone {
    /// A sentence that says it, with the entries that no longer hold.
    pub done: String,
    /// These entries: whoever sets them again undoes the change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<NameEntry>,
}

impl From<EntriesDone> for Done {
    fn from(EntriesDone { done, .. }: EntriesDone) -> Self {
        Self { done }
    }
}

/// A group of clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ViewAnswer {
    /// Its name.
    pub name: String,
    /// The prefixes of its clients; none: all clients that are in no other view.
    pub clients: Vec<String>,
    /// The group of upstreams that is asked.
    pub group: String,
    /// Queries per second and client prefix, 0: no limit; absent: as `ratelimit.queries_per_second`.
    #[serde(default)]
    pub queries_per_second: Option<u32>,
    /// The files of the block lists and policy zones that hold in it.
    #[serde(default)]
    pub lists: Vec<String>,
}

/// The groups of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Views {
    /// In the order of the file, the one of all other clients first.
    pub views: Vec<ViewAnswer>,
}

/// A resolver that is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamAnswer {
    /// Its address, as it is configured.
    pub address: String,
    /// Its group.
    pub group: String,
    /// Its share of the questions of its group, if that has the strategy `round_robin`.
    pub weight: u32,
    /// Whether weights count in its group: it has the strategy `round_robin`.
    #[serde(default)]
    pub weighted: bool,
    /// Whether it gets no new questions, by an operator's word.
    pub drained: bool,
    /// Whether what an operator has said of it at run time ends with the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_restart: bool,
    /// Its counters, as docs/counters.md describes them.
    pub counters: serde_json::Map<String, serde_json::Value>,
}

/// The resolvers that are asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Upstreams)]
pub struct UpstreamTable {
    /// In the order of the file.
    pub upstreams: Vec<UpstreamAnswer>,
}

/// A block list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListAnswer {
    /// Its file.
    pub file: String,
    /// Where it is fetched from; absent: its file is the operator's.
    pub url: Option<String>,
    /// Names that it has; absent: it has not been read.
    pub names: Option<usize>,
    /// Lines that were not understood.
    pub unknown_lines: u64,
    /// Seconds since the file was changed, or its server confirmed it; absent: it cannot be read.
    pub age_seconds: Option<u64>,
    /// The views in which it holds; none: all.
    pub views: Vec<String>,
    /// Attempts to fetch it that failed since the last successful one.
    #[serde(default)]
    pub failing: u64,
    /// Why the last attempt failed; absent: it did not, or the list is not fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Whether it was added at run time, so that it can be removed by its name.
    #[serde(default)]
    pub added: bool,
    /// Whether it ends with the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_restart: bool,
    /// Why it was left out at the start, so that it is not in use until the next one; absent: it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// The block lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Lists)]
pub struct BlockLists {
    /// In the order of the file.
    pub lists: Vec<ListAnswer>,
    /// Whether lists can be added at run time: `control.lists` names a folder for them.
    #[serde(default)]
    pub addable: bool,
}

/// A change of the configuration at run time, which no file has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuntimeChange {
    /// The change, as `upstream 192.0.2.53:53 drained`.
    pub change: String,
    /// Who did it.
    pub by: String,
    /// When, in seconds since 1970.
    pub since: u64,
    /// Whether it ends with the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_restart: bool,
    /// Whether it is kept and does not hold now, so that it comes back with a restart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_restart: bool,
}

/// The configuration in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Configuration {
    /// As TOML; secrets are left out, and changes of run time.
    pub toml: String,
    /// Changes of run time.
    #[serde(default)]
    pub changes: Vec<RuntimeChange>,
    /// Names that are blocked or allowed at run time, at most 1,000 of them.
    pub entries: Vec<EntryRequest>,
    /// Local records of run time, at most 1,000 of them.
    pub records: Vec<RecordRequest>,
}

/// The most changes of run time that are shown beside each other.
pub const MAX_CHANGES_SHOWN: usize = 1000;

/// Where the configuration in use and the file differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Difference)]
pub struct ConfigDifference {
    /// The keys that differ.
    pub keys: Vec<DifferentKey>,
    /// What a reload does about those that need another process; absent: there are none.
    #[serde(default)]
    pub next: Option<String>,
    /// The problem of the file, if it cannot be used.
    pub error: Option<String>,
    /// Changes of run time, which the file does not have: of upstreams, lists, limits, names and clients, at most 1,000.
    #[serde(default)]
    pub changes: Vec<RuntimeChange>,
    /// Names blocked or allowed at run time, which the file does not have.
    pub entries: usize,
    /// Local records of run time, which the file does not have.
    pub records: usize,
    /// Prefixes of the client table that were set at run time, which no file of clients has.
    #[serde(default)]
    pub clients: u64,
    /// Limits on zones, which no file has.
    #[serde(default)]
    pub limits: usize,
}

/// A key that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DifferentKey {
    /// Its path, as `cache.size`.
    pub key: String,
    /// Its value in use, as TOML; absent: it has none.
    pub running: Option<String>,
    /// Its value in the file; absent: it has none.
    pub file: Option<String>,
    /// Whether another process is needed for it, which a reload starts if there is a keeper; otherwise a reload changes it at once.
    pub needs_restart: bool,
}

/// A name that is blocked or allowed at run time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Entry)]
pub struct NameEntry {
    /// The entry.
    #[serde(flatten)]
    pub entry: EntryRequest,
    /// Who said it.
    pub by: String,
    /// When, in seconds since 1970.
    pub since: u64,
    /// Whether it ends with the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_restart: bool,
}

/// A part of the names that are blocked or allowed at run time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EntryPage {
    /// In the order of their names. Those of one name are never parted, so a page may exceed its limit by a name's views.
    pub entries: Vec<NameEntry>,
    /// How many there are in all.
    pub total: usize,
    /// The key that the next part comes after; absent: this was the last one.
    pub next: Option<String>,
}

/// A local record of run time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Record)]
pub struct AddedRecord {
    /// The record.
    #[serde(flatten)]
    pub record: RecordRequest,
    /// Who added it.
    pub by: String,
    /// When, in seconds since 1970.
    pub since: u64,
    /// Whether it ends with the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_restart: bool,
}

/// A part of the local records of run time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordPage {
    /// In the order of their names. Those of one name are never parted, so a name with more than the limit exceeds it.
    pub records: Vec<AddedRecord>,
    /// How many there are in all.
    pub total: usize,
    /// The key that the next part comes after; absent: this was the last one.
    pub next: Option<String>,
}

/// A prefix of the client table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClientEntry {
    /// The prefix.
    pub prefix: String,
    /// The view that its clients are in.
    pub view: String,
    /// Whether it ends with the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_restart: bool,
}

/// A part of the client table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClientPage {
    /// In the order of their addresses, IPv4 first.
    pub clients: Vec<ClientEntry>,
    /// How many there are in all.
    pub total: usize,
    /// The key that the next part comes after; absent: this was the last one.
    pub next: Option<String>,
}

/// The view of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClientAnswer {
    /// The client's address.
    pub address: String,
    /// The view that it is in.
    pub view: String,
    /// The prefix that decides; absent: none has the address.
    pub prefix: Option<String>,
    /// Where that prefix stands: `clients`, the client table, or `view`, the configuration.
    pub decided_by: Option<String>,
}
