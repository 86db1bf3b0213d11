//! Exchanges: questions put to the upstreams, until one of them answers, the plan gives up, or nobody waits
//! for the answer any more.
//!
//! Here plans meet the network: what a plan says is carried out, and the plan is told what came of it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use arrayvec::ArrayVec;
use pmdns_config::limits::MAX_QUERIES_PER_PORT;

use crate::counters::{add, count};
use crate::questions::pending::Ticket;
use crate::questions::plan::{Attempt, Next, Transport, TryFailure};
use crate::questions::prefixes::ClientPrefix;
use crate::questions::query::{Query, Question, Rule};
use crate::questions::shedding::Reason;
use crate::resolver::{Outcome, Resolver};
use crate::upstreams::network::Timer;
use crate::upstreams::udp_batch::{InFlight, Received, UdpBatch};

/// One who leaves in a batch.
struct BatchedQuery {
    ticket: Ticket,
    question: Rc<Question>,
    attempt: Attempt,
    /// How long to wait for its reply until its question is asked again.
    retry: Duration,
}

/// Between which addresses queries travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The upstream's.
    pub to: SocketAddr,
    /// Ours, if the operator chose one.
    pub from: Option<IpAddr>,
}

/// Those who leave in one batch.
type BatchedQueries = ArrayVec<BatchedQuery, MAX_QUERIES_PER_PORT>;

impl Resolver {
    /// Does what a question's plan says, until it has to wait. A question that has ended needs nothing.
    pub(crate) fn advance(&mut self, ticket: Ticket) {
        while let Some((question, plan)) = self.pending.find(ticket) {
            if let Rule::Alias(found, _) = question.rule() {
                return self.begin_alias(ticket, found);
            }
            match plan.next() {
                Next::Try(attempt) => {
                    if let Some(usual) = plan.take_hedge() {
                        self.network.wake_at(self.now + usual, Timer::Hedge(ticket));
                    }
                    let attempt = self.suited(ticket, attempt);
                    match self.upstreams[attempt.upstream].address.plain() {
                        Some(_) => self.send(ticket, attempt),
                        None => self.ask_encrypted(ticket, attempt),
                    }
                }
                Next::Wait => return,
                Next::Pause(pause) => {
                    return self.network.wake_at(self.now + pause, Timer::Pause(ticket));
                }
                Next::GiveUp if plan.was_shed() => {
                    self.shed_question(ticket, Reason::Upstream);
                }
                Next::GiveUp => {
                    let why = plan.why_none();
                    self.settle(ticket, &Outcome::Failure(why));
                }
            }
        }
    }

    /// Lets a query wait until it can leave, which its client prefix is charged for.
    pub(crate) fn send(&mut self, ticket: Ticket, attempt: Attempt) {
        if let Some(prefix) = self.pending.prefix_of(ticket) {
            self.network.send(prefix, ticket, attempt);
        }
    }

    /// Asks a second upstream, if the first has not replied yet.
    fn hedge(&mut self, ticket: Ticket) {
        if self.pending.find(ticket).is_some_and(|(_, plan)| plan.hedge()) {
            count(&self.counters.hedged);
            self.advance(ticket);
        }
    }

    /// Gives up what is due, and goes on after pauses.
    pub(crate) fn serve_timers(&mut self) {
        for timer in self.network.due(self.now) {
            match timer {
                Timer::Batch(slot) => self.serve_batch(slot),
                Timer::Connection(slot) => self.serve_connection(slot),
                Timer::Pause(ticket) => self.advance(ticket),
                Timer::Hedge(ticket) => self.hedge(ticket),
                Timer::Abandon(ticket) => self.abandon(ticket),
            }
        }
    }

    /// Probes the upstreams that rest and whose time has come.
    pub(crate) fn probe(&mut self) {
        while self.make_room()
            && let Some(upstream) = self.health.take_probe(self.now)
        {
            count(&self.upstream_counters[upstream].probes);
            let (probe, patience) = (Rc::new(Question::probe()), self.probe_timeout);
            match self.upstreams[upstream].address.plain() {
                Some(_) => {
                    let (ticket, question, attempt) = (Ticket::NONE, probe, udp_attempt(upstream));
                    let query = BatchedQuery { ticket, question, attempt, retry: patience };
                    let queries = [query].into_iter().collect();
                    self.launch(upstream, ClientPrefix::OURS, queries, (patience, patience));
                }
                None => {
                    let attempt = udp_attempt(upstream);
                    self.send_encrypted(Ticket::NONE, probe, attempt, (patience, patience));
                }
            }
        }
    }

