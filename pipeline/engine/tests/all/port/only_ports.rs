//! What only queries over ports have to withstand: links on which nobody answers, and whatever can be sent to a query source.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use pmdns_stages::next_hop::HopState;
use pmdns_stages::testing::{QueryFrame, query};
use pmdns_stages::wire::dns::header;
use pmdns_stages::wire::ip::{IPV4_MIN_LEN, UDP_LEN};
use pmdns_stages::wire::{be16, put16};

use super::rig::{Rig, SECOND, Setup};
use super::stepping::port_wire::{Asked as Sent, PortWire};
use super::stub::{Asked, Send, Stub};

/// The query sources of a rig with IPv4 addresses, by their last byte.
const SOURCES: [u8; 2] = [60, 61];
/// UDP ports that queries leave from.
const PORTS: std::ops::RangeInclusive<u16> = 1024..=65535;
/// ICMP errors that a thread believes in a second.
const BELIEVED: u64 = 100;

/// Datagrams and ICMP errors that do not match a query, until it is asked over TCP.
const GUESSES: u16 = 32;

/// The same query, but an ICMP error about it quotes its id with other bits.
pub(super) fn with_other_id(sent: &Sent, bits: u16) -> Sent {
    let mut other = sent.clone();
    let at = other.packet.len() - other.message.len() + header::ID;
    let right = be16(&other.packet, at).unwrap();
    put16(&mut other.packet, at, right ^ bits);
    other
}

/// The link of a rig.
pub(super) fn link(rig: &mut Rig) -> &mut PortWire {
    let slow_path = rig.driver.slow_path.as_mut().unwrap();
    slow_path.port.as_mut().expect("upstreams are asked over it")
}

/// The queries that are under way.
fn under_way(rig: &Rig) -> Vec<Sent> {
    let slow_path = rig.driver.slow_path.as_ref().unwrap();
    slow_path.over_port.iter().flatten().cloned().collect()
}

/// Asks so many names, and waits until their queries have left.
pub(super) fn send(rig: &mut Rig, queries: u64) -> Vec<Sent> {
    for number in 0..queries {
        rig.ask(&QueryFrame { id: number as u16, ..query(&format!("n{number}.example. A")) });
        rig.driver.turn();
    }
    rig.wait_until(|rig| rig.upstream(0).queries == queries);
    under_way(rig)
}

/// A rig that asks this stub, in which no client and no query loses patience.
pub(super) fn patient(stub: &Stub, queries: usize) -> Rig {
    let mut setup = Setup::asking(&[stub]).hasty(60_000, 60_000);
    setup.settings.max_pending = queries;
    setup.settings.max_waiting = queries;
    setup.settings.max_waiting_per_client = queries;
    setup.start()
}

#[test]
fn without_a_next_hop_clients_are_told_in_time_and_served_as_soon_as_it_answers() {
    let stub = Stub::replying(Asked::address);
    let mut rig = Setup::asking(&[&stub]).hasty(2_000, 800).start();
    link(&mut rig).is_deaf = true;
    for number in 0..20 {
        let begun = rig.driver.now();
        assert_eq!(rig.resolve(&query(&format!("n{number}.example. A"))).rcode, 2);
        assert!(rig.driver.now() - begun <= 2 * SECOND, "the deadline holds");
        rig.pass(SECOND);
    }
    assert_eq!(stub.asked().len(), 0, "nothing leaves without an address to send it to");
    let (questions, seconds) = (link(&mut rig).questions, rig.driver.now().as_secs() as usize);
    assert!((20..=seconds + 1).contains(&questions), "{questions} ARP requests in {seconds} s");

    link(&mut rig).is_deaf = false;
    let begun = rig.driver.now();
    assert_eq!(rig.resolve(&query("found.example. A")).records, 1);
    let waited = rig.driver.now() - begun;
    assert!(waited <= 3 * SECOND / 2, "asked in a second because a query needs it: {waited:?}");
    rig.finish();
}

/// Asks a new name every 100 ms for so many seconds.
fn ask_on(rig: &mut Rig, seconds: u16) {
    for _ in 0..10 * seconds {
        let number = rig.counters().misses;
        rig.ask(&QueryFrame { id: number as u16, ..query(&format!("n{number}.example. A")) });
        rig.pass(SECOND / 10);
    }
}

/// What is known of the only next hop.
fn state(rig: &mut Rig) -> HopState {
    let now = rig.driver.now();
    let mut report = link(rig).table.report(now);
    report.next().unwrap().state
}

#[test]
fn a_next_hop_that_dies_is_no_longer_trusted_after_five_seconds_of_silence() {
    let stub = Stub::replying(Asked::address);
    let mut rig = patient(&stub, 1000);
    ask_on(&mut rig, 10);
    assert_eq!(state(&mut rig), HopState::Reachable);
    let before = link(&mut rig).questions;
    stub.faults.dead.set(true);
    link(&mut rig).is_deaf = true;
    ask_on(&mut rig, 5);
    assert_eq!((state(&mut rig), link(&mut rig).questions - before), (HopState::Stale, 4));
    rig.stop();
}

