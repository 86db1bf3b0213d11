//! The network of a history: servers behind sockets, with delays, losses and bad manners.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use pmdns_hierarchy::{Message, Name, Rng};
use pmdns_resolver::encrypted::{EncryptedOutcome, EncryptedQuery, EncryptedReport};

use crate::manners::{Manners, Stream, Trouble, happens};
use crate::servers::Server;
use crate::stepping::{Arrival, Bytes, Network, Socket, Transport};
use crate::trace::Trace;
use crate::truth::Realm;

/// Bytes that a slow server sends at a time, and how long it waits before the next.
const SLOW: (usize, Duration) = (40, Duration::from_millis(9));

/// Servers, and what is on its way from them.
pub(crate) struct Internet {
    /// In the order of the configuration.
    pub(crate) servers: Vec<Server>,
    /// Whether the machine has sockets to give.
    pub(crate) has_sockets: bool,
    /// What is not right about what was asked.
    pub(crate) wrong: Option<String>,
    /// The time.
    pub(crate) now: Duration,
    /// Names whose first datagram has been lost, if that is what happens to each.
    pub(crate) lost_once: Option<BTreeSet<Name>>,
    arrivals: BTreeMap<(Duration, u64), Arrival>,
    last: u64,
    open: BTreeMap<(usize, u64), Connection>,
    chance: Rng,
    trace: Trace,
}

/// The far end of a socket.
#[derive(Debug)]
struct Connection {
    transport: Transport,
    /// Bytes that are no whole query yet.
    incoming: Vec<u8>,
    is_ready: bool,
    replies: u8,
    /// When the last of what is under way arrives.
    last: Duration,
    has_ended: bool,
}

impl Internet {
    /// One where nothing is under way.
    pub(crate) fn new(servers: Vec<Server>, chance: Rng, trace: Trace) -> Self {
        Self {
            servers,
            has_sockets: true,
            wrong: None,
            now: Duration::ZERO,
            lost_once: None,
            arrivals: BTreeMap::new(),
            last: 0,
            open: BTreeMap::new(),
            chance,
            trace,
        }
    }

    /// Sockets that are open.
    pub(crate) fn open_sockets(&self) -> usize {
        self.open.len()
    }

    /// The machine has slept: datagrams have come and gone, and connections have ended.
    pub(crate) fn lose_all_under_way(&mut self) {
        self.arrivals.retain(|_, arrival| matches!(arrival.bytes, Bytes::Encrypted(_)));
        for arrival in self.arrivals.values_mut() {
            if let Bytes::Encrypted(EncryptedReport { outcome: Some(outcome), .. }) =
                &mut arrival.bytes
            {
                *outcome = EncryptedOutcome::Broken(io::ErrorKind::ConnectionReset.into());
            }
        }
        let connections = self.open.iter_mut().filter(|(_, one)| one.transport == Transport::Tcp);
        let ended = connections.map(|(key, connection)| {
            connection.has_ended = true;
            *key
        });
        for (thread, socket) in ended.collect::<Vec<_>>() {
            let broken = Bytes::Broken(io::ErrorKind::ConnectionReset);
            self.arrive(self.now, thread, socket, broken);
        }
    }

    fn arrive(&mut self, at: Duration, thread: usize, socket: u64, bytes: Bytes) {
        self.last += 1;
        self.arrivals.insert((at, self.last), Arrival { thread, socket, bytes });
    }

    fn server(&self, socket: Socket) -> usize {
        let server = self.servers.iter().position(|server| server.address == socket.to);
        server.expect("only servers of the configuration are asked")
    }

    /// Looks at a query: it has to be one, and this server has to be the one to ask.
    fn read(&mut self, server: usize, query: &[u8]) -> Option<Message> {
        let Some(query) = Message::parse(query) else {
            self.wrong = Some(format!("no query: {query:02x?}"));
            return None;
        };
        let (name, server) = (&query.question.0, &self.servers[server]);
        // A probe asks for the root.
        let is_known = server.realm == Realm::Signed || *name == Name::root();
        let is_lab = server.realm == Realm::Lab;
        if !is_known && Realm::of(name, is_lab) != server.realm {
            self.wrong = Some(format!("{name} is asked of {}", server.address));
        }
        self.trace.note(
            self.now,
            format_args!(
                "query {:04x} {name} {} to {}",
                query.id, query.question.1, server.address
            ),
        );
        Some(query)
    }

