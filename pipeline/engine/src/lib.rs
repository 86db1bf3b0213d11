//! The data plane of pmdns: what a packet and a miss meet.
//!
//! Dedicated cores poll NIC queues. A [`line`](mod@line) of stages answers cache hits in the frame they arrived in.
//! Misses go to the threads of the [`slowpath`]. [`topology`] plans the work of each core, [`engine`] builds and runs
//! the plan, and [`worker`] is the loop of one core. Operators, their files and their calls are unknown here.
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

pub mod answers;
pub mod clock;
pub mod counters;
pub mod data_core;
pub mod encrypted;
pub mod engine;
pub mod exceptions;
mod idler;
mod inlet;
pub mod latency;
pub mod lending;
pub mod line;
pub mod line_budget;
pub mod lookup_line;
mod miss_rings;
pub mod news;
pub mod observe;
pub mod ports;
pub mod probe;
pub mod relay;
mod reply_rings;
pub mod ring;
mod ring_shares;
pub mod rule_names;
pub mod rules;
pub mod slowpath;
pub mod snapshot;
pub mod station;
pub mod testing;
pub mod threads;
pub mod topology;
mod transmitter;
pub mod upstreams;
pub mod worker;
