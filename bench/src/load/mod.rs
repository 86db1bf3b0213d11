//! The load generator: an open loop over any DPDK port, every answer checked.
//!
//! [`generator`] is the loop. What it sends: [`questions`] make [`templates`], a [`deck`] orders them, [`pace`]
//! says when. What comes back: [`flight`] finds the query, [`check`] judges the answer, [`tally`] counts,
//! [`report`] makes figures and says whether they can be believed. [`phases`] are the programs. [`upstreams`] plays the
//! server's upstreams in the same loop.

pub mod arp;
pub mod ceiling;
pub mod check;
pub mod cpu;
pub mod deck;
pub mod figures;
pub mod flight;
pub mod generator;
pub mod malformed;
pub mod mix;
pub mod options;
pub mod pace;
pub mod path;
pub mod phases;
#[cfg(feature = "dpdk")]
pub mod port;
#[cfg(feature = "dpdk")]
pub mod program;
pub mod questions;
pub mod reflector;
pub mod report;
pub mod send;
pub mod table;
pub mod tally;
pub mod templates;
pub mod upstreams;
pub mod zone;

#[cfg(test)]
mod tests;
