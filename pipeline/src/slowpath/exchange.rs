//! Exchanges: questions put to the upstreams, until one of them answers, the plan gives up, or nobody waits
//! for the answer any more.
//!
//! Here plans meet the network: what a plan says is carried out, and the plan is told what came of it.

use std::io;
use std::rc::Rc;

use arrayvec::ArrayVec;
use pmdns_config::limits::MAX_QUERIES_PER_PORT;
use pmdns_stages::cache::{Entry, Lifetimes};
use pmdns_stages::wire::dns::Rcode;

use super::counters::{UpstreamCounters, add, count};
use super::desk::{Desk, Outcome};
use super::network::{Ready, Timer};
use super::pending::Ticket;
use super::plan::{Attempt, Next, Setback, Transport};
use super::query::{Face, Question};
use super::tcp::{self, Connection};
use super::udp::{self, Flight, InFlight, Received};

impl Desk {
    /// Does the next thing of a question's plan. A question that has ended needs nothing.
    pub(super) fn advance(&mut self, ticket: Ticket) {
        let Some((_, plan)) = self.pending.find(ticket) else { return };
        match plan.next() {
            Next::Try(attempt) if attempt.transport == Transport::Udp => {
                self.network.departures[attempt.upstream].push_back((ticket, attempt.edns));
            }
            Next::Try(attempt) => self.network.calls.push_back((ticket, attempt)),
            Next::Pause(pause) => self.network.pause_until(self.now + pause, ticket),
            Next::GiveUp => self.settle(ticket, &Outcome::Failure),
        }
    }

    /// Hears every socket that has something to tell, and says how many had.
    pub(super) fn hear(&mut self) -> usize {
        let ready = self.network.ready();
        for socket in &ready {
            match *socket {
                Ready::Flight(slot) => self.hear_flight(slot),
                Ready::Connection(slot) => self.hear_connection(slot),
            }
        }
        ready.len()
    }

    /// Gives up what is due, and goes on after pauses.
    pub(super) fn serve_timers(&mut self) {
        for timer in self.network.due(self.now) {
            match timer {
                Timer::Flight(slot) => self.end_flight(slot, Setback::Silent),
                Timer::Connection(slot) => self.end_connection(slot, Setback::Silent),
                Timer::Pause(ticket) => self.advance(ticket),
                Timer::Abandon(ticket) => self.abandon(ticket),
            }
        }
    }

    /// Sends what waits to be sent, as far as there are sockets for it.
    pub(super) fn depart(&mut self) {
        // What fails at once and waits again does so until the next turn.
        for _ in 0..self.network.calls.len() {
            if !self.network.may_call() {
                break;
            }
            if let Some((ticket, attempt)) = self.network.calls.pop_front() {
                self.call(ticket, attempt);
            }
        }
        // Another upstream is the first each turn: where sockets are short, none has them all.
        let upstreams = self.upstreams.len();
        self.network.first = (self.network.first + 1) % upstreams.max(1);
        for offset in 0..upstreams {
            let upstream = (self.network.first + offset) % upstreams;
            let flights = self.network.departures[upstream].len().div_ceil(self.queries_per_port);
            for _ in 0..flights {
                if !self.network.may_open() {
                    return;
                }
                self.send_flight(upstream);
            }
        }
    }

    /// Sends the first of those who wait for a flight to this upstream.
    fn send_flight(&mut self, upstream: usize) {
        let Self { network, pending, .. } = self;
        let waiting = &mut network.departures[upstream];
        let size = waiting.len().min(self.queries_per_port);
        // Of some the clients have gone while they waited.
        let passengers: ArrayVec<_, MAX_QUERIES_PER_PORT> = waiting
            .drain(..size)
            .filter_map(|(ticket, edns)| Some((ticket, Rc::clone(pending.find(ticket)?.0), edns)))
            .collect();
        if passengers.is_empty() {
            return;
        }
        let to = &self.upstreams[upstream];
        let (socket, ids) = match udp::socket(to.source, to.address) {
            Ok(opened) => opened,
            Err(error) => {
                self.note_socket_error(&error);
                for (ticket, _, edns) in passengers {
                    self.learn(ticket, udp_attempt(upstream, edns), Setback::Unreachable);
                }
                return;
            }
        };
        let connected = socket.connect(to.address);
        let queries = passengers
            .into_iter()
            .zip(ids)
            .map(|((ticket, question, edns), id)| InFlight { ticket, question, edns, id })
            .collect();
        let expires = self.now + self.patience(upstream);
        let flight = Flight::new(upstream, self.now, expires, socket, queries);
        add(&self.upstream_counters[upstream].queries, flight.left().len() as u64);
        let (slot, registered) = self.network.keep_flight(flight);
        let departed = connected.and(registered).and_then(|()| self.network.flights[slot].depart());
        if let Err(error) = departed {
            self.break_flight(slot, &error);
        }
    }

    /// Receives what has come for a flight.
    fn hear_flight(&mut self, slot: usize) {
        while let Some(flight) = self.network.flights.get_mut(slot) {
            let (upstream, sent) = (flight.upstream, flight.sent);
            match flight.receive(&mut self.network.buffer) {
                Ok(Received::Nothing) => return,
                Ok(Received::Reply(query, len)) => {
                    if flight.left().is_empty() {
                        self.network.close_flight(slot);
                    }
                    self.note_reply(upstream, sent);
                    let attempt = udp_attempt(upstream, query.edns);
                    let reply = &self.network.buffer[..len];
                    let answer = self.read(&query.question, attempt, reply);
                    self.conclude(query.ticket, attempt, answer);
                }
                Ok(Received::Mismatch) => count(&self.upstream_counters[upstream].mismatched),
                Ok(Received::Flood) => {
                    count(&self.upstream_counters[upstream].mismatched);
                    self.end_flight(slot, Setback::NeedsTcp);
                }
                Err(error) => self.break_flight(slot, &error),
            }
        }
    }

