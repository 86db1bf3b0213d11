//! The pending table: which questions are under way, and which clients wait for each.
//!
//! A pure state machine: no I/O, and time is an argument. The first miss of a question leads, which is
//! to say that its caller starts to ask upstream; later ones wait with it. Whoever is admitted leaves
//! exactly once, by one of three doors: its question is settled, its own deadline passes, or the whole
//! table is drained. Nothing else holds a waiter, so none can be forgotten.
//!
//! A question may also be under way for the cache only, with nobody waiting.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::IpAddr;
use std::rc::Rc;

use pmdns_stages::Tick;
use pmdns_stages::miss::Miss;
use slab::Slab;

use super::query::Question;

/// How much may be pending.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Questions in all.
    pub(super) questions: usize,
    /// Waiters in all.
    pub(super) waiting: usize,
    /// Waiters with the same client address.
    pub(super) waiting_per_client: usize,
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
}

/// A question under way.
#[derive(Debug)]
struct Asked<T> {
    question: Rc<Question>,
    serial: u32,
    /// Seats, in the order of their arrival.
    waiting: VecDeque<u32>,
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
        }
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
        if self.waiting() >= self.limits.waiting {
            return Admission::Shed(Limit::Waiting);
        }
        if self.clients.get(&client).copied().unwrap_or(0) >= self.limits.waiting_per_client {
            return Admission::Shed(Limit::WaitingPerClient);
        }
        if let Some(slot) = self.slots.get(&question).copied() {
            self.seat(Seat { waiter, slot, deadline, client });
            return Admission::Waits;
        }
        if self.questions.len() >= self.limits.questions {
            return Admission::Shed(Limit::Questions);
        }
        let ticket = self.open(question, begin);
        self.seat(Seat { waiter, slot: ticket.slot, deadline, client });
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
        Admission::Leads(self.open(question, begin))
    }

    fn open(&mut self, question: Question, begin: impl FnOnce(&Question) -> T) -> Ticket {
        let question = Rc::new(question);
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        let slot = self.questions.insert(Asked {
            question: Rc::clone(&question),
            serial,
            waiting: VecDeque::new(),
            progress: begin(&question),
        }) as u32;
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
        for number in asked.waiting {
            let seat = self.vacate(number);
            leave(seat.waiter, seat.deadline);
        }
        Some(asked.question)
    }

    /// The first waiter whose deadline has come leaves. Its question stays under way.
    pub(super) fn expire(&mut self, now: Tick) -> Option<Expired> {
        let (deadline, number) = self.deadlines.first().copied()?;
        if deadline > now {
            return None;
        }
        let seat = self.vacate(number);
        let asked = self.questions.get_mut(seat.slot as usize).expect("nobody waits for nothing");
        // Those who came first have the first deadlines, so it is among the first.
        if let Some(at) = asked.waiting.iter().position(|waiting| *waiting == number) {
            asked.waiting.remove(at);
        }
        let ticket = Ticket { slot: seat.slot, serial: asked.serial };
        Some(Expired { waiter: seat.waiter, ticket, was_last: asked.waiting.is_empty() })
    }

    /// Ends every question: everybody leaves through `leave`. Says how many questions there were.
    pub(super) fn drain(&mut self, mut leave: impl FnMut(Waiter)) -> usize {
        let questions = std::mem::take(&mut self.questions);
        self.slots.clear();
        for number in questions.iter().flat_map(|(_, asked)| &asked.waiting) {
            let seat = self.vacate(*number);
            leave(seat.waiter);
        }
        questions.len()
    }

    /// Whether half of the table is taken: what is under way for the cache only has to end then.
    pub(super) fn is_half_full(&self) -> bool {
        self.questions.len() >= self.limits.questions / 2
    }

    /// Whether no question is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    /// How many clients' queries wait.
    pub(super) fn waiting(&self) -> usize {
        self.deadlines.len()
    }

    fn seat(&mut self, seat: Seat) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.seats.push(None);
            (self.seats.len() - 1) as u32
        });
        *self.clients.entry(seat.client).or_insert(0) += 1;
        self.questions[seat.slot as usize].waiting.push_back(number);
        self.deadlines.insert((seat.deadline, number));
        self.seats[number as usize] = Some(seat);
    }

    fn vacate(&mut self, number: u32) -> Seat {
        let seat = self.seats[number as usize].take().expect("a seat in a queue is taken");
        self.free.push(number);
        self.deadlines.remove(&(seat.deadline, number));
        if let Some(waiting) = self.clients.get_mut(&seat.client) {
            *waiting -= 1;
            if *waiting == 0 {
                self.clients.remove(&seat.client);
            }
        }
        seat
    }
}

fn client_of(miss: &Miss) -> IpAddr {
    let address = miss.client();
    match <[u8; 4]>::try_from(address) {
        Ok(address) => address.into(),
        Err(_) => <[u8; 16]>::try_from(address).expect("an address has 4 or 16 bytes").into(),
    }
}

#[cfg(test)]
mod tests;
