//! Control: what an operator can ask of a running instance.

pub mod cache_jobs;
pub mod distribution;
#[cfg(test)]
mod fixture;
pub mod metrics;
pub mod print;
pub mod profile;
pub mod rates;
pub mod reload;
pub mod report;
pub mod request;
pub mod socket;
pub mod top;
