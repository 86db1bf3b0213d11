//! Control: what operators ask of a running instance, and see of it.

pub mod answers;
pub mod api;
pub mod cache_jobs;
mod cache_list;
pub mod calls;
pub mod distribution;
#[cfg(test)]
mod fixture;
mod http;
pub mod metrics;
mod named;
pub mod next_hops;
pub mod print;
pub mod process;
pub mod profile;
pub mod rates;
pub mod reload;
pub mod report;
pub mod socket;
pub mod top;
