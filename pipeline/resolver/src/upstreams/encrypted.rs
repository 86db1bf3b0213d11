//! Queries to upstreams over encrypted connections. A thread beside the resolver's does the encryption. It gets
//! requests, and ends each with exactly one report, at the latest a time-out. Before that, one more report may say that
//! the query is late. docs/adr/0018-encrypted-upstreams.md gives the reasons.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use slab::Slab;

use crate::counters::shared::count;
pub use crate::output::EncryptedQuery;
use crate::output::Output;
use crate::questions::pending::Ticket;
use crate::questions::plan::{Attempt, Transport, TryFailure};
use crate::questions::prefixes::ClientPrefix;
use crate::questions::question::Question;
use crate::questions::quota::Quota;
use crate::upstreams::query::{Proof, Query, Try};
use crate::upstreams::{Failed, Replied, Upstreams};

/// The id of every query handed over, and of every reply that comes back. Over HTTPS and QUIC it is the id on the
/// wire as well (RFC 8484 section 4.1, RFC 9250 section 4.2.1).
const ID: u16 = 0;

/// The most queries under way to one upstream. Further ones go to the next upstream, and so do those of a client prefix
/// that has used up its part.
pub const MAX_UNDER_WAY: usize = 2048;
/// The queries of one slow path thread to encrypted upstreams.
pub(crate) struct Encrypted {
    asked: Slab<InFlight>,
    /// Queries under way, by upstream.
    under_way: Vec<Quota>,
}

/// A query under way.
#[derive(Clone)]
pub(crate) struct InFlight {
    /// The prefix that it is charged to.
    pub(crate) prefix: ClientPrefix,
    pub(crate) ticket: Ticket,
    pub(crate) question: Rc<Question>,
    pub(crate) attempt: Attempt,
    pub(crate) sent: Duration,
    /// Its upstream has left, and its question has been told.
    pub(crate) has_left: bool,
}

/// The outcome of a query.
#[derive(Debug)]
pub enum EncryptedOutcome {
    /// A reply with id 0, not looked at yet, after so long a time on the wire.
    Reply(Vec<u8>, Duration),
    /// No reply in time.
    Silent,
    /// The connection could not be opened, or ended.
    Broken(io::Error),
}

/// The report on a query.
#[derive(Debug)]
pub struct EncryptedReport {
    /// The resolver's number for it.
    pub slot: usize,
    /// `None`: it is late. There will be another report.
    pub outcome: Option<EncryptedOutcome>,
}

impl Encrypted {
    /// Nothing is under way to so many upstreams.
    pub(crate) fn new(upstreams: usize) -> Self {
        let mut encrypted = Self { asked: Slab::new(), under_way: Vec::new() };
        encrypted.resize(upstreams);
        encrypted
    }

    /// From now on there are so many upstreams, no fewer than before.
    pub(crate) fn resize(&mut self, upstreams: usize) {
        self.under_way.resize_with(upstreams, || Quota::new(MAX_UNDER_WAY));
    }

    /// Nobody waits any more for the queries to an upstream that has left. They keep their places until their reports come.
    pub(crate) fn leave(&mut self, upstream: usize) -> Vec<(Ticket, Attempt)> {
        let asked = self.asked.iter_mut().map(|(_, asked)| asked);
        let leaving = asked.filter(|asked| asked.attempt.upstream == upstream && !asked.has_left);
        leaving
            .map(|asked| {
                asked.has_left = true;
                (asked.ticket, asked.attempt)
            })
            .collect()
    }

    /// The request that asks an encrypted upstream. When the first of these times has passed, a report says that it is
    /// late; after the second it is given up. `None`: too many queries are under way to the upstream, or of this
    /// prefix.
    pub(crate) fn ask(
        &mut self,
        asked: InFlight,
        query: Vec<u8>,
        patience: (Duration, Duration),
    ) -> Option<EncryptedQuery> {
        let (prefix, upstream) = (asked.prefix, asked.attempt.upstream);
        if !self.under_way[upstream].has_room_for(prefix) {
            return None;
        }
        self.under_way[upstream].take(prefix);
        Some(EncryptedQuery { slot: self.asked.insert(asked), upstream, query, patience })
    }

    /// A query is late. Returns it as it was before.
    pub(crate) fn note_late(&mut self, slot: usize) -> InFlight {
        let asked = self.asked[slot].clone();
        self.asked[slot].attempt.late = true;
        asked
    }