    /// Sends what waits to be sent, as far as there are sockets for it.
    pub(crate) fn send_queued(&mut self) {
        // Another upstream is the first each turn: where sockets are short, none has them all.
        let upstreams = self.upstreams.len();
        self.network.is_held_back = false;
        self.network.first = (self.network.first + 1) % upstreams.max(1);
        for offset in 0..upstreams {
            self.send_tcp_queries((self.network.first + offset) % upstreams);
        }
        for offset in 0..upstreams {
            let upstream = (self.network.first + offset) % upstreams;
            // What fails at once and waits again does so until the next turn.
            let mut waiting = self.network.udp_queues[upstream].len();
            while waiting > 0 {
                if !self.make_room() {
                    return;
                }
                match self.send_batch(upstream) {
                    0 => break,
                    size => waiting = waiting.saturating_sub(size),
                }
            }
        }
    }

    /// Makes room for a batch, if need be and if it can. Late queries give way to those that have yet to leave.
    fn make_room(&mut self) -> bool {
        while !self.network.can_open_socket() {
            let Some(slot) = self.network.take_late() else { return false };
            self.end_batch(slot, TryFailure::Silent);
        }
        true
    }

    /// Sends a batch to this upstream, and says how many were to leave in it.
    fn send_batch(&mut self, upstream: usize) -> usize {
        let Self { network, pending, health, .. } = self;
        let departing = network.take_batch(upstream, self.queries_per_port);
        let Some((prefix, waiting)) = departing else { return 0 };
        let size = waiting.len();
        // Of some the clients have gone while they waited.
        let mut queries: BatchedQueries = waiting
            .into_iter()
            .filter_map(|(ticket, attempt)| {
                let (question, plan) = pending.find(ticket)?;
                let retry = health.retry_timeout(upstream, plan.round());
                Some(BatchedQuery { ticket, question: Rc::clone(question), attempt, retry })
            })
            .collect();
        for BatchedQuery { question, .. } in &mut queries {
            *question = self.as_told(question, upstream);
        }
        if !queries.is_empty() {
            let usual = self.usual_patience(upstream);
            self.launch(upstream, prefix, queries, (usual, self.deadline));
        }
        size
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
                    self.learn(ticket, attempt, TryFailure::Unreachable);
                }
                return;
            }
        };
        let mixes = self.capabilities[upstream].case_mixer.mixes(self.now);
        let queries = queries
            .into_iter()
            .zip(ids)
            .map(|(BatchedQuery { ticket, question, attempt, retry }, id)| {
                let mixes = mixes && attempt.transport == Transport::Udp;
                // Without random numbers no id would have been drawn either.
                let letter_case = mixes.then(|| self.random.letter_case().ok()).flatten();
                let retry = Some(self.now + retry);
                InFlight { ticket, question, attempt, id, letter_case, retry }
            })
            .collect();
        let times = [self.now, self.now + usual, self.now + patience];
        let batch = UdpBatch::new(upstream, times, queries);
        add(&self.upstream_counters[upstream].queries, batch.left().len() as u64);
        self.network.begin_batch(prefix, batch);
    }

    /// Where a batch goes to, and from where if the operator says so.
    pub fn route_of_batch(&self, slot: usize) -> Option<Route> {
        self.route(self.network.batches.get(slot)?.upstream)
    }

    /// Whether there is a batch in this slot.
    pub fn has_batch(&self, slot: usize) -> bool {
        self.network.batches.contains(slot)
    }

    pub(crate) fn route(&self, upstream: usize) -> Option<Route> {
        let to = &self.upstreams[upstream];
        Some(Route { to: to.address.plain()?, from: to.source })
    }

    /// What is to be sent for a batch, whose address at our end is `local`.
    pub fn messages(
        &mut self,
        slot: usize,
        local: impl FnOnce() -> Option<IpAddr>,
    ) -> impl Iterator<Item = Query> {
        let upstream = self.network.batches.get(slot).map(|batch| batch.upstream);
        let cookie = upstream.and_then(|upstream| self.cookie_for(upstream, local));
        let mut batch = self.network.batches.get_mut(slot);
        if let Some(batch) = &mut batch {
            batch.cookie = cookie;
        }
        batch.into_iter().flat_map(|batch| batch.messages())
    }

    /// Takes in a datagram that has come for a batch.
    pub fn hear_batch(&mut self, slot: usize, datagram: &[u8]) {
        let Some(batch) = self.network.batches.get_mut(slot) else { return };
        let (upstream, sent) = (batch.upstream, batch.sent);
        let received = batch.sort(datagram);
        if batch.left().is_empty() {
            self.network.close_batch(slot);
        }
        let counters = &self.upstream_counters[upstream];
        match received {
            Received::Reply(query, learnt) => {
                self.note_reply(upstream, sent);
                self.take_reply(&query, datagram, learnt);
            }
            Received::CaseMismatch(query) => {
                self.note_case_mismatch(upstream);
                self.learn(query.ticket, query.attempt, TryFailure::CaseMismatch);
            }
            Received::Cookieless(query) => {
                count(&counters.mismatched);
                count(&counters.cookieless);
                self.learn(query.ticket, query.attempt, TryFailure::NeedsTcp);
            }
            Received::Mismatch => count(&counters.mismatched),
            Received::Flood => {
                count(&counters.mismatched);
                self.end_batch(slot, TryFailure::NeedsTcp);
            }
        }
    }

    /// No socket could be opened for a batch.
    pub fn fail_batch(&mut self, slot: usize, error: &io::Error) {
        if self.network.batches.contains(slot) {
            self.note_socket_error(error);
            self.end_batch(slot, TryFailure::Unreachable);
        }
    }

    /// Asks the questions of a batch again that are due, counts its silence, and gives it up in the end.
    fn serve_batch(&mut self, slot: usize) {
        let Some(batch) = self.network.batches.get_mut(slot) else { return };
        let (upstream, sent) = (batch.upstream, batch.sent);
        let (late, overdue) = (batch.take_late(self.now), batch.take_overdue(self.now));
        if batch.has_expired(self.now) {
            self.end_batch(slot, TryFailure::Silent);
        } else {
            self.network.set_batch_timer(slot);
        }
        (0..overdue).for_each(|_| self.note_timeout(upstream, sent));
        if !late.is_empty() {
            self.network.note_late(slot);
        }
        for (ticket, attempt) in late {
            self.note_retry(upstream, sent);
            self.learn(ticket, attempt, TryFailure::Late);
        }
    }

    /// Ends a batch that the network returned an error to.
    pub fn break_batch(&mut self, slot: usize, error: &io::Error) {
        let Some(batch) = self.network.batches.get(slot) else { return };
        let (upstream, sent, lost) = (batch.upstream, batch.sent, batch.left().len());
        self.note_broken(upstream, error, lost as u64);
        self.note_failure(upstream, sent);
        self.end_batch(slot, TryFailure::Unreachable);
    }

    /// Closes a batch's port. Those without a reply go on otherwise.
    fn end_batch(&mut self, slot: usize, failure: TryFailure) {
        let batch = self.network.close_batch(slot);
        for query in batch.left() {
            self.learn(query.ticket, query.attempt, failure);
        }
    }

    /// Tells a question's plan what an attempt came to, and goes on.
    pub(crate) fn learn(&mut self, ticket: Ticket, attempt: Attempt, failure: TryFailure) {
        self.tell_plan(ticket, attempt, failure);
        self.advance(ticket);
    }

    /// Tells a question's plan, if there still is a question, and leaves going on to others.
    pub(crate) fn tell_plan(&mut self, ticket: Ticket, attempt: Attempt, failure: TryFailure) {
        if let Some((_, plan)) = self.pending.find(ticket) {
            plan.learn(attempt, failure);
        }
    }
}

fn udp_attempt(upstream: usize) -> Attempt {
    Attempt { upstream, transport: Transport::Udp, edns: true, late: false }
}
