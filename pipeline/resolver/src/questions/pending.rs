//! The pending table: which questions are under way, and which clients wait for each.
//!
//! A pure state machine: no I/O, and time is an argument. The first miss of a question leads: its caller asks the
//! upstreams. Later misses of the same question wait with it. Every waiter that is admitted leaves exactly once: when
//! its question is settled, when its own deadline passes, or when the whole table is drained. Nothing else holds a
//! waiter, so none can be forgotten.
//!
//! A question may also be under way for the cache only, without a waiter.
//!
//! Places are shared by client prefix ([`pmdns_config::shares`]). A question is charged to the prefix of the client
//! that has waited for it for longest. When the table is full, a prefix with few places gets one of the prefix that has
//! most.

use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;
use std::net::IpAddr;
use std::rc::Rc;

use pmdns_config::narrow::to_u32;
use pmdns_config::shares::lists::{LinkedLists, List};
use pmdns_config::shares::{self, Hold};
use pmdns_stages::Tick;
use pmdns_stages::miss::Miss;
use slab::Slab;

use crate::questions::hashed::{AsHashed, HashedMap};
use crate::questions::prefixes::{Client, ClientPrefix, Hashed};
use crate::questions::question::Question;
use crate::wheel::Wheel;
pub(crate) use places::Displaced;

/// Which prefix holds how much.
type Shares = shares::Shares<ClientPrefix, BuildHasherDefault<AsHashed>>;

/// Clients of one prefix that may each have as many queries waiting as one client may.
const CLIENTS_PER_PREFIX: usize = 4;
/// Questions that have ended whose memory is kept for the next ones.
const MAX_SPARE: usize = 4096;

/// How much may be pending.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingLimits {
    /// Questions in all.
    pub(crate) questions: usize,
    /// Places among these that are kept for questions without a client: keys for validation, and refreshes.
    pub(crate) kept: usize,
    /// Waiters in all.
    pub(crate) waiting: usize,
    /// Waiters with the same client address. A client prefix may have [`CLIENTS_PER_PREFIX`] times as many.
    pub(crate) waiting_per_client: usize,
}

impl PendingLimits {
    fn waiting_per_prefix(&self) -> usize {
        self.waiting_per_client.saturating_mul(CLIENTS_PER_PREFIX)
    }
}

/// A client's query that waits, and the outlet that its answer leaves by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter<'m> {
    pub(crate) miss: &'m Miss,
    pub(crate) outlet: usize,
}

/// The same in memory of its own.
#[derive(Debug)]
pub(crate) struct Seated {
    miss: Miss,
    outlet: usize,
}

impl Waiter<'_> {
    pub(crate) fn to_seated(self) -> Seated {
        Seated { miss: self.miss.clone(), outlet: self.outlet }
    }
}

impl Seated {
    pub(crate) fn waiter(&self) -> Waiter<'_> {
        Waiter { miss: &self.miss, outlet: self.outlet }
    }

    /// Copies no more of the miss than there is.
    fn replace(&mut self, waiter: Waiter<'_>) {
        self.miss.clone_from(waiter.miss);
        self.outlet = waiter.outlet;
    }
}

/// The result of admitting a miss.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is the first with this question. The caller asks upstream, and settles the question in the end.
    Leads(Ticket),
    /// It waits with the earlier misses of this question.
    Waits,
    /// A limit is reached, and the miss was not stored.
    Shed(Limit),
}

/// Names one question under way. When that question has ended the ticket names nothing, and it is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket {
    slot: u32,
    serial: u32,
}

impl Ticket {
    /// Names no question. It is used for queries that belong to none, such as probes.
    pub(crate) const NONE: Self = Self { slot: u32::MAX, serial: 0 };
}

/// A waiter whose deadline has come.
#[derive(Debug)]
pub(crate) struct Expired {
    pub(crate) waiter: Seated,
    pub(crate) deadline: Tick,
    /// The question it waited for. That stays under way until it is settled.
    pub(crate) ticket: Ticket,
    /// Whether it was the last waiter of its question.
    pub(crate) was_last: bool,
}

/// Which limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Questions,
    Waiting,
    WaitingPerClient,
    WaitingPerPrefix,
}

/// The pending table. It stores a `T` with each question: the state of asking.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    limits: PendingLimits,
    slots: HashedMap<Rc<Question>, u32>,
    questions: Slab<UnderWay<T>>,
    serial: u32,
    /// The memory of questions that have ended. Nobody else has them.
    spare: Vec<Rc<Question>>,
    seats: LinkedLists<Seat>,
    /// Their waiters, by seat. They stay where they are, because they are large; what waits no more is overwritten.
    waiters: Vec<Seated>,
    /// Of the seats.
    deadlines: Wheel,
    clients: HashedMap<Hashed<IpAddr>, usize>,
    /// Which prefix holds which slots. Questions that began without a client are only counted, in `ours`.
    slot_shares: Shares,
    ours: usize,
    /// Which prefix holds which seats.
    seat_shares: Shares,
}

