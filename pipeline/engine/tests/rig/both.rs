//! What holds whichever driver the slow path has: `slowpath/` and `kernel/` both run these tests.

use std::net::Ipv4Addr;

use pmdns_stages::testing::query;

use super::rig::{Setup, upstream};
use super::stub::{Stub, unused};

/// The kernel, or its model, hears by ICMP that nobody listens there, and the socket says so.
#[test]
fn an_upstream_nobody_listens_at_is_passed_over() {
    let closed = unused(Ipv4Addr::LOCALHOST.into());
    let alive = Stub::replying(|asked| asked.address());
    let mut setup = Setup::asking(&[&alive]);
    setup.upstreams.insert(0, upstream(closed.into()));
    let mut rig = setup.start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    assert_eq!((rig.upstream(0).errors, rig.upstream(0).timeouts), (1, 0));
    rig.finish();
}

#[test]
fn stopping_answers_everybody_who_waits_at_once() {
    let stub = Stub::silent();
    let mut rig = Setup::asking(&[&stub]).start();
    for number in 0..100 {
        rig.ask(&query(&format!("n{}.example. A", number % 10)));
    }
    rig.wait_for(|counters| counters.waiting == 100);
    let (counters, answers) = rig.stop();
    assert_eq!((counters.servfail, counters.deadline), (100, 0));
    assert!(answers.len() == 100 && answers.iter().all(|answer| answer.rcode == 2));
}

/// Asks so many questions of an upstream that keeps silent: all of them are under way at once, and none is shed.
pub(crate) fn all_are_under_way(queries: usize) {
    let stub = Stub::silent();
    let mut setup = Setup::asking(&[&stub]).hasty(60_000, 60_000);
    setup.settings.max_pending = queries;
    setup.settings.max_waiting = queries;
    setup.settings.max_waiting_per_client = queries;
    let mut rig = setup.start();
    for number in 0..queries {
        rig.ask(&query(&format!("n{number}.example. A")));
    }
    rig.wait_until(|rig| rig.upstream(0).queries == queries as u64);
    let (counters, upstream) = (rig.counters(), rig.upstream(0));
    assert_eq!((counters.pending, counters.shed_pending), (queries as u64, 0));
    assert_eq!((upstream.timeouts, upstream.errors, counters.socket_errors), (0, 0, 0));
    rig.stop();
}
