//! How an incoming process takes over from an outgoing one, which serves until the other one does.
//!
//! ```text
//! incoming                                 outgoing
//!    │ ── Hello: protocol, process ──────────► │  serves
//!    │ ◄───────── Offer: what there is ─────── │  refuses changes of operators from here on
//!    │  opens ports, starts threads            │
//!    │ ── Prepared(devices) ─────────────────► │
//!    │                                         │  writes no more to the cache, and serves
//!    │ ◄──────────────────────────── Frozen ── │
//!    │  writes to the cache, takes the ports   │
//!    │ ── Serving ───────────────────────────► │
//!    │                                         │  reads what has come, answers who waits
//!    │                                         │  closes its devices
//!    │ ◄──────────────────────────── Closed ── │
//!    │  opens them                             │
//!    │ ── Opened ────────────────────────────► │
//!    │                                         │  ends when nobody waits for it any more
//!    │ ◄─────────── the connection closes ──── │
//!    │  owns every file                        │
//! ```
//!
//! Devices are those that one process at a time can have. `Closed` and `Opened` are said only if the incoming process opens
//! some.
//!
//! Whichever ends on the way, the other one goes on: the outgoing process as before, the incoming one alone. A lock of the kernel
//! says who may write to the cache. The lock falls with the process that has it. Messages may be late, so they do not decide.
//!
//! [`Outgoing`] and [`Incoming`] decide. They are told the time, messages, and what came of the last output, and say what to do
//! by outputs. Sockets, files and threads are the caller's.
//!
//! A [`Keeper`] is the parent of these processes, if they have one: it starts them, and keeps descriptors for a crash.
#![forbid(unsafe_code)]
#![deny(clippy::print_stderr, clippy::print_stdout)] // They panic when nobody reads.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test stops at what it does not expect"))]

mod incoming;
mod keeper;
mod message;
mod notice;
mod outgoing;
#[cfg(test)]
mod simulation;

pub use incoming::{Incoming, IncomingOutput};
pub use keeper::{
    ChildEnd, ChildStart, Keeper, KeeperEvent, KeeperOutput, KeeperSignal, ProcessId, SILENCE,
};
pub use message::{
    BadMessage, FromIncoming, FromOutgoing, HandoverLimits, Hello, MAX_MESSAGE, MAX_PASSED,
    MAX_PASSED_HOPS, NodeRole, Offer, PROTOCOL, Passed, PassedCache, PassedDevice, PassedHop,
    PassedTap,
};
pub use notice::{FAILED, MAX_NOTICE, Notice, SUCCESSOR};
pub use outgoing::{Outgoing, OutgoingOutput};
