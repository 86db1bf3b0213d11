//! What the way out of a process is made of, what it asks of the instance, and why there may be none.

use std::sync::Arc;

use pmdns_nics::XdpSteering;
use pmdns_nics::dpdk::FilesBeside;
use pmdns_streams::quic_steering::QuicSteering;

use super::taps::Taps;
use crate::control::socket::SocketFile;
use crate::sockets::OpenSockets;

/// A port over AF_XDP has no socket, or it was not found among those of its driver.
pub(super) const UNSTEERED: &str =
    "a port over AF_XDP cannot pass; stop the running process, then start this one";
/// Packets of clients over QUIC cannot be led to one of two processes.
pub(super) const UNSTEERED_QUIC: &str =
    "`streams.quic` cannot pass; stop the running process, then start this one";

/// What the instance has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Take in no more connections, of clients and of operators, and close the devices that the next process is to open.
    Drain,
    /// Take them in again, and open the devices again.
    Resume,
    /// End, and leave everything as it is.
    End,
}

/// What passes to the next process, but for the cache.
pub(crate) struct OpenedForNext {
    /// Sockets, and the files of local ones.
    pub(crate) copies: (OpenSockets, Vec<Arc<SocketFile>>),
    /// Or why there is no way to another process.
    pub(crate) taps: Result<Taps, String>,
    /// Of clients over QUIC, if there are streams.
    pub(crate) quic: Option<QuicSteering>,
    /// Ports over AF_XDP that have their own sockets.
    pub(crate) xdp: Vec<XdpSteering>,
    /// Whether DPDK has the second name for its files.
    pub(crate) is_second: bool,
    /// What DPDK has left of the process before.
    pub(crate) beside: FilesBeside,
}
