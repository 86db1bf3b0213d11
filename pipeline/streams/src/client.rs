//! A client whose queries come on streams of their own, over HTTPS or QUIC. Here is what it has under way, what it has not read,
//! and when its connection has to end.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use pmdns_counters::count;
use pmdns_nics::stream::Transport;
use tokio::time::{Instant, sleep_until};

use crate::framing::is_query;
use crate::load::Load;
use crate::lock::lock;
use crate::places::{ConnectionPlace, Renewal};
use crate::query_sender::AnswerMessage;
use crate::reader::Reader;
use crate::service::{ConnectionLimits, Service};

/// A client on its connection. The connection's tasks share it.
pub(crate) struct Client {
    pub(crate) service: Service,
    address: SocketAddr,
    transport: Transport,
    state: Mutex<ConnectionActivity>,
    renewal: Renewal,
    /// Woken when the connection has to end now, or sooner than it seemed while nothing was under way.
    reader: Arc<Reader>,
}

/// What a connection has done.
struct ConnectionActivity {
    queries: u64,
    in_flight: usize,
    /// Bytes of answers.
    unread: usize,
    /// When a query last came or was answered.
    active: Instant,
    /// When the client last read something, or had nothing to read.
    read: Instant,
}

/// Why a query has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// It is no query.
    Malformed,
    /// The connection has as many queries as it may have.
    Full,
    /// The line dropped it, or gave no answer in time.
    Dropped,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// No query came for some time.
    Idle,
    /// It had as many queries as it may have.
    Exhausted,
    /// The client does not read.
    SlowReader,
}

impl Client {
    pub(crate) fn new(address: SocketAddr, place: &ConnectionPlace, service: Service) -> Arc<Self> {
        let now = Instant::now();
        let state =
            ConnectionActivity { queries: 0, in_flight: 0, unread: 0, active: now, read: now };
        let (state, transport, renewal) = (Mutex::new(state), place.transport(), place.renewal());
        Arc::new(Self { service, address, transport, state, renewal, reader: Arc::default() })
    }

    /// The line's answer to a query. Dropping the future forgets the query.
    pub(crate) async fn ask(&self, query: &[u8]) -> Result<AnswerMessage, Unanswered> {
        let counters = self.service.counters.of(self.transport);
        if !is_query(query) {
            count(&counters.malformed);
            return Err(Unanswered::Malformed);
        }
        let Some(_in_flight) = self.begin() else {
            count(&counters.no_room);
            return Err(Unanswered::Full);
        };
        let sender = &self.service.sender;
        let pending = sender.ask_for(&self.reader, self.address, self.transport, query);
        pending.await.ok_or(Unanswered::Dropped)
    }

    /// The bytes of an answer, which is unread until they have been sent and are dropped. `None`: too much is unread.
    pub(crate) fn send(self: &Arc<Self>, answer: AnswerMessage, part: AnswerPart) -> Option<Bytes> {
        let mut state = lock(&self.state);
        if state.unread == 0 {
            state.read = Instant::now();
        }
        state.unread += answer.framed().len();
        let is_too_much = state.unread > self.service.limits.max_buffered_bytes;
        drop(state);
        if is_too_much {
            self.reader.wake();
        }
        let unread = Unread { client: Arc::clone(self), answer, part };
        (!is_too_much).then(|| Bytes::from_owner(unread))
    }

    /// Waits until the connection has to end, and counts why.
    pub(crate) async fn end(&self) -> ConnectionEnd {
        let mut load = self.service.places.load();
        let end = loop {
            let now = *load.borrow_and_update();
            let (end, due) = lock(&self.state).end(&self.service.limits, now, Instant::now());
            let end = if self.reader.has_lost() { Some(ConnectionEnd::SlowReader) } else { end };
            if let Some(end) = end {
                break end;
            }
            tokio::select! {
                () = sleep_until(due) => {}
                () = self.reader.news() => {}
                _ = load.changed() => {}
            }
        };
        let counters = self.service.counters.of(self.transport);
        count(match end {
            ConnectionEnd::Idle => &counters.idle,
            ConnectionEnd::Exhausted => &counters.exhausted,
            ConnectionEnd::SlowReader => &counters.slow_readers,
        });
        end
    }

    /// Bytes of answers that were not sent.
    #[cfg(test)]
    pub(crate) fn unread_bytes(&self) -> usize {
        lock(&self.state).unread
    }

    /// Counts a query as under way. `None`: the connection has as many as it may have.
    fn begin(&self) -> Option<InFlight<'_>> {
        let mut state = lock(&self.state);
        let limits = &self.service.limits;
        let is_exhausted = state.queries >= limits.max_queries_per_connection;
        if is_exhausted || state.in_flight >= limits.max_queries_in_flight {
            return None;
        }
        let was_quiet = state.is_quiet();
        state.queries += 1;
        state.in_flight += 1;
        if was_quiet || state.queries >= limits.max_queries_per_connection {
            self.reader.wake();
        }
        let is_first = state.queries == 1;
        drop(state);
        self.renewal.renew(is_first);
        Some(InFlight(self))
    }
}

impl ConnectionActivity {
    /// Whether no query is under way, and no answer is unread.
    fn is_quiet(&self) -> bool {
        self.in_flight == 0 && self.unread == 0
    }

    /// Why the connection has to end now; otherwise when to look again. What happens to a connection that is not quiet ends it
    /// no sooner than that, so nobody is woken for each answer.
    fn end(
        &self,
        limits: &ConnectionLimits,
        load: Load,
        now: Instant,
    ) -> (Option<ConnectionEnd>, Instant) {
        let idle_time = limits.idle_time(load, self.queries > 0);
        // Every query under way ends by itself.
        let idle =
            if self.in_flight == 0 { self.active + idle_time } else { now + limits.longest_wait };
        let slow = if self.unread == 0 { idle } else { self.read + limits.io_timeout };
        let end = match self.unread {
            0 if now >= idle => Some(ConnectionEnd::Idle),
            1.. if now >= slow || self.unread > limits.max_buffered_bytes => {
                Some(ConnectionEnd::SlowReader)
            }
            _ if self.queries >= limits.max_queries_per_connection => {
                Some(ConnectionEnd::Exhausted)
            }
            _ => None,
        };
        let soonest = if self.is_quiet() { slow } else { now + idle_time.min(limits.io_timeout) };
        (end, slow.min(soonest))
    }
}

/// A query under way.
struct InFlight<'c>(&'c Client);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.in_flight -= 1;
        state.active = Instant::now();
    }
}

/// Which bytes of an answer are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerPart {
    /// The message.
    Message,
    /// The message behind its length.
    Framed,
}

/// An answer that the client has not read.
struct Unread {
    client: Arc<Client>,
    answer: AnswerMessage,
    part: AnswerPart,
}

impl AsRef<[u8]> for Unread {
    fn as_ref(&self) -> &[u8] {
        match self.part {
            AnswerPart::Message => &self.answer,
            AnswerPart::Framed => self.answer.framed(),
        }
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = lock(&self.client.state);
        state.unread -= self.answer.framed().len();
        (state.read, state.active) = (now, now);
    }
}
