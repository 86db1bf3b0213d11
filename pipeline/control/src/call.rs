//! The calls.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::entries::{EntryRequest, RecordRequest};

/// The most entries or records of one answer.
pub(crate) const MAX_PAGE: usize = 1000;
/// As many as come without a wish.
const PAGE: usize = 100;

/// What an operator asks of a running instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// What runs, and since when.
    State,
    /// Every counter.
    Stats,
    /// Read the rules anew from the file.
    Reload,
    /// Take answers out of the cache.
    Purge(PurgeOrder),
    /// The groups of clients.
    Views,
    /// The resolvers that are asked.
    Upstreams,
    /// The block lists.
    Lists,
    /// The configuration in use.
    Config,
    /// What the file says otherwise.
    ConfigDiff,
    /// Names that are blocked or allowed at run time.
    Entries(Page),
    /// Block or allow names.
    AddEntries(Vec<EntryRequest>),
    /// Forget what was said of a name.
    RemoveEntry(String),
    /// Local records of run time.
    Records(Page),
    /// Add local records.
    AddRecords(Vec<RecordRequest>),
    /// Remove local records.
    RemoveRecords(RecordChoice),
}

impl Call {
    /// Whether anything may be another afterwards.
    pub fn is_change(&self) -> bool {
        match self {
            Self::Reload
            | Self::Purge(_)
            | Self::AddEntries(_)
            | Self::RemoveEntry(_)
            | Self::AddRecords(_)
            | Self::RemoveRecords(_) => true,
            Self::State
            | Self::Stats
            | Self::Views
            | Self::Upstreams
            | Self::Lists
            | Self::Config
            | Self::ConfigDiff
            | Self::Entries(_)
            | Self::Records(_) => false,
        }
    }
}

/// A purge: which answers are lost.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PurgeOrder {
    /// The name whose answers are taken out.
    #[schema(example = "example.com")]
    pub name: String,
    /// Also answers for names below it.
    #[serde(default)]
    pub suffix: bool,
    /// Only answers of this record type: a mnemonic, or TYPE65280.
    pub r#type: Option<String>,
}

/// A part of a long list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// The name after which it begins: `next` of the answer before.
    #[param(required = false)]
    pub after: Option<String>,
    /// How many at most.
    #[param(required = false, minimum = 1, maximum = 1000, default = 100)]
    pub limit: usize,
}

impl Default for Page {
    fn default() -> Self {
        Self { after: None, limit: PAGE }
    }
}

/// Which records of a name are removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RecordChoice {
    /// Their owner.
    pub name: String,
    /// Their type; absent: all.
    pub r#type: Option<String>,
}
