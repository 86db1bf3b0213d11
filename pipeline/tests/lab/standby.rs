//! Two nodes with one address, by docs/tasks/pair.md: keepalived decides which one has it. They share a bridge with their clients.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::dig::dig;
use crate::handover::{ask_over_the_port, lost};
use crate::harness::{isolated, path, sh, wait_for_value, wait_until};
use crate::nsd;
use crate::pair_client::{Answers, ask_beside, who_answers};
use crate::pmdns::{
    BINARY, COMMON, IS_ALONE, Pmdns, TAP_PORT, TAP_V4, TAP_V6, interface_exists, run, upstream,
};
use crate::process::Process;

const PAGE: &str = include_str!("../../../docs/tasks/pair.md");
/// Seconds in which other clients ask, while operators switch and while keepalived does.
const SECONDS: [u32; 2] = [8, 20];
/// A second port of each node, which is in a VLAN too.
const SECOND_PORT: &str = r#"
[[port]]
name = "second"
device = "net_tap1,iface=pm0b,mac=02:00:00:00:01:aa"
addresses = ["10.96.0.2/24"]
vlans = ["untagged", 7]
"#;
/// Where clients have neighbours: interfaces, and addresses of both nodes.
const PLACES: [(&str, &str); 3] = [("bridge", TAP_V4), ("bridge", TAP_V6), ("second", "10.96.0.2")];
/// What a node says when it claims its addresses.
const ACTIVE: &str = "active: the addresses are announced";
/// What it says when it does not any more.
const STANDS_BY: &str = "standby: another node";

/// A node: pmdns on a port of the bridge, and keepalived beside it.
struct Node {
    name: &'static str,
    pmdns: Pmdns,
    config: String,
}

impl Node {
    /// It stands by until it is told otherwise.
    fn start(name: &'static str) -> Self {
        let config = Self::config(name);
        let mut pmdns = Pmdns::launch_as(name, &config);
        pmdns.wait_for(" ready");
        Self::on_the_bridge(name, pmdns, config)
    }

    /// The same with a keeper, whose file no node may write after it.
    fn start_kept(name: &'static str) -> Self {
        let config = Self::config(name);
        Self::on_the_bridge(name, Pmdns::start_kept(&config), config)
    }

    /// It says its name to those who ask for that.
    fn config(name: &str) -> String {
        let ports = format!("{TAP_PORT}{SECOND_PORT}")
            .replace("pm0", name)
            .replace(":aa", &format!(":a{}", &name[2..]));
        let common = COMMON.replace("pmdns.sock", &format!("{name}.sock"));
        let answers = format!("\n[answers]\nidentity = \"{name}\"\n");
        format!("{ports}{common}{answers}{}{}", block("toml"), upstream(nsd::PORT))
    }

    fn on_the_bridge(name: &'static str, pmdns: Pmdns, config: String) -> Self {
        sh(&format!("ip link set {name} up master bridge; ip link set {name}b up master second"));
        Self { name, pmdns, config }
    }

