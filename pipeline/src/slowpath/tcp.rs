//! One query over TCP (RFC 7766), on a connection of its own.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use mio::net::TcpStream;
use socket2::{Domain, Socket, Type};

use super::pending::Ticket;
use super::plan::Attempt;
use super::query::{Query, Question};
use super::udp::{random_u16, unspecified};

/// Bytes of the length that precedes every message (RFC 1035 section 4.2.2). It also bounds a reply to
/// 65,535 bytes; [`super::network`] bounds how many connections there can be at once.
const LENGTH_LEN: usize = 2;

/// A connection with a query on it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) ticket: Ticket,
    pub(super) question: Rc<Question>,
    pub(super) attempt: Attempt,
    pub(super) opened: Duration,
    /// When it is given up.
    pub(super) expires: Duration,
    pub(super) stream: TcpStream,
    id: u16,
    /// What is still to be sent.
    outgoing: Vec<u8>,
    /// What came, the length included.
    incoming: Vec<u8>,
}

/// A socket that can be connected to `upstream`.
pub(super) fn socket(source: Option<IpAddr>, upstream: SocketAddr) -> io::Result<Socket> {
    let source = SocketAddr::new(source.unwrap_or_else(|| unspecified(upstream)), 0);
    let socket = Socket::new(Domain::for_address(source), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&source.into())?;
    Ok(socket)
}

impl Connection {
    /// Begins to connect `socket` to `upstream` and to ask.
    pub(super) fn open(
        socket: Socket,
        upstream: SocketAddr,
        (ticket, question, attempt): (Ticket, Rc<Question>, Attempt),
        opened: Duration,
        expires: Duration,
    ) -> io::Result<Self> {
        let id = random_u16()?;
        match socket.connect(&upstream.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        let query = Query::new(&question, id, attempt.edns);
        // RFC 7766 section 8: length and message in one write.
        let outgoing = [&(query.bytes().len() as u16).to_be_bytes(), query.bytes()].concat();
        let (stream, incoming) = (TcpStream::from_std(socket.into()), Vec::new());
        Ok(Self { ticket, question, attempt, opened, expires, stream, id, outgoing, incoming })
    }

    /// Does what can be done without waiting, and says whether the reply is whole.
    pub(super) fn progress(&mut self) -> io::Result<bool> {
        match self.converse() {
            Ok(()) => {}
            Err(error) if is_early(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        if !self.question.is_answered_by(self.id, self.reply()) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a reply to another query"));
        }
        Ok(true)
    }

    /// The reply, as far as it has come.
    pub(super) fn reply(&self) -> &[u8] {
        self.incoming.get(LENGTH_LEN..).unwrap_or_default()
    }

    /// Sends and receives until the reply is whole.
    fn converse(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            let sent = self.stream.write(&self.outgoing)?;
            self.outgoing.drain(..sent);
        }
        self.receive(LENGTH_LEN)?;
        let length = u16::from_be_bytes([self.incoming[0], self.incoming[1]]);
        self.receive(LENGTH_LEN + usize::from(length))
    }

    /// Receives until `len` bytes are there. The buffer grows with what arrives, not with what is
    /// promised.
    fn receive(&mut self, len: usize) -> io::Result<()> {
        let missing = len.saturating_sub(self.incoming.len());
        (&mut self.stream).take(missing as u64).read_to_end(&mut self.incoming)?;
        if self.incoming.len() < len { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

/// Whether there is nothing wrong but that more has to come, or the connection to stand.
fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
}
