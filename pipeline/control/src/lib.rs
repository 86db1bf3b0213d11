//! The calls that an operator can make to a running instance, and the HTTP API that makes them.
//!
//! A [`Call`] is a request, a [`Reply`] its result. A caller sends a call through a [`Door`] and knows nothing of the
//! engine behind it: neither stages nor rings. [`api`] is the door for HTTP. The control socket of the
//! command line makes the same calls from lines of words ([`Call::from_words`]).
#![deny(clippy::print_stderr, clippy::print_stdout)] // They panic when nobody reads.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test stops at what it does not expect"))]

pub mod answers;
pub mod api;
pub mod audit;
pub mod cache;
mod call;
mod configuration;
pub mod date;
mod door;
mod entries;
pub mod health;
pub mod hitters;
mod listings;
mod lists;
pub mod lookup;
pub mod query_log;
mod reply;
mod spelled;
pub mod trace;
mod upstreams;
mod words;

pub use call::{Call, Page, PurgeOrder, RecordChoice};
pub use door::{Asked, Door, MAX_ASKED};
pub use entries::{
    ClientChange, EntryChoice, EntryKind, EntryRequest, EntryScope, RecordRequest, RuleAction,
};
pub use hitters::{Hitter, HittersQuery, LimitOrder, Window};
pub use lists::{ListChange, NewList};
pub use reply::{Refusal, Reply, named};
pub use upstreams::{NewUpstream, UpstreamChange, UpstreamState};