/// A question under way.
#[derive(Debug)]
struct UnderWay<T> {
    question: Rc<Question>,
    serial: u32,
    /// The seats of its waiters, in the order of arrival.
    waiting: List,
    /// None: no client waited when it began.
    hold: Option<Hold>,
    progress: T,
}

/// A place for a waiter.
#[derive(Debug)]
struct Seat {
    slot: u32,
    deadline: Tick,
    client: Client,
    hold: Hold,
}

impl<T> Pending<T> {
    /// An empty table. The memory of its seats is allocated now.
    pub(crate) fn new(limits: PendingLimits) -> Self {
        Self {
            limits,
            slots: HashedMap::with_capacity_and_hasher(limits.questions, Default::default()),
            questions: Slab::with_capacity(limits.questions),
            serial: 0,
            spare: Vec::new(),
            seats: LinkedLists::with_capacity(limits.waiting),
            waiters: Vec::with_capacity(limits.waiting),
            deadlines: Wheel::default(),
            clients: HashedMap::default(),
            slot_shares: Shares::new(limits.questions),
            ours: 0,
            seat_shares: Shares::new(limits.waiting),
        }
    }

    /// Lets a client wait for the answer to `question` until `patience` ticks after its arrival, if the limits allow.
    /// If it is the first, the question starts with the state that `begin` returns.
    pub(crate) fn admit(
        &mut self,
        question: &Question,
        waiter: Waiter<'_>,
        client: Client,
        patience: Tick,
        begin: impl FnOnce(&Question) -> T,
    ) -> Admission {
        let deadline = waiter.miss.received.saturating_add(patience);
        if let Some(limit) = self.refuses(question, client) {
            return Admission::Shed(limit);
        }
        if let Some(slot) = self.slots.get(question).copied() {
            self.seat(waiter, slot, deadline, client);
            return Admission::Waits;
        }
        let ticket = self.open(question, Some(client.prefix), begin);
        self.seat(waiter, ticket.slot, deadline, client);
        Admission::Leads(ticket)
    }

    /// Starts `question` without a waiter, unless it is under way. It is charged to `prefix`, whose clients wait for
    /// another question that needs this one. Our own questions may have half of the table. The other half is for
    /// clients.
    pub(crate) fn begin(
        &mut self,
        prefix: ClientPrefix,
        question: &Question,
        begin: impl FnOnce(&Question) -> T,
    ) -> Admission {
        if self.slots.contains_key(question) {
            return Admission::Waits;
        }
        let is_ours = prefix == ClientPrefix::OURS;
        let has_share = is_ours && self.ours >= self.limits.questions / 2;
        let is_full = match is_ours {
            true => self.questions.len() >= self.limits.questions,
            false => self.is_full(),
        };
        if has_share || is_full {
            return Admission::Shed(Limit::Questions);
        }
        Admission::Leads(self.open(question, (!is_ours).then_some(prefix), begin))
    }

    fn open(
        &mut self,
        question: &Question,
        prefix: Option<ClientPrefix>,
        begin: impl FnOnce(&Question) -> T,
    ) -> Ticket {
        let question = match self.spare.pop() {
            Some(mut spare) => {
                Rc::make_mut(&mut spare).clone_from(question);
                spare
            }
            None => Rc::new(question.clone()),
        };
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        let entry = self.questions.vacant_entry();
        let slot = to_u32(entry.key());
        entry.insert(UnderWay {
            question: Rc::clone(&question),
            serial,
            waiting: List::default(),
            hold: prefix.map(|prefix| self.slot_shares.hold(prefix, slot)),
            progress: begin(&question),
        });
        self.ours += usize::from(prefix.is_none());
        self.slots.insert(question, slot);
        Ticket { slot, serial }
    }

    fn release(&mut self, hold: Option<Hold>) {
        match hold {
            Some(hold) => self.slot_shares.release(hold),
            None => self.ours -= 1,
        }
    }

    /// Whether the question is under way and has no waiter.
    pub(crate) fn is_unattended(&self, ticket: Ticket) -> bool {
        let asked = self.questions.get(ticket.slot as usize);
        asked.is_some_and(|asked| asked.serial == ticket.serial && asked.waiting.is_empty())
    }

    /// The question, and its state; `None` once it has ended.
    pub(crate) fn find(&mut self, ticket: Ticket) -> Option<(&Rc<Question>, &mut T)> {
        let asked = self.questions.get_mut(ticket.slot as usize)?;
        (asked.serial == ticket.serial).then_some((&asked.question, &mut asked.progress))
    }

