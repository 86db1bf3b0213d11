//! Upstreams that fail, and that come back.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pmdns_config::{HealthSettings, Strategy};
use pmdns_stages::testing::query;

use super::rig::{SECOND, Setup, alike, upstream};
use super::stub::{Send, Stub, unused};

#[test]
fn trap_10_a_silent_first_upstream_is_passed_over_in_time() {
    let dead = Stub::silent();
    let alive = Stub::replying(|asked| asked.address());
    let mut rig = Setup::asking(&[&dead, &alive]).hasty(20_000, 50).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    assert_eq!((rig.upstream(0).timeouts, rig.upstream(1).replies), (1, 1));
    assert_eq!(rig.finish().servfail, 0);
}

#[test]
fn a_dead_upstream_rests_and_the_other_is_asked_first() {
    let dead = Stub::silent();
    let alive = Stub::replying(|asked| asked.address());
    let mut rig = Setup::asking(&[&dead, &alive]).hasty(20_000, 20).start();
    rig.wait_until(|rig| {
        let number = alive.asked().len();
        rig.resolve(&query(&format!("n{number}.example. A")));
        rig.upstream(0).state == 1
    });
    assert!(rig.upstream(0).timeouts >= 3, "after several failures, not after one");
    assert_eq!(rig.upstream(1).state, 0);
    rig.finish();
}

#[test]
fn the_deadline_holds_when_every_upstream_is_silent() {
    let stubs = [Stub::silent(), Stub::silent()];
    let mut rig = Setup::asking(&[&stubs[0], &stubs[1]]).hasty(200, 60).start();
    for client in alike(&query("www.example. A"), 5) {
        rig.ask(&client);
    }
    assert!(rig.answers(5).iter().all(|answer| answer.rcode == 2));
    rig.wait_for(|counters| counters.pending == 0);
    let counters = rig.finish();
    assert_eq!((counters.servfail, counters.deadline), (5, 5));
    assert!(stubs.iter().all(|stub| !stub.asked().is_empty()), "both were tried");
}

#[test]
fn a_deadline_does_not_wait_for_a_patient_try() {
    let stub = Stub::silent();
    let mut rig = Setup::asking(&[&stub]).hasty(100, 1_000_000).start();
    assert_eq!(rig.resolve(&query("www.example. A")).rcode, 2);
    assert_eq!(rig.upstream(0).state, 0, "the upstream is not to blame");
    rig.finish();
}

#[test]
fn those_that_left_with_a_query_that_broke_go_elsewhere_with_it() {
    let closed = unused(Ipv4Addr::LOCALHOST.into());
    let alive = Stub::replying(|asked| asked.address());
    let mut setup = Setup::asking(&[&alive]);
    setup.upstreams.insert(0, upstream(closed.into()));
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
fn a_query_that_is_lost_holds_up_none_that_left_with_it() {
    let lossy = Stub::start(Ipv4Addr::LOCALHOST.into(), |asked| match asked.message[13] {
        b'x' => Vec::new(),
        _ => vec![Send::Reply(asked.address())],
    });
    let mut rig = Setup::asking(&[&lossy]).hasty(20_000, 20_000).start();
    rig.ask(&query("x.example. A"));
    for number in 0..50 {
        rig.ask(&query(&format!("n{number}.example. A")));
    }
    assert!(rig.answers(50).iter().all(|answer| answer.records == 1));
    let (counters, left) = rig.stop();
    assert_eq!((counters.answered, counters.servfail, left.len()), (50, 1, 1));
}

#[test]
fn fwd_error_retries_failures_of_one_upstream_lead_to_the_next() {
    for rcode in [1, 2, 4, 5] {
        let failing = Stub::replying(move |asked| asked.rcode(rcode));
        let alive = Stub::replying(|asked| asked.address());
        let mut rig = Setup::asking(&[&failing, &alive]).start();
        assert_eq!(rig.resolve(&query("www.example. A")).records, 1, "rcode {rcode}");
        assert!(rig.upstream(0).rcode_failures > 0);
        rig.finish();
    }
}

#[test]
fn extended_rcodes_are_failures_too() {
    let badvers = Stub::replying(|asked| {
        let mut reply = asked.rcode(0);
        reply[11] = 1;
        reply.extend(b"\0\0\x29\x04\xd0\x01\0\0\0\0\0");
        reply
    });
    let mut rig = Setup::asking(&[&badvers]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).rcode, 2);
    rig.finish();
}

#[test]
fn when_all_refuse_the_client_gets_servfail_and_the_name_is_left_alone() {
    let stubs = [5, 2].map(|rcode| Stub::replying(move |asked| asked.rcode(rcode)));
    let mut rig = Setup::asking(&[&stubs[0], &stubs[1]]).start();
    let clients = alike(&query("www.example. A"), 20);
    assert!(clients.iter().all(|client| rig.resolve(client).rcode == 2));
    // RFC 9520: at most one exchange a second for a name that fails.
    assert_eq!(stubs.each_ref().map(|stub| stub.asked().len()), [1, 1]);
    let counters = rig.finish();
    assert_eq!((counters.leaders, counters.failed_recently), (1, 19));
}

