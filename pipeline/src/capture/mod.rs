//! `pmdns capture`: packets that pass a running instance, written as pcapng for others to read.
//!
//! On each data core a recorder observes ([`observe`](pmdns_engine::observe)). It copies the packets that a filter lets pass into a
//! ring of bytes, and counts those for which there is no room. A thread of the [capture](job) takes them from all rings and
//! writes them into the pipe that came with the call.

mod filter;
mod headers;
pub mod job;
mod pipe;
mod recorder;
mod rule;
mod session;
mod stream;
mod trace;

pub use filter::Selection;
pub use job::Captures;
pub(crate) use pipe::Pipe;
pub use pmdns_control::trace::{TraceReport, TracedPacket, TracedStep};
