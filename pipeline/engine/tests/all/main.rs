//! The line, and the slow path behind it: what goes in, what comes out, and what is counted.
//!
//! One program, because each links the whole engine. What has to have a process for itself is beside it.

#![allow(clippy::duplicate_mod, reason = "several drivers turn one rig, and answer the same tests")]

mod kernel;
mod line;
mod port;
mod scenarios;
mod slowpath;
