//! The kernel sockets of one slow path thread. They send the resolver's queries, and pass received bytes to the
//! resolver. Nothing is decided here, and nothing waits.
//!
//! Every batch has a socket of its own on a random port. The socket is connected right after bind. So the kernel
//! discards datagrams that do not come from the upstream's address and port.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use arrayvec::ArrayVec;
use mio::net::{TcpStream, UdpSocket};
use mio::{Events, Interest, Poll, Token};
use pmdns_resolver::{MAX_DATAGRAM, Random, Resolver, Route, Time};
use socket2::{Domain, Socket, Type};

use super::datagrams::Batch;
use super::random::port_of;

/// The most sockets read in one turn. Each may have replies to a whole batch, and misses wait meanwhile. Other ready
/// sockets are read in the next turn.
const MAX_READY: usize = 32;
/// How many random ports are tried before the kernel chooses one.
const PORT_TRIES: usize = 16;

/// The sockets of one thread, by the resolver's slots.
#[derive(Debug)]
pub(super) struct Kernel {
    poll: Poll,
    events: Events,
    batches: Vec<Option<UdpSocket>>,
    connections: Vec<Option<TcpStream>>,
    /// The number of open sockets of both kinds.
    open: usize,
    random: Random,
    buffer: Box<[u8; MAX_DATAGRAM]>,
}

/// A socket that is ready.
#[derive(Clone, Copy, Debug)]
enum Ready {
    Batch(usize),
    Connection(usize),
}

impl Kernel {
    /// No sockets yet. Ports are chosen by `random`.
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

    /// Passes received bytes to `resolver`. Returns how many sockets were ready.
    pub(super) fn receive(&mut self, now: Time, resolver: &mut Resolver) -> usize {
        if self.open == 0 {
            return 0;
        }
        if let Err(error) = self.poll.poll(&mut self.events, Some(Duration::ZERO)) {
            // A signal may have interrupted the call. The next turn comes soon.
            tracing::debug!("polling sockets: {error}");
            return 0;
        }
        let ready = self.events.iter().take(MAX_READY).map(|event| Ready::of(event.token()));
        let ready: ArrayVec<Ready, MAX_READY> = ready.collect();
        for socket in &ready {
            match *socket {
                Ready::Batch(slot) => self.receive_batch(now, slot, resolver),
                Ready::Connection(slot) => self.receive_connection(now, slot, resolver),
            }
        }
        ready.len()
    }

