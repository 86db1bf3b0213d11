//! Who leads, who waits, who is shed, and that nobody is forgotten.

use pmdns_stages::testing::{QueryFrame, query};
use proptest::prelude::*;

use super::*;
use crate::questions::prefixes::tests::lengths;
use crate::upstreams::query::tests;

/// Limits without places that are kept.
pub(crate) fn limits(questions: usize, waiting: usize, waiting_per_client: usize) -> PendingLimits {
    PendingLimits { questions, kept: 0, waiting, waiting_per_client }
}

/// A table that is full soon.
fn small() -> Pending<()> {
    Pending::new(limits(3, 8, 4))
}

/// Ticks that clients wait.
const PATIENCE: Tick = 100;

/// The query for question `name` of a client, which has a prefix of its own.
fn query_of(name: u8, client: u8) -> QueryFrame {
    let mut query = query(&format!("n{name}.example. A"));
    query.source[2] = client;
    query
}

/// Asks question `name` from client `client` at `now`; the outlet's number tells waiters apart.
fn ask(table: &mut Pending<()>, name: u8, client: u8, now: Tick, outlet: usize) -> Admission {
    admit(table, &query_of(name, client), now, outlet)
}

fn admit(table: &mut Pending<()>, query: &QueryFrame, now: Tick, outlet: usize) -> Admission {
    let mut miss = tests::miss(query);
    miss.received = now;
    let client = lengths().client(&miss);
    table.admit(&tests::question(query), Waiter { miss: &miss, outlet }, client, PATIENCE, |_| ())
}

/// The same, and makes room first. Says who left for it.
fn push_in(
    table: &mut Pending<()>,
    name: u8,
    client: u8,
    now: Tick,
    outlet: usize,
) -> (Admission, Vec<usize>) {
    let query = query_of(name, client);
    let (asker, mut gone) = (lengths().client(&tests::miss(&query)), Vec::new());
    for _ in 0..2 {
        match table.displace(&tests::question(&query), asker) {
            Ok(Some(Displaced::Question(ticket))) => {
                table.settle(ticket, |waiter, _| gone.push(waiter.outlet));
            }
            Ok(Some(Displaced::Waiter(left))) => {
                gone.push(left.waiter.waiter().outlet);
                if left.was_last {
                    table.settle(left.ticket, |_, _| panic!("nobody is left"));
                }
            }
            Ok(None) | Err(_) => break,
        }
    }
    (ask(table, name, client, now, outlet), gone)
}

/// The ticket of question `name`, if it is under way.
fn ticket(table: &Pending<()>, name: u8) -> Option<Ticket> {
    let slot = *table.slots.get(&tests::question(&query(&format!("n{name}.example. A"))))?;
    Some(Ticket { slot, serial: table.questions[slot as usize].serial })
}

fn settled(table: &mut Pending<()>, name: u8) -> Vec<usize> {
    let mut left = Vec::new();
    if let Some(ticket) = ticket(table, name) {
        table.settle(ticket, |waiter, _| left.push(waiter.outlet));
        assert_eq!(table.settle(ticket, |_, _| panic!("it has ended")), None);
        assert_eq!(table.find(ticket), None);
    }
    left
}

fn expired(table: &mut Pending<()>, now: Tick) -> Vec<usize> {
    std::iter::from_fn(|| table.expire(now)).map(|expired| expired.waiter.outlet).collect()
}

fn assert_empty(table: &Pending<()>) {
    assert!(table.is_empty() && table.deadlines.is_empty() && table.clients.is_empty());
    assert!(table.slots.is_empty());
    assert_eq!(table.seats.len(), 0);
    assert_eq!((table.slot_shares.held(), table.ours, table.seat_shares.held()), (0, 0, 0));
}

