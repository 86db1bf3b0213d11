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
mod tests {
    use pmdns_stages::testing::query;
    use proptest::prelude::*;

    use super::*;
    use crate::slowpath::query::tests;

    const LIMITS: Limits = Limits { questions: 3, waiting: 8, waiting_per_client: 4 };

    /// Ticks that clients wait.
    const PATIENCE: Tick = 100;

    /// Asks question `name` from client `client` at `now`; the worker's number tells waiters apart.
    fn ask(table: &mut Pending<()>, name: u8, client: u8, now: Tick, worker: usize) -> Admission {
        let mut client_query = query(&format!("n{name}.example. A"));
        client_query.source[3] = 10 + client;
        let mut miss = tests::miss(&client_query);
        miss.received = now;
        table.admit(tests::question(&client_query), Waiter { miss, worker }, PATIENCE, |_| ())
    }

    /// The ticket of question `name`, if it is under way.
    fn ticket(table: &Pending<()>, name: u8) -> Option<Ticket> {
        let slot = *table.slots.get(&tests::question(&query(&format!("n{name}.example. A"))))?;
        Some(Ticket { slot, serial: table.questions[slot as usize].serial })
    }

    fn settled(table: &mut Pending<()>, name: u8) -> Vec<usize> {
        let mut left = Vec::new();
        if let Some(ticket) = ticket(table, name) {
            table.settle(ticket, |waiter, _| left.push(waiter.worker));
            assert_eq!(table.settle(ticket, |_, _| panic!("it has ended")), None);
            assert_eq!(table.find(ticket), None);
        }
        left
    }

    fn expired(table: &mut Pending<()>, now: Tick) -> Vec<usize> {
        std::iter::from_fn(|| table.expire(now)).map(|expired| expired.waiter.worker).collect()
    }

    fn assert_empty(table: &Pending<()>) {
        assert!(table.is_empty() && table.deadlines.is_empty() && table.clients.is_empty());
        assert!(table.slots.is_empty());
        assert!(table.seats.iter().all(Option::is_none));
        assert_eq!(table.free.len(), table.seats.len());
    }

    #[test]
    fn the_first_leads_and_the_rest_wait() {
        let mut table = Pending::new(LIMITS);
        assert!(matches!(ask(&mut table, 0, 0, 0, 0), Admission::Leads(_)));
        assert_eq!(ask(&mut table, 0, 1, 5, 1), Admission::Waits);
        assert!(matches!(ask(&mut table, 1, 0, 5, 2), Admission::Leads(_)));
        assert_eq!(settled(&mut table, 0), [0, 1]);
        assert!(matches!(ask(&mut table, 0, 1, 6, 3), Admission::Leads(_)), "a new question");
        assert_eq!(settled(&mut table, 0), [3]);
        assert_eq!(settled(&mut table, 1), [2]);
        assert_empty(&table);
    }

    #[test]
    fn every_waiter_has_its_own_deadline() {
        let mut table = Pending::new(LIMITS);
        let Admission::Leads(first) = ask(&mut table, 0, 0, 0, 0) else { panic!() };
        ask(&mut table, 0, 1, 50, 1);
        assert!(expired(&mut table, 99).is_empty());
        let left = table.expire(100).unwrap();
        assert_eq!((left.waiter.worker, left.ticket, left.was_last), (0, first, false));
        assert_eq!(ask(&mut table, 0, 2, 120, 2), Admission::Waits, "the question is under way");
        assert!(!table.expire(1000).unwrap().was_last);
        let left = table.expire(1000).unwrap();
        assert_eq!((left.waiter.worker, left.ticket, left.was_last), (2, first, true));
        assert!(table.expire(1000).is_none());
        assert!(table.is_unattended(first), "it is under way until it is settled");
        assert!(settled(&mut table, 0).is_empty());
        assert_empty(&table);
    }

    #[test]
    fn a_ticket_names_one_question_only() {
        let mut table = Pending::new(LIMITS);
        let Admission::Leads(first) = ask(&mut table, 0, 0, 0, 0) else { panic!() };
        settled(&mut table, 0);
        let Admission::Leads(second) = ask(&mut table, 1, 0, 0, 0) else { panic!() };
        assert_eq!(first.slot, second.slot, "a slot is used again");
        assert_eq!(table.find(first), None);
        assert_eq!(table.settle(first, |_, _| panic!("not the one meant")), None);
        settled(&mut table, 1);
        assert_empty(&table);
    }

