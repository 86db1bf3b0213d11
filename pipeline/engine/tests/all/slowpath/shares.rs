//! Shares by client prefix: a flood of misses takes room from itself.

use pmdns_config::Upstream;
use pmdns_stages::testing::{QueryFrame, query};

use super::rig::{Answer, Rig, Setup, alike, upstream};
use super::stub::{Asked, Send, Stub};

/// Names that a client asks for beside a flood.
const NAMES: u16 = 60;

/// A query for a name that no upstream answers, from a client of prefix `prefix`.
fn slow(number: u32, prefix: u16) -> QueryFrame {
    let [high, low] = prefix.to_be_bytes();
    let source = vec![10, high, low, (number % 250) as u8 + 1];
    QueryFrame { source, id: 0, ..query(&format!("slow{number}.example. A")) }
}

/// Whether a query is for such a name.
fn is_slow(asked: &Asked) -> bool {
    asked.message[13..].starts_with(b"slow")
}

/// A stub that answers all other names.
fn stub() -> Stub {
    Stub::start([127, 0, 0, 1].into(), |asked| match is_slow(asked) {
        true => Vec::new(),
        false => vec![Send::Reply(asked.address())],
    })
}

/// Floods from so many prefixes, before each of a client's new names, and says how many of these were answered.
fn answered_beside_a_flood(rig: &mut Rig, prefixes: u16, first: u32, each: u32) -> usize {
    let mut sent = 0;
    let mut flood = |rig: &mut Rig, count: u32| {
        for _ in 0..count {
            rig.ask(&slow(sent, (sent % u32::from(prefixes)) as u16));
            sent += 1;
        }
    };
    flood(rig, first);
    (1..=NAMES)
        .filter(|id| {
            flood(rig, each);
            let query = QueryFrame { id: *id, ..query(&format!("n{id}.example. A")) };
            resolve(rig, &query).rcode == 0
        })
        .count()
}

/// The answer to this query; those to others, which have the id 0, are thrown away.
fn resolve(rig: &mut Rig, query: &QueryFrame) -> Answer {
    rig.ask(query);
    loop {
        let answer = rig.answers(1).remove(0);
        if answer.id == query.id {
            return answer;
        }
    }
}

#[test]
fn audit_05_new_names_are_answered_beside_a_flood_from_any_number_of_prefixes() {
    for prefixes in [1, 64, 1000] {
        let stub = stub();
        let mut setup = Setup { answers: 4096, ..Setup::asking(&[&stub]) };
        setup.settings.max_pending = 512;
        let mut rig = setup.start();
        assert_eq!(answered_beside_a_flood(&mut rig, prefixes, 2000, 20), usize::from(NAMES));
        let counters = rig.counters();
        assert_eq!(counters.failed_recently, 0, "to be shed is no failure");
        assert!(counters.shed_pending + counters.shed_prefix + counters.shed_displaced > 1000);
        assert!(counters.pending >= 511, "as much room as there is");
        rig.stop();
    }
}

#[test]
fn audit_05_seats_are_shared_as_well() {
    let stub = stub();
    let mut setup = Setup { answers: 4096, ..Setup::asking(&[&stub]) };
    setup.settings.max_waiting = 512;
    let mut rig = setup.start();
    assert_eq!(answered_beside_a_flood(&mut rig, 64, 2000, 20), usize::from(NAMES));
    let counters = rig.counters();
    assert!(counters.shed_waiting + counters.shed_displaced > 1000);
    assert!(counters.waiting >= 511);
    rig.stop();
}

#[test]
fn audit_05_who_is_displaced_is_told_and_its_name_is_no_failure() {
    let stub = Stub::replying(Asked::address);
    stub.faults.busy.set(true);
    let mut setup = Setup::asking(&[&stub]);
    setup.settings.max_pending = 1;
    let mut rig = setup.start();
    let first = QueryFrame { id: 1, ..query("a.example. A") };
    rig.ask(&first);
    rig.wait_for(|counters| counters.waiting == 1);
    let second = QueryFrame { id: 2, source: vec![10, 0, 0, 1], ..query("b.example. A") };
    rig.ask(&second);
    let told = rig.answers(1).remove(0);
    assert_eq!((told.id, told.rcode), (1, 2), "the one that came first, with SERVFAIL");
    let counters = rig.counters();
    assert_eq!((counters.shed_displaced, counters.told_busy, counters.servfail), (1, 1, 1));
    stub.faults.busy.set(false);
    assert_eq!(rig.answers(1).remove(0).id, 2);
    assert_eq!(resolve(&mut rig, &first).rcode, 0, "it is asked again, within a second");
    assert_eq!(rig.finish().failed_recently, 0);
}

