//! A miss whose upstream is asked over the port takes no memory of its own: only tables grow. An allocator that counts
//! watches the slow path.
#![cfg(debug_assertions)]

#[path = "../../pipeline/engine/tests/allocator/mod.rs"]
mod allocator;

use allocator::{calls, check_that_it_counts};
use pmdns_bench::misses::Storm;
use pmdns_engine::slowpath::SlowPath;

/// Misses, how many of them give every table its size, and how many are under way at once.
const MISSES: usize = 4000;
const FIRST: usize = 2000;
const IN_FLIGHT: usize = 200;
/// One allocation for so many misses, at most: tables still grow now and then.
const MISSES_AN_ALLOCATION: usize = 200;
/// Turns for a miss, at most.
const MOST_TURNS: usize = 10;

#[test]
fn a_miss_over_a_port_takes_no_memory_of_its_own() {
    let mut storm = Storm::by_port_timeless(MISSES, IN_FLIGHT);
    let parts = storm.rig.slow_path.remove(0);
    let mut slow_path = SlowPath::new(parts).expect("the slow path can start");
    let mut allocations = 0;
    for _ in 0..MISSES * MOST_TURNS {
        if storm.is_over() {
            break;
        }
        storm.turn();
        let [before, _] = calls();
        slow_path.turn();
        if storm.answered >= FIRST {
            allocations += calls()[0] - before;
        }
    }
    assert!(storm.is_over(), "every miss is answered");
    let most = ((MISSES - FIRST) / MISSES_AN_ALLOCATION) as u64;
    assert!(allocations <= most, "{allocations} of {} misses", MISSES - FIRST);
    check_that_it_counts();
}
