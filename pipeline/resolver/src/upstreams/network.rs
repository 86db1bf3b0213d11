//! What one slow path thread has on the network: batches and connections, the queries that wait to leave, and when each has to be
//! looked at. Their sockets are in the driver.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use arrayvec::ArrayVec;
use pmdns_config::limits::MAX_QUERIES_PER_PORT;
use slab::Slab;

use crate::output::Output;
use crate::questions::pending::Ticket;
use crate::questions::plan::{Attempt, Transport};
use crate::questions::prefixes::ClientPrefix;
use crate::questions::quota::Quota;
use crate::questions::round_robin::RoundRobin;
use crate::timers::Timers;
use crate::upstreams::connection::Connection;
use crate::upstreams::udp_batch::UdpBatch;

/// TCP connections a thread has open at once; each may hold a reply of 64 kB.
const MAX_TCP: usize = 256;

/// The network of one thread.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) batches: Slab<UdpBatch>,
    pub(crate) connections: Slab<Connection>,
    /// Batches all of whose queries are late, and when they left; some have ended since.
    late: VecDeque<(usize, Duration)>,
    pub(crate) timers: Timers<Timer>,
    /// Queries that wait for the next batch, by upstream.
    pub(crate) udp_queues: Vec<RoundRobin<(Ticket, Attempt)>>,
    /// The upstream whose queries leave first in this turn.
    pub(crate) first: usize,
    /// Queries that wait for a connection, by upstream: one that keeps its own waiting holds up no others.
    pub(crate) tcp_queues: Vec<RoundRobin<(Ticket, Attempt)>>,
    /// Who has how many sockets for batches, and connections. A batch is its first query's, who takes along others
    /// as far as there are seats; a connection is that of its first query.
    batch_quota: Quota,
    connection_quota: Quota,
    /// Whose each batch is, and each connection, by slot.
    batches_of: HashMap<usize, ClientPrefix>,
    connections_of: HashMap<usize, ClientPrefix>,
    /// What is to be done, in this order.
    pub(crate) outputs: VecDeque<Output>,
    max_sockets: usize,
    /// Whether in this turn something could not leave because its prefix has its part of the sockets.
    pub(crate) is_held_back: bool,
}

/// What is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The batch in this slot.
    Batch(usize),
    /// The connection in this slot.
    Connection(usize),
}

/// A query that leaves over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextTcpQuery {
    /// Whom it is charged to.
    pub(crate) prefix: ClientPrefix,
    pub(crate) ticket: Ticket,
    pub(crate) attempt: Attempt,
    /// The connection that it goes over; none: a new one.
    pub(crate) connection: Option<usize>,
}

