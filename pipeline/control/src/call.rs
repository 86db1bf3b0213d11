//! The calls.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::cache::CacheSearch;
use crate::entries::{ClientChange, EntryChoice, EntryRequest, RecordRequest};
use crate::health::State as NodeState;
use crate::hitters::{HittersQuery, LimitOrder};
use crate::lists::ListChange;
use crate::lookup::LookupRequest;
use crate::query_log::LogSearch;
use crate::trace::PacketSearch;
use crate::upstreams::UpstreamChange;

/// The most entries or records of one answer.
pub(crate) const MAX_PAGE: usize = 1000;
/// As many as come without a wish.
const PAGE: usize = 100;

/// A call of an operator to a running instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// What runs, and since when.
    State,
    /// Every counter.
    Stats,
    /// Whether this node is fit to serve.
    Health,
    /// Say whether clients shall come to this node.
    SetState(NodeState),
    /// What a client would get, and why.
    Lookup(LookupRequest),
    /// Answers in the cache.
    Cache(CacheSearch),
    /// Write every answer in the cache into the pipe that comes with the call.
    CacheDump,
    /// Search the query log.
    Log(LogSearch),
    /// Follow packets through the stages.
    Trace(PacketSearch),
    /// Write packets to the file that comes with the call.
    Capture(PacketSearch),
    /// Read the rules anew from the file.
    Reload,
    /// Take answers out of the cache.
    Purge(PurgeOrder),
    /// The groups of clients.
    Views,
    /// The resolvers that are asked.
    Upstreams,
    /// Change the resolvers that are asked, until the instance stops.
    ChangeUpstream(UpstreamChange),
    /// The block lists.
    Lists,
    /// Fetch the lists of this name now.
    RefreshList(String),
    /// Change the block lists, until the instance stops.
    ChangeList(ListChange),
    /// The configuration in use.
    Config,
    /// What the file says otherwise.
    ConfigDiff,
    /// Names that are blocked or allowed at run time.
    Entries(Page),
    /// Block or allow names.
    AddEntries(Vec<EntryRequest>),
    /// Remove the entry of a name in a view, or in all views.
    RemoveEntry(EntryChoice),
    /// Local records of run time.
    Records(Page),
    /// Add local records.
    AddRecords(Vec<RecordRequest>),
    /// Remove local records.
    RemoveRecords(RecordChoice),
    /// Prefixes of the client table.
    Clients(Page),
    /// The view that a client with this address is in, and which prefix decides.
    FindClient(String),
    /// Put prefixes into views, or take them out of the client table.
    ChangeClients(Vec<ClientChange>),
    /// Take a prefix out of the client table.
    RemoveClient(String),
    /// Names, clients and zones that come most.
    Hitters(HittersQuery),
    /// Zones that are flooded with random names.
    Floods,
    /// Limits on the misses of zones.
    Limits,
    /// Limit the misses of a zone.
    Limit(LimitOrder),
    /// Lift the limit of a zone.
    Unlimit(String),
}

impl Call {
    /// Whether the log names who asks: of every change, and of what shows packets, queries and answers of clients.
    pub(crate) fn is_logged(&self) -> bool {
        let shows_clients = matches!(
            self,
            Self::Trace(_) | Self::Capture(_) | Self::Cache(_) | Self::CacheDump | Self::Log(_)
        );
        self.is_change() || shows_clients
    }

    /// Whether anything may be another afterwards.
    pub fn is_change(&self) -> bool {
        match self {
            Self::Reload
            | Self::RefreshList(_)
            | Self::ChangeList(_)
            | Self::SetState(_)
            | Self::ChangeUpstream(_)
            | Self::Purge(_)
            | Self::AddEntries(_)
            | Self::RemoveEntry(_)
            | Self::AddRecords(_)
            | Self::RemoveRecords(_)
            | Self::ChangeClients(_)
            | Self::RemoveClient(_)
            | Self::Limit(_)
            | Self::Unlimit(_) => true,
            Self::State
            | Self::Stats
            | Self::Health
            | Self::Lookup(_)
            | Self::Log(_)
            | Self::Cache(_)
            | Self::CacheDump
            | Self::Trace(_)
            | Self::Capture(_)
            | Self::Views
            | Self::Upstreams
            | Self::Lists
            | Self::Config
            | Self::ConfigDiff
            | Self::Entries(_)
            | Self::Records(_)
            | Self::Clients(_)
            | Self::FindClient(_)
            | Self::Hitters(_)
            | Self::Floods
            | Self::Limits => false,
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
    /// The name or prefix after which it begins: `next` of the answer before.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_at_what_clients_ask_is_logged() {
        let search = PacketSearch::default;
        for call in [
            Call::Log(LogSearch::default()),
            Call::Trace(search()),
            Call::Capture(search()),
            Call::Cache(CacheSearch::default()),
            Call::CacheDump,
            Call::Reload,
        ] {
            assert!(call.is_logged(), "{call:?}");
        }
        assert!(!Call::Stats.is_logged() && !Call::State.is_logged());
    }
}
