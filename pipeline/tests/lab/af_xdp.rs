//! An AF_XDP port on a veth pair, with kxdpgun at the other end in a namespace of its own. The client's counts and
//! those of pmdns agree.

use std::fs;
use std::path::Path;

use crate::harness::{
    HUGE_FOLDER, isolated_alone, path, reserve_huge_pages, settled, sh, wait_until,
};
use crate::nsd;
use crate::pmdns::{COMMON, Pmdns, upstream};

/// Queries a second, one run each until one loses nothing. The last are so few that the rings of the cable hold
/// what comes while a machine takes the CPUs away for a second.
const RATES: [u64; 4] = [20_000, 5_000, 1_000, 500];
const SECONDS: u64 = 3;
/// Names asked for, each again and again.
const NAMES: u32 = 1000;

const DEVICE: &str = "net_af_xdp0,iface=vB,start_queue=0,queue_count=1";
const PORT: &str = r#"
[[port]]
name = "veth"
device = "net_af_xdp0,iface=vB,start_queue=0,queue_count=1"
addresses = ["10.98.0.2/24", "fd98::2/64"]
"#;

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn kxdpgun_and_pmdns_count_alike() {
    isolated_alone("af_xdp::kxdpgun_and_pmdns_count_alike", || {
        reserve_huge_pages(512);
        lay_cable();
        let _nsd = nsd::start();
        let pmdns = Pmdns::start(&config());
        sh("ip netns exec client ping -c 2 -W 5 10.98.0.2");
        sh("ip netns exec client ping -6 -c 2 -W 5 fd98::2");
        for target in ["10.98.0.2", "fd98::2"] {
            attack(target, &pmdns);
        }
        let stats = pmdns.stop();
        assert_eq!(stats.port("tx_frames"), stats.total("transmitted"));
        println!("replies counted alike by kxdpgun and by pmdns: {}", stats.summary());
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn trap_24_after_sigkill_the_interface_works_and_is_taken_again() {
    isolated_alone("af_xdp::trap_24_after_sigkill_the_interface_works_and_is_taken_again", || {
        reserve_huge_pages(512);
        lay_cable();
        for _ in 0..2 {
            let pmdns = Pmdns::start(&config());
            sh("ip netns exec client ping -c 2 -W 5 10.98.0.2");
            pmdns.kill();
            // The program that gave frames to its socket may stay, but gives them to the kernel now.
            sh("ip address replace 10.98.0.3/24 dev vB");
            sh("ip netns exec client ping -c 2 -W 5 10.98.0.3");
            sh("ip address flush dev vB");
        }
        let pmdns = Pmdns::start(&config());
        sh("ip netns exec client ping -c 2 -W 5 10.98.0.2");
        pmdns.stop();
        assert!(!sh("ip link show vB").contains("xdp"), "no program is left on the interface");
        println!("SIGKILL twice, then a start that serves and leaves no program on the interface");
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn bound_b1_kernels_of_the_same_host_are_answered_with_their_default_offloads() {
    isolated_alone(
        "af_xdp::bound_b1_kernels_of_the_same_host_are_answered_with_their_default_offloads",
        || {
            reserve_huge_pages(512);
            lay_cable_with_offloads();
            let _nsd = nsd::start();
            for device in [DEVICE, "net_af_packet0,iface=vB"] {
                let pmdns = Pmdns::start(&config().replace(DEVICE, device));
                for target in ["10.98.0.2", "fd98::2"] {
                    let answer = sh(&format!(
                        "ip netns exec client dig +tries=1 +time=10 +short @{target} n1.bulk.test"
                    ));
                    assert!(!answer.trim().is_empty(), "{device} answers at {target}");
                }
                assert_eq!(pmdns.stop().exits("parse", "drop.udp_checksum"), 0);
                println!("{device}: queries with unfinished checksums are answered");
            }
        },
    );
}

/// The port on `vB`, NSD behind it.
pub(crate) fn config() -> String {
    let eal = format!(
        "[eal]\nargs = [\"--no-pci\", \"--in-memory\", \"-m\", \"256\", \
         \"--huge-dir\", \"{HUGE_FOLDER}\"]\n"
    );
    format!("{eal}{PORT}{COMMON}{}", upstream(nsd::PORT))
}

/// A veth pair: `vB` here, `vA` in the namespace `client`. XDP sees packets before any checksum
/// offload would; here the kernel's own packets come with their checksums.
pub(crate) fn lay_cable() {
    lay_cable_with_offloads();
    sh("ethtool -K vB tx off && ip netns exec client ethtool -K vA tx off");
}

fn lay_cable_with_offloads() {
    sh("ip netns add client");
    sh("ip link add vB type veth peer name vA netns client");
    sh("ip link set vB up");
    let client = "ip -n client";
    sh(&format!("{client} link set lo up && {client} link set vA up"));
    sh(&format!("{client} address add 10.98.0.1/24 dev vA"));
    sh(&format!("{client} address add fd98::1/64 dev vA nodad"));
    wait_until("the cable has carrier", || sh("ip -brief link show vB").contains("LOWER_UP"));
}

/// Sends queries with kxdpgun, slower and slower until none is lost. Then both counts must be equal. The veth pair
/// drops frames when the machine takes the CPUs away for milliseconds. Even then the answers that pmdns counts must lie
/// between the queries sent and the answers received.
fn attack(target: &str, pmdns: &Pmdns) {
    let queries = path("queries");
    write_queries(&queries);
    for rate in RATES {
        let before = answered(pmdns);
        let (sent, replies) = shoot(target, rate, &queries);
        let answers = answered(pmdns) - before;
        assert!(replies <= answers && answers <= sent, "{replies} <= {answers} <= {sent}");
        if sent == replies {
            return;
        }
    }
    panic!("kxdpgun lost queries to {target} at each of {RATES:?} a second");
}

/// Queries answered so far, from the cache and by the slow path.
fn answered(pmdns: &Pmdns) -> u64 {
    settled(|| {
        let stats = pmdns.stats();
        stats.exits("encode", "transmit") + stats.slow_path("answered")
    })
}

/// One run of kxdpgun: queries and replies. All replies are right.
fn shoot(target: &str, rate: u64, queries: &Path) -> (u64, u64) {
    let report = sh(&format!(
        "ip netns exec client kxdpgun -t {SECONDS} -Q {rate} -b 10 -i {} {target} 2>&1",
        queries.display()
    ));
    let figure = |label: &str| -> u64 {
        let line = report.lines().find(|line| line.starts_with(label));
        let number = line.and_then(|line| line.split_whitespace().nth(2)).unwrap_or("");
        number.parse().unwrap_or_else(|_| panic!("no {label} in {report}"))
    };
    let (queries, replies) = (figure("total queries:"), figure("total replies:"));
    assert!(queries >= rate * SECONDS / 2, "{report}");
    assert_eq!(figure("responded NOERROR:"), replies, "{report}");
    println!("kxdpgun to {target} at {rate}/s: {queries} queries, {replies} replies, all NOERROR");
    (queries, replies)
}

fn write_queries(file: &Path) {
    let names = (0..NAMES).map(|number| format!("n{number}.bulk.test. A\n"));
    fs::write(file, names.collect::<String>()).unwrap();
}
