//! What operators have changed passes to the next process, whether a file keeps it or not.

use std::fs;

use crate::commands::command;
use crate::dig::dig;
use crate::harness::{isolated, path, sh, wait_until};
use crate::keeper::{SOCKET, end, serving, state, tell};
use crate::kept::{SETTINGS, assert_shown, change, change_until_restart, changes, shown};
use crate::pmdns::{Pmdns, TAP_PORT, TAP_V4, config_file, run, set_up_tap, upstream};
use crate::stub::Stub;

const STUB_PORT: u16 = 5301;
/// The line that names the file of changes.
const ENTRIES: &str = "entries = \"/run/lab/kept/changes\"\n";
/// Of what a file keeps, what is said otherwise until the restart.
const HIDE: [&str; 4] = [
    "unblock kept.example",
    "client remove 192.0.2.7",
    "unlimit kept.test",
    "upstream remove 127.0.0.1:5407",
];

/// Makes the changes of each kind, some until the restart.
fn change_all() {
    for (words, code) in changes("kept", 7) {
        change(&words, code);
    }
    for (words, code) in changes("gone", 8) {
        change_until_restart(&words, code);
    }
}

fn upgrade() {
    assert!(tell(&["upgrade"]).contains("has taken over as process"));
}

/// Kills the process that serves, and waits for the next one.
fn crash() {
    let killed = serving();
    sh(&format!("kill -KILL {killed}"));
    wait_until("operators are answered", || state().is_some_and(|now| now != killed));
}

fn status(name: &str) -> String {
    dig(TAP_V4, &format!("{name} A")).status
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn without_a_file_each_kind_of_change_holds_after_a_hand_over() {
    isolated(
        "handover_changes::without_a_file_each_kind_of_change_holds_after_a_hand_over",
        || {
            let _stub = Stub::start(STUB_PORT);
            fs::create_dir_all(path("kept/lists")).unwrap();
            let with_file = format!("{TAP_PORT}{SETTINGS}{}", upstream(STUB_PORT));
            let kept = Pmdns::start_kept(&with_file.replace(ENTRIES, ""));
            set_up_tap();
            change_all();
            command(&["upstream", "drain", &format!("127.0.0.1:{STUB_PORT}")], 0);
            let drained = format!("upstream 127.0.0.1:{STUB_PORT} drained");
            let all = [&shown("kept", 7)[..], &shown("gone", 8), &[drained]].concat();
            assert_shown(&all);
            upgrade();
            assert_shown(&all);
            for name in ["kept.example", "gone.example"] {
                assert_eq!(status(name), "NXDOMAIN");
            }
            let answers = dig(TAP_V4, "kept.lan A").answers;
            assert!(answers.iter().any(|one| one.ends_with(" A 192.0.2.7")), "{answers:?}");
            assert!(command(&["client", "show", "192.0.2.8"], 0).contains("kids"));
            // What is removed does not come back, and a file that the next configuration names keeps what is said from then on.
            command(&["unblock", "kept.example"], 0);
            config_file(&with_file);
            upgrade();
            assert_shown(&all[1..]);
            assert_ne!(status("kept.example"), "NXDOMAIN");
            command(&["block", "later.example"], 0);
            crash();
            assert_shown(&["name later.example blocked in all views".to_owned()]);
            end(kept);
        },
    );
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn with_a_file_what_is_hidden_until_a_restart_stays_so_in_a_hand_over() {
    let name =
        "handover_changes::with_a_file_what_is_hidden_until_a_restart_stays_so_in_a_hand_over";
    isolated(name, || {
        let _stub = Stub::start(STUB_PORT);
        fs::create_dir_all(path("kept/lists")).unwrap();
        let kept = Pmdns::start_kept(&format!("{TAP_PORT}{SETTINGS}{}", upstream(STUB_PORT)));
        set_up_tap();
        change_all();
        for words in HIDE {
            change_until_restart(words, 0);
        }
        let [entry, record, client, limit, timed, added, list] = shown("kept", 7);
        let rest = [record, timed, list];
        let holds = [&rest[..], &shown("gone", 8)].concat();
        for _ in 0..2 {
            assert_shown(&holds);
            let difference = command(&["config", "--diff"], 0);
            for hidden in [&entry, &client, &limit, &added] {
                let line = format!("after a restart: {hidden} (user 0, 20");
                assert!(difference.contains(&line), "{line}: {difference}");
            }
            assert_ne!(status("kept.example"), "NXDOMAIN");
            assert_eq!(status("gone.example"), "NXDOMAIN");
            upgrade();
        }
        // It can be removed for good, as in the process that has hidden it.
        command(&["upstream", "remove", "127.0.0.1:5407"], 0);
        crash();
        assert_shown(&[&[entry, client, limit], &rest[..]].concat());
        end(kept);
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn what_a_full_disk_does_not_keep_passes_in_a_hand_over() {
    isolated("handover_changes::what_a_full_disk_does_not_keep_passes_in_a_hand_over", || {
        let _stub = Stub::start(STUB_PORT);
        fs::create_dir_all(path("kept")).unwrap();
        sh(&format!("mount -t tmpfs -o size=1m small {}", path("kept").display()));
        fs::create_dir_all(path("kept/lists")).unwrap();
        let kept = Pmdns::start_kept(&format!("{TAP_PORT}{SETTINGS}{}", upstream(STUB_PORT)));
        set_up_tap();
        change_all();
        let full = path("kept/full");
        fs::write(&full, vec![0; 2 << 20]).expect_err("more than there is room for");
        // The last page of the file has some room.
        let mut numbers = 0..100;
        let late = numbers.find(|number| {
            let output = run(&[&["block", &format!("late{number}.example")], &SOCKET[..]].concat());
            println!("{output:?}");
            String::from_utf8_lossy(&output.stderr).contains("not kept")
        });
        let late = format!("late{}.example", late.expect("the disk is full"));
        upgrade();
        for name in ["kept.example", "gone.example", &late] {
            assert_eq!(status(name), "NXDOMAIN", "{name}");
        }
        fs::remove_file(full).unwrap();
        upgrade();
        command(&["unblock", &late], 0);
        assert_ne!(status(&late), "NXDOMAIN");
        end(kept);
    });
}
