//! Control: what operators ask of a running instance, and see of it.

pub mod api;
pub mod cache_jobs;
mod cache_list;
pub mod calls;
mod http;
pub mod metrics;
pub mod process;
pub mod reload;
pub mod report;
pub mod socket;
