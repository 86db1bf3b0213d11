//! The network state of one slow path thread: UDP batches, TCP connections, the queries that wait to leave, and a timer
//! for each. The sockets are in the driver.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use pmdns_config::narrow::{to_u32, to_usize};
use slab::Slab;

use crate::output::Output;
use crate::questions::pending::Ticket;
use crate::questions::plan::{Attempt, Transport};
use crate::questions::prefixes::ClientPrefix;
use crate::questions::quota::Quota;
use crate::questions::round_robin::RoundRobin;
use crate::timers::nanos;
use crate::upstreams::connection::Connection;
use crate::upstreams::medium::{Medium, NetworkLimits, Room};
use crate::upstreams::udp_batch::UdpBatch;
use crate::wheel::Wheel;

/// The most TCP connections that a thread has open at once. Each may hold a reply of 64 kB.
const MAX_TCP: usize = 256;

/// The network state of one thread.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) batches: Slab<UdpBatch>,
    pub(crate) connections: Slab<Connection>,
    timers: Wheel,
    /// Queries that wait for the next batch, by upstream.
    pub(crate) udp_queues: Vec<RoundRobin<(Ticket, Attempt)>>,
    /// The upstream whose queries leave first in this turn.
    pub(crate) first: usize,
    /// Queries that wait for a connection, by upstream. So a slow upstream does not delay the queries to others.
    pub(crate) tcp_queues: Vec<RoundRobin<(Ticket, Attempt)>>,
    /// What each upstream is asked by.
    media: Vec<Medium>,
    /// The batches by medium. Connections need sockets too.
    rooms: Vec<Room>,
    /// How many connections each prefix holds. A connection is charged to the prefix of its first query.
    connection_quota: Quota,
    /// The prefix that each connection is charged to, by slot.
    connections_of: HashMap<usize, ClientPrefix>,
    /// The outputs for the driver, in this order.
    pub(crate) outputs: VecDeque<Output>,
    /// Whether a query over TCP could not leave in this turn because its prefix has used up its part.
    is_tcp_held_back: bool,
}

/// The thing whose timer is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The batch in this slot.
    Batch(usize),
    /// The connection in this slot.
    Connection(usize),
}

impl Timer {
    /// Its name in the wheel.
    fn name(self) -> u32 {
        match self {
            Self::Batch(slot) => to_u32(2 * slot),
            Self::Connection(slot) => to_u32(2 * slot + 1),
        }
    }

    fn of_name(name: u32) -> Self {
        let slot = to_usize(u64::from(name / 2));
        if name.is_multiple_of(2) { Self::Batch(slot) } else { Self::Connection(slot) }
    }
}

/// A query that leaves over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextTcpQuery {
    /// The prefix that it is charged to.
    pub(crate) prefix: ClientPrefix,
    pub(crate) ticket: Ticket,
    pub(crate) attempt: Attempt,
    /// The connection that it goes over; `None`: a new one.
    pub(crate) connection: Option<usize>,
}

impl Network {
    /// Nothing is under way yet. `media` has an entry for each upstream.
    pub(crate) fn new(media: Vec<Medium>, limits: &NetworkLimits) -> Self {
        Self {
            batches: Slab::new(),
            connections: Slab::new(),
            timers: Wheel::default(),
            udp_queues: media.iter().map(|_| RoundRobin::default()).collect(),
            first: 0,
            tcp_queues: media.iter().map(|_| RoundRobin::default()).collect(),
            media,
            rooms: limits.rooms(),
            connection_quota: Quota::new(limits.sockets.min(MAX_TCP)),
            connections_of: HashMap::new(),
            outputs: VecDeque::new(),
            is_tcp_held_back: false,
        }
    }

    /// Takes other upstreams over. Nothing is under way any more to those whose medium differs.
    pub(crate) fn apply(&mut self, media: Vec<Medium>) {
        self.udp_queues.resize_with(media.len(), RoundRobin::default);
        self.tcp_queues.resize_with(media.len(), RoundRobin::default);
        self.media = media;
    }

    /// Ends everything that is under way to an upstream, and returns the queries without a reply.
    pub(crate) fn leave(&mut self, upstream: usize) -> Vec<(Ticket, Attempt)> {
        let mut ended = Vec::new();
        for queues in [&mut self.udp_queues, &mut self.tcp_queues] {
            let waiting = std::mem::take(&mut queues[upstream]);
            ended.extend(waiting.into_items());
        }
        let batches = self.batches.iter().filter(|(_, batch)| batch.upstream == upstream);
        for slot in batches.map(|(slot, _)| slot).collect::<Vec<_>>() {
            let batch = self.close_batch(slot);
            ended.extend(batch.left().iter().map(|query| (query.ticket, query.attempt)));
        }
        let connections = self.connections.iter().filter(|(_, one)| one.upstream == upstream);
        for slot in connections.map(|(slot, _)| slot).collect::<Vec<_>>() {
            let queries = self.close_connection(slot).queries;
            ended.extend(queries.into_iter().map(|query| (query.ticket, query.attempt)));
        }
        ended
    }

