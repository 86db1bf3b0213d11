//! Upstreams change while questions are under way.

use std::time::Duration;

use pmdns_config::{Forward, Upstream};
use pmdns_stages::testing::query;

use super::rig::{Rig, SECOND, Setup, upstream};
use super::stub::Stub;

/// Shorter than any retry timeout.
const MOMENT: Duration = Duration::from_millis(20);

/// The first of two upstreams leaves.
fn leave_first(rig: &mut Rig) {
    rig.reload(|config| drop(config.upstreams.remove(0)));
}

#[test]
fn a_question_under_way_to_an_upstream_that_leaves_is_asked_of_another_at_once() {
    let stubs = [Stub::silent(), Stub::replying(|asked| asked.address())];
    let mut rig = Setup::asking(&[&stubs[0], &stubs[1]]).start();
    let queries: Vec<_> = (0..40).map(|number| query(&format!("n{number}.example. A"))).collect();
    queries.iter().for_each(|query| rig.ask(query));
    rig.pass(MOMENT);
    assert_eq!((rig.upstream(0).queries, rig.upstream(1).queries), (40, 0));
    leave_first(&mut rig);
    let start = rig.driver.now();
    assert!(rig.answers(40).iter().all(|answer| (answer.rcode, answer.records) == (0, 1)));
    assert!(rig.driver.now() - start < Duration::from_millis(100), "no timeout has to pass");
    let counters = rig.finish();
    assert_eq!((counters.answered, counters.servfail), (40, 0));
}

/// The first of two upstreams is drained, or is asked again.
fn drain_first(rig: &mut Rig, is_drained: bool) {
    rig.reload(|config| config.upstreams[0].is_drained = is_drained);
}

#[test]
fn a_drained_upstream_gets_no_new_question_and_finishes_those_under_way() {
    let stubs = [1, 2].map(|count| Stub::replying(move |asked| asked.addresses(count, 300)));
    stubs[0].faults.delay_ms.set(400);
    let mut rig = Setup::asking(&[&stubs[0], &stubs[1]]).start();
    let queries: Vec<_> = (0..40).map(|number| query(&format!("n{number}.example. A"))).collect();
    queries.iter().for_each(|query| rig.ask(query));
    rig.pass(MOMENT);
    drain_first(&mut rig, true);
    assert_eq!(rig.resolve(&query("new.example. A")).records, 2, "the other one is asked");
    assert!(rig.answers(40).iter().all(|answer| (answer.rcode, answer.records) == (0, 1)));
    assert_eq!((rig.upstream(0).queries, rig.upstream(1).queries), (40, 1), "nothing was cut");
    drain_first(&mut rig, false);
    rig.reload(|config| config.upstreams[1].is_drained = true);
    assert_eq!(rig.resolve(&query("again.example. A")).records, 1, "it is asked again");
    let counters = rig.finish();
    assert_eq!((counters.answered, counters.servfail), (42, 0));
}

#[test]
fn a_question_that_a_drained_upstream_leaves_unanswered_is_asked_of_another() {
    let stubs = [Stub::silent(), Stub::replying(|asked| asked.address())];
    let mut rig = Setup::asking(&[&stubs[0], &stubs[1]]).start();
    rig.ask(&query("www.example. A"));
    rig.pass(MOMENT);
    drain_first(&mut rig, true);
    assert_eq!(rig.answers(1)[0].rcode, 0);
    assert_eq!((rig.upstream(0).queries, rig.upstream(1).queries), (1, 1));
    rig.finish();
}

#[test]
fn a_drained_upstream_that_rests_is_probed() {
    let stubs = [Stub::silent(), Stub::replying(|asked| asked.address())];
    let mut rig = Setup::asking(&[&stubs[0], &stubs[1]]).start();
    for number in 0..4 {
        rig.resolve(&query(&format!("n{number}.example. A")));
        rig.pass(SECOND * 6);
    }
    assert_eq!(rig.upstream(0).state, 1, "it rests");
    drain_first(&mut rig, true);
    let before = stubs[0].asked().len();
    rig.pass(SECOND * 60);
    assert!(stubs[0].asked().len() > before, "probes go on");
    rig.finish();
}

