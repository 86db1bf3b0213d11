//! What one slow path thread has on the network: flights and connections, the queries that wait to leave, and what
//! is due when. What it does with them is in [`crate::upstreams::exchange`]; their sockets are in [`super::kernel`].

use std::collections::{BTreeSet, HashMap, VecDeque};
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
use crate::upstreams::tcp::Connection;
use crate::upstreams::udp::Flight;

/// Timers served in one turn.
pub(crate) const MAX_DUE: usize = 256;
/// TCP connections a thread has open at once; each may hold a reply of 64 kB.
const MAX_TCP: usize = 256;

/// The network of one thread.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) flights: Slab<Flight>,
    pub(crate) connections: Slab<Connection>,
    /// Flights all of whose queries are late, and when they left; some have ended since.
    late: VecDeque<(usize, Duration)>,
    /// By time.
    timers: BTreeSet<(Duration, Timer)>,
    /// Queries that wait for the next flight, by upstream.
    pub(crate) departures: Vec<RoundRobin<(Ticket, Attempt)>>,
    /// The upstream whose queries leave first in this turn.
    pub(crate) first: usize,
    /// Queries that wait for a connection, by upstream: one that keeps its calls waiting holds up no others.
    pub(crate) calls: Vec<RoundRobin<(Ticket, Attempt)>>,
    /// Who has how many sockets for flights, and connections. A flight is its first passenger's, who takes along others
    /// as far as there are seats; a connection is that of its first call.
    flight_quota: Quota,
    connection_quota: Quota,
    /// Whose each flight is, and each connection, by slot.
    flights_of: HashMap<usize, ClientPrefix>,
    connections_of: HashMap<usize, ClientPrefix>,
    /// What is to be done, in this order.
    pub(crate) outputs: VecDeque<Output>,
    max_sockets: usize,
    /// Whether in this turn something could not leave because its prefix has its part of the sockets.
    pub(crate) is_held_back: bool,
}

/// What is due at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The flight in this slot is given up.
    Flight(usize),
    /// The connection in this slot has something to give up.
    Connection(usize),
    /// The question's pause is over.
    Pause(Ticket),
    /// The question's first query takes longer than usual.
    Hedge(Ticket),
    /// The question is given up if nobody waits for it.
    Abandon(Ticket),
}

/// A query that leaves over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextCall {
    /// Whom it is charged to.
    pub(crate) prefix: ClientPrefix,
    pub(crate) ticket: Ticket,
    pub(crate) attempt: Attempt,
    /// The connection that it goes over; none: a new one.
    pub(crate) line: Option<usize>,
}

impl Network {
    /// No socket yet, of `max_sockets` to so many upstreams.
    pub(crate) fn new(upstreams: usize, max_sockets: usize) -> Self {
        Self {
            flights: Slab::new(),
            connections: Slab::new(),
            late: VecDeque::new(),
            timers: BTreeSet::new(),
            departures: (0..upstreams).map(|_| RoundRobin::default()).collect(),
            first: 0,
            calls: (0..upstreams).map(|_| RoundRobin::default()).collect(),
            flight_quota: Quota::new(max_sockets),
            connection_quota: Quota::new(max_sockets.min(MAX_TCP)),
            flights_of: HashMap::new(),
            connections_of: HashMap::new(),
            outputs: VecDeque::new(),
            max_sockets,
            is_held_back: false,
        }
    }

    /// What is due by `now`, first things first, a bounded number at a time.
    pub(crate) fn due(&mut self, now: Duration) -> ArrayVec<Timer, MAX_DUE> {
        let mut due = ArrayVec::new();
        while let Some((time, timer)) = self.timers.first().copied()
            && time <= now
            && !due.is_full()
        {
            self.timers.pop_first();
            due.push(timer);
        }
        due
    }

    /// Lets `timer` come due at `time`.
    pub(crate) fn wake_at(&mut self, time: Duration, timer: Timer) {
        self.timers.insert((time, timer));
    }

    /// Lets a query that is charged to `prefix` wait until it can leave.
    pub(crate) fn send(&mut self, prefix: ClientPrefix, ticket: Ticket, attempt: Attempt) {
        match attempt.transport {
            Transport::Udp | Transport::Alone => {
                self.departures[attempt.upstream].push(prefix, (ticket, attempt));
            }
            Transport::Tcp => self.calls[attempt.upstream].push(prefix, (ticket, attempt)),
        }
    }

