//! Where processes find each other, and what they say of what cannot pass.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use pmdns_config::Config;
#[cfg(debug_assertions)]
use rustix::process::{Signal, getpid, kill_process};

/// The key of the socket where the next process connects.
pub(super) const SOCKET: &str = "handover";

/// A process could not take over.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// The running process has something that cannot pass, or says no.
    #[error("cannot take over from the running process: {0}")]
    Refused(String),
    /// It was told to end before it served.
    #[error("stopped before it had taken over; the running process serves on")]
    Stopped,
    /// The socket between the processes.
    #[error("cannot use socket {path}: {source}", path = path.display())]
    Socket {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What comes to a TAP goes on to the running process.
    #[error(
        "cannot lead what comes to a TAP to this process: {0}; stop the running process, then start this one"
    )]
    Taps(io::Error),
    /// Clients over QUIC go on to the running process.
    #[error(
        "cannot lead clients over QUIC to this process: {0}; stop the running process, then start this one"
    )]
    Quic(io::Error),
}

/// The file of the socket where the next process connects, beside that of operators.
pub(super) fn path(config: &Config) -> PathBuf {
    let mut name = config.control.socket.as_os_str().to_owned();
    name.push(".handover");
    name.into()
}

/// What is said of what cannot pass.
pub(super) fn cannot_pass(what: impl Display) -> String {
    format!("{what} cannot pass to another process; stop the running one, then start the other")
}

/// Stops this process at a step that a lab names, until SIGCONT.
#[cfg(debug_assertions)]
pub(super) fn hold(step: &str) {
    if std::env::var_os("PMDNS_HANDOVER_HOLD").is_some_and(|held| held == step) {
        let _ = kill_process(getpid(), Signal::STOP);
    }
}

#[cfg(not(debug_assertions))]
pub(super) fn hold(_: &str) {}

pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> HandoverError + '_ {
    |source| HandoverError::Socket { path: path.to_owned(), source }
}
