//! Queries over UDP: which leave together, what comes for them, and when they are given up.

use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use arrayvec::ArrayVec;
use pmdns_config::limits::MAX_QUERIES_PER_PORT;

use super::{Replied, Route, Upstreams};
use crate::counters::{add, count};
use crate::questions::pending::{Pending, Ticket};
use crate::questions::plan::{Attempt, Plan, Transport, TryFailure};
use crate::questions::prefixes::ClientPrefix;
use crate::questions::question::Question;
use crate::upstreams::query::{Proof, Query, announced_size};
use crate::upstreams::udp_batch::{Received, UdpBatch, UdpQuery};

/// One who leaves in a batch.
struct BatchedQuery {
    ticket: Ticket,
    question: Rc<Question>,
    attempt: Attempt,
    /// How long to wait for its reply until its question is asked again.
    retry: Duration,
}

/// Those who leave in one batch.
type BatchedQueries = ArrayVec<BatchedQuery, MAX_QUERIES_PER_PORT>;

impl Upstreams {
    /// Makes room for a batch, if need be and if it can. Late queries give way to those that have yet to leave.
    pub(super) fn make_room(&mut self) -> bool {
        while !self.network.can_open_socket() {
            let Some(slot) = self.network.take_late() else { return false };
            self.end_batch(slot, TryFailure::Silent);
        }
        true
    }

    /// Sends a batch to this upstream, and says how many were to leave in it.
    pub(super) fn send_batch(&mut self, upstream: usize, pending: &mut Pending<Plan>) -> usize {
        let Self { network, peers, .. } = self;
        let departing = network.take_batch(upstream, self.queries_per_port);
        let Some((prefix, waiting)) = departing else { return 0 };
        let size = waiting.len();
        // Of some the clients have gone while they waited.
        let queries: BatchedQueries = waiting
            .into_iter()
            .filter_map(|(ticket, attempt)| {
                let (question, plan) = pending.find(ticket)?;
                let retry = peers.retry_timeout(upstream, plan.round());
                let question = peers.as_told(question, upstream);
                Some(BatchedQuery { ticket, question, attempt, retry })
            })
            .collect();
        if !queries.is_empty() {
            let usual = self.peers.usual_patience(upstream);
            self.launch(upstream, prefix, queries, (usual, self.deadline));
        }
        size
    }

    /// Sends a probe.
    pub(super) fn launch_probe(
        &mut self,
        question: Rc<Question>,
        attempt: Attempt,
        patience: Duration,
    ) {
        let query = BatchedQuery { ticket: Ticket::NONE, question, attempt, retry: patience };
        let queries = [query].into_iter().collect();
        self.launch(attempt.upstream, ClientPrefix::OURS, queries, (patience, patience));
    }

    /// Sends a batch, which `prefix` is charged for. Its silence counts as the upstream's failure after `usual`; replies
    /// are taken for `patience`.
    fn launch(
        &mut self,
        upstream: usize,
        prefix: ClientPrefix,
        queries: BatchedQueries,
        (usual, patience): (Duration, Duration),
    ) {
        let ids = match self.random.ids() {
            Ok(ids) => ids,
            Err(error) => {
                self.note_socket_error(&error);
                for BatchedQuery { ticket, attempt, .. } in queries {
                    self.fail(ticket, attempt, TryFailure::Unreachable);
                }
                return;
            }
        };
        let mixes = self.peers.mixes_case(upstream);
        let queries = queries
            .into_iter()
            .zip(ids)
            .map(|(BatchedQuery { ticket, question, attempt, retry }, id)| {
                let mixes = mixes && attempt.transport == Transport::Udp;
                // Without random numbers no id would have been drawn either.
                let letter_case = mixes.then(|| self.random.letter_case().ok()).flatten();
                let retry = Some(self.peers.now + retry);
                UdpQuery { ticket, question, attempt, id, letter_case, retry }
            })
            .collect();
        let times = [self.peers.now, self.peers.now + usual, self.peers.now + patience];
        let batch = UdpBatch::new(upstream, times, queries);
        add(&self.peers.counters(upstream).queries, batch.left().len() as u64);
        self.network.begin_batch(prefix, batch);
    }

    /// Where a batch goes to, and from where if the operator says so.
    pub(crate) fn route_of_batch(&self, slot: usize) -> Option<Route> {
        self.peers.route(self.network.batches.get(slot)?.upstream)
    }

