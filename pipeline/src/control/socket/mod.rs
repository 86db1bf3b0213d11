//! Unix sockets for operators: their files, and who may connect.

use std::io;
use std::path::PathBuf;

mod group;
mod listener;
#[cfg(test)]
mod tests;

pub(crate) use listener::has_group;
pub use listener::{ControlSocket, SocketFile};
#[cfg(feature = "dpdk")]
pub(crate) use listener::{listen, remove_left};

/// Why a unix socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another instance answers there.
    #[error("socket {path} is in use by another running instance; stop it, or set another `{key}`")]
    InUse {
        /// The key of the configuration.
        key: &'static str,
        /// Where.
        path: PathBuf,
    },
    /// The socket could not be made.
    #[error("cannot open socket {path}: {source}; set `{key}` to a path you may write")]
    Open {
        /// The key of the configuration.
        key: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no such group.
    #[error("there is no group `{0}` in /etc/group; set `control.group` to one, or to its number")]
    Group(String),
    /// The thread cannot be started.
    #[error("cannot start the control thread: {0}")]
    Thread(io::Error),
}