    /// Takes out a query that has ended.
    pub(crate) fn end(&mut self, slot: usize) -> InFlight {
        let asked = self.asked.remove(slot);
        self.under_way[asked.attempt.upstream].give_back(asked.prefix);
        asked
    }
}

impl Upstreams {
    /// Sends a query to an encrypted upstream, and charges `prefix`. Its question is asked again after the first of
    /// these times. Its reply is accepted until the second. An error: too many are under way.
    pub(super) fn send_encrypted(
        &mut self,
        prefix: ClientPrefix,
        asked: Try,
        patience: (Duration, Duration),
    ) -> Result<(), Failed> {
        let Try { ticket, question, attempt } = asked;
        let attempt = Attempt { transport: Transport::Tcp, ..attempt };
        let query = Query::new(&question, ID, None, attempt.edns).padded();
        let asked =
            InFlight { prefix, ticket, question, attempt, sent: self.peers.now, has_left: false };
        let counters = self.peers.counters(attempt.upstream);
        let Some(request) = self.encrypted.ask(asked, query, patience) else {
            count(&counters.shed);
            return Err(Failed { ticket, attempt, failure: TryFailure::Busy });
        };
        count(&counters.encrypted);
        self.network.outputs.push_back(Output::AskEncrypted(request));
        Ok(())
    }

    /// Takes in what came of a query to an encrypted upstream.
    pub(crate) fn receive_encrypted(
        &mut self,
        report: EncryptedReport,
    ) -> Option<(Replied, Vec<u8>)> {
        let EncryptedReport { slot, outcome } = report;
        let Some(outcome) = outcome else {
            let InFlight { ticket, attempt, sent, has_left, .. } = self.encrypted.note_late(slot);
            if has_left {
                return None;
            }
            self.peers.note_retry(attempt.upstream, sent);
            self.peers.note_timeout(attempt.upstream, sent);
            self.fail(ticket, attempt, TryFailure::Late);
            return None;
        };
        let InFlight { ticket, question, attempt, sent, has_left, .. } = self.encrypted.end(slot);
        if has_left {
            return None;
        }
        let failure = match outcome {
            // The connection proves who replied. Whether the reply belongs to the question is checked as for all
            // transports.
            EncryptedOutcome::Reply(reply, _) if !question.is_answered_by(ID, None, &reply) => {
                count(&self.peers.counters(attempt.upstream).mismatched);
                TryFailure::Unreachable
            }
            EncryptedOutcome::Reply(reply, took) => {
                let sent = self.peers.now.saturating_sub(took);
                self.peers.note_reply(attempt.upstream, sent, ticket, &reply);
                return Some((Replied { ticket, question, attempt, proof: Proof::Firm }, reply));
            }
            EncryptedOutcome::Silent => TryFailure::Silent,
            EncryptedOutcome::Broken(error) => {
                self.peers.note_error(attempt.upstream, sent, &error, 1);
                TryFailure::of(&error)
            }
        };
        self.fail(ticket, attempt, failure);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::prefixes::tests::prefix;

    #[test]
    fn so_many_are_under_way_and_no_more() {
        let mut encrypted = Encrypted::new(1);
        let question = Rc::new(Question::probe());
        let mut number = 0;
        let mut asked = || {
            number += 1;
            let attempt =
                Attempt { upstream: 0, transport: Transport::Tcp, edns: true, late: false };
            let (ticket, question) = (Ticket::NONE, Rc::clone(&question));
            InFlight {
                prefix: prefix(number),
                ticket,
                question,
                attempt,
                sent: Duration::ZERO,
                has_left: false,
            }
        };
        let patience = (Duration::from_millis(100), Duration::from_millis(500));
        let requests: Vec<EncryptedQuery> = (0..MAX_UNDER_WAY)
            .map(|_| encrypted.ask(asked(), Vec::new(), patience).unwrap())
            .collect();
        assert!(encrypted.ask(asked(), Vec::new(), patience).is_none());
        for EncryptedQuery { slot, .. } in requests {
            assert!(!encrypted.note_late(slot).attempt.late);
            assert!(encrypted.end(slot).attempt.late);
        }
        assert_eq!((encrypted.under_way[0].held(), encrypted.asked.len()), (0, 0));
        assert!(encrypted.ask(asked(), Vec::new(), patience).is_some(), "there is room again");
    }
}
