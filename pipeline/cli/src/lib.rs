//! The command line of pmdns.
//!
//! A command asks a running instance by its HTTP API, over the control socket or TLS, or checks machines and files. What needs the
//! engine is done by the [`Program`], which hands it in: to serve, to replay, to check rules.
#![deny(clippy::print_stderr, clippy::print_stdout)] // They panic when nobody reads.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a test stops at what it does not expect, and its numbers are small"
    )
)]

mod capture;
mod commands;
mod crash;
mod doctor;
mod drain;
mod failure;
mod output;
mod print;
mod profile;
mod program;
mod rates;
mod top;
mod upgrade;

pub use commands::Arguments;
pub use crash::write_crashes;
pub use failure::Failure;
pub use program::{CheckReport, Dpdk, Program, ProgramError};
