//! The control socket: a unix stream socket that answers each connection's line with a text. What may be asked is in
//! [`super::request`].

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

pub use ask::{ask, ask_with};
pub use listener::ControlSocket;
pub use server::{Client, ControlServer};

/// How long who asks waits for the report: where data cores poll on every CPU, it may be late.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How long who tells an instance to do something waits until it is done: files with millions of names are read,
/// a large cache is written to a slow disk.
pub const ORDER_PATIENCE: Duration = Duration::from_secs(300);
/// What is said to who may not ask.
const DENIED: &str = "error: permission denied\n";

/// Why the control socket could not be opened or asked.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another instance answers there.
    #[error(
        "control socket {0} is in use by another running instance; stop it, or set another \
         `control.socket`"
    )]
    InUse(PathBuf),
    /// The socket could not be made.
    #[error(
        "cannot open control socket {path}: {source}; set `control.socket` to a path you may write"
    )]
    Open {
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
