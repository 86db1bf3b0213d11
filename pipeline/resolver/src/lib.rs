//! The resolver: what becomes of misses. It decides, and does no I/O.
//!
//! ```text
//!  misses, hits ──────────────► ┌──────────┐ ──outputs──► sockets and threads of the driver
//!  datagrams, bytes, reports ─► │ Resolver │ ──answers──► clients
//!  time, chance, jobs, rules ─► └──────────┘ ──entries──► cache
//! ```
//!
//! A driver calls it: on a thread of its own, with kernel sockets, in `pmdns::slowpath`. In a turn it tells the time
//! ([`Resolver::set_time`]) and what has come, then lets the resolver go on ([`Resolver::turn`]), and does what that wants done
//! ([`Resolver::next_output`]). The resolver never waits, opens nothing, starts nothing and reads no clock.
//!
//! Reading order: [`resolver`] takes misses in and ends questions. `questions` has those under way and the plans by which
//! they are asked. `upstreams` carries plans out and judges replies. `answers` writes what clients get. `validation` and
//! `cache_jobs` are for themselves.
//!
//! Three promises, whatever the upstreams do. A client that is admitted is answered by its deadline or counted. Memory
//! is bounded by the settings. Once an upstream answers again, so do we.

#![forbid(unsafe_code)]

mod answers;
mod cache_jobs;
pub mod counters;
#[cfg(fuzzing)]
pub mod fuzz_api;
mod output;
mod questions;
mod random;
mod resolver;
mod upstreams;
pub mod validation;

pub use answers::responder::{Answered, Deliver};
pub use cache_jobs::jobs::{Block, Job, Loaded, NotTaken, TakenIn};
pub use counters::{
    CacheCounters, CacheSnapshot, Counters, CountersSnapshot, UpstreamCounters, UpstreamSnapshot,
};
pub use output::Output;
pub use questions::prefixes::PrefixLengths;
pub use questions::query::Query;
pub use random::Random;
pub use resolver::{Means, Parts, Resolver, Time};
pub use upstreams::encrypted;
pub use upstreams::exchange::Route;
pub use upstreams::udp_batch::MAX_DATAGRAM;
