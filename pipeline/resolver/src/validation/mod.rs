//! DNSSEC validation (RFC 4033 to 4035), as the resolver sees it: replies and keys go out as work, verdicts and questions
//! come back as reports. What validates has a thread of its own.
//!
//! The upstreams are asked with DO=1 and CD=1 (RFC 6840 section 5.9), and their replies go there before they
//! become entries. What the validator needs to know itself, keys and proofs that there are none, the resolver fetches
//! for it like anything else that is asked upstream. Names without a trust anchor do not go there at all, and those who wait
//! share its places fairly. docs/adr/0024-a-validator-of-our-own.md says why.

mod turns;
pub(crate) mod worker;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use pmdns_stages::wire::subnet::Subnet;
use pmdns_validator::slots::{Slots, TakenSlot};
use pmdns_validator::{Cost, Limits, Trust};
use slab::Slab;

pub use worker::Worker;

use crate::questions::pending::Ticket;
use crate::questions::plan::Attempt;
use crate::questions::prefixes::ClientPrefix;
use crate::questions::question::Question;

/// Replies under validation at once, of one thread. More are shed, first of those who have most.
const MAX_UNDER_WAY: usize = 1024;

/// Reports that may be under way at once. A fetch may outlive the validation that wanted it, so there may be as many of either.
pub const MAX_REPORTS: usize = MAX_UNDER_WAY + turns::MAX_ASKED;

/// What is under validation for one slow path thread.
pub(crate) struct Validation {
    /// Without it nothing is validated.
    trust: Option<Trust>,
    slots: Slots<ClientPrefix>,
    under_way: Slab<Validated>,
    /// Questions of the validator's own, with its name and type for each.
    pub(crate) fetches: HashMap<Question, (Box<[u8]>, u16)>,
    /// What is to be handed over.
    work: VecDeque<Work>,
}

/// A reply under validation.
pub(crate) struct Validated {
    pub(crate) ticket: Ticket,
    pub(crate) attempt: Attempt,
    /// The network it is for; none: it is for everybody.
    pub(crate) network: Option<Subnet>,
    /// Whether there was no room before for a question that its validation needed.
    pub(crate) was_shed: bool,
    pub(crate) place: TakenSlot<ClientPrefix>,
}

/// A reply whose verdict has come.
pub(crate) struct Ended {
    pub(crate) ticket: Ticket,
    pub(crate) attempt: Attempt,
    pub(crate) network: Option<Subnet>,
    pub(crate) was_shed: bool,
    /// Who had its place.
    pub(crate) clients: ClientPrefix,
}

/// What the resolver sends.
#[derive(Debug)]
pub enum Work {
    /// A reply to a question; whether its records stay as they are, because the client asked for DNSSEC.
    Validate {
        /// The resolver's number for it.
        slot: usize,
        /// The name in question, in lower case.
        name: Box<[u8]>,
        /// Its type.
        qtype: u16,
        /// Its class.
        qclass: u16,
        /// The reply.
        reply: Vec<u8>,
        /// Whether the client asked for DNSSEC.
        dnssec_ok: bool,
        /// What it may cost.
        limits: Limits,
    },
    /// What came of a fetch.
    Fetched {
        /// The name that was asked for.
        name: Box<[u8]>,
        /// Its type.
        qtype: u16,
        /// What came.
        fetched: Fetched,
    },
}

/// What comes of a fetch.
#[derive(Debug)]
pub enum Fetched {
    /// A reply.
    Reply(Vec<u8>),
    /// None: no upstream has one.
    Nothing,
    /// There was no room for the question, which says nothing about the name.
    Shed,
}

/// What comes back.
#[derive(Debug)]
pub enum ValidationReport {
    /// The verdict on a reply, and what that took.
    Verdict {
        /// The resolver's number for the reply.
        slot: usize,
        /// The verdict.
        verdict: Verdict,
        /// What it took.
        cost: Cost,
    },
    /// A question to the upstreams for the reply in this slot: its name in lower case, and its type.
    Fetch {
        /// The resolver's number for the reply.
        slot: usize,
        /// The name.
        name: Box<[u8]>,
        /// The type.
        qtype: u16,
    },
}

