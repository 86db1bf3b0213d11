//! A virtio-user port against testpmd, which plays captures of queries into its vhost end.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;

use crate::frames::{self, Mac};
use crate::harness::{HUGE_FOLDER, isolated_alone, path, reserve_huge_pages, settled, wait_until};
use crate::messages::{NOERROR, Query, ask_a, id, rcode};
use crate::nsd;
use crate::pcap;
use crate::pmdns::{COMMON, Pmdns, upstream};
use crate::testpmd::{SOCKET, Testpmd};

/// Frames in each run under load, at least.
const MILLIONS: u64 = 2_000_000;
/// Names of the generated zone that are asked for.
const NAMES: u16 = 1000;
/// Frames of the exact run.
const EXACT: u16 = 10_000;
const MAC: Mac = [2, 0, 0, 0, 0, 0xbb];
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);

/// One data core; the generator and the slow path share the other.
fn config() -> String {
    format!(
        r#"
[eal]
args = ["--no-pci", "--in-memory", "--single-file-segments", "-m", "256", "--huge-dir", "{HUGE_FOLDER}"]

[[port]]
name = "virtio"
device = "net_virtio_user0,path={SOCKET},queues=1,queue_size=1024,mac=02:00:00:00:00:bb"
addresses = ["10.99.0.2/16"]
# Fewer frames can be under way than the ring of answers has slots (1024). The generator takes one answer
# out for every query it puts in, so that ring is never full.
rx_descriptors = 512

[[placement]]
cores = [1]
idle = "spin"

[slowpath]
cores = [0]
max_waiting_per_client = 65536

[[local]]
name = "local.test"
type = "A"
data = "192.0.2.1"
{COMMON}{}"#,
        upstream(nsd::PORT)
    )
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn millions_of_frames_are_counted_alike() {
    isolated_alone("virtio::millions_of_frames_are_counted_alike", || {
        reserve_huge_pages(768);
        let _nsd = nsd::start();
        pcap::write(&path("load.pcap"), (0..4000).map(query));
        let mut testpmd = Testpmd::start(&[
            format!("net_pcap0,rx_pcap={},infinite_rx=1", path("load.pcap").display()),
            format!("net_vhost1,iface={SOCKET},queues=1"),
        ]);
        let pmdns = Pmdns::start(&config());
        // A frame that pmdns sends of its own accord after the last count would not be testpmd's.
        wait_until("its address was announced three times", || pmdns.stats().announced() == 3);

        testpmd.tell(&["set fwd io", "start"]);
        wait_until("millions of frames came", || pmdns.stats().total("received") >= MILLIONS);
        testpmd.tell(&["stop"]);
        settled(|| pmdns.stats().total("received"));
        // What pmdns sent last still lies in the ring; testpmd takes it out when it forwards again.
        testpmd.tell(&["set fwd rxonly", "start"]);
        let generator = settled(|| testpmd.count(1));
        testpmd.tell(&["stop"]);
        let stats = pmdns.stats();
        stats.assert_balanced();
        assert_eq!(stats.total("received"), generator.sent, "testpmd sent, pmdns received");
        assert_eq!(stats.total("transmitted"), generator.received, "pmdns sent, testpmd received");
        assert_eq!(stats.port("rx_frames"), stats.total("received"));
        assert_eq!(stats.port("tx_frames"), stats.total("transmitted"));
        assert!(stats.cache_hits() > MILLIONS / 4, "most were answered from the cache");
        println!("steady: testpmd {generator:?}; pmdns {}", stats.summary());

        // Again, and pmdns stops while the frames come.
        let before = stats.total("received");
        testpmd.tell(&["set fwd io", "start"]);
        wait_until("it is under load", || pmdns.stats().total("received") > before + MILLIONS / 4);
        let stats = pmdns.stop();
        let generator = testpmd.count(1);
        assert!(stats.total("received") <= generator.sent);
        assert_eq!(stats.total("held"), 0);
        println!("stopped under load: {}", stats.summary());
        testpmd.quit();
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn every_query_of_a_capture_gets_its_answer() {
    isolated_alone("virtio::every_query_of_a_capture_gets_its_answer", || {
        reserve_huge_pages(768);
        let _nsd = nsd::start();
        let (warm, exact, answers) = (path("warm.pcap"), path("exact.pcap"), path("answers.pcap"));
        pcap::write(&warm, (0..NAMES).map(query));
        pcap::write(&exact, (0..EXACT).map(query));
        let mut testpmd = Testpmd::start(&[
            format!("net_pcap0,rx_pcap={},tx_pcap=/dev/null", warm.display()),
            format!("net_pcap1,rx_pcap={},tx_pcap={}", exact.display(), answers.display()),
            format!("net_vhost2,iface={SOCKET},queues=1"),
        ]);
        let pmdns = Pmdns::start(&config());
        // So that nothing but answers is in the capture.
        wait_until("its address was announced three times", || pmdns.stats().announced() == 3);
        testpmd.tell(&["set fwd io retry", "set burst tx delay 10 retry 2000"]);

        testpmd.tell(&["set portlist 0,2", "start"]);
        wait_until("the cache is warm", || {
            let stats = pmdns.stats();
            stats.total("received") == u64::from(NAMES) && stats.slow_path("waiting") == 0
        });
        let warmed = settled(|| testpmd.count(2));
        testpmd.tell(&["stop", "set portlist 1,2", "start"]);
        let wanted = u64::from(EXACT);
        wait_until("all answers are back", || testpmd.count(1).sent == wanted);
        let stats = pmdns.stats();
        assert_eq!(stats.total("received"), warmed.sent + wanted);
        assert_eq!(testpmd.count(2).received, warmed.received + wanted);
        testpmd.quit();
        check_answers(&answers);
        check_with_tshark(&answers);
        println!("{EXACT} frames in, {EXACT} answers out: {}", pmdns.stop().summary());
    });
}

/// Query number `number`: one in four for a local record, the others for names of the zone.
fn query(number: u16) -> Vec<u8> {
    let name = match number % 4 {
        0 => "local.test".to_owned(),
        _ => format!("n{}.bulk.test", number % NAMES),
    };
    let udp_size = number.is_multiple_of(3).then_some(1232);
    let [high, low] = number.to_be_bytes();
    let path = frames::Path {
        from: ([2, 0, 0, 0, 0, 0xaa], IpAddr::from([10, 99, 1 + high % 200, low]), 20_000 + number),
        to: (MAC, ADDRESS.into(), 53),
        vlans: Vec::new(),
    };
    path.frame(
        &Query { udp_size, ..Query { id: number, name: &name, qtype: 1, udp_size: None } }
            .message(),
    )
}

/// Each query has one answer, to its sender, with its id and question and the right address.
fn check_answers(file: &Path) {
    let mut answered = vec![false; usize::from(EXACT)];
    for frame in pcap::read(file) {
        let datagram = frames::read(&frame).unwrap().expect("UDP");
        let number = id(datagram.payload);
        let asked = query(number);
        let asked = frames::read(&asked).unwrap().unwrap();
        assert_eq!((datagram.path.from, datagram.path.to), (asked.path.to, asked.path.from));
        assert_eq!(rcode(datagram.payload), NOERROR);
        let question = 12..crate::messages::question(asked.payload).2;
        assert_eq!(datagram.payload[question.clone()], asked.payload[question]);
        let address = match number % 4 {
            0 => "192.0.2.1".to_owned(),
            _ => nsd::bulk_address(u32::from(number % NAMES)),
        };
        let message = hickory_proto::op::Message::from_vec(datagram.payload).unwrap();
        let answers: Vec<String> =
            message.answers.iter().map(|record| record.data.to_string()).collect();
        assert_eq!(answers, [address]);
        let seen = std::mem::replace(&mut answered[usize::from(number)], true);
        assert!(!seen, "query {number} was answered twice");
    }
    assert!(answered.iter().all(|seen| *seen), "every query has an answer");
}

/// tshark, which nobody here wrote, finds nothing malformed and no wrong checksum.
fn check_with_tshark(file: &Path) {
    let sum = ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"];
    let bad = "_ws.malformed || ip.checksum.status==0 || udp.checksum.status==0";
    for (filter, expected) in [(bad, 0), ("dns.flags.response==1", usize::from(EXACT))] {
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(file).args(sum).args(["-Y", filter]);
        let output = tshark.output().expect("tshark starts");
        assert!(output.status.success(), "{output:?}");
        let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines, expected, "frames that match {filter}");
    }
}

/// A capture's first frame, as a check of the generator itself.
#[test]
fn the_generator_makes_sound_frames() {
    for number in [0, 1, 3, 999, 9999] {
        let frame = query(number);
        let datagram = frames::read(&frame).unwrap().unwrap();
        assert_eq!(id(datagram.payload), number);
        assert!(datagram.payload.len() >= ask_a(0, "a.b").len());
    }
}
