//! Limits: what is full drops the newest and counts it. And the end: nobody is left waiting.

use pmdns_stages::testing::query;

use super::BY_PORT;
use super::both::all_are_under_way;
use super::rig::{Setup, alike, ids};
use super::stub::Stub;

#[test]
fn fwd_droptoomany_questions_beyond_the_limit_are_shed() {
    let stub = Stub::silent();
    let mut setup = Setup::asking(&[&stub]);
    setup.settings.max_pending = 2;
    let mut rig = setup.start();
    for name in ["a", "b", "c", "a"] {
        rig.ask(&query(&format!("{name}.example. A")));
    }
    rig.wait_for(|counters| counters.misses == 4 && counters.waiting == 3);
    let (counters, answers) = rig.stop();
    assert_eq!((counters.shed_pending, counters.leaders, counters.coalesced), (1, 2, 1));
    assert_eq!((counters.told_busy, counters.servfail, answers.len()), (1, 4, 4));
}

#[test]
fn clients_beyond_the_limit_are_shed() {
    let stub = Stub::silent();
    let mut setup = Setup::asking(&[&stub]);
    setup.settings.max_waiting = 3;
    let mut rig = setup.start();
    for client in alike(&query("www.example. A"), 5) {
        rig.ask(&client);
    }
    rig.wait_for(|counters| counters.misses == 5);
    let (counters, answers) = rig.stop();
    assert_eq!((counters.shed_waiting, counters.told_busy, answers.len()), (2, 2, 5));
}

#[test]
fn one_client_cannot_take_every_place() {
    let stub = Stub::silent();
    let mut setup = Setup::asking(&[&stub]);
    setup.settings.max_waiting_per_client = 2;
    let mut rig = setup.start();
    let mut greedy = alike(&query("www.example. A"), 4);
    for client in &mut greedy {
        client.source_port += client.id;
        rig.ask(client);
    }
    let mut modest = query("www.example. A");
    modest.source[3] = 77;
    modest.id = 9;
    rig.ask(&modest);
    rig.wait_for(|counters| counters.misses == 5);
    let (counters, answers) = rig.stop();
    assert_eq!((counters.shed_client, counters.told_busy), (2, 2));
    assert_eq!(ids(&answers), [1, 2, 3, 4, 9].into());
    assert_eq!(ids(&answers[..2]), [3, 4].into(), "who is told at once");
}

#[test]
fn answers_without_a_frame_are_shed() {
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = Setup { frames: 1, ..Setup::asking(&[&stub]) }.start();
    let held = rig.pool.take();
    rig.ask(&query("www.example. A"));
    if BY_PORT {
        rig.wait_until(|rig| rig.upstream(0).queries == 1);
        drop(held);
        assert_eq!(rig.answers(1)[0].records, 1, "its query had no frame, and was sent again");
    } else {
        rig.wait_for(|counters| counters.shed_no_frame == 1);
        drop(held);
        assert_eq!(rig.resolve(&query("www.example. A")).records, 1, "from the cache");
    }
    rig.finish();
}

#[test]
fn answers_beyond_the_ring_are_shed() {
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = Setup { answers: 2, ..Setup::asking(&[&stub]) }.start();
    for client in alike(&query("www.example. A"), 5) {
        rig.ask(&client);
    }
    rig.wait_for(|counters| counters.shed_ring_full == 3);
    assert_eq!(rig.answers(2).len(), 2);
    rig.finish();
}

#[test]
fn misses_that_come_during_the_stop_are_answered_too() {
    let stub = Stub::silent();
    let mut rig = Setup::asking(&[&stub]).start();
    rig.say_stop();
    for client in alike(&query("www.example. A"), 40) {
        rig.ask(&client);
    }
    let (counters, answers) = rig.stop();
    assert_eq!((counters.misses, answers.len()), (40, 40));
}

#[test]
fn a_thousand_names_are_resolved_side_by_side() {
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = Setup::asking(&[&stub]).hasty(20_000, 500).start();
    let mut answered = 0;
    for round in 0..10 {
        for number in 0..100 {
            rig.ask(&query(&format!("n{number}.r{round}.example. A")));
        }
        answered += rig.answers(100).iter().filter(|answer| answer.rcode == 0).count();
    }
    assert_eq!(answered, 1000);
    let counters = rig.finish();
    assert_eq!((counters.leaders, counters.inserted), (1000, 1000));
}

#[test]
fn an_upstream_may_have_as_many_queries_outstanding_as_there_are_ids() {
    // One prefix may have most of half of the UDP ports of both sources.
    all_are_under_way(if BY_PORT { 57_000 } else { 1 << 16 });
}
