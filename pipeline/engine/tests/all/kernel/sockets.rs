//! The kernel's sockets: what the resolver wants sent arrives, and what comes back reaches the resolver.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use pmdns_stages::testing::query;

use super::both::all_are_under_way;
use super::rig::{Asked, Setup, upstream};
use super::stub::{Send, Stub, unused};

/// A stub that replies over TCP only.
fn truncating(asked: &Asked) -> Vec<u8> {
    if asked.over_tcp { asked.addresses(20, 300) } else { asked.truncated() }
}

#[test]
fn questions_are_answered_over_udp() {
    let stub = Stub::replying(Asked::address);
    let mut rig = Setup::asking(&[&stub]).start();
    for number in 0..100 {
        rig.ask(&query(&format!("n{number}.example. A")));
    }
    assert!(rig.answers(100).iter().all(|answer| answer.records == 1));
    let upstream = rig.upstream(0);
    assert_eq!((upstream.queries, upstream.replies, upstream.tcp), (100, 100, 0));
    assert_eq!(rig.finish().inserted, 100);
}

/// The kernel stops sending a batch at the first error that a datagram before it has met.
#[test]
fn batches_to_a_port_that_is_closed_go_to_the_next_upstream() {
    let stub = Stub::replying(Asked::address);
    let mut setup = Setup::asking(&[&stub]);
    setup.upstreams.insert(0, upstream(unused(Ipv4Addr::LOCALHOST.into()).into()));
    let mut rig = setup.start();
    for number in 0..100 {
        rig.ask(&query(&format!("n{number}.example. A")));
    }
    assert!(rig.answers(100).iter().all(|answer| answer.records == 1));
    assert!(rig.upstream(0).errors > 0);
    assert_eq!((rig.upstream(0).timeouts, rig.upstream(1).replies), (0, 100));
    rig.finish();
}

#[test]
fn truncated_replies_are_fetched_over_tcp() {
    let stub = Stub::replying(truncating);
    let mut rig = Setup::asking(&[&stub]).start();
    for number in 0..100 {
        rig.ask(&query(&format!("n{number}.example. A")));
    }
    assert!(rig.answers(100).iter().all(|answer| answer.records == 20));
    assert_eq!((rig.upstream(0).queries, rig.upstream(0).tcp), (100, 100));
    rig.finish();
}

#[test]
fn an_upstream_over_ipv6_is_asked() {
    let address = IpAddr::from(Ipv6Addr::LOCALHOST);
    if UdpSocket::bind((address, 0)).is_err() {
        return; // A machine without IPv6.
    }
    let stub = Stub::start(address, |asked| vec![Send::Reply(truncating(asked))]);
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 20);
    assert_eq!(stub.asked().len(), 2);
    rig.finish();
}

#[test]
fn a_connection_that_is_refused_leads_to_the_next_upstream() {
    let stub = Stub::without_tcp(truncating);
    let next = Stub::replying(Asked::address);
    let mut rig = Setup::asking(&[&stub, &next]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    assert_eq!((rig.upstream(0).tcp, rig.upstream(0).errors), (1, 1));
    rig.finish();
}

#[test]
fn a_server_may_close_the_connection_after_each_reply() {
    let stub = Stub::start(Ipv4Addr::LOCALHOST.into(), |asked| {
        vec![Send::Reply(truncating(asked)), Send::Close]
    });
    let mut rig = Setup::asking(&[&stub]).start();
    for number in 0..5 {
        assert_eq!(rig.resolve(&query(&format!("n{number}.example. A"))).records, 20);
    }
    let over_tcp = stub.asked().into_iter().filter(|asked| asked.over_tcp);
    let ports: HashSet<u16> = over_tcp.map(|asked| asked.from.port()).collect();
    assert_eq!(ports.len(), 5, "each over a connection of its own");
    assert_eq!(rig.finish().servfail, 0);
}

#[test]
fn datagrams_from_another_port_are_not_even_seen() {
    let stub = Stub::start(Ipv4Addr::LOCALHOST.into(), |asked| {
        vec![Send::FromElsewhere(asked.addresses(7, 300)), Send::Reply(asked.address())]
    });
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    assert_eq!((rig.upstream(0).replies, rig.upstream(0).mismatched), (1, 0));
    rig.finish();
}

#[test]
fn queries_leave_from_the_source_the_operator_chose() {
    let stub = Stub::replying(truncating);
    let source = IpAddr::from([127, 0, 0, 53]);
    let mut rig = Setup::asking(&[&stub]).from(source).start();
    rig.resolve(&query("www.example. A"));
    assert_eq!(stub.asked().len(), 2);
    assert!(stub.asked().iter().all(|asked| asked.from.ip() == source));
    rig.finish();
}

#[test]
fn every_query_has_its_own_port_and_id() {
    const QUERIES: usize = 200;
    let stub = Stub::replying(|asked| asked.addresses(1, 0));
    let mut rig = Setup::asking(&[&stub]).start();
    for number in 0..QUERIES {
        rig.resolve(&query(&format!("n{number}.example. A")));
    }
    let asked = stub.asked();
    assert_eq!(asked.len(), QUERIES);
    let ports: HashSet<u16> = asked.iter().map(|asked| asked.from.port()).collect();
    let ids: HashSet<u16> = asked.iter().map(Asked::id).collect();
    // Of 200 draws from 64 thousand some may coincide, but not ten: that happens to nobody.
    assert!(ports.len() > QUERIES - 10 && ids.len() > QUERIES - 10);
    let below = |ports: &HashSet<u16>| ports.iter().filter(|port| **port < 32_768).count();
    assert!((20..QUERIES - 20).contains(&below(&ports)), "from the whole range of ports");
    rig.finish();
}

#[test]
fn more_sockets_may_have_replies_than_are_looked_at_in_a_turn() {
    const QUERIES: usize = 200;
    let stub = Stub::replying(Asked::address);
    let mut setup = Setup::asking(&[&stub]);
    setup.settings.queries_per_port = 1;
    let mut rig = setup.start();
    for number in 0..QUERIES {
        rig.ask(&query(&format!("n{number}.example. A")));
    }
    assert!(rig.answers(QUERIES).iter().all(|answer| answer.records == 1));
    let ports: HashSet<u16> = stub.asked().iter().map(|asked| asked.from.port()).collect();
    assert!(ports.len() > QUERIES - 10, "some draws may coincide, but not ten");
    rig.finish();
}

#[test]
fn a_worker_that_never_ends_does_not_hold_up_the_stop() {
    let stub = Stub::silent();
    let mut rig = Setup::asking(&[&stub]).hasty(100, 100).start();
    rig.ask(&query("www.example. A"));
    rig.say_stop();
    // The rig still holds its end of the ring of misses.
    rig.wait_until(|rig| rig.has_ended());
    rig.stop();
}

/// How many files this process may have open.
fn open_files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next());
    soft.and_then(|soft| soft.parse().ok()).unwrap_or(usize::MAX)
}

#[test]
fn as_many_sockets_are_open_as_it_takes() {
    const QUERIES: usize = 1 << 14;
    if open_files() < QUERIES / 32 + 512 {
        return; // A machine on which fewer wait in the air and the others on the ground.
    }
    all_are_under_way(QUERIES);
}