impl Network {
    /// No socket yet, of `max_sockets` to so many upstreams.
    pub(crate) fn new(upstreams: usize, max_sockets: usize) -> Self {
        Self {
            batches: Slab::new(),
            connections: Slab::new(),
            late: VecDeque::new(),
            timers: Timers::default(),
            udp_queues: (0..upstreams).map(|_| RoundRobin::default()).collect(),
            first: 0,
            tcp_queues: (0..upstreams).map(|_| RoundRobin::default()).collect(),
            batch_quota: Quota::new(max_sockets),
            connection_quota: Quota::new(max_sockets.min(MAX_TCP)),
            batches_of: HashMap::new(),
            connections_of: HashMap::new(),
            outputs: VecDeque::new(),
            max_sockets,
            is_held_back: false,
        }
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

    /// Takes out those that wait for a batch to this upstream and may leave in one, at most so many, and says whose it is.
    /// Prefixes take turns to lead a batch, and to have a seat in it. Nothing, if nobody may lead one.
    pub(crate) fn take_batch(
        &mut self,
        upstream: usize,
        most: usize,
    ) -> Option<(ClientPrefix, ArrayVec<(Ticket, Attempt), MAX_QUERIES_PER_PORT>)> {
        let Self { udp_queues, batch_quota, .. } = self;
        let waiting = &mut udp_queues[upstream];
        let leader = waiting.pop(|prefix, _| batch_quota.has_room_for(*prefix));
        self.is_held_back |= leader.is_none();
        let (prefix, leader) = leader?;
        let mut together = ArrayVec::from_iter([leader]);
        let is_alone = |(_, attempt): &(Ticket, Attempt)| attempt.transport == Transport::Alone;
        while together.len() < most
            && !is_alone(&leader)
            && let Some((_, another)) = waiting.pop(|_, one| !is_alone(one))
        {
            together.push(another);
        }
        Some((prefix, together))
    }

    /// Whether a batch may leave. Connections that nobody uses make room for it.
    pub(crate) fn can_open_socket(&mut self) -> bool {
        self.has_socket() || self.close_idle()
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

    /// Takes out the next TCP query to this upstream, and the connection that it may go over; none: a new one. Nothing, if
    /// no query waits or there is no connection for it.
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
        self.is_held_back |= next.is_none();
        next.map(|(prefix, (ticket, attempt))| NextTcpQuery { prefix, ticket, attempt, connection })
    }

    /// Whether a socket is left. A process that runs out of descriptors fails in odd places.
    fn has_socket(&self) -> bool {
        self.batches.len() + self.connections.len() < self.max_sockets
    }

    fn has_connection(&self) -> bool {
        self.has_socket() && self.connections.len() < MAX_TCP
    }

    /// Closes the connection that nobody has used for longest; `false`: all are in use.
    fn close_idle(&mut self) -> bool {
        let idle = self.connections.iter().filter(|(_, connection)| connection.queries.is_empty());
        let Some((slot, _)) = idle.min_by_key(|(_, connection)| connection.due()) else {
            return false;
        };
        self.close_connection(slot);
        true
    }

    /// Whether nothing waits to leave that could.
    pub(crate) fn is_quiet(&self) -> bool {
        let nothing_departs = self.udp_queues.iter().all(RoundRobin::is_empty);
        let no_query_waits = self.tcp_queues.iter().all(RoundRobin::is_empty);
        let may_depart = self.has_socket() && !self.is_held_back;
        let may_send = self.has_connection() && !self.is_held_back;
        (nothing_departs || !may_depart) && (no_query_waits || !may_send)
    }

    /// Lets a batch of `prefix` leave.
    pub(crate) fn begin_batch(&mut self, prefix: ClientPrefix, batch: UdpBatch) {
        let timer = batch.timer;
        let slot = self.batches.insert(batch);
        self.timers.set(timer, Timer::Batch(slot));
        self.batch_quota.take(prefix);
        self.batches_of.insert(slot, prefix);
        self.outputs.push_back(Output::SendBatch(slot));
    }

    /// Sets a batch's timer to when it has to be looked at.
    pub(crate) fn set_batch_timer(&mut self, slot: usize) {
        let batch = &mut self.batches[slot];
        let due = batch.due();
        self.timers.reset(&mut batch.timer, due, Timer::Batch(slot));
    }

    /// Some queries of a batch have become late. If all are, it makes room for others where sockets are short.
    pub(crate) fn note_late(&mut self, slot: usize) {
        if let Some(batch) = self.batches.get(slot).filter(|batch| batch.is_late()) {
            let late = (slot, batch.sent);
            self.stop_charging(slot);
            self.forget_late();
            self.late.push_back(late);
        }
    }

    /// The batch that has been late for longest.
    pub(crate) fn take_late(&mut self) -> Option<usize> {
        self.forget_late();
        self.late.pop_front().map(|(slot, _)| slot)
    }

    /// Drops the first batches that have ended. Another one may have the slot by now.
    fn forget_late(&mut self) {
        let batches = &self.batches;
        let is_there = |(slot, sent): &(usize, Duration)| {
            batches.get(*slot).is_some_and(|batch| batch.sent == *sent && batch.is_late())
        };
        while self.late.front().is_some_and(|late| !is_there(late)) {
            self.late.pop_front();
        }
    }

    /// Charges nobody for a batch any more: it has ended, or makes room whenever there is need.
    fn stop_charging(&mut self, slot: usize) {
        if let Some(prefix) = self.batches_of.remove(&slot) {
            self.batch_quota.give_back(prefix);
        }
    }

    /// Closes a batch's port.
    pub(crate) fn close_batch(&mut self, slot: usize) -> UdpBatch {
        let batch = self.batches.remove(slot);
        self.stop_charging(slot);
        self.timers.clear(batch.timer, Timer::Batch(slot));
        self.outputs.push_back(Output::CloseBatch(slot));
        batch
    }

    /// Begins a connection of `prefix`, and says in which slot it is.
    pub(crate) fn begin_connection(
        &mut self,
        prefix: ClientPrefix,
        connection: Connection,
    ) -> usize {
        let timer = connection.timer;
        let slot = self.connections.insert(connection);
        self.timers.set(timer, Timer::Connection(slot));
        self.connection_quota.take(prefix);
        self.connections_of.insert(slot, prefix);
        self.outputs.push_back(Output::Connect(slot));
        slot
    }

    /// Sets a connection's timer to when it has to be looked at.
    pub(crate) fn set_timer(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let due = connection.due();
        self.timers.reset(&mut connection.timer, due, Timer::Connection(slot));
    }

    /// Closes a connection.
    pub(crate) fn close_connection(&mut self, slot: usize) -> Connection {
        let connection = self.connections.remove(slot);
        if let Some(prefix) = self.connections_of.remove(&slot) {
            self.connection_quota.give_back(prefix);
        }
        self.timers.clear(connection.timer, Timer::Connection(slot));
        self.outputs.push_back(Output::CloseConnection(slot));
        connection
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::questions::question::Question;
    use crate::questions::shares::tests::prefix;

    const START: Duration = Duration::from_secs(100);

    /// A network of so many sockets, and a connection on it.
    fn connected(max_sockets: usize) -> (Network, usize) {
        let mut network = Network::new(2, max_sockets);
        let slot = network.begin_connection(ClientPrefix::OURS, Connection::new(1, START));
        (network, slot)
    }

    /// Puts a query on the connection that expires at `expires`.
    fn call(network: &mut Network, slot: usize, expires: Duration) {
        let attempt = Attempt { upstream: 1, transport: Transport::Tcp, edns: true, late: false };
        let call = (Ticket::NONE, Rc::new(Question::probe()), attempt);
        let patience = expires - START;
        network.connections[slot].ask(call, 0, START, (patience, patience));
        network.set_timer(slot);
    }

    #[test]
    fn connections_that_nobody_uses_make_room() {
        let (mut network, slot) = connected(1);
        assert!(
            !network.has_socket() && network.can_open_socket() && network.connections.is_empty()
        );
        assert!(network.timers.is_empty(), "it took its timer along");
        let (mut network, slot_in_use) = connected(1);
        assert_eq!(slot, slot_in_use);
        call(&mut network, slot, START * 2);
        assert!(!network.can_open_socket() && !network.can_connect(), "somebody waits for a reply");
        assert_eq!((network.connection_to(1), network.connection_to(0)), (Some(slot), None));
    }

    #[test]
    fn a_connection_is_looked_at_when_its_first_query_expires_or_when_it_has_been_idle() {
        let (mut network, slot) = connected(8);
        let idle = network.connections[slot].due();
        assert!(idle > START);
        let soon = START + Duration::from_millis(800);
        call(&mut network, slot, soon);
        call(&mut network, slot, soon * 2);
        assert!(network.timers.due(soon - Duration::from_millis(1)).is_empty());
        assert_eq!(network.timers.due(soon)[..], [Timer::Connection(slot)]);
        let connection = &mut network.connections[slot];
        assert!(connection.expire(soon).is_some() && connection.expire(soon).is_none());
        assert!(connection.is_deaf_since(START));
        network.set_timer(slot);
        assert!(network.timers.due(soon).is_empty());
        assert_eq!(network.timers.due(soon * 2)[..], [Timer::Connection(slot)]);
        assert!(network.connections[slot].expire(soon * 2).is_some());
        assert_eq!(network.connections[slot].due(), idle);
    }

    #[test]
    fn calls_to_an_upstream_without_a_connection_do_not_hold_up_those_to_another() {
        let (mut network, slot) = connected(1);
        call(&mut network, slot, START * 2);
        let [blocked, connected] = [0, 1].map(|upstream| Attempt {
            upstream,
            transport: Transport::Tcp,
            edns: true,
            late: false,
        });
        let prefix = ClientPrefix::OURS;
        network.send(prefix, Ticket::NONE, blocked);
        network.send(prefix, Ticket::NONE, connected);
        assert_eq!(network.take_tcp_query(0), None, "all sockets are in use");
        let call = |attempt, connection| NextTcpQuery {
            prefix,
            ticket: Ticket::NONE,
            attempt,
            connection,
        };
        assert_eq!(network.take_tcp_query(1), Some(call(connected, Some(slot))));
        assert_eq!(network.take_tcp_query(1), None, "nobody else waits");
        network.close_connection(slot);
        assert_eq!(network.take_tcp_query(0), Some(call(blocked, None)));
    }

    #[test]
    fn audit_08_one_prefix_does_not_take_every_connection() {
        let mut network = Network::new(1, 18);
        let attempt = Attempt { upstream: 0, transport: Transport::Tcp, edns: true, late: false };
        let connect = |network: &mut Network, prefix| {
            let slot = network.begin_connection(prefix, Connection::new(0, START));
            while network.connections[slot].has_room() {
                call(network, slot, START * 2);
            }
        };
        for _ in 0..100 {
            network.send(prefix(1), Ticket::NONE, attempt);
        }
        while network.take_tcp_query(0).is_some() {
            connect(&mut network, prefix(1));
        }
        assert_eq!((network.connections.len(), network.tcp_queues[0].len()), (16, 84));
        network.send(prefix(2), Ticket::NONE, attempt);
        let taken = network.take_tcp_query(0).unwrap();
        assert_eq!(
            (taken.prefix, taken.connection),
            (prefix(2), None),
            "it has a connection of its own"
        );
    }

    #[test]
    fn a_full_connection_is_no_line() {
        let (mut network, slot) = connected(8);
        for _ in 0..1000 {
            if network.connection_to(1).is_none() {
                break;
            }
            call(&mut network, slot, START * 2);
        }
        assert_eq!(network.connections[slot].queries.len(), 32);
        while network.connections[slot].expire(START * 2).is_some() {}
        assert_eq!(network.connection_to(1), None, "who does not answer gets no more");
    }
}