#[test]
fn the_first_leads_and_the_rest_wait() {
    let mut table = small();
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
    let mut table = small();
    let Admission::Leads(first) = ask(&mut table, 0, 0, 0, 0) else { panic!() };
    ask(&mut table, 0, 1, 50, 1);
    assert!(expired(&mut table, 99).is_empty());
    let left = table.expire(100).unwrap();
    assert_eq!((left.waiter.waiter().outlet, left.ticket, left.was_last), (0, first, false));
    assert_eq!(ask(&mut table, 0, 2, 120, 2), Admission::Waits, "the question is under way");
    assert!(!table.expire(1000).unwrap().was_last);
    let left = table.expire(1000).unwrap();
    assert_eq!((left.waiter.waiter().outlet, left.ticket, left.was_last), (2, first, true));
    assert!(table.expire(1000).is_none());
    assert!(table.is_unattended(first), "it is under way until it is settled");
    assert!(settled(&mut table, 0).is_empty());
    assert_empty(&table);
}

#[test]
fn a_ticket_names_one_question_only() {
    let mut table = small();
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
    let mut table = small();
    for outlet in 0..4 {
        ask(&mut table, 0, 0, 0, outlet);
    }
    assert_eq!(ask(&mut table, 0, 0, 0, 9), Admission::Shed(Limit::WaitingPerClient));
    ask(&mut table, 1, 1, 0, 10);
    ask(&mut table, 2, 1, 0, 11);
    assert_eq!(ask(&mut table, 3, 1, 0, 12), Admission::Shed(Limit::Questions));
    ask(&mut table, 2, 1, 0, 13);
    ask(&mut table, 2, 1, 0, 14);
    assert_eq!(ask(&mut table, 2, 2, 0, 15), Admission::Shed(Limit::Waiting));
    let mut left = Vec::new();
    assert_eq!(table.drain(|waiter| left.push(waiter.outlet)), 3);
    left.sort_unstable();
    assert_eq!(left, [0, 1, 2, 3, 10, 11, 13, 14]);
    assert_empty(&table);
}

#[test]
fn audit_05_one_prefix_has_as_many_places_as_four_clients_whatever_their_addresses() {
    let mut table = Pending::new(limits(100, 100, 4));
    let mut shed = Vec::new();
    for host in 0..20 {
        let mut query = query_of(host, 1);
        query.source[3] = host;
        if let Admission::Shed(limit) = admit(&mut table, &query, 0, 0) {
            shed.push(limit);
        }
    }
    assert_eq!(shed, [Limit::WaitingPerPrefix; 4]);
    assert!(matches!(ask(&mut table, 99, 2, 0, 0), Admission::Leads(_)), "another prefix");
    table.drain(|_| ());
    assert_empty(&table);
}

#[test]
fn audit_05_when_the_table_is_full_the_heaviest_prefix_makes_room() {
    let mut table = small();
    ask(&mut table, 0, 1, 0, 10);
    ask(&mut table, 1, 2, 0, 20);
    ask(&mut table, 2, 1, 0, 11);
    assert!(
        matches!(push_in(&mut table, 3, 1, 0, 12), (Admission::Shed(Limit::Questions), gone) if gone.is_empty())
    );
    let (admitted, gone) = push_in(&mut table, 3, 3, 0, 30);
    assert!(matches!(admitted, Admission::Leads(_)));
    assert_eq!(gone, [10], "the oldest of the heaviest");
    assert_eq!(push_in(&mut table, 3, 2, 0, 21), (Admission::Waits, vec![]), "no question more");
    table.drain(|_| ());
    assert_empty(&table);
}

#[test]
fn audit_05_when_the_seats_are_full_the_heaviest_prefix_makes_room() {
    let mut table = Pending::new(limits(9, 4, 4));
    for outlet in 0..3 {
        ask(&mut table, 0, 1, 0, outlet);
    }
    ask(&mut table, 1, 2, 0, 20);
    assert_eq!(push_in(&mut table, 1, 1, 0, 3), (Admission::Shed(Limit::Waiting), vec![]));
    assert_eq!(push_in(&mut table, 1, 3, 0, 30), (Admission::Waits, vec![0]));
    assert_eq!(push_in(&mut table, 1, 4, 0, 40), (Admission::Waits, vec![1]));
    assert_eq!(
        push_in(&mut table, 1, 5, 0, 50),
        (Admission::Waits, vec![20]),
        "all have one: the oldest"
    );
    table.drain(|_| ());
    assert_empty(&table);
}

