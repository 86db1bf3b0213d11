//! Processes take over from each other while clients wait for an upstream. They get its answers, whichever process has the port.

use std::collections::HashSet;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{HUGE_FOLDER, isolated, isolated_alone, reserve_huge_pages, wait_until};
use crate::messages::{be16, id, question, rcode};
use crate::nsd;
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, TAP_V4, set_up_tap, upstream};
use crate::stats::Stats;
use crate::stub::Stub;
use crate::testpmd::{SOCKET, Testpmd};

/// Questions a second, each for a name of its own, and seconds of them. An upstream takes 400 ms for an answer.
const RATE: u16 = 500;
const SECONDS: u16 = 12;
const ASKED: u16 = RATE * SECONDS;
/// How long the last answers are waited for.
const PATIENCE: Duration = Duration::from_secs(4);
/// Frames at least that go from one process to the other for those who wait: 200 do.
const RELAYED: u64 = 100;
/// Questions that come while a port is closed, or are in its rings then. Five times as many wait.
const IN_RINGS: usize = 40;

/// Where upstreams are asked over the port.
const SOURCES: &str = "query_sources = [\"10.97.0.60\", \"10.97.0.61\"]\n";

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn who_waits_for_an_upstream_over_a_tap_is_answered() {
    isolated("handover_waiting::who_waits_for_an_upstream_over_a_tap_is_answered", || {
        let config = format!("{TAP_PORT}{SOURCES}{COMMON}{}", over_the_port());
        let first = Pmdns::start(&config);
        set_up_tap();
        Stub::start_at("10.97.0.1", nsd::PORT);
        follow_each_other(first, &config, 0);
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn who_waits_for_an_upstream_over_a_port_that_is_closed_is_answered() {
    let name = "handover_waiting::who_waits_for_an_upstream_over_a_port_that_is_closed_is_answered";
    isolated_alone(name, || over_virtio_user(SOURCES, &over_the_port(), "10.97.0.1"));
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn who_waits_for_another_upstream_is_answered_by_a_port_that_is_closed() {
    let name =
        "handover_waiting::who_waits_for_another_upstream_is_answered_by_a_port_that_is_closed";
    isolated_alone(name, || over_virtio_user("", &upstream(nsd::PORT), "127.0.0.1"));
}

/// The port is a virtio-user device, whose other end testpmd connects to a TAP.
fn over_virtio_user(sources: &str, upstream: &str, address: &str) {
    reserve_huge_pages(768);
    let their_end = format!("net_vhost1,iface={SOCKET},queues=1");
    let mut testpmd = Testpmd::start(&["net_tap0,iface=pm0".to_owned(), their_end]);
    testpmd.tell(&["set fwd io", "start"]);
    set_up_tap();
    let config = format!(
        r#"
[eal]
args = ["--no-pci", "--in-memory", "--single-file-segments", "-m", "128", "--huge-dir", "{HUGE_FOLDER}"]

[[port]]
name = "tap"
device = "net_virtio_user0,path={SOCKET},queues=1,queue_size=1024,mac=02:00:00:00:00:bb"
addresses = ["{TAP_V4}/24"]
{sources}
[[placement]]
cores = [1]
idle = "adaptive"
{COMMON}{upstream}"#
    );
    let first = Pmdns::start(&config);
    Stub::start_at(address, nsd::PORT);
    follow_each_other(first, &config, IN_RINGS);
    testpmd.quit();
}

/// An upstream at the other end of the port.
fn over_the_port() -> String {
    let port = nsd::PORT;
    format!("\n[[upstream]]\naddress = \"10.97.0.1:{port}\"\nport = \"tap\"\ntimeout_ms = 2000\n")
}

/// Clients ask while two processes follow the first one. At most so many get no answer.
fn follow_each_other(first: Pmdns, config: &str, most: usize) {
    wait_until("the port and the upstream answer", || {
        !ask(0..1, Duration::from_secs(2)).is_empty()
    });
    let (answered, last) = thread::scope(|threads| {
        let clients = threads.spawn(|| ask(1..ASKED, PATIENCE));
        let mut running = first;
        for number in ["one", "two"] {
            thread::sleep(Duration::from_secs(1));
            let (next, before) = running.hand_over_and_count(&format!("next-{number}"), config);
            let number = |stats: &Stats, of: &str| stats.number(&format!("/workers/0/{of}"));
            let [taken, sent] = [number(&before, "relayed"), number(&next.stats(), "relayed")];
            println!(
                "the process before has taken {taken} frames from the next one, which has sent {sent} for it"
            );
            assert!(taken.max(sent) >= RELAYED, "{taken} and {sent}");
            running = next;
        }
        (clients.join().unwrap(), running)
    });
    let missing = usize::from(ASKED) - 1 - answered.len();
    println!("{missing} of {ASKED} have no answer, {most} are the most");
    assert!(missing <= most);
    last.stop();
}

/// Asks for names of these numbers, and returns those that were answered.
fn ask(numbers: std::ops::Range<u16>, patience: Duration) -> HashSet<u16> {
    let socket = UdpSocket::bind("10.97.0.1:0").unwrap();
    socket.connect((TAP_V4, 53)).unwrap();
    socket.set_nonblocking(true).unwrap();
    let (begun, mut answered, mut reply) = (Instant::now(), HashSet::new(), [0; 512]);
    let pause = Duration::from_secs(1) / u32::from(RATE);
    for number in numbers.clone() {
        let due = begun + pause * u32::from(number - numbers.start);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let _ = socket.send(&crate::messages::ask_a(number, &format!("slow_{number}.test")));
        answered.extend(receive(&socket, &mut reply));
    }
    let end = Instant::now() + patience;
    while answered.len() < numbers.len() && Instant::now() < end {
        thread::sleep(pause);
        answered.extend(receive(&socket, &mut reply));
    }
    answered
}

/// The numbers of the answers that have come.
fn receive(socket: &UdpSocket, reply: &mut [u8]) -> Vec<u16> {
    let mut numbers = Vec::new();
    while let Ok(length) = socket.recv(reply) {
        let reply = &reply[..length];
        assert_eq!((rcode(reply), be16(reply, 6)), (0, 1), "{reply:02x?}");
        assert_eq!(question(reply).0, format!("slow_{}.test.", id(reply)));
        numbers.push(id(reply));
    }
    numbers
}
