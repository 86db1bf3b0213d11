//! The client side: asking an instance.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};

use super::{ANSWER_PATIENCE, DENIED, SocketError, handover};

/// How often the asker looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

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
    let mut stream = send(path, request, file, patience)?;
    let failed = |source| refusal(path, source);
    stream.set_read_timeout(Some(patience)).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    allowed(path, answer)
}

/// The same for what takes long. When `has_ended`, the instance is told to come to an end, and its answer is awaited.
pub fn ask_until(
    path: &Path,
    request: &str,
    file: Option<&File>,
    patience: Duration,
    mut has_ended: impl FnMut() -> bool,
) -> Result<String, SocketError> {
    let mut stream = send(path, request, file, ANSWER_PATIENCE)?;
    let failed = |source| refusal(path, source);
    stream.set_read_timeout(Some(LOOK)).map_err(failed)?;
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    let (mut deadline, mut is_told) = (Instant::now() + patience, false);
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&part[..count]),
            Err(error) if is_early(&error) && Instant::now() < deadline => {}
            Err(error) => return Err(failed(error)),
        }
        if !is_told && has_ended() {
            is_told = true;
            stream.shutdown(Shutdown::Write).map_err(failed)?;
            deadline = Instant::now() + ANSWER_PATIENCE;
        }
    }
    allowed(path, String::from_utf8_lossy(&answer).into_owned())
}

/// Nothing has come yet, or a signal has.
fn is_early(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

fn send(
    path: &Path,
    request: &str,
    file: Option<&File>,
    patience: Duration,
) -> Result<UnixStream, SocketError> {
    let failed = |source| refusal(path, source);
    let mut stream = connect(path, patience).map_err(failed)?;
    let request = format!("{request}\n");
    let sent = handover::send(&stream, request.as_bytes(), file).map_err(failed)?;
    stream.write_all(&request.as_bytes()[sent..]).map_err(failed)?;
    Ok(stream)
}

fn refusal(path: &Path, source: io::Error) -> SocketError {
    match source.kind() {
        io::ErrorKind::PermissionDenied => SocketError::Denied(path.to_owned()),
        _ => SocketError::Ask { path: path.to_owned(), source },
    }
}

fn allowed(path: &Path, answer: String) -> Result<String, SocketError> {
    if answer == DENIED { Err(SocketError::Denied(path.to_owned())) } else { Ok(answer) }
}

/// Connects. An instance that is stopped accepts nobody, and once its queue is full connecting would wait for ever.
fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(patience))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(OwnedFd::from(socket).into())
}
