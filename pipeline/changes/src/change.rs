//! A change: what holds, by whom, since when, and whether it is kept over a restart.

use std::fmt;

use pmdns_config::{LocalRecord, Prefix, UpstreamAddress, subtree_name, wire_name};
use pmdns_control::answers::{AddedRecord, NameEntry, RuntimeChange};
use pmdns_control::date::date;
use pmdns_control::{ClientChange, EntryRequest, NewList, RecordRequest};
use serde::{Deserialize, Serialize};

use crate::upstream_override::UpstreamOverride;

/// Who made a change, when, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// The name, for people.
    pub by: String,
    /// Seconds since 1970.
    pub since: u64,
    /// Whether it ends with a restart. It passes in a hand-over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_restart: bool,
}

/// A change that holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorChange {
    /// What holds.
    pub what: What,
    /// Whose change it is.
    #[serde(flatten)]
    pub author: Author,
}

/// What holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A name is blocked or allowed, in one view or in all.
    Entry(EntryRequest),
    /// There is a local record.
    Record(RecordRequest),
    /// An upstream is asked otherwise than the file says.
    Upstream(UpstreamOverride),
    /// A list is fetched.
    List(NewList),
    /// A prefix of clients is in a view, or in none although the file of clients has it.
    Client(ClientChange),
    /// The misses of a zone are limited.
    Limit(ZoneLimitKept),
}

/// A limit on the misses of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneLimitKept {
    /// The zone.
    pub zone: String,
    /// Misses a second.
    pub rate: u32,
    /// When it ends, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// The thing that a change is about. There is one change of each at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The entry of a name in a view, or in all.
    Entry {
        /// The name.
        name: String,
        /// The view; `None`: all.
        view: Option<String>,
    },
    /// A local record.
    Record {
        /// Its owner.
        name: String,
        /// Its type.
        r#type: String,
        /// Its data.
        data: String,
    },
    /// The upstream at this address.
    Upstream(String),
    /// The list of this name.
    List(String),
    /// This prefix of clients.
    Client(String),
    /// The limit of this zone.
    Limit(String),
}

/// A subject in the one form that it has however it was written.
pub(crate) type Key = (u8, Box<[u8]>, Box<[u8]>);

impl Subject {
    /// The same however it was written.
    pub(crate) fn key(&self) -> Key {
        let bytes = |text: &str| -> Box<[u8]> { text.as_bytes().into() };
        let of_name = |name: &str| subtree_name(name).unwrap_or_else(|_| bytes(name));
        let nothing = || Box::<[u8]>::default();
        match self {
            Self::Entry { name, view } => {
                (0, of_name(name), view.as_deref().map_or_else(nothing, bytes))
            }
            Self::Record { name, r#type, data } => match LocalRecord::new(name, r#type, 0, data) {
                Ok(LocalRecord { name, rtype, data, .. }) => {
                    (1, name, [&rtype.to_be_bytes(), &*data].concat().into())
                }
                Err(_) => (1, bytes(name), bytes(data)),
            },
            Self::Upstream(address) => {
                let endpoint = address.parse::<UpstreamAddress>();
                let text = endpoint.map(|one| format!("{:?}", one.endpoint()));
                (2, bytes(text.as_deref().unwrap_or(address)), nothing())
            }
            Self::List(name) => (3, bytes(name), nothing()),
            Self::Client(prefix) => {
                let text = prefix.parse::<Prefix>().map(|prefix| prefix.to_string());
                (4, bytes(text.as_deref().unwrap_or(prefix)), nothing())
            }
            Self::Limit(zone) => (5, wire_name(zone).unwrap_or_else(|_| bytes(zone)), nothing()),
        }
    }
}

impl What {
    /// The thing that it is about.
    pub fn subject(&self) -> Subject {
        match self {
            Self::Entry(entry) => {
                Subject::Entry { name: entry.name.clone(), view: entry.views.first().cloned() }
            }
            Self::Record(RecordRequest { name, r#type, data, .. }) => {
                Subject::Record { name: name.clone(), r#type: r#type.clone(), data: data.clone() }
            }
            Self::Upstream(one) => Subject::Upstream(one.address.to_string()),
            Self::List(list) => Subject::List(list.name.clone()),
            Self::Client(change) => Subject::Client(change.prefix.clone()),
            Self::Limit(limit) => Subject::Limit(limit.zone.clone()),
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(entry) => write!(f, "name {entry}"),
            Self::Record(RecordRequest { name, r#type, ttl, data }) => {
                write!(f, "local record {name} {ttl} {type} {data} added")
            }
            Self::Upstream(one) => one.fmt(f),
            Self::List(NewList { name, url, .. }) => write!(f, "list {name} added from {url}"),
            Self::Client(ClientChange { prefix, view: Some(view) }) => {
                write!(f, "client {prefix} in the view {view}")
            }
            Self::Client(ClientChange { prefix, view: None }) => {
                write!(f, "client {prefix} removed")
            }
            Self::Limit(ZoneLimitKept { zone, rate, until }) => {
                write!(f, "zone {zone} limited to {rate} misses a second")?;
                until.iter().try_for_each(|until| write!(f, " until {}Z", date(*until)))
            }
        }
    }
}

impl OperatorChange {
    /// The report of it, for people.
    pub fn report(&self) -> RuntimeChange {
        let Author { by, since, until_restart } = self.author.clone();
        let (change, after_restart) = (self.what.to_string(), false);
        RuntimeChange { change, by, since, until_restart, after_restart }
    }

    /// The same of one that comes back with a restart.
    pub fn report_hidden(&self) -> RuntimeChange {
        RuntimeChange { after_restart: true, ..self.report() }
    }
}

impl From<NameEntry> for OperatorChange {
    fn from(NameEntry { entry, by, since, until_restart }: NameEntry) -> Self {
        Self { what: What::Entry(entry), author: Author { by, since, until_restart } }
    }
}

impl From<AddedRecord> for OperatorChange {
    fn from(AddedRecord { record, by, since, until_restart }: AddedRecord) -> Self {
        Self { what: What::Record(record), author: Author { by, since, until_restart } }
    }
}
