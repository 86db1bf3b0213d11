//! Questions that are asked over TCP, because the reply over UDP was truncated or could not be trusted.

use std::io;
use std::net::IpAddr;

use super::{Replied, Upstreams};
use crate::counters::shared::count;
use crate::output::Output;
use crate::questions::pending::Pending;
use crate::questions::plan::{Plan, TryFailure};
use crate::questions::prefixes::ClientPrefix;
use crate::upstreams::connection::{Connection, Next, TcpQuery};
use crate::upstreams::network::NextTcpQuery;
use crate::upstreams::query::{Proof, Try};

impl Upstreams {
    /// Sends the TCP queries to an upstream that wait, as far as there are connections for them.
    pub(super) fn send_tcp_queries(&mut self, upstream: usize, pending: &mut Pending<Plan>) {
        // The first queries in the queue may belong to questions that have ended meanwhile.
        self.network.tcp_queues[upstream].forget(|(ticket, _)| pending.find(*ticket).is_none());
        for _ in 0..self.network.tcp_queues[upstream].len() {
            let Some(next) = self.network.take_tcp_query(upstream) else { return };
            self.send_tcp_query(next, pending);
        }
    }

    /// Asks over a connection.
    fn send_tcp_query(&mut self, next: NextTcpQuery, pending: &mut Pending<Plan>) {
        let NextTcpQuery { prefix, ticket, attempt, connection } = next;
        let Some((question, _)) = pending.find(ticket) else { return };
        let upstream = attempt.upstream;
        let asked = Try { ticket, question: self.peers.as_sent(question, upstream), attempt };
        let id = match self.random.u16() {
            Ok(id) => id,
            Err(error) => {
                self.note_socket_error(&error);
                return self.fail(ticket, attempt, TryFailure::Unreachable);
            }
        };
        let begun = connection.or_else(|| self.connect(prefix, upstream));
        let Some(slot) = begun else { return self.fail(ticket, attempt, TryFailure::Unreachable) };
        // TCP repeats lost segments itself, so the question is not asked again before the upstream counts as late.
        let patience = (self.peers.usual_patience(upstream), self.deadline);
        self.network.connections[slot].ask(asked, id, self.peers.now, patience);
        self.network.set_connection_timer(slot);
        self.network.outputs.push_back(Output::Write(slot));
        count(&self.peers.counters(upstream).tcp);
    }

    /// Begins a connection of `prefix` to an upstream that is not encrypted, and returns its slot.
    fn connect(&mut self, prefix: ClientPrefix, upstream: usize) -> Option<usize> {
        let route = self.peers.route(upstream)?;
        let connection = Connection::new(upstream, self.peers.now);
        let slot = self.network.begin_connection(prefix, connection);
        self.network.outputs.push_back(Output::Connect { slot, route });
        Some(slot)
    }

    /// The bytes to send over a connection. `local` gives the local address of its socket.
    pub(crate) fn outgoing(
        &mut self,
        slot: usize,
        local: impl FnOnce() -> Option<IpAddr>,
    ) -> &[u8] {
        let Some(connection) = self.network.connections.get(slot) else { return &[] };
        if connection.has_unwritten() {
            let cookie = self.peers.cookie_for(connection.upstream, local);
            self.network.connections[slot].write(cookie.as_ref());
        }
        self.network.connections[slot].outgoing()
    }

    /// `len` of these bytes have been sent.
    pub(crate) fn note_sent(&mut self, slot: usize, len: usize) {
        if let Some(connection) = self.network.connections.get_mut(slot) {
            connection.note_sent(len);
        }
    }

    /// Whether there is a connection in this slot.
    pub(crate) fn has_connection(&self, slot: usize) -> bool {
        self.network.connections.contains(slot)
    }

    /// Takes in what has come over a connection.
    pub(crate) fn receive(&mut self, slot: usize, bytes: &[u8]) {
        if let Some(connection) = self.network.connections.get_mut(slot) {
            connection.receive(bytes);
        }
    }

    /// The next whole reply on a connection.
    pub(crate) fn next_tcp_reply(&mut self, slot: usize) -> Option<(Replied, Vec<u8>)> {
        let connection = self.network.connections.get_mut(slot)?;
        let upstream = connection.upstream;
        match connection.next_reply(self.peers.now) {
            Next::Reply(query, reply) => {
                self.peers.note_reply(upstream, query.sent, query.ticket, &reply);
                self.peers.note_tcp_cookie(&query, &reply);
                let TcpQuery { ticket, question, attempt, .. } = query;
                Some((Replied { ticket, question, attempt, proof: Proof::Firm }, reply))
            }
            Next::Nothing => {
                self.network.set_connection_timer(slot);
                None
            }
            Next::Senseless => {
                let why = "a reply to what was never asked";
                self.break_connection(slot, &io::Error::new(io::ErrorKind::InvalidData, why));
                None
            }
        }
    }

    /// No socket could be opened for a connection.
    pub(crate) fn fail_connection(&mut self, slot: usize, error: &io::Error) {
        if self.network.connections.contains(slot) {
            self.note_socket_error(error);
            for query in self.network.close_connection(slot).queries {
                self.fail(query.ticket, query.attempt, TryFailure::Unreachable);
            }
        }
    }

    /// A connection has ended, by itself or because of a reply that made no sense. A server may close a connection that
    /// is idle, or that has brought replies. Its queries are sent again over another one (RFC 7766 section 6.2.4).
    pub(crate) fn break_connection(&mut self, slot: usize, error: &io::Error) {
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
        self.peers.note_error(upstream, opened, error, queries.len());
        for query in queries {
            self.fail(query.ticket, query.attempt, TryFailure::of(error));
        }
    }

    /// Gives up the queries that are due on a connection. If nothing has come since the first of them left, the
    /// connection is closed. An idle connection is closed as well.
    pub(super) fn serve_connection(&mut self, slot: usize) {
        let Some(connection) = self.network.connections.get_mut(slot) else { return };
        let upstream = connection.upstream;
        let late = connection.take_late(self.peers.now);
        let silent: Vec<TcpQuery> =
            std::iter::from_fn(|| connection.expire(self.peers.now)).collect();
        let is_deaf = silent.last().is_some_and(|query| connection.is_deaf_since(query.sent));
        if is_deaf || connection.due() <= self.peers.now {
            let closed = self.network.close_connection(slot);
            self.send_again(closed.queries);
        } else {
            self.network.set_connection_timer(slot);
        }
        for (ticket, attempt, sent) in late {
            self.peers.note_retry(upstream, sent);
            self.peers.note_timeout(upstream, sent);
            self.fail(ticket, attempt, TryFailure::Late);
        }
        for query in silent {
            self.fail(query.ticket, query.attempt, TryFailure::Silent);
        }
    }

    fn send_again(&mut self, queries: impl IntoIterator<Item = TcpQuery>) {
        for TcpQuery { ticket, attempt, .. } in queries {
            // A late query has already been followed by another.
            match attempt.late {
                true => self.fail(ticket, attempt, TryFailure::Silent),
                false => self.unsent.push((ticket, attempt)),
            }
        }
    }
}
