//! Answers that upstreams give.

use std::net::{IpAddr, Ipv6Addr};

use pmdns_stages::testing::query;

use super::rig::{Answer, Setup, alike, ids};
use super::stub::{Send, Stub};

#[test]
fn trap_12_fifty_clients_cost_one_query() {
    let stub = Stub::replying(|asked| asked.address());
    stub.faults.busy.set(true);
    let mut rig = Setup::asking(&[&stub]).start();
    for client in alike(&query("www.example. A"), 50) {
        rig.ask(&client);
    }
    rig.wait_for(|counters| counters.waiting == 50);
    stub.faults.busy.set(false);
    let answers = rig.answers(50);
    assert!(answers.iter().all(|answer| answer.rcode == 0 && answer.records == 1));
    assert_eq!(ids(&answers), (1..=50).collect());
    assert_eq!(stub.asked().len(), 1);
    let counters = rig.finish();
    assert_eq!((counters.leaders, counters.coalesced, counters.answered), (1, 49, 50));
    assert_eq!((counters.inserted, counters.servfail), (1, 0));
}

/// The thread goes over to new rules, and what it learns from then on is judged by them.
#[test]
fn an_address_that_a_policy_zone_is_about_is_not_passed_on() {
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("before.example. A")).records, 1);
    rig.deny_all_addresses("answers");
    let answer = rig.resolve(&query("after.example. A"));
    assert_eq!((answer.rcode, answer.records), (3, 0));
    // And so for who is answered from the cache.
    let answer = rig.resolve(&query("after.example. A"));
    assert_eq!((answer.rcode, answer.records), (3, 0));
    assert_eq!(stub.asked().len(), 2);
    assert_eq!(rig.finish().inserted, 2);
}

#[test]
fn trap_12_a_leader_that_fails_fails_all_who_wait() {
    let stub = Stub::replying(|asked| asked.rcode(2));
    stub.faults.busy.set(true);
    let mut rig = Setup::asking(&[&stub]).start();
    for client in alike(&query("www.example. A"), 50) {
        rig.ask(&client);
    }
    rig.wait_for(|counters| counters.waiting == 50);
    stub.faults.busy.set(false);
    let answers = rig.answers(50);
    assert!(answers.iter().all(|answer| answer.rcode == 2));
    assert_eq!(ids(&answers), (1..=50).collect());
    let counters = rig.finish();
    assert_eq!((counters.servfail, counters.deadline, counters.inserted), (50, 0, 0));
}

#[test]
fn a_miss_that_comes_after_the_answer_is_answered_from_the_cache() {
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = Setup::asking(&[&stub]).start();
    for client in alike(&query("www.example. A"), 3) {
        assert_eq!(rig.resolve(&client).rcode, 0);
    }
    assert_eq!(stub.asked().len(), 1);
    assert_eq!(rig.finish().answered_from_cache_late, 2);
}

#[test]
fn what_does_not_exist_is_remembered_for_as_long_as_the_soa_says() {
    let stub = Stub::replying(|asked| asked.nxdomain(60));
    let mut rig = Setup::asking(&[&stub]).start();
    for client in alike(&query("nowhere.example. A"), 2) {
        assert_eq!(rig.resolve(&client).rcode, 3);
    }
    assert_eq!(stub.asked().len(), 1);
    let counters = rig.finish();
    assert_eq!((counters.inserted, counters.answered_from_cache_late), (1, 1));
}

#[test]
fn an_answer_with_ttl_zero_is_for_those_who_wait_only() {
    let stub = Stub::replying(|asked| asked.addresses(1, 0));
    let mut rig = Setup::asking(&[&stub]).start();
    for client in alike(&query("www.example. A"), 2) {
        assert_eq!(rig.resolve(&client).records, 1);
    }
    assert_eq!(stub.asked().len(), 2);
    let counters = rig.finish();
    assert_eq!((counters.inserted, counters.not_cached), (0, 2));
}

#[test]
fn trap_05_fwd_tcp_truncated_replies_are_fetched_over_tcp() {
    let stub = Stub::replying(|asked| match asked.over_tcp {
        false => asked.truncated(),
        true => asked.addresses(20, 300),
    });
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 20);
    let upstream = rig.upstream(0);
    assert_eq!((upstream.queries, upstream.tcp, upstream.replies), (1, 1, 2));
    rig.finish();
}

#[test]
fn trap_05_what_stays_truncated_is_not_cached() {
    let stub = Stub::replying(|asked| match asked.over_tcp {
        false => [asked.truncated(), asked.address()[asked.truncated().len()..].to_vec()].concat(),
        true => asked.rcode(2),
    });
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).rcode, 2);
    let counters = rig.finish();
    assert_eq!((counters.inserted, counters.answered), (0, 0));
}

#[test]
fn what_no_client_can_take_over_udp_is_remembered_as_truncated() {
    let stub = Stub::replying(|asked| match asked.over_tcp {
        false => asked.truncated(),
        true => asked.addresses(500, 300),
    });
    let mut rig = Setup::asking(&[&stub]).start();
    for client in alike(&query("www.example. A").edns(4096, false), 2) {
        let expected = Answer { id: client.id, rcode: 0, truncated: true, records: 0, ttl: 0 };
        assert_eq!(rig.resolve(&client), expected);
    }
    assert_eq!(rig.finish().inserted, 1);
}

#[test]
fn an_upstream_without_edns_is_asked_without() {
    let stub = Stub::replying(|asked| match asked.has_edns() {
        // All that servers from before EDNS may say.
        true => {
            asked.rcode(1)[..12].iter().enumerate().map(|(at, b)| b * u8::from(at != 5)).collect()
        }
        false => asked.address(),
    });
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    let over_tcp: Vec<bool> = stub.asked().iter().map(|asked| asked.over_tcp).collect();
    assert_eq!(over_tcp, [false, true, true], "a FORMERR without question is easily forged");
    rig.finish();
}

#[test]
fn answers_go_to_the_worker_that_transmits_for_the_asker() {
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = Setup { workers: 3, ..Setup::asking(&[&stub]) }.start();
    for (worker, client) in alike(&query("www.example. A"), 3).iter().enumerate() {
        rig.ask_by(worker, client);
    }
    assert_eq!(ids(&rig.answers(3)), [1, 2, 3].into());
    rig.finish();
}

#[test]
fn clients_over_ipv6_are_answered() {
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("www.example. A").over_ipv6()).records, 1);
    rig.finish();
}

#[test]
fn upstreams_over_ipv6_are_asked() {
    let address: IpAddr = Ipv6Addr::LOCALHOST.into();
    let stub = Stub::start(address, |asked| {
        vec![Send::Reply(if asked.over_tcp { asked.address() } else { asked.truncated() })]
    });
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    assert_eq!(stub.asked().len(), 2);
    rig.finish();
}
