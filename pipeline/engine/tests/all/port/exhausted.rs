//! UDP ports of query sources that are used up: who loses, and what counts it.

use std::time::Duration;

use pmdns_stages::query_sources::Owner;
use pmdns_stages::testing::{QueryFrame, query};

use super::rig::{Answer, Rig, SECOND, Setup};
use super::stub::{Asked, Send, Stub};

/// Threads among which the ports are shared.
const THREADS: usize = 3580;
/// IPv4 queries that each of them may have under way: half of the ports of two sources.
const ROOM: u64 = 18;
/// Of these, those of one prefix.
const SHARE: u64 = 16;

/// Queries that each of them may have under way over IPv6, which has one source.
const ROOM_V6: u64 = 9;

/// A rig with so little room, which has found its next hop. No client and no query loses patience.
fn narrow(stub: &Stub) -> Rig {
    narrow_with(Setup::asking(&[stub]))
}

fn narrow_with(setup: Setup) -> Rig {
    let mut setup = setup.hasty(60_000, 60_000);
    setup.settings.threads = Some(THREADS);
    // There is room for all questions of a test.
    setup.settings.max_pending = 1000 * THREADS;
    setup.settings.max_waiting = 1000 * THREADS;
    setup.settings.max_waiting_per_client = 1000 * THREADS;
    let mut rig = setup.start();
    rig.pass(Duration::from_millis(10));
    rig
}

/// A stub that keeps silent about names of a flood.
fn stub() -> Stub {
    Stub::start([127, 0, 0, 1].into(), |asked| match asked.message[13..].starts_with(b"slow") {
        true => Vec::new(),
        false => vec![Send::Reply(asked.address())],
    })
}

/// A query for a name that is not answered, from a client of this prefix.
fn slow(number: u16, prefix: u8) -> QueryFrame {
    let source = vec![10, 1, prefix, (number % 250) as u8 + 1];
    QueryFrame { source, id: number, ..query(&format!("slow{number}.example. A")) }
}

/// What a rig has told clients so far.
fn told(rig: &mut Rig) -> Vec<Answer> {
    let counters = rig.counters();
    rig.answers((counters.answered + counters.servfail) as usize)
}

#[test]
fn a_prefix_that_holds_its_share_of_the_ports_is_shed_and_others_are_served() {
    let stub = stub();
    let mut rig = narrow(&stub);
    for number in 0..100 {
        rig.ask(&slow(number, 1));
    }
    rig.pass(3 * SECOND);
    let counters = rig.counters();
    assert_eq!((counters.pending, rig.upstream(0).queries), (SHARE, SHARE));
    assert_eq!((counters.shed_upstream, counters.told_busy), (100 - SHARE, 20));
    assert_eq!(rig.upstream(0).shed, counters.no_udp_port);
    assert!(counters.no_udp_port >= 100 - SHARE);
    assert!(told(&mut rig).iter().all(|answer| answer.rcode == 2));

    for id in 1..=40 {
        let other = QueryFrame { id, ..query(&format!("n{id}.example. A")) };
        assert_eq!(rig.resolve(&other).rcode, 0, "a port is left for another prefix");
    }
    let counters = rig.counters();
    assert_eq!((counters.answered, counters.shed_upstream), (40, 100 - SHARE));
    assert_eq!((counters.deadline, counters.socket_errors), (0, 0));
    rig.stop();
}

#[test]
fn with_all_ports_in_use_each_query_is_shed_until_one_is_free() {
    let stub = stub();
    let mut rig = narrow(&stub);
    for number in 0..200 {
        rig.ask(&slow(number, number as u8));
    }
    rig.pass(3 * SECOND);
    let counters = rig.counters();
    assert_eq!((counters.pending, rig.upstream(0).queries), (ROOM, ROOM));
    assert_eq!(counters.shed_upstream, 200 - ROOM);
    assert_eq!((counters.deadline, counters.socket_errors), (0, 0));
    rig.stop();
}

#[test]
fn each_family_has_the_ports_of_its_own_sources() {
    let silent = |address: &str| Stub::start(address.parse().unwrap(), |_| Vec::new());
    let (v4, v6) = (silent("127.0.0.1"), silent("::1"));
    let mut rig = narrow_with(Setup::asking(&[&v4, &v6]).forward("six.example.", 1));
    for number in 0..100 {
        rig.ask(&slow(number, number as u8));
        let name = format!("slow{number}.six.example. A");
        rig.ask(&QueryFrame {
            source: vec![10, 2, number as u8, 1],
            id: 1000 + number,
            ..query(&name)
        });
    }
    rig.pass(3 * SECOND);
    assert_eq!((rig.upstream(0).queries, rig.upstream(1).queries), (ROOM, ROOM_V6));
    rig.stop();
}

#[test]
fn a_query_that_draws_no_free_port_is_shed_and_its_name_is_no_failure() {
    let stub = Stub::replying(Asked::address);
    let mut rig = Setup::asking(&[&stub]).start();
    rig.pass(Duration::from_millis(10));
    let sources = rig.driver.slow_path.as_ref().unwrap().port.as_ref().unwrap().sources.clone();
    let all =
        || sources.indexes().flat_map(|source| (1024..=65535).map(move |port| (source, port)));
    let other = Owner { thread: 7, slot: 0 };
    assert!(all().all(|(source, port)| sources.claim(source, port, other)));
    assert_eq!(rig.resolve(&query("www.example. A")).rcode, 2);
    let counters = rig.counters();
    assert_eq!((counters.shed_upstream, counters.told_busy, counters.socket_errors), (1, 1, 0));
    assert_eq!((counters.no_udp_port, rig.upstream(0).errors), (8, 0), "each try is counted");
    all().for_each(|(source, port)| sources.release(source, port));
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1, "it may be asked again at once");
    rig.finish();
}
