//! Queries over UDP: a batch leaves from one socket, on a new random port.
//!
//! A forger who cannot see the packets must guess port and id (RFC 5452). The port is random for every batch, from all
//! unprivileged ports. The id is random for every query. The socket is connected right after bind. So the kernel
//! discards datagrams that do not come from the upstream's address and port. Queries share a port only if they leave at
//! the same moment. When the last of them is answered, the port closes. docs/adr/0009-queries-fly-together.md gives the
//! reasons and the cost.

use std::rc::Rc;
use std::time::Duration;

use arrayvec::ArrayVec;
use pmdns_config::limits::MAX_QUERIES_PER_PORT;

use crate::questions::pending::Ticket;
use crate::questions::plan::Attempt;
use crate::questions::prefixes::ClientPrefix;
use crate::questions::question::Question;
use crate::upstreams::cookies::{Learnt, Sent, Shown};
use crate::upstreams::letter_case::LetterCase;
use crate::upstreams::query::{Match, Query};

/// The longest datagram that is received; a longer one is cut off. The OPT record announces less, and a reply longer
/// than announced is asked for over TCP.
pub const MAX_DATAGRAM: usize = 4096;
/// The most datagrams that may not match a query of the batch. More are an attack, and the queries go over TCP. A
/// network that delivers every datagram twice stays below the limit.
const MAX_MISMATCHED: usize = MAX_QUERIES_PER_PORT;

/// Queries that left together and have no reply yet.
#[derive(Debug)]
pub(crate) struct UdpBatch {
    /// Index of the upstream.
    pub(crate) upstream: usize,
    pub(crate) sent: Duration,
    /// When the queries without a reply count as timed out; `None`: they have been counted.
    overdue: Option<Duration>,
    /// When it is given up. Until then every reply is accepted.
    expires: Duration,
    /// The prefix that it is charged to; `None`: it may be closed at any time.
    pub(crate) charged: Option<ClientPrefix>,
    /// The cookie of its queries with an OPT record.
    pub(crate) cookie: Option<Sent>,
    /// Most batches have one, and a thousand batches may be under way, so there is no room for more than there are.
    queries: Vec<UdpQuery>,
    mismatched: usize,
}

/// A query without a reply.
#[derive(Clone, Debug)]
pub(crate) struct UdpQuery {
    pub(crate) ticket: Ticket,
    pub(crate) question: Rc<Question>,
    pub(crate) attempt: Attempt,
    pub(crate) id: u16,
    /// The letter case that its reply must have, if any.
    pub(crate) letter_case: Option<LetterCase>,
    /// When its question is asked again; `None`: that has happened.
    pub(crate) retry: Option<Duration>,
}

/// Ids of the queries of a batch.
pub(crate) type Ids = ArrayVec<u16, MAX_QUERIES_PER_PORT>;

/// A datagram for a batch, after the checks.
#[derive(Debug)]
pub(crate) enum Received {
    /// The reply to this query.
    Reply {
        query: UdpQuery,
        /// The cookie for the next queries, if its own is right.
        learnt: Option<Learnt>,
        /// Whether it has the letter case of its query.
        is_spelt: bool,
    },
    /// A datagram that would be the reply to this query, except for the letter case.
    CaseMismatch(UdpQuery),
    /// A datagram that would be the reply to this query, except for the cookie.
    Cookieless(UdpQuery),
    /// A datagram that answers no query of the batch. It may be forged, or very late.
    Mismatch,
    /// As `Mismatch`, and the limit is reached.
    Flood,
}

impl UdpBatch {
    /// Queries that are about to leave, when they are overdue, and when they are given up. No two have the
    /// same id.
    pub(crate) fn new(
        upstream: usize,
        [sent, overdue, expires]: [Duration; 3],
        queries: Vec<UdpQuery>,
    ) -> Self {
        let overdue = Some(overdue);
        Self {
            upstream,
            sent,
            overdue,
            expires,
            charged: None,
            cookie: None,
            queries,
            mismatched: 0,
        }
    }

    /// When its timer is due: a question is to be asked again, a time-out is to be counted, or the batch is given up.
    pub(crate) fn due(&self) -> Duration {
        let retries = self.queries.iter().filter_map(|query| query.retry);
        retries.chain(self.overdue).fold(self.expires, Duration::min)
    }