#[test]
fn trap_04_a_failure_is_not_kept_and_nxdomain_keeps_its_rcode() {
    let fails = Arc::new(AtomicBool::new(true));
    let is_failing = Arc::clone(&fails);
    let stub = Stub::replying(move |asked| match is_failing.load(Ordering::Relaxed) {
        true => asked.rcode(2),
        false => asked.nxdomain(300),
    });
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).rcode, 2);
    fails.store(false, Ordering::Relaxed);
    // RFC 9520: the failure is remembered for a second, and never for the TTL of anything.
    rig.pass(SECOND);
    for _ in 0..2 {
        assert_eq!(rig.resolve(&query("www.example. A")).rcode, 3);
    }
    let counters = rig.finish();
    assert_eq!((counters.inserted, counters.answered, counters.not_cached), (1, 1, 0));
    assert_eq!(counters.answered_from_cache_late, 1);
}

#[test]
fn after_an_outage_everything_is_as_before() {
    let up = Arc::new(AtomicBool::new(false));
    let is_up = Arc::clone(&up);
    let stub = Stub::start(Ipv4Addr::LOCALHOST.into(), move |asked| {
        is_up.load(Ordering::Relaxed).then(|| Send::Reply(asked.address())).into_iter().collect()
    });
    let mut rig = Setup::asking(&[&stub]).hasty(200, 40).start();
    for number in 0..100 {
        rig.ask(&query(&format!("n{number}.example. A")));
    }
    assert!(rig.answers(100).iter().all(|answer| answer.rcode == 2));
    assert_eq!(rig.upstream(0).state, 1);
    up.store(true, Ordering::Relaxed);
    // A name that failed is left alone for a moment; then it works like any other.
    rig.wait_until(|rig| rig.resolve(&query("n0.example. A")).rcode == 0);
    assert_eq!(rig.resolve(&query("second.example. A")).rcode, 0);
    assert_eq!(rig.upstream(0).state, 0);
    for number in 100..200 {
        assert_eq!(rig.resolve(&query(&format!("n{number}.example. A"))).rcode, 0);
    }
    rig.finish();
}

#[test]
fn trap_11_a_thousand_misses_to_a_black_hole_fail_by_their_deadline() {
    let hole = Stub::silent();
    let mut setup = Setup { answers: 1024, frames: 2048, ..Setup::asking(&[&hole]) };
    setup.settings.max_waiting_per_client = 1000;
    let mut rig = setup.hasty(300, 100).start();
    for number in 0..1000 {
        rig.ask(&query(&format!("n{number}.example. A")));
    }
    assert!(rig.answers(1000).iter().all(|answer| answer.rcode == 2));
    let counters = rig.finish();
    assert_eq!((counters.leaders, counters.servfail, counters.deadline), (1000, 1000, 1000));
}

#[test]
fn an_upstream_that_says_servfail_to_everything_is_dead_and_the_next_is_asked_first() {
    let stubs = [Stub::replying(|asked| asked.rcode(2)), Stub::replying(|asked| asked.address())];
    let mut rig = Setup::asking(&[&stubs[0], &stubs[1]]).by(Strategy::Failover).start();
    for number in 0..30 {
        assert_eq!(rig.resolve(&query(&format!("n{number}.example. A"))).records, 1);
    }
    rig.wait_until(|rig| rig.upstream(0).dead == 1);
    let asked = stubs[0].asked().len();
    assert_eq!(rig.resolve(&query("later.example. A")).records, 1);
    assert_eq!(stubs[0].asked().len(), asked, "it is asked last");
    assert_eq!(rig.upstream(1).state, 0);
    rig.finish();
}

#[test]
fn a_dead_upstream_that_comes_back_is_found_by_a_probe_and_not_by_clients() {
    let gone = Stub::replying(|asked| asked.address());
    let other = Stub::replying(|asked| asked.address());
    gone.faults.dead.set(true);
    let mut setup = Setup::asking(&[&gone, &other]).hasty(20_000, 20);
    setup.health = HealthSettings { interval_ms: 100, timeout_ms: 50, ..HealthSettings::default() };
    let mut rig = setup.start();
    rig.wait_until(|rig| {
        rig.resolve(&query(&format!("n{}.example. A", other.asked().len())));
        rig.upstream(0).state == 1
    });
    rig.wait_until(|rig| rig.upstream(0).probes > 0);
    assert_eq!(rig.upstream(0).state, 1, "a probe that fails changes nothing");
    gone.faults.dead.set(false);
    // No client asks any more.
    rig.wait_until(|rig| rig.upstream(0).state == 0);
    assert!(gone.asked().iter().any(|asked| asked.message[12..15] == [0, 0, 6]), "the root's SOA");
    assert_eq!(rig.upstream(1).probes, 0, "who is well is left alone");
    rig.finish();
}

#[test]
fn without_upstreams_every_client_gets_servfail() {
    let mut rig = Setup::asking(&[]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).rcode, 2);
    rig.finish();
}
