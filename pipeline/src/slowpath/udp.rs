//! Queries over UDP: a flight leaves from one socket, on a random port that no flight had before it.
//!
//! A forger who cannot see our packets must guess (RFC 5452): the port, drawn anew for every flight from
//! all unprivileged ones, and the id, drawn for every query. The socket is connected as soon as it is bound, so
//! the kernel discards what does not come from the upstream's address and port before we see it. Queries share a port only
//! if they leave in the same moment, and when the last of them is answered the port closes:
//! docs/adr/0009-queries-fly-together.md says why, and what it costs.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use arrayvec::ArrayVec;
use mio::net::UdpSocket;
use pmdns_config::limits::MAX_QUERIES_PER_PORT;

use super::pending::Ticket;
use super::plan::{Attempt, Transport};
use super::query::{Query, Question};
use super::spelling::Spelling;

/// Ports below are for services (RFC 6056 section 3.2 allows all above).
const FIRST_PORT: u16 = 1024;
/// How many random ports are tried before the kernel may choose one.
const PORT_TRIES: usize = 16;
/// The longest datagram taken in. Upstreams were told 1232; what is longer than this is cut off, does
/// not parse, and is asked for over TCP.
pub(super) const MAX_DATAGRAM: usize = 4096;
/// Datagrams that do not match, for one flight. More are an attack, and TCP ends it. A network that
/// delivers everything twice stays below.
const MAX_MISMATCHED: usize = MAX_QUERIES_PER_PORT;

/// Queries that left together and have no reply yet.
#[derive(Debug)]
pub(super) struct Flight {
    /// Index of the upstream.
    pub(super) upstream: usize,
    pub(super) sent: Duration,
    /// When those without a reply count as timed out; none: they have been counted.
    overdue: Option<Duration>,
    /// When it is given up: until then every reply is taken.
    expires: Duration,
    /// When its timer comes due.
    pub(super) timer: Duration,
    pub(super) socket: UdpSocket,
    queries: ArrayVec<InFlight, MAX_QUERIES_PER_PORT>,
    mismatched: usize,
}

/// A query without a reply.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub(super) ticket: Ticket,
    pub(super) question: Rc<Question>,
    /// Whether it has an OPT record.
    pub(super) edns: bool,
    pub(super) id: u16,
    pub(super) spelling: Spelling,
    /// When its question is asked again; none: it has been.
    pub(super) retry: Option<Duration>,
}

impl InFlight {
    /// The try that it is.
    pub(super) fn attempt(&self, upstream: usize) -> Attempt {
        let late = self.retry.is_none();
        Attempt { upstream, transport: Transport::Udp, edns: self.edns, late }
    }
}

/// Ids of the queries of a flight.
pub(super) type Ids = ArrayVec<u16, MAX_QUERIES_PER_PORT>;

/// What a flight's socket has for us.
#[derive(Debug)]
pub(super) enum Received {
    /// So many bytes, which are the reply to this query.
    Reply(InFlight, usize),
    /// A datagram that would be the reply to this query, but for the case of its letters.
    Respelt(InFlight),
    /// A datagram that answers nothing we asked. It may be forged, or very late.
    Mismatch,
    /// As `Mismatch`, and it is one too many.
    Flood,
    /// Nothing more for now.
    Nothing,
}

impl Flight {
    /// Queries that are about to leave from `socket`. No two have the same id.
    pub(super) fn new(
        upstream: usize,
        sent: Duration,
        overdue: Duration,
        expires: Duration,
        socket: UdpSocket,
        queries: ArrayVec<InFlight, MAX_QUERIES_PER_PORT>,
    ) -> Self {
        let overdue = Some(overdue);
        let mut this = Self {
            upstream,
            sent,
            overdue,
            expires,
            timer: expires,
            socket,
            queries,
            mismatched: 0,
        };
        this.timer = this.due();
        this
    }

    /// When it has to be looked at: a question is to be asked again, silence is to be counted, or it is given up.
    pub(super) fn due(&self) -> Duration {
        let retries = self.queries.iter().filter_map(|query| query.retry);
        retries.chain(self.overdue).fold(self.expires, Duration::min)
    }

    /// Whether it is given up.
    pub(super) fn has_expired(&self, now: Duration) -> bool {
        self.expires <= now
    }

    /// Whether all its queries are late: it is of little use.
    pub(super) fn is_late(&self) -> bool {
        self.queries.iter().all(|query| query.retry.is_none())
    }

    /// The tries that become late now.
    pub(super) fn take_late(
        &mut self,
        now: Duration,
    ) -> ArrayVec<(Ticket, Attempt), MAX_QUERIES_PER_PORT> {
        let upstream = self.upstream;
        let is_late = |query: &&mut InFlight| query.retry.is_some_and(|retry| retry <= now);
        let late = self.queries.iter_mut().filter(is_late).map(|query| {
            let attempt = query.attempt(upstream);
            query.retry = None;
            (query.ticket, attempt)
        });
        late.collect()
    }

