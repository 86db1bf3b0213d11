//! Validating: replies go to the validator and come back as verdicts. The validator's own questions are asked upstream.

use pmdns_stages::cache::{Entry, Key, Lifetimes};
use pmdns_stages::wire::dns::CLASS_IN;
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_validator::{Judgement, ValidatorLimits, is_signed};

use super::shedding::Reason;
use super::{Outcome, Resolver, Time};
use crate::counters::count;
use crate::origin::Origin;
use crate::questions::pending::{Admission, Ticket};
use crate::questions::plan::{Attempt, Transport, TryFailure};
use crate::questions::prefixes::ClientPrefix;
use crate::questions::question::Question;
use crate::upstreams::replies::ResolvedAnswer;
use crate::validation::{
    Candidate, Ended, Fetched, ReplyVerdict, Sound, Validated, ValidationReport, worker,
};

impl Resolver {
    /// Handles an answer that concerns validation: it has to be judged, or it answers a question of the validator.
    pub(super) fn judge(
        &mut self,
        ticket: Ticket,
        attempt: Attempt,
        answer: ResolvedAnswer,
        reply: Vec<u8>,
    ) {
        let Some(question) = self.questions.find(ticket) else { return };
        if question.is_checked() {
            let candidate = Candidate { ticket, attempt, network: answer.network };
            self.begin_validation(candidate, &question, reply);
        } else if self.questions.pending.is_unattended(ticket)
            && !is_signed(&reply, ValidatorLimits::default().records)
        {
            // The validator asks only about signed zones, so this upstream leaves signatures out.
            self.learn(ticket, attempt, TryFailure::Bogus(ExtendedError::RRSIGS_MISSING));
        } else {
            self.validation.fetched(&question, || Fetched::Reply(reply.clone()));
            self.answer_by_rules(ticket, &question, answer, &reply);
        }
    }

    /// Judges a reply at once if no keys are needed, or hands it over to the validator.
    fn begin_validation(&mut self, candidate: Candidate, question: &Question, reply: Vec<u8>) {
        let dnssec_ok = question.key().flags & Key::DO != 0;
        if let Some(verdict) = self.validation.verdict(question, &reply) {
            let judgement = Judgement { verdict, max_ttl: u32::MAX, keep: Vec::new() };
            let verdict = worker::verdict(&judgement, &reply, dnssec_ok);
            return self.carry_out_verdict(candidate, verdict);
        }
        self.hand_over(candidate, question, reply, None);
    }

    /// Hands a reply over to the validator, and charges the first of its client prefixes that has a place. The prefix
    /// `shed` is left out: it had no room for a question that the validation needs.
    fn hand_over(
        &mut self,
        candidate: Candidate,
        question: &Question,
        reply: Vec<u8>,
        shed: Option<ClientPrefix>,
    ) {
        let ticket = candidate.ticket;
        let clients = self.questions.pending.prefixes_of(ticket);
        let mut clients = clients.into_iter().filter(|prefix| shed != Some(*prefix));
        let Self { validation, time, .. } = self;
        let place = clients.find_map(|prefix| validation.take_place(prefix, question, time.now));
        let Some(place) = place else {
            count(&self.counters.validation_shed);
            return self.settle(ticket, &Outcome::Shed(ExtendedError::DNSSEC_INDETERMINATE));
        };
        if place.is_frugal {
            count(&self.counters.validation_frugal);
        }
        self.questions.pending.pass_on(ticket, place.clients);
        let was_shed = shed.is_some();
        let validated = Validated { candidate, was_shed, place };
        let dnssec_ok = question.key().flags & Key::DO != 0;
        self.validation.validate(validated, question, reply, dnssec_ok);
    }

    /// Hands a reply over again after a question for it was shed. Clients of another prefix may wait for it and have
    /// room.
    fn hand_over_again(&mut self, ended: &Ended, reply: Vec<u8>) {
        let Ended { candidate, was_shed, clients } = *ended;
        let Some(question) = self.questions.find(candidate.ticket) else { return };
        if was_shed {
            return self
                .settle(candidate.ticket, &Outcome::Shed(ExtendedError::DNSSEC_INDETERMINATE));
        }
        self.hand_over(candidate, &question, reply, Some(clients));
    }

