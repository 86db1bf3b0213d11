//! A trace on a rig: packets with all their steps.

use pmdns_config::Config;
use pmdns_control::trace::PacketSearch;
use pmdns_engine::testing::{Rig, config};
use pmdns_nics::Burst;
use pmdns_stages::testing::query;

use super::*;
use crate::capture::filter::MAX_TIME;
use crate::runtime::SaidInUse;

/// A line on two cores, so that the steps of a packet are joined.
const CUT: &str = "[block]\nnames = [\"blocked.example\"]\n\
     [[placement]]\nstages = \"parse..ratelimit\"\ncores = [1]\n\
     [[placement]]\nstages = \"lookup..encode\"\ncores = [2]\n";

/// A hit, a miss, and a name that is blocked.
const NAMES: [&str; 3] = ["hit.example. A", "miss.example. AAAA", "x.blocked.example. A"];

fn trace(search: PacketSearch) -> TraceReport {
    trace_of(search, &config(CUT), &NAMES)
}

/// A trace of queries for these names.
fn trace_of(search: PacketSearch, config: &Config, names: &[&str]) -> TraceReport {
    let mut rig = Rig::new(config);
    rig.learn(&query("hit.example. A"), &[(0, 1, 86_400, vec![192, 0, 2, 1])]);
    let (selection, ports) = (Selection::try_from(search).unwrap(), ["p0".to_owned()]);
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
    let mut frames: Burst =
        names.iter().map(|name| rig.frame(&query(name).frame_bytes())).collect();
    rig.offer(0, &mut frames);
    rig.settle();
    let count = selection.count.unwrap_or(DEFAULT_PACKETS);
    let mut trace = Trace::new(filter, usize::try_from(count).unwrap(), 0);
    trace.fill(&mut session, MAX_TIME, || true);
    let cache = &rig.slow_path[0].resolver.cache;
    let rules = SaidInUse::default().with_rules(&rig.gauges.names);
    trace.report(Facts { ports: &ports, clock: rig.gauges.clock, cache, rules }, 0)
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

#[test]
fn a_packet_has_its_bucket_and_the_rule_that_decided() {
    let file = std::env::temp_dir().join(format!("pmdns-traced-{}", std::process::id()));
    std::fs::write(&file, "# ads\nads.example\n").unwrap();
    let more = format!(
        "{CUT}[policy]\ndoh_canary = [\"default\"]\n\
         [[local]]\nname = \"here.example\"\ntype = \"A\"\ndata = \"192.0.2.7\"\n\
         [[view]]\nname = \"kids\"\nclients = [\"10.77.0.0/24\"]\n\
         [[blocklist]]\nfile = {file:?}\nviews = [\"kids\"]\naction = \"drop\"\n"
    );
    let names = [
        "hit.example. A",
        "HIT.example. A",
        "hit.example. AAAA",
        "x.ads.example. A",
        "x.blocked.example. A",
        "here.example. A",
        "use-application-dns.net. A",
    ];
    let report = trace_of(PacketSearch::default(), &config(&more), &names);
    std::fs::remove_file(&file).unwrap();
    let find = |text: &str| {
        let of = |packet: &&TracedPacket| packet.question.as_deref() == Some(text);
        report.packets.iter().filter(of).collect::<Vec<_>>()
    };
    let hits = find("hit.example A");
    let bucket = |packet: &TracedPacket| (packet.shard.unwrap(), packet.bucket.unwrap());
    assert_eq!(bucket(hits[0]), bucket(hits[1]), "letter case makes no other key");
    assert_ne!(bucket(hits[0]), bucket(find("hit.example AAAA")[0]), "another type does");
    let rule = |text: &str| find(text)[0].rule.as_ref().map(ToString::to_string);
    let below = "the name and all names below it";
    let listed = format!("{}, line 2, ads.example, {below}", file.display());
    assert_eq!(rule("x.ads.example A"), Some(listed.clone()));
    let dropped = find("x.ads.example A")[0];
    assert!(steps(dropped).ends_with(&[("policy", "drop.blocked")]), "{dropped}");
    assert!(dropped.to_string().ends_with(&format!("\n  rule: {listed}\n")), "{dropped}");
    let blocked = format!("block.names, blocked.example, {below}");
    assert_eq!(rule("x.blocked.example A"), Some(blocked));
    assert_eq!(rule("here.example A").as_deref(), Some("local records"));
    assert_eq!(rule("hit.example A"), None);
    assert_eq!(rule("use-application-dns.net A"), None, "the canary is for another view");
}
