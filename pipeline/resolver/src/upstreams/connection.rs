//! Queries over TCP (RFC 7766): many share one connection, which stays open for a while for later ones.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use arrayvec::ArrayVec;
use pmdns_config::narrow::to_u16;

use crate::questions::pending::Ticket;
use crate::questions::plan::Attempt;
use crate::questions::question::Question;
use crate::upstreams::cookies::Sent;
use crate::upstreams::query::{Query, Try};

/// Bytes of the length that precedes every message (RFC 1035 section 4.2.2). It limits a reply to 65,535 bytes.
/// [`crate::upstreams::network`] limits the number of connections.
const LENGTH_LEN: usize = 2;
/// The most queries without a reply on one connection. Some servers answer the first and close. Then all others are
/// asked again, so there should not be too many.
const MAX_QUERIES: usize = 32;
/// How long an idle connection stays open (RFC 7766 section 6.2.3).
const IDLE: Duration = Duration::from_secs(10);

/// A connection to an upstream.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Index of the upstream.
    pub(crate) upstream: usize,
    /// When it was opened, and when the last query or reply went over it.
    pub(crate) opened: Duration,
    used: Duration,
    /// When the last reply came.
    heard: Option<Duration>,
    /// When the newest query left whose retry timeout has passed.
    late: Option<Duration>,
    /// Queries without a reply, in the order in which they left. They expire in the same order.
    pub(crate) queries: VecDeque<TcpQuery>,
    /// The number of queries that were given up. Their replies may still come.
    given_up: usize,
    /// How many of `queries`, from the last one on, are not in `outgoing` yet.
    unwritten: usize,
    /// Bytes that are still to be sent.
    outgoing: Vec<u8>,
    /// Received bytes that are not yet a whole reply.
    incoming: Vec<u8>,
}

/// A query on a connection.
#[derive(Debug)]
pub(crate) struct TcpQuery {
    pub(crate) ticket: Ticket,
    pub(crate) question: Rc<Question>,
    pub(crate) attempt: Attempt,
    pub(crate) sent: Duration,
    pub(crate) cookie: Option<Sent>,
    id: u16,
    /// When its question is asked again.
    retry: Duration,
    expires: Duration,
}

/// The next thing that came over a connection.
#[derive(Debug)]
pub(crate) enum Next {
    /// The reply to this query.
    Reply(TcpQuery, Vec<u8>),
    /// A reply to a query that was never sent.
    Senseless,
    /// No whole reply.
    Nothing,
}

impl Connection {
    /// A connection that is being opened.
    pub(crate) fn new(upstream: usize, now: Duration) -> Self {
        Self {
            upstream,
            opened: now,
            used: now,
            heard: None,
            late: None,
            queries: VecDeque::new(),
            given_up: 0,
            unwritten: 0,
            outgoing: Vec::new(),
            incoming: Vec::new(),
        }
    }

    /// Whether another query may go over it. Queries that were given up count too: an upstream that does not answer
    /// them may not answer others.
    ///
    /// A connection may be dead if a query on it is late, and nothing has come since that query left. It gets no more
    /// queries.
    pub(crate) fn has_room(&self) -> bool {
        let may_be_dead = self.late.is_some_and(|sent| self.is_deaf_since(sent));
        self.queries.len() + self.given_up < MAX_QUERIES && !may_be_dead
    }

    /// Whether a reply has ever come over it.
    pub(crate) fn has_replied(&self) -> bool {
        self.heard.is_some()
    }

    /// Puts a query on it. Its question is asked again after `retry`, and its reply is taken for `patience`. The query
    /// gets the first id from `id` on that no other has.
    pub(crate) fn ask(
        &mut self,
        asked: Try,
        mut id: u16,
        sent: Duration,
        (retry, patience): (Duration, Duration),
    ) {
        let Try { ticket, question, attempt } = asked;
        while self.queries.iter().any(|query| query.id == id) {
            id = id.wrapping_add(1);
        }
        let (retry, expires) = (sent + retry, sent + patience);
        let query = TcpQuery { ticket, question, attempt, sent, cookie: None, id, retry, expires };
        self.queries.push_back(query);
        self.unwritten += 1;
        self.used = sent;
    }

