//! Processes take over from each other on a port whose device one process at a time can have. One closes it, and the next one opens
//! it. Clients are at the other end, which stays. They lose what is under way meanwhile.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::handover::longer;
use crate::handover_ends::GOES_ON;
use crate::harness::{
    HUGE_FOLDER, binary, isolated_alone, path, reserve_huge_pages, sh, wait_until,
};
use crate::nsd;
use crate::pmdns::{COMMON, IS_ALONE, Pmdns, run_to_failure, upstream};
use crate::process::Process;
use crate::testpmd::SOCKET;

/// Questions a second, and seconds of them.
const RATE: u32 = 10_000;
const SECONDS: u32 = 6;
/// Seconds of a load that is ended once its story is over.
const UNTIL_ENDED: u32 = 60;
/// Names that are asked again and again.
const NAMES: u64 = 500;
/// Milliseconds whose questions may have no answer. It is far less, unless others have the machine.
const MOST: u64 = 1000;
/// Seconds of a load that is over before its link is left: a process stays as long as something comes.
const BRIEFLY: u32 = 8;
/// Another link.
const OTHER_SOCKET: &str = "/run/lab/other.sock";
/// What a process says that has its ports again.
const OPEN_AGAIN: &str = "the ports that were closed are open again";

/// The two ends of a link, as devices.
struct Ends {
    clients: String,
    pmdns: String,
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_process_over_memif_opens_what_the_one_before_has_closed() {
    let name = "a_process_over_memif_opens_what_the_one_before_has_closed";
    lab(name, &memif(SOCKET), (SECONDS, MOST), follow);
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_process_over_virtio_user_opens_what_the_one_before_has_closed() {
    let name = "a_process_over_virtio_user_opens_what_the_one_before_has_closed";
    lab(name, &virtio_user(), (SECONDS, MOST), follow);
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_process_opens_its_port_again_when_the_next_one_is_killed_before_it_has_it() {
    let name = "a_process_opens_its_port_again_when_the_next_one_is_killed_before_it_has_it";
    lab(name, &memif(SOCKET), (UNTIL_ENDED, MOST), |running, config| {
        Pmdns::launch_held("killed", config, "opening").kill();
        running.wait_for_times(GOES_ON, 1);
        running.wait_for_times(OPEN_AGAIN, 1);
        await_queries(&running);
        running
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_process_opens_the_port_when_the_one_before_is_killed_that_has_it() {
    let name = "a_process_opens_the_port_when_the_one_before_is_killed_that_has_it";
    lab(name, &virtio_user(), (UNTIL_ENDED, MOST), |running, config| {
        let mut next = Pmdns::launch_held("next", config, "serving");
        running.kill();
        next.signal("CONT");
        next.wait_for(IS_ALONE);
        await_queries(&next);
        next
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn other_options_of_a_device_are_refused_and_another_device_is_opened() {
    let name = "other_options_of_a_device_are_refused_and_another_device_is_opened";
    lab(name, &memif(SOCKET), (BRIEFLY, MOST), |running, config| {
        let (code, said) = run_to_failure(&config.replace("socket=", "bsize=4096,socket="));
        assert_eq!(code, Some(5), "{said}");
        assert!(said.contains("other options of its device cannot pass"), "{said}");
        await_queries(&running);
        let other = memif(OTHER_SOCKET);
        let mut load = start_load("other", &other, UNTIL_ENDED, OTHER_SOCKET);
        let next = follow(running, &config.replace(SOCKET, OTHER_SOCKET));
        load.signal("TERM");
        load.wait();
        count("other", MOST);
        next
    });
}

/// Runs `story` from the first process to the one that is left, while clients ask for so many seconds. Each answer is right, and at
/// most so many are missing.
fn lab(
    name: &str,
    ends: &Ends,
    (seconds, most): (u32, u64),
    story: impl FnOnce(Pmdns, &str) -> Pmdns,
) {
    isolated_alone(&format!("handover_reopened::{name}"), || {
        reserve_huge_pages(768);
        let zone = sh(&format!("{} zone --names {NAMES}", binary("pmdns-load").display()));
        let _nsd = nsd::serve(&[("example", &zone)]);
        let mut load = start_load("load", ends, seconds, SOCKET);
        let config = config(&ends.pmdns);
        let first = Pmdns::start(&config);
        await_queries(&first);
        let left = story(first, &config);
        if seconds == UNTIL_ENDED {
            load.signal("TERM");
        }
        load.wait();
        println!("{}", load.log());
        count("load", most);
        left.stop();
    });
}

/// The next process takes over, and clients ask it.
fn follow(running: Pmdns, config: &str) -> Pmdns {
    let next = running.hand_over("next", config);
    await_queries(&next);
    next
}

/// Waits until clients ask this process, and have asked for all names.
fn await_queries(serving: &Pmdns) {
    let before = serving.stats().total("received");
    let more = 2 * NAMES;
    wait_until("queries come", || serving.stats().total("received") > before + more);
}

/// Starts clients at one end of a link, which make its socket.
fn start_load(name: &str, ends: &Ends, seconds: u32, socket: &str) -> Process {
    let mut command = Command::new(binary("pmdns-load"));
    // The driver of memif takes the rings away in a thread of its own, which must not stop the one that polls in the middle.
    let eal =
        format!("-l 0 --no-pci --in-memory -m 128 --huge-dir {HUGE_FOLDER} --file-prefix={name}");
    command
        .args(["run", "--rate", &rate().to_string(), "--seconds", &seconds.to_string()])
        .args(["--names", &NAMES.to_string(), "--checksums", "all"])
        .args(["--eal", &eal, "--device", &ends.clients])
        .arg("--json")
        .arg(path(&format!("{name}.json")));
    let mut load = Process::start(name, &mut command);
    wait_until("clients make their socket", || {
        assert!(load.child().try_wait().unwrap().is_none(), "{}", load.log());
        Path::new(socket).exists()
    });
    load
}

fn rate() -> u64 {
    longer("RATE", RATE).into()
}

/// Counts what a load that has ended has got. No answer was wrong, and so many milliseconds at most are missing.
fn count(name: &str, most: u64) {
    let report = fs::read_to_string(path(&format!("{name}.json"))).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let phase = &report["phases"][0];
    let number = |key: &str| phase[key].as_u64().unwrap_or_else(|| panic!("no {key}: {report:#}"));
    let most = most * rate() / 1000;
    let (asked, good) = (number("sent") + number("refused"), number("good"));
    let missing = asked - good;
    println!(
        "{name}: {missing} of {asked} are missing, {} of them met a closed port; {most} are the most",
        number("refused")
    );
    assert_eq!((number("wrong"), number("unexpected")), (0, 0), "{phase:#}");
    assert!(good > NAMES && missing <= most, "{phase:#}");
}

/// A link of which clients are the server, so that pmdns can leave and come.
fn memif(socket: &str) -> Ends {
    let end = |role| format!("net_memif0,role={role},socket={socket},socket-abstract=no");
    Ends { clients: end("server"), pmdns: end("client") + ",mac=02:00:00:00:00:bb" }
}

fn virtio_user() -> Ends {
    Ends {
        clients: format!("net_vhost0,iface={SOCKET},queues=1"),
        pmdns: format!(
            "net_virtio_user0,path={SOCKET},queues=1,queue_size=1024,mac=02:00:00:00:00:bb"
        ),
    }
}

fn config(device: &str) -> String {
    format!(
        r#"
[eal]
args = ["--no-pci", "--in-memory", "--single-file-segments", "-m", "128", "--huge-dir", "{HUGE_FOLDER}"]

[[port]]
name = "clients"
device = "{device}"
addresses = ["10.77.0.2/16"]

[[placement]]
cores = [1]
idle = "adaptive"
{COMMON}{}"#,
        upstream(nsd::PORT)
    )
}
