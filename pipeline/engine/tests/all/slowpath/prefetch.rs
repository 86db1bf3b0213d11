//! Popular answers are asked for again before they expire.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pmdns_config::Prefetch;
use pmdns_stages::testing::query;

use super::rig::{SECOND, Setup};
use super::stub::Stub;

/// A rig that refreshes what passes the gates at once.
fn eager(stub: &Stub) -> Setup {
    let prefetch = Prefetch { enabled: true, cache_refresh_threshold: 0.0, ..Prefetch::default() };
    Setup { prefetch, ..Setup::asking(&[stub]) }
}

#[test]
fn trap_17_a_refresh_asks_the_upstream_and_not_our_own_cache() {
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = eager(&stub).start();
    let (rare, popular) = (query("rare.example. A"), query("popular.example. AAAA"));
    rig.resolve(&rare);
    rig.resolve(&popular);
    rig.hit(&rare, 9);
    rig.hit(&popular, 6);
    rig.hit(&popular, 4);
    rig.wait_for(|counters| counters.inserted == 3);
    let asked = stub.asked();
    assert_eq!(asked.len(), 3);
    assert_eq!(asked[1].message[12..], asked[2].message[12..], "the popular one, as before");
    assert_eq!(rig.resolve(&popular).ttl, 300);
    let counters = rig.finish();
    assert_eq!((counters.prefetched, counters.leaders, counters.answered), (1, 2, 2));
}

#[test]
fn a_refreshed_answer_is_planned_again_only_when_it_is_hit_again() {
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = eager(&stub).start();
    let popular = query("popular.example. A");
    rig.resolve(&popular);
    for refreshed in 1..4 {
        rig.hit(&popular, 10);
        rig.wait_for(|counters| counters.inserted == 1 + refreshed);
    }
    assert_eq!(rig.finish().prefetched, 3);
}

#[test]
fn clients_may_join_a_refresh() {
    let stub = Stub::replying(|asked| asked.addresses(1, 1));
    let mut rig = eager(&stub).start();
    let popular = query("popular.example. A");
    rig.resolve(&popular);
    stub.faults.busy.set(true);
    rig.hit(&popular, 10);
    rig.wait_for(|counters| counters.prefetched == 1);
    // Until the answer has expired it is given; then a client waits with the refresh.
    assert_eq!(rig.resolve(&popular).ttl, 1);
    rig.pass(SECOND);
    rig.ask(&popular);
    rig.wait_for(|counters| counters.waiting == 1);
    stub.faults.busy.set(false);
    assert_eq!(rig.answers(1)[0].ttl, 1);
    let counters = rig.finish();
    assert_eq!((counters.leaders, counters.coalesced, counters.answered), (1, 1, 2));
}

#[test]
fn a_refresh_that_fails_leaves_the_answer_alone() {
    let works = Arc::new(AtomicBool::new(true));
    let is_working = Arc::clone(&works);
    let stub = Stub::replying(move |asked| match is_working.load(Ordering::Relaxed) {
        true => asked.address(),
        false => asked.rcode(2),
    });
    let mut rig = eager(&stub).start();
    let popular = query("popular.example. A");
    rig.resolve(&popular);
    works.store(false, Ordering::Relaxed);
    rig.hit(&popular, 10);
    rig.wait_for(|counters| (counters.prefetched, counters.pending) == (1, 0));
    assert_eq!(rig.resolve(&popular).ttl, 300);
    rig.finish();
}
