//! A whole line over the memory driver: what goes in, what comes out, and what is counted.
#![expect(clippy::unwrap_used, reason = "in a test, unwrap is an assertion")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of tests are small"
)]

mod answers;
mod limits;
mod observe;
mod placements;
mod ports;
mod shared_writes;
mod topology;
