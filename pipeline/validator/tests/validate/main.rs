//! The validator against a signed hierarchy in memory: what holds, what does not, and what it costs.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of tests are small"
)]

mod algorithms;
mod budgets;
mod costs;
mod forged;
mod honest;
mod judged;
mod worst;
