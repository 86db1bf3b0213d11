//! Invariant 2: after start, a data core allocates nothing. An allocator that counts watches a worker.

mod allocator;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use allocator::{calls, check_that_it_counts};
use pmdns_engine::observe::{Departure, Observer, Sent};
use pmdns_engine::testing::{Rig, config};
use pmdns_engine::worker::Turn;
use pmdns_nics::Burst;
use pmdns_stages::testing::{QueryFrame, query};

/// Long enough for the next housekeeping of a worker.
const UNTIL_HOUSEKEEPING: Duration = Duration::from_millis(15);

/// Sees some packets, and has then ended.
struct Watcher {
    seen: Arc<AtomicUsize>,
}

impl Observer for Watcher {
    fn left(&mut self, _departure: &Departure<'_>) {
        self.seen.fetch_add(1, Ordering::Relaxed);
    }

    fn sent(&mut self, _sent: &Sent<'_>) {}

    fn watches_stations(&self) -> bool {
        true
    }

    fn has_ended(&self) -> bool {
        self.seen.load(Ordering::Relaxed) > 100
    }
}

#[test]
fn invariant_2_a_turning_worker_does_not_allocate() {
    let policy = "[ratelimit]\nqueries_per_second = 1000000\nburst = 1000000\n\
        [cache]\neviction = \"lru\"\n[block]\nnames = [\"blocked.example\"]\n\
        [[local]]\nname = \"local.example\"\ntype = \"A\"\ndata = \"192.0.2.1\"\n";
    let mut rig = Rig::new(&config(policy));
    rig.learn(&query("hit.example. A"), &[(0, 1, 86_400, vec![192, 0, 2, 1])]);
    let mut malformed = query("hit.example. A").frame_bytes();
    malformed.truncate(45);
    let kinds = [
        query("hit.example. A").frame_bytes(),
        query("hit.example. A").edns(1232, false).over_ipv6().frame_bytes(),
        query("miss.example. A").frame_bytes(),
        query("local.example. A").frame_bytes(),
        query("x.blocked.example. A").frame_bytes(),
        QueryFrame { qclass: 3, ..query("a. A") }.frame_bytes(),
        malformed,
    ];
    let mut frames = Burst::new();
    for index in 0..2048 {
        frames.push(rig.frame(&kinds[index % kinds.len()]));
        if frames.is_full() {
            rig.offer(0, &mut frames);
        }
    }
    // New rules are lent to it, and it gives back those it had, which are freed elsewhere.
    let fresh = rig.rules.builder().make(&config(policy)).expect("the same rules again");
    rig.rules.lend(fresh);
    rig.slow_path[0].inlets.rules.poll(|_| {});
    // An observer too is lent to it, and given back.
    let seen = Arc::<AtomicUsize>::default();
    rig.observers.lend(|_| Box::new(Watcher { seen: Arc::clone(&seen) })).expect("there is room");
    let before = calls();
    for _ in 0..3 {
        std::thread::sleep(UNTIL_HOUSEKEEPING);
        rig.workers[0].turn();
    }
    while rig.workers[0].turn() == Turn::Busy {}
    assert_eq!(calls(), before);
    assert!(seen.load(Ordering::Relaxed) > 100);
    assert_eq!(rig.observers.collect(), 0, "the observer was given back");
    // The exchange ends after a turn for each stretch of the line, of which it has one. Lending allocates, the turn does not.
    assert!(rig.rules.collect(), "one more turn is lent");
    let before = calls();
    std::thread::sleep(UNTIL_HOUSEKEEPING);
    rig.workers[0].turn();
    assert_eq!(calls(), before);
    assert!(!rig.rules.collect(), "the rules were exchanged");
    assert!(rig.sent().len() > 1000, "the turns did real work");
    check_that_it_counts();
}
