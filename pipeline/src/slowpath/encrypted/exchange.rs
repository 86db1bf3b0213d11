//! Exchanges with encrypted upstreams, as the desk sees them.

use std::rc::Rc;
use std::time::Duration;

use super::super::counters::count;
use super::super::desk::Desk;
use super::super::output::Output;
use super::super::pending::Ticket;
use super::super::plan::{Attempt, Setback, Transport};
use super::super::prefixes::ClientPrefix;
use super::super::query::{Proof, Query, Question};
use super::{Asked, Heard, Outcome, Report};

/// The id of every query handed over, and of every reply that comes back. Over HTTPS and QUIC it is the id on the
/// wire as well (RFC 8484 section 4.1, RFC 9250 section 4.2.1).
const ID: u16 = 0;

impl Desk {
    /// Asks over an encrypted connection.
    pub(in super::super) fn ask_encrypted(&mut self, ticket: Ticket, attempt: Attempt) {
        let Some((question, _)) = self.pending.find(ticket) else { return };
        let question = Rc::clone(question);
        let question = self.as_told(&question, attempt.upstream);
        let patience = (self.usual_patience(attempt.upstream), self.deadline);
        self.send_encrypted(ticket, question, attempt, patience);
    }

    /// Sends a query to an encrypted upstream. Its question is asked again after the first of these times, and its reply
    /// is taken for the second. If it is shed the plan is told, and no more:
    /// whoever carries the plan out goes on with it, and heeds its pauses.
    pub(in super::super) fn send_encrypted(
        &mut self,
        ticket: Ticket,
        question: Rc<Question>,
        attempt: Attempt,
        patience: (Duration, Duration),
    ) {
        let upstream = attempt.upstream;
        let attempt = Attempt { transport: Transport::Tcp, ..attempt };
        let query = Query::new(&question, ID, None, attempt.edns).padded();
        let prefix = self.pending.prefix_of(ticket).unwrap_or(ClientPrefix::OURS);
        let asked = Asked { prefix, ticket, question, attempt, sent: self.now };
        match self.encrypted.ask(asked, query, patience) {
            Some(request) => {
                count(&self.upstream_counters[upstream].encrypted);
                self.network.outputs.push_back(Output::AskEncrypted(request));
            }
            None => {
                count(&self.upstream_counters[upstream].shed);
                self.tell_plan(ticket, attempt, Setback::Busy);
            }
        }
    }

    /// Takes in what came of a query to an encrypted upstream.
    pub(in super::super) fn hear_encrypted(&mut self, report: Report) {
        match self.encrypted.hear(report) {
            Heard::Late { ticket, attempt, sent } => {
                self.note_retry(attempt.upstream, sent);
                self.note_timeout(attempt.upstream, sent);
                self.learn(ticket, attempt, Setback::Late);
            }
            Heard::End(asked, outcome) => self.conclude_encrypted(asked, outcome),
        }
    }

    fn conclude_encrypted(&mut self, asked: Asked, outcome: Outcome) {
        let Asked { ticket, question, attempt, sent, .. } = asked;
        let upstream = attempt.upstream;
        match outcome {
            // The connection says who replied; that it is the reply to this question is checked as everywhere.
            Outcome::Reply(reply, _) if !question.is_answered_by(ID, None, &reply) => {
                count(&self.upstream_counters[upstream].mismatched);
                self.learn(ticket, attempt, Setback::Unreachable);
            }
            Outcome::Reply(reply, took) => {
                self.note_reply(upstream, self.now.saturating_sub(took));
                let answer = self.read(&question, attempt, Proof::Firm, &reply);
                self.conclude(ticket, attempt, answer);
            }
            Outcome::Silent => self.learn(ticket, attempt, Setback::Silent),
            Outcome::Broken(error) => {
                self.note_broken(upstream, &error, 1);
                self.note_failure(upstream, sent);
                self.learn(ticket, attempt, Setback::Unreachable);
            }
        }
    }
}