    /// Whether the queries put on it last have yet to be written.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.unwritten > 0
    }

    /// Writes these queries into the bytes to send, with this cookie.
    pub(crate) fn write(&mut self, cookie: Option<&Sent>) {
        let written = self.queries.len() - self.unwritten.min(self.queries.len());
        self.unwritten = 0;
        for query in self.queries.iter_mut().skip(written) {
            query.cookie = cookie.cloned();
            let mut message = Query::new(&query.question, query.id, None, query.attempt.edns);
            cookie.into_iter().for_each(|cookie| message.add_cookie(&cookie.data));
            self.outgoing.extend(to_u16(message.bytes().len()).to_be_bytes());
            self.outgoing.extend(message.bytes());
        }
    }

    /// The bytes to send.
    pub(crate) fn outgoing(&self) -> &[u8] {
        &self.outgoing
    }

    /// `len` of these bytes have been sent.
    pub(crate) fn note_sent(&mut self, len: usize) {
        self.outgoing.drain(..len.min(self.outgoing.len()));
    }

    /// Takes in received bytes.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.incoming.extend(bytes);
    }

    /// The next whole reply, if there is one.
    pub(crate) fn next_reply(&mut self, now: Duration) -> Next {
        while let Some(message) = self.whole_message() {
            (self.heard, self.used) = (Some(now), now);
            if let Some(query) = self.take_tcp_query(&message) {
                return Next::Reply(query, message);
            }
            // It must be the reply to a query that was given up.
            match self.given_up.checked_sub(1) {
                Some(fewer) => self.given_up = fewer,
                None => return Next::Senseless,
            }
        }
        Next::Nothing
    }

    /// The first query that has expired.
    pub(crate) fn expire(&mut self, now: Duration) -> Option<TcpQuery> {
        if self.queries.front()?.expires > now {
            return None;
        }
        self.given_up += 1;
        self.queries.pop_front()
    }

    /// The tries that become late now, each with the time when it left.
    pub(crate) fn take_late(
        &mut self,
        now: Duration,
    ) -> ArrayVec<(Ticket, Attempt, Duration), MAX_QUERIES> {
        let is_late = |query: &&mut TcpQuery| !query.attempt.late && query.retry <= now;
        let late = self.queries.iter_mut().filter(is_late).map(|query| {
            let attempt = query.attempt;
            query.attempt.late = true;
            (query.ticket, attempt, query.sent)
        });
        let late: ArrayVec<_, MAX_QUERIES> = late.collect();
        self.late = late.last().map(|(_, _, sent)| *sent).or(self.late);
        late
    }

    /// Whether nothing has come since `time`.
    pub(crate) fn is_deaf_since(&self, time: Duration) -> bool {
        self.heard.is_none_or(|heard| heard < time)
    }

    /// When its timer is due: a question is to be asked again, its first query expires, or it has been idle for too
    /// long.
    pub(crate) fn due(&self) -> Duration {
        let Some(first) = self.queries.front() else { return self.used + IDLE };
        let waiting = self.queries.iter().filter(|query| !query.attempt.late);
        waiting.map(|query| query.retry).fold(first.expires, Duration::min)
    }

    /// Takes a whole message out of the received bytes.
    fn whole_message(&mut self) -> Option<Vec<u8>> {
        let (length, rest) = self.incoming.split_first_chunk::<LENGTH_LEN>()?;
        let message = rest.get(..u16::from_be_bytes(*length).into())?.to_vec();
        self.incoming.drain(..LENGTH_LEN + message.len());
        Some(message)
    }

    /// Takes out the query that `reply` answers.
    fn take_tcp_query(&mut self, reply: &[u8]) -> Option<TcpQuery> {
        let answered = |query: &TcpQuery| query.question.is_answered_by(query.id, None, reply);
        let index = self.queries.iter().position(answered)?;
        self.queries.remove(index)
    }
}
