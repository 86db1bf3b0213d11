//! Asking: carries out a question's plan, and tells the plan the results.

use super::Resolver;
use crate::counters::count;
use crate::questions::Timer;
use crate::questions::pending::{Admission, Ticket};
use crate::questions::plan::{Attempt, Next, Transport, TryFailure};
use crate::questions::prefixes::ClientPrefix;
use crate::questions::question::{Question, Rule};
use crate::timers::MAX_DUE;
use crate::upstreams::replies::Reading;
use crate::upstreams::{Failed, Replied};

use super::shedding::Reason;

impl Resolver {
    /// Opens a question that no client waits for, and for which `prefix` is charged. The caller advances it.
    pub(super) fn open(&mut self, prefix: ClientPrefix, question: Question) -> Admission {
        let Self { questions, upstreams, .. } = self;
        questions.open(prefix, &question, |question| upstreams.peers.plan(question))
    }

    /// Carries out a question's plan until it has to wait. Nothing is done for a question that has ended.
    pub(super) fn advance(&mut self, ticket: Ticket) {
        let Some(question) = self.questions.find(ticket) else { return };
        match question.rule() {
            Rule::Alias(found, _) => return self.begin_alias(ticket, found),
            Rule::Reverse(_) => return self.begin_reverse(ticket, &question),
            Rule::None | Rule::Exempt(_) => {}
        }
        if self.questions.ipv4_targets.has(ticket) {
            return;
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
                        self.report_to_plan(ticket, attempt, failure);
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
                    return self.fail(ticket, why);
                }
            }
        }
    }

    /// Adapts a try to its upstream. A question that is already asked in many variants goes over TCP.
    fn suited(&mut self, question: &Question, ticket: Ticket, attempt: Attempt) -> Attempt {
        let peers = &self.upstreams.peers;
        let edns = attempt.edns && peers.takes_edns(attempt.upstream);
        let is_udp = attempt.transport != Transport::Tcp && !peers.is_encrypted(attempt.upstream);
        if is_udp && !self.questions.may_use_udp(question, ticket) {
            return Attempt { edns, transport: Transport::Tcp, ..attempt };
        }
        Attempt { edns, ..attempt }
    }

    /// Gives up questions that are due, and continues after pauses.
    pub(super) fn serve_timers(&mut self) {
        self.upstreams.serve_timers();
        self.learn_failures();
        for _ in 0..MAX_DUE {
            let Some(timer) = self.questions.timers.next_due(self.time.now) else { return };
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

    /// Tells plans about tries without a reply, and continues them.
    pub(super) fn learn_failures(&mut self) {
        while let Some(Failed { ticket, attempt, failure }) = self.upstreams.next_failed() {
            self.learn(ticket, attempt, failure);
        }
    }

    /// Tells a question's plan why an attempt failed, and continues it.
    pub(super) fn learn(&mut self, ticket: Ticket, attempt: Attempt, failure: TryFailure) {
        self.report_to_plan(ticket, attempt, failure);
        self.advance(ticket);
    }

    fn report_to_plan(&mut self, ticket: Ticket, attempt: Attempt, failure: TryFailure) {
        if let Some((_, plan)) = self.questions.pending.find(ticket) {
            plan.learn(attempt, failure);
        }
    }

    /// Handles a reply. Its question has mostly ended then.
    pub(super) fn conclude(&mut self, replied: Replied, reply: &[u8]) {
        self.judge_reply(&replied, reply);
        self.questions.pending.recycle(replied.question);
    }

    /// A reply ends its question, has to be validated, or is no answer.
    fn judge_reply(&mut self, replied: &Replied, reply: &[u8]) {
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
