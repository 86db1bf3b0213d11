//! Queries down the stages, and the answers read back by a library that is not ours.
#![expect(clippy::unwrap_used, reason = "in a test, unwrap is an assertion")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of tests are small"
)]

mod about_us;
mod any_client;
mod cookies;
mod denials;
mod edge;
mod edns;
mod flags;
mod hits;
mod hostile;
mod line;
mod subnets;
mod types;