    /// How many queries count as timed out now.
    pub(super) fn take_overdue(&mut self, now: Duration) -> usize {
        self.overdue.take_if(|overdue| *overdue <= now).map_or(0, |_| self.queries.len())
    }

    /// Sends everything. A send may report the fate of those before it: what fails has failed for the whole
    /// flight.
    pub(super) fn depart(&self) -> io::Result<()> {
        for query in &self.queries {
            self.socket
                .send(Query::new(&query.question, query.id, query.spelling, query.edns).bytes())?;
        }
        Ok(())
    }

    /// Takes a datagram into `buffer`. One that answers a query of the flight takes it out of the flight.
    pub(super) fn receive(&mut self, buffer: &mut [u8; MAX_DATAGRAM]) -> io::Result<Received> {
        let len = match self.socket.recv(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Received::Nothing);
            }
            result => result?,
        };
        let reply = &buffer[..len];
        let answered =
            |query: &InFlight| query.question.is_answered_by(query.id, query.spelling, reply);
        if let Some(index) = self.queries.iter().position(answered) {
            return Ok(Received::Reply(self.queries.swap_remove(index), len));
        }
        let respelt = |query: &InFlight| {
            query.spelling != Spelling::PLAIN && query.question.is_respelt_by(query.id, reply)
        };
        if let Some(index) = self.queries.iter().position(respelt) {
            return Ok(Received::Respelt(self.queries.swap_remove(index)));
        }
        self.mismatched += 1;
        Ok(if self.mismatched < MAX_MISMATCHED { Received::Mismatch } else { Received::Flood })
    }

    /// The queries that have no reply.
    pub(super) fn left(&self) -> &[InFlight] {
        &self.queries
    }
}

/// A socket on a random port, from which queries can go to `upstream`, and ids for them, all different.
pub(super) fn socket(source: Option<IpAddr>, upstream: SocketAddr) -> io::Result<(UdpSocket, Ids)> {
    let mut random = [0; 2 * MAX_QUERIES_PER_PORT];
    fill(&mut random)?;
    let mut ids = Ids::new();
    for pair in random.as_chunks().0 {
        let mut id = u16::from_be_bytes(*pair);
        while ids.contains(&id) {
            id = random_u16()?;
        }
        ids.push(id);
    }
    let socket = bind(source.unwrap_or_else(|| unspecified(upstream)))?;
    socket.set_nonblocking(true)?;
    Ok((UdpSocket::from_std(socket), ids))
}

/// A socket on a random port of `source`.
pub(super) fn bind(source: IpAddr) -> io::Result<std::net::UdpSocket> {
    for _ in 0..PORT_TRIES {
        let port = port_of(u32::from(random_u16()?) << 16 | u32::from(random_u16()?));
        match std::net::UdpSocket::bind((source, port)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            result => return result,
        }
    }
    // Nearly all ports are taken. The kernel knows which are not, and its choice is random too.
    std::net::UdpSocket::bind((source, 0))
}

/// A port from [`FIRST_PORT`] to 65535, all equally likely.
fn port_of(random: u32) -> u16 {
    let ports = u64::from(u16::MAX - FIRST_PORT) + 1;
    FIRST_PORT + ((u64::from(random) * ports) >> 32) as u16
}

/// Two bytes that nobody can foretell.
pub(super) fn random_u16() -> io::Result<u16> {
    let mut random = [0; 2];
    fill(&mut random)?;
    Ok(u16::from_be_bytes(random))
}

/// A spelling that nobody can foretell.
pub(super) fn random_spelling() -> io::Result<Spelling> {
    let mut random = [0; 8];
    fill(&mut random)?;
    Ok(Spelling::new(u64::from_be_bytes(random)))
}

fn fill(random: &mut [u8]) -> io::Result<()> {
    getrandom::fill(random).map_err(|error| io::Error::other(error.to_string()))
}

/// The address that leaves the choice to the kernel.
pub(super) fn unspecified(upstream: SocketAddr) -> IpAddr {
    match upstream {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unprivileged_port_may_be_drawn_and_no_other() {
        assert_eq!(port_of(0), FIRST_PORT);
        assert_eq!(port_of(u32::MAX), u16::MAX);
        let mut seen = vec![false; 1 << 16];
        for step in 0..1 << 20 {
            seen[usize::from(port_of(step << 12))] = true;
        }
        assert!(seen[usize::from(FIRST_PORT)..].iter().all(|drawn| *drawn));
    }
}
