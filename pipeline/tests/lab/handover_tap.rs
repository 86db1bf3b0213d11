//! Processes take over from each other on a port with a `tap`. Clients at the other end of a cable ask pmdns, and a program of the
//! host at the same address. Neither loses anything, and the interface stays as it is.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::handover::{ask_by, longer, lost};
use crate::handover_ends::GOES_ON;
use crate::harness::{isolated, path, sh, wait_until};
use crate::keeper::{end, serving};
use crate::nsd;
use crate::pmdns::{COMMON, IS_ALONE, Pmdns, TAP_PORT, TAP_V4, interface_exists, upstream};
use crate::process::Process;

/// Seconds in which clients ask, and those for each process.
const SECONDS: u32 = 20;
const EACH: u32 = 4;
/// A route of the operator's, which is gone once the interface is.
const ROUTE: &str = "192.0.2.0/24";
/// What clients run at the other end of the cable.
const CLIENT: &str = "ip netns exec client";
/// Leads frames from one interface to another: the port to the cable, and back.
const LEAD: &str = r#"
static long (*redirect)(unsigned int interface, unsigned long long flags) = (void *)23;
__attribute__((section("tc_lead"), used)) int lead(void *frame) { return redirect(TO, 0); }
"#;

/// A program of the host: it sends back what comes, over TCP and UDP.
const SERVER_PROGRAM: &str = r#"
import selectors, socket, sys
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind((sys.argv[1], 7000))
tcp = socket.create_server((sys.argv[1], 7000), backlog=100)
ready = selectors.DefaultSelector()
for one in (udp, tcp):
    ready.register(one, selectors.EVENT_READ)
print("listening", flush=True)
while True:
    for key, _ in ready.select():
        one = key.fileobj
        if one is udp:
            udp.sendto(*udp.recvfrom(100))
        elif one is tcp:
            ready.register(tcp.accept()[0], selectors.EVENT_READ)
        elif data := one.recv(100):
            one.sendall(data)
        else:
            ready.unregister(one)
            one.close()
"#;

/// A client of it: over a connection that stays, over new ones, and by single packets. Prints how many there were of each, how many
/// packets had no answer, and how many had two.
const CLIENT_PROGRAM: &str = r#"
import os, socket, sys, time
server = (sys.argv[1], 7000)
def ask(connection, line):
    connection.sendall(line)
    back = b""
    while len(back) < len(line):
        more = connection.recv(100)
        assert more, "the connection was closed"
        back += more
    assert back == line, (back, line)
stays = socket.create_connection(server, 20)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.connect(server)
udp.settimeout(2)
count = lost = doubled = 0
while not os.path.exists("/run/lab/over"):
    line = b"%08d" % count
    ask(stays, line)
    with socket.create_connection(server, 20) as new:
        ask(new, line)
    udp.send(line)
    try:
        while udp.recv(100) != line:
            doubled += 1
    except TimeoutError:
        lost += 1
    count += 1
    time.sleep(0.01)
