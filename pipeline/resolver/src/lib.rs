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
//! Reading order: [`resolver`] takes misses in, has them asked, and ends questions. It connects the rooms, and no room
//! knows it. `questions` has the questions under way, and the plans by which they are asked. `upstreams` sends queries
//! and says what came of them. `answers` reads and writes the cache, and writes what clients get. `cache_jobs` and
//! `validation` stand beside them. The rooms' arrows go one way: `questions` ◄ `upstreams` ◄ `answers` ◄ `cache_jobs`,
//! and `questions` ◄ `validation`.
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
mod timers;
mod upstreams;
pub mod validation;

pub use answers::responder::{Answered, Deliver};
pub use cache_jobs::jobs::{Block, Job, Loaded, NotTaken, TakenIn};
pub use counters::{
    CacheCounters, CacheSnapshot, Counters, CountersSnapshot, UpstreamCounters, UpstreamSnapshot,
};
pub use output::Output;
pub use questions::prefixes::PrefixLengths;
pub use random::Random;
pub use resolver::{Means, Parts, Resolver, Time};
pub use upstreams::Route;
pub use upstreams::encrypted;
pub use upstreams::query::Query;
pub use upstreams::udp_batch::MAX_DATAGRAM;
