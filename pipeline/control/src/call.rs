//! The calls.

use std::time::Duration;

use axum::http::Method;
use pmdns_config::Role;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::answers::{
    BlockLists, ClientAnswer, ClientPage, ConfigDifference, Configuration, Done, EntriesDone,
    EntryPage, InstanceState, RecordPage, UpstreamTable,
};
use crate::cache::{CachePage, CacheSearch};
use crate::crashes::CrashList;
use crate::entries::{ClientChange, EntryChoice, EntryRequest, RecordRequest};
use crate::health::NodeHealth;
use crate::hitters::{HitterTable, HittersQuery, LimitOrder, LimitTable};
use crate::lists::NewList;
use crate::lookup::{LookupReport, LookupRequest};
use crate::query_log::{LogPage, LogSearch};
use crate::reply::{Refusal, Reply, ReplySchemas, schemas_of};
use crate::report::Report;
use crate::sender::{AnyCaller, Caller};
use crate::trace::{PacketSearch, TraceReport};
use crate::upstreams::{NewUpstream, UpstreamState};
use crate::{answers, hitters};

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

/// A call with the type of its reply, for who makes it and reads what comes.
pub trait Ask: Clone + Into<Call> {
    /// The type, as the call's row names it.
    type Reply: Reply;
}

/// The table of calls: what each is and takes, its role and route, the type of its reply, and how long it may take. `KEPT`: its
/// change outlives the process.
macro_rules! calls {
    ($(
        $(#[$doc:meta])* $name:ident $(($($word:ident: $takes:ty),+))?:
        $role:ident $method:ident $path:literal -> $reply:ty, $patience:ident $(, $kept:ident)?;
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

            /// The schemas of all replies, by route.
            pub(crate) fn replies() -> Vec<(Method, &'static str, ReplySchemas)> {
                vec![$((Method::$method, $path, schemas_of::<$reply>()),)*]
            }
        }

        /// A call with its caller, who gets a reply of the type that the call's row names.
        #[derive(Debug)]
        pub enum PendingCall {
            $($(#[$doc])* $name($($($takes,)+)? Caller<$reply>),)*
        }

        impl Call {
            /// The call with its caller.
            pub fn with(self, caller: AnyCaller) -> PendingCall {
                match self {
                    $(Self::$name $(($($word),+))? => {
                        PendingCall::$name($($($word,)+)? caller.of_call())
                    })*
                }
            }
        }

        impl PendingCall {
            /// Replies that it is not done, and why.
            pub fn refuse(self, refusal: Refusal, why: impl Into<String>) {
                match self {
                    $(Self::$name(.., caller) => caller.refuse(refusal, why),)*
                }
            }
        }

        /// The calls as types, each with the type of its reply.
        pub mod ask {
            use super::*;

            $(
                $(#[$doc])*
                #[derive(Clone, Debug, PartialEq, Eq)]
                pub struct $name $(($(pub $takes),+))?;

                impl From<$name> for Call {
                    fn from(asked: $name) -> Self {
                        let $name $(($($word),+))? = asked;
                        Self::$name $(($($word),+))?
                    }
                }

                impl Ask for $name {
                    type Reply = $reply;
                }
            )*
        }
    };
}

calls! {
    /// What runs, and since when.
    State: Figures GET "/api/v1/state" -> InstanceState, KNOWN;
    /// Every counter.
    Stats: Figures GET "/api/v1/stats" -> Report, KNOWN;
    /// Whether this node is fit to serve.
    Health: Figures GET "/api/v1/health" -> NodeHealth, KNOWN;
    /// Say that clients shall go to other nodes.
    Drain: Operate POST "/api/v1/drain" -> Done, KNOWN;
    /// Say that clients shall come again.
    Resume: Operate POST "/api/v1/resume" -> Done, KNOWN;
    /// Claim the addresses of the ports no more.
    Standby: Operate POST "/api/v1/standby" -> Done, KNOWN;
    /// Claim them, and tell all neighbours so.
    Activate: Operate POST "/api/v1/activate" -> Done, KNOWN;
    /// Read the rules anew from the file.
    Reload: Operate POST "/api/v1/reload" -> Done, WORK;
    /// Have the next process take over, with the program and the file as they are now.
    Upgrade: Operate POST "/api/v1/upgrade" -> Done, KNOWN;
    /// The configuration in use.
    Config: Read GET "/api/v1/config" -> Configuration, KNOWN;
    /// What the file says otherwise.
    ConfigDiff: Read GET "/api/v1/config/diff" -> ConfigDifference, KNOWN;
    /// The groups of clients.
    Views: Read GET "/api/v1/views" -> answers::Views, KNOWN;
    /// The resolvers that are asked.
    Upstreams: Figures GET "/api/v1/upstreams" -> UpstreamTable, KNOWN;
    /// Ask one more.
    AddUpstream(new: NewUpstream): Operate POST "/api/v1/upstreams" -> Done, WORK, KEPT;
    /// Have the one with this address asked otherwise.
    SetUpstream(address: String, state: UpstreamState): Operate PATCH "/api/v1/upstreams/{address}" -> Done, WORK, KEPT;
    /// Ask the one with this address no more.
    RemoveUpstream(address: String): Operate DELETE "/api/v1/upstreams/{address}" -> Done, WORK, KEPT;
    /// The block lists.
    Lists: Figures GET "/api/v1/lists" -> BlockLists, KNOWN;
    /// Fetch the lists of this name now.
    RefreshList(name: String): Operate POST "/api/v1/lists/{name}/refresh" -> Done, WORK;
    /// Fetch one more.
    AddList(new: NewList): Operate POST "/api/v1/lists" -> Done, WORK, KEPT;
    /// Remove the one of this name, which was added so.
    RemoveList(name: String): Operate DELETE "/api/v1/lists/{name}" -> Done, WORK, KEPT;
    /// Names that are blocked or allowed at run time.
    Entries(page: Page): Read GET "/api/v1/entries" -> EntryPage, KNOWN;
    /// Block or allow names.
    AddEntries(entries: Vec<EntryRequest>): Operate POST "/api/v1/entries" -> EntriesDone, KNOWN, KEPT;
    /// Remove the entry of a name in a view, or in all views.
    RemoveEntry(choice: EntryChoice): Operate DELETE "/api/v1/entries/{name}" -> EntriesDone, KNOWN, KEPT;
    /// Local records of run time.
    Records(page: Page): Read GET "/api/v1/local" -> RecordPage, KNOWN;
    /// Add local records.
    AddRecords(records: Vec<RecordRequest>): Operate POST "/api/v1/local" -> Done, KNOWN, KEPT;
    /// Remove local records.
    RemoveRecords(choice: RecordChoice): Operate DELETE "/api/v1/local" -> Done, KNOWN, KEPT;
    /// Prefixes of the client table.
    Clients(page: Page): Read GET "/api/v1/clients" -> ClientPage, KNOWN;
    /// The view that a client with this address is in, and which prefix decides.
    FindClient(address: String): Read GET "/api/v1/clients/{address}" -> ClientAnswer, KNOWN;
    /// Put prefixes into views, or take them out of the client table.
    ChangeClients(changes: Vec<ClientChange>): Operate POST "/api/v1/clients" -> Done, KNOWN, KEPT;
    /// Take a prefix out of the client table.
    RemoveClient(prefix: String): Operate DELETE "/api/v1/clients" -> Done, KNOWN, KEPT;
    /// What a client would get, and why.
    Lookup(request: LookupRequest): Read GET "/api/v1/lookup" -> LookupReport, SEARCHED;
    /// Search the query log.
    Log(search: LogSearch): Read GET "/api/v1/log" -> LogPage, LOGGED;
    /// Follow packets through the stages.
    Trace(search: PacketSearch): Read GET "/api/v1/trace" -> TraceReport, LINGER;
    /// Write packets to the file that comes with the call.
    Capture(search: PacketSearch): Read GET "/api/v1/capture" -> Done, LINGER;
    /// What crashes have left.
    Crashes: Read GET "/api/v1/crashes" -> CrashList, KNOWN;
    /// Answers in the cache.
    Cache(search: CacheSearch): Read GET "/api/v1/cache" -> CachePage, SEARCHED;
    /// Take answers out of the cache.
    Purge(order: PurgeOrder): Operate POST "/api/v1/purge" -> Done, WORK;
    /// Write every answer in the cache into the pipe that comes with the call.
    CacheDump: Read GET "/api/v1/cache/dump" -> Done, CACHE;
    /// Take in the answers that come out of the pipe that comes with the call.
    CacheLoad: Operate POST "/api/v1/cache/load" -> Done, CACHE;
    /// Names, clients and zones that come most.
    Hitters(query: HittersQuery): Read GET "/api/v1/top" -> HitterTable, KNOWN;
    /// Zones that are flooded with random names.
    Floods: Read GET "/api/v1/floods" -> hitters::Floods, KNOWN;
    /// Limits on the misses of zones.
    Limits: Read GET "/api/v1/limits" -> LimitTable, KNOWN;
    /// Limit the misses of a zone.
    Limit(order: LimitOrder): Operate POST "/api/v1/limits" -> Done, KNOWN, KEPT;
    /// Lift the limit of a zone.
    Unlimit(zone: String): Operate DELETE "/api/v1/limits/{zone}" -> Done, KNOWN, KEPT;
}

impl Call {
    /// Whether the log names who asks: of every change, and of what shows packets, queries and answers of clients.
    pub(crate) fn is_logged(&self) -> bool {
        let shows_clients = matches!(
            self,
            Self::Trace(_)
                | Self::Capture(_)
                | Self::Crashes
                | Self::Cache(_)
                | Self::CacheDump
                | Self::Log(_)
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
            Call::Crashes,
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
