//! The pending table: which questions are under way, and which clients wait for each.
//!
//! A pure state machine: no I/O, and time is an argument. The first miss of a question leads, which is
//! to say that its caller starts to ask upstream; later ones wait with it. Whoever is admitted leaves
//! exactly once, by one of three doors: its question is settled, its own deadline passes, or the whole
//! table is drained. Nothing else holds a waiter, so none can be forgotten.
//!
//! A question may also be under way for the cache only, with nobody waiting.
//!
//! Places are shared by client prefix ([`super::shares`]). A question is charged to the prefix of the client that has waited
//! for it for longest. When the table is full, a prefix with few places gets one of the prefix that has most.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::IpAddr;
use std::rc::Rc;

use pmdns_stages::Tick;
use pmdns_stages::miss::Miss;
use slab::Slab;

use super::prefixes::{ClientPrefix, PrefixLengths, client_of};
use super::query::Question;
use super::shares::{Hold, Shares};

/// Clients of one prefix that may each have as many queries waiting as one client may.
const CLIENTS_PER_PREFIX: usize = 4;
/// Waiters of a question among whom one of another prefix is looked for.
const MAX_LOOKED_AT: usize = 32;
/// Questions that are charged to another prefix in a search for one to end.
const MAX_PASSED_ON: usize = 8;

/// How much may be pending.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Questions in all.
    pub(super) questions: usize,
    /// Waiters in all.
    pub(super) waiting: usize,
    /// Waiters with the same client address. A client prefix may have [`CLIENTS_PER_PREFIX`] times as many.
    pub(super) waiting_per_client: usize,
    /// Which clients share a prefix.
    pub(super) prefixes: PrefixLengths,
}

impl Limits {
    fn waiting_per_prefix(&self) -> usize {
        self.waiting_per_client.saturating_mul(CLIENTS_PER_PREFIX)
    }
}

/// A client's query that waits, and the worker it came from.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) miss: Miss,
    pub(super) worker: usize,
}

/// What became of a miss.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is the first to ask this: the caller asks upstream, and settles the question in the end.
    Leads(Ticket),
    /// It waits with those who asked before.
    Waits,
    /// A limit is reached: nothing was kept of it.
    Shed(Limit),
}

/// Names one question under way, and no other one ever: when that has ended it names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket {
    slot: u32,
    serial: u32,
}

impl Ticket {
    /// Names no question: what is sent for it is sent for its own sake.
    pub(super) const NONE: Self = Self { slot: u32::MAX, serial: 0 };
}

/// A waiter whose deadline has come.
#[derive(Debug)]
pub(super) struct Expired {
    pub(super) waiter: Waiter,
    /// The question it waited for, which is under way until it is settled.
    pub(super) ticket: Ticket,
    /// Whether nobody waits for it any more.
    pub(super) was_last: bool,
}

/// Which limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Questions,
    Waiting,
    WaitingPerClient,
    WaitingPerPrefix,
}

/// What has to go to make room.
#[derive(Debug)]
pub(super) enum Displaced {
    /// A question. It is under way until it is settled.
    Question(Ticket),
    /// One waiter, who has left.
    Waiter(Box<Expired>),
}

/// The pending table. With each question it keeps a `T`: how far asking has come.
#[derive(Debug)]
pub(super) struct Pending<T> {
    limits: Limits,
    slots: HashMap<Rc<Question>, u32, BuildHasherDefault<AsHashed>>,
    questions: Slab<Asked<T>>,
    serial: u32,
    seats: Vec<Option<Seat>>,
    free: Vec<u32>,
    deadlines: BTreeSet<(Tick, u32)>,
    clients: HashMap<IpAddr, usize>,
    /// Who has which slots.
    slot_shares: Shares,
    /// Who has which seats.
    seat_shares: Shares,
}

/// A question under way.
#[derive(Debug)]
struct Asked<T> {
    question: Rc<Question>,
    serial: u32,
    /// Seats, in the order of their arrival.
    waiting: VecDeque<u32>,
    hold: Hold,
    progress: T,
}

/// Passes on the hash a question has: it is seeded already.
#[derive(Debug, Default)]
pub(super) struct AsHashed(u64);

impl Hasher for AsHashed {
    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.is_empty(), "questions hash as one number");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A waiter in its place.
#[derive(Debug)]
struct Seat {
    waiter: Waiter,
    slot: u32,
    deadline: Tick,
    client: IpAddr,
    prefix: ClientPrefix,
    hold: Hold,
}

/// A waiter who has left.
struct Left {
    waiter: Waiter,
    slot: u32,
    deadline: Tick,
}

