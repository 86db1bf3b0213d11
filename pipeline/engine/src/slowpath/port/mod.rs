//! Queries over ports of ours (`upstream.port`), for one slow path thread. A query is written into a frame here, and a data
//! core sends it. What comes for it is brought by data cores. No system call and no descriptor is needed for a miss.
//!
//! Every query leaves from a UDP port of its own, drawn from all ports of all query sources, whichever thread asks
//! ([`QuerySources`]). Nothing is decided here about replies: the resolver compares them with its queries.

mod hops;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use arrayvec::ArrayVec;
use pmdns_config::limits::MAX_QUERY_SOURCES;
use pmdns_config::narrow::{to_u8, to_u32, to_usize};
use pmdns_nics::{Burst, Frame, FramePool, release};
use pmdns_resolver::{Arrived, Query, Random, Resolver, Route, Time};
use pmdns_stages::Packet;
use pmdns_stages::arrival::Arrival;
use pmdns_stages::datagram::{self, Endpoints};
use pmdns_stages::next_hop::{MAX_HOPS, NextHop};
use pmdns_stages::ports::Ports;
use pmdns_stages::query_sources::{FIRST_PORT, Owner, QuerySources, SourceIndex};
use pmdns_stages::reply::ReplyPacket;

use self::hops::HopWatch;
pub use self::hops::{Hops, Seeker};
use super::inlets::MAX_TAKEN;
use super::random::port_of;
use crate::ring::{RingReceiver, RingSender};

/// How many UDP ports are tried for a query. At most half of them are in use, so all are once in 2^32 queries.
const PORT_TRIES: usize = 32;

/// The parts of the driver of one thread.
pub struct PortParts {
    /// The thread's number.
    pub thread: u8,
    /// The UDP ports of all query sources.
    pub sources: Arc<QuerySources>,
    /// The ports, as the stages see them.
    pub ports: Ports,
    /// Where frames come from.
    pub pool: FramePool,
    /// The ring to the core that sends queries.
    pub queries: RingSender<Frame>,
    /// The rings from the cores that receive.
    pub replies: Vec<RingReceiver<Packet>>,
    /// The most packets taken from each of them in a turn: [`burst`](super::burst).
    pub burst: usize,
}

/// The queries of one thread over ports.
pub struct PortDriver {
    parts: PortParts,
    hops: HopWatch,
    /// The query sources of each port, by family: IPv4, IPv6.
    sources: Vec<[ArrayVec<SourceIndex, MAX_QUERY_SOURCES>; 2]>,
    /// Queries that leave together.
    departing: Burst,
    /// What the query in each slot left by.
    sent: Vec<Option<Sent>>,
    random: Random,
}

/// Our end of a query.
type LocalEndpoint = (SourceIndex, u16);

/// The way that a query left by.
#[derive(Clone, Copy)]
struct Sent {
    from: LocalEndpoint,
    /// The number of its next hop.
    hop: u8,
}

const _: () = assert!(MAX_HOPS <= 1 << u8::BITS);

impl PortDriver {
    /// No query is under way yet. There are so many `upstreams`, and UDP ports are drawn by `random`.
    pub fn new(parts: PortParts, hops: Hops, upstreams: usize, random: Random) -> Self {
        let mut sources: Vec<[ArrayVec<_, MAX_QUERY_SOURCES>; 2]> =
            parts.ports.iter().map(|_| Default::default()).collect();
        for (index, source) in parts.sources.indexes().zip(parts.sources.sources()) {
            let family = usize::from(source.address.is_ipv6());
            let _ = sources[source.port][family].try_push(index);
        }
        let hops = HopWatch::new(hops, upstreams);
        let (departing, sent) = (Burst::new(), Vec::new());
        Self { parts, hops, sources, departing, sent, random }
    }

    /// How many queries of a thread may be under way at once over each port and family. All threads together have half of the
    /// UDP ports of its sources. So free ones are found at once.
    pub fn max_queries(&self, threads: usize) -> impl Iterator<Item = [usize; 2]> {
        let most = move |sources: &ArrayVec<_, MAX_QUERY_SOURCES>| {
            sources.len() * usize::from(u16::MAX - FIRST_PORT) / 2 / threads.max(1)
        };
        self.sources.iter().map(move |families| families.each_ref().map(most))
    }