    /// Takes in a report of the validator.
    pub fn receive_validation(&mut self, now: Time, report: ValidationReport) {
        self.set_time(now);
        match report {
            ValidationReport::Verdict { slot, verdict, cost } => {
                let Some(ended) = self.validation.end(slot, cost, self.time.now) else { return };
                match verdict {
                    ReplyVerdict::Shed(reply) => self.hand_over_again(&ended, reply),
                    verdict => self.carry_out_verdict(ended.candidate, verdict),
                }
            }
            ValidationReport::Fetch { slot, name, qtype } => {
                let clients = self.validation.clients_of(slot);
                self.fetch(clients, name, qtype);
            }
        }
    }

    fn carry_out_verdict(&mut self, candidate: Candidate, verdict: ReplyVerdict) {
        use pmdns_validator::SecurityStatus::{Insecure, Secure};
        let Candidate { ticket, attempt, network } = candidate;
        count(match &verdict {
            ReplyVerdict::Sound(Sound { standing: Secure, .. }) => &self.counters.secure,
            ReplyVerdict::Sound(Sound { standing: Insecure, .. }) => &self.counters.insecure,
            ReplyVerdict::Bogus(_) => &self.counters.bogus,
            ReplyVerdict::OverBudget(_) => &self.counters.validation_over_budget,
            ReplyVerdict::Sound(_) | ReplyVerdict::Late | ReplyVerdict::Shed(_) => {
                &self.counters.indeterminate
            }
        });
        let entry = match verdict {
            ReplyVerdict::Sound(sound) => self.read_sound(ticket, attempt, &sound),
            ReplyVerdict::Bogus(why) => Err(TryFailure::Bogus(extended_error(why))),
            // Another upstream's reply would cost as much.
            ReplyVerdict::OverBudget(why) => {
                return self.settle(ticket, &Outcome::Failure(extended_error(why)));
            }
            ReplyVerdict::Late | ReplyVerdict::Shed(_) => {
                Err(TryFailure::Bogus(ExtendedError::DNSSEC_INDETERMINATE))
            }
        };
        match entry {
            Ok(entry) => self.answer(
                ticket,
                ResolvedAnswer { entry, network, origin: Origin::upstream(attempt.upstream) },
            ),
            Err(failure) => self.learn(ticket, attempt, failure),
        }
    }

    /// Makes an entry of a reply that can be passed on.
    fn read_sound(
        &mut self,
        ticket: Ticket,
        attempt: Attempt,
        sound: &Sound,
    ) -> Result<Entry, TryFailure> {
        let Some(question) = self.questions.find(ticket) else {
            return Err(TryFailure::Refused(None));
        };
        let lifetimes = self.answers.store.lifetimes;
        let max_ttl = lifetimes.max_ttl.min(sound.max_ttl);
        let lifetimes = Lifetimes { max_ttl, ..lifetimes };
        let (key, now) = (question.key(), self.time.context.seconds);
        let entry = Entry::from_reply(&sound.reply, key, question.hash(), now, &lifetimes);
        let mut entry = entry.map_err(|_| TryFailure::Refused(None))?;
        if matches!(sound.standing, pmdns_validator::SecurityStatus::Secure)
            || attempt.transport == Transport::Tcp
        {
            entry.vouch();
        }
        Ok(self.answers.judged(&question, entry, &sound.reply))
    }

    /// Asks the upstreams on behalf of the validator. Only the validator waits for the answer, for a bounded time. The
    /// question is charged to the clients whose reply needs it, like their own misses.
    fn fetch(&mut self, clients: ClientPrefix, name: Box<[u8]>, qtype: u16) {
        let key = Key { name: &name, qtype, qclass: CLASS_IN, flags: Key::DO | Key::CD };
        let question = Question::of_key(key, self.answers.store.seed()).validating(true);
        if self.questions.why_failed(&question).is_some() {
            return self.validation.give(name, qtype, Fetched::Nothing);
        }
        if let Some(heaviest) = self.questions.pending.displace_for(clients) {
            self.shed_question(heaviest, Reason::Displaced);
        }
        let admission = self.open(clients, question.clone());
        if let Admission::Shed(_) = admission {
            count(&self.counters.validation_shed);
            return self.validation.give(name, qtype, Fetched::Shed);
        }
        self.validation.fetches.insert(question, (name, qtype));
        if let Admission::Leads(ticket) = admission {
            count(&self.counters.validation_queries);
            self.advance(ticket);
        }
    }
}

/// An extended error by its code.
fn extended_error(code: u16) -> ExtendedError {
    ExtendedError::read(&code.to_be_bytes()).unwrap_or(ExtendedError::DNSSEC_BOGUS)
}
