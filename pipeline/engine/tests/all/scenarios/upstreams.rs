//! The network of a scenario: queries wait in it until the play says what becomes of them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use pmdns_hierarchy::message::flag;
use pmdns_hierarchy::{Message, Name, OwnedRecord, rtype};
use pmdns_resolver::encrypted::EncryptedQuery;

use super::comparison::is_for;
use super::grammar::{Entry, Range};
use super::stepping::{Arrival, Bytes, Network, Socket, Transport};

/// The longest chain of aliases that an upstream follows.
const MAX_ALIASES: usize = 8;
/// How long a reply takes.
const TRIP: Duration = Duration::from_micros(500);

/// A query that an upstream has not answered.
pub(crate) struct Pending {
    socket: Socket,
    pub(crate) query: Message,
}

/// All of them, and what is on its way back.
#[derive(Default)]
pub(crate) struct Upstreams {
    pub(crate) pending: Vec<Pending>,
    streams: BTreeMap<u64, Vec<u8>>,
    arrivals: VecDeque<(Duration, Arrival)>,
    /// The time.
    pub(crate) now: Duration,
}

/// What the servers of a file say.
pub(crate) struct Servers<'a> {
    pub(crate) ranges: &'a [Range],
    /// Whether the upstream is a resolver, which asks all of them.
    pub(crate) iterates: bool,
    /// Whether they have the manners of the client's scenarios: any server answers, and the last entry counts.
    pub(crate) last_counts: bool,
}

impl Upstreams {
    /// Answers a query. Others with the same question are forgotten: they were repeated.
    pub(crate) fn reply(&mut self, number: usize, mut reply: Message) {
        let Pending { socket, query } = self.pending.remove(number);
        self.pending.retain(|other| other.query.question != query.question);
        reply.id = query.id;
        if reply.question == query.question {
            // In the letters of the query.
            reply.question = query.question;
        }
        reply.sections[2].retain(|one| one.rtype != rtype::OPT);
        let opt = query.sections[2].iter().find(|one| one.rtype == rtype::OPT);
        reply.sections[2].extend(opt.map(|opt| OwnedRecord { data: Vec::new(), ..opt.clone() }));
        let bytes = reply.to_bytes();
        self.arrive(
            socket,
            match socket.transport {
                Transport::Udp => Bytes::Datagram(socket.to, bytes),
                Transport::Tcp => {
                    Bytes::Stream([&(bytes.len() as u16).to_be_bytes()[..], &bytes].concat())
                }
            },
        );
    }

    /// Loses a query.
    pub(crate) fn lose(&mut self, number: usize) {
        self.pending.remove(number);
    }

    /// Has a query fail: nobody is there.
    pub(crate) fn fail(&mut self, number: usize) {
        let Pending { socket, .. } = self.pending.remove(number);
        self.arrive(socket, Bytes::Broken(io::ErrorKind::ConnectionRefused));
    }

    /// Whether something is on its way back.
    pub(crate) fn is_busy(&self) -> bool {
        !self.arrivals.is_empty()
    }

    fn arrive(&mut self, socket: Socket, bytes: Bytes) {
        let Socket { thread, number: socket, .. } = socket;
        self.arrivals.push_back((self.now + TRIP, Arrival { thread, socket, bytes }));
    }

    /// Takes in a query, but for probes: those have no part in a scenario.
    fn take(&mut self, socket: Socket, query: &[u8]) {
        let query = Message::parse(query).expect("a query is a message");
        if (&query.question.0, query.question.1) != (&Name::root(), rtype::SOA) {
            self.pending.push(Pending { socket, query });
        }
    }
}

impl Network for Upstreams {
    fn open(&mut self, socket: Socket) -> io::Result<()> {
        if socket.transport == Transport::Tcp {
            self.streams.insert(socket.number, Vec::new());
            self.arrive(socket, Bytes::Writable);
        }
        Ok(())
    }

