//! What cores share is not written for every packet: the argument for scaling, counted rather than timed.
//!
//! A fused worker shares three kinds of memory with others. The cache: `invariant_5_a_hit_writes_nothing_shared` in
//! `stages/src/cache/tests.rs`. Its published counters, and the rings to and from the slow path: here.

use std::time::Duration;

use pmdns_engine::counters::Counters;
use pmdns_engine::testing::{Rig, config};
use pmdns_nics::Burst;
use pmdns_stages::testing::query;

/// Hits of one test.
const HITS: usize = 50_000;
/// How often counters are published (`pipeline/engine/src/worker.rs`).
const HOUSEKEEPING: Duration = Duration::from_millis(10);

#[test]
fn trap_28_counters_are_published_by_time_not_by_packet() {
    let mut rig = Rig::new(&config("[[placement]]\ncores = [1, 2]\n"));
    rig.learn(&query("hit.example. A"), &[(0, 1, 86_400, vec![192, 0, 2, 1])]);
    rig.settle();
    let clock = rig.gauges.clock;
    let published = |rig: &Rig| -> Vec<Counters> {
        rig.gauges.workers.iter().map(|worker| worker.read()).collect()
    };
    let (start, mut last, mut changes) = (clock.now(), published(&rig), 0);
    let frame = query("hit.example. A").frame_bytes();
    for number in 0..HITS {
        rig.offer(number % 2, &mut Burst::from_iter([rig.frame(&frame)]));
        // One turn for one packet: the most turns that packets can cause.
        rig.workers[number % 2].turn();
        let now = published(&rig);
        changes += usize::from(now != last);
        last = now;
        if number % 64 == 0 {
            rig.sent();
        }
    }
    let elapsed = clock.duration_of(clock.now() - start);
    let due = 2 * (1 + elapsed.as_nanos() / HOUSEKEEPING.as_nanos()) as usize;
    assert!(changes <= due, "published {changes} times where {due} were due");
    let hits: u64 = rig.workers.iter().map(|worker| worker.counters().tally.busy_turns).sum();
    assert_eq!(hits, HITS as u64, "each was a turn with work");
}

#[test]
fn trap_28_hits_touch_no_ring_of_the_slow_path() {
    let mut rig = Rig::new(&config(""));
    rig.learn(&query("hit.example. A"), &[(0, 1, 86_400, vec![192, 0, 2, 1])]);
    let frame = query("hit.example. A").frame_bytes();
    for _ in 0..1000 {
        rig.offer(0, &mut Burst::from_iter([rig.frame(&frame)]));
        rig.settle();
        assert_eq!(rig.sent().len(), 1);
    }
    // What a ring has taken, refused or seen waiting is written by those who use it.
    rig.workers[0].counters();
    for (ends, gauge) in rig.gauges.rings.iter() {
        let occupancy = gauge.occupancy();
        assert_eq!((gauge.refused(), occupancy.pops, occupancy.taken), (0, 0, 0), "{ends:?}");
    }
}