#[test]
fn audit_05_what_others_wait_for_is_not_ended_with_the_flood_that_asked_it_first() {
    let mut table = small();
    ask(&mut table, 0, 1, 0, 10);
    let shared = ticket(&table, 0).unwrap();
    ask(&mut table, 0, 2, 0, 20);
    ask(&mut table, 1, 1, 0, 11);
    ask(&mut table, 2, 1, 0, 12);
    let prefix = |client| {
        let miss = tests::miss(&query_of(0, client));
        lengths().client(&miss).prefix
    };
    assert_eq!(table.prefix_of(shared), Some(prefix(1)));
    let (admitted, gone) = push_in(&mut table, 3, 3, 0, 30);
    assert!(matches!(admitted, Admission::Leads(_)));
    assert_eq!(gone, [11], "not the one that client 2 waits for");
    assert_eq!(table.prefix_of(shared), Some(prefix(2)), "who is charged for it now");
    table.drain(|_| ());
    assert_eq!(table.prefix_of(shared), None);
    assert_empty(&table);
}

/// A health check asks in the name of a client, which may be a forged one.
#[test]
fn clients_of_the_same_prefix_or_address_leave_places_to_health_checks() {
    let mut table = small();
    for name in 0..3 {
        ask(&mut table, name, 1, 0, name.into());
    }
    ask(&mut table, 0, 1, 0, 3);
    assert_eq!(ask(&mut table, 0, 1, 0, 4), Admission::Shed(Limit::WaitingPerClient));
    let probe = |name: u8| {
        let mut miss = tests::probe(&query_of(name, 1));
        miss.received = 0;
        (miss, tests::question(&query_of(name, 1)))
    };
    let (miss, question) = probe(3);
    let client = lengths().client(&miss);
    let waiter = Waiter { miss: &miss, outlet: 9 };
    let Ok(Some(Displaced::Question(ticket))) = table.displace(&question, client) else {
        panic!("one of the flood's questions goes")
    };
    table.settle(ticket, |_, _| ());
    let admission = table.admit(&question, waiter, client, PATIENCE, |_| ());
    assert!(matches!(admission, Admission::Leads(_)), "{admission:?}");
    let (_, gone) = push_in(&mut table, 4, 1, 0, 5);
    assert!(!gone.contains(&9), "who floods displaces no check");
    table.drain(|_| ());
    assert_empty(&table);
}

/// Clients that ask again and again once kept a question young, so that it was never its turn to go.
#[test]
fn cve_2026_42534_retransmits_do_not_make_a_question_younger() {
    let mut table = small();
    for name in 0..3 {
        ask(&mut table, name, 1, 0, name.into());
    }
    assert_eq!(ask(&mut table, 0, 1, 50, 9), Admission::Waits, "the first again");
    let (_, mut gone) = push_in(&mut table, 3, 2, 0, 20);
    gone.sort_unstable();
    assert_eq!(gone, [0, 9], "it is the oldest still");
    assert_eq!(expired(&mut table, 100), [1, 2, 20], "by their own deadlines");
    for name in 1..4 {
        settled(&mut table, name);
    }
    assert_empty(&table);
}