    /// Makes a call, and returns what is said.
    fn tell(&self, call: &[&str]) -> String {
        let output = run(&[call, &["--socket", &format!("/run/lab/{}.sock", self.name)]].concat());
        assert!(output.status.success(), "{call:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The process that serves.
    fn process(&self) -> u64 {
        let state: serde_json::Value =
            serde_json::from_str(&self.tell(&["state", "--json"])).unwrap();
        state["process"].as_u64().unwrap()
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
            .replace("/run/pmdns-role", &format!("/run/lab/{name}.role"));
        fs::write(&script, role).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let config = path(&format!("{name}.keepalived"));
        let text = block("text")
            .replace("/etc/keepalived/pmdns-role", script.to_str().unwrap())
            .replace("priority 250", &format!("priority {priority}"));
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

/// Clients sit on bridges themselves. Each has an address of its own: DPDK sets that of a TAP again in a hand-over.
fn lay_bridge() {
    sh(
        "ip link add bridge address 02:00:00:00:00:01 type bridge && ip address add 10.97.0.1/24 dev bridge",
    );
    sh("ip address add fd97::1/64 dev bridge nodad && ip link set bridge up");
    sh("ip link add second address 02:00:00:00:01:01 type bridge && ip link set second up");
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

/// All clients take this node for the active one. They do not ask.
fn mislead_to(node: &Node) {
    for (device, address) in PLACES {
        let mac = if device == "bridge" { "02:00:00:00:00:a" } else { "02:00:00:00:01:a" };
        let mac = format!("{mac}{}", &node.name[2..]);
        sh(&format!("ip neigh replace {address} lladdr {mac} dev {device} nud reachable"));
    }
}

/// What is announced in the VLAN of the second port, a line for each announcement.
struct Announced(Process);

impl Announced {
    fn start() -> Self {
        let mut tshark = Command::new("tshark");
        tshark.args(["-l", "-n", "-i", "second", "-Y", "arp && vlan.id == 7", "-T", "fields"]);
        tshark.args(["-e", "arp.src.proto_ipv4", "-e", "arp.src.hw_mac"]);
        let mut tshark = Process::start("tshark", &mut tshark);
        tshark.wait_for("Capturing on");
        Self(tshark)
    }

    fn times(&self, node: &Node) -> usize {
        let line = format!("10.96.0.2\t02:00:00:00:01:a{}", &node.name[2..]);
        self.0.log().matches(&line).count()
    }
}

/// Waits until all of them have heard of this node.
fn wait_until_known(node: &Node) {
    let end = format!(":a{}", &node.name[2..]);
    for (device, address) in PLACES {
        wait_until(&format!("{address} on {device} is known at {}", node.name), || {
            sh(&format!("ip neigh show {address} dev {device}")).contains(&end)
        });
    }
}

/// Waits until this node answers clients.
fn wait_for_answers_of(node: &str) {
    wait_for_value("a node answers", Some(node.to_owned()), who_answers);
}

/// A client asks while `how` has another node answer, or the same one again.
fn switch(what: &str, from: &str, to: &str, how: impl FnOnce()) -> Answers {
    wait_for_answers_of(from);
    let (answers, ()) = ask_beside(|| {
        thread::sleep(Duration::from_millis(100));
        how();
        wait_for_answers_of(to);
        thread::sleep(Duration::from_millis(100));
    });
    println!("{what}: {answers}");
    assert!([from, to].iter().all(|node| answers.nodes().contains(node)), "{what}: {answers}");
    answers
}

/// The same in good order: nothing is lost.
fn switch_in_order(what: &str, from: &str, to: &str, how: impl FnOnce()) -> Answers {
    let answers = switch(what, from, to, how);
    assert_eq!(answers.lost(), 0, "{what}: {answers}");
    answers
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn the_node_that_is_told_so_has_the_addresses() {
    isolated("standby::the_node_that_is_told_so_has_the_addresses", || {
        let _nsd = nsd::start();
        lay_bridge();
        let (one, other) = (Node::start("pm1"), Node::start("pm2"));
        assert!(!neighbour().contains("02:00:00"), "both stand by");
        one.tell(&["activate"]);
        assert!(neighbour().contains("02:00:00:00:00:a1"));
        let announced = Announced::start();
        let report = thread::scope(|threads| {
            let clients = threads.spawn(|| ask_over_the_port(SECONDS[0]));
            for (active, standby) in [(&other, &one), (&one, &other), (&other, &one)] {
                thread::sleep(Duration::from_secs(1));
                mislead_to(standby);
                let before = announced.times(active);
                switch_in_order("a node is told", standby.name, active.name, || {
                    active.tell(&["activate"]);
                    wait_until_known(active);
                    wait_until("the VLAN knows", || announced.times(active) > before);
                    standby.tell(&["standby"]);
                });
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
        announces_when_its_interfaces_are_back(&other, &one);
        other.pmdns.stop();
        one.pmdns.stop();
    });
}

/// Clients take another node for the active one while its interfaces are down or elsewhere.
fn announces_when_its_interfaces_are_back(active: &Node, other: &Node) {
    let name = active.name;
    sh("ip netns add away");
    for (times, goes, comes) in [
        (1, format!("ip link set {name} down"), format!("ip link set {name} up")),
        (
            2,
            format!("ip link set {name} netns away"),
            format!("ip -n away link set {name} netns 1 && ip link set {name} up master BRIDGE"),
        ),
    ] {
        let both = |text: &str| {
            sh(&text.replace("BRIDGE", "bridge"));
            sh(&text.replace(name, &format!("{name}b")).replace("BRIDGE", "second"));
        };
        both(&goes);
        active.pmdns.wait_for_times("the link is down", 2 * times);
        mislead_to(other);
        both(&comes);
        wait_until_known(active);
    }
}

/// Two nodes, the first one with a keeper, and keepalived on each. The first one is active.
fn start_pair() -> ([Node; 2], [Process; 2]) {
    lay_bridge();
    let other = Node::start("pm2");
    let one = Node::start_kept("pm1");
    one.lay_cable(1);
    other.lay_cable(2);
    let first = one.keepalived(250);
    one.pmdns.wait_for_times(ACTIVE, 1);
    let second = other.keepalived(240);
    ([one, other], [first, second])
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn an_orderly_switch_by_keepalived_loses_nothing() {
    isolated("standby::an_orderly_switch_by_keepalived_loses_nothing", || {
        let _nsd = nsd::start();
        let ([one, other], [mut first, second]) = start_pair();
        let report = thread::scope(|threads| {
            let clients = threads.spawn(|| ask_over_the_port(SECONDS[1]));
            switch_in_order("keepalived is stopped", "pm1", "pm2", || first.signal("TERM"));
            first.wait();
            one.pmdns.wait_for_times(STANDS_BY, 1);
            let mut first = None;
            switch_in_order("keepalived is started", "pm2", "pm1", || {
                first = Some(one.keepalived(250));
            });
            for (what, call) in [("drained", "drain"), ("resumed", "resume")] {
                let (from, to) = if call == "drain" { ("pm1", "pm2") } else { ("pm2", "pm1") };
                switch_in_order(&format!("the first node is {what}"), from, to, || {
                    one.tell(&[call]);
                });
            }
            for (state, from, to) in [("down", "pm1", "pm2"), ("up", "pm2", "pm1")] {
                switch_in_order(&format!("one of its ports is {state}"), from, to, || {
                    sh(&format!("ip link set pm1b {state}"));
                });
            }
            other.pmdns.wait_for_times(STANDS_BY, 3);
            upgrade(&one, &first.unwrap(), &second);
            clients.join().unwrap()
        });
        println!("{report}");
        assert_eq!(lost(&report), 0, "{report}");
        drop(second);
        other.pmdns.stop();
    });
}

/// The node that is active is upgraded, and keeps its role. On a machine with much to do keepalived may miss an advertisement.
fn upgrade(one: &Node, first: &Process, second: &Process) {
    let counts = || {
        let count = |process: &Process, text: &str| process.log().matches(text).count();
        (count(first, "VRRP_Script(pmdns) failed"), count(second, "Entering MASTER STATE"))
    };
    let (failed, switched) = counts();
    let answers = switch_in_order("it is upgraded", "pm1", "pm1", || {
        assert!(one.tell(&["upgrade"]).contains("has taken over as process"));
        one.pmdns.wait_for_times(IS_ALONE, 1);
        // keepalived has checked the next process by then.
        thread::sleep(Duration::from_secs(2));
    });
    let now = counts();
    assert_eq!(now.0, failed, "it is fit all the time");
    assert!(answers.nodes() == ["pm1"] || now.1 > switched, "it keeps its role: {answers}");
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn the_other_node_answers_when_the_active_one_dies() {
    isolated("standby::the_other_node_answers_when_the_active_one_dies", || {
        let _nsd = nsd::start();
        let ([one, other], [_first, second]) = start_pair();
        switch("pmdns is killed, its keeper lives", "pm1", "pm1", || {
            sh(&format!("kill -KILL {}", one.process()));
            // keepalived tells the next process.
            one.pmdns.wait_for_times(ACTIVE, 2);
        });
        switch("pmdns and its keeper are killed", "pm1", "pm2", || {
            sh(&format!("kill -KILL {} {}", one.pmdns.id(), one.process()));
        });
        drop(one);
        wait_until("its port is gone", || !interface_exists("pm1"));
        let mut one = None;
        switch_in_order("pmdns is started again", "pm2", "pm1", || {
            one = Some(Node::start("pm1"));
        });
        let one = one.unwrap();
        other.pmdns.wait_for_times(STANDS_BY, 1);
        switch("the active node dies", "pm1", "pm2", || {
            sh(&format!("kill -KILL {}; ip link set vpm1 down", one.pmdns.id()));
        });
        let known = || sh(&format!("ip neigh show {TAP_V4}; ip neigh show {TAP_V6}"));
        wait_until("clients know where they are", || !known().contains("02:00:00:00:00:a1"));
        ask_both();
        drop(second);
        other.pmdns.stop();
    });
}
