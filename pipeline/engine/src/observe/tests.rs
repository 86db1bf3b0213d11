//! Tests of observation: on one core, on a line that is cut, and of lending.

use std::sync::atomic::{AtomicBool, Ordering};

use pmdns_nics::Burst;
use pmdns_stages::testing::query;

use super::*;
use crate::slowpath::OutgoingAnswer;
use crate::testing::{Rig, config};

/// Where each packet went: the core that saw it, the stage and the step, or that an answer left.
type Seen = Arc<Mutex<Vec<(usize, Option<StageName>, String)>>>;

/// Notes everything. A test's observer may allocate.
struct Notes {
    core: usize,
    seen: Seen,
    ended: Arc<AtomicBool>,
}

impl Notes {
    fn note(&self, stage: Option<StageName>, to: String) {
        self.seen.lock().unwrap().push((self.core, stage, to));
    }
}

impl Observer for Notes {
    fn left(&mut self, departure: &Departure<'_>) {
        self.note(Some(departure.stage), departure.packet.step.to_string());
    }

    fn sent(&mut self, sent: &Sent<'_>) {
        self.note(None, sent.frame.bytes().len().to_string());
    }

    fn watches_stations(&self) -> bool {
        true
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// Long enough for a worker's next housekeeping.
fn housekeeping(rig: &mut Rig) {
    std::thread::sleep(std::time::Duration::from_millis(11));
    rig.settle();
}

fn watched(more: &str) -> (Rig, Seen, Arc<AtomicBool>) {
    let mut rig = Rig::new(&config(more));
    let (seen, ended) = (Seen::default(), Arc::new(AtomicBool::new(false)));
    let notes = |core| -> Lent {
        Box::new(Notes { core, seen: Arc::clone(&seen), ended: Arc::clone(&ended) })
    };
    rig.observers.lend(notes).unwrap();
    housekeeping(&mut rig);
    (rig, seen, ended)
}

fn ask(rig: &mut Rig, names: &[&str]) {
    let frames = names.iter().map(|name| rig.frame(&query(name).frame_bytes()));
    let mut frames: Burst = frames.collect();
    rig.offer(0, &mut frames);
    rig.settle();
}

const BLOCKING: &str = "[block]\nnames = [\"blocked.example\"]\n";

#[test]
fn every_packet_that_leaves_a_station_is_seen() {
    let (mut rig, seen, ended) = watched(BLOCKING);
    rig.learn(&query("hit.example. A"), &[(0, 1, 86_400, vec![192, 0, 2, 1])]);
    ask(&mut rig, &["hit.example. A", "miss.example. A", "blocked.example. A"]);
    let by_stage = |stage: StageName| {
        let seen = seen.lock().unwrap();
        let of_stage = seen.iter().filter(|(_, at, _)| *at == Some(stage));
        of_stage.map(|(_, _, to)| to.clone()).collect::<Vec<_>>()
    };
    assert_eq!(by_stage(StageName::Parse), ["acl"; 3]);
    assert_eq!(by_stage(StageName::Neighbor), [""; 0], "nothing came there");
    assert_eq!(by_stage(StageName::Lookup), ["encode", "policy", "policy"]);
    assert_eq!(by_stage(StageName::Policy), ["slow_path", "encode"]);
    assert_eq!(by_stage(StageName::Encode), ["transmit"; 2]);
    let received = rig.gauges.clock.now();
    let frame = rig.frame(&query("miss.example. A").frame_bytes());
    let len = frame.bytes().len();
    let (layout, origin) = (Default::default(), Origin::Failure);
    let answer = OutgoingAnswer { frame, received, layout, origin, why: None };
    assert!(rig.slow_path[0].outlets[0].push(answer).is_ok());
    rig.settle();
    assert_eq!(seen.lock().unwrap().last(), Some(&(0, None, len.to_string())));
    ended.store(true, Ordering::Relaxed);
    housekeeping(&mut rig);
    seen.lock().unwrap().clear();
    ask(&mut rig, &["hit.example. A"]);
    assert_eq!(seen.lock().unwrap().len(), 0, "it was given back");
    assert_eq!((rig.observers.collect(), Arc::strong_count(&seen)), (0, 1), "and freed");
}

#[test]
fn each_core_sees_its_stretch_of_a_line_that_is_cut() {
    let cut = "[[placement]]\ncores = [1]\nstages = \"parse..ratelimit\"\n\
        [[placement]]\ncores = [2]\nstages = \"lookup..encode\"\n";
    let (mut rig, seen, _ended) = watched(cut);
    rig.learn(&query("hit.example. A"), &[(0, 1, 86_400, vec![192, 0, 2, 1])]);
    ask(&mut rig, &["hit.example. A"]);
    let seen: Vec<_> = seen.lock().unwrap().iter().map(|(core, at, _)| (*core, *at)).collect();
    let at = |core, stage| (core, Some(stage));
    let stages = [
        at(0, StageName::Parse),
        at(0, StageName::Acl),
        at(0, StageName::RateLimit),
        at(1, StageName::Lookup),
        at(1, StageName::Encode),
    ];
    assert_eq!(seen, stages, "in the order of the line, each once");
}

#[test]
fn there_is_a_bound_on_observers() {
    let (lender, mut cores) = ObserverLender::new(2);
    let ended = Arc::new(AtomicBool::new(false));
    let notes = |core| -> Lent {
        Box::new(Notes { core, seen: Seen::default(), ended: Arc::clone(&ended) })
    };
    for _ in 0..MAX_OBSERVERS {
        lender.lend(notes).unwrap();
    }
    assert_eq!(lender.lend(notes), Err(TooManyObservers), "none has looked yet");
    cores.iter_mut().for_each(Observers::poll);
    assert_eq!(lender.lend(notes), Err(TooManyObservers));
    ended.store(true, Ordering::Relaxed);
    cores[0].poll();
    assert_eq!(lender.lend(notes), Err(TooManyObservers), "the other core has still all of them");
    cores[1].poll();
    assert_eq!(lender.collect(), 0);
    lender.lend(notes).unwrap();
}
