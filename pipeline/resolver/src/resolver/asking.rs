//! Asking: what a question's plan says is done, and the plan is told what came of it.

use std::io;
use std::net::IpAddr;

use super::{Outcome, Resolver};
use crate::counters::count;
use crate::questions::Timer;
use crate::questions::pending::{Admission, Ticket};
use crate::questions::plan::{Attempt, Next, Transport, TryFailure};
use crate::questions::prefixes::ClientPrefix;
use crate::questions::question::{Question, Rule};
use crate::upstreams::query::Query;
use crate::upstreams::replies::Reading;
use crate::upstreams::{Failed, Replied, Route, encrypted};

use super::shedding::Reason;

impl Resolver {
    /// Opens a question that no client waits for, and for which `prefix` is charged. The caller advances it.
    pub(super) fn open(&mut self, prefix: ClientPrefix, question: Question) -> Admission {
        let Self { questions, upstreams, .. } = self;
        questions.open(prefix, question, |question| upstreams.peers.plan(question))
    }

    /// Does what a question's plan says, until it has to wait. A question that has ended needs nothing.
    pub(super) fn advance(&mut self, ticket: Ticket) {
        let Some(question) = self.questions.find(ticket) else { return };
        if let Rule::Alias(found, _) = question.rule() {
            return self.begin_alias(ticket, found);
        }
        let now = self.time.now;
        while let Some((_, plan)) = self.questions.pending.find(ticket) {
            match plan.next() {
                Next::Try(attempt) => {
                    if let Some(usual) = plan.take_hedge() {
                        self.questions.timers.set(now + usual, Timer::Hedge(ticket));
                    }
                    let attempt = self.suited(&question, ticket, attempt);
                    let prefix = self.questions.pending.prefix_of(ticket);
                    let prefix = prefix.unwrap_or(ClientPrefix::OURS);
                    let asked = self.upstreams.ask(prefix, ticket, &question, attempt);
                    if let Err(Failed { attempt, failure, .. }) = asked {
                        self.tell_plan(ticket, attempt, failure);
                    }
                }
                Next::Wait => return,
                Next::Pause(pause) => {
                    return self.questions.timers.set(now + pause, Timer::Pause(ticket));
                }
                Next::GiveUp if plan.was_shed() => {
                    return self.shed_question(ticket, Reason::Upstream);
                }
                Next::GiveUp => {
                    let why = plan.why_none();
                    return self.settle(ticket, &Outcome::Failure(why));
                }
            }
        }
    }

    /// A try as its upstream can take it. A question that is asked in many variants already goes over TCP.
    fn suited(&mut self, question: &Question, ticket: Ticket, attempt: Attempt) -> Attempt {
        let peers = &self.upstreams.peers;
        let edns = attempt.edns && peers.takes_edns(attempt.upstream);
        let is_udp = attempt.transport != Transport::Tcp && !peers.is_encrypted(attempt.upstream);
        if is_udp && !self.questions.may_use_udp(question, ticket) {
            return Attempt { edns, transport: Transport::Tcp, ..attempt };
        }
        Attempt { edns, ..attempt }
    }

    /// Gives up what is due, and goes on after pauses.
    pub(super) fn serve_timers(&mut self) {
        self.upstreams.serve_timers();
        self.learn_failures();
        for timer in self.questions.timers.due(self.time.now) {
            match timer {
                Timer::Pause(ticket) => self.advance(ticket),
                Timer::Hedge(ticket) => self.hedge(ticket),
                Timer::Abandon(ticket) => self.abandon(ticket),
            }
        }
    }

    /// Asks a second upstream, if the first has not replied yet.
    fn hedge(&mut self, ticket: Ticket) {
        if self.questions.pending.find(ticket).is_some_and(|(_, plan)| plan.hedge()) {
            count(&self.counters.hedged);
            self.advance(ticket);
        }
    }

    /// Tells plans what tries came to that brought no reply, and goes on.
    pub(super) fn learn_failures(&mut self) {
        while let Some(Failed { ticket, attempt, failure }) = self.upstreams.next_failed() {
            self.learn(ticket, attempt, failure);
        }
    }

    /// Tells a question's plan what an attempt came to, and goes on.
    pub(super) fn learn(&mut self, ticket: Ticket, attempt: Attempt, failure: TryFailure) {
        self.tell_plan(ticket, attempt, failure);
        self.advance(ticket);
    }

