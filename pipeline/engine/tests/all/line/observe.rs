//! What is measured agrees with what is counted: latencies with transmitted frames, rings with their links.

use pmdns_engine::counters::Link;
use pmdns_engine::engine::RingEnds;
use pmdns_engine::latency::{Class, Latencies};
use pmdns_engine::testing::{Rig, config};
use pmdns_engine::worker::Turn;
use pmdns_nics::Burst;
use pmdns_stages::testing::query;

/// A port's frames: so many hits, and as many local answers.
const EACH: usize = 200;
const LOCAL: &str = "[[local]]\nname = \"local.example\"\ntype = \"A\"\ndata = \"192.0.2.1\"\n";
const FUSED: &str = "";
const SPLIT: &str = "[frames]\nring = 64\n\
    [[placement]]\nstages = \"parse..ratelimit\"\ncores = [1]\n\
    [[placement]]\nstages = \"lookup..encode\"\ncores = [2]\n";

/// A rig that knows one name, and frames that ask for it and for a local name in turn.
fn rig(placement: &str) -> Rig {
    let mut rig = Rig::new(&config(&format!("{LOCAL}{placement}")));
    rig.learn(&query("hit.example. A"), &[(0, 1, 60, vec![192, 0, 2, 1])]);
    rig
}

fn offer(rig: &mut Rig, names: &[&str]) {
    let mut burst: Burst = names.iter().map(|name| rig.frame(&query(name).frame_bytes())).collect();
    rig.offer(0, &mut burst);
    assert!(burst.is_empty());
}

fn latencies(rig: &Rig) -> Latencies {
    let mut all = Latencies::default();
    rig.workers.iter().for_each(|worker| all.merge(&worker.counters().latencies));
    all
}

#[test]
fn every_transmitted_frame_has_one_latency() {
    for placement in [FUSED, SPLIT] {
        let mut rig = rig(placement);
        for _ in 0..EACH {
            offer(&mut rig, &["hit.example. A", "local.example. A"]);
            rig.settle();
        }
        let latencies = latencies(&rig);
        let [hit, miss, local, other] = Class::ALL.map(|class| latencies.of(class).count());
        assert_eq!((hit, miss, local, other), (EACH as u64, 0, EACH as u64, 0), "{placement}");
        assert_eq!(rig.sent().len() as u64, hit + local, "{placement}");
        assert!(latencies.of(Class::Hit).sum() > 0, "time has passed");
    }
}

#[test]
fn a_ring_tells_what_its_links_count() {
    let mut rig = rig(SPLIT);
    for _ in 0..4 {
        offer(&mut rig, &["hit.example. A"; 32]);
    }
    while rig.workers[0].turn() == Turn::Busy {}
    rig.settle();
    // Publishes what the consumer of the ring has found.
    let out = rig.workers[0].counters().flow(|link| matches!(link, Link::RingTo(1)));
    let into = rig.workers[1].counters().flow(|link| matches!(link, Link::RingFrom(0)));
    let (_, gauge) =
        rig.gauges.rings.iter().find(|(ends, _)| *ends == RingEnds::Packets(0, 1)).unwrap();
    let occupancy = gauge.occupancy();
    assert_eq!((gauge.capacity(), out.passed, out.refused), (64, 64, 64));
    assert_eq!((gauge.refused(), occupancy.taken), (out.refused, into.passed));
    // It was full, and a batch is 32: 64 waited, then 32.
    assert_eq!((occupancy.pops, occupancy.waited, occupancy.max), (2, 96, 64));
    assert_eq!(occupancy.histogram.iter().sum::<u64>(), occupancy.pops);
}

#[test]
fn housekeeping_is_timed() {
    let rig = &mut rig(FUSED);
    rig.settle();
    assert!(rig.workers[0].counters().tally.housekeeping_ticks > 0, "the first turn publishes");
}

#[test]
fn d04_the_driver_is_timed_beside_the_stages() {
    for placement in [FUSED, SPLIT] {
        let mut rig = rig(placement);
        for _ in 0..EACH {
            offer(&mut rig, &["hit.example. A"; 4]);
            rig.settle();
        }
        let first = rig.workers.first().unwrap().counters();
        let last = rig.workers.last().unwrap().counters();
        let (receive, transmit) = (first.ends.receive, last.ends.transmit);
        assert_eq!((receive.batches, transmit.batches), (EACH as u64, EACH as u64), "{placement}");
        assert!(receive.ticks > 0 && transmit.ticks > 0, "{placement}");
        assert!(last.tally.published_ticks > 0, "rates are made of this");
        let all = first.tally.busy_ticks;
        let stages: u64 = first.meters.iter().map(|meter| meter.ticks).sum();
        assert!(receive.ticks + stages <= all, "{placement}: no time is counted twice");
        if placement == SPLIT {
            assert_eq!(first.ends.transmit.batches, 0, "it sends nothing");
        }
    }
}
