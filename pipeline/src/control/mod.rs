//! Control: the requests that an operator can send to a running instance.

pub mod answers;
pub mod api;
pub mod cache_jobs;
mod cache_list;
pub mod calls;
pub mod distribution;
#[cfg(test)]
mod fixture;
pub mod jobs;
pub mod metrics;
mod named;
pub mod next_hops;
pub mod print;
pub mod process;
pub mod profile;
pub mod rates;
pub mod reload;
pub mod report;
pub mod request;
pub mod socket;
pub mod top;
