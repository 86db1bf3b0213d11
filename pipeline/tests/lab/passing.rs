//! What passes: captures read by tshark and replayed, and why clients get what they get.

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
    // tshark 4.4 writes "False" and "True" where 4.0 writes 0 and 1.
    let flags = |line: &str| line.replace("\tFalse\t", "\t0\t").replace("\tTrue\t", "\t1\t");
    text.lines().map(flags).collect()
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
                "{BINARY} capture -w - --answers --name bulk.test {} | tshark -r - -c 2 -T fields -e dns.qry.name 2>/dev/null",
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

/// Clients for which more is blocked.
const GUESTS: &str = r#"
[[view]]
name = "guests"
clients = ["10.98.0.0/16"]

[[blocklist]]
file = "/run/lab/guests.txt"
views = ["guests"]
"#;

const POLICY: &str = "$TTL 60
@ SOA ns.test. admin.test. 1 2 3 4 5
malware.test CNAME .
*.malware.test CNAME .
";

/// What a lookup says.
fn look_up(arguments: &str) -> String {
    let arguments: Vec<&str> = arguments.split_whitespace().chain(SOCKET).collect();
    let output = run(&[&["lookup"], &arguments[..]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn look_up_json(arguments: &str) -> serde_json::Value {
    serde_json::from_str(&look_up(&format!("{arguments} --json"))).unwrap()
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_lookup_says_what_decides_and_changes_nothing() {
    isolated("passing::a_lookup_says_what_decides_and_changes_nothing", || {
        fs::write(path("ads.txt"), "# advertisements\nads.test\n").unwrap();
        fs::write(path("guests.txt"), "bulk.test\n0.0.0.0 n9.bulk.test\n").unwrap();
        fs::write(path("policy.zone"), POLICY).unwrap();
        let _nsd = nsd::start();
        let zone = format!("[[rpz]]\nfile = \"{}\"\n", path("policy.zone").display());
        let pmdns = Pmdns::start_on_tap(&format!("{RULES}{GUESTS}{zone}{}", upstream(nsd::PORT)));
        let asked = |pmdns: &Pmdns| pmdns.stats().upstream(0, "queries");
        let before = asked(&pmdns);
        for _ in 0..2 {
            let text = look_up("n9.bulk.test");
            let expected =
                format!("upstreams of group default, in this order:\n  127.0.0.1:{}", nsd::PORT);
            assert!(text.contains("answer: not known yet") && text.contains(&expected), "{text}");
        }
        assert_eq!(asked(&pmdns), before, "a lookup asks nobody");
        dig(TAP_V4, "n9.bulk.test A");
        let text = look_up("n9.bulk.test A --client 10.97.0.1");
        assert!(
            text.contains("answer: NOERROR\nreason: it is in the cache\ncache: TTL left "),
            "{text}"
        );
        assert!(text.contains("\n  n9.bulk.test. ") && text.contains(" IN A "), "{text}");
        dig(TAP_V4, "n9.bulk.test A");
        let hits = || look_up_json("n9.bulk.test")["cached"]["recent_hits"].as_u64();
        wait_until("the hit is credited", || hits() == Some(1));
        assert_eq!(hits(), Some(1), "a lookup is no hit");

        let guest = look_up("n9.bulk.test --client 10.98.0.5");
        let expected = "view guests\nanswer: NXDOMAIN\nreason: the name is blocked\n\
             rule: /run/lab/guests.txt, line 2, n9.bulk.test, the name\n";
        assert!(guest.contains(expected), "{guest}");
        let guest = look_up("n8.bulk.test --client 10.98.0.5");
        assert!(guest.contains("line 1, bulk.test, the name and all names below it"), "{guest}");
        let dropped = look_up("www.ads.test --client 10.97.0.1");
        let expected = "answer: none, the query is dropped\nreason: the name is blocked\n\
             rule: /run/lab/ads.txt, line 2, ads.test, the name and all names below it\n";
        assert!(dropped.contains(expected), "{dropped}");
        let zone = look_up("a.malware.test --client 10.97.0.1");
        let expected = "reason: a policy zone\n\
             rule: /run/lab/policy.zone, line 4, malware.test, the name and all names below it\n";
        assert!(zone.contains(expected), "{zone}");
        let local = look_up_json("local.test");
        assert_eq!(local["decided_by"], "local_records");
        assert_eq!(local["records"][0], "local.test. 300 IN A 192.0.2.9");
        let stranger = look_up_json("n9.bulk.test --client 192.0.2.1");
        assert_eq!(
            (&stranger["decided_by"], &stranger["rcode"]),
            (&"access_list".into(), &"REFUSED".into())
        );

        // Other rules, and a lookup knows them.
        fs::write(path("ads.txt"), "bulk.test\n").unwrap();
        assert!(run(&[&["reload"][..], &SOCKET].concat()).status.success());
        assert_eq!(look_up_json("n9.bulk.test")["decided_by"], "block_list");
        pmdns.stop();
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_trace_joins_the_stages_of_both_cores() {
    isolated("passing::a_trace_joins_the_stages_of_both_cores", || {
        let (_nsd, pmdns) = start();
        dig(TAP_V4, "n1.bulk.test A");
        let mut command = Command::new(BINARY);
        command.args(["trace", "-n", "2", "--name", "bulk.test", "--json"]).args(SOCKET);
        let mut trace = command.stdout(Stdio::piped()).spawn().unwrap();
        // A hit and a miss, until the trace has both.
        let mut number = 2;
        while trace.try_wait().unwrap().is_none() {
            dig(TAP_V4, "n1.bulk.test A");
            dig(TAP_V4, &format!("n{number}.bulk.test A"));
            number += 1;
        }
        let output = trace.wait_with_output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let packets = report["packets"].as_array().unwrap();
        assert_eq!(packets.len(), 2, "{report}");
        let exits = |packet: &serde_json::Value| -> Vec<String> {
            let steps = packet["steps"].as_array().unwrap().iter();
            steps
                .map(|step| format!("{} {}", step["stage"], step["exit"]).replace('"', ""))
                .collect()
        };
        let of = |is_hit: bool| {
            packets.iter().find(|one| (one["question"] == "n1.bulk.test A") == is_hit).unwrap()
        };
        let hit = exits(of(true));
        assert!(hit[0].starts_with("parse "), "{hit:?}");
        assert!(
            hit.ends_with(&["lookup encode".to_owned(), "encode transmit".to_owned()]),
            "{hit:?}"
        );
        let miss = exits(of(false));
        assert!(miss.contains(&"policy slow_path".to_owned()), "{miss:?}");
        assert_eq!(miss.last().unwrap(), "slow_path transmit", "{miss:?}");
        assert_eq!(of(true)["client"], "10.97.0.1");
        pmdns.stop();
    });
}

/// The port of the lab as a port of memory, on which a capture is replayed.
fn replay_config() -> String {
    let port = "[[port]]\nname = \"tap\"\ndevice = \"replay\"\naddresses = [\"10.97.0.2/24\"]\n";
    format!("{port}[cache]\nsize = \"16MiB\"\npages = \"normal\"\n{}", upstream(9))
}
