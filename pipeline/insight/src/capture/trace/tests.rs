//! A trace on a rig: packets with all their steps.

use pmdns_control::trace::PacketSearch;
use pmdns_engine::testing::config;

use super::*;
use crate::capture::testing::traced;

/// A line on two cores, so that the steps of a packet are joined.
const CUT: &str = "[block]\nnames = [\"blocked.example\"]\n\
     [[placement]]\nstages = \"parse..ratelimit\"\ncores = [1]\n\
     [[placement]]\nstages = \"lookup..encode\"\ncores = [2]\n";

/// A hit, a miss, and a name that is blocked.
const NAMES: [&str; 3] = ["hit.example. A", "miss.example. AAAA", "x.blocked.example. A"];

fn trace(search: PacketSearch) -> TraceReport {
    traced(search, &config(CUT), &NAMES, |_| Box::new(|_, _| None))
}

fn steps(packet: &TracedPacket) -> Vec<(&str, &str)> {
    packet.steps.iter().map(|step| (&*step.stage, &*step.exit)).collect()
}

#[test]
fn a_packet_has_all_its_steps_from_both_cores() {
    let report = trace(PacketSearch::default());
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
    let search = PacketSearch::default;
    let of_name = PacketSearch { name: Some("blocked.example".to_owned()), ..search() };
    assert_eq!(trace(of_name).packets.len(), 1);
    assert_eq!(trace(PacketSearch { count: Some(2), ..search() }).packets.len(), 2);
    let of_client = PacketSearch { client: Some("10.78.0.0/24".to_owned()), ..search() };
    assert_eq!(trace(of_client).packets.len(), 0);
}
