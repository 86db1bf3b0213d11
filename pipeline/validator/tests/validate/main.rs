//! The validator against a signed hierarchy in memory: what holds, what does not, and what it costs.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod algorithms;
mod budgets;
mod costs;
mod forged;
mod honest;
mod judged;
mod worst;