    /// Takes out those that wait for a flight to this upstream and may leave in one, at most so many, and says whose it is.
    /// Prefixes take turns to lead a flight, and to have a seat in it. Nothing, if nobody may lead one.
    pub(crate) fn take_departures(
        &mut self,
        upstream: usize,
        most: usize,
    ) -> Option<(ClientPrefix, ArrayVec<(Ticket, Attempt), MAX_QUERIES_PER_PORT>)> {
        let Self { departures, flight_quota, .. } = self;
        let waiting = &mut departures[upstream];
        let leader = waiting.pop(|prefix, _| flight_quota.has_room_for(*prefix));
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

    /// Whether a flight may leave. Connections that nobody uses make room for it.
    pub(crate) fn may_fly(&mut self) -> bool {
        self.has_socket() || self.close_idle()
    }

    /// Whether a TCP connection may be opened, as [`Network::may_fly`].
    pub(crate) fn may_connect(&mut self) -> bool {
        self.has_connection() || self.close_idle()
    }

    /// A connection to this upstream that another query may go over.
    pub(crate) fn line_to(&self, upstream: usize) -> Option<usize> {
        let mut lines = self.connections.iter();
        lines.find(|(_, line)| line.upstream == upstream && line.has_room()).map(|(slot, _)| slot)
    }

    /// Takes out the next call to this upstream, and the connection that it may go over; none: a new one. Nothing, if
    /// no call waits or there is no connection for it.
    pub(crate) fn take_call(&mut self, upstream: usize) -> Option<NextCall> {
        if self.calls[upstream].is_empty() {
            return None;
        }
        let line = self.line_to(upstream);
        if line.is_none() && !self.may_connect() {
            return None;
        }
        let quota = &self.connection_quota;
        let may_go = |&prefix: &_, _: &_| line.is_some() || quota.has_room_for(prefix);
        let next = self.calls[upstream].pop(may_go);
        self.is_held_back |= next.is_none();
        next.map(|(prefix, (ticket, attempt))| NextCall { prefix, ticket, attempt, line })
    }

    /// Whether a socket is left. A process that runs out of descriptors fails in odd places.
    fn has_socket(&self) -> bool {
        self.flights.len() + self.connections.len() < self.max_sockets
    }

    fn has_connection(&self) -> bool {
        self.has_socket() && self.connections.len() < MAX_TCP
    }

    /// Closes the connection that nobody has used for longest; `false`: all are in use.
    fn close_idle(&mut self) -> bool {
        let idle = self.connections.iter().filter(|(_, line)| line.calls.is_empty());
        let Some((slot, _)) = idle.min_by_key(|(_, line)| line.due()) else { return false };
        self.close_connection(slot);
        true
    }

    /// Whether nothing waits to leave that could.
    pub(crate) fn is_quiet(&self) -> bool {
        let nothing_departs = self.departures.iter().all(RoundRobin::is_empty);
        let nobody_calls = self.calls.iter().all(RoundRobin::is_empty);
        let may_depart = self.has_socket() && !self.is_held_back;
        let may_call = self.has_connection() && !self.is_held_back;
        (nothing_departs || !may_depart) && (nobody_calls || !may_call)
    }

    /// Lets a flight of `prefix` leave, and says in which slot it is.
    pub(crate) fn begin_flight(&mut self, prefix: ClientPrefix, flight: Flight) -> usize {
        let timer = flight.timer;
        let slot = self.flights.insert(flight);
        self.timers.insert((timer, Timer::Flight(slot)));
        self.flight_quota.take(prefix);
        self.flights_of.insert(slot, prefix);
        self.outputs.push_back(Output::SendFlight(slot));
        slot
    }

    /// Sets a flight's timer to when it has to be looked at.
    pub(crate) fn set_flight_timer(&mut self, slot: usize) {
        let flight = &mut self.flights[slot];
        let due = flight.due();
        let before = std::mem::replace(&mut flight.timer, due);
        self.timers.remove(&(before, Timer::Flight(slot)));
        self.timers.insert((flight.timer, Timer::Flight(slot)));
    }

    /// Some queries of a flight have become late. If all are, it makes room for others where sockets are short.
    pub(crate) fn note_late(&mut self, slot: usize) {
        if let Some(flight) = self.flights.get(slot).filter(|flight| flight.is_late()) {
            let late = (slot, flight.sent);
            self.stop_charging(slot);
            self.forget_late();
            self.late.push_back(late);
        }
    }

    /// The flight that has been late for longest.
    pub(crate) fn take_late(&mut self) -> Option<usize> {
        self.forget_late();
        self.late.pop_front().map(|(slot, _)| slot)
    }

    /// Drops the first flights that have ended. Another one may have the slot by now.
    fn forget_late(&mut self) {
        let flights = &self.flights;
        let is_there = |(slot, sent): &(usize, Duration)| {
            flights.get(*slot).is_some_and(|flight| flight.sent == *sent && flight.is_late())
        };
        while self.late.front().is_some_and(|late| !is_there(late)) {
            self.late.pop_front();
        }
    }

    /// Charges nobody for a flight any more: it has ended, or makes room whenever there is need.
    fn stop_charging(&mut self, slot: usize) {
        if let Some(prefix) = self.flights_of.remove(&slot) {
            self.flight_quota.give_back(prefix);
        }
    }

    /// Closes a flight's port.
    pub(crate) fn close_flight(&mut self, slot: usize) -> Flight {
        let flight = self.flights.remove(slot);
        self.stop_charging(slot);
        self.timers.remove(&(flight.timer, Timer::Flight(slot)));
        self.outputs.push_back(Output::CloseFlight(slot));
        flight
    }

    /// Begins a connection of `prefix`, and says in which slot it is.
    pub(crate) fn begin_connection(
        &mut self,
        prefix: ClientPrefix,
        connection: Connection,
    ) -> usize {
        let timer = connection.timer;
        let slot = self.connections.insert(connection);
        self.timers.insert((timer, Timer::Connection(slot)));
        self.connection_quota.take(prefix);
        self.connections_of.insert(slot, prefix);
        self.outputs.push_back(Output::Connect(slot));
        slot
    }

    /// Sets a connection's timer to when it has to be looked at.
    pub(crate) fn set_timer(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let due = connection.due();
        let before = std::mem::replace(&mut connection.timer, due);
        self.timers.remove(&(before, Timer::Connection(slot)));
        self.timers.insert((connection.timer, Timer::Connection(slot)));
    }

    /// Closes a connection.
    pub(crate) fn close_connection(&mut self, slot: usize) -> Connection {
        let connection = self.connections.remove(slot);
        if let Some(prefix) = self.connections_of.remove(&slot) {
            self.connection_quota.give_back(prefix);
        }
        self.timers.remove(&(connection.timer, Timer::Connection(slot)));
        self.outputs.push_back(Output::CloseConnection(slot));
        connection
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::questions::query::Question;
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
        network.connections[slot].call(call, 0, START, (patience, patience));
        network.set_timer(slot);
    }

    #[test]
    fn connections_that_nobody_uses_make_room() {
        let (mut network, slot) = connected(1);
        assert!(!network.has_socket() && network.may_fly() && network.connections.is_empty());
        assert!(network.timers.is_empty(), "it took its timer along");
        let (mut network, slot_in_use) = connected(1);
        assert_eq!(slot, slot_in_use);
        call(&mut network, slot, START * 2);
        assert!(!network.may_fly() && !network.may_connect(), "somebody waits for a reply");
        assert_eq!((network.line_to(1), network.line_to(0)), (Some(slot), None));
    }

    #[test]
    fn a_connection_is_looked_at_when_its_first_query_expires_or_when_it_has_been_idle() {
        let (mut network, slot) = connected(8);
        let idle = network.connections[slot].due();
        assert!(idle > START);
        let soon = START + Duration::from_millis(800);
        call(&mut network, slot, soon);
        call(&mut network, slot, soon * 2);
        assert!(network.due(soon - Duration::from_millis(1)).is_empty());
        assert_eq!(network.due(soon)[..], [Timer::Connection(slot)]);
        let connection = &mut network.connections[slot];
        assert!(connection.expire(soon).is_some() && connection.expire(soon).is_none());
        assert!(connection.is_deaf_since(START));
        network.set_timer(slot);
        assert!(network.due(soon).is_empty());
        assert_eq!(network.due(soon * 2)[..], [Timer::Connection(slot)]);
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
        assert_eq!(network.take_call(0), None, "all sockets are in use");
        let call = |attempt, line| NextCall { prefix, ticket: Ticket::NONE, attempt, line };
        assert_eq!(network.take_call(1), Some(call(connected, Some(slot))));
        assert_eq!(network.take_call(1), None, "nobody else waits");
        network.close_connection(slot);
        assert_eq!(network.take_call(0), Some(call(blocked, None)));
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
        while network.take_call(0).is_some() {
            connect(&mut network, prefix(1));
        }
        assert_eq!((network.connections.len(), network.calls[0].len()), (16, 84));
        network.send(prefix(2), Ticket::NONE, attempt);
        let taken = network.take_call(0).unwrap();
        assert_eq!((taken.prefix, taken.line), (prefix(2), None), "it has a connection of its own");
    }

    #[test]
    fn a_full_connection_is_no_line() {
        let (mut network, slot) = connected(8);
        for _ in 0..1000 {
            if network.line_to(1).is_none() {
                break;
            }
            call(&mut network, slot, START * 2);
        }
        assert_eq!(network.connections[slot].calls.len(), 32);
        while network.connections[slot].expire(START * 2).is_some() {}
        assert_eq!(network.line_to(1), None, "who does not answer gets no more");
    }
}
