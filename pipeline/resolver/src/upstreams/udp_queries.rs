//! Queries over UDP: which ones leave together, how datagrams are handled, and when queries are given up.

use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use super::{Replied, Upstreams};
use crate::counters::counts_rarely;
use crate::counters::shared::{add, count};
use crate::output::Output;
use crate::questions::pending::{Pending, Ticket};
use crate::questions::plan::{Attempt, Plan, Transport, TryFailure};
use crate::questions::prefixes::ClientPrefix;
use crate::questions::question::Question;
use crate::upstreams::query::{Proof, Query, announced_size};
use crate::upstreams::udp_batch::{Received, UdpBatch, UdpQuery};

/// Batches that have ended whose memory is kept for the next ones.
const MAX_SPARE: usize = 4096;

impl Upstreams {
    /// Makes room for a batch to this upstream, if necessary and possible. Batches whose queries are all late are closed for it.
    pub(super) fn make_room(&mut self, upstream: usize) -> bool {
        while !self.network.can_open_socket(upstream) {
            let Some(slot) = self.network.take_late(upstream) else { return false };
            self.end_batch(slot, TryFailure::Silent);
        }
        true
    }

    /// Sends a batch to this upstream. Returns how many queries were taken from the queue.
    pub(super) fn send_batch(&mut self, upstream: usize, pending: &mut Pending<Plan>) -> usize {
        let mut departing = std::mem::take(&mut self.departing);
        let leader = self.network.take_batch(upstream, self.queries_per_port, &mut departing);
        // The clients of some queries have gone while they waited.
        let mut queries = self.spare.pop().unwrap_or_default();
        queries.extend(departing.iter().filter_map(|(ticket, attempt)| {
            let (question, plan) = pending.find(*ticket)?;
            let retry = self.peers.retry_timeout(upstream, plan.round());
            let question = self.peers.as_sent(question, upstream);
            Some(self.query(*ticket, question, *attempt, retry))
        }));
        let size = departing.len();
        departing.clear();
        self.departing = departing;
        if let Some(prefix) = leader.filter(|_| !queries.is_empty()) {
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
        let query = self.query(Ticket::NONE, question, attempt, patience);
        let patience = (patience, patience);
        self.launch(attempt.upstream, ClientPrefix::OURS, vec![query], patience);
    }

    /// A query whose question is asked again if its reply takes longer than `retry`. It has no id yet.
    fn query(
        &self,
        ticket: Ticket,
        question: Rc<Question>,
        attempt: Attempt,
        retry: Duration,
    ) -> UdpQuery {
        let retry = Some(self.peers.now + retry);
        UdpQuery { ticket, question, attempt, id: 0, letter_case: None, retry }
    }

    /// Sends a batch, and charges `prefix`. Queries without a reply count as failures of the upstream after `usual`.
    /// Replies are accepted for `patience`.
    fn launch(
        &mut self,
        upstream: usize,
        prefix: ClientPrefix,
        mut queries: Vec<UdpQuery>,
        (usual, patience): (Duration, Duration),
    ) {
        let route = match self.disguise(upstream, &mut queries) {
            Ok(()) => self.peers.route(upstream),
            Err(error) => {
                self.note_socket_error(&error);
                None
            }
        };
        let Some(route) = route else {
            for UdpQuery { ticket, attempt, .. } in queries {
                self.fail(ticket, attempt, TryFailure::Unreachable);
            }
            return;
        };
        let times = [self.peers.now, self.peers.now + usual, self.peers.now + patience];
        let batch = UdpBatch::new(upstream, times, queries);
        add(&self.peers.counters(upstream).queries, batch.left().len() as u64);
        let slot = self.network.begin_batch(prefix, batch);
        self.network.outputs.push_back(Output::SendBatch { slot, route });
    }

    /// Gives queries what a forger has to guess: ids, no two of them the same, and letter cases.
    fn disguise(&mut self, upstream: usize, queries: &mut [UdpQuery]) -> io::Result<()> {
        let ids = self.random.ids(queries.len())?;
        let mixes = self.peers.mixes_case(upstream);
        for (query, id) in queries.iter_mut().zip(ids) {
            query.id = id;
            if mixes && query.attempt.transport == Transport::Udp {
                query.letter_case = Some(self.random.letter_case()?);
            }
        }
        Ok(())
    }

    /// Whether there is a batch in this slot.
    pub(crate) fn has_batch(&self, slot: usize) -> bool {
        self.network.batches.contains(slot)
    }

    /// Passes each message of a batch to `send`, until one fails. `local` gives the local address of its socket.
    pub(crate) fn send_messages<E>(
        &mut self,
        slot: usize,
        local: impl FnOnce() -> Option<IpAddr>,
        send: impl FnMut(&Query) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(batch) = self.network.batches.get_mut(slot) else { return Ok(()) };
        batch.cookie = self.peers.cookie_for(batch.upstream, local);
        batch.send(send)
    }

    /// Takes in a datagram that has come for a batch.
    pub(crate) fn receive_batch(&mut self, slot: usize, datagram: &[u8]) -> Option<Replied> {
        let batch = self.network.batches.get_mut(slot)?;
        let (upstream, sent) = (batch.upstream, batch.sent);
        let received = batch.sort(datagram);
        if batch.left().is_empty() {
            self.close_done(slot);
        }
        let counters = self.peers.counters(upstream);
        match received {
            Received::Reply { query, learnt, is_spelt } => {
                self.peers.note_reply(upstream, sent, query.ticket, datagram);
                let UdpQuery { ticket, question, attempt, letter_case, .. } = query;
                if letter_case.is_some() && is_spelt {
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
            Received::Flood => self.end_flooded(slot),
        }
        None
    }

    /// Counts a datagram that answers no query of the batch. Many are an attack.
    pub(super) fn receive_mismatch(&mut self, slot: usize) {
        let Some(batch) = self.network.batches.get_mut(slot) else { return };
        match batch.mismatch() {
            Received::Flood => self.end_flooded(slot),
            _ => count(&self.peers.counters(batch.upstream).mismatched),
        }
    }

    /// Has the questions of a batch asked over TCP, because somebody guesses its replies.
    fn end_flooded(&mut self, slot: usize) {
        let Some(batch) = self.network.batches.get(slot) else { return };
        count(&self.peers.counters(batch.upstream).mismatched);
        self.end_batch(slot, TryFailure::NeedsTcp);
    }

    /// No socket could be opened for a batch.
    pub(crate) fn fail_batch(&mut self, slot: usize, error: &io::Error) {
        if self.network.batches.contains(slot) {
            self.note_socket_error(error);
            self.end_batch(slot, TryFailure::Unreachable);
        }
    }

    /// No UDP port was free for a query over a port.
    pub(crate) fn shed_batch(&mut self, slot: usize) {
        if !self.network.batches.contains(slot) {
            return;
        }
        for UdpQuery { ticket, attempt, .. } in self.network.close_batch(slot).left() {
            self.shed_over_port(*ticket, *attempt);
        }
    }

    /// A query over a port is not sent for want of a UDP port.
    pub(super) fn shed_over_port(&mut self, ticket: Ticket, attempt: Attempt) {
        count(&self.peers.counters(attempt.upstream).shed);
        if counts_rarely(&self.counters.no_udp_port) {
            let address = &self.peers.settings(attempt.upstream).address;
            tracing::warn!(
                "a query over a port to upstream {address} finds no UDP port. Add an address of its family to query_sources of \
                 that port, unless a few clients flood. This warning is rarer each time; slowpath.no_udp_port counts all"
            );
        }
        self.fail(ticket, attempt, TryFailure::Busy);
    }

    /// Ends a batch whose socket reported an error.
    pub(crate) fn break_batch(&mut self, slot: usize, error: &io::Error) {
        let Some(batch) = self.network.batches.get(slot) else { return };
        self.peers.note_error(batch.upstream, batch.sent, error, batch.left().len());
        self.end_batch(slot, TryFailure::of(error));
    }

    /// Serves a batch's timer: has questions asked again, counts time-outs, and gives the batch up in the end.
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

    /// Closes the port of a batch that has no queries any more. Its memory is kept for another.
    pub(super) fn close_done(&mut self, slot: usize) {
        let queries = self.network.close_batch(slot).into_queries();
        if self.spare.len() < MAX_SPARE {
            self.spare.push(queries);
        }
    }

    /// Closes a batch's port. Its queries without a reply fail with `failure`.
    fn end_batch(&mut self, slot: usize, failure: TryFailure) {
        for query in self.network.close_batch(slot).left() {
            self.fail(query.ticket, query.attempt, failure);
        }
    }
}