    /// Sends the query of a batch, from a random UDP port of a random source.
    pub fn send_batch(&mut self, now: Time, slot: usize, route: Route, resolver: &mut Resolver) {
        let Some(NextHop { hop, place }) = self.hops.choose(route.upstream) else {
            return resolver.break_batch(now, slot, &io::ErrorKind::HostUnreachable.into());
        };
        let number = usize::from(place.port);
        let (source, port) = match self.claim(slot, number, route.to.ip()) {
            Ok(Some(place)) => place,
            Ok(None) => return resolver.shed_batch(now, slot),
            Err(error) => return resolver.fail_batch(now, slot, &error),
        };
        if self.sent.len() <= slot {
            self.sent.resize(slot + 1, None);
        }
        self.sent[slot] = Some(Sent { from: (source, port), hop: to_u8(hop) });
        self.hops.note_query(hop, now.now);
        let Some(from) = self.parts.sources.source(source) else { return };
        let from = SocketAddr::new(from.address, port);
        let ends = Endpoints { next_hop: place.mac, from, to: route.to };
        let send = |query: &Query| {
            // Without a frame, or with a full ring, the query counts as lost on its way, and is sent again.
            let Some(mut frame) = self.parts.pool.take() else { return Ok(()) };
            frame.set_port(place.port);
            if datagram::write(&mut frame, &self.parts.ports[number], ends, query.bytes()).is_ok() {
                self.departing.push(frame);
            }
            if self.departing.is_full() {
                self.flush();
            }
            Ok(())
        };
        let Ok::<_, Infallible>(()) = resolver.send_messages(slot, || Some(from.ip()), send);
    }

    /// Hands over the queries that wait to leave together.
    pub fn flush(&mut self) {
        self.parts.queries.push_batch(&mut self.departing);
        release(&mut self.departing);
    }

    /// Draws a UDP port for the query in this slot, which leaves by this port for `upstream`. `None`: all that were drawn are
    /// in use. An error: there are no random numbers.
    fn claim(
        &mut self,
        slot: usize,
        number: usize,
        upstream: IpAddr,
    ) -> io::Result<Option<LocalEndpoint>> {
        let sources = &self.sources[number][usize::from(upstream.is_ipv6())];
        let owner = Owner { thread: self.parts.thread, slot: to_u32(slot) };
        for _ in 0..PORT_TRIES {
            let [source, port] = self.random.bytes::<4>().map(halves)?;
            let Some(source) = sources.get(usize::from(source) % sources.len().max(1)) else {
                break;
            };
            let port = port_of(u32::from(port) << 16);
            if self.parts.sources.claim(*source, port, owner) {
                return Ok(Some((*source, port)));
            }
        }
        Ok(None)
    }

    /// Gives back the UDP port of a query.
    pub fn close_batch(&mut self, slot: usize) {
        if let Some(Sent { from: (source, port), .. }) =
            self.sent.get_mut(slot).and_then(Option::take)
        {
            self.parts.sources.release(source, port);
        }
    }

    /// Passes what has come to `resolver`, and asks for the addresses of next hops. Returns how much came.
    pub fn receive(&mut self, now: Time, resolver: &mut Resolver) -> usize {
        let mut received = 0;
        for ring in 0..self.parts.replies.len() {
            let mut packets: ArrayVec<Packet, MAX_TAKEN> = ArrayVec::new();
            received += self.parts.replies[ring].pop_batch(&mut packets, self.parts.burst);
            if packets.is_empty() {
                continue;
            }
            self.parts.replies[ring].publish();
            packets.iter().for_each(|packet| packet.frame.prefetch());
            for packet in &packets {
                self.receive_packet(now, packet, resolver);
            }
            let mut frames: Burst = packets.drain(..).map(|packet| packet.frame).collect();
            release(&mut frames);
        }
        let mut probes = Burst::new();
        let opened = |upstream| resolver.hurry(now, upstream);
        self.hops.turn(now.now, &self.parts.pool, &mut probes, opened);
        self.parts.queries.push_batch(&mut probes);
        received
    }

    fn receive_packet(&mut self, now: Time, packet: &Packet, resolver: &mut Resolver) {
        let Some(reply) = ReplyPacket::read(packet, &self.parts.sources) else {
            return self.hops.receive(packet, now.now);
        };
        let slot = to_usize(reply.owner.slot.into());
        // The UDP port may belong to another query by now.
        let sent = self.sent.get(slot).copied().flatten();
        let Some(Sent { hop, .. }) =
            sent.filter(|sent| sent.from == (reply.source, reply.udp_port))
        else {
            return resolver.note_unclaimed();
        };
        let ReplyPacket { upstream, message, .. } = reply;
        let undelivered =
            |is_too_long| Arrived::Undelivered { to: upstream, id: reply.id(), is_too_long };
        let arrived = match reply.arrival {
            Arrival::Reply(_) => Arrived::Datagram { from: upstream, message },
            Arrival::Fragment(_) => Arrived::Fragment { from: upstream, message },
            Arrival::Unreachable(_) => undelivered(false),
            Arrival::TooBig(_) => undelivered(true),
            Arrival::Neighbor => return,
        };
        // A forged reply does not keep a next hop that is gone.
        if resolver.receive_port(now, slot, arrived) {
            self.hops.note_reply(hop.into());
        }
    }
}

/// Two random numbers of 16 bits.
fn halves([a, b, c, d]: [u8; 4]) -> [u16; 2] {
    [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
}