    fn tell_plan(&mut self, ticket: Ticket, attempt: Attempt, failure: TryFailure) {
        if let Some((_, plan)) = self.questions.pending.find(ticket) {
            plan.learn(attempt, failure);
        }
    }

    /// Goes on with a reply: it ends its question, has to be validated, or is no answer.
    fn conclude(&mut self, replied: &Replied, reply: &[u8]) {
        let Replied { ticket, question, attempt, .. } = replied;
        let reading = Reading {
            now: self.time.context.seconds,
            lifetimes: self.answers.store.lifetimes,
            validates: self.validation.is_on(),
        };
        let answer = match self.upstreams.read(replied, reply, &reading) {
            Ok(answer) => answer,
            Err(failure) => return self.learn(*ticket, *attempt, failure),
        };
        self.upstreams.peers.note_edns(*attempt);
        if question.is_checked() || self.validation.wants(question) {
            return self.judge(*ticket, *attempt, answer, reply.to_vec());
        }
        self.answer_by_rules(*ticket, question, answer, reply);
    }
}

/// What the driver of plain sockets calls. Slots are those of [`crate::Output`].
impl Resolver {
    /// Where a batch goes to, and from where if the operator says so.
    pub fn route_of_batch(&self, slot: usize) -> Option<Route> {
        self.upstreams.route_of_batch(slot)
    }

    /// Whether there is a batch in this slot.
    pub fn has_batch(&self, slot: usize) -> bool {
        self.upstreams.has_batch(slot)
    }

    /// What is to be sent for a batch, whose address at our end is `local`.
    pub fn messages(
        &mut self,
        slot: usize,
        local: impl FnOnce() -> Option<IpAddr>,
    ) -> impl Iterator<Item = Query> {
        self.upstreams.messages(slot, local)
    }

    /// Takes in a datagram that has come for a batch.
    pub fn hear_batch(&mut self, slot: usize, datagram: &[u8]) {
        if let Some(replied) = self.upstreams.hear_batch(slot, datagram) {
            self.conclude(&replied, datagram);
        }
        self.learn_failures();
    }

    /// No socket could be opened for a batch.
    pub fn fail_batch(&mut self, slot: usize, error: &io::Error) {
        self.upstreams.fail_batch(slot, error);
        self.learn_failures();
    }

    /// Ends a batch that the network returned an error to.
    pub fn break_batch(&mut self, slot: usize, error: &io::Error) {
        self.upstreams.break_batch(slot, error);
        self.learn_failures();
    }

    /// Whether there is a connection in this slot.
    pub fn has_connection(&self, slot: usize) -> bool {
        self.upstreams.has_connection(slot)
    }

    /// Where the connection in a slot goes to, and from where if the operator says so.
    pub fn route_of_connection(&self, slot: usize) -> Option<Route> {
        self.upstreams.route_of_connection(slot)
    }

    /// What is to be sent over a connection, whose address at our end is `local`.
    pub fn outgoing(&mut self, slot: usize, local: impl FnOnce() -> Option<IpAddr>) -> &[u8] {
        self.upstreams.outgoing(slot, local)
    }

    /// So many bytes of that have been sent.
    pub fn note_sent(&mut self, slot: usize, len: usize) {
        self.upstreams.note_sent(slot, len);
    }

    /// Takes in what has come over a connection.
    pub fn hear_connection(&mut self, slot: usize, bytes: &[u8]) {
        self.upstreams.receive(slot, bytes);
        while let Some((replied, reply)) = self.upstreams.next_tcp_reply(slot) {
            self.conclude(&replied, &reply);
        }
        self.learn_failures();
    }

    /// No socket could be opened for a connection.
    pub fn fail_connection(&mut self, slot: usize, error: &io::Error) {
        self.upstreams.fail_connection(slot, error);
        self.learn_failures();
    }

    /// A connection has ended by itself.
    pub fn break_connection(&mut self, slot: usize, error: &io::Error) {
        self.upstreams.break_connection(slot, error);
        self.learn_failures();
    }

    /// Takes in what came of a query to an encrypted upstream.
    pub fn hear_encrypted(&mut self, report: encrypted::EncryptedReport) {
        if let Some((replied, reply)) = self.upstreams.hear_encrypted(report) {
            self.conclude(&replied, &reply);
        }
        self.learn_failures();
    }
}
