//! What operators change while an instance runs: names, upstreams, lists, clients and limits.
//!
//! An [`OperatorChange`] says what holds, by whom, since when, and whether it ends with a restart. [`ChangeJournal`] keeps
//! changes in a file. [`names`] and [`overlay`] are the state that changes of their kinds lead to. [`Askers`] answers callers
//! when their changes are in use and on the disk. [`reload`] says what is read next, and takes what was read into use. Nothing here
//! knows of packets.
#![deny(clippy::print_stderr, clippy::print_stdout)] // They panic when nobody reads.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test stops at what it does not expect"))]

mod askers;
mod change;
mod journal;
mod keeper;
mod kept;
pub mod names;
pub mod overlay;
mod passed;
mod reach;
pub mod reload;
#[cfg(test)]
mod testing;
mod upstream_override;

pub use askers::{Askers, Waiting, lasting, not_kept};
pub use change::{Author, OperatorChange, Subject, What, ZoneLimitKept};
pub use journal::{JournalError, JournalFile, JournalKind, JournalLine};
pub use keeper::{CHANGES, ChangeJournal, Receipt, read};
pub use kept::KeptChanges;
pub use overlay::FollowConfig;
pub use passed::{MAX_PASSED_BYTES, PassedText, read_passed};
pub use reach::Reach;
pub use upstream_override::{Presence, UpstreamOverride};

pub use pmdns_control::Refused;
