//! Processes take over from each other while clients ask over a TAP port and over TCP. No query is lost.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::dig::dig;
use crate::harness::{isolated, path, sh, wait_until};
use crate::nsd;
use crate::pmdns::{
    COMMON, IS_ALONE, Pmdns, TAP_PORT, TAP_V4, run_to_failure, set_up_tap, upstream,
};

/// Questions a second over the port, and seconds of them.
const RATE: u32 = 10_000;
const SECONDS: u32 = 12;
/// Questions under way at a time: fewer answers than the socket of dnsperf holds, should it be late to read them.
pub(crate) const UNDER_WAY: u32 = 100;
/// Two cores, each with a queue of the port.
const TWO_QUEUES: &str = "\n[[placement]]\ncores = [0, 1]\n\n[ratelimit]\nper_core = true\n";
/// Clients of a port with two queues, each with a flow of its own.
const FLOWS: u64 = 200;
/// What the outgoing process says when the other one serves.
pub(crate) const DRAINS: &str = "the next process serves; this one answers who still waits";
/// Seconds for each process that follows the first one.
pub(crate) const EACH: u32 = 4;
/// Names that are asked again and again.
const NAMES: u32 = 500;
/// What processes have logged that are killed: as they begin, and as they start DPDK, long before they serve.
const KILLED_AFTER: [&str; 2] = ["taking over from", "passes its sockets"];
/// Where clients over TCP come to.
pub(crate) const TCP: &str = "127.0.0.1:5399";
/// A query for `n1.bulk.test` A with RD, behind its length.
pub(crate) const QUERY: &[u8] =
    b"\x00\x1e\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02n1\x04bulk\x04test\x00\x00\x01\x00\x01";
