//! The control socket: a unix stream socket that answers a connection with the report, as JSON.

use std::io::{self, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a report may take to be taken by who asked for it.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long who asks waits for the report: where data cores poll on every CPU, it may be late.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
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

    /// Answers those who have connected since the last call, a few at a time, so that the caller sees
    /// signals in time. A client that does not read is given up; one bad connection never ends the service.
    pub fn serve(&self, report: impl Fn() -> String) {
        for _ in 0..CLIENTS_AT_A_TIME {
            let Ok((mut client, _)) = self.listener.accept() else { break };
            let answered = client
                .set_nonblocking(false)
                .and_then(|()| client.set_write_timeout(Some(PATIENCE)))
                .and_then(|()| client.write_all(report().as_bytes()));
            if let Err(error) = answered {
                tracing::debug!("a control client went away: {error}");
            }
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
    let failed = |source| SocketError::Ask { path: path.to_owned(), source };
    let mut stream = UnixStream::connect(path).map_err(failed)?;
    stream.set_read_timeout(Some(ANSWER_PATIENCE)).map_err(failed)?;
    let mut report = String::new();
    stream.read_to_string(&mut report).map_err(failed)?;
    Ok(report)
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
            socket.serve(|| "{}".repeat(100_000));
            std::thread::yield_now();
        }
        assert_eq!(asking.join().unwrap().unwrap().len(), 200_000);
        drop(socket);
        assert!(!path.exists());
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