    #[test]
    fn every_limit_sheds() {
        let mut table = Pending::new(LIMITS);
        for worker in 0..LIMITS.waiting_per_client {
            ask(&mut table, 0, 0, 0, worker);
        }
        assert_eq!(ask(&mut table, 0, 0, 0, 9), Admission::Shed(Limit::WaitingPerClient));
        ask(&mut table, 1, 1, 0, 10);
        ask(&mut table, 2, 1, 0, 11);
        assert_eq!(ask(&mut table, 3, 1, 0, 12), Admission::Shed(Limit::Questions));
        ask(&mut table, 2, 1, 0, 13);
        ask(&mut table, 2, 1, 0, 14);
        assert_eq!(ask(&mut table, 2, 2, 0, 15), Admission::Shed(Limit::Waiting));
        let mut left = Vec::new();
        assert_eq!(table.drain(|waiter| left.push(waiter.worker)), 3);
        left.sort_unstable();
        assert_eq!(left, [0, 1, 2, 3, 10, 11, 13, 14]);
        assert_empty(&table);
    }

    #[test]
    fn a_question_without_clients_leaves_half_of_the_table_to_them() {
        let mut table = Pending::new(LIMITS);
        let question = |name: u8| tests::question(&query(&format!("n{name}.example. A")));
        let Admission::Leads(first) = table.begin(question(0), |_| ()) else { panic!() };
        assert!(table.is_unattended(first));
        assert_eq!(table.begin(question(0), |_| ()), Admission::Waits, "it is under way");
        assert_eq!(table.begin(question(1), |_| ()), Admission::Shed(Limit::Questions));
        assert_eq!(ask(&mut table, 0, 0, 0, 7), Admission::Waits, "a client joins");
        assert!(!table.is_unattended(first));
        assert!(matches!(ask(&mut table, 1, 0, 0, 8), Admission::Leads(_)));
        assert_eq!((settled(&mut table, 0), settled(&mut table, 1)), (vec![7], vec![8]));
        assert!(!table.is_unattended(first));
        assert_empty(&table);
    }

    /// What may happen to a table.
    #[derive(Clone, Debug)]
    enum Event {
        Ask { name: u8, client: u8 },
        Settle { name: u8 },
        Pass { ticks: Tick },
        Expire { limit: usize },
        Drain,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            12 => (0..5u8, 0..3u8).prop_map(|(name, client)| Event::Ask { name, client }),
            3 => (0..5u8).prop_map(|name| Event::Settle { name }),
            3 => (0..60 as Tick).prop_map(|ticks| Event::Pass { ticks }),
            3 => (0..6usize).prop_map(|limit| Event::Expire { limit }),
            1 => Just(Event::Drain),
        ]
    }

    proptest! {
        #[test]
        fn whoever_is_admitted_leaves_exactly_once(
            events in proptest::collection::vec(event(), 1..200),
        ) {
            let mut table = Pending::new(LIMITS);
            let (mut now, mut admitted, mut left) = (0, Vec::new(), Vec::new());
            for (number, event) in events.into_iter().enumerate() {
                match event {
                    Event::Ask { name, client } => match ask(&mut table, name, client, now, number) {
                        Admission::Shed(_) => {}
                        _ => admitted.push((number, now)),
                    },
                    Event::Settle { name } => left.extend(settled(&mut table, name)),
                    Event::Pass { ticks } => now += ticks,
                    Event::Expire { limit } => {
                        let expired = std::iter::from_fn(|| table.expire(now)).take(limit);
                        left.extend(expired.map(|expired| expired.waiter.worker));
                    }
                    Event::Drain => {
                        table.drain(|waiter| left.push(waiter.worker));
                        assert_empty(&table);
                    }
                }
                prop_assert_eq!(table.waiting(), admitted.len() - left.len());
                prop_assert!(table.waiting() <= LIMITS.waiting);
                prop_assert!(table.questions.len() <= LIMITS.questions);
                prop_assert!(table.clients.values().all(|n| *n <= LIMITS.waiting_per_client));
                prop_assert_eq!(table.clients.values().sum::<usize>(), table.waiting());
            }
            left.extend(expired(&mut table, now + PATIENCE));
            prop_assert_eq!(table.waiting(), 0);
            left.sort_unstable();
            let admitted: Vec<_> = admitted.into_iter().map(|(number, _)| number).collect();
            prop_assert_eq!(left, admitted);
        }
    }
}
