//! What operators change is kept: it holds again after a kill, unless they say that it ends with the process.

use std::fs;

use crate::commands::command;
use crate::dig::dig;
use crate::harness::{isolated, path, sh};
use crate::pmdns::{Pmdns, TAP_V4, upstream};
use crate::stub::Stub;

const STUB_PORT: u16 = 5301;

pub(crate) const SETTINGS: &str = r#"
[cache]
size = "32MiB"
pages = "normal"

[control]
socket = "/run/lab/pmdns.sock"
entries = "/run/lab/kept/changes"
lists = "/run/lab/kept/lists"
list_networks = ["127.0.0.0/8"]

[clients]
max_entries = 100

[[view]]
name = "kids"
queries_per_second = 1000
"#;

/// The changes, each with its kind: with a name, and how the command ends.
pub(crate) fn changes(name: &str, number: u8) -> Vec<(String, i32)> {
    let done = [
        format!("block {name}.example"),
        format!("local add {name}.lan A 192.0.2.{number}"),
        format!("client set 192.0.2.{number} kids"),
        format!("limit {name}.test --rate {number}"),
        format!("limit timed.{name}.test --rate {number} --for 1h"),
        format!("upstream add 127.0.0.1:{}", 5400 + u16::from(number)),
    ];
    // Nobody serves the list, so its first fetch fails; it is tried again.
    let list = format!("list add {name} --url https://127.0.0.1:9/{name}");
    done.into_iter().map(|words| (words, 0)).chain([(list, 1)]).collect()
}

/// Makes a change by a command of these words, and returns what it says.
pub(crate) fn change(words: &str, code: i32) -> String {
    command(&words.split(' ').collect::<Vec<_>>(), code)
}

/// The same, until the restart.
pub(crate) fn change_until_restart(words: &str, code: i32) -> String {
    change(&format!("{words} --until-restart"), code)
}

/// What `config --diff` has of them.
pub(crate) fn shown(name: &str, number: u8) -> [String; 7] {
    let address = format!("127.0.0.1:{}", 5400 + u16::from(number));
    [
        format!("name {name}.example blocked in all views"),
        format!("local record {name}.lan 300 A 192.0.2.{number} added"),
        format!("client 192.0.2.{number}/32 in the view kids"),
        format!("zone {name}.test limited to {number} misses a second"),
        format!("zone timed.{name}.test limited to {number} misses a second until "),
        format!("upstream {address} added to group default"),
        format!("list {name} added from https://127.0.0.1:9/{name}"),
    ]
}

/// Asserts that the difference has these lines of run time, and no others.
pub(crate) fn assert_shown(lines: &[String]) {
    let difference = command(&["config", "--diff"], 0);
    println!("{difference}");
    let of_run_time = difference.lines().filter(|line| line.starts_with("at run time: "));
    assert_eq!(of_run_time.count(), lines.len(), "{difference}");
    for line in lines {
        let line = format!("at run time: {line}");
        let found = difference.lines().find(|one| one.starts_with(&line));
        assert!(found.is_some_and(|one| one.contains("(user 0, 20")), "{line}: {difference}");
    }
}

/// What is removed until the restart only would hold again: it contradicts what is said then, and can be removed for good.
fn take_back_what_is_hidden() {
    for (words, code) in [
        ("block hidden.example", 0),
        ("unblock hidden.example --until-restart", 0),
        ("unblock hidden.example", 0),
        ("unblock hidden.example", 1),
        ("local add hidden.lan A 192.0.2.9", 0),
        ("local remove hidden.lan --until-restart", 0),
        ("local add hidden.lan CNAME other.lan", 1),
        ("local remove hidden.lan", 0),
        ("limit hidden.test --rate 5", 0),
        ("unlimit hidden.test --until-restart", 0),
        ("unlimit hidden.test", 0),
        ("client set 192.0.2.99 kids", 0),
        ("client remove 192.0.2.99 --until-restart", 0),
        ("client remove 192.0.2.99", 0),
    ] {
        change(words, code);
    }
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn each_kind_of_change_holds_after_a_kill_unless_it_ends_with_the_process() {
    isolated(
        "kept::each_kind_of_change_holds_after_a_kill_unless_it_ends_with_the_process",
        || {
            let _stub = Stub::start(STUB_PORT);
            fs::create_dir_all(path("kept/lists")).unwrap();
            let settings = format!("{SETTINGS}{}", upstream(STUB_PORT));
            let pmdns = Pmdns::start_on_tap_alone(&settings);
            for (words, code) in changes("kept", 7) {
                let said = change(&words, code);
                assert!(!said.contains("until the instance stops"), "{said}");
            }
            for (words, code) in changes("gone", 8) {
                let said = change_until_restart(&words, code);
                assert!(code != 0 || said.contains("until the instance stops"), "{said}");
            }
            assert_shown(&[shown("kept", 7), shown("gone", 8)].concat());
            let json = command(&["config", "--diff", "--json"], 0);
            assert!(
                json.contains("\"until_restart\":true") && json.contains("\"since\":"),
                "{json}"
            );
            pmdns.kill();
            sh("ip link delete pm0 2>/dev/null || true");

            let pmdns = Pmdns::start_on_tap_alone(&settings);
            assert_shown(&shown("kept", 7));
            assert_eq!(dig(TAP_V4, "kept.example A").status, "NXDOMAIN");
            let answers = dig(TAP_V4, "kept.lan A").answers;
            assert!(answers.iter().any(|one| one.ends_with(" A 192.0.2.7")), "{answers:?}");
            // What is taken back is gone for the next process too, and the file may say the same by now.
            command(&["unblock", "kept.example"], 0);
            command(&["list", "remove", "kept"], 0);
            command(&["unlimit", "kept.test"], 0);
            command(&["client", "remove", "192.0.2.7"], 0);
            command(&["local", "remove", "kept.lan"], 0);
            take_back_what_is_hidden();
            pmdns.kill();
            sh("ip link delete pm0 2>/dev/null || true");

            let pmdns = Pmdns::start_on_tap_alone(&format!("{settings}{}", upstream(5407)));
            assert_shown(&[shown("kept", 7)[4].clone()]);
            let log = pmdns.log();
            assert!(
                log.contains("127.0.0.1:5407 added to group default, by user 0: the file has it")
            );
            pmdns.stop();
        },
    );
}
