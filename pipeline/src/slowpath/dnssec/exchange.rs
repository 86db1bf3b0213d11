//! Validation, as the desk sees it.

use std::rc::Rc;

use pmdns_stages::cache::{Entry, Key, Lifetimes};
use pmdns_stages::wire::dns::CLASS_IN;
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::wire::subnet::Subnet;
use pmdns_validator::{Judgement, Limits, is_signed};

use super::super::counters::count;
use super::super::desk::{Desk, Outcome};
use super::super::network::Timer;
use super::super::pending::{Admission, Ticket};
use super::super::plan::{Attempt, Setback, Transport};
use super::super::prefixes::ClientPrefix;
use super::super::query::Question;
use super::super::subnets::Answer;
use super::{Report, Sound, Validated, Verdict, thread};

/// Reports taken in one turn; misses wait meanwhile.
const MAX_HEARD: usize = 256;

impl Desk {
    /// Goes on with an answer that validation is about: it has to be judged, or it is what the judge asked for.
    pub(in super::super) fn judge(
        &mut self,
        ticket: Ticket,
        attempt: Attempt,
        answer: Answer,
        reply: Vec<u8>,
    ) {
        let Some((question, _)) = self.pending.find(ticket) else { return };
        let question = Rc::clone(question);
        if question.is_checked() {
            self.begin_validation(ticket, attempt, &question, answer.network, reply);
        } else if self.pending.is_unattended(ticket)
            && !is_signed(&reply, Limits::default().records)
        {
            // It is asked for only where a signed zone is: this upstream leaves signatures out.
            self.learn(ticket, attempt, Setback::Bogus(ExtendedError::RRSIGS_MISSING));
        } else {
            self.validation.fetched(&question, Some(&reply));
            let entry = self.judged(&question, answer.entry, &reply);
            self.answer(ticket, Answer { entry, ..answer });
        }
    }

    /// Judges a reply that nothing has to be found out about, or hands it over.
    fn begin_validation(
        &mut self,
        ticket: Ticket,
        attempt: Attempt,
        question: &Question,
        network: Option<Subnet>,
        reply: Vec<u8>,
    ) {
        let dnssec_ok = question.key().flags & Key::DO != 0;
        if let Some(verdict) = self.validation.verdict(question, &reply) {
            let judgement = Judgement { verdict, max_ttl: u32::MAX, keep: Vec::new() };
            let verdict = thread::verdict(&judgement, &reply, dnssec_ok);
            return self.carry_out_verdict((ticket, attempt, network), verdict);
        }
        let clients = self.pending.prefix_of(ticket).unwrap_or(ClientPrefix::OURS);
        let Some(place) = self.validation.take_place(clients, question) else {
            count(&self.counters.validation_shed);
            let why = ExtendedError::DNSSEC_INDETERMINATE;
            return self.settle(ticket, &Outcome::Failure(why));
        };
        let validated = Validated { ticket, attempt, network, place };
        self.validation.validate(validated, question, reply, dnssec_ok);
    }

    /// Takes in what the validator says, and says how much that was.
    pub(in super::super) fn hear_validation(&mut self) -> usize {
        for heard in 0..MAX_HEARD {
            match self.validation.reports.try_recv() {
                Ok(Report::Verdict { slot, verdict }) => {
                    if let Some(validated) = self.validation.end(slot) {
                        self.carry_out_verdict(validated, verdict);
                    }
                }
                Ok(Report::Fetch { name, qtype }) => self.fetch(name, qtype),
                Err(_) => return heard,
            }
        }
        MAX_HEARD
    }

    fn carry_out_verdict(
        &mut self,
        (ticket, attempt, network): (Ticket, Attempt, Option<Subnet>),
        verdict: Verdict,
    ) {
        use pmdns_validator::Verdict::{Insecure, Secure};
        count(match &verdict {
            Verdict::Sound(Sound { standing: Secure, .. }) => &self.counters.secure,
            Verdict::Sound(Sound { standing: Insecure, .. }) => &self.counters.insecure,
            Verdict::Bogus(_) => &self.counters.bogus,
            Verdict::OverBudget(_) => &self.counters.validation_over_budget,
            Verdict::Sound(_) | Verdict::Late => &self.counters.indeterminate,
        });
        let entry = match verdict {
            Verdict::Sound(sound) => self.read_sound(ticket, attempt, &sound),
            Verdict::Bogus(why) => Err(Setback::Bogus(extended_error(why))),
            // Another upstream's reply would cost as much.
            Verdict::OverBudget(why) => {
                return self.settle(ticket, &Outcome::Failure(extended_error(why)));
            }
            Verdict::Late => Err(Setback::Bogus(ExtendedError::DNSSEC_INDETERMINATE)),
        };
        match entry {
            Ok(entry) => self.answer(ticket, Answer { entry, network }),
            Err(setback) => self.learn(ticket, attempt, setback),
        }
    }

    /// Makes an entry of a reply that can be passed on.
    fn read_sound(
        &mut self,
        ticket: Ticket,
        attempt: Attempt,
        sound: &Sound,
    ) -> Result<Entry, Setback> {
        let Some((question, _)) = self.pending.find(ticket) else {
            return Err(Setback::Refused(None));
        };
        let max_ttl = self.lifetimes.max_ttl.min(sound.max_ttl);
        let lifetimes = Lifetimes { max_ttl, ..self.lifetimes };
        let (key, now) = (question.key(), self.context.seconds);
        let entry = Entry::from_reply(&sound.reply, key, question.hash(), now, &lifetimes);
        let mut entry = entry.map_err(|_| Setback::Refused(None))?;
        if matches!(sound.standing, pmdns_validator::Verdict::Secure)
            || attempt.transport == Transport::Tcp
        {
            entry.vouch();
        }
        let question = Rc::clone(question);
        Ok(self.judged(&question, entry, &sound.reply))
    }

    /// Asks the upstreams for the validator. Nobody waits but that, and only for a while.
    fn fetch(&mut self, name: Box<[u8]>, qtype: u16) {
        let key = Key { name: &name, qtype, qclass: CLASS_IN, flags: Key::DO | Key::CD };
        let question = Question::of_key(key, self.cache.seed()).validating(true);
        if self.failures.why(&question, self.now).is_some() {
            return self.validation.give(name, qtype, None);
        }
        let Self { groups, health, now, .. } = self;
        let begin = |question: &Question| groups.plan(question.zone(), health, *now);
        let admission = self.pending.begin(question.clone(), begin);
        if let Admission::Shed(_) = admission {
            count(&self.counters.validation_shed);
            return self.validation.give(name, qtype, None);
        }
        self.validation.fetches.insert(question, (name, qtype));
        if let Admission::Leads(ticket) = admission {
            count(&self.counters.pending);
            count(&self.counters.validation_queries);
            self.network.wake_at(self.now + self.deadline, Timer::Abandon(ticket));
            self.advance(ticket);
        }
    }
}

/// An extended error by its code.
fn extended_error(code: u16) -> ExtendedError {
    ExtendedError::read(&code.to_be_bytes()).unwrap_or(ExtendedError::DNSSEC_BOGUS)
}