    /// Whether there is a batch in this slot.
    pub(crate) fn has_batch(&self, slot: usize) -> bool {
        self.network.batches.contains(slot)
    }

    /// What is to be sent for a batch, whose address at our end is `local`.
    pub(crate) fn messages(
        &mut self,
        slot: usize,
        local: impl FnOnce() -> Option<IpAddr>,
    ) -> impl Iterator<Item = Query> {
        let upstream = self.network.batches.get(slot).map(|batch| batch.upstream);
        let cookie = upstream.and_then(|upstream| self.peers.cookie_for(upstream, local));
        let mut batch = self.network.batches.get_mut(slot);
        if let Some(batch) = &mut batch {
            batch.cookie = cookie;
        }
        batch.into_iter().flat_map(|batch| batch.messages())
    }

    /// Takes in a datagram that has come for a batch.
    pub(crate) fn hear_batch(&mut self, slot: usize, datagram: &[u8]) -> Option<Replied> {
        let batch = self.network.batches.get_mut(slot)?;
        let (upstream, sent) = (batch.upstream, batch.sent);
        let received = batch.sort(datagram);
        if batch.left().is_empty() {
            self.network.close_batch(slot);
        }
        let counters = self.peers.counters(upstream);
        match received {
            Received::Reply(query, learnt) => {
                self.peers.note_reply(upstream, sent);
                let UdpQuery { ticket, question, attempt, id, letter_case, .. } = query;
                if letter_case.is_some() && question.is_answered_by(id, letter_case, datagram) {
                    self.peers.note_case_kept(upstream);
                }
                let proof = if learnt.is_some() { Proof::Firm } else { Proof::Guessed };
                if let Some(learnt) = learnt {
                    self.peers.note_cookie(upstream, learnt);
                }
                if datagram.len() > announced_size(attempt.edns) {
                    count(&self.peers.counters(upstream).oversized);
                    self.fail(ticket, attempt, TryFailure::NeedsTcp);
                    return None;
                }
                return Some(Replied { ticket, question, attempt, proof });
            }
            Received::CaseMismatch(query) => {
                self.peers.note_case_mismatch(upstream);
                self.fail(query.ticket, query.attempt, TryFailure::CaseMismatch);
            }
            Received::Cookieless(query) => {
                count(&counters.mismatched);
                count(&counters.cookieless);
                self.fail(query.ticket, query.attempt, TryFailure::NeedsTcp);
            }
            Received::Mismatch => count(&counters.mismatched),
            Received::Flood => {
                count(&counters.mismatched);
                self.end_batch(slot, TryFailure::NeedsTcp);
            }
        }
        None
    }

    /// No socket could be opened for a batch.
    pub(crate) fn fail_batch(&mut self, slot: usize, error: &io::Error) {
        if self.network.batches.contains(slot) {
            self.note_socket_error(error);
            self.end_batch(slot, TryFailure::Unreachable);
        }
    }

    /// Ends a batch that the network returned an error to.
    pub(crate) fn break_batch(&mut self, slot: usize, error: &io::Error) {
        let Some(batch) = self.network.batches.get(slot) else { return };
        self.peers.note_error(batch.upstream, batch.sent, error, batch.left().len());
        self.end_batch(slot, TryFailure::Unreachable);
    }

    /// Says which questions of a batch are to be asked again, counts its silence, and gives it up in the end.
    pub(super) fn serve_batch(&mut self, slot: usize) {
        let Some(batch) = self.network.batches.get_mut(slot) else { return };
        let (upstream, sent) = (batch.upstream, batch.sent);
        let (late, overdue) = (batch.take_late(self.peers.now), batch.take_overdue(self.peers.now));
        if batch.has_expired(self.peers.now) {
            self.end_batch(slot, TryFailure::Silent);
        } else {
            self.network.set_batch_timer(slot);
        }
        (0..overdue).for_each(|_| self.peers.note_timeout(upstream, sent));
        if !late.is_empty() {
            self.network.note_late(slot);
        }
        for (ticket, attempt) in late {
            self.peers.note_retry(upstream, sent);
            self.fail(ticket, attempt, TryFailure::Late);
        }
    }

    /// Closes a batch's port. Those without a reply go on otherwise.
    fn end_batch(&mut self, slot: usize, failure: TryFailure) {
        for query in self.network.close_batch(slot).left() {
            self.fail(query.ticket, query.attempt, failure);
        }
    }
}
