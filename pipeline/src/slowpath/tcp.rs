//! Queries over TCP (RFC 7766): many on one connection, which is kept for a while for those to come.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use arrayvec::ArrayVec;
use mio::net::TcpStream;
use socket2::{Domain, Socket, Type};

use super::cookies::Sent;
use super::pending::Ticket;
use super::plan::Attempt;
use super::query::{Query, Question};
use super::udp::{MAX_DATAGRAM, random_u16, unspecified};

/// Bytes of the length that precedes every message (RFC 1035 section 4.2.2). It also bounds a reply to
/// 65,535 bytes; [`super::network`] bounds how many connections there can be at once.
const LENGTH_LEN: usize = 2;
/// Queries without a reply on one connection. Some servers answer the first and close; then all others are asked
/// again, so it should not be too many.
const MAX_CALLS: usize = 32;
/// How long a connection is kept that nobody uses (RFC 7766 section 6.2.3).
const IDLE: Duration = Duration::from_secs(10);

/// A connection to an upstream.
#[derive(Debug)]
pub(super) struct Connection {
    /// Index of the upstream.
    pub(super) upstream: usize,
    pub(super) stream: TcpStream,
    /// When it was opened, and when the last query or reply went over it.
    pub(super) opened: Duration,
    used: Duration,
    /// When the last reply came.
    heard: Option<Duration>,
    /// When a query left whose retry timeout has passed; the last such one.
    late: Option<Duration>,
    /// Queries without a reply, in the order in which they left; so they expire.
    pub(super) calls: VecDeque<Call>,
    /// Queries that were given up, whose replies may come still.
    given_up: usize,
    /// What is still to be sent.
    outgoing: Vec<u8>,
    /// What came and is not a whole reply.
    incoming: Vec<u8>,
    /// When its timer comes due.
    pub(super) timer: Duration,
}

/// A query on a connection.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) ticket: Ticket,
    pub(super) question: Rc<Question>,
    pub(super) attempt: Attempt,
    pub(super) sent: Duration,
    pub(super) cookie: Option<Sent>,
    id: u16,
    /// When its question is asked again.
    retry: Duration,
    expires: Duration,
}