#[test]
fn an_upstream_that_keeps_silent_costs_its_next_hop_a_probe_in_five_seconds() {
    let stub = Stub::silent();
    let mut rig = patient(&stub, 1000);
    ask_on(&mut rig, 50);
    let questions = link(&mut rig).questions;
    assert!((8..=10).contains(&questions), "{questions} in 50 s");
    assert_eq!(state(&mut rig), HopState::Reachable);
    rig.stop();
}

#[test]
fn a_client_that_waits_for_a_next_hop_is_served_when_it_answers() {
    let stub = Stub::replying(Asked::address);
    let mut rig = Setup::asking(&[&stub]).start();
    link(&mut rig).is_deaf = true;
    rig.pass(Duration::from_millis(500));
    rig.ask(&query("www.example. A"));
    rig.pass(Duration::from_millis(10));
    link(&mut rig).is_deaf = false;
    let answer = rig.answers(1).remove(0);
    assert_eq!(answer.records, 1);
    assert!(rig.driver.now() < 2 * SECOND, "the next question for it comes after a second");
    rig.finish();
}

#[test]
fn cve_2026_50252_queries_leave_from_all_ports_of_all_sources() {
    const QUERIES: u64 = 4000;
    let stub = Stub::silent();
    let mut rig = patient(&stub, QUERIES as usize);
    let sent = send(&mut rig, QUERIES);
    let places: HashSet<SocketAddr> = sent.iter().map(|sent| sent.from).collect();
    assert_eq!(places.len(), QUERIES as usize, "each query has a port of its own");
    for source in SOURCES {
        let ports =
            sent.iter().filter(|sent| sent.from.ip().to_string() == format!("10.9.0.{source}"));
        let mut parts = [0; 16];
        ports.for_each(|sent| parts[usize::from((sent.from.port() - 1024) / 4032).min(15)] += 1);
        // 125 on average; a range of its own for each thread would leave parts empty.
        assert!(parts.iter().all(|part| (80..=170).contains(part)), "{source}: {parts:?}");
    }
    rig.stop();
}

#[test]
fn forged_replies_to_every_port_hurt_no_query_and_cost_each_one_mismatch() {
    const QUERIES: u64 = 200;
    let stub = Stub::start([127, 0, 0, 1].into(), |asked| vec![Send::Reply(asked.address())]);
    stub.faults.busy.set(true);
    let mut rig = patient(&stub, QUERIES as usize);
    let sent = send(&mut rig, QUERIES);
    let upstream = sent[0].to;
    for port in PORTS {
        let forged = [&[0xff; 2][..], &sent[0].message[2..]].concat();
        let to = SocketAddr::new([10, 9, 0, SOURCES[0]].into(), port);
        link(&mut rig).arrive(upstream, to, &forged);
        if port.is_multiple_of(1024) {
            rig.driver.turn();
        }
    }
    rig.driver.turn();
    let attacked = sent.iter().filter(|sent| sent.from.ip().to_string() == "10.9.0.60").count();
    assert!(attacked > 50);
    assert_eq!(
        rig.upstream(0).mismatched,
        attacked as u64,
        "what no query waits for ends in parse"
    );
    assert_eq!((rig.upstream(0).tcp, rig.upstream(0).replies), (0, 0));
    stub.faults.busy.set(false);
    let answers = rig.answers(QUERIES as usize);
    assert!(answers.iter().all(|answer| (answer.rcode, answer.records) == (0, 1)));
    rig.finish();
}

#[test]
fn a_query_that_forgers_have_found_goes_to_tcp_and_no_other_does() {
    const QUERIES: u64 = 50;
    let stub = Stub::replying(|asked| asked.addresses(1 + u16::from(asked.over_tcp), 300));
    stub.faults.busy.set(true);
    let mut rig = patient(&stub, QUERIES as usize);
    let sent = send(&mut rig, QUERIES);
    let victim = &sent[7];
    for id in 0..5000_u16 {
        let mut forged = victim.message.clone();
        forged[..2].copy_from_slice(&id.to_be_bytes());
        forged[2] |= 0x80;
        if forged[..2] != victim.message[..2] {
            link(&mut rig).arrive(victim.to, victim.from, &forged);
        }
        if id % 16 == 0 {
            rig.driver.turn();
        }
    }
    let strangers: SocketAddr = "192.0.2.1:53".parse().unwrap();
    for sent in &sent {
        link(&mut rig).arrive(strangers, sent.from, &sent.message);
    }
    rig.driver.turn();
    stub.faults.busy.set(false);
    let answers = rig.answers(QUERIES as usize);
    let records: Vec<u16> = answers.iter().map(|answer| answer.records).collect();
    let over_tcp = answers.iter().filter(|answer| answer.records == 2).count();
    assert!(answers.iter().all(|answer| answer.rcode == 0), "{answers:?}");
    assert_eq!(over_tcp, 1, "{records:?}");
    assert_eq!(rig.upstream(0).tcp, 1);
    rig.finish();
}

