//! The dnstap sink: messages of dnstap.pb over Frame Streams to a reader at a unix socket or over TCP (<https://dnstap.info>).
//!
//! It connects, and again a second after a connection has ended. Without a reader records are lost and counted. Of what a reader
//! sends only the handshake is read, in bounded size and time.

mod frames;
mod message;
mod protobuf;

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pmdns_config::DnstapReader;
use rustix::event::PollFlags;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::batch::Batch;
use super::clients::Clients;
use super::sink::{Complaints, LogCounters, Sink};
use crate::sinks::{wait_until, write_until};
use message::{Identity, put_message};

/// How long it waits before it connects again.
const RETRY: Duration = Duration::from_secs(1);
/// How long a connection and its handshake may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a reader may read nothing.
const STALL: Duration = Duration::from_secs(30);
/// How long a write waits before it looks whether it is to stop.
const WRITE: Duration = Duration::from_millis(250);
/// Bytes that are written at a time, about.
const CHUNK: usize = 64 << 10;

/// The sink.
pub(super) struct Dnstap {
    reader: DnstapReader,
    identity: Identity,
    clients: Clients,
    connection: Option<Connection>,
    next_try: Instant,
    /// Whether there was a reader before.
    has_connected: bool,
    complaints: Complaints,
    out: Vec<u8>,
    message: Vec<u8>,
    counters: Arc<LogCounters>,
}

enum Connection {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Dnstap {
    pub(super) fn new(
        reader: DnstapReader,
        identity: Option<String>,
        clients: Clients,
        counters: Arc<LogCounters>,
    ) -> Self {
        let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self {
            reader,
            identity: Identity::new(identity.unwrap_or_else(host)),
            clients,
            connection: None,
            next_try: Instant::now(),
            has_connected: false,
            complaints: Complaints::default(),
            out: Vec::new(),
            message: Vec::new(),
            counters,
        }
    }

    fn fail(&mut self, error: &io::Error) {
        self.counters.failures.fetch_add(1, Ordering::Relaxed);
        self.counters.up.store(0, Ordering::Relaxed);
        self.connection = None;
        self.next_try = Instant::now() + RETRY;
        if self.complaints.fails(Instant::now()) {
            tracing::warn!("query log: no dnstap reader at {}: {error}", self.place());
        }
    }

    fn place(&self) -> String {
        match &self.reader {
            DnstapReader::Unix(path) => path.display().to_string(),
            DnstapReader::Tcp(address) => address.to_string(),
        }
    }

    /// Sends what is in `out`, and empties it.
    fn send(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let connection = self.connection.as_mut().ok_or(ErrorKind::NotConnected)?;
        let sent = write_all(connection, &self.out, stop);
        self.out.clear();
        sent
    }
}

impl Sink for Dnstap {
    fn write(&mut self, batch: &Batch, stop: &AtomicBool) -> u64 {
        let (mut written, mut held) = (0, 0);
        for record in batch.records() {
            if self.connection.is_none() {
                break;
            }
            let client = self.clients.name(record.head.client);
            put_message(&mut self.message, &self.identity, batch, &record, client);
            self.out.extend(frames::length(&self.message));
            self.out.extend_from_slice(&self.message);
            held += 1;
            if self.out.len() >= CHUNK {
                match self.send(stop) {
                    Ok(()) => written += std::mem::take(&mut held),
                    Err(error) => self.fail(&error),
                }
            }
        }
        if self.connection.is_some() && held > 0 {
            match self.send(stop) {
                Ok(()) => written += held,
                Err(error) => self.fail(&error),
            }
        }
        written
    }

    fn tend(&mut self) {
        if self.connection.is_some() || Instant::now() < self.next_try {
            return;
        }
        match Connection::open(&self.reader) {
            Ok(connection) => {
                let is_first = !std::mem::replace(&mut self.has_connected, true);
                if self.complaints.works() || is_first {
                    tracing::info!("query log: dnstap reader at {}", self.place());
                }
                self.connection = Some(connection);
                self.counters.up.store(1, Ordering::Relaxed);
            }
            Err(error) => self.fail(&error),
        }
    }
}

impl Drop for Dnstap {
    fn drop(&mut self) {
        if let Some(connection) = &mut self.connection {
            let _ = frames::end(connection);
        }
    }
}

/// Writes everything, as slowly as the reader reads. It gives up if the reader reads nothing for [`STALL`], or if the log ends
/// meanwhile.
fn write_all(connection: &mut Connection, mut bytes: &[u8], stop: &AtomicBool) -> io::Result<()> {
    let mut deadline = Instant::now() + STALL;
    while !bytes.is_empty() {
        match connection.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                deadline = Instant::now() + STALL;
            }
            // A signal ends a wait early, so it is no reason not to look at the clock.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                if stop.load(Ordering::Relaxed) || Instant::now() >= deadline {
                    return Err(io::Error::new(ErrorKind::TimedOut, "it does not read"));
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Connects to a unix socket. Whose queue is full is waited for, but not for ever.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

impl Connection {
    fn open(reader: &DnstapReader) -> io::Result<Self> {
        let deadline = Instant::now() + PATIENCE;
        let this = match reader {
            DnstapReader::Unix(path) => Self::Unix(connect(path)?),
            DnstapReader::Tcp(address) => Self::Tcp(TcpStream::connect_timeout(address, PATIENCE)?),
        };
        frames::begin(&mut Handshake { connection: &this, deadline })?;
        match &this {
            Self::Unix(stream) => stream.set_write_timeout(Some(WRITE))?,
            Self::Tcp(stream) => stream.set_write_timeout(Some(WRITE))?,
        }
        Ok(this)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// A connection whose handshake ends at a time, however slowly the reader speaks.
struct Handshake<'c, C> {
    connection: &'c C,
    deadline: Instant,
}

impl<C: AsFd> Read for Handshake<'_, C> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        wait_until(self.connection, PollFlags::IN, self.deadline)?;
        Ok(rustix::io::read(self.connection, buffer)?)
    }
}

impl<C: AsFd> Write for Handshake<'_, C> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_until(self.connection.as_fd(), bytes, self.deadline)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{bind, listen};

    use super::*;

    #[test]
    fn a_reader_that_drips_has_one_deadline_for_all_its_bytes() {
        let (near, mut far) = UnixStream::pair().unwrap();
        // The deadline has passed: a byte of the reader, which waits already, prolongs nothing.
        let mut late = Handshake { connection: &near, deadline: Instant::now() };
        far.write_all(&[0; 7]).unwrap();
        let ended = frames::begin(&mut late).unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn a_reader_that_accepts_nobody_is_given_up() {
        let path = std::env::temp_dir().join(format!("pmdns-full-{}", std::process::id()));
        let kind = (AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC);
        let listener = socket_with(kind.0, kind.1, kind.2, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&listener, 0).unwrap();
        let _waits = connect(&path).unwrap();
        let full = connect(&path).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::WouldBlock, "the queue has room for one");
        std::fs::remove_file(&path).unwrap();
    }
}
