//! What networks and upstreams do to replies, and what clients get nevertheless. The names of some tests
//! are those of Unbound's tests of the same behaviour.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};

use pmdns_stages::testing::query;
use pmdns_stages::wire::dns::HEADER_LEN;

use super::BY_PORT;
use super::rig::{Rig, SECOND, Setup};
use super::stub::{Asked, Faults, Send, Stub};

/// Questions at once.
const MANY: usize = 60;

/// A reply whose number of records tells the name it was for: that of `n7.example.` has 7.
fn telling(asked: &Asked) -> Vec<u8> {
    let len = usize::from(asked.message[HEADER_LEN]);
    if len == 0 {
        return asked.rcode(0); // A probe.
    }
    let label = &asked.message[HEADER_LEN + 2..=HEADER_LEN + len];
    asked.addresses(std::str::from_utf8(label).unwrap().parse().unwrap(), 300)
}

/// Asks for many names at once from a stub with these faults; every answer must be the right one.
fn survives(faults: impl Fn(&Faults), timeout_ms: u64) -> (Rig, Stub) {
    let stub = Stub::replying(telling);
    faults(&stub.faults);
    let mut rig = Setup::asking(&[&stub]).hasty(20_000, timeout_ms).start();
    for number in 1..=MANY {
        let mut client = query(&format!("n{number}.example. A")).edns(1232, false);
        client.id = number as u16;
        rig.ask(&client);
    }
    let answers = rig.answers(MANY);
    assert!(answers.iter().all(|answer| answer.rcode == 0 && answer.records == answer.id));
    (rig, stub)
}

#[test]
fn replies_that_are_lost_are_asked_for_again() {
    let (rig, _stub) = survives(|faults| faults.lose_one_of.set(4), 200);
    assert!(rig.upstream(0).timeouts >= MANY as u64 / 4);
    assert_eq!(rig.finish().servfail, 0);
}

#[test]
fn replies_out_of_order_find_their_questions() {
    let (rig, _stub) = survives(|faults| faults.reorder.set(true), 5000);
    let upstream = rig.upstream(0);
    assert_eq!((upstream.replies, upstream.mismatched), (MANY as u64, 0));
    rig.finish();
}

#[test]
fn replies_that_come_late_come_in_time() {
    let (rig, _stub) = survives(|faults| faults.delay_ms.set(40), 5000);
    assert!(rig.upstream(0).srtt_us >= 40_000);
    rig.finish();
}

#[test]
fn replies_later_than_the_timeout_are_no_use_and_do_no_harm() {
    let slow = Stub::replying(telling);
    slow.faults.delay_ms.set(400);
    let mut rig = Setup::asking(&[&slow]).hasty(20_000, 200).start();
    // Replies to the first tries find no one; in the end it is fast enough.
    rig.ask(&query("n1.example. A"));
    rig.wait_until(|rig| rig.upstream(0).timeouts >= 2);
    slow.faults.delay_ms.set(0);
    assert_eq!(rig.answers(1)[0].records, 1);
    assert_eq!(rig.finish().inserted, 1);
}

#[test]
fn lies_are_not_believed() {
    let (rig, _stub) = survives(|faults| faults.lie.set(true), 5000);
    assert!(rig.upstream(0).mismatched >= MANY as u64 / 2);
    rig.finish();
}

#[test]
fn fwd_tcp_when_every_datagram_is_truncated() {
    let (rig, _stub) = survives(|faults| faults.truncate.set(true), 5000);
    let upstream = rig.upstream(0);
    assert_eq!((upstream.queries, upstream.tcp), (MANY as u64, MANY as u64));
    rig.finish();
}

/// The ports that queries over TCP came from: one for each connection.
fn connections(stub: &Stub) -> HashSet<u16> {
    let asked = stub.asked();
    asked.iter().filter(|asked| asked.over_tcp).map(|asked| asked.from.port()).collect()
}

#[test]
fn fwd_tcp_queries_share_a_connection_in_whatever_order_replies_come() {
    let faults = |faults: &Faults| {
        faults.truncate.set(true);
        faults.reorder.set(true);
    };
    let (mut rig, stub) = survives(faults, 5000);
    assert!(connections(&stub).len() <= MANY.div_ceil(32), "as few as hold them");
    assert_eq!(rig.resolve(&query("n3.later.example. A")).records, 3);
    assert!(connections(&stub).len() <= MANY.div_ceil(32), "and they are kept");
    assert_eq!((rig.upstream(0).errors, rig.upstream(0).tcp), (0, MANY as u64 + 1));
    rig.finish();
}

#[test]
fn fwd_tcp_a_server_may_close_after_each_reply() {
    let faults = |faults: &Faults| {
        faults.truncate.set(true);
        faults.close_after.set(1);
    };
    let (mut rig, stub) = survives(faults, 5000);
    let before = connections(&stub).len();
    assert!(before > MANY / 2);
    for number in 1..=5 {
        assert_eq!(rig.resolve(&query(&format!("n{number}.later.example. A"))).records, number);
    }
    assert!(connections(&stub).len() > before);
    rig.finish();
}

#[test]
fn fwd_tcp_a_connection_that_went_dead_is_not_used_again() {
    let stub = Stub::replying(telling);
    stub.faults.truncate.set(true);
    let mut rig = Setup::asking(&[&stub]).hasty(20_000, 300).start();
    assert_eq!(rig.resolve(&query("n1.example. A")).records, 1);
    let before = connections(&stub);
    // Nothing comes over the connection, and then new ones are served while that one is still open.
    stub.faults.deaf_to.set(before.iter().copied().next().unwrap());
    assert_eq!(rig.resolve(&query("n2.example. A")).records, 2);
    assert_eq!(rig.upstream(0).timeouts, 1);
    assert_eq!(connections(&stub).len(), 2);
    rig.finish();
}

