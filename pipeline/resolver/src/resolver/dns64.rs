//! DNS64 (RFC 6147): AAAA records are made of A records, for names that have no other. Reverse names of such addresses
//! are aliases of those of the IPv4 addresses.
//!
//! A question for AAAA records whose answer has none stays pending. The A records of its name become another question,
//! which is charged to the same clients. It is asked, validated and judged by rules like one of a client, and its answer
//! is cached. Only then the answer is made, and cached like any other.

use std::rc::Rc;

use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::wire::subnet::Subnet;

use super::shedding::Reason;
use super::{Outcome, Resolver};
use crate::answers::dns64::Ipv6;
use crate::counters::count;
use crate::questions::pending::{Admission, Ticket};
use crate::questions::prefixes::ClientPrefix;
use crate::questions::question::Question;
use crate::questions::targets::WithoutIpv6;
use crate::upstreams::replies::ResolvedAnswer;

impl Resolver {
    /// The answer to a question as it is after addresses have been made, or left out. `None`: it is not known before that of
    /// another question is.
    pub(super) fn with_ipv6(
        &mut self,
        ticket: Ticket,
        answer: ResolvedAnswer,
    ) -> Option<ResolvedAnswer> {
        let Some(question) = self.questions.find(ticket) else { return Some(answer) };
        match self.answers.ipv6(&question, &answer.entry) {
            Ipv6::Enough => Some(answer),
            Ipv6::Some(entry) => Some(ResolvedAnswer { entry, ..answer }),
            Ipv6::None if self.questions.ipv4_targets.has(ticket) => {
                self.questions.ipv4_targets.update(ticket, Ok((answer.entry, answer.network)));
                None
            }
            Ipv6::None => {
                self.ask_ipv4(ticket, &question, Ok((answer.entry, answer.network)));
                None
            }
        }
    }

    /// Ends a question that no upstream could answer. For one for AAAA records that is as if there were none (RFC 6147
    /// section 5.1.2), unless the reason is that the answer is bogus.
    pub(super) fn fail(&mut self, ticket: Ticket, why: ExtendedError) {
        match self.questions.find(ticket) {
            Some(question) if self.answers.makes_ipv6(&question) && !why.is_of_dnssec() => {
                self.ask_ipv4(ticket, &question, Err(why));
            }
            _ => self.settle(ticket, &Outcome::Failure(why)),
        }
    }

    /// Asks for the A records of a name.
    fn ask_ipv4(&mut self, ticket: Ticket, question: &Question, came: WithoutIpv6) {
        let target = self.answers.for_ipv4(question, self.validation.is_on());
        if let Some(answer) = self.answers.known_in_network(&target) {
            return self.make_ipv6(ticket, came, &answer);
        }
        if let Some(why) = self.questions.why_failed(&target) {
            return self.settle(ticket, &Outcome::Failure(why));
        }
        let clients = self.questions.pending.prefix_of(ticket).unwrap_or(ClientPrefix::OURS);
        if let Some(heaviest) = self.questions.pending.displace_for(clients) {
            self.shed_question(heaviest, Reason::Displaced);
        }
        let admission = self.open(clients, target.clone());
        if let Admission::Shed(_) = admission {
            return self.settle(ticket, &Outcome::Shed(ExtendedError::NOT_READY));
        }
        self.questions.ipv4_targets.wait(target, ticket, came);
        if let Admission::Leads(target) = admission {
            self.advance(target);
        }
    }

    /// Ends the questions that wait for `target`, a question for A records that has ended.
    pub(super) fn make_ipv6_from(&mut self, target: &Rc<Question>, outcome: &Outcome) {
        for (ticket, came) in self.questions.ipv4_targets.take(target) {
            match outcome {
                Outcome::Answer(answer) => self.make_ipv6(ticket, came, answer),
                Outcome::Failure(why) => self.settle(ticket, &Outcome::Failure(*why)),
                Outcome::Shed(why) => self.settle(ticket, &Outcome::Shed(*why)),
            }
        }
    }

    /// Ends a question for AAAA records with those made of the A records in `ipv4`. Without any it ends as it would have.
    fn make_ipv6(&mut self, ticket: Ticket, came: WithoutIpv6, ipv4: &ResolvedAnswer) {
        let Some(question) = self.questions.find(ticket) else { return };
        let answered = came.as_ref().ok();
        let made = self.answers.made_of(&question, answered.map(|(entry, _)| entry), &ipv4.entry);
        let network = narrower(answered.and_then(|(_, network)| *network), ipv4.network);
        match (made, came) {
            (Some(entry), _) => {
                count(&self.counters.synthesised);
                self.give(ticket, ResolvedAnswer { entry, network, origin: ipv4.origin });
            }
            (None, Ok((entry, _))) => {
                self.give(ticket, ResolvedAnswer { entry, network, origin: ipv4.origin });
            }
            (None, Err(why)) => self.settle(ticket, &Outcome::Failure(why)),
        }
    }

    /// Begins with a question for a reverse name under a prefix of DNS64.
    pub(super) fn begin_reverse(&mut self, ticket: Ticket, question: &Question) {
        match self.answers.reverse_alias(question) {
            Some(entry) => self.lead_on(ticket, &entry),
            // The rules have changed since the question was admitted.
            None => self.settle(ticket, &Outcome::Failure(ExtendedError::NOT_READY)),
        }
    }
}

/// The network that an answer is for which is made of two.
fn narrower(one: Option<Subnet>, other: Option<Subnet>) -> Option<Subnet> {
    [one, other].into_iter().flatten().max_by_key(|network| network.length())
}
