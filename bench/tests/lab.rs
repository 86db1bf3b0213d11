//! The load generator against the real pmdns over virtio-user, with NSD upstream: every answer must be right. And against
//! Unbound on the kernel's end of a TAP, with the generator itself upstream.
//!
//! Needs root, huge pages, and pmdns built with the same profile as this test. Run
//! `cargo test -p pmdns -p pmdns-bench --test lab -- --ignored --nocapture`.
//! Its harness is shared with pmdns's own labs.

#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![allow(dead_code, reason = "the helpers are shared with labs that use more of them")]

#[path = "../../pipeline/tests/lab/harness.rs"]
mod harness;
#[path = "../../pipeline/tests/lab/messages.rs"]
mod messages;
#[path = "../../pipeline/tests/lab/nsd.rs"]
mod nsd;
#[path = "../../pipeline/tests/lab/process.rs"]
mod process;

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::{HUGE_FOLDER, binary, isolated_alone, path, reserve_huge_pages, sh, wait_until};
use process::Process;

const SOCKET: &str = "/run/lab/vhost.sock";
/// Names of the zone.
const NAMES: usize = 500;
/// Queries per second and seconds: few enough for one core that everybody shares.
const RATE: &str = "2000";
const SECONDS: &str = "2";

fn config() -> String {
    format!(
        r#"
[eal]
args = ["--no-pci", "--in-memory", "--single-file-segments", "-m", "128", "--huge-dir", "{HUGE_FOLDER}"]
[[port]]
name = "virtio"
device = "net_virtio_user0,path={SOCKET},queues=1,queue_size=1024,mac=02:00:00:00:00:bb"
addresses = ["10.77.0.2/16"]
[[placement]]
cores = [1]
idle = "adaptive"
[[upstream]]
address = "127.0.0.1:{}"
[acl]
allow = ["10.77.0.0/16"]
[control]
socket = "/run/lab/pmdns.sock"
[cache]
size = "32MiB"
pages = "normal"
"#,
        nsd::PORT
    )
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn every_answer_of_pmdns_is_right() {
    isolated_alone("every_answer_of_pmdns_is_right", || {
        reserve_huge_pages(512);
        let mut zone = Vec::new();
        pmdns_bench::write_zone(&mut zone, NAMES).unwrap();
        let _nsd = nsd::serve(&[("example", std::str::from_utf8(&zone).unwrap())]);
        fs::write(path("pmdns.toml"), config()).unwrap();

        let (mut load, report) = (start_load(), path("report.json"));
        wait_until("the generator makes its socket", || Path::new(SOCKET).exists());
        let mut pmdns = Command::new(binary("pmdns"));
        let mut pmdns = Process::start("pmdns", pmdns.args(["run", "-c", "/run/lab/pmdns.toml"]));
        let status = load.wait();
        pmdns.signal("TERM");
        pmdns.wait();
        println!("{}", load.log());

        // 3: a machine so busy that the load was not offered says nothing against pmdns.
        assert!(matches!(status.code(), Some(0 | 3)), "the generator ended with {status}");
        let report: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
        assert_eq!(report["warm_up"]["unanswered"], 0);
        let phase = &report["phases"][0];
        assert_eq!((&phase["wrong"], &phase["unexpected"]), (&0.into(), &0.into()));
        assert!(phase["good"].as_u64() > Some(100), "{phase}");
        let kinds = phase["kinds"].as_array().unwrap();
        assert_eq!(kinds.len(), 5, "each kind was asked");
        let answered = |kind: &&serde_json::Value| kind["good"].as_u64() > Some(0);
        assert_eq!(kinds.iter().filter(answered).count(), 5, "and answered: {kinds:?}");
    });
}

fn start_load() -> Process {
    let mut command = Command::new(binary("pmdns-load"));
    command
        .args(["run", "--rate", RATE, "--seconds", SECONDS, "--names", &NAMES.to_string()])
        .args(["--mix", "hit=80,miss=5,nxdomain=5,malformed=5,random-prefix=5", "--zipf", "0.9"])
        .args(["--edns", "1232", "--checksums", "all", "--core", "0"])
        .args([
            "--eal",
            &format!("--no-pci --in-memory -m 128 --huge-dir {HUGE_FOLDER} --file-prefix=load"),
        ])
        .args(["--device", &format!("net_vhost0,iface={SOCKET},queues=1")])
        .args(["--json", "/run/lab/report.json"]);
    Process::start("load", &mut command)
}

/// Unbound on the kernel's end of the link, which asks the upstreams that the generator plays.
const UNBOUND: &str = r#"
server:
    interface: 10.77.0.2
    access-control: 10.77.0.0/16 allow
    outgoing-interface: 10.77.0.2
    outgoing-interface: fd77::2
    username: ""
    chroot: ""
    directory: "/run/lab"
    pidfile: "/run/lab/unbound.pid"
    use-syslog: no
    module-config: "iterator"
    num-threads: 1
forward-zone:
    name: "."
    forward-addr: 10.77.0.9
    forward-addr: fd77::9
"#;

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn unbound_gets_right_answers_from_the_generator() {
    isolated_alone("unbound_gets_right_answers_from_the_generator", || {
        fs::write(path("unbound.conf"), UNBOUND).unwrap();
        let mut command = Command::new(binary("pmdns-load"));
        command
            .args(["run", "--rate", "500", "--seconds", SECONDS, "--names", "100"])
            .args(["--mix", "hit=1,miss=4,nxdomain=1,random-prefix=1", "--edns", "1232"])
            .args(["--checksums", "all", "--timeout-ms", "5000"])
            .args(["--eal", "--no-pci --no-huge --no-shconf --no-telemetry -m 256"])
            .args(["--device", "net_tap0,iface=lab0", "--json", "/run/lab/report.json"])
            .args(["--upstream", "10.77.0.9", "--upstream", "fd77::9"])
            .args(["--upstream-delay-us", "2000"]);
        let mut load = Process::start("load", &mut command);
        wait_until("the generator makes its interface", || {
            Path::new("/sys/class/net/lab0").exists()
        });
        sh("ip addr add 10.77.0.2/16 dev lab0 && ip addr add fd77::2/64 dev lab0 nodad");
        sh("ip link set lab0 up");
        let mut unbound = Command::new("/usr/sbin/unbound");
        let unbound = unbound.args(["-d", "-c", "/run/lab/unbound.conf"]);
        let _unbound = Process::start("unbound", unbound);
        let status = load.wait();
        println!("{}", load.log());

        assert!(matches!(status.code(), Some(0 | 3)), "the generator ended with {status}");
        let report = fs::read_to_string(path("report.json")).unwrap();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["warm_up"]["unanswered"], 0);
        let phase = &report["phases"][0];
        assert_eq!((&phase["wrong"], &phase["lost"]), (&0.into(), &0.into()), "{phase}");
        let upstream = &phase["upstream"];
        assert_eq!((&upstream["damaged"], &upstream["strange"]), (&0.into(), &0.into()));
        assert_eq!(upstream["queries"], upstream["answers"]);
        assert!(upstream["queries"].as_u64() > Some(100), "{upstream}");
        let latency = |kind: usize| phase["kinds"][kind]["latency_us"]["p50"].as_f64().unwrap();
        assert!(latency(1) >= 2000.0 && latency(0) < latency(1), "misses wait for the upstream");
    });
}
