//! Replies of upstreams, to what is kept of them and what clients get.
#![cfg(not(any(loom, miri)))]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::unwrap_used,
    reason = "numbers of tests are small, and in a test a panic is the report"
)]

mod cache_reply;
mod mutated;
mod rdata;
mod replies;
mod scrub;
mod worst_reply;
mod zone_text;
