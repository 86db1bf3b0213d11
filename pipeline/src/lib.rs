//! pmdns: a poll-mode DNS caching forwarder.
//!
//! The instance: it starts and stops the [engine](pmdns_engine), looks after it while it runs, and answers its operators.
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
pub mod capture;
pub mod clients;
pub mod connecting;
pub mod control;
#[cfg(feature = "dpdk")]
mod crashes;
pub mod handover;
pub mod health;
pub mod hitters;
#[cfg(feature = "dpdk")]
pub mod keeper;
pub mod lists;
pub mod log;
pub mod lookup;
pub mod machine;
mod passing;
pub mod privileges;
pub mod query_log;
pub mod replay;
#[cfg(feature = "dpdk")]
pub mod run;
pub mod runtime;
mod service;
pub mod snapshot;
pub mod sockets;
#[cfg(feature = "dpdk")]
pub mod streams;
pub mod supervisor;
pub mod transfer;
pub mod zone_limits;

/// This version, for other processes.
#[cfg(feature = "dpdk")]
const VERSION: &str = env!("CARGO_PKG_VERSION");

use pmdns_insight::sinks;
