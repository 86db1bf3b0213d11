//! The network between the slow path and the stubs of a test. It is a loopback interface that loses and delays nothing
//! unless a stub's faults say so.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use pmdns_config::{Host, UpstreamAddress};
use pmdns_resolver::encrypted::{EncryptedOutcome, EncryptedQuery, EncryptedReport};
use pmdns_stages::wire::be16;

use super::stepping::{Arrival, Bytes, Network, Socket, Transport};
use super::stub::{Asked, Send, Server, server_at};

/// How long everything takes that arrives.
const TRIP: Duration = Duration::from_micros(100);

/// When something arrives, and its number.
type Key = (Duration, u64);

/// What is open, and what is on its way.
#[derive(Default)]
pub(crate) struct Loopback {
    /// The time.
    pub(crate) now: Duration,
    /// The upstreams, as the configuration has them.
    pub(crate) upstreams: Vec<UpstreamAddress>,
    arrivals: BTreeMap<Key, Arrival>,
    last: u64,
    streams: BTreeMap<u64, Stream>,
    /// Queries that their servers have not looked at.
    waiting: VecDeque<(SocketAddr, Asked, Back)>,
}

/// A connection.
struct Stream {
    socket: Socket,
    /// When it stands.
    stands: Duration,
    incoming: Vec<u8>,
    replies: u64,
    has_ended: bool,
}

/// The way back of a reply that is not sent over a stream.
enum Back {
    Datagram(Socket),
    /// By the resolver's number of an encrypted query, and what arrives if there is no reply in time.
    Encrypted(usize, [Key; 2]),
}

impl Loopback {
    /// When the next thing arrives.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.arrivals.keys().next().map(|(at, _)| *at)
    }

    fn arrive(&mut self, delay: Duration, socket: u64, bytes: Bytes) -> Key {
        self.last += 1;
        let key = (self.now + delay, self.last);
        self.arrivals.insert(key, Arrival { thread: 0, socket, bytes });
        key
    }

    fn report(&mut self, delay: Duration, slot: usize, outcome: Option<EncryptedOutcome>) -> Key {
        self.arrive(delay, 0, Bytes::Encrypted(EncryptedReport { slot, outcome }))
    }

    /// Has servers look at what they have got, as far as they are at leisure.
    fn serve(&mut self) {
        for _ in 0..self.waiting.len() {
            let Some((to, asked, back)) = self.waiting.pop_front() else { break };
            match server_at(to) {
                Some(server) if server.faults.busy.get() => {
                    self.waiting.push_back((to, asked, back));
                }
                Some(server) => self.reply(to, &server, &asked, back),
                None => {}
            }
        }
        for mut stream in std::mem::take(&mut self.streams).into_values() {
            self.serve_stream(&mut stream);
            self.streams.insert(stream.socket.number, stream);
        }
    }

    /// Has a server reply to a query that did not come over a stream.
    fn reply(&mut self, to: SocketAddr, server: &Server, asked: &Asked, back: Back) {
        let sends = server.receive(asked);
        match back {
            Back::Datagram(socket) => {
                for (delay, send) in server.arriving(asked, sends) {
                    let elsewhere = SocketAddr::new(to.ip(), 1);
                    let datagram = match send {
                        Send::Reply(bytes) => Bytes::Datagram(to, bytes),
                        Send::FromElsewhere(bytes) => Bytes::Datagram(elsewhere, bytes),
                    };
                    self.arrive(TRIP + delay, socket.number, datagram);
                }
            }
            Back::Encrypted(slot, overdue) => {
                let Some(Send::Reply(reply)) = sends.into_iter().next() else { return };
                if server.faults.dead.get() {
                    return;
                }
                let delay = TRIP + Duration::from_millis(server.faults.delay_ms.get());
                let (reply, _) =
                    self.report(delay, slot, Some(EncryptedOutcome::Reply(reply, delay)));
                for key in overdue.iter().filter(|(at, _)| *at >= reply) {
                    self.arrivals.remove(key);
                }
            }
        }
    }

    /// Has a server reply to the queries that came over a stream.
    fn serve_stream(&mut self, stream: &mut Stream) {
        let Socket { number, to, .. } = stream.socket;
        if stream.has_ended {
            return;
        }
        let Some(server) = server_at(to) else {
            stream.has_ended = true;
            self.arrive(TRIP, number, Bytes::Broken(io::ErrorKind::ConnectionReset));
            return;
        };
        let (faults, from) = (&server.faults, address_of(stream.socket));
        if faults.dead.get() || faults.busy.get() || faults.deaf_to.get() == from.port() {
            return;
        }
        let mut sends = Vec::new();
        while let Some(message) = stream.query() {
            sends.extend(server.receive(&Asked { message, from, over_tcp: true }));
        }
        if faults.reorder.get() {
            sends.reverse();
        }
        for send in sends {
            let (Send::Reply(reply) | Send::FromElsewhere(reply)) = send;
            let whole = [&(reply.len() as u16).to_be_bytes(), &*reply].concat();
            self.arrive(TRIP, number, Bytes::Stream(whole));
            stream.replies += 1;
            if stream.replies == faults.close_after.get() {
                stream.has_ended = true;
                self.arrive(TRIP, number, Bytes::End);
                return;
            }
        }
    }
}

