//! Errors of serving.

use std::io;

use pmdns_changes::JournalError;
use pmdns_engine::engine::EngineError;
use pmdns_engine::exceptions::interface::TapError;
use pmdns_engine::topology::TopologyError;
use pmdns_insight::hitters::HittersError;
use pmdns_insight::query_log::QueryLogError;
use pmdns_nics::dpdk;

use crate::clients::ClientsError;
use crate::control::api::ApiError;
use crate::control::metrics::server::MetricsError;
use crate::control::socket::SocketError;
use crate::handover::HandoverError;
use crate::streams::StreamsError;
use crate::transfer::TransferError;

/// Why serving could not start or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Another process, which is to be taken over from.
    #[error(transparent)]
    Handover(#[from] HandoverError),
    /// The control socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The address for metrics.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The HTTP API.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The client table.
    #[error(transparent)]
    Clients(#[from] ClientsError),
    /// A file of what is said at run time.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// DPDK's environment.
    #[error(transparent)]
    Eal(#[from] dpdk::EalError),
    /// The frame pool.
    #[error(transparent)]
    Pool(#[from] dpdk::PoolError),
    /// A port.
    #[error(transparent)]
    Port(#[from] dpdk::PortError),
    /// The plan.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The devices of all ports were taken out of the machine.
    #[error("every port's device was removed, so there is nothing left to serve on")]
    NoPortLeft,
    /// The kernel's end of a port.
    #[error(transparent)]
    Tap(#[from] TapError),
    /// Everything else that is built.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The transfers of policy zones.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// Clients over streams.
    #[error(transparent)]
    Streams(#[from] StreamsError),
    /// The query log.
    #[error(transparent)]
    QueryLog(#[from] QueryLogError),
    /// Heavy hitters.
    #[error(transparent)]
    Hitters(#[from] HittersError),
    /// A socket cannot be copied for the next process.
    #[error("cannot copy a socket: {0}; raise the limit of open files (ulimit -n)")]
    Copy(io::Error),
    /// Signals cannot be caught.
    #[error("cannot catch signals: {0}")]
    Signal(io::Error),
    /// A thread died.
    #[error("a worker thread ended unexpectedly; the log above says why")]
    ThreadEnded,
}