impl<T> Pending<T> {
    /// An empty table. Its seats are taken from memory now.
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            slots: HashMap::with_capacity_and_hasher(limits.questions, BuildHasherDefault::new()),
            questions: Slab::with_capacity(limits.questions),
            serial: 0,
            seats: Vec::with_capacity(limits.waiting),
            free: Vec::with_capacity(limits.waiting),
            deadlines: BTreeSet::new(),
            clients: HashMap::new(),
            slot_shares: Shares::new(limits.questions),
            seat_shares: Shares::new(limits.waiting),
        }
    }

    /// Says what has to go before a client can wait for the answer to `question`, or which limit keeps it out. Neither: it
    /// can.
    pub(super) fn displace(
        &mut self,
        question: &Question,
        miss: &Miss,
    ) -> Result<Option<Displaced>, Limit> {
        let client = client_of(miss);
        let prefix = self.limits.prefixes.prefix(client);
        let Some(limit) = self.refuses(question, client, prefix) else { return Ok(None) };
        let displaced = match limit {
            Limit::Waiting => {
                let heaviest = self.seat_shares.heavier_than(prefix);
                heaviest.map(|heaviest| Displaced::Waiter(Box::new(self.leave(heaviest.oldest))))
            }
            Limit::Questions => self.displaceable(prefix).map(Displaced::Question),
            Limit::WaitingPerClient | Limit::WaitingPerPrefix => None,
        };
        displaced.map(Some).ok_or(limit)
    }

    /// Which limit keeps a client out: its own come first, since nobody makes room for who has reached those.
    fn refuses(
        &mut self,
        question: &Question,
        client: IpAddr,
        prefix: ClientPrefix,
    ) -> Option<Limit> {
        if self.clients.get(&client).copied().unwrap_or(0) >= self.limits.waiting_per_client {
            return Some(Limit::WaitingPerClient);
        }
        if self.seat_shares.held_by(prefix) >= self.limits.waiting_per_prefix() {
            return Some(Limit::WaitingPerPrefix);
        }
        if self.seat_shares.is_full() {
            return Some(Limit::Waiting);
        }
        let is_full = self.slot_shares.is_full() && !self.slots.contains_key(question);
        is_full.then_some(Limit::Questions)
    }

    /// The question to end for one of `prefix`. Questions that others wait for as well are charged to those instead.
    fn displaceable(&mut self, prefix: ClientPrefix) -> Option<Ticket> {
        for _ in 0..MAX_PASSED_ON {
            let slot = self.slot_shares.heavier_than(prefix)?.oldest;
            let asked = &self.questions[slot as usize];
            let ticket = Ticket { slot, serial: asked.serial };
            let charged = self.slot_shares.prefix_of(&asked.hold);
            let mut waiting = asked.waiting.iter().take(MAX_LOOKED_AT);
            let others =
                waiting.find_map(|seat| self.prefix_in(*seat).filter(|prefix| *prefix != charged));
            match others {
                Some(other) => self.charge(slot, other),
                None => return Some(ticket),
            }
        }
        None
    }

    /// The client prefix that a question is charged to.
    pub(super) fn prefix_of(&mut self, ticket: Ticket) -> Option<ClientPrefix> {
        self.find(ticket)?;
        Some(self.slot_shares.prefix_of(&self.questions[ticket.slot as usize].hold))
    }

    /// Lets a client wait for the answer to `question` until so many ticks after its arrival, if the limits
    /// allow. The first one's question starts with what `begin` returns.
    pub(super) fn admit(
        &mut self,
        question: Question,
        waiter: Waiter,
        patience: Tick,
        begin: impl FnOnce(&Question) -> T,
    ) -> Admission {
        let deadline = waiter.miss.received.saturating_add(patience);
        let client = client_of(&waiter.miss);
        let prefix = self.limits.prefixes.prefix(client);
        if let Some(limit) = self.refuses(&question, client, prefix) {
            return Admission::Shed(limit);
        }
        if let Some(slot) = self.slots.get(&question).copied() {
            self.seat(waiter, slot, deadline, (client, prefix));
            return Admission::Waits;
        }
        let ticket = self.open(question, prefix, begin);
        self.seat(waiter, ticket.slot, deadline, (client, prefix));
        Admission::Leads(ticket)
    }

    /// Starts `question` without anybody who waits, unless it is under way or half of the table is taken:
    /// the other half is for clients.
    pub(super) fn begin(
        &mut self,
        question: Question,
        begin: impl FnOnce(&Question) -> T,
    ) -> Admission {
        if self.slots.contains_key(&question) {
            return Admission::Waits;
        }
        if self.is_half_full() {
            return Admission::Shed(Limit::Questions);
        }
        Admission::Leads(self.open(question, ClientPrefix::OURS, begin))
    }

    fn open(
        &mut self,
        question: Question,
        prefix: ClientPrefix,
        begin: impl FnOnce(&Question) -> T,
    ) -> Ticket {
        let question = Rc::new(question);
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        let entry = self.questions.vacant_entry();
        let slot = entry.key() as u32;
        entry.insert(Asked {
            question: Rc::clone(&question),
            serial,
            waiting: VecDeque::new(),
            hold: self.slot_shares.hold(prefix, slot),
            progress: begin(&question),
        });
        self.slots.insert(question, slot);
        Ticket { slot, serial }
    }

    /// Whether the question is under way and nobody waits for it.
    pub(super) fn is_unattended(&self, ticket: Ticket) -> bool {
        let asked = self.questions.get(ticket.slot as usize);
        asked.is_some_and(|asked| asked.serial == ticket.serial && asked.waiting.is_empty())
    }

    /// The question, and how far asking it has come; `None` once it has ended.
    pub(super) fn find(&mut self, ticket: Ticket) -> Option<(&Rc<Question>, &mut T)> {
        let asked = self.questions.get_mut(ticket.slot as usize)?;
        (asked.serial == ticket.serial).then_some((&asked.question, &mut asked.progress))
    }

    /// Ends a question: everybody who still waits for it leaves through `leave`, with its deadline.
    /// `None` if it has ended before.
    pub(super) fn settle(
        &mut self,
        ticket: Ticket,
        mut leave: impl FnMut(Waiter, Tick),
    ) -> Option<Rc<Question>> {
        self.find(ticket)?;
        let asked = self.questions.remove(ticket.slot as usize);
        self.slots.remove(&asked.question);
        self.slot_shares.release(asked.hold);
        for number in asked.waiting {
            let left = self.vacate(number);
            leave(left.waiter, left.deadline);
        }
        Some(asked.question)
    }

    /// The first waiter whose deadline has come leaves. Its question stays under way.
    pub(super) fn expire(&mut self, now: Tick) -> Option<Expired> {
        let (deadline, number) = self.deadlines.first().copied()?;
        if deadline > now {
            return None;
        }
        Some(self.leave(number))
    }

    /// The waiter in a seat leaves. Its question stays under way, and is charged to those who still wait.
    fn leave(&mut self, number: u32) -> Expired {
        let Left { waiter, slot, .. } = self.vacate(number);
        let asked = self.questions.get_mut(slot as usize).expect("nobody waits for nothing");
        // Those who came first have the first deadlines, and the oldest seats: it is among the first.
        if let Some(at) = asked.waiting.iter().position(|waiting| *waiting == number) {
            asked.waiting.remove(at);
        }
        let (serial, first) = (asked.serial, asked.waiting.front().copied());
        if let Some(prefix) = first.and_then(|first| self.prefix_in(first)) {
            self.charge(slot, prefix);
        }
        Expired { waiter, ticket: Ticket { slot, serial }, was_last: first.is_none() }
    }

    /// The prefix of the client in a seat.
    fn prefix_in(&self, number: u32) -> Option<ClientPrefix> {
        self.seats[number as usize].as_ref().map(|seat| seat.prefix)
    }

    /// Charges the question in `slot` to `prefix`, unless it is already.
    fn charge(&mut self, slot: u32, prefix: ClientPrefix) {
        let asked = &mut self.questions[slot as usize];
        if self.slot_shares.prefix_of(&asked.hold) != prefix {
            self.slot_shares.pass_on(&mut asked.hold, prefix);
        }
    }

    /// Ends every question: everybody leaves through `leave`. Says how many questions there were.
    pub(super) fn drain(&mut self, mut leave: impl FnMut(Waiter)) -> usize {
        let questions = std::mem::take(&mut self.questions);
        self.slots.clear();
        let count = questions.len();
        for (_, asked) in questions {
            self.slot_shares.release(asked.hold);
            for number in asked.waiting {
                leave(self.vacate(number).waiter);
            }
        }
        count
    }

    /// Whether half of the table is taken: what is under way for the cache only has to end then.
    pub(super) fn is_half_full(&self) -> bool {
        self.questions.len() >= self.limits.questions / 2
    }

    /// Whether no question is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    fn seat(
        &mut self,
        waiter: Waiter,
        slot: u32,
        deadline: Tick,
        (client, prefix): (IpAddr, ClientPrefix),
    ) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.seats.push(None);
            (self.seats.len() - 1) as u32
        });
        *self.clients.entry(client).or_insert(0) += 1;
        self.questions[slot as usize].waiting.push_back(number);
        self.deadlines.insert((deadline, number));
        let hold = self.seat_shares.hold(prefix, number);
        self.seats[number as usize] = Some(Seat { waiter, slot, deadline, client, prefix, hold });
    }

    fn vacate(&mut self, number: u32) -> Left {
        let seat = self.seats[number as usize].take().expect("a seat in a queue is taken");
        let Seat { waiter, slot, deadline, client, hold, .. } = seat;
        self.free.push(number);
        self.deadlines.remove(&(deadline, number));
        self.seat_shares.release(hold);
        if let Some(waiting) = self.clients.get_mut(&client) {
            *waiting -= 1;
            if *waiting == 0 {
                self.clients.remove(&client);
            }
        }
        Left { waiter, slot, deadline }
    }
}

#[cfg(test)]
pub(super) mod tests;