    fn send_datagram(&mut self, socket: Socket, bytes: &[u8]) -> io::Result<usize> {
        let server = self.server(socket);
        let Some(query) = self.read(server, bytes) else { return Ok(bytes.len()) };
        if let Some(lost) = &mut self.lost_once
            && lost.insert(query.question.0.lower())
        {
            return Ok(bytes.len());
        }
        match self.servers[server].datagrams(&query, self.now, &mut self.chance) {
            Ok(datagrams) => {
                for (at, from, reply) in datagrams {
                    let datagram = Bytes::Datagram(from, reply);
                    self.arrive(at, socket.thread, socket.number, datagram);
                }
            }
            Err(()) => {
                let broken = Bytes::Broken(io::ErrorKind::ConnectionRefused);
                let at = self.now + Duration::from_millis(1);
                self.arrive(at, socket.thread, socket.number, broken);
            }
        }
        Ok(bytes.len())
    }

    fn send_stream(&mut self, socket: Socket, bytes: &[u8]) -> io::Result<usize> {
        let key = (socket.thread, socket.number);
        let connection = self.open.get_mut(&key).expect("it is open");
        if !connection.is_ready {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // A kernel may take less than there is.
        let len = 1 + self.chance.below(bytes.len());
        connection.incoming.extend(&bytes[..len]);
        while let Some(query) = self.open.get_mut(&key).and_then(Connection::take_query) {
            let server = self.server(socket);
            if let Some(query) = self.read(server, &query) {
                self.reply(socket, server, &query);
            }
        }
        Ok(len)
    }

    /// Replies over a connection.
    fn reply(&mut self, socket: Socket, server: usize, query: &Message) {
        let manners = self.servers[server].manners;
        let came = self.now + manners.time(&mut self.chance);
        let mut reply = self.servers[server].stream_reply(query, self.now, &mut self.chance);
        let (key, trouble) = ((socket.thread, socket.number), manners.trouble.0);
        let Some(connection) = self.open.get_mut(&key).filter(|one| !one.has_ended) else { return };
        if manners.stream == Stream::Silent || trouble == Trouble::Dead {
            return;
        }
        let mut at = came.max(connection.last + Duration::from_micros(1));
        connection.replies += 1;
        let ends = match manners.stream {
            Stream::Ends(after) => connection.replies > after,
            Stream::Cut => {
                reply.truncate(reply.len() / 2);
                true
            }
            _ => false,
        };
        connection.has_ended = ends;
        let (size, pause) = match manners.stream {
            Stream::Slow => SLOW,
            _ => (reply.len(), Duration::ZERO),
        };
        let chunks: Vec<Vec<u8>> = reply.chunks(size).map(<[u8]>::to_vec).collect();
        for chunk in chunks {
            self.arrive(at, socket.thread, socket.number, Bytes::Stream(chunk));
            at += pause;
        }
        if ends {
            self.arrive(at, socket.thread, socket.number, Bytes::End);
        }
        if let Some(connection) = self.open.get_mut(&key) {
            connection.last = at;
        }
    }

    /// What comes of a query over an encrypted connection, and when.
    fn encrypted(&mut self, request: &EncryptedQuery) -> (Duration, EncryptedOutcome) {
        let Manners { loss, trouble, stream, .. } = self.servers[request.upstream].manners;
        let took = self.servers[request.upstream].manners.time(&mut self.chance);
        let (_, longest) = request.patience;
        let Some(query) = self.read(request.upstream, &request.query) else {
            return (took, EncryptedOutcome::Silent);
        };
        let is_dead = matches!(trouble.0, Trouble::Dead) || stream == Stream::Silent;
        if is_dead || happens(&mut self.chance, loss) || took >= longest {
            return (longest, EncryptedOutcome::Silent);
        }
        if matches!(stream, Stream::Refused | Stream::Cut) || trouble.0 == Trouble::Unreachable {
            return (took, EncryptedOutcome::Broken(io::ErrorKind::ConnectionReset.into()));
        }
        let server = &self.servers[request.upstream];
        let mut reply = server.stream_reply(&query, self.now, &mut self.chance);
        reply.drain(..2);
        if trouble.0 == Trouble::Garbage {
            reply.truncate(self.chance.below(reply.len()));
        }
        (took, EncryptedOutcome::Reply(reply, took))
    }
}

impl Connection {
    fn new(transport: Transport) -> Self {
        let (incoming, last) = (Vec::new(), Duration::ZERO);
        let (is_ready, has_ended) = (false, false);
        Self { transport, incoming, is_ready, replies: 0, last, has_ended }
    }

