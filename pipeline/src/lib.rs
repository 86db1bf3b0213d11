//! pmdns: a poll-mode DNS caching forwarder.
//!
//! Frames come from NIC queues that dedicated cores poll; a [`line`](mod@line) of stages answers cache hits in the
//! frame they arrived in; misses go to a [`slowpath`] of their own threads. [`topology`] plans who does
//! what, [`engine`] builds and runs it, [`worker`] is one core's loop.

pub mod admission;
pub mod clock;
pub mod control;
pub mod counters;
pub mod engine;
pub mod histogram;
mod idler;
pub mod latency;
pub mod line;
pub mod log;
pub mod machine;
mod miss_rings;
pub mod occupancy;
pub mod ports;
pub mod privileges;
pub mod replay;
pub mod ring;
mod ring_shares;
pub mod rules;
#[cfg(feature = "dpdk")]
pub mod run;
mod service;
pub mod slowpath;
pub mod snapshot;
pub mod station;
pub mod testing;
mod threads;
pub mod topology;
pub mod transfer;
mod transmitter;
pub mod worker;
