//! The rules that traces name.

use pmdns_control::trace::TracedPacket;
use pmdns_engine::testing::config;
use pmdns_insight::capture::testing::traced;

use super::*;

/// A line on two cores, so that the steps of a packet are joined.
const CUT: &str = "[block]\nnames = [\"blocked.example\"]\n\
     [[placement]]\nstages = \"parse..ratelimit\"\ncores = [1]\n\
     [[placement]]\nstages = \"lookup..encode\"\ncores = [2]\n";

fn steps(packet: &TracedPacket) -> Vec<(&str, &str)> {
    packet.steps.iter().map(|step| (&*step.stage, &*step.exit)).collect()
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
    let report = traced(PacketSearch::default(), &config(&more), &names, |rig| {
        let mut finder = OverridesInUse::default().with_rules(&rig.gauges.names).map(Finder::new);
        Box::new(move |asked, records| finder.as_mut()?.rule(asked, records))
    });
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
