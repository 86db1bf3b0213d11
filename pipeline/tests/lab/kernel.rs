//! The kernel behind an AF_XDP port: ping, TCP and UDP through the TAP, tags and the link. Two BIRDs keep a BGP session beside
//! a flood of SYNs. The client's offloads are on, so its frames come with unfinished checksums.

use std::fs;
use std::process::Command;

use crate::frames::Path;
use crate::harness::{
    HUGE_FOLDER, isolated, isolated_alone, path, reserve_huge_pages, sh, wait_until,
};
use crate::nsd::{self, BULK_NAMES};
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, upstream};
use crate::process::Process;
use crate::stats::Stats;

const OURS: &str = "10.98.0.2";
const OURS_V6: &str = "fd98::2";
const CLIENT: &str = "10.98.0.1";
const CLIENT_V6: &str = "fd98::1";
/// SYNs that each flood sends, and microseconds between two of them: many more than pass in a second.
const SYNS: u32 = 100_000;
const SYN_PAUSE_US: u32 = 60;

/// The port `vB` with a TAP; `more` are further keys of the port.
fn config(more: &str) -> String {
    format!(
        "[eal]\nargs = [\"--no-pci\", \"--in-memory\", \"-m\", \"256\", \"--huge-dir\", \"{HUGE_FOLDER}\"]\n\
         [[port]]\nname = \"edge\"\ndevice = \"net_af_xdp0,iface=vB,start_queue=0,queue_count=1\"\n\
         addresses = [\"{OURS}/24\", \"{OURS_V6}/64\"]\ntap = \"pm-edge\"\n{more}{COMMON}\
         [[upstream]]\naddress = \"{OURS}:{}\"\n",
        nsd::PORT
    )
}

/// A veth pair: `vB` here, which is the port, and `vA` in the namespace `client`.
fn lay_cable() {
    reserve_huge_pages(512);
    sh("ip netns add client && ip link add vB type veth peer name vA netns client");
    // XDP sees no tag that stands beside the frame.
    sh(
        "ethtool -K vB rxvlan off txvlan off && ip netns exec client ethtool -K vA rxvlan off txvlan off",
    );
    sh("ip link set vB up && ip -n client link set lo up && ip -n client link set vA up");
    wait_until("the cable has carrier", || sh("ip -brief link show vB").contains("LOWER_UP"));
}

/// Gives the client its addresses on this interface.
fn address_client(interface: &str) {
    sh(&format!("ip -n client address add {CLIENT}/24 dev {interface}"));
    sh(&format!("ip -n client address add {CLIENT_V6}/64 dev {interface} nodad"));
}

/// Runs a command at the client, which must succeed.
fn at_client(command: &str) -> String {
    sh(&format!("ip netns exec client {command}"))
}

/// The counter of the only TAP.
fn tap(stats: &Stats, name: &str) -> u64 {
    stats.number(&format!("/taps/0/{name}"))
}

/// Pings from the kernel behind the port, which has to find the client first.
fn ping_client() {
    sh(&format!("ping -c 2 -W 5 {CLIENT}"));
    sh(&format!("ping -6 -c 2 -W 5 {CLIENT_V6}"));
}

