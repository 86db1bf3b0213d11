//! DNSSEC validation (RFC 4033 to 4035), on a thread of its own beside the slow path.
//!
//! ```text
//!  desk ──Work: a reply, keys──────────► thread ──► pmdns-validator, a step at a time
//!       ◄──Report: a verdict, a fetch──         ◄── (signatures, proofs, chain of trust)
//! ```
//!
//! The upstreams are asked with DO=1 and CD=1 (RFC 6840 section 5.9), and their replies come here before they
//! become entries. What the validator needs to know itself, keys and proofs that there are none, the desk fetches
//! for it like anything else that is asked upstream. Every reply that goes there comes back as one verdict, late in the
//! worst case; both channels have room for all that may be under way, so nobody ever waits for room. Names without a trust
//! anchor do not go there at all, and those who wait share its places fairly.
//! docs/adr/0024-a-validator-of-our-own.md says why.

mod anchors;
mod exchange;
mod thread;
mod turns;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use pmdns_stages::wire::subnet::Subnet;
use pmdns_validator::slots::{Place, Slots};
use pmdns_validator::{Cost, Limits, Trust};
use slab::Slab;

use super::pending::Ticket;
use super::plan::Attempt;
use super::prefixes::ClientPrefix;
use super::query::Question;

pub use anchors::{AnchorError, Anchors};

/// Replies under validation at once, of one thread. More are shed, first of those who have most.
const MAX_UNDER_WAY: usize = 1024;

/// What is under validation for one slow path thread.
pub(super) struct Validation {
    /// Without it nothing is validated.
    trust: Option<Trust>,
    slots: Slots<ClientPrefix>,
    under_way: Slab<Validated>,
    /// Questions of the validator's own, with its name and type for each.
    fetches: HashMap<Question, (Box<[u8]>, u16)>,
    /// What is to be handed over.
    work: VecDeque<Work>,
}

/// The thread that validates, if there are trust anchors.
pub(super) struct ValidationThread {
    work: Option<Sender<Work>>,
    reports: Receiver<Report>,
    thread: Option<JoinHandle<()>>,
}

/// A reply under validation.
struct Validated {
    ticket: Ticket,
    attempt: Attempt,
    /// The network it is for; none: it is for everybody.
    network: Option<Subnet>,
    /// Whether there was no room before for a question that its validation needed.
    was_shed: bool,
    place: Place<ClientPrefix>,
}

/// A reply whose verdict has come.
struct Ended {
    ticket: Ticket,
    attempt: Attempt,
    network: Option<Subnet>,
    was_shed: bool,
    /// Who had its place.
    clients: ClientPrefix,
}

/// What the desk sends.
#[derive(Debug)]
pub(super) enum Work {
    /// A reply to a question; whether its records stay as they are, because the client asked for DNSSEC.
    Validate {
        slot: usize,
        name: Box<[u8]>,
        qtype: u16,
        qclass: u16,
        reply: Vec<u8>,
        dnssec_ok: bool,
        limits: Limits,
    },
    /// What came of a fetch.
    Fetched { name: Box<[u8]>, qtype: u16, fetched: Fetched },
}

/// What comes of a fetch.
#[derive(Debug)]
pub(super) enum Fetched {
    /// A reply.
    Reply(Vec<u8>),
    /// None: no upstream has one.
    Nothing,
    /// There was no room for the question, which says nothing about the name.
    Shed,
}

/// What comes back.
#[derive(Debug)]
pub(super) enum Report {
    /// The verdict on a reply, and what that took.
    Verdict { slot: usize, verdict: Verdict, cost: Cost },
    /// A question to the upstreams for the reply in this slot: its name in lower case, and its type.
    Fetch { slot: usize, name: Box<[u8]>, qtype: u16 },
}

/// What is to be thought of a reply. Reasons are extended errors (RFC 8914 section 4).
#[derive(Debug)]
pub(super) enum Verdict {
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
pub(super) struct Sound {
    /// Secure, insecure or indeterminate.
    standing: pmdns_validator::Verdict,
    reply: Vec<u8>,
    /// The longest it may be kept, in seconds.
    max_ttl: u32,
}

impl Validation {
    /// Validation by these trust anchors, if there are any.
    pub(super) fn new(trust: Option<Trust>) -> Self {
        Self {
            trust,
            slots: Slots::new(MAX_UNDER_WAY),
            under_way: Slab::new(),
            fetches: HashMap::new(),
            work: VecDeque::new(),
        }
    }