/// Its address, at the end of the answer.
const ADDRESS: [u8; 4] = [10, 200, 0, 2];

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn processes_follow_each_other_and_no_query_is_lost() {
    follow_each_other("processes_follow_each_other_and_no_query_is_lost", &[""]);
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn processes_with_several_queues_follow_each_other_and_no_query_is_lost() {
    let name = "processes_with_several_queues_follow_each_other_and_no_query_is_lost";
    follow_each_other(name, &[TWO_QUEUES]);
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn processes_with_other_numbers_of_queues_follow_each_other_and_no_query_is_lost() {
    let name = "processes_with_other_numbers_of_queues_follow_each_other_and_no_query_is_lost";
    follow_each_other(name, &["", TWO_QUEUES, TWO_QUEUES]);
}

/// Processes with one after another of these configurations.
fn follow_each_other(name: &str, more: &[&str]) {
    isolated(&format!("handover::{name}"), || {
        let _nsd = nsd::start();
        let mut configs = more.iter().cycle().map(|more| format!("{}{more}", with_streams()));
        let mut config = || configs.next().unwrap();
        let first = Pmdns::start(&config());
        set_up_tap();
        let (is_over, is_under_way) = (AtomicBool::new(false), AtomicBool::new(false));
        let (report, connections, hits, last) = thread::scope(|threads| {
            let seconds = longer("SECONDS", SECONDS);
            let udp = threads.spawn(move || ask_over_the_port(seconds));
            let tcp = threads.spawn(|| until(&is_over, || ask(&mut connect())));
            let hits = threads.spawn(|| time_hits(&is_over, &is_under_way));
            let mut running = first;
            for number in 0..seconds / EACH {
                is_under_way.store(false, Ordering::Relaxed);
                thread::sleep(Duration::from_secs(1));
                is_under_way.store(true, Ordering::Relaxed);
                running = running.hand_over(&format!("next-{number}"), &config());
            }
            let report = udp.join().unwrap();
            is_over.store(true, Ordering::Relaxed);
            (report, tcp.join().unwrap(), hits.join().unwrap(), running)
        });
        // What the kernel could give to no queue it counts as dropped.
        let interface = sh("ip -s -s link show pm0");
        assert!(report.contains("Queries lost:         0 (0.00%)"), "{report}\n{interface}");
        assert!(report.contains("NOERROR") && report.contains("(100.00%)"), "{report}");
        assert!(connections > 100, "only {connections} connections were answered");
        println!("{connections} connections, none lost\n{report}");
        for (when, times) in ["between hand-overs", "in hand-overs"].iter().zip(hits) {
            let [median, slow, slowest] =
                [50, 99, 100].map(|share| times[(times.len() - 1) * share / 100]);
            println!(
                "{} hits {when}: median {median:?}, p99 {slow:?}, max {slowest:?}",
                times.len()
            );
        }
        last.stop();
    });
}

/// How long hits take between hand-overs, and while one is under way, the fastest first.
fn time_hits(is_over: &AtomicBool, is_under_way: &AtomicBool) -> [Vec<Duration>; 2] {
    let client = UdpSocket::bind("10.97.0.1:0").unwrap();
    client.connect((TAP_V4, 53)).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut times = [Vec::new(), Vec::new()];
    while !is_over.load(Ordering::Relaxed) {
        let when = usize::from(is_under_way.load(Ordering::Relaxed));
        let begun = Instant::now();
        client.send(&QUERY[2..]).unwrap();
        let mut reply = [0; 512];
        let len = client.recv(&mut reply).unwrap();
        assert!(reply[..len].ends_with(&ADDRESS), "{reply:?}");
        times[when].push(begun.elapsed());
        thread::sleep(Duration::from_millis(1));
    }
    times.iter_mut().for_each(|times| times.sort());
    times
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_process_that_ends_before_it_serves_costs_nothing() {
    isolated("handover::a_process_that_ends_before_it_serves_costs_nothing", || {
        let _nsd = nsd::start();
        let config = format!("{TAP_PORT}{COMMON}{}", upstream(nsd::PORT));
        let running = Pmdns::start(&config);
        set_up_tap();
        let report = thread::scope(|threads| {
            let udp = threads.spawn(|| ask_over_the_port(SECONDS));
            for (number, text) in KILLED_AFTER.iter().cycle().take(6).enumerate() {
                let mut next = Pmdns::launch_as(&format!("killed-{number}"), &config);
                next.wait_for(text);
                assert!(!next.log().contains(" ready"), "it serves already: {}", next.log());
                next.kill();
            }
            udp.join().unwrap()
        });
        assert!(report.contains("Queries lost:         0 (0.00%)"), "{report}");
        assert!(running.log().contains("no other process takes over"), "{}", running.log());
        running.hand_over("next", &config).stop();
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn what_cannot_pass_is_refused_and_serves_on() {
    isolated("handover::what_cannot_pass_is_refused_and_serves_on", || {
        let _nsd = nsd::start();
        // DPDK gives it an address that the next process would not have.
        let port = TAP_PORT.replace(",mac=02:00:00:00:00:aa", "");
        let config = format!("{port}{COMMON}{}", upstream(nsd::PORT));
        let running = Pmdns::start(&config);
        set_up_tap();
        let socket = fs::metadata("/run/lab/pmdns.sock.handover").unwrap();
        assert_eq!(socket.permissions().mode() & 0o777, 0o600, "only its owner may take over");
        let (code, said) = run_to_failure(&config);
        assert_eq!(code, Some(5), "{said}");
        assert!(said.contains("(mac=) cannot pass to another process; stop"), "{said}");
        dig(TAP_V4, "n1.bulk.test A");
        running.stop();
        assert!(!fs::exists("/run/lab/pmdns.sock.handover").unwrap());
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_process_that_cannot_start_leaves_the_other_its_sockets() {
    isolated("handover::a_process_that_cannot_start_leaves_the_other_its_sockets", || {
        let _nsd = nsd::start();
        let running = Pmdns::start_on_tap(&upstream(nsd::PORT));
        let elsewhere = COMMON.replace("pages =", "numa_node = 63\npages =");
        let (code, said) = run_to_failure(&format!("{TAP_PORT}{elsewhere}{}", upstream(nsd::PORT)));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("passes its sockets") && said.contains("numa_node"), "{said}");
        dig(TAP_V4, "n1.bulk.test A");
        // Operators still reach it, and the next one takes over.
        running.stats().assert_balanced();
        let config = format!("{TAP_PORT}{COMMON}{}", upstream(nsd::PORT));
        running.hand_over("next", &config).stop();
        assert!(!fs::exists("/run/lab/pmdns.sock.handover").unwrap());
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn each_queue_of_a_tap_has_flows_before_a_hand_over_meanwhile_and_after_it() {
    let name = "handover::each_queue_of_a_tap_has_flows_before_a_hand_over_meanwhile_and_after_it";
    isolated(name, || {
        let _nsd = nsd::start();
        let config = format!("{}{TWO_QUEUES}", with_streams());
        let running = Pmdns::start(&config);
        set_up_tap();
        assert!(is_spread("before", &running));
        let mut next = Pmdns::launch_held("next", &config, "frozen");
        assert!(is_spread("while the next one waits", &running));
        // The process before drains as long as this is open.
        let mut open = connect();
        ask(&mut open);
        next.signal("CONT");
        running.wait_for_times(DRAINS, 1);
        assert!(is_spread("while the one before drains", &next));
        drop(open);
        next.wait_for(IS_ALONE);
        assert!(is_spread("after a hand-over", &next));
        let mut last = next.hand_over("last", &config);
        last.wait_for(IS_ALONE);
        assert!(is_spread("after another one", &last));
        last.stop();
    });
}

/// Whether each core of a process has a part of new flows.
fn is_spread(when: &str, serving: &Pmdns) -> bool {
    let before = serving.stats().received_by_worker();
    for _ in 0..FLOWS {
        let client = UdpSocket::bind("10.97.0.1:0").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        client.send_to(&QUERY[2..], (TAP_V4, 53)).unwrap();
        client.recv(&mut [0; 512]).unwrap();
    }
    let mut parts = Vec::new();
    wait_until(&format!("{when}: all flows are counted"), || {
        let now = serving.stats().received_by_worker();
        parts = now.iter().zip(&before).map(|(now, before)| now - before).collect();
        parts.iter().sum::<u64>() >= FLOWS
    });
    println!("{when}: {parts:?} of {FLOWS}");
    parts.len() == 2 && parts.iter().all(|part| *part >= FLOWS / 10)
}

/// A TAP port, and clients over TCP.
pub(crate) fn with_streams() -> String {
    let streams = format!("\n[streams]\ntcp = [\"{TCP}\"]\n");
    let acl = "\n[acl]\nallow = [\"10.0.0.0/8\", \"127.0.0.0/8\"]\n";
    format!("{TAP_PORT}{COMMON}{streams}{acl}{}", upstream(nsd::PORT))
}

/// Asks by dnsperf, and returns its report.
pub(crate) fn ask_over_the_port(seconds: u32) -> String {
    ask_by("dnsperf", TAP_V4, seconds)
}

/// The same, by a command at another address.
pub(crate) fn ask_by(dnsperf: &str, server: &str, seconds: u32) -> String {
    let names: String = (0..NAMES).map(|number| format!("n{number}.bulk.test A\n")).collect();
    let file = path("names");
    fs::write(&file, names).unwrap();
    let file = file.display();
    let rate = longer("RATE", RATE);
    sh(&format!("{dnsperf} -s {server} -d {file} -l {seconds} -Q {rate} -q {UNDER_WAY} -t 5"))
}

/// A figure of the long form (`scripts/test.sh handover-long`), or of this one.
pub(crate) fn longer(figure: &str, short: u32) -> u32 {
    let long = std::env::var(format!("PMDNS_HANDOVER_{figure}"));
    long.map_or(short, |text| text.parse().unwrap())
}

/// The number of a report of dnsperf.
pub(crate) fn lost(report: &str) -> u32 {
    let text = report.split("Queries lost:").nth(1).and_then(|rest| rest.split_whitespace().next());
    text.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{report}"))
}

/// Asks one connection after another. Returns how many were answered, which are all.
pub(crate) fn until(is_over: &AtomicBool, ask: impl Fn()) -> u32 {
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        ask();
        count += 1;
    }
    count
}

/// A connection to the process that serves.
pub(crate) fn connect() -> TcpStream {
    connect_to(TCP)
}

pub(crate) fn connect_to(address: impl ToSocketAddrs) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream
}

/// Asks over a connection, and waits for the answer.
pub(crate) fn ask(stream: &mut (impl Read + Write)) {
    stream.write_all(QUERY).unwrap();
    answered(stream);
}

/// Waits for the answer to [`QUERY`].
pub(crate) fn answered(stream: &mut impl Read) {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!((&reply[..2], reply[3] & 15), (&QUERY[2..4], 0), "NOERROR, and the same id");
}
