//! The resolver's side of DNSSEC validation (RFC 4033 to 4035). Replies and keys go out as work; verdicts and questions
//! come back as reports. The validator has a thread of its own.
//!
//! The upstreams are asked with DO=1 and CD=1 (RFC 6840 section 5.9), and their replies go to the validator before they
//! become entries. The validator needs DNSKEY and DS records, or proofs of their absence. The resolver asks for them
//! like for any other question. Replies for names below no trust anchor skip the validator. Waiting clients share its
//! places fairly. docs/adr/0024-a-validator-of-our-own.md gives the reasons.

mod turns;
pub(crate) mod worker;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use pmdns_stages::wire::subnet::Subnet;
use pmdns_validator::slots::{Slots, TakenSlot};
use pmdns_validator::{Cost, TrustAnchors, ValidatorLimits};
use slab::Slab;

pub use worker::ReplyValidator;

use crate::questions::pending::Ticket;
use crate::questions::plan::Attempt;
use crate::questions::prefixes::ClientPrefix;
use crate::questions::question::Question;

/// The most replies of one thread that are under validation at once. More are shed, first those of the prefix that has
/// most.
const MAX_UNDER_WAY: usize = 1024;

/// The most reports that may be under way at once. A fetch may outlive its validation, so both kinds are counted in
/// full.
pub const MAX_REPORTS: usize = MAX_UNDER_WAY + turns::MAX_ASKED;

/// The validations under way of one slow path thread.
pub(crate) struct Validation {
    /// The trust anchors; without them nothing is validated.
    trust: Option<TrustAnchors>,
    slots: Slots<ClientPrefix>,
    under_way: Slab<Validated>,
    /// The validator's questions, each with the name and type by which the validator knows it.
    pub(crate) fetches: HashMap<Question, (Box<[u8]>, u16)>,
    /// Work to be handed over.
    work: VecDeque<Work>,
}

/// A reply that may become an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) ticket: Ticket,
    pub(crate) attempt: Attempt,
    /// The network it is for; `None`: it is for everybody.
    pub(crate) network: Option<Subnet>,
}

/// A reply under validation.
pub(crate) struct Validated {
    pub(crate) candidate: Candidate,
    /// Whether a question that its validation needed has been shed before.
    pub(crate) was_shed: bool,
    pub(crate) place: TakenSlot<ClientPrefix>,
}

/// A reply whose verdict has come.
pub(crate) struct Ended {
    pub(crate) candidate: Candidate,
    pub(crate) was_shed: bool,
    /// The prefix that had its place.
    pub(crate) clients: ClientPrefix,
}

/// Work for the validator.
#[derive(Debug)]
pub enum Work {
    /// Validate a reply to a question.
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
        /// Whether the client asked for DNSSEC, so that signatures and proofs stay in the answer.
        dnssec_ok: bool,
        /// The limits of its cost.
        limits: ValidatorLimits,
    },
    /// The result of a fetch.
    Fetched {
        /// The name that was asked for.
        name: Box<[u8]>,
        /// Its type.
        qtype: u16,
        /// The result.
        fetched: Fetched,
    },
}

/// The result of a fetch.
#[derive(Debug)]
pub enum Fetched {
    /// A reply.
    Reply(Vec<u8>),
    /// No upstream has a reply.
    Nothing,
    /// There was no room for the question. That says nothing about the name.
    Shed,
}

/// A report of the validator.
#[derive(Debug)]
pub enum ValidationReport {
    /// The verdict on a reply, and its cost.
    Verdict {
        /// The resolver's number for the reply.
        slot: usize,
        /// The verdict.
        verdict: ReplyVerdict,
        /// The cost.
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

/// The verdict on a reply. Reasons are extended errors (RFC 8914 section 4).
#[derive(Debug)]
pub enum ReplyVerdict {
    /// It can be passed on.
    Sound(Sound),
    /// It is forged or broken (RFC 4033 section 5), for this reason.
    Bogus(u16),
    /// Its validation costs more than the limit.
    OverBudget(u16),
    /// There was no time left.
    Late,
    /// There was no room for a question that the validation needs. This is the reply.
    Shed(Vec<u8>),
}

/// A reply that can be passed on, with AD if it is secure and without DNSSEC records that nobody asked for.
#[derive(Debug)]
pub struct Sound {
    /// Secure, insecure or indeterminate.
    pub(crate) standing: pmdns_validator::SecurityStatus,
    pub(crate) reply: Vec<u8>,
    /// The longest time it may be kept, in seconds.
    pub(crate) max_ttl: u32,
}

impl Validation {
    /// Validation by these trust anchors, if there are any.
    pub(crate) fn new(trust: Option<TrustAnchors>) -> Self {
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

    /// The verdict on a reply that can be given at once; `None`: it has to be validated.
    pub(crate) fn verdict(
        &self,
        question: &Question,
        reply: &[u8],
    ) -> Option<pmdns_validator::SecurityStatus> {
        let (key, limit) = (question.key(), ValidatorLimits::default().records);
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

    /// The client prefix of the reply in a slot.
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

    /// Takes out a reply whose verdict has come, and frees its place. `cost` is charged to its clients and zone.
    pub(crate) fn end(&mut self, slot: usize, cost: Cost, now: Duration) -> Option<Ended> {
        let Validated { candidate, was_shed, place } = self.under_way.try_remove(slot)?;
        let ended = Ended { candidate, was_shed, clients: place.clients };
        self.slots.give_back(place, cost, now);
        Some(ended)
    }

    /// Hands over the result of a question, if the validator waits for it.
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
