//! The load generator against the real pmdns over virtio-user, with NSD upstream: every answer must be right.
//!
//! Needs root, huge pages, and both binaries built with the same profile as this test:
//! `cargo build --release -p pmdns -p pmdns-bench --bins && cargo test --release -p pmdns-bench --test lab --
//! --ignored --nocapture`. What it stands on is shared with pmdns's own labs.

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
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{HUGE_FOLDER, isolated, path, reserve_huge_pages, wait_until};
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

/// A program built beside this test.
fn binary(name: &str) -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let file = this.parent().and_then(Path::parent).unwrap().join(name);
    assert!(file.exists(), "{} is missing: cargo build --release --bins", file.display());
    file
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn every_answer_of_pmdns_is_right() {
    isolated("every_answer_of_pmdns_is_right", || {
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
