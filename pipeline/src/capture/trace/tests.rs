//! A trace on a rig: packets with all their steps.

use pmdns_nics::Burst;
use pmdns_stages::testing::query;

use super::*;
use crate::capture::filter::MAX_TIME;
use crate::testing::{Rig, config};

/// A line on two cores, so that the steps of a packet are joined.
const CUT: &str = "[block]\nnames = [\"blocked.example\"]\n\
     [[placement]]\nstages = \"parse..ratelimit\"\ncores = [1]\n\
     [[placement]]\nstages = \"lookup..encode\"\ncores = [2]\n";

fn trace(words: &str) -> TraceReport {
    let mut rig = Rig::new(&config(CUT));
    rig.learn(&query("hit.example. A"), &[(0, 1, 86_400, vec![192, 0, 2, 1])]);
    let (selection, ports) = (Selection::parse(words).unwrap(), ["p0".to_owned()]);
    let mut filter = selection.filter(&ports, 1).unwrap();
    filter.every_stage = true;
    let lender = rig.observers.clone();
    let mut session = std::thread::scope(|scope| {
        let session = scope.spawn(|| Session::start(&lender, &filter).unwrap());
        while !session.is_finished() {
            rig.settle();
        }
        session.join().unwrap()
    });
    let names = ["hit.example. A", "miss.example. AAAA", "x.blocked.example. A"];
    let mut frames: Burst =
        names.iter().map(|name| rig.frame(&query(name).frame_bytes())).collect();
    rig.offer(0, &mut frames);
    rig.settle();
    let count = selection.count.unwrap_or(DEFAULT_PACKETS);
    let mut trace = Trace::new(filter, usize::try_from(count).unwrap(), 0);
    trace.fill(&mut session, MAX_TIME, || true);
    trace.report(&ports, rig.gauges.clock, 0)
}

fn steps(packet: &TracedPacket) -> Vec<(&str, &str)> {
    packet.steps.iter().map(|step| (&*step.stage, &*step.exit)).collect()
}

#[test]
fn a_packet_has_all_its_steps_from_both_cores() {
    let report = trace("");
    let find = |text: &str| {
        let is_it = |packet: &&TracedPacket| packet.question.as_deref() == Some(text);
        report.packets.iter().find(is_it).unwrap()
    };
    let hit = find("hit.example A");
    assert_eq!(steps(hit)[0].0, "parse");
    assert!(steps(hit).ends_with(&[("lookup", "encode"), ("encode", "transmit")]), "{hit}");
    assert!(hit.key != 0 && hit.frame != 0);
    assert!(
        hit.steps
            .iter()
            .any(|step| step.answer.as_ref().is_some_and(|it| it.starts_with("cached")))
    );
    assert_eq!(steps(find("miss.example AAAA")).last(), Some(&("policy", "slow_path")));
    let blocked = find("x.blocked.example A");
    assert!(steps(blocked).ends_with(&[("policy", "encode"), ("encode", "transmit")]), "{blocked}");
    assert_eq!(report.packets.len(), 3);
}

#[test]
fn filters_and_the_count_choose_packets() {
    assert_eq!(trace("name blocked.example").packets.len(), 1);
    assert_eq!(trace("count 2").packets.len(), 2);
    assert_eq!(trace("client 10.78.0.0/24").packets.len(), 0);
}