    /// If the batch ends meanwhile, reading stops. Its socket is closed with the resolver's output.
    fn receive_batch(&mut self, now: Time, slot: usize, resolver: &mut Resolver) {
        while resolver.has_batch(slot)
            && let Some(socket) = self.batches.get(slot).and_then(Option::as_ref)
        {
            match socket.recv(&mut self.buffer[..]) {
                Ok(len) => resolver.receive_batch(now, slot, &self.buffer[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => resolver.break_batch(now, slot, &error),
            }
        }
    }

    fn receive_connection(&mut self, now: Time, slot: usize, resolver: &mut Resolver) {
        self.write(now, slot, resolver);
        while resolver.has_connection(slot)
            && let Some(stream) = self.connections.get_mut(slot).and_then(Option::as_mut)
        {
            match stream.read(&mut self.buffer[..]) {
                Ok(0) => {
                    resolver.break_connection(now, slot, &io::ErrorKind::UnexpectedEof.into());
                }
                Ok(len) => resolver.receive_connection(now, slot, &self.buffer[..len]),
                Err(error) if is_early(&error) => return,
                Err(error) => resolver.break_connection(now, slot, &error),
            }
        }
    }

    /// Opens a socket for a batch, and sends its queries.
    pub(super) fn send_batch(
        &mut self,
        now: Time,
        slot: usize,
        route: Route,
        resolver: &mut Resolver,
    ) {
        let mut socket = match socket(route, &mut self.random) {
            Ok(socket) => socket,
            Err(error) => return resolver.fail_batch(now, slot, &error),
        };
        let token = Ready::Batch(slot).token();
        let connected = socket
            .connect(route.to)
            .and_then(|()| self.poll.registry().register(&mut socket, token, Interest::READABLE));
        // A send may report the error of an earlier datagram, so an error ends the whole batch.
        let local = || socket.local_addr().ok().map(|local| local.ip());
        let sent = connected.and_then(|()| {
            let mut batch = Batch::new(&socket);
            resolver.send_messages(slot, local, |query| batch.push(query))?;
            batch.send()
        });
        match sent {
            Ok(()) => {
                self.open += usize::from(put(&mut self.batches, slot, Some(socket)).is_none())
            }
            Err(error) => resolver.break_batch(now, slot, &error),
        }
    }

    /// Closes a batch's socket.
    pub(super) fn close_batch(&mut self, slot: usize) {
        self.open -= usize::from(put(&mut self.batches, slot, None).is_some());
    }

    /// Begins to connect to an upstream.
    pub(super) fn connect(
        &mut self,
        now: Time,
        slot: usize,
        route: Route,
        resolver: &mut Resolver,
    ) {
        let begun = match connect(route) {
            Ok(begun) => begun,
            Err(error) => return resolver.fail_connection(now, slot, &error),
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
            Err(error) => resolver.break_connection(now, slot, &error),
        }
    }

    /// Sends as many bytes as possible without waiting.
    pub(super) fn write(&mut self, now: Time, slot: usize, resolver: &mut Resolver) {
        let Some(stream) = self.connections.get_mut(slot).and_then(Option::as_mut) else { return };
        loop {
            let local = || stream.local_addr().ok().map(|local| local.ip());
            let outgoing = resolver.outgoing(slot, local);
            if outgoing.is_empty() {
                return;
            }
            match stream.write(outgoing) {
                Ok(sent) => resolver.note_sent(slot, sent),
                // The connection may still have bytes to receive.
                Err(error) if is_early(&error) => return,
                Err(error) => return resolver.break_connection(now, slot, &error),
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

/// Puts a socket into a slot, and takes out what was there.
fn put<T>(sockets: &mut Vec<Option<T>>, slot: usize, socket: Option<T>) -> Option<T> {
    if sockets.len() <= slot {
        sockets.resize_with(slot + 1, || None);
    }
    std::mem::replace(&mut sockets[slot], socket)
}

/// A socket on a random port, for queries on this route.
fn socket(route: Route, random: &mut Random) -> io::Result<UdpSocket> {
    let socket = bind(route.from.unwrap_or_else(|| unspecified(route.to)), random)?;
    socket.set_nonblocking(true)?;
    Ok(UdpSocket::from_std(socket))
}

/// A socket on a random port of `source`.
pub fn bind(source: IpAddr, random: &mut Random) -> io::Result<std::net::UdpSocket> {
    for _ in 0..PORT_TRIES {
        let port = port_of(u32::from_be_bytes(random.bytes()?));
        match std::net::UdpSocket::bind((source, port)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            result => return result,
        }
    }
    // Nearly all ports are taken. The kernel knows the free ones, and its choice is random too.
    std::net::UdpSocket::bind((source, 0))
}

/// Begins a connection. The inner error comes from the network, the outer one from this machine.
fn connect(Route { to, from, .. }: Route) -> io::Result<io::Result<TcpStream>> {
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

/// Whether an error only means that no more bytes are there, or that the connection is not open yet.
fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
}

/// The unspecified address, with which the kernel chooses.
pub fn unspecified(upstream: SocketAddr) -> IpAddr {
    match upstream {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use pmdns_config::limits::MAX_QUERIES_PER_PORT;
    use pmdns_stages::query_sources::FIRST_PORT;

    use super::*;
    use crate::slowpath::random::random;

    /// A way to a server on this machine.
    fn route() -> Route {
        Route { upstream: 0, to: (Ipv4Addr::LOCALHOST, 53).into(), from: None, port: None }
    }

    #[test]
    fn cve_2025_40780_ids_are_from_the_whole_range_and_nothing_foretells_them() {
        // Every port comes from the operating system's generator, so there is no state here that could be guessed.
        let mut random = random();
        let mut seen = vec![0_u32; 1 << 8];
        let mut previous = None;
        let mut steps = std::collections::HashSet::new();
        for _ in 0..400 {
            let (socket, ids) =
                (socket(route(), &mut random).unwrap(), random.ids(MAX_QUERIES_PER_PORT).unwrap());
            assert!(socket.local_addr().unwrap().port() >= FIRST_PORT);
            for id in ids {
                seen[usize::from(id >> 8)] += 1;
                seen[usize::from(id & 0xff)] += 1;
                steps.insert(id.wrapping_sub(previous.unwrap_or(0)));
                previous = Some(id);
            }
        }
        // 25,600 ports in 256 groups: 100 in each on average. 70 more or 60 fewer happens once in millions of runs.
        assert!(seen.iter().all(|count| (40..=170).contains(count)), "{seen:?}");
        assert!(steps.len() > 10_000, "as many steps from one to the next as chance makes");
    }

    #[test]
    fn cve_2026_50252_each_thread_draws_from_all_ports_and_ids() {
        let draw = || {
            let mut random = random();
            let mut drawn = [[0; 8]; 2];
            for _ in 0..200 {
                let (socket, ids) = (
                    socket(route(), &mut random).unwrap(),
                    random.ids(MAX_QUERIES_PER_PORT).unwrap(),
                );
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
