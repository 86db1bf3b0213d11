//! An AF_XDP port that is shared with the kernel. DNS is answered by pmdns, at addresses of its own and of the kernel.
//! TCP, ping and other UDP to the same interface go on as before.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::thread;

use crate::harness::{
    HUGE_FOLDER, PATIENCE, isolated_alone, path, reserve_huge_pages, sh, wait_until,
};
use crate::nsd;
use crate::pmdns::{COMMON, Pmdns, upstream};
use crate::process::Process;

/// Addresses of both, of the kernel alone, and of pmdns alone.
const BOTH: [&str; 2] = ["10.98.0.2", "fd98::2"];
const KERNEL: [&str; 2] = ["10.98.0.3", "fd98::3"];
const OURS: [&str; 2] = ["10.98.0.4", "fd98::4"];

const PORT: &str = r#"
[[port]]
name = "veth"
device = "net_af_xdp0,iface=vB,start_queue=0,queue_count=1"
addresses = ["10.98.0.2/24", "fd98::2/64", "10.98.0.4/24", "fd98::4/64"]
share_with_kernel = true
"#;

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn the_kernel_keeps_its_interface() {
    isolated_alone("shared_port::the_kernel_keeps_its_interface", || {
        reserve_huge_pages(512);
        lay_cable();
        let _nsd = nsd::start();
        let streams = "[streams]\ntcp = [\"10.98.0.2:53\", \"[fd98::2]:53\"]\n";
        let config = format!("{}{PORT}{COMMON}{}{streams}", eal(), upstream(nsd::PORT));
        for is_last in [false, true] {
            let pmdns = Pmdns::start(&config);
            let choice = "gets queries, pings and ARP for its addresses by an XDP program";
            assert!(pmdns.log().contains(choice), "{}", pmdns.log());
            for target in [BOTH, OURS].concat() {
                client(&format!("dig +tries=1 +time=10 +short @{target} n1.bulk.test | grep ."));
            }
            for target in BOTH {
                client(&format!(
                    "dig +tcp +tries=1 +time=10 +short @{target} n1.bulk.test | grep ."
                ));
            }
            for target in [BOTH, KERNEL, OURS].concat() {
                client(&format!("ping -c 2 -W 5 {target}"));
            }
            // Only the kernel puts fragments together.
            [BOTH, KERNEL]
                .concat()
                .iter()
                .for_each(|to| drop(client(&format!("ping -c 1 -s 4000 {to}"))));
            for target in [BOTH, KERNEL].concat() {
                tcp_and_udp_reach_the_kernel(target);
            }
            // The replies to what the kernel asks on the link are its own.
            sh("ip neigh flush dev vB && ping -c 1 -W 5 -I 10.98.0.2 10.98.0.1");
            sh("ip -6 neigh flush dev vB && ping -c 1 -W 5 -I fd98::2 fd98::1");
            if !is_last {
                // What is left behind passes everything, and is replaced by the next start.
                pmdns.kill();
                assert!(sh("ip link show vB").contains("xdp"));
                client("ping -c 2 -W 5 10.98.0.3");
                continue;
            }
            let stats = pmdns.stop();
            assert_eq!(stats.total("exceptions"), 0, "what is the kernel's did not come to us");
            assert_eq!(stats.exits("parse", "drop.not_our_address"), 0);
            assert!(!sh("ip link show vB").contains("xdp"), "no program is left on the interface");
            client("ping -c 2 -W 5 10.98.0.2");
            println!("shared: {}", stats.summary());
        }
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn upstreams_are_asked_over_a_shared_port() {
    isolated_alone("shared_port::upstreams_are_asked_over_a_shared_port", || {
        reserve_huge_pages(512);
        lay_cable();
        let _upstream = start_upstream();
        for (upstream, source) in [("10.98.0.1", "10.98.0.60"), ("[fd98::1]", "fd98::60")] {
            let config = format!(
                "{}{PORT}query_sources = [\"{source}\"]\n{COMMON}\
                 [[upstream]]\naddress = \"{upstream}:5300\"\nport = \"veth\"\n",
                eal()
            );
            let pmdns = Pmdns::start(&config);
            // The upstream knows no name.
            client("dig +tries=1 +time=10 @10.98.0.4 nothing.test | grep NXDOMAIN");
            tcp_and_udp_reach_the_kernel("10.98.0.2");
            let stats = pmdns.stop();
            assert_eq!((stats.upstream(0, "timeouts"), stats.total("exceptions")), (0, 0));
        }
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn the_program_of_another_stays_and_is_named() {
    isolated_alone("shared_port::the_program_of_another_stays_and_is_named", || {
        reserve_huge_pages(512);
        lay_cable();
        let (source, object) = (path("all.c"), path("all.o"));
        let all = "__attribute__((section(\"xdp\"), used)) int all(void *frame) { return 2; }\n";
        fs::write(&source, all).unwrap();
        sh(&format!("clang -target bpf -O2 -c {} -o {}", source.display(), object.display()));
        sh(&format!("ip link set dev vB xdp obj {} sec xdp", object.display()));
        let config = format!("{}{PORT}{COMMON}{}", eal(), upstream(nsd::PORT));
        let (_, told) = crate::pmdns::run_to_failure(&config);
        assert!(told.contains("which has the XDP program `all` of somebody else"), "{told}");
        assert!(told.contains("ip link set dev vB xdp off"), "{told}");
        assert!(sh("ip link show vB").contains("xdp"), "it is not ours to remove");
    });
}

/// A connection and a datagram from the client to a socket of the kernel's.
fn tcp_and_udp_reach_the_kernel(address: &str) {
    let address: IpAddr = address.parse().unwrap();
    let (listener, socket) =
        (TcpListener::bind((address, 7000)).unwrap(), UdpSocket::bind((address, 7000)).unwrap());
    let greeter = thread::spawn(move || listener.accept().unwrap().0.write_all(b"hello").unwrap());
    let greeting = client(&format!("timeout 20 bash -c 'cat < /dev/tcp/{address}/7000'"));
    assert_eq!(greeting, "hello");
    greeter.join().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    client(&format!("bash -c 'echo -n hello > /dev/udp/{address}/7000'"));
    let mut told = [0; 8];
    let len = socket.recv(&mut told).unwrap();
    assert_eq!(&told[..len], b"hello");
}

fn client(command: &str) -> String {
    sh(&format!("ip netns exec client {command}"))
}

/// A server in the client's namespace that sends each query back as the answer that there is no such name.
fn start_upstream() -> Process {
    let script = "import socket\n\
                  s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n\
                  s.bind(('::', 5300))\n\
                  while True:\n    q, c = s.recvfrom(4096)\n    s.sendto(q[:2] + b'\\x81\\x83' + q[4:], c)\n";
    let mut command = Command::new("ip");
    command.args(["netns", "exec", "client", "python3", "-c", script]);
    let upstream = Process::start("upstream", &mut command);
    wait_until("the upstream listens", || client("cat /proc/net/udp6").contains(":14B4 "));
    upstream
}

fn eal() -> String {
    format!(
        "[eal]\nargs = [\"--no-pci\", \"--in-memory\", \"-m\", \"256\", \"--huge-dir\", \"{HUGE_FOLDER}\"]\n"
    )
}

/// A veth pair: `vB` here with the kernel's addresses, `vA` in the namespace `client`.
fn lay_cable() {
    sh("ip netns add client && ip link add vB type veth peer name vA netns client");
    sh("ip link set vB up && ip -n client link set lo up && ip -n client link set vA up");
    sh("ip -n client address add 10.98.0.1/24 dev vA");
    sh("ip -n client address add fd98::1/64 dev vA nodad");
    for address in [BOTH, KERNEL].concat() {
        let length = if address.contains(':') { "64 dev vB nodad" } else { "24 dev vB" };
        sh(&format!("ip address add {address}/{length}"));
    }
    // XDP sees packets before any checksum offload would.
    sh("ethtool -K vB tx off && ip netns exec client ethtool -K vA tx off");
    wait_until("the cable has carrier", || sh("ip -brief link show vB").contains("LOWER_UP"));
}
