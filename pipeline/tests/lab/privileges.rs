//! What a running pmdns may still do, by what the kernel says of its threads, and who may talk to it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Output};

use crate::commands::command;
use crate::harness::{HUGE_FOLDER, isolated, isolated_alone, path, reserve_huge_pages, sh};
use crate::pmdns::{BINARY, COMMON, Pmdns, TAP_PORT, config_file, upstream};

/// As a user that is not root's friend.
const NOBODY: &str = "65534";
/// A group that nobody has.
const GROUP: &str = "65530";

fn config(rest: &str) -> String {
    format!("{TAP_PORT}{COMMON}{}{rest}", upstream(5399))
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn audit_12_no_thread_has_privileges_after_start() {
    isolated_alone("privileges::audit_12_no_thread_has_privileges_after_start", || {
        reserve_huge_pages(512);
        // With all threads that DPDK has, and without.
        let without = "\"--no-huge\", \"-m\", \"512\", \"--no-shconf\"";
        let with =
            format!("\"-m\", \"256\", \"--huge-dir\", \"{HUGE_FOLDER}\", \"--file-prefix=lab\"");
        for config in [config(""), config("").replace(without, &with)] {
            let pmdns = Pmdns::start(&config);
            let (mut threads, mut names) = (0, Vec::new());
            for task in fs::read_dir(format!("/proc/{}/task", pmdns.id())).unwrap() {
                let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
                let value = |name: &str| {
                    let line = status.lines().find_map(|line| line.strip_prefix(name));
                    line.unwrap_or_else(|| panic!("no {name} in {status}")).trim()
                };
                let sets = ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"].map(value);
                assert_eq!(sets, ["0000000000000000"; 5], "{status}");
                assert_eq!((value("NoNewPrivs:"), value("Seccomp:")), ("1", "2"), "{status}");
                threads += 1;
                names.push(value("Name:").to_owned());
            }
            assert!(threads > 4, "{names:?}");
            println!("{threads} threads without capabilities: {}", names.join(", "));
            assert!(
                pmdns.log().contains("privileges: no capabilities, no-new-privs"),
                "{}",
                pmdns.log()
            );
            pmdns.stop();
        }
        let kept = Pmdns::start(&config("[process]\nprivileges = \"keep\"\n"));
        let status = fs::read_to_string(format!("/proc/{}/status", kept.id())).unwrap();
        assert!(!status.contains("CapEff:\t0000000000000000"), "kept on demand");
        kept.stop();
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn audit_12_only_the_group_may_ask_and_nothing_is_written_for_others() {
    isolated(
        "privileges::audit_12_only_the_group_may_ask_and_nothing_is_written_for_others",
        || {
            // The build folder may be root's alone.
            fs::copy(BINARY, path("pmdns")).unwrap();
            sh("chmod 755 /run/lab && mkdir -m 777 /run/lab/open");
            let group = COMMON.replace("[control]", &format!("[control]\ngroup = \"{GROUP}\""));
            // What is asked for must not depend on the umask: this shell's is the child's.
            let pmdns = Pmdns::start(&format!("{TAP_PORT}{group}{}", upstream(5399)));
            let facts = fs::metadata(path("pmdns.sock")).unwrap();
            assert_eq!((facts.mode() & 0o777, facts.gid().to_string()), (0o660, GROUP.to_owned()));

            let denied = ask(NOBODY, &["stats"]);
            let said = String::from_utf8_lossy(&denied.stderr);
            assert_eq!(denied.status.code(), Some(5), "{said}");
            assert!(said.contains("permission denied") && said.contains("control.group"), "{said}");

            assert!(ask(GROUP, &["stats"]).status.success());
            // Written with the rights of who asks, where it may write.
            let dumped = ask(GROUP, &["dump", "/run/lab/open/dump"]);
            assert!(dumped.status.success(), "{dumped:?}");
            let facts = fs::metadata("/run/lab/open/dump").unwrap();
            assert_eq!((facts.uid(), facts.mode() & 0o777), (65534, 0o600));
            assert!(ask(GROUP, &["load", "/run/lab/open/dump"]).status.success());
            let refused = ask(GROUP, &["dump", "/run/lab/dump"]);
            assert_eq!(refused.status.code(), Some(1), "{refused:?}");
            assert!(!path("dump").exists(), "root has written nothing for it");
            // Nor does a pipe hold anybody up.
            sh("mkfifo /run/lab/open/pipe");
            command(&["dump", "/run/lab/open/pipe"], 0);
            sh("mkfifo /run/lab/open/other");
            command(&["load", "/run/lab/open/other"], 1);
            assert!(pmdns.log().contains("audit by=\"user 65534"), "who asks is logged");
            pmdns.stop();
            println!("0660 and a group; dumps with the rights of who asks");
        },
    );
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn audit_12_a_reload_reads_where_the_configuration_did() {
    isolated("privileges::audit_12_a_reload_reads_where_the_configuration_did", || {
        fs::create_dir(path("lists")).unwrap();
        fs::create_dir("/run/elsewhere").unwrap();
        for file in ["/run/lab/lists/one", "/run/lab/lists/two", "/run/elsewhere/three"] {
            fs::write(file, "blocked.example\n").unwrap();
        }
        let list = |file: &str| config(&format!("[[blocklist]]\nfile = {file:?}\n"));
        let pmdns = Pmdns::start(&list("/run/lab/lists/one"));
        config_file(&list("/run/lab/lists/two"));
        command(&["reload"], 0);
        config_file(&list("/run/elsewhere/three"));
        let is_confined = pmdns.log().contains(", Landlock,");
        let said = command(&["reload"], if is_confined { 2 } else { 0 });
        assert!(!is_confined || said.contains("elsewhere/three"), "{said}");
        println!("{}", said.trim());
        pmdns.stop();
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn audit_12_start_tells_of_files_that_a_reload_cannot_read() {
    isolated("privileges::audit_12_start_tells_of_files_that_a_reload_cannot_read", || {
        sh("mkdir -m 700 /run/lab/home && echo blocked.example > /run/lab/home/list");
        sh("chmod 644 /run/lab/home/list");
        sh(&format!("chown -R {NOBODY} /run/lab/home"));
        let list = "[[blocklist]]\nfile = \"/run/lab/home/list\"\n";
        let pmdns = Pmdns::start(&config(list));
        let told = "/run/lab/home/list cannot be read again: without capabilities user 0 may not enter \
                    /run/lab/home (it is user 65534's, mode 0700); give it to user 0, or open it (`chmod a+x`)";
        assert!(pmdns.log().contains(told), "{}", pmdns.log());
        let said = command(&["reload"], 2);
        assert!(
            said.contains("/run/lab/home/list") && said.contains("Permission denied"),
            "{said}"
        );
        sh("chmod a+x /run/lab/home");
        command(&["reload"], 0);
        pmdns.stop();
        let pmdns = Pmdns::start(&config(list));
        assert!(!pmdns.log().contains("cannot be read again"), "{}", pmdns.log());
        pmdns.stop();
    });
}

/// Asks as an ordinary user of this group.
fn ask(group: &str, arguments: &[&str]) -> Output {
    Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", group, "--clear-groups", "--inh-caps=-all"])
        .arg(path("pmdns"))
        .args(arguments)
        .args(["--socket", "/run/lab/pmdns.sock"])
        .output()
        .unwrap()
}