/// Queries held back and then released as one burst hit who is not there (DNSBomb).
#[test]
fn cve_2024_33655_no_client_gets_more_answers_at_once_than_it_may_have_queries_waiting() {
    let stub = Stub::replying(Asked::address);
    stub.faults.busy.set(true);
    let mut setup = Setup { answers: 4096, frames: 4096, ..Setup::asking(&[&stub]) };
    setup.settings.max_waiting_per_client = 16;
    let mut rig = setup.start();
    // One victim, and then its whole network.
    let spoofed = |host| QueryFrame { source: vec![10, 0, 0, host], ..query("www.example. A") };
    for asked in alike(&spoofed(1), 100) {
        rig.ask(&asked);
    }
    for host in 2..202 {
        for asked in alike(&spoofed(host), 2) {
            rig.ask(&asked);
        }
    }
    rig.wait_for(|counters| counters.misses == 500);
    stub.faults.busy.set(false);
    rig.wait_for(|counters| counters.waiting == 0);
    let (counters, _) = rig.stop();
    assert_eq!(counters.answered, 4 * 16);
    assert!(counters.shed_client >= 84 && counters.shed_prefix > 300);
}

/// A rig that asks this encrypted upstream.
fn asking(upstream: Upstream) -> Setup {
    Setup { upstreams: vec![upstream], ..Setup::asking(&[]) }.hasty(60_000, 60_000)
}

#[test]
fn audit_08_an_encrypted_upstream_keeps_room_for_others_than_who_floods() {
    let stub = stub();
    let mut setup = Setup { answers: 4096, ..asking(stub.encrypted("tls")) };
    setup.settings.max_waiting_per_client = 4096;
    let mut rig = setup.start();
    assert_eq!(answered_beside_a_flood(&mut rig, 1, 3000, 5), usize::from(NAMES));
    assert!(rig.upstream(0).shed > 0);
    assert_eq!(rig.counters().failed_recently, 0);
    rig.stop();
}

/// A query over TLS was once taken out of the table while its reply was on its way.
#[test]
fn cve_2026_50046_a_query_over_tls_that_is_displaced_in_flight_ends_once() {
    let stub = Stub::replying(Asked::address);
    stub.faults.busy.set(true);
    let mut setup = asking(stub.encrypted("tls"));
    setup.settings.max_pending = 1;
    let mut rig = setup.start();
    for (id, prefix) in [(1, 1), (2, 2), (3, 1), (4, 2)] {
        let source = vec![10, 0, prefix, 1];
        rig.ask(&QueryFrame { id, source, ..query(&format!("n{id}.example. A")) });
        rig.wait_until(|rig| rig.upstream(0).encrypted == u64::from(id));
    }
    assert_eq!(rig.answers(3).iter().map(|told| told.rcode).collect::<Vec<_>>(), [2, 2, 2]);
    stub.faults.busy.set(false);
    let answer = rig.answers(1).remove(0);
    assert_eq!((answer.id, answer.rcode, answer.records), (4, 0, 1));
    rig.wait_until(|rig| rig.upstream(0).replies == 4);
    // The last answer leaves before its question is over.
    rig.wait_until(|rig| rig.counters().pending == 0);
    rig.finish();
}

/// A reply of many messages, as to a query for a transfer, once kept a connection for itself.
#[test]
fn cve_2026_40209_messages_nobody_asked_for_do_not_pin_a_connection() {
    let stub = Stub::start([127, 0, 0, 1].into(), |asked| match asked.over_tcp {
        false => vec![Send::Reply(asked.truncated())],
        true => (0..50).map(|_| Send::Reply(asked.address())).collect(),
    });
    let mut setup = Setup::asking(&[&stub]);
    setup.upstreams = vec![upstream(stub.address.into())];
    let mut rig = setup.start();
    for number in 0..20 {
        let answer = rig.resolve(&query(&format!("n{number}.example. A")));
        assert_eq!((answer.rcode, answer.records), (0, 1));
    }
    rig.finish();
}