    /// Ends a flight that the network returned an error to.
    fn break_flight(&mut self, slot: usize, error: &io::Error) {
        let flight = &self.network.flights[slot];
        let (upstream, sent, lost) = (flight.upstream, flight.sent, flight.left().len());
        self.note_broken(upstream, error, lost as u64);
        self.note_failure(upstream, sent);
        self.end_flight(slot, Setback::Unreachable);
    }

    /// Closes a flight's port. Those without a reply go on otherwise.
    fn end_flight(&mut self, slot: usize, setback: Setback) {
        let flight = self.network.close_flight(slot);
        for query in flight.left() {
            if setback == Setback::Silent {
                self.note_timeout(flight.upstream, flight.sent);
            }
            self.learn(query.ticket, udp_attempt(flight.upstream, query.edns), setback);
        }
    }

    /// Asks over TCP.
    fn call(&mut self, ticket: Ticket, attempt: Attempt) {
        let Some((question, _)) = self.pending.find(ticket) else { return };
        let question = Rc::clone(question);
        let to = &self.upstreams[attempt.upstream];
        let socket = match tcp::socket(to.source, to.address) {
            Ok(socket) => socket,
            Err(error) => {
                self.note_socket_error(&error);
                return self.learn(ticket, attempt, Setback::Unreachable);
            }
        };
        count(&self.upstream_counters[attempt.upstream].tcp);
        let expires = self.now + self.patience(attempt.upstream);
        let opened =
            Connection::open(socket, to.address, (ticket, question, attempt), self.now, expires)
                .and_then(|connection| self.network.keep_connection(connection));
        if let Err(error) = opened {
            self.note_broken(attempt.upstream, &error, 1);
            self.note_failure(attempt.upstream, self.now);
            self.learn(ticket, attempt, Setback::Unreachable);
        }
    }

    /// Goes on with a connection.
    fn hear_connection(&mut self, slot: usize) {
        let Some(connection) = self.network.connections.get_mut(slot) else { return };
        let (upstream, opened) = (connection.attempt.upstream, connection.opened);
        match connection.progress() {
            Ok(false) => {}
            Ok(true) => {
                let connection = self.network.close_connection(slot);
                self.note_reply(upstream, opened);
                let answer =
                    self.read(&connection.question, connection.attempt, connection.reply());
                self.conclude(connection.ticket, connection.attempt, answer);
            }
            Err(error) => {
                self.note_broken(upstream, &error, 1);
                self.note_failure(upstream, opened);
                self.end_connection(slot, Setback::Unreachable);
            }
        }
    }

    /// Closes a connection that brought no reply.
    fn end_connection(&mut self, slot: usize, setback: Setback) {
        let connection = self.network.close_connection(slot);
        if setback == Setback::Silent {
            self.note_timeout(connection.attempt.upstream, connection.opened);
        }
        self.learn(connection.ticket, connection.attempt, setback);
    }

    /// Ends a question with its answer, or goes on with its plan.
    fn conclude(&mut self, ticket: Ticket, attempt: Attempt, answer: Result<Entry, Setback>) {
        match answer {
            Ok(entry) => self.settle(ticket, &Outcome::Answer(entry)),
            Err(setback) => self.learn(ticket, attempt, setback),
        }
    }

    /// Tells a question's plan what an attempt came to, and goes on.
    fn learn(&mut self, ticket: Ticket, attempt: Attempt, setback: Setback) {
        if let Some((_, plan)) = self.pending.find(ticket) {
            plan.learn(attempt, setback);
        }
        self.advance(ticket);
    }

    fn read(&self, question: &Question, attempt: Attempt, reply: &[u8]) -> Result<Entry, Setback> {
        let counters = &self.upstream_counters[attempt.upstream];
        read(question, attempt.edns, reply, self.context.seconds, &self.lifetimes, counters)
    }
}

fn udp_attempt(upstream: usize, edns: bool) -> Attempt {
    Attempt { upstream, transport: Transport::Udp, edns }
}

/// Makes an entry of a reply that is known to belong to its query.
///
/// An upstream's SERVFAIL, REFUSED and the like say that *it* has no answer: the next one is asked, and
/// if none has any, the client gets SERVFAIL, as from other forwarders. To pass on REFUSED would tell the
/// client that we refuse to serve it.
fn read(
    question: &Question,
    edns: bool,
    reply: &[u8],
    seconds: u32,
    lifetimes: &Lifetimes,
    counters: &UpstreamCounters,
) -> Result<Entry, Setback> {
    match Face::of(reply) {
        Face::Answer => {
            let (key, hash) = (question.key(), question.hash());
            let Ok(entry) = Entry::from_reply(reply, key, hash, seconds, lifetimes) else {
                count(&counters.malformed);
                return Err(Setback::NeedsTcp);
            };
            // BADVERS and its like show in the OPT record only (RFC 6891 section 6.1.3).
            if !matches!(entry.head().rcode, Rcode::NOERROR | Rcode::NXDOMAIN) {
                count(&counters.rcode_failures);
                return Err(Setback::Refused);
            }
            Ok(entry)
        }
        Face::Truncated => Err(Setback::NeedsTcp),
        Face::FormatError if edns => {
            count(&counters.rcode_failures);
            Err(Setback::NeedsPlainDns)
        }
        Face::FormatError | Face::Failure => {
            count(&counters.rcode_failures);
            Err(Setback::Refused)
        }
    }
}
