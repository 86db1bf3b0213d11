//! Validation, as the desk sees it.

use std::rc::Rc;

use pmdns_stages::cache::{Entry, Key, Lifetimes};
use pmdns_stages::wire::dns::CLASS_IN;
use pmdns_stages::wire::edns::ExtendedError;

use super::super::counters::count;
use super::super::desk::{Desk, Outcome};
use super::super::network::Timer;
use super::super::pending::{Admission, Ticket};
use super::super::plan::{Attempt, Setback, Transport};
use super::super::query::Question;
use super::super::subnets::Answer;
use super::{Report, Sound, Standing, Validated, Verdict, message};

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
            let dnssec_ok = question.key().flags & Key::DO != 0;
            let validated = Validated { ticket, attempt, network: answer.network };
            if !self.validation.validate(validated, reply, dnssec_ok) {
                count(&self.counters.validation_shed);
                let why = ExtendedError::DNSSEC_INDETERMINATE;
                self.settle(ticket, &Outcome::Failure(why));
            }
        } else if self.pending.is_unattended(ticket) && !message::is_signed(&reply) {
            // It is asked for only where a signed zone is: this upstream leaves signatures out.
            self.learn(ticket, attempt, Setback::Bogus(ExtendedError::RRSIGS_MISSING));
        } else {
            self.validation.fetched(&question, Some(&reply));
            let entry = self.judged(&question, answer.entry, &reply);
            self.answer(ticket, Answer { entry, ..answer });
        }
    }

    /// Takes in what the validator says, and says how much that was.
    pub(in super::super) fn hear_validation(&mut self) -> usize {
        for heard in 0..MAX_HEARD {
            match self.validation.reports.try_recv() {
                Ok(Report::Verdict { slot, verdict }) => {
                    let validated = self.validation.under_way.remove(slot);
                    self.carry_out_verdict(&validated, verdict);
                }
                Ok(Report::Fetch { fetch, name, qtype }) => self.fetch(fetch, &name, qtype),
                Err(_) => return heard,
            }
        }
        MAX_HEARD
    }

    fn carry_out_verdict(&mut self, validated: &Validated, verdict: Verdict) {
        let Validated { ticket, attempt, network } = *validated;
        let entry = match &verdict {
            Verdict::Sound(sound) => self.read_sound(ticket, attempt, sound),
            Verdict::Bogus(why) => Err(Setback::Bogus(*why)),
            Verdict::Late => Err(Setback::Bogus(ExtendedError::DNSSEC_INDETERMINATE)),
        };
        count(match verdict {
            Verdict::Sound(Sound { standing: Standing::Secure, .. }) => &self.counters.secure,
            Verdict::Sound(Sound { standing: Standing::Insecure, .. }) => &self.counters.insecure,
            Verdict::Bogus(_) => &self.counters.bogus,
            Verdict::Sound(_) | Verdict::Late => &self.counters.indeterminate,
        });
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
        if matches!(sound.standing, Standing::Secure) || attempt.transport == Transport::Tcp {
            entry.vouch();
        }
        let question = Rc::clone(question);
        Ok(self.judged(&question, entry, &sound.reply))
    }

    /// Asks the upstreams for the validator. Nobody waits but that, and only for a while.
    fn fetch(&mut self, fetch: usize, name: &[u8], qtype: u16) {
        let key = Key { name, qtype, qclass: CLASS_IN, flags: Key::DO | Key::CD };
        let question = Question::of_key(key, self.cache.seed()).validating(true);
        if self.failures.why(&question, self.now).is_some() {
            return self.validation.give(fetch, None);
        }
        let Self { groups, health, now, .. } = self;
        let begin = |question: &Question| groups.plan(question.zone(), health, *now);
        let admission = self.pending.begin(question.clone(), begin);
        if let Admission::Shed(_) = admission {
            count(&self.counters.validation_shed);
            return self.validation.give(fetch, None);
        }
        self.validation.fetches.entry(question).or_default().push(fetch);
        if let Admission::Leads(ticket) = admission {
            count(&self.counters.pending);
            count(&self.counters.validation_queries);
            self.network.wake_at(self.now + self.deadline, Timer::Abandon(ticket));
            self.advance(ticket);
        }
    }
}
