//! Questions put to an upstream over TCP, because the reply over UDP was cut or could not be trusted.

use std::io;
use std::net::IpAddr;
use std::rc::Rc;

use crate::counters::count;
use crate::output::Output;
use crate::questions::plan::TryFailure;
use crate::questions::query::Proof;
use crate::resolver::Resolver;
use crate::upstreams::connection::{Connection, Next, TcpQuery};
use crate::upstreams::exchange::Route;
use crate::upstreams::network::NextTcpQuery;

impl Resolver {
    /// Sends the TCP queries to an upstream that wait, as far as there are connections for them.
    pub(crate) fn send_tcp_queries(&mut self, upstream: usize) {
        // What fails at once and waits again does so until the next turn.
        self.forget_tcp_queries(upstream);
        for _ in 0..self.network.tcp_queues[upstream].len() {
            let Some(next) = self.network.take_tcp_query(upstream) else { return };
            self.send_tcp_query(next);
        }
    }

    /// Drops the first TCP queries to an upstream whose questions have ended while they waited.
    fn forget_tcp_queries(&mut self, upstream: usize) {
        let Self { network, pending, .. } = self;
        network.tcp_queues[upstream].forget(|(ticket, _)| pending.find(*ticket).is_none());
    }

    /// Asks over a connection.
    fn send_tcp_query(&mut self, next: NextTcpQuery) {
        let NextTcpQuery { prefix, ticket, attempt, connection } = next;
        let Some((question, _)) = self.pending.find(ticket) else { return };
        let question = Rc::clone(question);
        let upstream = attempt.upstream;
        let query = (ticket, self.as_told(&question, upstream), attempt);
        let id = match self.random.u16() {
            Ok(id) => id,
            Err(error) => {
                self.note_socket_error(&error);
                return self.learn(ticket, attempt, TryFailure::Unreachable);
            }
        };
        let slot = connection.unwrap_or_else(|| {
            self.network.begin_connection(prefix, Connection::new(upstream, self.now))
        });
        // A connection makes up for losses itself: nothing is gained by asking again before the upstream is at fault.
        let patience = (self.usual_patience(upstream), self.deadline);
        self.network.connections[slot].ask(query, id, self.now, patience);
        self.network.set_timer(slot);
        self.network.outputs.push_back(Output::Write(slot));
        count(&self.upstream_counters[upstream].tcp);
    }

    /// What is to be sent over a connection, whose address at our end is `local`.
    pub fn outgoing(&mut self, slot: usize, local: impl FnOnce() -> Option<IpAddr>) -> &[u8] {
        let Some(connection) = self.network.connections.get(slot) else { return &[] };
        if connection.has_unwritten() {
            let cookie = self.cookie_for(connection.upstream, local);
            self.network.connections[slot].write(cookie.as_ref());
        }
        self.network.connections[slot].outgoing()
    }

    /// So many bytes of that have been sent.
    pub fn note_sent(&mut self, slot: usize, len: usize) {
        if let Some(connection) = self.network.connections.get_mut(slot) {
            connection.note_sent(len);
        }
    }

    /// Whether there is a connection in this slot.
    pub fn has_connection(&self, slot: usize) -> bool {
        self.network.connections.contains(slot)
    }

    /// Where the connection in a slot goes to, and from where if the operator says so.
    pub fn route_of_connection(&self, slot: usize) -> Option<Route> {
        self.route(self.network.connections.get(slot)?.upstream)
    }

    /// Takes in what has come over a connection.
    pub fn hear_connection(&mut self, slot: usize, bytes: &[u8]) {
        if let Some(connection) = self.network.connections.get_mut(slot) {
            connection.receive(bytes);
        }
        while let Some(connection) = self.network.connections.get_mut(slot) {
            let upstream = connection.upstream;
            match connection.next_reply(self.now) {
                Next::Reply(query, reply) => {
                    self.note_reply(upstream, query.sent);
                    self.note_cookie(&query, &reply);
                    let answer = self.read(&query.question, query.attempt, Proof::Firm, &reply);
                    self.conclude(query.ticket, query.attempt, answer);
                }
                Next::Nothing => return self.network.set_timer(slot),
                Next::Senseless => {
                    let error = io::Error::new(
                        io::ErrorKind::InvalidData,
                        "a reply to what was never asked",
                    );
                    return self.break_connection(slot, &error);
                }
            }
        }
    }

    /// No socket could be opened for a connection.
    pub fn fail_connection(&mut self, slot: usize, error: &io::Error) {
        if self.network.connections.contains(slot) {
            self.note_socket_error(error);
            for query in self.network.close_connection(slot).queries {
                self.learn(query.ticket, query.attempt, TryFailure::Unreachable);
            }
        }
    }

    /// A connection has ended, by itself or because what came over it made no sense. To end one that is idle, or
    /// that has been of use, is the server's right: its queries are made again over another (RFC 7766 section 6.2.4).
    pub fn break_connection(&mut self, slot: usize, error: &io::Error) {
        if !self.network.connections.contains(slot) {
            return;
        }
        let Connection { upstream, opened, queries, .. } = match self.network.close_connection(slot)
        {
            useful if useful.has_replied() && error.kind() != io::ErrorKind::InvalidData => {
                return self.send_again(useful.queries);
            }
            useless => useless,
        };
        if queries.is_empty() {
            return;
        }
        self.note_broken(upstream, error, queries.len() as u64);
        self.note_failure(upstream, opened);
        for query in queries {
            self.learn(query.ticket, query.attempt, TryFailure::Unreachable);
        }
    }

    /// Gives up what is due on a connection. If nothing has come since that was sent, nothing more will, and the
    /// connection is closed; so is one that nobody has used for long.
    pub(crate) fn serve_connection(&mut self, slot: usize) {
        let Some(connection) = self.network.connections.get_mut(slot) else { return };
        let upstream = connection.upstream;
        let late = connection.take_late(self.now);
        let silent: Vec<TcpQuery> = std::iter::from_fn(|| connection.expire(self.now)).collect();
        let is_deaf = silent.last().is_some_and(|query| connection.is_deaf_since(query.sent));
        if is_deaf || connection.due() <= self.now {
            let closed = self.network.close_connection(slot);
            self.send_again(closed.queries);
        } else {
            self.network.set_timer(slot);
        }
        for (ticket, attempt, sent) in late {
            self.note_retry(upstream, sent);
            self.note_timeout(upstream, sent);
            self.learn(ticket, attempt, TryFailure::Late);
        }
        for query in silent {
            self.learn(query.ticket, query.attempt, TryFailure::Silent);
        }
    }

    fn send_again(&mut self, queries: impl IntoIterator<Item = TcpQuery>) {
        for TcpQuery { ticket, attempt, .. } in queries {
            // One that is late has been followed by another already.
            match attempt.late {
                true => self.learn(ticket, attempt, TryFailure::Silent),
                false => self.send(ticket, attempt),
            }
        }
    }
}