    /// Takes out a query that has come whole.
    fn take_query(&mut self) -> Option<Vec<u8>> {
        let (length, rest) = self.incoming.split_first_chunk::<2>()?;
        let query = rest.get(..u16::from_be_bytes(*length).into())?.to_vec();
        self.incoming.drain(..2 + query.len());
        Some(query)
    }
}

impl Network for Internet {
    fn open(&mut self, socket: Socket) -> io::Result<()> {
        if !self.has_sockets {
            self.trace.note(self.now, format_args!("no socket"));
            return Err(io::Error::other("too many open files"));
        }
        let connection = Connection::new(socket.transport);
        self.open.insert((socket.thread, socket.number), connection);
        if socket.transport == Transport::Tcp {
            let manners = self.servers[self.server(socket)].manners;
            let at = self.now + manners.time(&mut self.chance);
            match manners.stream {
                Stream::Refused => {
                    let refused = Bytes::Broken(io::ErrorKind::ConnectionRefused);
                    self.arrive(at, socket.thread, socket.number, refused);
                }
                _ if manners.trouble.0 == Trouble::Dead => {}
                _ => self.arrive(at, socket.thread, socket.number, Bytes::Writable),
            }
        }
        Ok(())
    }

    fn send(&mut self, socket: Socket, bytes: &[u8]) -> io::Result<usize> {
        match socket.transport {
            Transport::Udp => self.send_datagram(socket, bytes),
            Transport::Tcp => self.send_stream(socket, bytes),
        }
    }

    fn close(&mut self, socket: Socket) {
        let was_open = self.open.remove(&(socket.thread, socket.number)).is_some();
        assert!(was_open, "{socket:?} is closed once");
    }

    fn ask_encrypted(&mut self, thread: usize, request: EncryptedQuery) {
        let (took, outcome) = self.encrypted(&request);
        let (late, _) = request.patience;
        let slot = request.slot;
        if took > late {
            let report = Bytes::Encrypted(EncryptedReport { slot, outcome: None });
            self.arrive(self.now + late, thread, 0, report);
        }
        let report = Bytes::Encrypted(EncryptedReport { slot, outcome: Some(outcome) });
        self.arrive(self.now + took, thread, 0, report);
    }

    fn arrival(&mut self, now: Duration) -> Option<Arrival> {
        self.now = now;
        let first = self.arrivals.first_entry().filter(|first| first.key().0 <= now)?;
        let arrival = first.remove();
        let key = (arrival.thread, arrival.socket);
        if let Bytes::Writable = arrival.bytes
            && let Some(connection) = self.open.get_mut(&key)
        {
            connection.is_ready = true;
        }
        // What comes for a socket that is closed is nobody's.
        if !matches!(arrival.bytes, Bytes::Encrypted(_)) && !self.open.contains_key(&key) {
            return self.arrival(now);
        }
        self.trace.note(now, format_args!("{}", Shown(&arrival)));
        Some(arrival)
    }
}

/// An arrival as a trace has it.
struct Shown<'a>(&'a Arrival);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Arrival { thread, socket, bytes } = self.0;
        match bytes {
            Bytes::Datagram(from, bytes) => {
                write!(f, "datagram {thread}.{socket} from {from}, {}", Reply(bytes))
            }
            Bytes::Stream(bytes) => write!(f, "stream {thread}.{socket}: {} bytes", bytes.len()),
            Bytes::Encrypted(EncryptedReport { slot, outcome }) => write!(
                f,
                "encrypted {thread} slot {slot}: {}",
                match outcome {
                    None => "late",
                    Some(EncryptedOutcome::Reply(..)) => "reply",
                    Some(EncryptedOutcome::Silent) => "silent",
                    Some(EncryptedOutcome::Broken(_)) => "broken",
                }
            ),
            other => write!(f, "{thread}.{socket}: {other:?}"),
        }
    }
}

/// A reply as a trace has it.
struct Reply<'a>(&'a [u8]);

impl std::fmt::Display for Reply<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match Message::parse(self.0) {
            Some(Message { id, flags, question, sections }) => {
                write!(
                    f,
                    "{id:04x} flags {flags:04x} {} {}, {} records",
                    question.0,
                    question.1,
                    sections[0].len()
                )
            }
            None => write!(f, "{} bytes", self.0.len()),
        }
    }
}