    /// Every question under way, with its state.
    pub(crate) fn all(&mut self) -> impl Iterator<Item = (&Rc<Question>, &mut T)> {
        self.questions.iter_mut().map(|(_, asked)| (&asked.question, &mut asked.progress))
    }

    /// Ends a question. Every remaining waiter is passed to `leave` with its deadline. `None` if it has ended before.
    pub(crate) fn settle(
        &mut self,
        ticket: Ticket,
        leave: impl FnMut(Waiter<'_>, Tick),
    ) -> Option<Rc<Question>> {
        self.find(ticket)?;
        let UnderWay { question, waiting, hold, .. } = self.questions.remove(ticket.slot as usize);
        self.slots.remove(&question);
        self.release(hold);
        self.empty(waiting, leave);
        Some(question)
    }

    /// Keeps the memory of a question that has ended, unless somebody still has it.
    pub(crate) fn recycle(&mut self, mut question: Rc<Question>) {
        if self.spare.len() < MAX_SPARE && Rc::get_mut(&mut question).is_some() {
            self.spare.push(question);
        }
    }

    /// The first waiter whose deadline has come leaves. Its question stays under way.
    pub(crate) fn expire(&mut self, now: Tick) -> Option<Expired> {
        let number = self.deadlines.next_due(now)?;
        Some(self.leave(number))
    }

    /// The waiter in a seat leaves. Its question stays under way, and is charged to a prefix that still waits.
    fn leave(&mut self, number: u32) -> Expired {
        let slot = self.seats.value(number).slot;
        let asked = self.questions.get_mut(slot as usize).expect("nobody waits for nothing");
        self.seats.unlink(&mut asked.waiting, number);
        let (serial, waiting) = (asked.serial, asked.waiting);
        let deadline = self.vacate(number);
        let waiter = self.waiters[number as usize].waiter().to_seated();
        if let Some(first) = waiting.first() {
            let prefix = self.seats.value(first).client.prefix;
            self.charge(slot, prefix);
        }
        let ticket = Ticket { slot, serial };
        Expired { waiter, deadline, ticket, was_last: waiting.is_empty() }
    }

    /// The waiters that `is_meant` leave. Their questions stay under way.
    pub(crate) fn withdraw(
        &mut self,
        mut is_meant: impl FnMut(&Question, &Miss) -> bool,
    ) -> Vec<Expired> {
        let mut meant = Vec::new();
        for (_, asked) in &self.questions {
            for (number, _) in self.seats.iter(asked.waiting) {
                if is_meant(&asked.question, &self.waiters[number as usize].miss) {
                    meant.push(number);
                }
            }
        }
        meant.into_iter().map(|number| self.leave(number)).collect()
    }

    /// Ends every question, and passes every waiter to `leave`. Returns the number of questions.
    pub(crate) fn drain(&mut self, mut leave: impl FnMut(Waiter<'_>)) -> usize {
        let questions = std::mem::take(&mut self.questions);
        self.slots.clear();
        let count = questions.len();
        for (_, asked) in questions {
            self.release(asked.hold);
            self.empty(asked.waiting, |waiter, _| leave(waiter));
        }
        count
    }

    /// All waiters of a list leave.
    fn empty(&mut self, mut waiting: List, mut leave: impl FnMut(Waiter<'_>, Tick)) {
        while let Some(number) = waiting.first() {
            self.seats.unlink(&mut waiting, number);
            let deadline = self.vacate(number);
            leave(self.waiters[number as usize].waiter(), deadline);
        }
    }

    /// Whether half of the table is taken. Then questions for the cache only have to end.
    pub(crate) fn is_half_full(&self) -> bool {
        self.questions.len() >= self.limits.questions / 2
    }

    /// Whether no question is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    fn seat(&mut self, waiter: Waiter<'_>, slot: u32, deadline: Tick, client: Client) {
        *self.clients.entry(client.address).or_insert(0) += 1;
        let hold = self.seat_shares.hold(client.prefix, self.seats.next());
        let number = self.seats.keep(Seat { slot, deadline, client, hold });
        match self.waiters.get_mut(number as usize) {
            Some(place) => place.replace(waiter),
            None => self.waiters.push(waiter.to_seated()),
        }
        self.seats.append(&mut self.questions[slot as usize].waiting, number);
        self.deadlines.set(number, deadline);
    }

    /// Gives up a seat that is in no list any more, and returns the deadline of its waiter.
    fn vacate(&mut self, number: u32) -> Tick {
        self.deadlines.clear(number);
        let Seat { deadline, client, hold, .. } = self.seats.let_go(number);
        if let Entry::Occupied(mut waiting) = self.clients.entry(client.address) {
            *waiting.get_mut() -= 1;
            if *waiting.get() == 0 {
                waiting.remove();
            }
        }
        self.seat_shares.release(hold);
        deadline
    }
}

mod places;
#[cfg(test)]
pub(crate) mod tests;
