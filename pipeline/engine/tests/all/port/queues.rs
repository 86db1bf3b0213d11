//! Several cores, several threads: queries leave by one queue, and what comes for them may arrive by any. Cores, rings and the
//! rings' plan are the engine's own.

use super::wired::{TURNS, Wired};

/// Queries of each test.
const QUERIES: usize = 1_000;
/// Two cores, and behind them two threads of the slow path, or none.
const APART: &str = "[[placement]]\nstages = \"all\"\ncores = [1, 2]\n[slowpath]\nthreads = 2\n";
const TOGETHER: &str = "[[placement]]\ncores = [1, 2]\nresolver = true\n";

/// Asks over both queues in turn. Replies come by the other queue than their queries left by, or by the one that their UDP ports
/// choose.
fn ask_all(placement: &str, crosses: bool) -> Wired {
    let mut wired = Wired::new(placement);
    wired.line.link.as_mut().unwrap().crosses = crosses;
    for number in 0..QUERIES {
        wired.ask(number % 2);
        wired.turn(0..wired.line.threads(), TURNS);
    }
    wired.settle();
    wired
}

/// What a core has counted of queries and of what came for them.
fn by_core(wired: &Wired) -> Vec<[u64; 3]> {
    let cores = wired.line.rig.workers.iter().map(|worker| worker.counters().tally);
    cores.map(|tally| [tally.queries, tally.replies, tally.replies_lost]).collect()
}

#[test]
fn replies_that_arrive_on_another_core_reach_the_thread_that_asked() {
    for placement in [APART, TOGETHER] {
        let wired = ask_all(placement, true);
        let misses: Vec<u64> = wired.line.counters().map(|thread| thread.misses).collect();
        assert!(misses.iter().all(|misses| *misses > QUERIES as u64 / 4), "{misses:?}");
        // Queries of each thread leave by a core of its own. The first thread has asked for the next hop as well.
        let [first, second] = by_core(&wired).try_into().unwrap();
        assert_eq!(first, [misses[0] + 1, misses[1], 0], "{placement}");
        assert_eq!(second, [misses[1], misses[0] + 1, 0], "{placement}");
        wired.finish();
    }
}

#[test]
fn replies_are_spread_over_all_queues_whoever_asked() {
    for placement in [APART, TOGETHER] {
        let wired = ask_all(placement, false);
        let cores = by_core(&wired);
        assert_eq!(cores.iter().map(|[_, replies, _]| replies).sum::<u64>(), QUERIES as u64 + 1);
        assert!(cores.iter().all(|[_, replies, lost]| (*replies > 400, *lost) == (true, 0)));
        wired.finish();
    }
}
