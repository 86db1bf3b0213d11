//! What data cores record of packets, and who reads it: the query log, heavy hitters, captures, traces, and what crashes leave.
//!
//! Recorders are observers of the line ([`observe`](pmdns_engine::observe)). Threads of here read what they put into rings.
//! Nothing here decides about a query.
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

pub mod capture;
pub mod crashes;
pub mod hitters;
pub mod query_log;
pub mod records;
pub mod sinks;