impl Stream {
    /// The next whole query.
    fn query(&mut self) -> Option<Vec<u8>> {
        let end = 2 + usize::from(be16(&self.incoming, 0)?);
        (self.incoming.len() >= end).then(|| self.incoming.drain(..end).skip(2).collect())
    }
}

/// Where queries from a socket come from: each socket has a port of its own.
fn address_of(socket: Socket) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 1024 + (socket.number % 64_000) as u16).into()
}

impl Network for Loopback {
    fn open(&mut self, socket: Socket) -> io::Result<()> {
        if socket.transport == Transport::Udp {
            return Ok(());
        }
        if server_at(socket.to).is_none_or(|server| !server.has_tcp) {
            self.arrive(TRIP, socket.number, Bytes::Broken(io::ErrorKind::ConnectionRefused));
            return Ok(());
        }
        let (stands, _) = self.arrive(TRIP, socket.number, Bytes::Writable);
        let (incoming, replies, has_ended) = (Vec::new(), 0, false);
        let stream = Stream { socket, stands, incoming, replies, has_ended };
        self.streams.insert(socket.number, stream);
        Ok(())
    }

    fn send(&mut self, socket: Socket, bytes: &[u8]) -> io::Result<usize> {
        match (socket.transport, self.streams.get_mut(&socket.number)) {
            (Transport::Udp, _) if server_at(socket.to).is_some() => {
                let (message, from) = (bytes.to_vec(), address_of(socket));
                let asked = Asked { message, from, over_tcp: false };
                self.waiting.push_back((socket.to, asked, Back::Datagram(socket)));
            }
            (Transport::Udp, _) => {
                self.arrive(TRIP, socket.number, Bytes::Broken(io::ErrorKind::ConnectionRefused));
            }
            (Transport::Tcp, Some(stream)) if stream.stands <= self.now => {
                stream.incoming.extend(bytes);
            }
            (Transport::Tcp, _) => return Err(io::ErrorKind::WouldBlock.into()),
        }
        Ok(bytes.len())
    }

    fn close(&mut self, socket: Socket) {
        self.streams.remove(&socket.number);
        self.arrivals.retain(|_, arrival| arrival.socket != socket.number);
    }

    fn ask_encrypted(&mut self, _: usize, request: EncryptedQuery) {
        let EncryptedQuery { slot, upstream, query, patience } = request;
        let server = self.upstreams[upstream].server().expect("it is encrypted");
        let Host::Address(address) = server.host else { panic!("there are no names here") };
        let to = SocketAddr::new(address, server.port);
        if server_at(to).is_none() {
            let refused = io::ErrorKind::ConnectionRefused.into();
            self.report(TRIP, slot, Some(EncryptedOutcome::Broken(refused)));
            return;
        }
        let overdue = [
            self.report(patience.0, slot, None),
            self.report(patience.1, slot, Some(EncryptedOutcome::Silent)),
        ];
        let from = (IpAddr::from(Ipv4Addr::LOCALHOST), 1).into();
        let asked = Asked { message: query, from, over_tcp: true };
        self.waiting.push_back((to, asked, Back::Encrypted(slot, overdue)));
    }

    fn arrival(&mut self, now: Duration) -> Option<Arrival> {
        self.now = now;
        self.serve();
        let first = self.arrivals.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }
}
