//! pmdns: a poll-mode DNS caching forwarder.
//!
//! Dedicated cores poll NIC queues. A [`line`](mod@line) of stages answers cache hits in the frame they arrived in.
//! Misses go to the threads of the [`slowpath`]. [`topology`] plans the work of each core, [`engine`] builds and runs
//! the plan, and [`worker`] is the loop of one core.
#![deny(clippy::print_stderr, clippy::print_stdout)] // They panic when nobody reads.
#![cfg_attr(
    test,
    allow(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        reason = "numbers of tests are small"
    )
)]

pub mod admission;
pub mod answers;
pub mod arguments;
mod asked;
pub mod capture;
pub mod clients;
pub mod clock;
pub mod connecting;
pub mod control;
pub mod counters;
pub mod data_core;
pub mod doctor;
pub mod engine;
pub mod exceptions;
pub mod health;
pub mod histogram;
pub mod hitters;
mod idler;
mod inlet;
pub mod journal;
pub mod latency;
mod lending;
pub mod line;
pub mod lists;
pub mod log;
pub mod lookup;
pub mod machine;
mod miss_rings;
pub mod observe;
pub mod occupancy;
pub mod overlay;
pub mod ports;
pub mod privileges;
pub mod probe;
pub mod query_log;
pub mod replay;
mod reply_rings;
pub mod ring;
mod ring_shares;
mod roots;
pub mod rule_names;
pub mod rules;
#[cfg(feature = "dpdk")]
pub mod run;
pub mod runtime;
mod service;
mod shard;
pub mod sinks;
pub mod slowpath;
pub mod snapshot;
pub mod station;
#[cfg(feature = "dpdk")]
pub mod streams;
pub mod supervisor;
pub mod testing;
mod threads;
pub mod topology;
pub mod transfer;
mod transmitter;
pub mod upstreams;
pub mod worker;
pub mod zone_limits;