    fn send(&mut self, socket: Socket, bytes: &[u8]) -> io::Result<usize> {
        let Some(stream) = self.streams.get_mut(&socket.number) else {
            self.take(socket, bytes);
            return Ok(bytes.len());
        };
        stream.extend(bytes);
        while let Some((length, rest)) = self.streams[&socket.number].split_first_chunk::<2>()
            && let Some((query, rest)) = rest.split_at_checked(u16::from_be_bytes(*length).into())
        {
            let (query, rest) = (query.to_vec(), rest.to_vec());
            self.streams.insert(socket.number, rest);
            self.take(socket, &query);
        }
        Ok(bytes.len())
    }

    fn close(&mut self, socket: Socket) {
        self.streams.remove(&socket.number);
        self.pending.retain(|pending| pending.socket != socket);
        self.arrivals.retain(|(_, arrival)| arrival.socket != socket.number);
    }

    fn ask_encrypted(&mut self, _: usize, _: EncryptedQuery) {
        unreachable!("no upstream is encrypted");
    }

    fn arrival(&mut self, now: Duration) -> Option<Arrival> {
        self.arrivals.front().filter(|(at, _)| *at <= now)?;
        self.arrivals.pop_front().map(|(_, arrival)| arrival)
    }
}

impl Servers<'_> {
    /// What an upstream says at a step, if it says anything.
    pub(crate) fn reply_to(&self, pending: &Pending, step: u32) -> Option<Message> {
        let Pending { socket, query } = pending;
        let over_tcp = socket.transport == Transport::Tcp;
        let mut reply = self.find(query, socket.to.ip(), over_tcp, step)?;
        if !self.iterates {
            return Some(reply);
        }
        for _ in 0..MAX_ALIASES {
            let (_, qtype, class) = query.question;
            let Some(alias) = reply.sections[0]
                .last()
                .filter(|last| last.rtype == rtype::CNAME && qtype != rtype::CNAME)
            else {
                break;
            };
            let (target, _) = Name::parse(&alias.data, 0)?;
            let query = Message { question: (target, qtype, class), ..query.clone() };
            let more = self.find(&query, socket.to.ip(), over_tcp, step)?;
            reply.set_rcode(more.rcode());
            let [answer, authority, _] = more.sections;
            reply.sections[0].extend(answer);
            reply.sections[1] = authority;
        }
        Some(resolved(reply))
    }

    fn find(&self, query: &Message, to: IpAddr, over_tcp: bool, step: u32) -> Option<Message> {
        let is_current = |range: &&Range| (range.steps.0..=range.steps.1).contains(&step);
        let can_answer = |range: &&Range| {
            self.iterates || self.last_counts || range.address.is_none_or(|address| address == to)
        };
        let ranges = self.ranges.iter().filter(is_current).filter(can_answer);
        let mut entries = ranges.flat_map(|range| &range.entries).filter(|entry| {
            is_for(entry, query, over_tcp) && !(self.iterates && is_referral(&entry.message))
        });
        let entry = if self.last_counts { entries.next_back() } else { entries.next() }?;
        Some(message_of(entry, query))
    }
}

/// An entry as a reply to a query.
pub(crate) fn message_of(entry: &Entry, query: &Message) -> Message {
    let mut reply = entry.message.clone();
    if entry.copies_question {
        reply.question = query.question.clone();
    }
    reply
}

/// A server's reply, as a resolver passes it on.
fn resolved(mut reply: Message) -> Message {
    reply.flags = reply.flags & !flag::AA | flag::RD | flag::RA;
    reply
}

/// Whether a reply only says whom to ask.
fn is_referral(reply: &Message) -> bool {
    let has = |rtype| reply.sections[1].iter().any(|one| one.rtype == rtype);
    reply.rcode() == 0 && reply.sections[0].is_empty() && has(rtype::NS) && !has(rtype::SOA)
}
