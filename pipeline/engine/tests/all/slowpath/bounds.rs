//! Limits: what is full drops the newest and counts it. And the end: nobody is left waiting.

use std::time::Duration;

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
fn all_clients_of_a_name_are_answered_though_they_are_more_than_the_ring_has_slots() {
    for (slots, clients) in [(1, 5), (2, 5), (512, 10_000)] {
        let stub = Stub::replying(|asked| asked.address());
        stub.faults.delay_ms.set(2500);
        let mut setup = Setup { answers: slots, ..Setup::asking(&[&stub]) };
        setup.settings.max_waiting_per_client = clients.into();
        let mut rig = setup.start();
        for client in alike(&query("www.example. A"), clients) {
            rig.ask(&client);
        }
        let answers = rig.answers(clients.into());
        assert_eq!(ids(&answers).len(), usize::from(clients));
        assert!(answers.iter().all(|answer| answer.records == 1));
        let counters = rig.finish();
        assert_eq!((counters.leaders, counters.coalesced), (1, u64::from(clients) - 1));
        assert_eq!((counters.answered, counters.shed_ring_full), (clients.into(), 0));
    }
}

#[test]
fn clients_whose_answers_wait_for_room_are_answered_at_the_stop() {
    let stub = Stub::replying(|asked| asked.address());
    stub.faults.delay_ms.set(2500);
    let mut rig = Setup { answers: 512, ..Setup::asking(&[&stub]) }.start();
    let mut clients = alike(&query("www.example. A"), 3000);
    for client in &mut clients {
        client.source[2] = (client.id / 200) as u8;
        rig.ask(client);
    }
    rig.wait_for(|counters| counters.answered > 0);
    rig.say_stop();
    assert_eq!(ids(&rig.answers(3000)).len(), 3000);
    let counters = rig.finish();
    assert_eq!((counters.answered, counters.shed_ring_full), (3000, 0));
}

#[test]
fn a_core_that_takes_no_answers_holds_up_the_stop_until_the_deadlines_of_its_clients() {
    const DEADLINE: Duration = Duration::from_millis(200);
    let stub = Stub::replying(|asked| asked.address());
    let setup = Setup { answers: 64, workers: 2, transmitters: 2, ..Setup::asking(&[&stub]) };
    let mut rig = setup.hasty(200, 5000).start();
    for client in alike(&query("www.example. A"), 100) {
        rig.ask(&client);
    }
    rig.wait_for(|counters| counters.answered == 64);
    stub.faults.delay_ms.set(1000);
    for worker in [0, 1] {
        for client in alike(&query("slow.example. A"), 20) {
            rig.ask_by(worker, &client);
        }
    }
    rig.wait_for(|counters| counters.misses == 140);
    let given = rig.counters();
    assert_eq!((given.answered, given.waiting), (64, 36 + 40));
    let start = rig.driver.now();
    rig.say_stop();
    assert_eq!(rig.answers_by(1, 20)[0].rcode, 2);
    assert!(rig.driver.now() - start < DEADLINE / 10, "another core's clients wait for nothing");
    assert_eq!(rig.counters().waiting, 36 + 20);
    rig.wait_until(|rig| rig.has_ended());
    assert!(rig.driver.now() - start <= DEADLINE + DEADLINE / 10);
    let (counters, answers) = rig.stop();
    assert_eq!((counters.shed_ring_full, answers.len()), (120 - 64, 64), "what the ring held");
}

#[test]
fn rules_hold_when_no_answer_waits_that_was_made_under_those_before() {
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = Setup { answers: 64, ..Setup::asking(&[&stub]) }.hasty(200, 5000).start();
    for client in alike(&query("www.example. A"), 100) {
        rig.ask(&client);
    }
    rig.wait_for(|counters| counters.answered == 64);
    assert_eq!(rig.counters().waiting, 36);
    rig.deny_all_addresses("late");
    assert_eq!(rig.counters().waiting, 0, "the rules are lent until then");
    assert_eq!(rig.stop().1.len(), 64);
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