    /// What an upstream is asked by.
    pub(crate) fn medium(&self, upstream: usize) -> Medium {
        self.media[upstream]
    }

    fn room(&mut self, upstream: usize) -> &mut Room {
        &mut self.rooms[self.media[upstream].room()]
    }

    /// Begins a turn of sending: nobody is held back yet.
    pub(crate) fn begin_turn(&mut self) {
        self.rooms.iter_mut().for_each(|room| room.is_held_back = false);
        self.is_tcp_held_back = false;
    }

    /// Lets a query that is charged to `prefix` wait until it can leave.
    pub(crate) fn send(&mut self, prefix: ClientPrefix, ticket: Ticket, attempt: Attempt) {
        match attempt.transport {
            Transport::Udp | Transport::Alone => {
                self.udp_queues[attempt.upstream].push(prefix, (ticket, attempt));
            }
            Transport::Tcp => self.tcp_queues[attempt.upstream].push(prefix, (ticket, attempt)),
        }
    }

    /// Takes out the queries that leave in the next batch to this upstream, and the prefix that is charged for it.
    /// Prefixes take turns to lead a batch, and to add queries to it. The queries are added to `together`. `None`: no
    /// prefix may lead one.
    pub(crate) fn take_batch(
        &mut self,
        upstream: usize,
        most: usize,
        together: &mut Vec<(Ticket, Attempt)>,
    ) -> Option<ClientPrefix> {
        let Self { udp_queues, rooms, media, .. } = self;
        let medium = media[upstream];
        let room = &mut rooms[medium.room()];
        // Over a port every query has a UDP port of its own.
        let most = if medium.is_port() { 1 } else { most };
        let waiting = &mut udp_queues[upstream];
        let leader = waiting.pop(|prefix, _| room.has_room_for(*prefix));
        room.is_held_back |= leader.is_none();
        let (prefix, leader) = leader?;
        together.push(leader);
        let is_alone = |(_, attempt): &(Ticket, Attempt)| attempt.transport == Transport::Alone;
        while together.len() < most
            && !is_alone(&leader)
            && let Some((_, another)) = waiting.pop(|_, one| !is_alone(one))
        {
            together.push(another);
        }
        Some(prefix)
    }

    /// Takes out a query to this upstream that waits and finds no UDP port, because its prefix holds its share of them.
    pub(crate) fn take_without_port(&mut self, upstream: usize) -> Option<(Ticket, Attempt)> {
        let Self { udp_queues, rooms, media, .. } = self;
        let medium = media[upstream];
        if !medium.is_port() {
            return None;
        }
        let room = &rooms[medium.room()];
        udp_queues[upstream].pop(|prefix, _| !room.has_room_for(*prefix)).map(|(_, query)| query)
    }

    /// Whether a batch may leave to this upstream. Idle connections are closed to make room for it.
    pub(crate) fn can_open_socket(&mut self, upstream: usize) -> bool {
        match self.medium(upstream) {
            Medium::Sockets => self.has_socket() || self.close_idle(),
            port @ Medium::Port { .. } => self.has_udp_port(port),
        }
    }

    /// Whether a TCP connection may be opened, as [`Network::can_open_socket`].
    pub(crate) fn can_connect(&mut self) -> bool {
        self.has_connection() || self.close_idle()
    }

    /// A connection to this upstream that another query may go over.
    pub(crate) fn connection_to(&self, upstream: usize) -> Option<usize> {
        let mut connections = self.connections.iter();
        connections
            .find(|(_, connection)| connection.upstream == upstream && connection.has_room())
            .map(|(slot, _)| slot)
    }

    /// Takes out the next TCP query to this upstream, with its connection. `None`: no query waits, or there is no
    /// connection for it.
    pub(crate) fn take_tcp_query(&mut self, upstream: usize) -> Option<NextTcpQuery> {
        if self.tcp_queues[upstream].is_empty() {
            return None;
        }
        let connection = self.connection_to(upstream);
        if connection.is_none() && !self.can_connect() {
            return None;
        }
        let quota = &self.connection_quota;
        let may_go = |&prefix: &_, _: &_| connection.is_some() || quota.has_room_for(prefix);
        let next = self.tcp_queues[upstream].pop(may_go);
        self.is_tcp_held_back |= next.is_none();
        next.map(|(prefix, (ticket, attempt))| NextTcpQuery { prefix, ticket, attempt, connection })
    }

    /// Whether a socket is left. The limit keeps the process from running out of file descriptors.
    fn has_socket(&self) -> bool {
        self.rooms[Medium::Sockets.room()].has_room(self.connections.len())
    }

    /// Whether a UDP port of this port of ours is left for a query.
    fn has_udp_port(&self, port: Medium) -> bool {
        self.rooms[port.room()].has_room(0)
    }