#[test]
fn a_question_without_clients_leaves_half_of_the_table_to_them() {
    let mut table = small();
    let question = |name: u8| tests::question(&query(&format!("n{name}.example. A")));
    let Admission::Leads(first) = table.begin(ClientPrefix::OURS, &question(0), |_| ()) else {
        panic!()
    };
    assert!(table.is_unattended(first));
    assert_eq!(
        table.begin(ClientPrefix::OURS, &question(0), |_| ()),
        Admission::Waits,
        "it is under way"
    );
    assert_eq!(
        table.begin(ClientPrefix::OURS, &question(1), |_| ()),
        Admission::Shed(Limit::Questions)
    );
    assert_eq!(ask(&mut table, 0, 0, 0, 7), Admission::Waits, "a client joins");
    assert!(!table.is_unattended(first));
    assert!(matches!(ask(&mut table, 1, 0, 0, 8), Admission::Leads(_)));
    assert_eq!((settled(&mut table, 0), settled(&mut table, 1)), (vec![7], vec![8]));
    assert!(!table.is_unattended(first));
    assert_empty(&table);
}

/// A flood once kept the keys from being fetched that the answers of all others are validated with.
#[test]
fn audit_03_places_are_kept_for_questions_without_clients() {
    let mut table = Pending::new(PendingLimits { kept: 2, ..limits(6, 100, 100) });
    let begin = |table: &mut Pending<()>, name| {
        table.begin(ClientPrefix::OURS, &tests::question(&query_of(name, 0)), |_| ())
    };
    for name in 0..9 {
        ask(&mut table, name, name % 4, 0, 0);
    }
    assert_eq!(table.questions.len(), 4, "clients have the others");
    for name in 10..12 {
        assert!(matches!(begin(&mut table, name), Admission::Leads(_)));
    }
    assert_eq!(begin(&mut table, 12), Admission::Shed(Limit::Questions));
    let (_, gone) = push_in(&mut table, 20, 9, 0, 77);
    assert_eq!(gone.len(), 1, "clients make room for each other");
    table.drain(|_| ());
    assert_empty(&table);
}

/// What may happen to a table.
#[derive(Clone, Debug)]
enum Event {
    Ask { name: u8, client: u8 },
    PushIn { name: u8, client: u8 },
    Settle { name: u8 },
    Pass { ticks: Tick },
    Expire { limit: usize },
    Drain,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => (0..5u8, 0..3u8).prop_map(|(name, client)| Event::Ask { name, client }),
        12 => (0..5u8, 0..3u8).prop_map(|(name, client)| Event::PushIn { name, client }),
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
        let mut table = small();
        let (mut now, mut admitted, mut left) = (0, Vec::new(), Vec::new());
        for (number, event) in events.into_iter().enumerate() {
            match event {
                Event::Ask { name, client } => match ask(&mut table, name, client, now, number) {
                    Admission::Shed(_) => {}
                    _ => admitted.push((number, now)),
                },
                Event::PushIn { name, client } => {
                    let (admission, gone) = push_in(&mut table, name, client, now, number);
                    left.extend(gone);
                    if !matches!(admission, Admission::Shed(_)) {
                        admitted.push((number, now));
                    }
                }
                Event::Settle { name } => left.extend(settled(&mut table, name)),
                Event::Pass { ticks } => now += ticks,
                Event::Expire { limit } => {
                    let expired = std::iter::from_fn(|| table.expire(now)).take(limit);
                    left.extend(expired.map(|expired| expired.waiter.outlet));
                }
                Event::Drain => {
                    table.drain(|waiter| left.push(waiter.outlet));
                    assert_empty(&table);
                }
            }
            prop_assert_eq!(table.seat_shares.held(), admitted.len() - left.len());
            prop_assert!(table.seat_shares.held() <= 8);
            prop_assert!(table.questions.len() <= 3);
            prop_assert!(table.clients.values().all(|n| *n <= 4));
            prop_assert_eq!(table.clients.values().sum::<usize>(), table.seat_shares.held());
        }
        left.extend(expired(&mut table, now + PATIENCE));
        prop_assert_eq!(table.seat_shares.held(), 0);
        left.sort_unstable();
        let admitted: Vec<_> = admitted.into_iter().map(|(number, _)| number).collect();
        prop_assert_eq!(left, admitted);
    }
}
