//! The calls.

use std::time::Duration;

use axum::http::Method;
use pmdns_config::Role;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::cache::CacheSearch;
use crate::entries::{ClientChange, EntryChoice, EntryRequest, RecordRequest};
use crate::hitters::{HittersQuery, LimitOrder};
use crate::lists::NewList;
use crate::lookup::LookupRequest;
use crate::query_log::LogSearch;
use crate::trace::PacketSearch;
use crate::upstreams::{NewUpstream, UpstreamState};

/// The parameter of a change that is to end with the process.
pub(crate) const UNTIL_RESTART: &str = "until_restart";
/// The most entries or records of one answer.
pub const MAX_PAGE: usize = 1000;
/// As many as come without a wish.
const PAGE: usize = 100;

/// A call's row in the table of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRoute {
    /// The method of its request. What changes nothing is a `GET`.
    pub method: Method,
    /// The path of its request, as the router and the description have it.
    pub path: &'static str,
    /// The role that it needs.
    pub role: Role,
    /// How long the instance may take for it.
    pub patience: Duration,
    /// Whether it is a change that is kept over a restart unless it is said otherwise.
    pub is_kept: bool,
}

/// What the main thread knows.
pub(crate) const KNOWN: Duration = Duration::from_secs(10);
/// Block lists are read for it.
pub(crate) const SEARCHED: Duration = Duration::from_secs(60);
/// The database of the query log is searched for it.
pub(crate) const LOGGED: Duration = Duration::from_secs(20);
/// Packets take to their end, once no more are taken in.
const LINGER: Duration = Duration::from_secs(20);
/// Files with millions of names are read, and lists are fetched.
pub(crate) const WORK: Duration = Duration::from_secs(300);
/// The whole cache goes by. It is longer than a slow reader of a dump is borne with.
const CACHE: Duration = Duration::from_secs(900);
/// The change is kept over a restart.
const KEPT: bool = true;

