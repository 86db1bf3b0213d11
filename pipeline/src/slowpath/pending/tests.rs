//! Who leads, who waits, who is shed, and that nobody is forgotten.

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
