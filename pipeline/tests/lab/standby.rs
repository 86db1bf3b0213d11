//! Two nodes with one address, by docs/tasks/pair.md: keepalived decides which one has it. They share a bridge with their clients.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::dig::dig;
use crate::handover::{ask_over_the_port, lost};
use crate::harness::{isolated, path, sh, wait_until};
use crate::keeper::first_answer;
use crate::nsd;
use crate::pmdns::{BINARY, COMMON, Pmdns, TAP_PORT, TAP_V4, TAP_V6, run, upstream};
use crate::process::Process;

const PAGE: &str = include_str!("../../../docs/tasks/pair.md");
/// Seconds in which clients ask.
const SECONDS: u32 = 8;
/// What a node says when it claims its addresses.
const ACTIVE: &str = "active: the addresses are announced";

/// A node: pmdns on a port of the bridge, and keepalived beside it.
struct Node {
    name: &'static str,
    pmdns: Pmdns,
    config: String,
}

impl Node {
    /// It stands by until it is told otherwise.
    fn start(name: &'static str) -> Self {
        let port = TAP_PORT.replace("pm0", name).replace(":aa", &format!(":a{}", &name[2..]));
        let common = COMMON.replace("pmdns.sock", &format!("{name}.sock"));
        let config = format!("{port}{common}{}{}", block("toml"), upstream(nsd::PORT));
        let mut pmdns = Pmdns::launch_as(name, &config);
        pmdns.wait_for(" ready");
        sh(&format!("ip link set {name} up master bridge"));
        Self { name, pmdns, config }
    }

    fn tell(&self, call: &str) {
        let output = run(&[call, "--socket", &format!("/run/lab/{}.sock", self.name)]);
        assert!(output.status.success(), "{call}: {output:?}");
    }

    /// Another process takes over from it.
    fn upgraded(self) -> Self {
        let pmdns = self.pmdns.hand_over(&format!("{}-next", self.name), &self.config);
        Self { pmdns, ..self }
    }

    /// A namespace for keepalived, with an interface on the bridge.
    fn lay_cable(&self, host: u8) {
        let name = self.name;
        sh(&format!("ip netns add {name} && ip -n {name} link set lo up"));
        sh(&format!("ip link add v{name} type veth peer name eth0 netns {name}"));
        sh(&format!("ip link set v{name} up master bridge && ip -n {name} link set eth0 up"));
        sh(&format!("ip -n {name} address add 10.98.0.{host}/24 dev eth0"));
    }

    fn keepalived(&self, priority: u8) -> Process {
        let name = self.name;
        let script = path(&format!("{name}-role"));
        let asks =
            format!("#!/bin/sh\npmdns() {{ {BINARY} \"$@\" --socket /run/lab/{name}.sock; }}");
        let role = block("sh")
            .replace("#!/bin/sh", &asks)
            .replace("exec pmdns", "pmdns")
            .replace("/run/pmdns-role", &format!("/run/lab/{name}.role"));
        fs::write(&script, role).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let config = path(&format!("{name}.keepalived"));
        let text = block("text")
            .replace("/etc/keepalived/pmdns-role", script.to_str().unwrap())
            .replace("priority 150", &format!("priority {priority}"));
        fs::write(&config, text).unwrap();
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            name,
            "keepalived",
            "--dont-fork",
            "--log-console",
            "--vrrp",
        ]);
        command.arg("--use-file").arg(&config);
        for file in ["--pid", "--vrrp_pid"] {
            command.arg(file).arg(path(&format!("{name}{file}")));
        }
        Process::start(&format!("{name}-keepalived-{priority}"), &mut command)
    }
}

/// The first block of the page in this language.
fn block(language: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("```{language}\n")).expect("the page has the block");
    rest.split_once("```").expect("the block ends").0
}

/// Clients sit on the bridge itself. It has an address of its own: DPDK sets that of a TAP again in a hand-over.
fn lay_bridge() {
    sh(
        "ip link add bridge address 02:00:00:00:00:01 type bridge && ip address add 10.97.0.1/24 dev bridge",
    );
    sh("ip address add fd97::1/64 dev bridge nodad && ip link set bridge up");
}

/// Clients ask over IPv4 and IPv6.
fn ask_both() {
    for address in [TAP_V4, TAP_V6] {
        dig(address, "n1.bulk.test A");
    }
}

/// Whether neighbours are told that the address is here, and by whom.
fn neighbour() -> String {
    sh(&format!(
        "ip neigh flush dev bridge; ping -c 1 -W 1 {TAP_V4} > /dev/null; ip neigh show {TAP_V4}"
    ))
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn the_node_that_is_told_so_has_the_addresses() {
    isolated("standby::the_node_that_is_told_so_has_the_addresses", || {
        let _nsd = nsd::start();
        lay_bridge();
        let (one, other) = (Node::start("pm1"), Node::start("pm2"));
        assert!(!neighbour().contains("02:00:00"), "both stand by");
        one.tell("activate");
        assert!(neighbour().contains("02:00:00:00:00:a1"));
        let report = thread::scope(|threads| {
            let clients = threads.spawn(|| ask_over_the_port(SECONDS));
            for active in [&other, &one, &other] {
                thread::sleep(Duration::from_secs(1));
                active.tell("activate");
                let standby = if active.name == one.name { &other } else { &one };
                standby.tell("standby");
            }
            clients.join().unwrap()
        });
        assert_eq!(lost(&report), 0, "{report}");
        ask_both();
        assert!(neighbour().contains("02:00:00:00:00:a2"));
        // The next process has the role of the one before.
        let (one, other) = (one.upgraded(), other.upgraded());
        ask_both();
        assert!(neighbour().contains("02:00:00:00:00:a2"));
        assert!(!one.pmdns.log().contains(ACTIVE), "{}", one.pmdns.log());
        other.pmdns.stop();
        one.pmdns.stop();
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn keepalived_switches_from_one_node_to_the_other() {
    isolated("standby::keepalived_switches_from_one_node_to_the_other", || {
        let _nsd = nsd::start();
        lay_bridge();
        let (mut one, mut other) = (Node::start("pm1"), Node::start("pm2"));
        one.lay_cable(1);
        other.lay_cable(2);
        let mut first = one.keepalived(150);
        one.pmdns.wait_for(ACTIVE);
        let second = other.keepalived(100);
        // In good order.
        let report = thread::scope(|threads| {
            let clients = threads.spawn(|| ask_over_the_port(SECONDS));
            thread::sleep(Duration::from_secs(2));
            first.signal("TERM");
            other.pmdns.wait_for(ACTIVE);
            clients.join().unwrap()
        });
        println!("keepalived was stopped\n{report}");
        assert_eq!(lost(&report), 0, "{report}");
        first.wait();
        assert!(one.pmdns.log().contains("standby: another node"), "{}", one.pmdns.log());
        // It comes back with the higher priority, and then its node dies.
        let _first = one.keepalived(200);
        one.pmdns.wait_for_times(ACTIVE, 2);
        other.pmdns.wait_for("standby: another node");
        let begun = Instant::now();
        one.pmdns.signal("KILL");
        sh("ip link set vpm1 down");
        first_answer();
        println!("the active node has died; the other one answers after {:?}", begun.elapsed());
        other.pmdns.wait_for_times(ACTIVE, 2);
        // A data core announces them a moment later.
        let known = || sh(&format!("ip neigh show {TAP_V4}; ip neigh show {TAP_V6}"));
        wait_until("clients know where they are", || !known().contains("02:00:00:00:00:a1"));
        ask_both();
        drop(second);
        other.pmdns.stop();
    });
}