print(count, lost, doubled)
"#;

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn the_interface_of_a_tap_port_stays_and_nothing_is_lost() {
    isolated("handover_tap::the_interface_of_a_tap_port_stays_and_nothing_is_lost", || {
        let _nsd = nsd::start();
        let config = config();
        let running = Pmdns::start(&config);
        lay_cable();
        let (last, asked) = follow_each_other(running, &config, IS_ALONE);
        assert_eq!(asked.doubled, 0, "{asked:?}");
        last.stop();
        assert!(!interface_exists("pm-edge"), "it goes with the last process");
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_crash_leaves_the_interface_to_the_next_process() {
    isolated("handover_tap::a_crash_leaves_the_interface_to_the_next_process", || {
        let kept = Pmdns::start_kept(&config());

        lay_cable();
        let before = interface();
        let _server = start_server(TAP_V4);
        let client = thread::spawn(|| ask_the_host(TAP_V4));
        for _ in 0..3 {
            thread::sleep(Duration::from_secs(2));
            let killed = serving();
            sh(&format!("kill -KILL {killed}"));
            wait_until("another process serves", || serving() != killed);
        }
        thread::sleep(Duration::from_secs(2));
        fs::write("/run/lab/over", "").unwrap();
        // Its connection was never closed.
        let Asked { count, doubled, .. } = client.join().unwrap();
        println!("{count} times beside three kills");
        assert_eq!(doubled, 0);
        assert_eq!(interface(), before);
        end(kept);
        assert!(!interface_exists("pm-edge"), "it goes with the last process");
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_process_that_is_killed_leaves_the_interface_to_the_one_before() {
    isolated(
        "handover_tap::a_process_that_is_killed_leaves_the_interface_to_the_one_before",
        || {
            let config = config();
            let running = Pmdns::start(&config);
            lay_cable();
            let before = interface();
            let server = start_server(TAP_V4);
            let client = thread::spawn(|| ask_the_host(TAP_V4));
            for (number, step) in ["frozen", "serving"].iter().enumerate() {
                thread::sleep(Duration::from_secs(1));
                Pmdns::launch_held(step, &config, step).kill();
                running.wait_for_times(GOES_ON, number + 1);
            }
            thread::sleep(Duration::from_secs(1));
            fs::write("/run/lab/over", "").unwrap();
            let asked = client.join().unwrap();
            println!("{asked:?}");
            assert_eq!(asked.doubled, 0);
            assert_eq!(interface(), before);
            // One that somebody has deleted is made again.
            drop(server);
            sh("ip link delete pm-edge");
            let last = running.hand_over("last", &config);
            wait_until("it has carrier", || sh("ip -brief link show pm-edge").contains("LOWER_UP"));
            last.stop();
        },
    );
}

/// A TAP port with an interface of the host.
fn config() -> String {
    format!("{TAP_PORT}tap = \"pm-edge\"\n{COMMON}{}", upstream(nsd::PORT))
}

/// Processes follow the first one, each once the one before has said that it has everything, while clients ask. Returns the
/// last one, and what clients of the host have counted.
fn follow_each_other(first: Pmdns, config: &str, has_everything: &str) -> (Pmdns, Asked) {
    let _server = start_server(TAP_V4);
    sh(&format!("ip route add {ROUTE} via 10.97.0.1 dev pm-edge"));
    let before = interface();
    let seconds = longer("SECONDS", SECONDS);
    let (report, asked, last) = thread::scope(|threads| {
        let queries = threads.spawn(move || ask_by(&format!("{CLIENT} dnsperf"), TAP_V4, seconds));
        let of_host = threads.spawn(|| ask_the_host(TAP_V4));
        let mut running = first;
        for number in 0..seconds / EACH {
            thread::sleep(Duration::from_secs(1));
            running = running.hand_over(&format!("next-{number}"), config);
            running.wait_for(has_everything);
        }
        let report = queries.join().unwrap();
        fs::write("/run/lab/over", "").unwrap();
        (report, of_host.join().unwrap(), running)
    });
    println!("{asked:?}\n{report}");
    assert_eq!(lost(&report), 0, "{report}");
    assert_eq!(asked.lost, 0, "{asked:?}");
    assert!(asked.count > 100, "{asked:?}");
    let after = interface();
    assert_eq!(after, before);
    assert!(after.contains(ROUTE) && after.contains(TAP_V4), "{after}");
    (last, asked)
}

/// The number of the interface, how often it had no carrier, its addresses and its routes.
fn interface() -> String {
    sh("cat /sys/class/net/pm-edge/ifindex /sys/class/net/pm-edge/carrier_changes; \
        ip -o address show dev pm-edge | tr -s ' '; ip route show dev pm-edge; ip -6 route show dev pm-edge")
}

/// What a client of the host's program has counted.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) count: u32,
    pub(crate) lost: u32,
    pub(crate) doubled: u32,
}

/// Asks the host's program until the lab is over.
pub(crate) fn ask_the_host(server: &str) -> Asked {
    let file = path("client.py");
    fs::write(&file, CLIENT_PROGRAM).unwrap();
    let said = sh(&format!("{CLIENT} python3 {} {server}", file.display()));
    let mut numbers = said.split_whitespace().map(|number| number.parse().unwrap());
    let mut next = || numbers.next().unwrap_or_else(|| panic!("{said}"));
    Asked { count: next(), lost: next(), doubled: next() }
}

pub(crate) fn start_server(address: &str) -> Process {
    let file = path("server.py");
    fs::write(&file, SERVER_PROGRAM).unwrap();
    let mut command = std::process::Command::new("python3");
    let mut server = Process::start("server", command.arg(file).arg(address));
    server.wait_for("listening");
    server
}

/// A veth pair: `vB` here, which is one with the port `pm0`, and `vA` in the namespace `client`. A bridge would take what comes to
/// the port for its own, as both ends of a TAP have one MAC address.
fn lay_cable() {
    sh("ip netns add client && ip link add vB type veth peer name vA netns client");
    sh("ip link set vB up && ip link set pm0 up");
    sh("ip netns exec client ethtool -K vA tx off");
    sh("ip -n client link set lo up && ip -n client link set vA up");
    sh("ip -n client address add 10.97.0.1/24 dev vA");
    fs::write(path("lead.c"), LEAD).unwrap();
    for (from, to) in [("vB", "pm0"), ("pm0", "vB")] {
        let index = sh(&format!("cat /sys/class/net/{to}/ifindex"));
        let (source, object) = (path("lead.c"), path(&format!("{from}.o")));
        let (source, object) = (source.display(), object.display());
        sh(&format!("clang -target bpf -O2 -DTO={} -c {source} -o {object}", index.trim()));
        sh(&format!("tc qdisc add dev {from} clsact"));
        sh(&format!("tc filter add dev {from} ingress bpf direct-action obj {object} sec tc_lead"));
    }
    wait_until("the interface has carrier", || {
        sh("ip -brief link show pm-edge").contains("LOWER_UP")
    });
}
