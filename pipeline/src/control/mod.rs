//! Control: what an operator can ask of a running instance.

pub mod report;
pub mod socket;