/// The table of calls: what each is, what it takes, its role, its route, how long it may take, and `KEPT` if its change outlives
/// the process.
macro_rules! calls {
    ($(
        $(#[$doc:meta])* $name:ident $(($($takes:ty),+))?:
        $role:ident $method:ident $path:literal, $patience:ident $(, $kept:ident)?;
    )*) => {
        /// A call of an operator to a running instance.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Call {
            $($(#[$doc])* $name $(($($takes),+))?,)*
        }

        impl Call {
            /// The rows of all calls.
            pub const ROUTES: &[CallRoute] = &[
                $(CallRoute {
                    method: Method::$method, path: $path, role: Role::$role, patience: $patience,
                    is_kept: false $(|| $kept)?,
                },)*
            ];

            /// Its row.
            pub fn route(&self) -> CallRoute {
                match self {
                    $(Self::$name { .. } => CallRoute {
                        method: Method::$method, path: $path, role: Role::$role, patience: $patience,
                        is_kept: false $(|| $kept)?,
                    },)*
                }
            }
        }
    };
}

calls! {
    /// What runs, and since when.
    State: Figures GET "/api/v1/state", KNOWN;
    /// Every counter.
    Stats: Figures GET "/api/v1/stats", KNOWN;
    /// Whether this node is fit to serve.
    Health: Figures GET "/api/v1/health", KNOWN;
    /// Say that clients shall go to other nodes.
    Drain: Operate POST "/api/v1/drain", KNOWN;
    /// Say that clients shall come again.
    Resume: Operate POST "/api/v1/resume", KNOWN;
    /// Read the rules anew from the file.
    Reload: Operate POST "/api/v1/reload", WORK;
    /// The configuration in use.
    Config: Read GET "/api/v1/config", KNOWN;
    /// What the file says otherwise.
    ConfigDiff: Read GET "/api/v1/config/diff", KNOWN;
    /// The groups of clients.
    Views: Read GET "/api/v1/views", KNOWN;
    /// The resolvers that are asked.
    Upstreams: Figures GET "/api/v1/upstreams", KNOWN;
    /// Ask one more.
    AddUpstream(NewUpstream): Operate POST "/api/v1/upstreams", WORK, KEPT;
    /// Have the one with this address asked otherwise.
    SetUpstream(String, UpstreamState): Operate PATCH "/api/v1/upstreams/{address}", WORK, KEPT;
    /// Ask the one with this address no more.
    RemoveUpstream(String): Operate DELETE "/api/v1/upstreams/{address}", WORK, KEPT;
    /// The block lists.
    Lists: Figures GET "/api/v1/lists", KNOWN;
    /// Fetch the lists of this name now.
    RefreshList(String): Operate POST "/api/v1/lists/{name}/refresh", WORK;
    /// Fetch one more.
    AddList(NewList): Operate POST "/api/v1/lists", WORK, KEPT;
    /// Remove the one of this name, which was added so.
    RemoveList(String): Operate DELETE "/api/v1/lists/{name}", WORK, KEPT;
    /// Names that are blocked or allowed at run time.
    Entries(Page): Read GET "/api/v1/entries", KNOWN;
    /// Block or allow names.
    AddEntries(Vec<EntryRequest>): Operate POST "/api/v1/entries", KNOWN, KEPT;
    /// Remove the entry of a name in a view, or in all views.
    RemoveEntry(EntryChoice): Operate DELETE "/api/v1/entries/{name}", KNOWN, KEPT;
    /// Local records of run time.
    Records(Page): Read GET "/api/v1/local", KNOWN;
    /// Add local records.
    AddRecords(Vec<RecordRequest>): Operate POST "/api/v1/local", KNOWN, KEPT;
    /// Remove local records.
    RemoveRecords(RecordChoice): Operate DELETE "/api/v1/local", KNOWN, KEPT;
    /// Prefixes of the client table.
    Clients(Page): Read GET "/api/v1/clients", KNOWN;
    /// The view that a client with this address is in, and which prefix decides.
    FindClient(String): Read GET "/api/v1/clients/{address}", KNOWN;
    /// Put prefixes into views, or take them out of the client table.
    ChangeClients(Vec<ClientChange>): Operate POST "/api/v1/clients", KNOWN, KEPT;
    /// Take a prefix out of the client table.
    RemoveClient(String): Operate DELETE "/api/v1/clients", KNOWN, KEPT;
    /// What a client would get, and why.
    Lookup(LookupRequest): Read GET "/api/v1/lookup", SEARCHED;
    /// Search the query log.
    Log(LogSearch): Read GET "/api/v1/log", LOGGED;
    /// Follow packets through the stages.
    Trace(PacketSearch): Read GET "/api/v1/trace", LINGER;
    /// Write packets to the file that comes with the call.
    Capture(PacketSearch): Read GET "/api/v1/capture", LINGER;
    /// Answers in the cache.
    Cache(CacheSearch): Read GET "/api/v1/cache", SEARCHED;
    /// Take answers out of the cache.
    Purge(PurgeOrder): Operate POST "/api/v1/purge", WORK;
    /// Write every answer in the cache into the pipe that comes with the call.
    CacheDump: Read GET "/api/v1/cache/dump", CACHE;
    /// Take in the answers that come out of the pipe that comes with the call.
    CacheLoad: Operate POST "/api/v1/cache/load", CACHE;
    /// Names, clients and zones that come most.
    Hitters(HittersQuery): Read GET "/api/v1/top", KNOWN;
    /// Zones that are flooded with random names.
    Floods: Read GET "/api/v1/floods", KNOWN;
    /// Limits on the misses of zones.
    Limits: Read GET "/api/v1/limits", KNOWN;
    /// Limit the misses of a zone.
    Limit(LimitOrder): Operate POST "/api/v1/limits", KNOWN, KEPT;
    /// Lift the limit of a zone.
    Unlimit(String): Operate DELETE "/api/v1/limits/{zone}", KNOWN, KEPT;
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
        self.route().method != Method::GET
    }

    /// How long the instance may take for it.
    pub fn patience(&self) -> Duration {
        let watched = match self {
            Self::Trace(search) | Self::Capture(search) => search.seconds,
            _ => 0,
        };
        self.route().patience + Duration::from_secs(watched.into())
    }
}

/// A purge: which answers are lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
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

    #[test]
    fn what_changes_something_needs_the_highest_role_and_nothing_else_does() {
        for CallRoute { method, path, role, .. } in Call::ROUTES {
            assert_eq!(*method == Method::GET, *role < Role::Operate, "{method} {path}");
        }
    }
}
