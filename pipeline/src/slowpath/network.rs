//! What one slow path thread has on the network: its sockets, the queries that wait to leave, and what
//! is due when. What it does with them is in [`super::exchange`].

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::time::Duration;

use arrayvec::ArrayVec;
use mio::{Events, Interest, Poll, Token};
use slab::Slab;

use super::pending::Ticket;
use super::plan::Attempt;
use super::tcp::Connection;
use super::udp::{Flight, MAX_DATAGRAM};

/// Sockets looked at in one turn; each may have replies to a whole flight, and misses wait meanwhile. What else
/// is ready is so at the next turn.
const MAX_READY: usize = 32;
/// Timers served in one turn.
pub(super) const MAX_DUE: usize = 256;
/// TCP connections a thread has open at once; each may hold a reply of 64 kB.
const MAX_TCP: usize = 256;

/// The network of one thread.
#[derive(Debug)]
pub(super) struct Network {
    poll: Poll,
    events: Events,
    pub(super) flights: Slab<Flight>,
    pub(super) connections: Slab<Connection>,
    /// By time.
    timers: BTreeSet<(Duration, Timer)>,
    /// Queries that wait for the next flight, by upstream, and whether each shall have an OPT record.
    pub(super) departures: Vec<VecDeque<(Ticket, bool)>>,
    /// The upstream whose queries leave first in this turn.
    pub(super) first: usize,
    /// Queries that wait for a connection.
    pub(super) calls: VecDeque<(Ticket, Attempt)>,
    /// Where datagrams are received.
    pub(super) buffer: Box<[u8; MAX_DATAGRAM]>,
    max_sockets: usize,
}

/// What is due at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The flight in this slot is given up.
    Flight(usize),
    /// The connection in this slot is given up.
    Connection(usize),
    /// The question's pause is over.
    Pause(Ticket),
    /// The question is given up if nobody waits for it.
    Abandon(Ticket),
}

/// A socket with something to tell.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ready {
    Flight(usize),
    Connection(usize),
}

impl Network {
    /// No socket yet, of `max_sockets` to so many upstreams.
    pub(super) fn new(upstreams: usize, max_sockets: usize) -> io::Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(MAX_READY),
            flights: Slab::new(),
            connections: Slab::new(),
            timers: BTreeSet::new(),
            departures: vec![VecDeque::new(); upstreams],
            first: 0,
            calls: VecDeque::new(),
            buffer: Box::new([0; MAX_DATAGRAM]),
            max_sockets,
        })
    }

    /// Which sockets have something to tell. Does not wait.
    pub(super) fn ready(&mut self) -> ArrayVec<Ready, MAX_READY> {
        let mut ready = ArrayVec::new();
        if self.flights.is_empty() && self.connections.is_empty() {
            return ready;
        }
        if let Err(error) = self.poll.poll(&mut self.events, Some(Duration::ZERO)) {
            // Interrupted by a signal: the next turn is soon.
            tracing::debug!("polling sockets: {error}");
            return ready;
        }
        ready.extend(self.events.iter().take(MAX_READY).map(|event| Ready::of(event.token())));
        ready
    }

    /// What is due by `now`, first things first, a bounded number at a time.
    pub(super) fn due(&mut self, now: Duration) -> ArrayVec<Timer, MAX_DUE> {
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

    /// Ends a question's pause at `time`.
    pub(super) fn pause_until(&mut self, time: Duration, ticket: Ticket) {
        self.timers.insert((time, Timer::Pause(ticket)));
    }

    /// Ends a question at `time` if nobody waits for it then.
    pub(super) fn abandon_at(&mut self, time: Duration, ticket: Ticket) {
        self.timers.insert((time, Timer::Abandon(ticket)));
    }

    /// Whether a socket may be opened. A process that runs out of descriptors fails in odd places.
    pub(super) fn may_open(&self) -> bool {
        self.flights.len() + self.connections.len() < self.max_sockets
    }

    /// Whether a TCP connection may be opened.
    pub(super) fn may_call(&self) -> bool {
        self.may_open() && self.connections.len() < MAX_TCP
    }

    /// Whether nothing waits to leave that could.
    pub(super) fn is_quiet(&self) -> bool {
        let nothing_departs = self.departures.iter().all(VecDeque::is_empty);
        (nothing_departs || !self.may_open()) && (self.calls.is_empty() || !self.may_call())
    }

    /// Keeps a flight and listens for its replies. It is kept, in the slot that is returned, even if that
    /// fails.
    pub(super) fn keep_flight(&mut self, mut flight: Flight) -> (usize, io::Result<()>) {
        let entry = self.flights.vacant_entry();
        let (slot, token) = (entry.key(), Ready::Flight(entry.key()).token());
        let registered =
            self.poll.registry().register(&mut flight.socket, token, Interest::READABLE);
        self.timers.insert((flight.expires, Timer::Flight(slot)));
        entry.insert(flight);
        (slot, registered)
    }

    /// Closes a flight's port.
    pub(super) fn close_flight(&mut self, slot: usize) -> Flight {
        let flight = self.flights.remove(slot);
        self.timers.remove(&(flight.expires, Timer::Flight(slot)));
        flight
    }

    /// Keeps a connection and listens to it.
    pub(super) fn keep_connection(&mut self, mut connection: Connection) -> io::Result<()> {
        let entry = self.connections.vacant_entry();
        let (slot, token) = (entry.key(), Ready::Connection(entry.key()).token());
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut connection.stream, token, both)?;
        self.timers.insert((connection.expires, Timer::Connection(slot)));
        entry.insert(connection);
        Ok(())
    }

    /// Closes a connection.
    pub(super) fn close_connection(&mut self, slot: usize) -> Connection {
        let connection = self.connections.remove(slot);
        self.timers.remove(&(connection.expires, Timer::Connection(slot)));
        connection
    }
}

impl Ready {
    /// Flights have even tokens, connections odd ones.
    fn token(self) -> Token {
        match self {
            Self::Flight(slot) => Token(2 * slot),
            Self::Connection(slot) => Token(2 * slot + 1),
        }
    }

    fn of(token: Token) -> Self {
        match token.0 % 2 {
            0 => Self::Flight(token.0 / 2),
            _ => Self::Connection(token.0 / 2),
        }
    }
}