/// A socket that can be connected to `upstream`.
fn socket(source: Option<IpAddr>, upstream: SocketAddr) -> io::Result<Socket> {
    let source = SocketAddr::new(source.unwrap_or_else(|| unspecified(upstream)), 0);
    let socket = Socket::new(Domain::for_address(source), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    // A query must not wait for the acknowledgement of the one before it.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&source.into())?;
    Ok(socket)
}

impl Connection {
    /// A socket for a connection from `source`, and the connection that begins to be made from it to `address`. The
    /// inner error is the network's, the outer one this machine's.
    pub(super) fn open(
        upstream: usize,
        source: Option<IpAddr>,
        address: SocketAddr,
        now: Duration,
    ) -> io::Result<io::Result<Self>> {
        let socket = socket(source, address)?;
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Ok(Err(error)),
            _ => {}
        }
        Ok(Ok(Self {
            upstream,
            stream: TcpStream::from_std(socket.into()),
            opened: now,
            used: now,
            heard: None,
            late: None,
            calls: VecDeque::new(),
            given_up: 0,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            timer: now + IDLE,
        }))
    }

    /// Whether another query may go over it. Those that were given up count too: who does not answer them
    /// may not answer more.
    ///
    /// Nor does one get more that has brought nothing since a query left that is late by now: it may be dead.
    pub(super) fn has_room(&self) -> bool {
        let may_be_dead = self.late.is_some_and(|sent| self.is_deaf_since(sent));
        self.calls.len() + self.given_up < MAX_CALLS && !may_be_dead
    }

    /// Whether somebody is at the other end.
    pub(super) fn has_replied(&self) -> bool {
        self.heard.is_some()
    }

    /// Puts a query on it, to be sent by [`Connection::converse`]. Its question is asked again after `retry`, and its
    /// reply is taken for `patience`.
    pub(super) fn call(
        &mut self,
        (ticket, question, attempt): (Ticket, Rc<Question>, Attempt),
        cookie: Option<Sent>,
        sent: Duration,
        (retry, patience): (Duration, Duration),
    ) -> io::Result<()> {
        let mut id = random_u16()?;
        while self.calls.iter().any(|call| call.id == id) {
            id = id.wrapping_add(1);
        }
        let query = Query::new(&question, id, None, attempt.edns);
        let query = cookie.iter().fold(query, |query, cookie| query.with_cookie(&cookie.data));
        self.outgoing.extend((query.bytes().len() as u16).to_be_bytes());
        self.outgoing.extend(query.bytes());
        let (retry, expires) = (sent + retry, sent + patience);
        let call = Call { ticket, question, attempt, sent, cookie, id, retry, expires };
        self.calls.push_back(call);
        self.used = sent;
        Ok(())
    }

    /// Sends and receives what can be without waiting, until there is a reply.
    pub(super) fn converse(
        &mut self,
        buffer: &mut [u8; MAX_DATAGRAM],
        now: Duration,
    ) -> io::Result<Option<(Call, Vec<u8>)>> {
        loop {
            while let Some(message) = self.whole_message() {
                (self.heard, self.used) = (Some(now), now);
                if let Some(call) = self.take_call(&message) {
                    return Ok(Some((call, message)));
                }
                // It must be a reply to one that was given up.
                self.given_up = self.given_up.checked_sub(1).ok_or_else(|| {
                    io::Error::new(io::ErrorKind::InvalidData, "a reply to another query")
                })?;
            }
            match self.send().and_then(|()| self.stream.read(buffer)) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => self.incoming.extend(&buffer[..len]),
                Err(error) if is_early(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// The first query whose time is up.
    pub(super) fn expire(&mut self, now: Duration) -> Option<Call> {
        if self.calls.front()?.expires > now {
            return None;
        }
        self.given_up += 1;
        self.calls.pop_front()
    }

    /// The tries that become late now, and when each left.
    pub(super) fn take_late(
        &mut self,
        now: Duration,
    ) -> ArrayVec<(Ticket, Attempt, Duration), MAX_CALLS> {
        let is_late = |call: &&mut Call| !call.attempt.late && call.retry <= now;
        let late = self.calls.iter_mut().filter(is_late).map(|call| {
            let attempt = call.attempt;
            call.attempt.late = true;
            (call.ticket, attempt, call.sent)
        });
        let late: ArrayVec<_, MAX_CALLS> = late.collect();
        self.late = late.last().map(|(_, _, sent)| *sent).or(self.late);
        late
    }

    /// Whether nothing has come since `time`.
    pub(super) fn is_deaf_since(&self, time: Duration) -> bool {
        self.heard.is_none_or(|heard| heard < time)
    }

    /// When it has to be looked at: a question is to be asked again, its first query expires, or it has been idle for
    /// too long.
    pub(super) fn due(&self) -> Duration {
        let Some(first) = self.calls.front() else { return self.used + IDLE };
        let waiting = self.calls.iter().filter(|call| !call.attempt.late);
        waiting.map(|call| call.retry).fold(first.expires, Duration::min)
    }

    fn send(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(sent) => drop(self.outgoing.drain(..sent)),
                // There may be something to receive nevertheless.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes a message out of what has come.
    fn whole_message(&mut self) -> Option<Vec<u8>> {
        let (length, rest) = self.incoming.split_first_chunk::<LENGTH_LEN>()?;
        let message = rest.get(..u16::from_be_bytes(*length).into())?.to_vec();
        self.incoming.drain(..LENGTH_LEN + message.len());
        Some(message)
    }

    /// Takes out the query that `reply` answers.
    fn take_call(&mut self, reply: &[u8]) -> Option<Call> {
        let answered = |call: &Call| call.question.is_answered_by(call.id, None, reply);
        let index = self.calls.iter().position(answered)?;
        self.calls.remove(index)
    }
}

/// Whether there is nothing wrong but that more has to come, or the connection to stand.
fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
}