#[test]
fn of_a_flood_of_icmp_errors_a_hundred_a_second_are_believed() {
    const QUERIES: u64 = 1000;
    let stub = Stub::silent();
    let mut rig = patient(&stub, QUERIES as usize);
    let sent = send(&mut rig, QUERIES);
    let start = rig.driver.now();
    rig.pass(Duration::from_secs(start.as_secs() + 1) - start);
    let mut unclaimed = 0;
    for second in 1..=3 {
        for sent in &sent {
            link(&mut rig).refuse(sent);
        }
        rig.pass(Duration::from_millis(500));
        assert_eq!(rig.upstream(0).errors, BELIEVED * second);
        // Those that were believed before are for nobody, which parse sees.
        unclaimed += QUERIES - BELIEVED * second;
        assert_eq!(rig.counters().unclaimed, unclaimed);
        rig.pass(Duration::from_millis(500));
    }
    rig.stop();
}

#[test]
fn icmp_errors_that_quote_another_id_end_nothing() {
    let stub = Stub::replying(Asked::address);
    stub.faults.busy.set(true);
    let mut rig = patient(&stub, 8);
    let sent = send(&mut rig, 1).remove(0);
    for id in 1..GUESSES {
        link(&mut rig).refuse(&with_other_id(&sent, id));
    }
    rig.pass(Duration::from_millis(10));
    let upstream = rig.upstream(0);
    assert_eq!((upstream.errors, upstream.mismatched, upstream.tcp), (0, 31, 0));
    stub.faults.busy.set(false);
    assert_eq!(rig.answers(1)[0].records, 1);
    rig.finish();
}

#[test]
fn who_guesses_ids_by_icmp_errors_sends_the_query_to_tcp_and_no_further() {
    let stub = Stub::replying(Asked::address);
    stub.faults.busy.set(true);
    let mut rig = patient(&stub, 8);
    let sent = send(&mut rig, 1).remove(0);
    // The right one comes too late.
    for id in (1..=GUESSES).chain([0]) {
        link(&mut rig).refuse(&with_other_id(&sent, id));
    }
    rig.pass(Duration::from_millis(10));
    let upstream = rig.upstream(0);
    assert_eq!((upstream.errors, upstream.mismatched, upstream.tcp), (0, 32, 1));
    stub.faults.busy.set(false);
    assert_eq!(rig.answers(1)[0].records, 1);
    rig.finish();
}

#[test]
fn forged_icmp_errors_keep_out_no_true_one() {
    const QUERIES: u64 = 50;
    let stub = Stub::silent();
    let mut rig = patient(&stub, QUERIES as usize);
    let sent = send(&mut rig, QUERIES);
    for sent in &sent {
        (1..10).for_each(|id| link(&mut rig).refuse(&with_other_id(sent, id)));
    }
    sent.iter().for_each(|sent| link(&mut rig).refuse(sent));
    rig.pass(Duration::from_millis(10));
    let upstream = rig.upstream(0);
    assert_eq!((upstream.errors, upstream.mismatched), (QUERIES, 9 * QUERIES));
    assert_eq!(rig.counters().unclaimed, 0);
    rig.stop();
}

/// Without the id (RFC 792 asks for eight bytes behind the IP header) nobody can tell it from a forged one.
#[test]
fn an_icmp_error_with_the_shortest_quote_is_not_believed() {
    let stub = Stub::silent();
    let mut rig = patient(&stub, 8);
    let mut sent = send(&mut rig, 1).remove(0);
    sent.packet.truncate(IPV4_MIN_LEN + UDP_LEN);
    link(&mut rig).refuse(&sent);
    rig.pass(Duration::from_millis(10));
    assert_eq!((rig.upstream(0).errors, rig.upstream(0).mismatched), (0, 1));
    rig.stop();
}

#[test]
fn what_comes_for_a_query_that_has_ended_is_counted() {
    let stub = Stub::silent();
    let mut rig = patient(&stub, 8);
    let sent = send(&mut rig, 1).remove(0);
    let reply = super::rig::Asked { message: sent.message, from: sent.from, over_tcp: false };
    // More than a turn takes: some find their query just ended, others its slot empty.
    for _ in 0..100 {
        link(&mut rig).arrive(sent.to, sent.from, &reply.address());
    }
    assert_eq!(rig.answers(1)[0].records, 1);
    rig.pass(Duration::from_millis(10));
    assert_eq!((rig.upstream(0).replies, rig.counters().unclaimed), (1, 99));
    assert_eq!(rig.upstream(0).mismatched, 0);
    rig.finish();
}
