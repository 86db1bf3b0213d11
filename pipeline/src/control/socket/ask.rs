//! The client side: asking an instance.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use super::{DENIED, SocketError, handover};

/// Sends `request` to the instance that listens at `path`, and returns its answer if it comes in time.
pub fn ask(path: &Path, request: &str, patience: Duration) -> Result<String, SocketError> {
    ask_with(path, request, None, patience)
}

/// The same, with an open file that the instance writes or reads.
pub fn ask_with(
    path: &Path,
    request: &str,
    file: Option<&File>,
    patience: Duration,
) -> Result<String, SocketError> {
    let denied = || SocketError::Denied(path.to_owned());
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::PermissionDenied => denied(),
        _ => SocketError::Ask { path: path.to_owned(), source },
    };
    let mut stream = connect(path, patience).map_err(failed)?;
    stream.set_read_timeout(Some(patience)).map_err(failed)?;
    let request = format!("{request}\n");
    let sent = handover::send(&stream, request.as_bytes(), file).map_err(failed)?;
    stream.write_all(&request.as_bytes()[sent..]).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    if answer == DENIED { Err(denied()) } else { Ok(answer) }
}

/// Connects. An instance that is stopped accepts nobody, and once its queue is full connecting would wait for ever.
fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(patience))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(OwnedFd::from(socket).into())
}
