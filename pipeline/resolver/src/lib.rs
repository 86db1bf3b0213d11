//! The resolver handles misses. It makes the decisions, and does no I/O.
//!
//! ```text
//!  misses, hits ──────────────► ┌──────────┐ ──outputs──► sockets and threads of the driver
//!  datagrams, bytes, reports ─► │ Resolver │ ──answers──► clients
//!  time, chance, jobs, rules ─► └──────────┘ ──entries──► cache
//! ```
//!
//! A driver calls it. In `pmdns_engine::slowpath` the driver is a thread of its own with kernel sockets. In each turn the
//! driver passes in the inputs, each with the time. Then it calls [`Resolver::turn`]. It carries out the outputs
//! ([`Resolver::next_output`]), and sends the answers ([`Resolver::take_answers`]). The resolver never waits, opens no sockets,
//! starts no threads and reads no clock.
//!
//! Reading order: [`resolver`] takes misses in, has them asked, and ends questions. It connects the other modules, and
//! none of them imports it. `questions` holds the questions under way, and the plans by which they are asked.
//! `upstreams` sends queries and reports their results. `answers` reads and writes the cache, and writes the answers to
//! clients. Beside these there are `cache_jobs` and `validation`. Imports go one way: `questions` ◄ `upstreams` ◄
//! `answers` ◄ `cache_jobs`, and `questions` ◄ `validation`.
//!
//! Three promises hold, whatever the upstreams do. A client that is admitted is answered by its deadline or counted.
//! Memory is bounded by the settings. When an upstream answers again after an outage, so does the resolver.

#![deny(clippy::print_stderr, clippy::print_stdout)] // They panic when nobody reads.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        reason = "numbers of tests are small"
    )
)]

mod answers;
mod cache_jobs;
pub mod counters;
#[cfg(fuzzing)]
pub mod fuzz_api;
mod origin;
mod outlook;
mod output;
mod questions;
mod random;
mod resolver;
mod roster;
mod settings;
mod timers;
mod upstreams;
pub mod validation;
mod wheel;

pub use answers::outlets::OutgoingAnswer;
pub use cache_jobs::jobs::{Block, Job, LoadPart, NotTaken, TakenIn};
pub use counters::{
    CacheCounters, CacheSnapshot, Counters, CountersSnapshot, UpstreamCounters, UpstreamSnapshot,
};
pub use origin::Origin;
pub use outlook::{Foreseen, Inquiry, Outlook, UpstreamOutlook};
pub use output::Output;
pub use random::Random;
pub use resolver::{Means, Parts, Resolver, Time};
pub use roster::{Roster, RosterError, Slot};
pub use settings::Settings;
pub use upstreams::Route;
pub use upstreams::encrypted;
pub use upstreams::medium::NetworkLimits;
pub use upstreams::port_replies::Arrived;
pub use upstreams::query::Query;
pub use upstreams::udp_batch::MAX_DATAGRAM;
