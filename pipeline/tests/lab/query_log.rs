//! The query log: dnstap readers that leave and return, JSON lines under jq, and a database under sqlite3 and `pmdns log`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::dig::{dig, dig_is_unanswered};
use crate::harness::{isolated, path, sh, wait_until};
use crate::nsd;
use crate::pmdns::{Pmdns, TAP_V4, run, upstream};
use crate::process::Process;

const RULES: &str = r#"
[[blocklist]]
file = "/run/lab/ads.txt"

[[blocklist]]
file = "/run/lab/silent.txt"
action = "drop"

[streams]
tcp = ["127.0.0.1:5399"]

[acl]
allow = ["10.0.0.0/8", "127.0.0.0/8"]

[query_log]
dnstap = "/run/lab/dnstap/socket"
dnstap_identity = "lab"
json = "/run/lab/log/q.json"
sqlite = "/run/lab/log/q.db"
"#;

fn start() -> (Process, Pmdns) {
    fs::write(path("ads.txt"), "ads.test\n").unwrap();
    fs::write(path("silent.txt"), "silent.test\n").unwrap();
    fs::create_dir(path("log")).unwrap();
    fs::create_dir(path("dnstap")).unwrap();
    let nsd = nsd::start();
    let pmdns = Pmdns::start_on_tap(&format!("{RULES}{}", upstream(nsd::PORT)));
    (nsd, pmdns)
}

/// A dnstap reader that writes what comes to a file.
fn reader(file: &Path) -> Process {
    let mut command = Command::new("fstrm_capture");
    command.args(["-t", "protobuf:dnstap.Dnstap", "-u", "/run/lab/dnstap/socket", "-w"]).arg(file);
    Process::start("fstrm_capture", &mut command)
}

/// A counter of a part of the log.
fn count(pmdns: &Pmdns, part: &str, name: &str) -> u64 {
    let parts = ["rings", "dnstap", "json", "sqlite"];
    let index = parts.iter().position(|one| *one == part).unwrap();
    let stats = pmdns.stats();
    assert_eq!(stats.text(&format!("/query_log/{index}/part")), part);
    stats.number(&format!("/query_log/{index}/{name}"))
}

fn ask_all() {
    dig(TAP_V4, "n1.bulk.test A");
    dig(TAP_V4, "N1.bulk.test A");
    dig(TAP_V4, "www.ads.test A");
    assert!(dig_is_unanswered(TAP_V4, "www.silent.test A"));
    dig("127.0.0.1", "n1.bulk.test A -p 5399 +tcp");
}

fn read_back(file: &Path) -> String {
    sh(&format!("dnstap-ldns -r {}", file.display()))
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn readers_leave_and_return_and_every_sink_has_the_same() {
    isolated("query_log::readers_leave_and_return_and_every_sink_has_the_same", || {
        let (_nsd, pmdns) = start();
        let (first, second) = (path("first.fstrm"), path("second.fstrm"));
        let mut one = reader(&first);
        wait_until("the reader is connected", || count(&pmdns, "dnstap", "up") == 1);
        ask_all();
        wait_until("all is written", || count(&pmdns, "dnstap", "written") >= 5);
        one.signal("TERM");
        one.wait();
        let text = read_back(&first);
        assert_eq!(text.matches(" CR ").count(), 4, "{text}");
        assert!(text.contains(" CQ ") && text.contains("\"www.silent.test.\""), "{text}");
        assert!(text.contains(" TCP ") && text.contains("10.97.0."), "{text}");
        let whole = sh(&format!("dnstap-ldns -y -r {}", first.display()));
        assert!(whole.contains("NXDOMAIN"), "{whole}");
        // Without a reader records are lost, and nothing else.
        wait_until("it is seen that the reader has left", || {
            dig(TAP_V4, "n1.bulk.test A");
            count(&pmdns, "dnstap", "up") == 0
        });
        let mut two = reader(&second);
        wait_until("the reader is back", || count(&pmdns, "dnstap", "up") == 1);
        dig(TAP_V4, "n2.bulk.test A");
        let before = count(&pmdns, "dnstap", "written");
        wait_until("it is written", || count(&pmdns, "dnstap", "written") > 5.min(before));
        // A reader that reads nothing costs records only.
        two.signal("STOP");
        dig(TAP_V4, "n3.bulk.test A");
        two.signal("CONT");
        json_lines();
        database();
        let stats = pmdns.stop();
        stats.assert_balanced();
        two.signal("TERM");
        two.wait();
        assert!(read_back(&second).contains("\"n2.bulk.test.\""));
    });
}

fn json_lines() {
    let select = |filter: &str| sh(&format!("jq -r '{filter}' /run/lab/log/q.json"));
    wait_until("the last line is there", || select(".name").contains("n3.bulk.test"));
    let five = select(
        "[.name, .type, .rcode, .source, .list // \"\", .upstream // \"\", .transport] | @csv",
    );
    let lines: Vec<_> = five.lines().take(3).collect();
    assert_eq!(
        lines,
        [
            r#""n1.bulk.test","A","NOERROR","forward","","127.0.0.1:5300","udp""#,
            r#""n1.bulk.test","A","NOERROR","hit","","","udp""#,
            r#""www.ads.test","A","NXDOMAIN","policy","/run/lab/ads.txt","","udp""#,
        ]
    );
    assert!(
        five.contains(r#""www.silent.test","A","","drop","/run/lab/silent.txt","","udp""#),
        "{five}"
    );
    assert!(five.contains(r#""n1.bulk.test","A","NOERROR","hit","","","tcp""#), "{five}");
    // Another program takes the file away.
    sh("mv /run/lab/log/q.json /run/lab/log/q.old");
    wait_until("a new file", || Path::new("/run/lab/log/q.json").exists());
    dig(TAP_V4, "n4.bulk.test A");
    wait_until("the new file is written", || {
        fs::read_to_string("/run/lab/log/q.json").unwrap().contains("n4.bulk.test")
    });
}

fn database() {
    let select = |what: &str| sh(&format!("sqlite3 -readonly /run/lab/log/q.db \"{what}\""));
    wait_until("the database has it", || select("SELECT name FROM query").contains("n4.bulk.test"));
    assert_eq!(select("PRAGMA integrity_check").trim(), "ok");
    assert_eq!(
        select("SELECT DISTINCT list FROM query WHERE blocked AND source = 'policy'").trim(),
        "/run/lab/ads.txt"
    );
    let find = |arguments: &[&str]| {
        let all = [&["log", "--socket", "/run/lab/pmdns.sock"], arguments].concat();
        let output = run(&all);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let blocked = find(&["--since", "10m", "--name", "ads.test", "--blocked"]);
    assert!(
        blocked.contains(" udp www.ads.test A NXDOMAIN policy by /run/lab/ads.txt "),
        "{blocked}"
    );
    assert_eq!(blocked.lines().count(), 1);
    let json = find(&["--client", "127.0.0.1", "--json", "--limit", "1"]);
    assert!(json.contains(r#""transport":"tcp""#), "{json}");
    assert_eq!(find(&["--name", "nothing.example"]), "");
}