    /// Whether it is given up.
    pub(crate) fn has_expired(&self, now: Duration) -> bool {
        self.expires <= now
    }

    /// Whether all its queries are late.
    pub(crate) fn is_late(&self) -> bool {
        self.queries.iter().all(|query| query.retry.is_none())
    }

    /// The tries that become late now.
    pub(crate) fn take_late(
        &mut self,
        now: Duration,
    ) -> ArrayVec<(Ticket, Attempt), MAX_QUERIES_PER_PORT> {
        let is_late = |query: &&mut UdpQuery| query.retry.is_some_and(|retry| retry <= now);
        let late = self.queries.iter_mut().filter(is_late).map(|query| {
            let attempt = query.attempt;
            (query.retry, query.attempt.late) = (None, true);
            (query.ticket, attempt)
        });
        late.collect()
    }

    /// How many queries count as timed out now.
    pub(crate) fn take_overdue(&mut self, now: Duration) -> usize {
        self.overdue.take_if(|overdue| *overdue <= now).map_or(0, |_| self.queries.len())
    }

    /// Passes each message to `send`, until one fails.
    pub(crate) fn send<E>(&self, mut send: impl FnMut(&Query) -> Result<(), E>) -> Result<(), E> {
        let cookie = self.cookie.as_ref().map(|cookie| &cookie.data);
        let mut message = Query::default();
        for UdpQuery { question, attempt, id, letter_case, .. } in &self.queries {
            message.compose(question, *id, *letter_case, attempt.edns);
            cookie.into_iter().for_each(|data| message.add_cookie(data));
            send(&message)?;
        }
        Ok(())
    }

    /// Checks a datagram. If it answers a query, that query leaves the batch.
    pub(crate) fn sort(&mut self, datagram: &[u8]) -> Received {
        let Some((index, is_spelt)) = self.asked_by(datagram) else { return self.mismatch() };
        let cookie = self.cookie.as_ref().filter(|_| self.queries[index].attempt.edns);
        match cookie.map_or(Shown::Missing, |cookie| cookie.shown_in(datagram)) {
            // A cookie is harder to guess than the letter case, so the case does not matter.
            Shown::Right(learnt) => {
                let query = self.queries.swap_remove(index);
                Received::Reply { query, learnt: Some(learnt), is_spelt }
            }
            Shown::Wrong => self.mismatch(),
            Shown::Missing if !is_spelt => Received::CaseMismatch(self.queries.swap_remove(index)),
            Shown::Missing if cookie.is_some_and(|cookie| cookie.is_expected) => {
                Received::Cookieless(self.queries.swap_remove(index))
            }
            Shown::Missing => {
                let query = self.queries.swap_remove(index);
                Received::Reply { query, learnt: None, is_spelt }
            }
        }
    }

    /// Takes out the query that this beginning of a datagram would answer.
    pub(crate) fn take_begun(&mut self, datagram: &[u8]) -> Option<UdpQuery> {
        let (index, _) = self.asked_by(datagram)?;
        Some(self.queries.swap_remove(index))
    }

    /// The place of the query that has the id and the question of a datagram, and whether it has the letter case.
    fn asked_by(&self, datagram: &[u8]) -> Option<(usize, bool)> {
        let mut queries = self.queries.iter().enumerate();
        queries.find_map(|(index, UdpQuery { question, id, letter_case, .. })| {
            match question.match_reply(*id, *letter_case, datagram) {
                Match::Spelt => Some((index, true)),
                Match::Misspelt => Some((index, false)),
                Match::None => None,
            }
        })
    }

    /// Takes out the query with this id.
    pub(crate) fn take_quoted(&mut self, id: u16) -> Option<UdpQuery> {
        let index = self.queries.iter().position(|query| query.id == id)?;
        Some(self.queries.swap_remove(index))
    }

    /// Notes a datagram that answers no query of the batch.
    pub(crate) fn mismatch(&mut self) -> Received {
        self.mismatched += 1;
        if self.mismatched < MAX_MISMATCHED { Received::Mismatch } else { Received::Flood }
    }

    /// The memory of its queries, if none is left.
    pub(crate) fn into_queries(self) -> Vec<UdpQuery> {
        debug_assert!(self.queries.is_empty(), "every query has ended");
        self.queries
    }

    /// The queries without a reply.
    pub(crate) fn left(&self) -> &[UdpQuery] {
        &self.queries
    }
}
