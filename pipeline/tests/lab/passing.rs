//! What passes: captures read by tshark and replayed.

use std::fs;
use std::process::{Child, Command, Output, Stdio};

use crate::dig::dig;
use crate::harness::{isolated, path, sh, wait_until};
use crate::nsd;
use crate::pmdns::{BINARY, Pmdns, TAP_V4, config_file, run, upstream};
use crate::process::Process;

const SOCKET: [&str; 2] = ["--socket", "/run/lab/pmdns.sock"];
/// Two cores, so that what passes is put together from both, names that are blocked, and clients over TCP.
const RULES: &str = r#"
[[blocklist]]
file = "/run/lab/ads.txt"
action = "drop"

[[local]]
name = "local.test"
type = "A"
data = "192.0.2.9"

[streams]
tcp = ["127.0.0.1:5399"]

[acl]
allow = ["10.0.0.0/8", "127.0.0.0/8"]

[[placement]]
stages = "parse..ratelimit"
cores = [0]

[[placement]]
stages = "lookup..encode"
cores = [1]
"#;

fn start() -> (Process, Pmdns) {
    fs::write(path("ads.txt"), "# advertisements\nads.test\n").unwrap();
    let nsd = nsd::start();
    let pmdns = Pmdns::start_on_tap(&format!("{RULES}{}", upstream(nsd::PORT)));
    (nsd, pmdns)
}

/// A capture that is under way when this returns.
fn capture(file: &str, arguments: &str) -> Child {
    let file = path(file);
    let mut command = Command::new(BINARY);
    command.args(["capture", "-w"]).arg(&file).args(arguments.split_whitespace()).args(SOCKET);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the capture has begun", || fs::metadata(&file).is_ok_and(|file| file.len() > 0));
    child
}

/// Ends it as Ctrl-C does, and returns what it says.
fn interrupt(child: Child) -> String {
    sh(&format!("kill -INT {}", child.id()));
    said(&child.wait_with_output().unwrap())
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

/// Fields of the packets, as tshark reads them.
fn tshark(file: &str) -> Vec<String> {
    let fields =
        "-T fields -e frame.interface_name -e dns.qry.name -e dns.flags.response -e frame.comment";
    let text = sh(&format!("tshark -r {} {fields} 2>/dev/null", path(file).display()));
    text.lines().map(str::to_owned).collect()
}

fn dig_drops(name: &str) {
    assert!(crate::dig::dig_is_unanswered(TAP_V4, &format!("{name} A")));
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn captures_show_hits_and_drops_with_their_reasons() {
    isolated("passing::captures_show_hits_and_drops_with_their_reasons", || {
        let (_nsd, pmdns) = start();
        dig(TAP_V4, "n1.bulk.test A");
        let hits = capture("hits.pcapng", "--stage lookup --reason encode --count 2");
        let drops = capture("drops.pcapng", "--reason blocked --client 10.97.0.0/24");
        let named = capture("named.pcapng", "--name n1.bulk.test --answers");
        for name in ["n1.bulk.test A", "n2.bulk.test A", "n1.bulk.test A"] {
            dig(TAP_V4, name);
        }
        dig("127.0.0.1", "n1.bulk.test A -p 5399 +tcp");
        dig_drops("www.ads.test");
        let summary = said(&hits.wait_with_output().unwrap());
        assert!(summary.contains("2 written, 0 dropped; as many as asked for"), "{summary}");
        let expected = "tap\tn1.bulk.test\t0\tstage lookup, exit encode, ";
        let hits = tshark("hits.pcapng");
        assert!(hits.len() == 2 && hits.iter().all(|hit| hit.starts_with(expected)), "{hits:?}");
        let summary = interrupt(drops);
        assert!(summary.contains("ended by its client"), "{summary}");
        let drops = tshark("drops.pcapng");
        let expected = "tap\twww.ads.test\t0\tstage policy, exit drop.blocked, ";
        assert!(
            !drops.is_empty() && drops.iter().all(|drop| drop.starts_with(expected)),
            "{drops:?}"
        );
        interrupt(named);
        let named = tshark("named.pcapng");
        assert_eq!(named.len(), 6, "{named:#?}");
        assert_eq!(
            named.iter().filter(|line| line.contains("\t1\tanswer: stage encode")).count(),
            3
        );
        let streams: Vec<_> =
            named.iter().filter(|line| line.starts_with("streams\tn1.bulk.test")).collect();
        assert!(streams.len() == 2 && streams[0].contains("over tcp: its IP"), "{named:#?}");
        // The queries once more, without their answers.
        let again = capture("again.pcapng", "--stage parse --name test");
        for name in ["n1.bulk.test A", "local.test A"] {
            dig(TAP_V4, name);
        }
        interrupt(again);
        let replayed = run(&[
            "replay",
            path("again.pcapng").to_str().unwrap(),
            "--json",
            "-c",
            config_file(&replay_config()).to_str().unwrap(),
        ]);
        let text = said(&replayed) + &String::from_utf8_lossy(&replayed.stdout);
        assert!(text.contains("\"received\":2"), "{text}");
        pmdns.stop();
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_capture_goes_through_a_pipe_and_ends_with_its_reader() {
    isolated("passing::a_capture_goes_through_a_pipe_and_ends_with_its_reader", || {
        let (_nsd, pmdns) = start();
        dig(TAP_V4, "n1.bulk.test A");
        let mut tshark = Command::new("sh")
            .arg("-c")
            .arg(format!(
                "{BINARY} capture -w - --answers {} | tshark -r - -c 2 -T fields -e dns.qry.name 2>/dev/null",
                SOCKET.join(" ")
            ))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        while tshark.try_wait().unwrap().is_none() {
            dig(TAP_V4, "n1.bulk.test A");
        }
        let output = tshark.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "n1.bulk.test\nn1.bulk.test\n");
        let refused =
            run(&[&["capture", "-w", "/run/lab/x", "--stage", "nowhere"][..], &SOCKET].concat());
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(error.contains("the stages are parse, neighbor"), "{error}");
        pmdns.stop();
    });
}

/// The port of the lab as a port of memory, on which a capture is replayed.
fn replay_config() -> String {
    let port = "[[port]]\nname = \"tap\"\ndevice = \"replay\"\naddresses = [\"10.97.0.2/24\"]\n";
    format!("{port}[cache]\nsize = \"16MiB\"\npages = \"normal\"\n{}", upstream(9))
}
