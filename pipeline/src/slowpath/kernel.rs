//! The kernel's sockets of one slow path thread: what the resolver wants sent goes through them, and what comes from
//! them goes to the resolver. Nothing is decided here, and nothing waits.
//!
//! Every batch has a socket of its own on a random port. It is connected as soon as it is bound, so the kernel discards
//! what does not come from the upstream's address and port before we see it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use arrayvec::ArrayVec;
use mio::net::{TcpStream, UdpSocket};
use mio::{Events, Interest, Poll, Token};
use pmdns_resolver::{MAX_DATAGRAM, Random, Resolver, Route};
use socket2::{Domain, Socket, Type};

/// Sockets looked at in one turn; each may have replies to a whole batch, and misses wait meanwhile. What else
/// is ready is so at the next turn.
const MAX_READY: usize = 32;
/// Ports below are for services (RFC 6056 section 3.2 allows all above).
const FIRST_PORT: u16 = 1024;
/// How many random ports are tried before the kernel may choose one.
const PORT_TRIES: usize = 16;

/// The sockets of one thread, by the resolver's slots.
#[derive(Debug)]
pub(super) struct Kernel {
    poll: Poll,
    events: Events,
    batches: Vec<Option<UdpSocket>>,
    connections: Vec<Option<TcpStream>>,
    /// How many there are of both.
    open: usize,
    random: Random,
    buffer: Box<[u8; MAX_DATAGRAM]>,
}

/// A socket with something to tell.
#[derive(Clone, Copy, Debug)]
enum Ready {
    Batch(usize),
    Connection(usize),
}

