//! The control socket: a unix stream socket. Each connection sends one line and gets a text. [`super::request`] has the
//! requests.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

mod ask;
mod group;
mod handover;
mod listener;
mod server;
#[cfg(test)]
mod tests;

pub use ask::{ask, ask_until, ask_with};
pub use listener::ControlSocket;
pub(crate) use listener::has_group;
pub(super) use server::may_ask;
pub use server::{Client, ControlServer};

/// How long a client waits for the report. It may come late if data cores poll on every CPU.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How long a client waits for other requests. Files with millions of names are read, and a large cache is written to a
/// slow disk.
pub const ORDER_PATIENCE: Duration = Duration::from_secs(300);
/// The answer to a client without permission.
const DENIED: &str = "error: permission denied\n";

/// Why the control socket could not be opened or asked.
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
    /// Somebody answers there, but not to us.
    #[error(
        "permission denied at {0}: ask as root, as the instance's own user, or as a member of its `control.group`"
    )]
    Denied(PathBuf),
    /// Nobody answers there.
    #[error(
        "no running instance answers at {path}: {source}; start one, or name its socket with --socket"
    )]
    Ask {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
