//! `pmdns run`: serve until told to stop.
//!
//! `opened` binds what the configuration names, `ports` starts the ports, `instance` is the main thread of a process that serves.

mod announce;
mod instance;
mod opened;
mod ports;
mod services;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pmdns_config::Config;
use pmdns_nics::device::Doubt;
use pmdns_nics::dpdk;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::instance::Instance;
use self::opened::Opened;
use self::ports::StartedPorts;
use crate::clients::ClientsError;
use crate::control::api::ApiError;
use crate::control::metrics::server::MetricsError;
use crate::control::reload::Written;
use crate::control::report::Report;
use crate::control::socket::SocketError;
use crate::engine::EngineError;
use crate::exceptions::interface::TapError;
use crate::hitters::HittersError;
use crate::journal::JournalError;
use crate::machine::{Machine, missing_device};
use crate::query_log::QueryLogError;
use crate::streams::StreamsError;
use crate::topology::TopologyError;
use crate::transfer::TransferError;

/// Why serving could not start or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
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
    /// A port's device is not there.
    #[error("port {0}: {1}")]
    Device(String, Doubt),
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
    /// Signals cannot be caught.
    #[error("cannot catch signals: {0}")]
    Signal(io::Error),
    /// A thread died.
    #[error("a worker thread ended unexpectedly; the log above says why")]
    ThreadEnded,
}

/// Serves with `config`, which was `written` so at `path`, until SIGINT or SIGTERM. Returns the final
/// counters. SIGHUP has the rules read anew.
pub fn run(config: &Config, written: Written, path: &Path) -> Result<Report, RunError> {
    // Asked first, because the EAL pins this thread to its main core.
    let Machine { cores, root, .. } = Machine::this();
    let stop = flag_of(&[SIGINT, SIGTERM]).map_err(RunError::Signal)?;
    let hangup = flag_of(&[SIGHUP]).map_err(RunError::Signal)?;
    let opened = Opened::open(config)?;
    // DPDK's own error for a missing device misleads: it speaks of permissions.
    if let Some((port, doubt)) = missing_device(&root, config) {
        return Err(RunError::Device(port, doubt));
    }
    let ports = StartedPorts::start(config, opened.has_streams(), &cores)?;
    let mut instance = Instance::start(config, (written, path), opened, ports, &cores)?;
    while !stop.load(Ordering::Relaxed) && !instance.has_ended() {
        instance.turn(hangup.swap(false, Ordering::Relaxed));
        instance.nap();
    }
    instance.stop()
}

/// A report as `pmdns stats --json` prints it, or the result of a check.
pub fn to_json(report: &impl Serialize) -> String {
    serde_json::to_string(report).expect("a report holds only strings and numbers")
}

/// A flag that these signals set.
fn flag_of(signals: &[i32]) -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in signals {
        signal_hook::flag::register(*signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}