impl Kernel {
    /// No socket yet. Ports are drawn from `random`.
    pub(super) fn new(random: Random) -> io::Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(MAX_READY),
            batches: Vec::new(),
            connections: Vec::new(),
            open: 0,
            random,
            buffer: Box::new([0; MAX_DATAGRAM]),
        })
    }

    /// Tells `resolver` what has come, and says how many sockets had something to tell.
    pub(super) fn hear(&mut self, resolver: &mut Resolver) -> usize {
        if self.open == 0 {
            return 0;
        }
        if let Err(error) = self.poll.poll(&mut self.events, Some(Duration::ZERO)) {
            // Interrupted by a signal: the next turn is soon.
            tracing::debug!("polling sockets: {error}");
            return 0;
        }
        let ready = self.events.iter().take(MAX_READY).map(|event| Ready::of(event.token()));
        let ready: ArrayVec<Ready, MAX_READY> = ready.collect();
        for socket in &ready {
            match *socket {
                Ready::Batch(slot) => self.hear_batch(slot, resolver),
                Ready::Connection(slot) => self.hear_connection(slot, resolver),
            }
        }
        ready.len()
    }

    /// A batch that ends meanwhile is not looked at any more; its socket is closed when that is carried out.
    fn hear_batch(&mut self, slot: usize, resolver: &mut Resolver) {
        while resolver.has_batch(slot)
            && let Some(socket) = self.batches.get(slot).and_then(Option::as_ref)
        {
            match socket.recv(&mut self.buffer[..]) {
                Ok(len) => resolver.hear_batch(slot, &self.buffer[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => resolver.break_batch(slot, &error),
            }
        }
    }

    fn hear_connection(&mut self, slot: usize, resolver: &mut Resolver) {
        self.write(slot, resolver);
        while resolver.has_connection(slot)
            && let Some(stream) = self.connections.get_mut(slot).and_then(Option::as_mut)
        {
            match stream.read(&mut self.buffer[..]) {
                Ok(0) => {
                    resolver.break_connection(slot, &io::ErrorKind::UnexpectedEof.into());
                }
                Ok(len) => resolver.hear_connection(slot, &self.buffer[..len]),
                Err(error) if is_early(&error) => return,
                Err(error) => resolver.break_connection(slot, &error),
            }
        }
    }

    /// Opens a socket for a batch, and sends its queries.
    pub(super) fn send_batch(&mut self, slot: usize, resolver: &mut Resolver) {
        let Some(route) = resolver.route_of_batch(slot) else { return };
        let mut socket = match socket(route, &mut self.random) {
            Ok(socket) => socket,
            Err(error) => return resolver.fail_batch(slot, &error),
        };
        let token = Ready::Batch(slot).token();
        let connected = socket
            .connect(route.to)
            .and_then(|()| self.poll.registry().register(&mut socket, token, Interest::READABLE));
        // A send may report the fate of those before it: what fails has failed for the whole batch.
        let local = || socket.local_addr().ok().map(|local| local.ip());
        let sent = connected.and_then(|()| {
            resolver
                .messages(slot, local)
                .try_for_each(|query| socket.send(query.bytes()).map(drop))
        });
        match sent {
            Ok(()) => {
                self.open += usize::from(put(&mut self.batches, slot, Some(socket)).is_none())
            }
            Err(error) => resolver.break_batch(slot, &error),
        }
    }

    /// Closes a batch's socket.
    pub(super) fn close_batch(&mut self, slot: usize) {
        self.open -= usize::from(put(&mut self.batches, slot, None).is_some());
    }

    /// Begins to connect to an upstream.
    pub(super) fn connect(&mut self, slot: usize, resolver: &mut Resolver) {
        let Some(route) = resolver.route_of_connection(slot) else { return };
        let begun = match connect(route) {
            Ok(begun) => begun,
            Err(error) => return resolver.fail_connection(slot, &error),
        };
        let (token, both) =
            (Ready::Connection(slot).token(), Interest::READABLE | Interest::WRITABLE);
        let registered = begun.and_then(|mut stream| {
            self.poll.registry().register(&mut stream, token, both)?;
            Ok(stream)
        });
        match registered {
            Ok(stream) => {
                self.open += usize::from(put(&mut self.connections, slot, Some(stream)).is_none());
            }
            Err(error) => resolver.break_connection(slot, &error),
        }
    }

    /// Sends what can be without waiting.
    pub(super) fn write(&mut self, slot: usize, resolver: &mut Resolver) {
        let Some(stream) = self.connections.get_mut(slot).and_then(Option::as_mut) else { return };
        loop {
            let local = || stream.local_addr().ok().map(|local| local.ip());
            let outgoing = resolver.outgoing(slot, local);
            if outgoing.is_empty() {
                return;
            }
            match stream.write(outgoing) {
                Ok(sent) => resolver.note_sent(slot, sent),
                // There may be something to receive nevertheless.
                Err(error) if is_early(&error) => return,
                Err(error) => return resolver.break_connection(slot, &error),
            }
        }
    }

    /// Closes a connection.
    pub(super) fn close_connection(&mut self, slot: usize) {
        self.open -= usize::from(put(&mut self.connections, slot, None).is_some());
    }
}

impl Ready {
    /// Batches have even tokens, connections odd ones.
    fn token(self) -> Token {
        match self {
            Self::Batch(slot) => Token(2 * slot),
            Self::Connection(slot) => Token(2 * slot + 1),
        }
    }

    fn of(token: Token) -> Self {
        match token.0 % 2 {
            0 => Self::Batch(token.0 / 2),
            _ => Self::Connection(token.0 / 2),
        }
    }
}

/// The machine's random numbers.
pub(super) fn random() -> Random {
    Random::new(|bytes| getrandom::fill(bytes).map_err(|error| io::Error::other(error.to_string())))
}

/// Puts a socket into a slot, and takes out what was there.
fn put<T>(sockets: &mut Vec<Option<T>>, slot: usize, socket: Option<T>) -> Option<T> {
    if sockets.len() <= slot {
        sockets.resize_with(slot + 1, || None);
    }
    std::mem::replace(&mut sockets[slot], socket)
}

/// A socket on a random port, from which queries can go that way.
fn socket(route: Route, random: &mut Random) -> io::Result<UdpSocket> {
    let socket = bind(route.from.unwrap_or_else(|| unspecified(route.to)), random)?;
    socket.set_nonblocking(true)?;
    Ok(UdpSocket::from_std(socket))
}

/// A socket on a random port of `source`.
pub(super) fn bind(source: IpAddr, random: &mut Random) -> io::Result<std::net::UdpSocket> {
    for _ in 0..PORT_TRIES {
        let port = port_of(u32::from_be_bytes(random.bytes()?));
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

/// Begins a connection. The inner error is the network's, the outer one this machine's.
fn connect(Route { to, from }: Route) -> io::Result<io::Result<TcpStream>> {
    let source = SocketAddr::new(from.unwrap_or_else(|| unspecified(to)), 0);
    let socket = Socket::new(Domain::for_address(source), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    // A query must not wait for the acknowledgement of the one before it.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&source.into())?;
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Ok(Err(error)),
        _ => Ok(Ok(TcpStream::from_std(socket.into()))),
    }
}

/// Whether there is nothing wrong but that more has to come, or the connection to stand.
fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
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

    /// A way to a server on this machine.
    fn route() -> Route {
        Route { to: (Ipv4Addr::LOCALHOST, 53).into(), from: None }
    }

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
        let mut random = random();
        let mut seen = vec![0_u32; 1 << 8];
        let mut previous = None;
        let mut steps = std::collections::HashSet::new();
        for _ in 0..400 {
            let (socket, ids) = (socket(route(), &mut random).unwrap(), random.ids().unwrap());
            assert!(socket.local_addr().unwrap().port() >= FIRST_PORT);
            for id in ids {
                seen[usize::from(id >> 8)] += 1;
                seen[usize::from(id & 0xff)] += 1;
                steps.insert(id.wrapping_sub(previous.unwrap_or(0)));
                previous = Some(id);
            }
        }
        // 25,600 bytes over 256 values, 100 each: 70 more or 60 less happens once in millions of runs.
        assert!(seen.iter().all(|count| (40..=170).contains(count)), "{seen:?}");
        assert!(steps.len() > 10_000, "as many steps from one to the next as chance makes");
    }

    #[test]
    fn cve_2026_50252_each_thread_draws_from_all_ports_and_ids() {
        let draw = || {
            let mut random = random();
            let mut drawn = [[0; 8]; 2];
            for _ in 0..200 {
                let (socket, ids) = (socket(route(), &mut random).unwrap(), random.ids().unwrap());
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