    /// Whether replies are validated.
    pub(super) fn is_on(&self) -> bool {
        self.trust.is_some()
    }

    /// What is to be handed over next.
    pub(super) fn next_work(&mut self) -> Option<Work> {
        self.work.pop_front()
    }

    /// Whether the validator waits for the reply to this.
    pub(super) fn wants(&self, question: &Question) -> bool {
        !self.fetches.is_empty() && self.fetches.contains_key(question)
    }

    /// The verdict on a reply that nothing has to be found out about; `None`: it has to be validated.
    fn verdict(&self, question: &Question, reply: &[u8]) -> Option<pmdns_validator::Verdict> {
        let (key, limit) = (question.key(), Limits::default().records);
        let question =
            pmdns_validator::Question { name: key.name, qtype: key.qtype, qclass: key.qclass };
        self.trust.as_ref()?.verdict(question, reply, limit)
    }

    /// A place for a reply; `None`: there is none for these clients or this zone.
    fn take_place(
        &mut self,
        clients: ClientPrefix,
        question: &Question,
        now: Duration,
    ) -> Option<Place<ClientPrefix>> {
        self.slots.take(clients, question.key().name, now)
    }

    /// Whose the reply in a slot is.
    fn clients_of(&self, slot: usize) -> ClientPrefix {
        self.under_way.get(slot).map_or(ClientPrefix::OURS, |one| one.place.clients)
    }

    /// Hands over a reply that has a place.
    fn validate(
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
    fn end(&mut self, slot: usize, cost: Cost, now: Duration) -> Option<Ended> {
        let Validated { ticket, attempt, network, was_shed, place } =
            self.under_way.try_remove(slot)?;
        let ended = Ended { ticket, attempt, network, was_shed, clients: place.clients };
        self.slots.give_back(place, cost, now);
        Some(ended)
    }

    /// Hands over what came of a question, if the validator waits for that.
    pub(super) fn fetched(&mut self, question: &Question, fetched: impl FnOnce() -> Fetched) {
        if self.wants(question)
            && let Some((name, qtype)) = self.fetches.remove(question)
        {
            self.give(name, qtype, fetched());
        }
    }

    fn give(&mut self, name: Box<[u8]>, qtype: u16, fetched: Fetched) {
        self.work.push_back(Work::Fetched { name, qtype, fetched });
    }
}

impl ValidationThread {
    /// Starts it, if there are trust anchors. A reply is judged within `patience`.
    pub(super) fn start(trust: Option<Trust>, patience: Duration) -> io::Result<Self> {
        // A fetch may outlive the validation that wanted it, so there may be as many of either.
        let capacity = MAX_UNDER_WAY + turns::MAX_ASKED;
        let (report, reports) = bounded(capacity);
        let mut this = Self { work: None, reports, thread: None };
        let Some(trust) = trust else { return Ok(this) };
        let (sender, work) = bounded(capacity);
        let body = move || thread::serve(trust, patience, &work, &report);
        let slow_path = std::thread::current();
        let name = format!("{}-sec", slow_path.name().unwrap_or("slowpath"));
        this.thread = Some(std::thread::Builder::new().name(name).spawn(body)?);
        this.work = Some(sender);
        Ok(this)
    }

    /// Hands over work.
    pub(super) fn begin(&self, piece: Work) {
        let sent = self.work.as_ref().is_some_and(|work| work.try_send(piece).is_ok());
        debug_assert!(sent, "the channel has room for all that may be under way");
    }

    /// What comes back, if there is news.
    pub(super) fn hear(&self) -> Option<Report> {
        self.reports.try_recv().ok()
    }
}

impl Drop for ValidationThread {
    fn drop(&mut self) {
        // The thread ends when nobody can ask it any more.
        self.work = None;
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            debug_assert!(ended.is_ok() || std::thread::panicking(), "its panic is reported above");
        }
    }
}

#[cfg(test)]
mod tests;
