//! Processes take over from each other while clients ask over an AF_XDP port. No query is lost.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::af_xdp::{config, lay_cable};
use crate::handover::{DRAINS, EACH, TCP, UNDER_WAY, ask, ask_by, connect, longer, lost};
use crate::handover_ends::GOES_ON;
use crate::handover_tap::{ask_the_host, start_server};
use crate::harness::{isolated_alone, path, reserve_huge_pages, sh};
use crate::nsd;
use crate::pmdns::{IS_ALONE, Pmdns, run_to_failure};

/// Seconds in which clients ask.
const SECONDS: u32 = 20;
/// What a process says when it no longer needs a packet socket.
pub(crate) const OWN_SOCKETS: &str = "the ports over AF_XDP have their own sockets";
/// dnsperf at the other end of the cable.
const DNSPERF: &str = "ip netns exec client dnsperf";
const SERVER: &str = "10.98.0.2";

/// Programs that put a tag on a frame, with VLAN 7, and take it off (bpf-helpers(7)).
const TAGS: &str = r#"
#define SECTION(name) __attribute__((section(name), used))
static long (*vlan_push)(void *frame, unsigned short type, unsigned short id) = (void *)18;
static long (*vlan_pop)(void *frame) = (void *)19;
SECTION("tc_push") int put_on(void *frame) { return vlan_push(frame, __builtin_bswap16(0x8100), 7) != 0 ? 2 : 0; }
/* A frame without a tag (vlan_present) is dropped. */
SECTION("tc_pop") int take_off(void *frame) { return !((unsigned *)frame)[5] || vlan_pop(frame) ? 2 : 0; }
char licence[] SECTION("license") = "GPL";
"#;

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn processes_over_af_xdp_follow_each_other_and_no_query_is_lost() {
    lab("processes_over_af_xdp_follow_each_other_and_no_query_is_lost", 0, |first, config| {
        let mut running = first;
        for number in 0..longer("SECONDS", SECONDS) / EACH {
            thread::sleep(Duration::from_secs(1));
            running = running.hand_over(&format!("next-{number}"), config);
            running.wait_for(OWN_SOCKETS);
            running.wait_for_times("privileges: ", 1);
        }
        running
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn an_outgoing_process_takes_back_what_one_that_is_killed_had_over_af_xdp() {
    let name = "an_outgoing_process_takes_back_what_one_that_is_killed_had_over_af_xdp";
    lab(name, UNDER_WAY, |running, config| {
        // It drains as long as this is open.
        let mut open = connect();
        ask(&mut open);
        let next = Pmdns::launch_as("next", config);
        running.wait_for_times(DRAINS, 1);
        thread::sleep(Duration::from_secs(1));
        next.kill();
        running.wait_for_times(GOES_ON, 1);
        ask(&mut open);
        running
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn when_the_outgoing_process_is_killed_the_incoming_one_opens_its_sockets() {
    let name = "when_the_outgoing_process_is_killed_the_incoming_one_opens_its_sockets";
    lab(name, UNDER_WAY, |running, config| {
        let mut next = Pmdns::launch_held("next", config, "frozen");
        running.kill();
        next.signal("CONT");
        next.wait_for(IS_ALONE);
        next.wait_for(OWN_SOCKETS);
        next
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_kernel_that_has_the_address_answers_no_query_meanwhile() {
    lab("a_kernel_that_has_the_address_answers_no_query_meanwhile", 0, |first, config| {
        sh("ip address add 10.98.0.2/24 dev vB");
        let mut running = first;
        for number in 0..2 {
            running = running.hand_over(&format!("next-{number}"), config);
            running.wait_for(OWN_SOCKETS);
        }
        let errors = sh("ip netns exec client nstat -asz IcmpInDestUnreachs");
        let count =
            errors.split_whitespace().skip_while(|word| *word != "IcmpInDestUnreachs").nth(1);
        assert_eq!(count, Some("0"), "{errors}");
        sh("ip address flush dev vB");
        running
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_port_that_is_shared_with_the_kernel_passes_with_its_program() {
    let name = "a_port_that_is_shared_with_the_kernel_passes_with_its_program";
    let config = config().replace("addresses", "share_with_kernel = true\naddresses");
    let lay = || {
        lay_cable();
        sh(&format!("ip address add {SERVER}/24 dev vB"));
    };
    lab_over(name, 0, (lay, config), |first, config| {
        let _server = start_server(SERVER);
        let client = thread::spawn(|| ask_the_host(SERVER));
        let program = || sh("ip link show vB | grep -o 'prog/xdp id [0-9]*'");
        let (before, mut running) = (program(), first);
        for number in 0..longer("SECONDS", SECONDS) / EACH {
            thread::sleep(Duration::from_secs(1));
            running = running.hand_over(&format!("next-{number}"), config);
            running.wait_for(OWN_SOCKETS);
        }
        assert_eq!(program(), before, "it was never taken off");
        fs::write("/run/lab/over", "").unwrap();
        let asked = client.join().unwrap();
        println!("{asked:?}");
        assert_eq!((asked.lost, asked.doubled), (0, 0), "{asked:?}");
        let errors = sh("ip netns exec client nstat -asz IcmpInDestUnreachs");
        let errors = errors.split("IcmpInDestUnreachs").nth(1).unwrap();
        assert_eq!(errors.split_whitespace().next(), Some("0"), "the kernel answers no query");
        for other in [
            config.replace("10.98.0.2/24", "10.98.0.9/24"),
            config.replace("share_with_kernel = true", ""),
        ] {
            let (code, said) = run_to_failure(&other);
            assert_ne!(code, Some(0), "{said}");
            assert!(said.contains("so `share_with_kernel`, `addresses`"), "{said}");
        }
        running
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn processes_whose_clients_have_tags_follow_each_other_and_no_query_is_lost() {
    let name = "processes_whose_clients_have_tags_follow_each_other_and_no_query_is_lost";
    let config = config().replace("addresses", "vlans = [7]\naddresses");
    lab_over(name, 0, (lay_cable_with_tags, config), |first, config| {
        let mut running = first;
        for number in 0..longer("SECONDS", SECONDS) / EACH {
            thread::sleep(Duration::from_secs(1));
            running = running.hand_over(&format!("next-{number}"), config);
            running.wait_for(OWN_SOCKETS);
        }
        running
    });
}

/// A cable whose client puts a tag on what it sends, and takes one off what it gets. Not every kernel has interfaces for VLANs.
fn lay_cable_with_tags() {
    lay_cable();
    // XDP sees no tag that stands beside the frame.
    sh("ip netns exec client ethtool -K vA rxvlan off txvlan off");
    let (source, object) = (path("tags.c"), path("tags.o"));
    fs::write(&source, TAGS).unwrap();
    let object = object.display();
    sh(&format!("clang -target bpf -O2 -c {} -o {object}", source.display()));
    sh("ip netns exec client tc qdisc add dev vA clsact");
    for (way, section) in [("egress", "tc_push"), ("ingress", "tc_pop")] {
        let filter = format!("filter add dev vA {way} bpf direct-action obj {object}");
        // `ip netns exec` would hide the file system of programs.
        sh(&format!("nsenter --net=/run/netns/client tc {filter} sec {section}"));
    }
}

fn lab(name: &str, most: u32, story: impl FnOnce(Pmdns, &str) -> Pmdns) {
    lab_over(name, most, (lay_cable, config()), story);
}

/// Runs `story` from the first process to the one that is left, while clients ask over the cable. At most so many queries are lost.
/// Who is left hands over, and leaves no program on the interface.
fn lab_over(
    name: &str,
    most: u32,
    (lay, config): (impl FnOnce(), String),
    story: impl FnOnce(Pmdns, &str) -> Pmdns,
) {
    isolated_alone(&format!("handover_xdp::{name}"), || {
        reserve_huge_pages(1024);
        lay();
        let _nsd = nsd::start();
        let streams = format!("\n[streams]\ntcp = [\"{TCP}\"]\n");
        let acl = "\n[acl]\nallow = [\"10.0.0.0/8\", \"127.0.0.0/8\"]\n";
        let config = format!("{config}{streams}{acl}");
        let first = Pmdns::start(&config);
        sh("ip netns exec client ping -c 2 -W 5 10.98.0.2");
        let (report, left) = thread::scope(|threads| {
            let seconds = longer("SECONDS", SECONDS);
            let udp = threads.spawn(move || ask_by(DNSPERF, SERVER, seconds));
            let left = story(first, &config);
            ask(&mut connect());
            (udp.join().unwrap(), left)
        });
        println!("{} lost, {most} are the most\n{report}", lost(&report));
        assert!(lost(&report) <= most, "{report}");
        let last = left.hand_over("last", &config);
        sh("ip netns exec client ping -c 2 -W 5 10.98.0.2");
        last.stop();
        assert!(!sh("ip link show vB").contains("xdp"), "no program is left on the interface");
    });
}
