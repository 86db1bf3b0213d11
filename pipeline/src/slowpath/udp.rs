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

use super::cookies::{Learnt, Sent, Shown};
use super::pending::Ticket;
use super::plan::Attempt;
use super::query::{Query, Question};
use super::spelling::Spelling;

/// Ports below are for services (RFC 6056 section 3.2 allows all above).
const FIRST_PORT: u16 = 1024;
/// How many random ports are tried before the kernel may choose one.
const PORT_TRIES: usize = 16;
/// The longest datagram taken in; a longer one is cut off. Upstreams are told less, and what is longer than that is asked
/// for over TCP.
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
    /// The cookie of those that have an OPT record.
    cookie: Option<Sent>,
    queries: ArrayVec<InFlight, MAX_QUERIES_PER_PORT>,
    mismatched: usize,
}

/// A query without a reply.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub(super) ticket: Ticket,
    pub(super) question: Rc<Question>,
    pub(super) attempt: Attempt,
    pub(super) id: u16,
    /// The letters that its reply must have, if any.
    pub(super) spelling: Option<Spelling>,
    /// When its question is asked again; none: it has been.
    pub(super) retry: Option<Duration>,
}

/// Ids of the queries of a flight.
pub(super) type Ids = ArrayVec<u16, MAX_QUERIES_PER_PORT>;

/// What a flight's socket has for us.
#[derive(Debug)]
pub(super) enum Received {
    /// So many bytes, which are the reply to this query, and what its cookie brings if it has the right one.
    Reply(InFlight, usize, Option<Learnt>),
    /// A datagram that would be the reply to this query, but for the case of its letters.
    Respelt(InFlight),
    /// A datagram that would be the reply to this query, but for a cookie.
    Cookieless(InFlight),
    /// A datagram that answers nothing we asked. It may be forged, or very late.
    Mismatch,
    /// As `Mismatch`, and it is one too many.
    Flood,
    /// Nothing more for now.
    Nothing,
}

impl Flight {
    /// Queries that are about to leave from `socket`, when they are overdue, and when they are given up. No two have the
    /// same id.
    pub(super) fn new(
        upstream: usize,
        [sent, overdue, expires]: [Duration; 3],
        socket: UdpSocket,
        cookie: Option<Sent>,
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
            cookie,
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
        let is_late = |query: &&mut InFlight| query.retry.is_some_and(|retry| retry <= now);
        let late = self.queries.iter_mut().filter(is_late).map(|query| {
            let attempt = query.attempt;
            (query.retry, query.attempt.late) = (None, true);
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
        let cookie = self.cookie.as_ref().map(|cookie| &cookie.data);
        for InFlight { question, attempt, id, spelling, .. } in &self.queries {
            let query = Query::new(question, *id, *spelling, attempt.edns);
            let query = cookie.into_iter().fold(query, |query, data| query.with_cookie(data));
            self.socket.send(query.bytes())?;
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
        Ok(self.sort(&buffer[..len]))
    }

    /// Finds out what a datagram is.
    pub(super) fn sort(&mut self, datagram: &[u8]) -> Received {
        let is_asked = |query: &InFlight| query.question.is_answered_by(query.id, None, datagram);
        let Some(index) = self.queries.iter().position(is_asked) else { return self.mismatch() };
        let InFlight { question, attempt, id, spelling, .. } = &self.queries[index];
        let cookie = self.cookie.as_ref().filter(|_| attempt.edns);
        match cookie.map_or(Shown::Missing, |cookie| cookie.shown_in(datagram)) {
            // It is harder to guess than letters are, so those do not matter.
            Shown::Right(learnt) => {
                Received::Reply(self.queries.swap_remove(index), datagram.len(), Some(learnt))
            }
            Shown::Wrong => self.mismatch(),
            Shown::Missing if !question.is_answered_by(*id, *spelling, datagram) => {
                Received::Respelt(self.queries.swap_remove(index))
            }
            Shown::Missing if cookie.is_some_and(|cookie| cookie.is_expected) => {
                Received::Cookieless(self.queries.swap_remove(index))
            }
            Shown::Missing => {
                Received::Reply(self.queries.swap_remove(index), datagram.len(), None)
            }
        }
    }

    fn mismatch(&mut self) -> Received {
        self.mismatched += 1;
        if self.mismatched < MAX_MISMATCHED { Received::Mismatch } else { Received::Flood }
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
    random().map(u16::from_be_bytes)
}

/// A spelling that nobody can foretell.
pub(super) fn random_spelling() -> io::Result<Spelling> {
    random().map(|bytes| Spelling::new(u64::from_be_bytes(bytes)))
}

/// Bytes that nobody can foretell.
pub(super) fn random<const LEN: usize>() -> io::Result<[u8; LEN]> {
    let mut random = [0; LEN];
    fill(&mut random)?;
    Ok(random)
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

    #[test]
    fn cve_2025_40780_ids_are_from_the_whole_range_and_nothing_foretells_them() {
        // The system's generator gives every one of them anew; there is no state of ours to find out.
        let upstream = SocketAddr::from((Ipv4Addr::LOCALHOST, 53));
        let mut seen = vec![0_u32; 1 << 8];
        let mut previous = None;
        let mut steps = std::collections::HashSet::new();
        for _ in 0..400 {
            let (socket, ids) = socket(None, upstream).unwrap();
            assert!(socket.local_addr().unwrap().port() >= FIRST_PORT);
            for id in ids {
                seen[usize::from(id >> 8)] += 1;
                seen[usize::from(id & 0xff)] += 1;
                steps.insert(id.wrapping_sub(previous.unwrap_or(0)));
                previous = Some(id);
            }
        }
        // 25,600 bytes over 256 values, 100 each: 40 less or more happens to nobody.
        assert!(seen.iter().all(|count| (60..=140).contains(count)), "{seen:?}");
        assert!(steps.len() > 10_000, "as many steps from one to the next as chance makes");
    }

    #[test]
    fn cve_2026_50252_each_thread_draws_from_all_ports_and_ids() {
        let draw = || {
            let upstream = SocketAddr::from((Ipv4Addr::LOCALHOST, 53));
            let mut drawn = [[0; 8]; 2];
            for _ in 0..200 {
                let (socket, ids) = socket(None, upstream).unwrap();
                drawn[0][usize::from(socket.local_addr().unwrap().port() >> 13)] += 1;
                drawn[1][usize::from(ids[0] >> 13)] += 1;
            }
            drawn
        };
        let threads: Vec<_> = (0..3).map(|_| std::thread::spawn(draw)).collect();
        for thread in threads {
            let [ports, ids] = thread.join().unwrap();
            assert!(ports.iter().chain(&ids).all(|eighth| *eighth > 4), "{ports:?} {ids:?}");
        }
    }
}
