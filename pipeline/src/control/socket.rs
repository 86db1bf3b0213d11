//! The control socket: a unix stream socket that answers each connection's line with a text. What may be asked is in
//! [`super::request`].

use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long an answer may take to be taken by who asked.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a request may take to come. Who sends nothing in this time asks for the report.
const REQUEST_PATIENCE: Duration = Duration::from_millis(100);
/// Bytes of the longest request: a path, and a word.
const MAX_REQUEST: usize = 4096 + 16;
/// How long who asks waits for the report: where data cores poll on every CPU, it may be late.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How long who tells an instance to do something waits until it is done: files with millions of names are read,
/// a large cache is written to a slow disk.
pub const ORDER_PATIENCE: Duration = Duration::from_secs(300);
/// Clients answered in one call.
const CLIENTS_AT_A_TIME: usize = 4;

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

/// The listening socket; its file goes when it is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Opens the socket. A file that a killed instance left behind is replaced.
    pub fn open(path: &Path) -> Result<Self, SocketError> {
        let failed = |source| SocketError::Open { path: path.to_owned(), source };
        match UnixStream::connect(path) {
            Ok(_) => return Err(SocketError::InUse(path.to_owned())),
            // Nobody listens. Only a socket is removed: an ordinary file refuses connections as well.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let file = std::fs::symlink_metadata(path).map_err(failed)?;
                if file.file_type().is_socket() {
                    std::fs::remove_file(path).map_err(failed)?;
                }
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Takes in those who have connected since the last call, a few at a time, so that the caller sees
    /// signals in time, and hands each to `answer` with its request. One bad connection never ends the service.
    pub fn serve(&self, mut answer: impl FnMut(&str, Client)) {
        for _ in 0..CLIENTS_AT_A_TIME {
            let Ok((stream, _)) = self.listener.accept() else { break };
            match Client::hear(stream) {
                Ok((request, client)) => answer(&request, client),
                Err(error) => tracing::debug!("a control client went away: {error}"),
            }
        }
    }
}

/// Somebody who waits for an answer.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
}

impl Client {
    /// Reads a client's request, up to the end of the line.
    fn hear(mut stream: UnixStream) -> io::Result<(String, Self)> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (start, mut request, mut part) = (Instant::now(), Vec::new(), [0; 512]);
        while !request.contains(&b'\n') && request.len() < MAX_REQUEST {
            let Some(left) = REQUEST_PATIENCE.checked_sub(start.elapsed()) else { break };
            stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            match stream.read(&mut part) {
                Ok(0) => break,
                Ok(count) => request.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let line = request.split(|byte| *byte == b'\n').next().unwrap_or_default();
        Ok((String::from_utf8_lossy(line).into_owned(), Self { stream }))
    }

    /// Answers, and closes the connection. A client that does not read is given up.
    pub fn answer(mut self, text: &str) {
        if let Err(error) = self.stream.write_all(text.as_bytes()) {
            tracing::debug!("a control client went away: {error}");
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What the instance that listens at `path` answers to `request`, if it does so in time.
pub fn ask(path: &Path, request: &str, patience: Duration) -> Result<String, SocketError> {
    let failed = |source| SocketError::Ask { path: path.to_owned(), source };
    let mut stream = UnixStream::connect(path).map_err(failed)?;
    stream.set_read_timeout(Some(patience)).map_err(failed)?;
    stream.write_all(format!("{request}\n").as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("pmdns-test-{}-{name}.sock", std::process::id()))
    }

    #[test]
    fn a_report_is_read_to_its_end() {
        let path = path("read");
        let socket = ControlSocket::open(&path).unwrap();
        let asking = {
            let path = path.clone();
            std::thread::spawn(move || ask(&path, "stats", ANSWER_PATIENCE))
        };
        while !asking.is_finished() {
            socket.serve(|request, client| {
                assert_eq!(request, "stats");
                client.answer(&"{}".repeat(100_000));
            });
            std::thread::yield_now();
        }
        assert_eq!(asking.join().unwrap().unwrap().len(), 200_000);
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_request_is_a_line_and_its_answer_a_text() {
        let path = path("request");
        let socket = ControlSocket::open(&path).unwrap();
        let asking = std::thread::spawn(move || ask(&path, "purge  www.example ", ORDER_PATIENCE));
        let mut heard = Vec::new();
        while !asking.is_finished() {
            socket.serve(|request, client| {
                heard.push(request.to_owned());
                client.answer("ok");
            });
            std::thread::yield_now();
        }
        assert_eq!(heard, ["purge  www.example "]);
        assert_eq!(asking.join().unwrap().unwrap(), "ok");
    }

    #[test]
    fn whoever_says_nothing_asks_for_the_report_and_no_request_is_endless() {
        let path = path("silent");
        let socket = ControlSocket::open(&path).unwrap();
        let heard = || {
            let mut heard = None;
            socket.serve(|request, client| {
                heard = Some(request.to_owned());
                client.answer("{}");
            });
            heard.unwrap()
        };
        let mut silent = UnixStream::connect(&path).unwrap();
        assert_eq!(heard(), "");
        let mut answer = String::new();
        silent.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "{}");
        let mut halting = UnixStream::connect(&path).unwrap();
        halting.write_all(b"dump /tmp").unwrap();
        assert_eq!(heard(), "dump /tmp", "as far as it came");
        let mut endless = UnixStream::connect(&path).unwrap();
        endless.write_all(&[b'a'; 3 * MAX_REQUEST]).unwrap();
        assert!(heard().len() < 2 * MAX_REQUEST);
        let mut garbled = UnixStream::connect(&path).unwrap();
        garbled.write_all(b"\xff\xfe\nrest").unwrap();
        assert_eq!(heard(), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn an_ordinary_file_is_left_alone() {
        let path = path("file");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(ControlSocket::open(&path), Err(SocketError::Open { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_second_instance_is_refused_and_a_dead_one_replaced() {
        let path = path("second");
        let first = ControlSocket::open(&path).unwrap();
        assert!(matches!(ControlSocket::open(&path), Err(SocketError::InUse(_))));
        // As after SIGKILL: the file stays, nobody listens.
        let (listener, _kept) =
            (first.listener.try_clone().unwrap(), std::mem::ManuallyDrop::new(first));
        drop(listener);
        let _ = std::fs::remove_file(&path);
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(ControlSocket::open(&path).unwrap());
    }
}
