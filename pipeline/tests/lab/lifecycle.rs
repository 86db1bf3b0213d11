//! Starting, stopping and failing to start: what is left behind, and what the operator is told.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use crate::dig::dig;
use crate::harness::{HUGE_FOLDER, isolated, isolated_alone, path, reserve_huge_pages, sh};
use crate::pmdns::{
    BINARY, COMMON, Pmdns, TAP_PORT, TAP_V4, config_file, interface_exists, run, run_to_failure,
    set_up_tap, upstream,
};

const LOCAL: &str = "\n[[local]]\nname = \"local.test\"\ntype = \"A\"\ndata = \"192.0.2.1\"\n";

/// A TAP port with huge pages in files, which a killed process leaves behind.
fn config_with_huge_pages() -> String {
    let without = "\"--no-huge\", \"-m\", \"512\", \"--no-shconf\"";
    let with = format!("\"-m\", \"256\", \"--huge-dir\", \"{HUGE_FOLDER}\", \"--file-prefix=lab\"");
    let port = TAP_PORT.replace(without, &with);
    assert_ne!(port, TAP_PORT);
    format!("{port}{COMMON}{LOCAL}{}", upstream(5399))
}

fn plain_config() -> String {
    format!("{TAP_PORT}{COMMON}{LOCAL}{}", upstream(5399))
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn trap_24_sigterm_leaves_nothing_behind() {
    isolated_alone("lifecycle::trap_24_sigterm_leaves_nothing_behind", || {
        reserve_huge_pages(512);
        for config in [plain_config(), config_with_huge_pages()] {
            let pmdns = Pmdns::start(&config);
            assert!(interface_exists("pm0") && Path::new("/run/lab/pmdns.sock").exists());
            answers_on_tap();
            pmdns.stop();
            assert!(!interface_exists("pm0"), "the TAP is gone");
            assert!(!Path::new("/run/lab/pmdns.sock").exists(), "the control socket is gone");
            assert_eq!(files(HUGE_FOLDER), [""; 0], "no huge page file is left");
            println!("SIGTERM: exit 0, no interface, no socket, no huge page file left");
        }
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn trap_24_after_sigkill_the_next_start_works() {
    isolated_alone("lifecycle::trap_24_after_sigkill_the_next_start_works", || {
        reserve_huge_pages(512);
        for config in [plain_config(), config_with_huge_pages()] {
            for _ in 0..2 {
                let pmdns = Pmdns::start(&config);
                answers_on_tap();
                pmdns.kill();
                assert!(Path::new("/run/lab/pmdns.sock").exists(), "as a killed process leaves it");
            }
            let pmdns = Pmdns::start(&config);
            answers_on_tap();
            pmdns.stop();
            assert_eq!(files(HUGE_FOLDER), [""; 0], "what the killed ones left is gone as well");
            println!("SIGKILL twice, then a start that serves and leaves nothing");
        }
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn trap_23_one_cpu_serves() {
    isolated_alone("lifecycle::trap_23_one_cpu_serves", || {
        // What this test may run on, so may what it starts.
        sh(&format!("taskset --all-tasks --cpu-list --pid 0 {}", std::process::id()));
        let pmdns = Pmdns::start(&plain_config());
        answers_on_tap();
        let other =
            plain_config().replacen("[control]", "[[placement]]\ncores = [1]\n[control]", 1);
        assert!(pmdns.stop().total("transmitted") > 0);
        let (code, said) = run_to_failure(&other);
        assert_eq!(code, Some(2), "{said}");
        is_a_sentence_with(&said, &["is 1;", "may run on the CPUs [0]"]);
        println!("one CPU: served; a core outside the CPU set: refused");
    });
}

/// Gives the kernel's end its addresses, and asks.
fn answers_on_tap() {
    set_up_tap();
    assert_eq!(dig(TAP_V4, "local.test A").data(), ["192.0.2.1"]);
}

fn files(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn what_cannot_start_says_what_to_change() {
    isolated("lifecycle::what_cannot_start_says_what_to_change", || {
        // Exit code, what is said, what is changed in a good config.
        let mistakes: [(i32, &[&str], &str, &str); 5] = [
            (2, &["adresses", "addresses", "line"], "addresses = [", "adresses = ["),
            (2, &["10.97.0.2/33"], "10.97.0.2/24", "10.97.0.2/33"),
            (2, &["is 1000", "CPUs"], "[control]", "[[placement]]\ncores = [1000]\n[control]"),
            (4, &["tap"], "net_tap0", "net_no_such_driver0"),
            (4, &["tap"], "net_tap0,iface=pm0,mac=02:00:00:00:00:aa", "0000:99:1f.7"),
        ];
        for (code, words, right, wrong) in mistakes {
            let config = plain_config().replacen(right, wrong, 1);
            let (ended_with, said) = run_to_failure(&config);
            assert_eq!(ended_with, Some(code), "{wrong}: {said}");
            is_a_sentence_with(&said, words);
        }
        let second = TAP_PORT.split_once("[[port]]").unwrap().1.replace("tap", "second");
        let (ended_with, said) = run_to_failure(&format!("{}[[port]]{second}", plain_config()));
        assert_eq!(ended_with, Some(2), "two ports with one address: {said}");
        is_a_sentence_with(&said, &["10.97.0.2"]);

        // No huge page file system is mounted there.
        let (ended_with, said) = run_to_failure(&config_with_huge_pages());
        assert_eq!(ended_with, Some(3), "{said}");
        is_a_sentence_with(&said, &["hugepages"]);

        sh("ip link add pm0 type veth peer name pm1");
        let (ended_with, said) = run_to_failure(&plain_config());
        assert_eq!(ended_with, Some(4), "an interface of that name: {said}");
        is_a_sentence_with(&said, &["tap", "name"]);
        assert!(interface_exists("pm0"), "it is not ours to remove");

        let (ended_with, said) = run_to_failure("[[port]\n");
        assert_eq!(ended_with, Some(2), "{said}");
        let missing = run(&["run", "-c", "/run/lab/no-such-file.toml"]);
        assert_eq!(missing.status.code(), Some(2), "{missing:?}");
        assert!(String::from_utf8_lossy(&missing.stderr).contains("no-such-file.toml"));
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_control_socket_in_use_is_not_taken_over() {
    isolated("lifecycle::a_control_socket_in_use_is_not_taken_over", || {
        let _other = UnixListener::bind("/run/lab/pmdns.sock").unwrap();
        let (code, said) = run_to_failure(&plain_config());
        assert_eq!(code, Some(5), "{said}");
        is_a_sentence_with(&said, &["/run/lab/pmdns.sock"]);
        let asked = run(&["stats", "--socket", "/run/lab/nobody.sock"]);
        assert_eq!(asked.status.code(), Some(5), "{asked:?}");
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn an_ordinary_user_is_told_what_is_missing() {
    isolated_alone("lifecycle::an_ordinary_user_is_told_what_is_missing", || {
        reserve_huge_pages(512);
        // The build folder may be root's alone.
        let binary = path("pmdns");
        fs::copy(BINARY, &binary).unwrap();
        fs::create_dir(path("open")).unwrap();
        fs::set_permissions(path("open"), fs::Permissions::from_mode(0o777)).unwrap();
        // The TAP is what fails, or without one DPDK itself, which may not map huge pages.
        let without_tap = config_with_huge_pages()
            .replace("net_tap0,iface=pm0,mac=02:00:00:00:00:aa", "net_null0");
        for (code, config) in [(4, plain_config()), (3, without_tap)] {
            let config = config.replace("/run/lab/pmdns.sock", "/run/lab/open/pmdns.sock");
            let output = Command::new("setpriv")
                .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
                .args(["--bounding-set=-all", "--inh-caps=-all"])
                .arg(&binary)
                .args(["run", "-c"])
                .arg(config_file(&config))
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{said}");
            is_a_sentence_with(&said, &["root"]);
            println!("an ordinary user: exit {code}: {}", said.lines().last().unwrap_or(""));
        }
    });
}

#[test]
fn the_examples_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/examples");
    let mut checked = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let output = run(&["check", "--elsewhere", "-c", file.to_str().unwrap()]);
        assert!(output.status.success(), "{}: {output:?}", file.display());
        checked += 1;
    }
    assert!(checked >= 6, "an example for each kind of port");
    assert!(run(&["version"]).status.success());
    let usage = run(&["serve"]);
    assert_eq!(usage.status.code(), Some(2), "an unknown command: {usage:?}");
}

/// The last thing said names what is wrong, in words, without a panic.
fn is_a_sentence_with(said: &str, words: &[&str]) {
    assert!(!said.contains("panicked"), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} in {said}");
    }
}
