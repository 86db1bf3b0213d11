//! The calls that an operator can make to a running instance, and the HTTP API that makes them.
//!
//! A [`Call`] is a request, a [`CallReply`] its result; the [table](Call::ROUTES) has the route and the role of each, and the type
//! of its reply. [`api`] makes calls of requests over HTTP, and sends them by a [`CallSender`] to the thread that answers: a
//! [`PendingCall`] takes no other reply. `client`, of the feature `tls`, makes requests of calls, and reads replies of that
//! type.
//! Neither knows of the engine behind: of stages or rings.
#![deny(clippy::print_stderr, clippy::print_stdout)] // They panic when nobody reads.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test stops at what it does not expect"))]

pub mod answers;
pub mod api;
pub mod audit;
pub mod cache;
mod call;
#[cfg(feature = "tls")]
pub mod client;
mod configuration;
pub mod crashes;
pub mod date;
mod entries;
pub mod health;
pub mod hitters;
pub mod jobs;
mod listings;
mod lists;
pub mod lookup;
pub mod query_log;
mod reply;
pub mod report;
mod sender;
mod spelled;
pub mod testing;
pub mod trace;
mod upstreams;

pub use call::{Ask, Call, CallRoute, MAX_PAGE, Page, PendingCall, PurgeOrder, RecordChoice, ask};
pub use entries::{
    ClientChange, EntryChoice, EntryKind, EntryRequest, EntryScope, RecordRequest, RuleAction,
};
pub use hitters::{Hitter, HittersQuery, LimitOrder, Window};
pub use lists::NewList;
pub use reply::{CallReply, Refusal, Refused, Reply, named};
pub use sender::{AnyCaller, CallReceiver, CallSender, Caller, MAX_CALLS, PreparedReply};
pub use upstreams::{NewUpstream, UpstreamState};
