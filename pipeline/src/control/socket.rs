//! The control socket: a unix stream socket that answers one request a connection.
//!
//! A request is one line, and its first word is the command. An empty line, or none, asks for the report, as JSON.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a report may take to be taken by who asked for it.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a request may take to come: who sends none wants the report, and waits so long for it.
const REQUEST_PATIENCE: Duration = Duration::from_millis(100);
/// The longest request, in bytes.
const MAX_REQUEST: u64 = 1024;
/// How long who asks waits for the report: where data cores poll on every CPU, it may be late.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// Clients answered in one call.
const CLIENTS_AT_A_TIME: usize = 4;

/// How long who asks waits until new rules are in use: files with millions of names take seconds.
pub const RELOAD_PATIENCE: Duration = Duration::from_secs(300);

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

    /// Hands those who have connected since the last call to `answer`, a few at a time, so that the caller sees
    /// signals in time. One bad connection never ends the service.
    pub fn serve(&self, mut answer: impl FnMut(Client)) {
        for _ in 0..CLIENTS_AT_A_TIME {
            let Ok((stream, _)) = self.listener.accept() else { break };
            match Client::new(stream) {
                Ok(client) => answer(client),
                Err(error) => tracing::debug!("a control client went away: {error}"),
            }
        }
    }
}

/// Somebody who asked.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    request: String,
}

impl Client {
    fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(REQUEST_PATIENCE))?;
        let mut request = String::new();
        match BufReader::new((&stream).take(MAX_REQUEST)).read_line(&mut request) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            // Whoever sends no line within the time has asked for nothing in particular.
            _ => {}
        }
        Ok(Self { stream, request: request.trim().to_owned() })
    }

    /// The command, and what stands behind it on its line.
    pub fn request(&self) -> (&str, &str) {
        let (command, rest) = self.request.split_once(' ').unwrap_or((&self.request, ""));
        (command, rest.trim())
    }

    /// Answers. A client that does not read is given up.
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

/// The report of the instance that listens at `path`.
pub fn ask(path: &Path) -> Result<String, SocketError> {
    request(path, "", ANSWER_PATIENCE)
}

/// What the instance that listens at `path` answers to a request of one line, if it does so in time.
pub fn request(path: &Path, line: &str, patience: Duration) -> Result<String, SocketError> {
    let failed = |source| SocketError::Ask { path: path.to_owned(), source };
    let mut stream = UnixStream::connect(path).map_err(failed)?;
    stream.set_read_timeout(Some(patience)).map_err(failed)?;
    stream.write_all(format!("{line}\n").as_bytes()).map_err(failed)?;
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
            std::thread::spawn(move || ask(&path))
        };
        while !asking.is_finished() {
            socket.serve(|client| {
                assert_eq!(client.request(), ("", ""));
                client.answer(&"{}".repeat(100_000));
            });
            std::thread::yield_now();
        }
        assert_eq!(asking.join().unwrap().unwrap().len(), 200_000);
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_request_is_a_line_and_none_is_an_empty_one() {
        let path = path("request");
        let socket = ControlSocket::open(&path).unwrap();
        let serve_one = || loop {
            let mut seen = None;
            socket.serve(|client| {
                let (command, rest) = client.request();
                seen = Some(format!("{command}|{rest}"));
                client.answer("ok");
            });
            if let Some(seen) = seen {
                return seen;
            }
            std::thread::yield_now();
        };
        let asking = {
            let path = path.clone();
            std::thread::spawn(move || request(&path, "purge  www.example ", RELOAD_PATIENCE))
        };
        assert_eq!(serve_one(), "purge|www.example");
        assert_eq!(asking.join().unwrap().unwrap(), "ok");
        // Somebody who only listens, as older programs do.
        let mut silent = UnixStream::connect(&path).unwrap();
        assert_eq!(serve_one(), "|");
        let mut answer = String::new();
        silent.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "ok");
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
