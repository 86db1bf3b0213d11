//! What stands in for the kernel and for everybody behind it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use pmdns_resolver::encrypted::{EncryptedQuery, EncryptedReport};

/// How a socket's bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

/// A socket that is open. No other ever has its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Socket {
    /// The thread of the slow path that has it.
    pub(crate) thread: usize,
    /// Its number.
    pub(crate) number: u64,
    /// What it is for.
    pub(crate) transport: Transport,
    /// Whom it is connected to.
    pub(crate) to: SocketAddr,
}

/// What arrives.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// A datagram from this address. The kernel passes on those of the address that the socket is connected to.
    Datagram(SocketAddr, Vec<u8>),
    /// The next bytes of a stream.
    Stream(Vec<u8>),
    /// A stream can be written to.
    Writable,
    /// A stream ends.
    End,
    /// The network returns an error.
    Broken(io::ErrorKind),
    /// What came of a query over an encrypted connection.
    Encrypted(EncryptedReport),
}

/// Something that arrives.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// For this thread of the slow path.
    pub(crate) thread: usize,
    /// Over the socket with this number; 0 for what is encrypted.
    pub(crate) socket: u64,
    /// What it is.
    pub(crate) bytes: Bytes,
}

/// The network as a resolver's sockets see it.
pub(crate) trait Network {
    /// A socket is to be opened. An error is the machine's: it has none to give.
    fn open(&mut self, socket: Socket) -> io::Result<()>;
    /// Bytes leave, as many as this returns. `WouldBlock`: none do now, and [`Bytes::Writable`] will say when.
    fn send(&mut self, socket: Socket, bytes: &[u8]) -> io::Result<usize>;
    /// A socket is closed. What arrives for it later is nobody's.
    fn close(&mut self, socket: Socket);
    /// A query leaves for an encrypted upstream.
    fn ask_encrypted(&mut self, thread: usize, request: EncryptedQuery);
    /// The next that has arrived by now.
    fn arrival(&mut self, now: Duration) -> Option<Arrival>;
}
