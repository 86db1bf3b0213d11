//! Packets that pass a running instance: written as pcapng for others to read, or followed stage by stage.
//!
//! On each data core a recorder observes ([`observe`](pmdns_engine::observe)). It copies the packets that a filter lets pass into a
//! ring of bytes, and counts those for which there is no room. The thread of a capture ([`mod@file`]) takes them from all rings and
//! writes them into a pipe. That of a [`trace`] joins them.

mod file;
mod filter;
pub(crate) mod headers;
mod pipe;
mod recorder;
mod session;
pub(crate) mod stream;
pub mod testing;
mod trace;

use std::sync::Arc;

use pmdns_engine::clock::Clock;
use pmdns_engine::observe::{MAX_OBSERVERS, ObserverLender};
use pmdns_engine::snapshot::CacheJobs;

pub use filter::Selection;
pub use pipe::Pipe;
pub use recorder::{PacketRecord, RecordedAnswer};
use session::Session;
pub use trace::{FindRule, TracedQuestion};

/// Captures and traces at a time. Other observers of a core keep their places.
pub const MAX_CAPTURES: usize = 4;
const _: () = assert!(MAX_CAPTURES < MAX_OBSERVERS);

/// What captures and traces of an instance are made with.
#[derive(Clone, Debug)]
pub struct PacketWatch {
    /// Lends recorders to the data cores.
    pub lender: ObserverLender,
    /// The clock.
    pub clock: Clock,
    /// They have the cache.
    pub cache_jobs: CacheJobs,
    /// The names of the ports.
    pub ports: Arc<[String]>,
    /// How many of the ports have wires.
    pub wires: usize,
}

impl PacketWatch {
    /// Starts to record.
    fn session(&self, filter: &filter::Filter) -> Result<Session, String> {
        Session::start(&self.lender, filter).map_err(|error| error.to_string())
    }
}
