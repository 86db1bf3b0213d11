//! What becomes of ports while the line works: links that come up, devices that are taken out of the machine.

use pmdns_counters::Totals;
use pmdns_engine::testing::{Rig, config};
use pmdns_engine::worker::Worker;
use pmdns_nics::{Burst, Queues, memory};
use pmdns_stages::testing::query;

const FUSED: &str = "";
const CUT: &str = "[[placement]]\nstages = \"parse..acl\"\ncores = [1]\n\
    [[placement]]\nstages = \"ratelimit..encode\"\ncores = [2]\n";
const SHARDS: &str = "[[placement]]\ncores = [1, 2]\n";

fn totals(rig: &Rig) -> Totals {
    let counters: Vec<_> = rig.workers.iter().map(|worker| worker.counters()).collect();
    pmdns_engine::counters::totals(&counters)
}

#[test]
fn bound_b2_one_core_announces_when_a_link_comes_up() {
    for placement in [FUSED, CUT, SHARDS] {
        let mut rig = Rig::new(&config(placement));
        rig.news[0].link_came_up();
        rig.settle();
        let frames = rig.sent();
        // An address of each family and a report of groups, in each of three VLANs.
        assert_eq!(frames.len(), 9, "{placement}");
        let kind = |at: usize, tags: usize| &frames[at].bytes()[12 + tags..14 + tags];
        assert_eq!(
            (kind(0, 0), kind(1, 0), kind(2, 0)),
            (&[8, 6][..], &[0x86, 0xdd][..], &[0x86, 0xdd][..])
        );
        assert_eq!((kind(3, 4), kind(6, 8)), (&[8, 6][..], &[8, 6][..]));
        drop(frames);
        let totals = totals(&rig);
        assert!(totals.balance(), "{totals:?}");
        assert_eq!((totals.made, totals.transmitted, rig.pool.in_use()), (9, 9, 0));
        let announced = rig.workers.iter().map(|worker| worker.counters().tally.announced);
        assert_eq!(announced.sum::<u64>(), 9);
    }
}

#[test]
fn nothing_is_announced_unless_somebody_says_that_a_link_came_up() {
    let mut rig = Rig::new(&config(FUSED));
    rig.settle();
    assert_eq!(rig.sent().len(), 0);
}

#[test]
fn bound_medium_a_port_that_leaves_is_left_in_peace() {
    for placement in [FUSED, CUT, SHARDS] {
        let mut rig = Rig::new(&config(placement));
        rig.news.leave(0);
        rig.settle();
        let frame = rig.frame(&query("a.example. A").frame_bytes());
        rig.offer(0, &mut Burst::from_iter([frame]));
        rig.settle();
        assert_eq!(totals(&rig).received, 0, "{placement}");
        assert!(totals(&rig).balance());
    }
}

#[test]
fn bound_medium_frames_for_a_port_that_left_are_refused_and_counted() {
    let mut rig = Rig::new(&config(FUSED));
    rig.news[0].link_came_up();
    rig.news.leave(0);
    rig.settle();
    let totals = totals(&rig);
    assert!(totals.balance(), "{totals:?}");
    assert_eq!((totals.made, totals.dropped, rig.pool.in_use()), (9, 9, 0));
}

#[test]
fn a_port_that_was_closed_serves_by_the_queues_that_are_brought() {
    for (placement, queues) in [(FUSED, 1), (CUT, 1), (SHARDS, 2)] {
        let mut rig = Rig::new(&config(placement));
        for times in 1..4 {
            rig.news.leave(0);
            rig.settle();
            let (_, near, far) = memory::link("p0", 0, queues, 64);
            rig.news.bring(0, near);
            rig.far = far;
            // It came before the cores have the queues.
            for queue in 0..usize::from(queues) {
                let frame = rig.frame(&query("a.example. A").frame_bytes());
                rig.offer(queue, &mut Burst::from_iter([frame]));
            }
            rig.settle();
            let totals = totals(&rig);
            let all = times * u64::from(queues);
            assert!(totals.balance(), "{placement} {totals:?}");
            assert_eq!((totals.received, totals.dropped), (all, 0), "{placement}");
        }
        rig.workers.iter_mut().for_each(Worker::close_ports);
        rig.news.bring(0, memory::link("p0", 0, 1, 64).1);
        rig.settle();
        assert!(rig.news[0].take_rx().is_some(), "a core that ends takes none");
    }
}

#[test]
fn queues_that_are_brought_take_the_place_of_those_of_a_port_that_begins_closed() {
    for placement in [FUSED, CUT] {
        let mut rig = Rig::new(&config(placement));
        rig.news.bring(0, Queues::none(1, 1));
        rig.settle();
        let (_, near, far) = memory::link("p0", 0, 1, 64);
        rig.news.bring(0, near);
        rig.far = far;
        let frame = rig.frame(&query("a.example. A").frame_bytes());
        rig.offer(0, &mut Burst::from_iter([frame]));
        rig.settle();
        assert_eq!((totals(&rig).received, totals(&rig).dropped), (1, 0), "{placement}");
    }
}