#[test]
fn a_dead_period_ends_and_so_do_its_effects() {
    let stub = Stub::replying(telling);
    stub.faults.dead.set(true);
    let mut rig = Setup::asking(&[&stub]).hasty(20_000, 200).start();
    rig.ask(&query("n5.example. A"));
    rig.wait_until(|rig| rig.upstream(0).state == 1);
    stub.faults.dead.set(false);
    assert_eq!(rig.answers(1)[0].records, 5, "within the same question");
    rig.finish();
}

#[test]
fn fwd_0ttlservfail_an_answer_of_ttl_zero_does_not_hide_a_failure() {
    let asked_before = AtomicUsize::new(0);
    let stub = Stub::replying(move |asked| match asked_before.fetch_add(1, Ordering::Relaxed) {
        0 => asked.addresses(1, 0),
        _ => asked.rcode(2),
    });
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    let second = rig.resolve(&query("www.example. A"));
    assert_eq!((second.rcode, second.records), (2, 0));
    assert_eq!(rig.finish().inserted, 0);
}

#[test]
fn fwd_0ttlservfail_an_answer_of_ttl_zero_ends_a_failure() {
    let asked_before = AtomicUsize::new(0);
    let stub = Stub::replying(move |asked| match asked_before.fetch_add(1, Ordering::Relaxed) {
        0 => asked.rcode(2),
        _ => asked.addresses(1, 0),
    });
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).rcode, 2);
    rig.pass(SECOND);
    assert_eq!(rig.resolve(&query("www.example. A")).rcode, 0);
    let asked = stub.asked().len();
    for number in 1..4 {
        assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
        assert_eq!(stub.asked().len(), asked + number, "neither is remembered");
    }
    rig.finish();
}

#[test]
fn fwd_zero_an_empty_datagram_is_no_reply() {
    let stub = Stub::start(Ipv4Addr::LOCALHOST.into(), |asked| {
        vec![Send::Reply(Vec::new()), Send::Reply(asked.address())]
    });
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    let upstream = rig.upstream(0);
    let mismatched = if BY_PORT { 0 } else { 1 };
    assert_eq!((upstream.mismatched, upstream.replies, upstream.tcp), (mismatched, 1, 0));
    rig.finish();
}

#[test]
fn fwd_tcp_tc6_truncated_replies_are_fetched_over_tcp_and_ipv6() {
    let stub = Stub::start(Ipv6Addr::LOCALHOST.into(), |asked| {
        vec![Send::Reply(if asked.over_tcp { asked.address() } else { asked.truncated() })]
    });
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    assert_eq!((rig.upstream(0).queries, rig.upstream(0).tcp), (1, 1));
    rig.finish();
}

#[test]
fn fwd_compress_c00c_names_that_point_to_the_question_do_so_in_the_answer() {
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = Setup::asking(&[&stub]).start();
    let client = query("wWw.eXample. A");
    let answer = rig.resolve_whole(&client);
    let question_end = HEADER_LEN + client.name.len() + 4;
    assert_eq!(answer[HEADER_LEN..question_end - 4], client.name, "the client's own letters");
    assert_eq!(answer[question_end..question_end + 6], [0xc0, 12, 0, 1, 0, 1]);
    assert_eq!(answer[question_end + 12..], [192, 0, 0, 0]);
    rig.finish();
}

/// Ways to be malformed.
const KINDS: usize = 8;

/// Replies to the right query that make no sense, each in its own way.
fn malformed(asked: &Asked) -> [Vec<u8>; KINDS] {
    let good = asked.address();
    let owner = asked.rcode(0).len();
    let with = |at: usize, bytes: &[u8]| {
        let mut reply = good.clone();
        reply[at..at + bytes.len()].copy_from_slice(bytes);
        reply
    };
    [
        good[..good.len() - 1].to_vec(),
        // More records than there are.
        with(6, &[0, 2]),
        with(6, &[0xff, 0xff]),
        // The owner points to itself, or beyond the end.
        with(owner, &[0xc0, owner as u8]),
        with(owner, &[0xc0, 0xff]),
        // Labels of a kind that does not exist.
        with(owner, &[0x80, 0]),
        // The data is longer than the message.
        with(owner + 10, &[0xff, 0xff]),
        // An OPT record where none may be.
        with(owner + 2, &[0, 41]),
    ]
}

#[test]
fn fwd_malformed_replies_are_fetched_over_tcp_and_then_from_the_next() {
    for kind in 0..KINDS {
        let broken = Stub::replying(move |asked| malformed(asked)[kind].clone());
        let good = Stub::replying(|asked| asked.addresses(3, 300));
        let mut rig = Setup::asking(&[&broken, &good]).start();
        assert_eq!(rig.resolve(&query("www.example. A")).records, 3, "kind {kind}");
        assert_eq!((rig.upstream(0).malformed, rig.upstream(0).tcp), (2, 1), "kind {kind}");
        assert_eq!(rig.finish().inserted, 1);
    }
}

#[test]
fn everything_at_once() {
    let faults = |faults: &Faults| {
        faults.lose_one_of.set(5);
        faults.reorder.set(true);
        faults.lie.set(true);
        faults.delay_ms.set(5);
    };
    let (rig, stub) = survives(faults, 300);
    assert!(stub.asked().len() >= MANY);
    assert_eq!(rig.finish().servfail, 0);
}