    fn has_connection(&self) -> bool {
        self.has_socket() && self.connections.len() < MAX_TCP
    }

    /// Closes the connection that has been idle for longest; `false`: all are in use.
    fn close_idle(&mut self) -> bool {
        let idle = self.connections.iter().filter(|(_, connection)| connection.queries.is_empty());
        let Some((slot, _)) = idle.min_by_key(|(_, connection)| connection.due()) else {
            return false;
        };
        self.close_connection(slot);
        true
    }

    /// Whether no query waits that could leave now.
    pub(crate) fn is_quiet(&self) -> bool {
        let may_leave = |medium: Medium| {
            let has_room = match medium {
                Medium::Sockets => self.has_socket(),
                Medium::Port { .. } => self.has_udp_port(medium),
            };
            has_room && !self.rooms[medium.room()].is_held_back
        };
        let departs = self.udp_queues.iter().zip(&self.media);
        let mut departs = departs.filter(|(queue, _)| !queue.is_empty());
        let may_send = self.has_connection() && !self.is_tcp_held_back;
        let sends = may_send && self.tcp_queues.iter().any(|queue| !queue.is_empty());
        let departs = departs.any(|(_, medium)| may_leave(*medium));
        !(departs || sends)
    }

    /// Begins a batch of `prefix`, and returns its slot.
    pub(crate) fn begin_batch(&mut self, prefix: ClientPrefix, mut batch: UdpBatch) -> usize {
        batch.charged = Some(prefix);
        self.room(batch.upstream).take(prefix);
        let due = batch.due();
        let slot = self.batches.insert(batch);
        self.set_timer(Timer::Batch(slot), due);
        slot
    }

    /// Sets a batch's timer.
    pub(crate) fn set_batch_timer(&mut self, slot: usize) {
        self.set_timer(Timer::Batch(slot), self.batches[slot].due());
    }

    /// Some queries of a batch have become late. If all are late, the batch may be closed when its medium is short.
    pub(crate) fn note_late(&mut self, slot: usize) {
        if let Some(batch) = self.batches.get_mut(slot).filter(|batch| batch.is_late()) {
            let (upstream, sent, charged) = (batch.upstream, batch.sent, batch.charged.take());
            let room = self.forget_late(upstream);
            charged.into_iter().for_each(|prefix| room.stop_charging(prefix));
            room.note_late(slot, sent);
        }
    }

    /// The batch that has been late for longest, of those by the medium of this upstream.
    pub(crate) fn take_late(&mut self, upstream: usize) -> Option<usize> {
        self.forget_late(upstream).take_late()
    }

    /// Drops batches that have ended from the front of the queue of late ones. Another batch may have the slot by now.
    fn forget_late(&mut self, upstream: usize) -> &mut Room {
        let Self { batches, rooms, media, .. } = self;
        let medium = media[upstream];
        let room = &mut rooms[medium.room()];
        room.forget_late(|(slot, sent)| {
            batches.get(*slot).is_some_and(|batch| {
                batch.sent == *sent && batch.is_late() && media[batch.upstream] == medium
            })
        });
        room
    }

    /// Closes a batch's port.
    pub(crate) fn close_batch(&mut self, slot: usize) -> UdpBatch {
        let batch = self.batches.remove(slot);
        let room = self.room(batch.upstream);
        room.end();
        batch.charged.into_iter().for_each(|prefix| room.stop_charging(prefix));
        self.timers.clear(Timer::Batch(slot).name());
        self.outputs.push_back(Output::CloseBatch(slot));
        batch
    }

    /// Begins a connection of `prefix`, and returns its slot.
    pub(crate) fn begin_connection(
        &mut self,
        prefix: ClientPrefix,
        connection: Connection,
    ) -> usize {
        let due = connection.due();
        let slot = self.connections.insert(connection);
        self.set_timer(Timer::Connection(slot), due);
        self.connection_quota.take(prefix);
        self.connections_of.insert(slot, prefix);
        slot
    }

    /// Sets a connection's timer.
    pub(crate) fn set_connection_timer(&mut self, slot: usize) {
        self.set_timer(Timer::Connection(slot), self.connections[slot].due());
    }

    fn set_timer(&mut self, timer: Timer, due: Duration) {
        self.timers.set(timer.name(), nanos(due));
    }

    /// Takes out the first timer that is due by `now`.
    pub(crate) fn next_due(&mut self, now: Duration) -> Option<Timer> {
        self.timers.next_due(nanos(now)).map(Timer::of_name)
    }

    /// Closes a connection.
    pub(crate) fn close_connection(&mut self, slot: usize) -> Connection {
        let connection = self.connections.remove(slot);
        if let Some(prefix) = self.connections_of.remove(&slot) {
            self.connection_quota.give_back(prefix);
        }
        self.timers.clear(Timer::Connection(slot).name());
        self.outputs.push_back(Output::CloseConnection(slot));
        connection
    }
}

#[cfg(test)]
mod tests;
