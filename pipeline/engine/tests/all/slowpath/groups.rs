//! Which upstreams are asked: zones and strategies.

use pmdns_config::Strategy;
use pmdns_stages::testing::query;

use super::rig::{Rig, Setup};
use super::stub::Stub;

/// Resolves names that nobody has asked for, one after the other.
fn resolve(rig: &mut Rig, prefix: &str, count: usize) {
    for number in 0..count {
        let answer = rig.resolve(&query(&format!("{prefix}{number}.example. A")));
        assert_eq!((answer.rcode, answer.records), (0, 1));
    }
}

#[test]
fn a_zone_is_asked_of_its_group_only() {
    let stubs = [1, 2, 3].map(|count| Stub::replying(move |asked| asked.addresses(count, 300)));
    let setup = Setup::asking(&[&stubs[0], &stubs[1], &stubs[2]]);
    let mut rig = setup.forward("corp.example", 1).forward("lab.corp.example", 2).start();
    for (name, records) in [
        ("www.example. A", 1),
        ("CORP.example. A", 2),
        ("a.Corp.Example. A", 2),
        ("a.lab.corp.example. A", 3),
        ("xcorp.example. A", 1),
    ] {
        assert_eq!(rig.resolve(&query(name)).records, records, "{name}");
    }
    assert_eq!(stubs.each_ref().map(|stub| stub.asked().len()), [2, 2, 1]);
    rig.finish();
}

/// RFC 4035 section 3.1.4.1: the zone above has the DS records, or the proof that there are none.
#[test]
fn ds_of_a_forwarded_zone_is_asked_of_the_group_of_the_zone_above() {
    let stubs = [1, 2, 3].map(|_| Stub::replying(|asked| asked.rcode(0)));
    let setup = Setup::asking(&[&stubs[0], &stubs[1], &stubs[2]]);
    let mut rig = setup.forward("corp.example", 1).forward("lab.corp.example", 2).start();
    for (name, asked) in [
        ("CORP.example. DS", [1, 0, 0]),
        ("lab.corp.example. DS", [1, 1, 0]),
        ("x.lab.corp.example. DS", [1, 1, 1]),
        ("corp.example. DNSKEY", [1, 2, 1]),
        ("example. DS", [2, 2, 1]),
        (". DS", [3, 2, 1]),
    ] {
        for query in [query(name), query(name).edns(1232, true)] {
            rig.resolve(&query);
        }
        let counts = stubs.each_ref().map(|stub| stub.asked().len());
        assert_eq!(counts, asked.map(|count| 2 * count), "{name}");
    }
    rig.finish();
}

#[test]
fn a_zone_whose_group_fails_is_asked_of_nobody_else() {
    let stubs = [Stub::replying(|asked| asked.address()), Stub::replying(|asked| asked.rcode(5))];
    let mut rig = Setup::asking(&[&stubs[0], &stubs[1]]).forward("corp.example", 1).start();
    assert_eq!(rig.resolve(&query("www.corp.example. A")).rcode, 2);
    assert!(stubs[0].asked().is_empty(), "what is internal stays there");
    rig.finish();
}

#[test]
fn trap_13_round_robin_uses_all_upstreams() {
    let stubs = [(); 3].map(|()| Stub::replying(|asked| asked.address()));
    let setup = Setup::asking(&[&stubs[0], &stubs[1], &stubs[2]]);
    let mut rig = setup.by(Strategy::RoundRobin).start();
    resolve(&mut rig, "n", 30);
    assert_eq!(stubs.each_ref().map(|stub| stub.asked().len()), [10; 3]);
    rig.finish();
}

#[test]
fn the_fastest_is_asked_once_it_is_known() {
    let stubs = [(); 2].map(|()| Stub::replying(|asked| asked.address()));
    stubs[0].faults.delay_ms.set(100);
    let mut rig = Setup::asking(&[&stubs[0], &stubs[1]]).by(Strategy::Fastest).start();
    resolve(&mut rig, "n", 20);
    let asked = stubs.each_ref().map(|stub| stub.asked().len());
    assert_eq!(asked, [1, 19], "once to know it");
    rig.finish();
}

#[test]
fn in_parallel_the_first_answer_wins_and_the_other_is_wasted() {
    let stubs = [Stub::silent(), Stub::replying(|asked| asked.nxdomain(60))];
    let mut rig = Setup::asking(&[&stubs[0], &stubs[1]]).by(Strategy::Parallel).start();
    for number in 0..10 {
        assert_eq!(rig.resolve(&query(&format!("n{number}.example. A"))).rcode, 3);
    }
    assert_eq!((rig.upstream(0).queries, rig.upstream(0).timeouts), (10, 0), "nobody waited");
    let counters = rig.finish();
    assert_eq!((counters.wasted, counters.inserted), (10, 10));
}

#[test]
fn in_parallel_a_failure_does_not_win_and_the_next_is_asked() {
    let failing = [2, 5].map(|rcode| Stub::replying(move |asked| asked.rcode(rcode)));
    let good = Stub::replying(|asked| asked.address());
    let setup = Setup::asking(&[&failing[0], &failing[1], &good]);
    let mut rig = setup.by(Strategy::Parallel).start();
    resolve(&mut rig, "n", 5);
    assert_eq!(good.asked().len(), 5);
    assert_eq!(rig.finish().servfail, 0);
}

#[test]
fn a_hedge_spares_clients_the_timeout_of_one_that_died() {
    let stubs = [(); 2].map(|()| Stub::replying(|asked| asked.address()));
    stubs[1].faults.delay_ms.set(50);
    let mut rig = Setup::asking(&[&stubs[0], &stubs[1]]).by(Strategy::Hedged).start();
    // The first becomes the fastest, and it is known how long it usually takes.
    resolve(&mut rig, "before", 30);
    let hedged = rig.counters().hedged;
    stubs[0].faults.dead.set(true);
    resolve(&mut rig, "after", 3);
    assert_eq!((rig.upstream(0).timeouts, rig.upstream(0).late), (0, 0));
    let counters = rig.finish();
    assert_eq!(counters.hedged, hedged + 3);
    assert!(counters.wasted >= 3);
}