#[test]
fn who_stays_keeps_health_and_who_comes_back_has_none() {
    let stubs = [Stub::silent(), Stub::replying(|asked| asked.address())];
    let mut rig = Setup::asking(&[&stubs[0], &stubs[1]]).start();
    for number in 0..4 {
        rig.resolve(&query(&format!("n{number}.example. A")));
        rig.pass(SECOND * 6);
    }
    assert_eq!(rig.upstream(0).state, 1, "it rests");
    let asked = rig.upstream(0).queries;
    rig.reload(|config| config.upstreams[1].timeout_ms = 400);
    rig.resolve(&query("stays.example. A"));
    assert_eq!(rig.upstream(0).queries, asked, "it rests still");
    let mut first = None;
    rig.reload(|config| first = Some(config.upstreams.remove(0)));
    rig.resolve(&query("left.example. A"));
    rig.reload(|config| config.upstreams.insert(0, first.expect("it left")));
    rig.resolve(&query("back.example. A"));
    assert!(rig.upstream(0).queries > asked, "it is asked like any other");
    rig.finish();
}

#[test]
fn forward_zones_and_ttl_bounds_follow() {
    let stubs = [1, 2].map(|count| Stub::replying(move |asked| asked.addresses(count, 300)));
    let mut rig = Setup::asking(&[&stubs[0]]).start();
    assert_eq!(rig.resolve(&query("a.corp.example. A")).records, 1);
    rig.reload(|config| {
        let other = upstream(stubs[1].address.into());
        config.upstreams.push(Upstream { group: "corp".into(), ..other });
        let (zone, group) = ("corp.example".into(), "corp".into());
        config.forwards.push(Forward { zone, group, views: Vec::new() });
        config.cache.max_ttl = 60;
    });
    let answer = rig.resolve(&query("b.corp.example. A"));
    assert_eq!((answer.records, answer.ttl), (2, 60));
    assert_eq!(rig.resolve(&query("b.example. A")).records, 1);
    rig.finish();
}

#[test]
fn the_last_try_of_a_question_may_be_the_one_that_is_cut() {
    let stubs = [Stub::silent(), Stub::replying(|asked| asked.address())];
    let mut rig = Setup::asking(&[&stubs[0]]).start();
    rig.ask(&query("www.example. A"));
    rig.pass(SECOND * 2);
    rig.reload(|config| config.upstreams = vec![upstream(stubs[1].address.into())]);
    assert_eq!(rig.answers(1)[0].rcode, 0, "all its upstreams were replaced");
    rig.finish();
}

/// A name is blocked while a client waits for an upstream, or while its miss is on the way.
#[test]
fn a_client_that_waits_is_answered_by_the_rules_that_have_come() {
    const NXDOMAIN: u16 = 3;
    let stub = Stub::replying(|asked| asked.address());
    stub.faults.delay_ms.set(400);
    let mut rig = Setup::asking(&[&stub]).start();
    let [blocked, other] = ["blocked.example. A", "other.example. A"].map(query);
    for query in [&blocked, &blocked, &other] {
        rig.ask(query);
    }
    rig.pass(MOMENT);
    let start = rig.driver.now();
    rig.judge_by("waits", "blocked.example 60 CNAME .\n");
    let told = rig.answers(2);
    assert!(told.iter().all(|answer| answer.rcode == NXDOMAIN), "{told:?}");
    assert!(rig.driver.now() - start < Duration::from_millis(200), "no upstream is waited for");
    assert_eq!(rig.resolve(&blocked).rcode, NXDOMAIN, "a miss that old rules let pass");
    let last = rig.answers(1).remove(0);
    assert_eq!((last.rcode, last.records), (0, 1), "the other one goes on");
    rig.pass(SECOND);
    let counters = rig.finish();
    assert_eq!((counters.answered, counters.servfail, counters.waiting), (4, 0, 0));
}

/// What comes for the cache only is judged like everything else.
#[test]
fn an_answer_to_a_question_that_nobody_waits_for_any_more_is_not_given_by_the_cache() {
    const NXDOMAIN: u16 = 3;
    let stub = Stub::replying(|asked| asked.address());
    stub.faults.delay_ms.set(100);
    let mut rig = Setup::asking(&[&stub]).start();
    let blocked = query("blocked.example. A");
    rig.ask(&blocked);
    rig.pass(MOMENT);
    rig.judge_by("late", "blocked.example 60 CNAME .\n");
    assert_eq!(rig.answers(1).remove(0).rcode, NXDOMAIN);
    rig.pass(SECOND);
    assert_eq!(
        rig.resolve(&blocked).rcode,
        NXDOMAIN,
        "the late reply is in the cache, and is not given"
    );
    rig.judge_by("late", "elsewhere 60 CNAME .\n");
    assert_eq!(rig.resolve(&blocked).records, 1, "until rules let it pass");
    assert_eq!(stub.asked().len(), 1);
    rig.finish();
}