/// Asks NSD behind the port, by UDP, by TCP, and for a whole zone by TCP.
fn ask_kernel() {
    for ours in [OURS, OURS_V6] {
        let dig = |more: &str| {
            at_client(&format!("dig +tries=1 +time=10 -p {} @{ours} {more}", nsd::PORT))
        };
        for transport in ["+notcp", "+tcp"] {
            let answer = dig(&format!("{transport} +short n7.bulk.test"));
            assert_eq!(answer.trim(), nsd::bulk_address(7), "{ours} {transport}");
        }
        let zone = dig("+tcp +noall +answer bulk.test AXFR");
        assert!(
            zone.lines().count() > BULK_NAMES as usize,
            "the whole zone: {}",
            zone.lines().count()
        );
    }
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn the_kernel_is_reached_and_reaches_others() {
    isolated_alone("kernel::the_kernel_is_reached_and_reaches_others", || {
        lay_cable();
        address_client("vA");
        let pmdns = Pmdns::start(&config(""));
        let interface = sh("ip address show pm-edge");
        assert!(interface.contains("LOWER_UP") && interface.contains(OURS_V6), "{interface}");
        assert!(!interface.contains("fe80") && !interface.contains("tentative"), "{interface}");
        let mac = |device: &str| sh(&format!("cat /sys/class/net/{device}/address"));
        assert_eq!(mac("pm-edge"), mac("vB"));
        ping_client();
        let neighbours = sh("ip neighbour show dev pm-edge");
        assert!(neighbours.contains(CLIENT) && neighbours.contains(CLIENT_V6), "{neighbours}");
        assert!(!neighbours.contains("FAILED"), "{neighbours}");
        let _nsd = nsd::start_at_all(&[OURS, OURS_V6]);
        ask_kernel();
        // A closed port is refused at once.
        let closed = at_client(&format!("dig +tries=1 +time=9 -p 9 @{OURS} . || true"));
        assert!(closed.contains("connection refused"), "{closed}");
        // Queries do not go there, and pmdns alone answers for its addresses.
        let answer = at_client(&format!("dig +tries=1 +time=9 +short @{OURS} n8.bulk.test"));
        assert_eq!(answer.trim(), nsd::bulk_address(8));
        let duplicates = at_client(&format!("ping -c 20 -i 0.01 {OURS}"));
        assert!(!duplicates.contains("DUP!"), "{duplicates}");
        let stats = pmdns.stop();
        assert_eq!(tap(&stats, "refused") + tap(&stats, "too_long"), 0);
        // Two zones in segments; how many acknowledgements answer them is up to the client.
        assert!(tap(&stats, "from_kernel") > 200 && tap(&stats, "to_kernel") > 14);
        println!(
            "to the kernel {}, from it {}",
            tap(&stats, "to_kernel"),
            tap(&stats, "from_kernel")
        );
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn one_address_answers_over_udp_and_tcp() {
    isolated_alone("kernel::one_address_answers_over_udp_and_tcp", || {
        lay_cable();
        address_client("vA");
        let streams = format!("[streams]\ntcp = [\"{OURS}:53\", \"[{OURS_V6}]:53\"]\n");
        let pmdns = Pmdns::start(&format!("{}{streams}", config("")));
        let _nsd = nsd::start_at_all(&[OURS]);
        for ours in [OURS, OURS_V6] {
            for transport in ["+notcp", "+tcp"] {
                let query = format!("dig +tries=1 +time=9 +short {transport} @{ours} n9.bulk.test");
                assert_eq!(at_client(&query).trim(), nsd::bulk_address(9), "{query}");
            }
        }
        let stats = pmdns.stop();
        assert_eq!((stats.over_tcp("queries"), stats.over_tcp("answers")), (2, 2));
        assert_eq!(stats.total("slow_path"), 1, "both transports share the cache");
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn tags_pass_in_both_directions() {
    isolated_alone("kernel::tags_pass_in_both_directions", || {
        lay_cable();
        let pmdns = Pmdns::start(&config("vlans = [7]\n"));
        assert!(!sh("ip address show pm-edge").contains("inet"), "the addresses are of VLAN 7");
        let mac =
            |device: &str| sh(&format!("cat /sys/class/net/{device}/address")).trim().to_owned();
        let (ours, client) = (mac("pm-edge"), "02:00:00:00:00:c1".to_owned());
        let end = |mac: &str, address: &str| (mac_of(mac), address.parse().unwrap(), 4000);
        for (from, to, at, by) in [
            (end(&client, CLIENT), end(&ours, OURS), "", "ip netns exec client "),
            (end(&client, CLIENT_V6), end(&ours, OURS_V6), "", "ip netns exec client "),
            (end(&ours, OURS), end(&client, CLIENT), "ip netns exec client ", ""),
        ] {
            let (listens, sends) =
                if at.is_empty() { ("pm-edge", "vA") } else { ("vA", "pm-edge") };
            let frame = Path { from, to, vlans: vec![0x6007] }.frame(MARK.as_bytes());
            let mut listener = listen(at, listens);
            sh(&format!("{by}python3 -c '{SEND}' {sends} {}", hex(&frame)));
            listener.wait_for("tag 0x6007 and the payload");
        }
        pmdns.stop();
        println!("a tag with priority 3 and VLAN 7 is kept, to the kernel and from it");
    });
}

/// What the frames of the lab with tags carry.
const MARK: &str = "frames keep their tags";
/// Sends a frame: the interface, the bytes.
const SEND: &str = "import socket,sys;s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW);s.bind((sys.argv[1],0));\
    s.send(bytes.fromhex(sys.argv[2]))";
/// Waits for a frame with the mark, and prints its tag. The kernel takes tags out, and tells them beside the frame
/// (`PACKET_AUXDATA`, packet(7)).
const LISTEN: &str = r#"
import socket, struct, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind((sys.argv[1], 3))
s.setsockopt(263, 8, 1)
print("listening", flush=True)
while True:
    data, beside, _, sender = s.recvmsg(2000, 100)
    if sys.argv[2].encode() in data and sender[2] != 4:
        tag = struct.unpack("=IIIHHHH", beside[0][2])[5] if beside else 0
        print(f"tag {tag:#06x} and the payload", flush=True)
"#;

/// Listens at an interface, in the namespace that `prefix` enters.
fn listen(prefix: &str, interface: &str) -> Process {
    fs::write(path("listen.py"), LISTEN).unwrap();
    let line = format!("exec {prefix}python3 {} {interface} '{MARK}'", path("listen.py").display());
    let mut listener = Process::start("listener", Command::new("sh").args(["-c", &line]));
    listener.wait_for("listening");
    listener
}

fn mac_of(text: &str) -> [u8; 6] {
    let bytes: Vec<u8> =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    bytes.try_into().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn the_tap_has_the_link_of_its_port() {
    isolated("kernel::the_tap_has_the_link_of_its_port", || {
        // net_af_xdp does not tell of its link, net_tap does.
        let pmdns =
            Pmdns::start(&format!("{TAP_PORT}tap = \"pm-edge\"\n{COMMON}{}", upstream(nsd::PORT)));
        let is_up = || sh("ip -brief link show pm-edge").contains("LOWER_UP");
        for state in ["down", "up", "down", "up"] {
            sh(&format!("ip link set pm0 {state}"));
            wait_until(&format!("the TAP is {state}"), || is_up() == (state == "up"));
        }
        pmdns.stop();
        assert!(!std::path::Path::new("/sys/class/net/pm-edge").exists(), "it ends with pmdns");
        println!("down and up twice, as the port");
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_flood_of_syns_breaks_neither_bgp_nor_hits() {
    isolated_alone("kernel::a_flood_of_syns_breaks_neither_bgp_nor_hits", || {
        lay_cable();
        address_client("vA");
        let pmdns = Pmdns::start(&format!("{}[exceptions]\nrest_per_second = 1000\n", config("")));
        let _nsd = nsd::start_at(OURS);
        let _here = bird("here", &[], OURS, CLIENT);
        let _there = bird("there", &["ip", "netns", "exec", "client"], CLIENT, OURS);
        wait_until("BGP is up", || protocols("here").contains("Established"));
        wait_until("BFD is up", || sessions("here").contains("Up"));
        let ask = || at_client(&format!("dig +tries=1 +time=9 +short @{OURS} n9.bulk.test"));
        assert_eq!(ask().trim(), nsd::bulk_address(9));
        let since = up_since("here");

        let flood = |port: u16| {
            let command =
                format!("-q -S -p {port} --rand-source -i u{SYN_PAUSE_US} -c {SYNS} {OURS}");
            let mut hping = Command::new("ip");
            hping.args(["netns", "exec", "client", "hping3"]).args(command.split(' '));
            Process::start(&format!("hping3-{port}"), &mut hping)
        };
        let mut floods = [flood(179), flood(22)];
        let names = path("names");
        fs::write(&names, "n9.bulk.test A\n").unwrap();
        let report =
            at_client(&format!("dnsperf -s {OURS} -d {} -Q 2000 -l 5 -t 5", names.display()));
        assert!(report.contains("Queries lost:         0 (0.00%)"), "hits lose nothing: {report}");
        for flood in &mut floods {
            flood.wait();
        }

        assert!(protocols("here").contains("Established"), "{}", protocols("here"));
        // BIRD derives the time anew each time, to a millisecond or so.
        assert!((up_since("here") - since).abs() < 0.1, "the session is that from before");
        assert!(sessions("here").contains("Up"), "{}", sessions("here"));
        let stats = pmdns.stop();
        let [passed, limited] = ["kernel_rest", "kernel_rest_limited"]
            .map(|name| stats.number(&format!("/workers/0/{name}")));
        let control = [
            "kernel_link_limited",
            "kernel_link_full",
            "kernel_control_limited",
            "kernel_control_full",
        ]
        .map(|name| stats.number(&format!("/workers/0/{name}")));
        assert!(limited > 0, "the flood is beyond the limit: {passed} passed");
        assert_eq!(control, [0; 4], "nothing of BGP and BFD was dropped");
        println!(
            "of {} SYNs {passed} reached the kernel; BGP and BFD stayed up, hits lost nothing",
            2 * SYNS
        );
    });
}

/// BIRD in the namespace that `prefix` enters, with a BGP session under BFD.
fn bird(name: &str, prefix: &[&str], local: &str, peer: &str) -> Process {
    let (config, socket) = (path(&format!("{name}.conf")), path(&format!("{name}.ctl")));
    let text = format!(
        "router id {local};\nprotocol device {{}}\n\
         protocol bfd {{ interface \"*\" {{ min rx interval 100 ms; min tx interval 100 ms; multiplier 10; }}; }}\n\
         protocol bgp peer {{ local {local} as 65001; neighbor {peer} as 65001; direct; bfd on; hold time 9; \
         connect delay time 1; connect retry time 2; ipv4 {{ import all; export all; }}; }}\n"
    );
    fs::write(&config, text).unwrap();
    let mut words = prefix.iter().copied().chain(["/usr/sbin/bird", "-f", "-c"]);
    let mut command = Command::new(words.next().unwrap());
    command
        .args(words)
        .arg(&config)
        .arg("-s")
        .arg(&socket)
        .arg("-P")
        .arg(path(&format!("{name}.pid")));
    let bird = Process::start(&format!("bird-{name}"), &mut command);
    wait_until("BIRD listens", || socket.exists());
    bird
}

/// The state of the session, and since when.
fn protocols(name: &str) -> String {
    birdc(name, "show protocols peer")
}

/// The second of the day since when the session has been as it is.
fn up_since(name: &str) -> f64 {
    let told = protocols(name);
    let time = told.split_whitespace().find(|word| word.matches(':').count() == 2);
    let parts = time.unwrap_or_else(|| panic!("no time in {told}")).split(':');
    parts.fold(0.0, |seconds, part| seconds * 60.0 + part.parse::<f64>().unwrap())
}

fn sessions(name: &str) -> String {
    birdc(name, "show bfd sessions")
}

fn birdc(name: &str, words: &str) -> String {
    sh(&format!("birdc -s {} {words}", path(&format!("{name}.ctl")).display()))
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn what_passes_is_measured() {
    isolated_alone("kernel::what_passes_is_measured", || {
        lay_cable();
        address_client("vA");
        let pmdns = Pmdns::start(&format!(
            "{}[exceptions]\nrest_per_second = 0\nstreams_per_second = 0\n",
            config("")
        ));
        let _nsd = nsd::start_at(OURS);
        let _server = Process::start("iperf3", Command::new("iperf3").args(["-s", "-B", OURS]));
        wait_until("iperf3 listens", || sh("ss -Htln sport = :5201").contains("5201"));
        for (what, more) in [("to the kernel", ""), ("from the kernel", "-R")] {
            let report = at_client(&format!("iperf3 -c {OURS} -t 3 -f m {more}"));
            let line = report.lines().find(|line| line.contains("receiver")).unwrap_or_default();
            println!("iperf3 {what}: {line}");
        }
        let names = path("names");
        fs::write(&names, "n9.bulk.test A\n").unwrap();
        let report = at_client(&format!(
            "dnsperf -m tcp -s {OURS} -p {} -d {} -c 8 -q 200 -l 3 -t 5",
            nsd::PORT,
            names.display()
        ));
        let line =
            report.lines().find(|line| line.contains("Queries per second")).unwrap_or_default();
        println!("DNS over TCP to NSD: {line}");
        pmdns.stop();
    });
}
