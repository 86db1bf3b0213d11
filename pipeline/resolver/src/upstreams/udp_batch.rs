//! Queries over UDP: a batch leaves from one socket, on a random port that no batch had before it.
//!
//! A forger who cannot see our packets must guess (RFC 5452): the port, drawn anew for every batch from
//! all unprivileged ones, and the id, drawn for every query. The socket is connected as soon as it is bound, so
//! the kernel discards what does not come from the upstream's address and port before we see it. Queries share a port only
//! if they leave in the same moment. When the last of them is answered the port closes.
//! docs/adr/0009-queries-fly-together.md says why, and what it costs.

use std::rc::Rc;
use std::time::Duration;

use arrayvec::ArrayVec;
use pmdns_config::limits::MAX_QUERIES_PER_PORT;

use crate::questions::pending::Ticket;
use crate::questions::plan::Attempt;
use crate::questions::question::Question;
use crate::upstreams::cookies::{Learnt, Sent, Shown};
use crate::upstreams::letter_case::LetterCase;
use crate::upstreams::query::Query;

/// The longest datagram taken in; a longer one is cut off. Upstreams are told less, and what is longer than that is asked
/// for over TCP.
pub const MAX_DATAGRAM: usize = 4096;
/// Datagrams that do not match, for one batch. More are an attack, and TCP ends it. A network that
/// delivers everything twice stays below.
const MAX_MISMATCHED: usize = MAX_QUERIES_PER_PORT;

/// Queries that left together and have no reply yet.
#[derive(Debug)]
pub(crate) struct UdpBatch {
    /// Index of the upstream.
    pub(crate) upstream: usize,
    pub(crate) sent: Duration,
    /// When those without a reply count as timed out; none: they have been counted.
    overdue: Option<Duration>,
    /// When it is given up: until then every reply is taken.
    expires: Duration,
    /// When its timer comes due.
    pub(crate) timer: Duration,
    /// The cookie of those that have an OPT record.
    pub(crate) cookie: Option<Sent>,
    queries: ArrayVec<UdpQuery, MAX_QUERIES_PER_PORT>,
    mismatched: usize,
}

/// A query without a reply.
#[derive(Clone, Debug)]
pub(crate) struct UdpQuery {
    pub(crate) ticket: Ticket,
    pub(crate) question: Rc<Question>,
    pub(crate) attempt: Attempt,
    pub(crate) id: u16,
    /// The letters that its reply must have, if any.
    pub(crate) letter_case: Option<LetterCase>,
    /// When its question is asked again; none: it has been.
    pub(crate) retry: Option<Duration>,
}

/// Ids of the queries of a batch.
pub(crate) type Ids = ArrayVec<u16, MAX_QUERIES_PER_PORT>;

/// What a datagram is that came for a batch.
#[derive(Debug)]
pub(crate) enum Received {
    /// The reply to this query, and what its cookie brings if it has the right one.
    Reply(UdpQuery, Option<Learnt>),
    /// A datagram that would be the reply to this query, but for the case of its letters.
    CaseMismatch(UdpQuery),
    /// A datagram that would be the reply to this query, but for a cookie.
    Cookieless(UdpQuery),
    /// A datagram that answers nothing we asked. It may be forged, or very late.
    Mismatch,
    /// As `Mismatch`, and it is one too many.
    Flood,
}

impl UdpBatch {
    /// Queries that are about to leave, when they are overdue, and when they are given up. No two have the
    /// same id.
    pub(crate) fn new(
        upstream: usize,
        [sent, overdue, expires]: [Duration; 3],
        queries: ArrayVec<UdpQuery, MAX_QUERIES_PER_PORT>,
    ) -> Self {
        let overdue = Some(overdue);
        let mut this = Self {
            upstream,
            sent,
            overdue,
            expires,
            timer: expires,
            cookie: None,
            queries,
            mismatched: 0,
        };
        this.timer = this.due();
        this
    }

    /// When it has to be looked at: a question is to be asked again, silence is to be counted, or it is given up.
    pub(crate) fn due(&self) -> Duration {
        let retries = self.queries.iter().filter_map(|query| query.retry);
        retries.chain(self.overdue).fold(self.expires, Duration::min)
    }

    /// Whether it is given up.
    pub(crate) fn has_expired(&self, now: Duration) -> bool {
        self.expires <= now
    }

    /// Whether all its queries are late: it is of little use.
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

    /// What is to be sent.
    pub(crate) fn messages(&self) -> impl Iterator<Item = Query> {
        let cookie = self.cookie.as_ref().map(|cookie| &cookie.data);
        self.queries.iter().map(move |UdpQuery { question, attempt, id, letter_case, .. }| {
            let query = Query::new(question, *id, *letter_case, attempt.edns);
            cookie.into_iter().fold(query, |query, data| query.with_cookie(data))
        })
    }

    /// Finds out what a datagram is. One that answers a query takes it out of the batch.
    pub(crate) fn sort(&mut self, datagram: &[u8]) -> Received {
        let is_asked = |query: &UdpQuery| query.question.is_answered_by(query.id, None, datagram);
        let Some(index) = self.queries.iter().position(is_asked) else { return self.mismatch() };
        let UdpQuery { question, attempt, id, letter_case, .. } = &self.queries[index];
        let cookie = self.cookie.as_ref().filter(|_| attempt.edns);
        match cookie.map_or(Shown::Missing, |cookie| cookie.shown_in(datagram)) {
            // It is harder to guess than letters are, so those do not matter.
            Shown::Right(learnt) => Received::Reply(self.queries.swap_remove(index), Some(learnt)),
            Shown::Wrong => self.mismatch(),
            Shown::Missing if !question.is_answered_by(*id, *letter_case, datagram) => {
                Received::CaseMismatch(self.queries.swap_remove(index))
            }
            Shown::Missing if cookie.is_some_and(|cookie| cookie.is_expected) => {
                Received::Cookieless(self.queries.swap_remove(index))
            }
            Shown::Missing => Received::Reply(self.queries.swap_remove(index), None),
        }
    }

    fn mismatch(&mut self) -> Received {
        self.mismatched += 1;
        if self.mismatched < MAX_MISMATCHED { Received::Mismatch } else { Received::Flood }
    }

    /// The queries that have no reply.
    pub(crate) fn left(&self) -> &[UdpQuery] {
        &self.queries
    }
}
