//! The instance and its program: what they print, keep and answer.
//!
//! One program, because each links the whole instance. What has to have a process for itself is beside it.

mod command_line;
mod reload;
mod transfer;
mod traps;