/// What is to be thought of a reply. Reasons are extended errors (RFC 8914 section 4).
#[derive(Debug)]
pub enum Verdict {
    /// It can be passed on.
    Sound(Sound),
    /// It is forged or broken (RFC 4033 section 5), for this reason.
    Bogus(u16),
    /// To judge it costs more than it may.
    OverBudget(u16),
    /// There was no time.
    Late,
    /// There was no room for a question that it takes. This is the reply.
    Shed(Vec<u8>),
}

/// A reply that can be passed on, with AD if it is secure and without DNSSEC records that nobody asked for.
#[derive(Debug)]
pub struct Sound {
    /// Secure, insecure or indeterminate.
    pub(crate) standing: pmdns_validator::Verdict,
    pub(crate) reply: Vec<u8>,
    /// The longest it may be kept, in seconds.
    pub(crate) max_ttl: u32,
}

impl Validation {
    /// Validation by these trust anchors, if there are any.
    pub(crate) fn new(trust: Option<Trust>) -> Self {
        Self {
            trust,
            slots: Slots::new(MAX_UNDER_WAY),
            under_way: Slab::new(),
            fetches: HashMap::new(),
            work: VecDeque::new(),
        }
    }

    /// Whether replies are validated.
    pub(crate) fn is_on(&self) -> bool {
        self.trust.is_some()
    }

    /// What is to be handed over next.
    pub(crate) fn next_work(&mut self) -> Option<Work> {
        self.work.pop_front()
    }

    /// Whether the validator waits for the reply to this.
    pub(crate) fn wants(&self, question: &Question) -> bool {
        !self.fetches.is_empty() && self.fetches.contains_key(question)
    }

    /// The verdict on a reply that nothing has to be found out about; `None`: it has to be validated.
    pub(crate) fn verdict(
        &self,
        question: &Question,
        reply: &[u8],
    ) -> Option<pmdns_validator::Verdict> {
        let (key, limit) = (question.key(), Limits::default().records);
        let question =
            pmdns_validator::Question { name: key.name, qtype: key.qtype, qclass: key.qclass };
        self.trust.as_ref()?.verdict(question, reply, limit)
    }

    /// A place for a reply; `None`: there is none for these clients or this zone.
    pub(crate) fn take_place(
        &mut self,
        clients: ClientPrefix,
        question: &Question,
        now: Duration,
    ) -> Option<TakenSlot<ClientPrefix>> {
        self.slots.take(clients, question.key().name, now)
    }

    /// Whose the reply in a slot is.
    pub(crate) fn clients_of(&self, slot: usize) -> ClientPrefix {
        self.under_way.get(slot).map_or(ClientPrefix::OURS, |one| one.place.clients)
    }

    /// Hands over a reply that has a place.
    pub(crate) fn validate(
        &mut self,
        validated: Validated,
        question: &Question,
        reply: Vec<u8>,
        dnssec_ok: bool,
    ) {
        let key = question.key();
        let (name, qtype, qclass) = (key.name.into(), key.qtype, key.qclass);
        let limits = validated.place.limits();
        let slot = self.under_way.insert(validated);
        let validate = Work::Validate { slot, name, qtype, qclass, reply, dnssec_ok, limits };
        self.work.push_back(validate);
    }

    /// What is known of a reply whose verdict has come, at this cost. Its place is free again.
    pub(crate) fn end(&mut self, slot: usize, cost: Cost, now: Duration) -> Option<Ended> {
        let Validated { ticket, attempt, network, was_shed, place } =
            self.under_way.try_remove(slot)?;
        let ended = Ended { ticket, attempt, network, was_shed, clients: place.clients };
        self.slots.give_back(place, cost, now);
        Some(ended)
    }

    /// Hands over what came of a question, if the validator waits for that.
    pub(crate) fn fetched(&mut self, question: &Question, fetched: impl FnOnce() -> Fetched) {
        if self.wants(question)
            && let Some((name, qtype)) = self.fetches.remove(question)
        {
            self.give(name, qtype, fetched());
        }
    }

    pub(crate) fn give(&mut self, name: Box<[u8]>, qtype: u16, fetched: Fetched) {
        self.work.push_back(Work::Fetched { name, qtype, fetched });
    }
}

#[cfg(test)]
mod tests;
