//! Upstreams that reply after the retry timeout: the first query stays valid, and those that follow are additional.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pmdns_stages::testing::query;

use super::rig::{Setup, alike};
use super::stub::{Send, Stub};

/// Clients that ask the same.
const CLIENTS: u16 = 20;

/// The number of queries for one question that has been under way for so long. The first leaves at once. Each
/// further one leaves after a timeout twice as long as the one before. The first timeout is the default of 800 ms.
fn by_the_clock(elapsed: Duration) -> usize {
    let leaves = (0..8).map(|round| Duration::from_millis(800 * ((1 << round) - 1)));
    leaves.filter(|time| *time <= elapsed).count()
}

#[test]
fn difference_late_replies_are_taken_until_the_deadline_and_retries_go_by_the_clock() {
    for delay_ms in [850, 1500, 2500] {
        let stub = Stub::replying(|asked| asked.address());
        stub.faults.delay_ms.set(delay_ms);
        let mut rig = Setup::asking(&[&stub]).hasty(20_000, 800).start();
        for client in alike(&query("www.example. A"), CLIENTS) {
            rig.ask(&client);
        }
        let answers = rig.answers(CLIENTS.into());
        assert!(answers.iter().all(|answer| answer.records == 1), "{delay_ms}: {answers:?}");
        let queries = stub.asked().len();
        assert_eq!(queries, by_the_clock(Duration::from_millis(delay_ms)), "{delay_ms} ms");
        assert_eq!(rig.upstream(0).late as usize, queries - 1, "{delay_ms} ms");
        let counters = rig.finish();
        assert_eq!((counters.leaders, counters.servfail), (1, 0), "{delay_ms}");
    }
}

#[test]
fn difference_late_replies_count_although_those_to_the_retries_are_lost() {
    let asked_before = AtomicBool::new(false);
    let stub = Stub::start(Ipv4Addr::LOCALHOST.into(), move |asked| {
        let is_first = !asked_before.swap(true, Ordering::Relaxed);
        is_first.then(|| Send::Reply(asked.address())).into_iter().collect()
    });
    stub.faults.delay_ms.set(400);
    let mut rig = Setup::asking(&[&stub]).hasty(20_000, 50).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    assert_eq!(rig.finish().servfail, 0);
}
