//! Sinks that fail: full disks, readers that are gone, file systems that became read-only. The server lives, answers, and
//! counts what it lost.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use crate::api_calls::{serve_files, write_certificates};
use crate::dig::dig;
use crate::harness::{FOLDER, isolated, path, sh, wait_until};
use crate::nsd;
use crate::pmdns::{BINARY, Pmdns, TAP_V4, run, upstream};
use crate::process::Process;
use crate::transfer;

/// Files of every kind, in a file system of 1 MiB.
const FILES: &str = r#"
[cache]
size = "32MiB"
pages = "normal"
snapshot = "/run/lab/small/cache"

[control]
socket = "/run/lab/pmdns.sock"
entries = "/run/lab/small/kept/entries"

[clients]
max_entries = 100
journal = "/run/lab/small/kept/clients"

[query_log]
dnstap = "/run/lab/dnstap.sock"
json = "/run/lab/small/q.json"
sqlite = "/run/lab/small/q.db"
"#;

fn files(upstream_port: u16) -> String {
    format!("{FILES}{}", upstream(upstream_port))
}

/// A number of a sink, or of a part of the query log.
fn number(pmdns: &Pmdns, pointer: &str) -> u64 {
    pmdns.stats().number(pointer)
}

/// Runs a command against the instance. Returns whether it was obeyed, and what was said.
fn order(words: &str) -> (bool, String) {
    let words: Vec<&str> = words.split_whitespace().collect();
    let output = run(&[&words[..], &["--socket", "/run/lab/pmdns.sock"]].concat());
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_log_that_cannot_be_written_ends_nothing() {
    isolated("sinks::a_log_that_cannot_be_written_ends_nothing", || {
        let nsd = nsd::start();
        let (closed, _) = UnixStream::pair().unwrap();
        let (reader, pipe) = std::io::pipe().unwrap();
        drop(reader);
        let outputs: [(&str, OwnedFd); 3] = [
            ("text", pipe.into()),
            ("json", File::options().write(true).open("/dev/full").unwrap().into()),
            ("journal", closed.into()),
        ];
        fs::create_dir_all(path("small/kept")).unwrap();
        for (format, output) in outputs {
            let pmdns = Pmdns::start_logging_to(&files(nsd::PORT), format, Stdio::from(output));
            assert_eq!(dig(TAP_V4, "n1.bulk.test A").status, "NOERROR", "{format}");
            let lost = number(&pmdns, "/sinks/0/lost");
            assert!(lost > 0, "{format}");
            assert!(order("reload").0);
            let then = number(&pmdns, "/sinks/0/lost");
            assert!(then > lost, "{format}: a reload has lines");
            pmdns.stop();
            assert!(
                Path::new("/run/lab/small/cache").exists(),
                "{format}: the snapshot is written"
            );
            sh("rm /run/lab/small/cache; ip link delete pm0 2>/dev/null || true");
        }
        drop(nsd);
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_full_disk_a_reader_that_leaves_and_a_read_only_folder_end_nothing() {
    isolated("sinks::a_full_disk_a_reader_that_leaves_and_a_read_only_folder_end_nothing", || {
        small_disk();
        let _nsd = nsd::start();
        let _dnstap = reader_that_leaves();
        let pmdns = Pmdns::start_on_tap_alone(&files(nsd::PORT));
        assert!(order("block before.example").0);
        full_disk(&pmdns);
        clients_that_leave(&pmdns);
        assert!(number(&pmdns, "/query_log/1/failures") > 0, "the reader of dnstap always leaves");
        read_only(pmdns);
    });
}

/// A file system of 1 MiB for all files.
fn small_disk() {
    sh("mkdir /run/lab/small && mount -t tmpfs -o size=1m small /run/lab/small");
    sh("mkdir /run/lab/small/kept");
}

fn fill() {
    sh("cat /dev/zero > /run/lab/small/fill 2>/dev/null || true");
}

/// Whether the next change is kept.
fn is_kept(number: usize) -> bool {
    let (is_done, said) = order(&format!("block n{number}.kept.example"));
    assert!(is_done || said.contains("is not kept: the disk refuses"), "{said}");
    let (is_client_done, said) = order(&format!("client set 192.0.2.{number} default"));
    assert!(is_client_done == is_done, "{said}");
    is_done
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_start_on_a_full_or_a_read_only_disk_serves() {
    isolated("sinks::a_start_on_a_full_or_a_read_only_disk_serves", || {
        small_disk();
        let _nsd = nsd::start();
        let start = || Pmdns::start_on_tap_alone(&files(nsd::PORT));
        let pmdns = start();
        assert!(is_kept(1));
        pmdns.stop();
        fill();
        sh("ip link delete pm0 2>/dev/null || true");
        let pmdns = start();
        serves_without_sinks(&pmdns, 2);
        sh("rm /run/lab/small/fill");
        serves_with_sinks(&pmdns, 3);
        pmdns.stop();
        sh("mount --bind /run/lab/small /run/lab/small && mount -o remount,bind,ro /run/lab/small");
        sh("ip link delete pm0 2>/dev/null || true");
        let pmdns = start();
        serves_without_sinks(&pmdns, 4);
        sh("mount -o remount,bind,rw /run/lab/small");
        serves_with_sinks(&pmdns, 5);

        // What is appended to a file whose folder is gone would be lost.
        sh("rm -r /run/lab/small/kept");
        assert!(!is_kept(6));
        sh("mkdir /run/lab/small/kept");
        assert!(is_kept(7));
        let kept = fs::read_to_string("/run/lab/small/kept/entries").unwrap();
        assert!((1..8).all(|number| kept.contains(&format!("n{number}.kept."))), "{kept}");

        // No file may grow any more (SIGXFSZ).
        let lost = number(&pmdns, "/query_log/2/lost");
        sh(&format!("prlimit --fsize=1: --pid {}", pmdns.id()));
        wait_until("JSON lines are lost", || {
            dig(TAP_V4, "n1.bulk.test A");
            number(&pmdns, "/query_log/2/lost") > lost
        });
        assert!(!is_kept(8));
        // What it prints at its end is in a file, too.
        sh(&format!("prlimit --fsize=unlimited: --pid {}", pmdns.id()));
        pmdns.stop();
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_disk_that_becomes_read_only_ends_nothing() {
    isolated("sinks::a_disk_that_becomes_read_only_ends_nothing", || {
        let Some(fail) = disk_that_fails() else { return };
        let _nsd = nsd::start();
        let log = File::create(path("small/log")).unwrap();
        let pmdns = Pmdns::start_logging_to(&files(nsd::PORT), "text", Stdio::from(log));
        serves_with_sinks(&pmdns, 1);
        let mut capture = Command::new(BINARY);
        capture.args("capture -w /run/lab/small/q.pcap --socket /run/lab/pmdns.sock".split(' '));
        let mut capture = Process::start("capture", &mut capture);
        wait_until("the capture has begun", || {
            dig(TAP_V4, "n1.bulk.test A");
            fs::metadata(path("small/q.pcap")).is_ok_and(|file| file.len() > 0)
        });
        fail();

        wait_until("the capture ends", || {
            dig(TAP_V4, "n1.bulk.test A");
            capture.child().try_wait().unwrap().is_some()
        });
        assert!(capture.log().contains("cannot write"), "{}", capture.log());
        assert!(!is_kept(2));
        assert!(order("reload").0, "a reload has lines for the log");
        for lost in ["/sinks/0/lost", "/sinks/1/lost", "/query_log/2/lost", "/query_log/3/lost"] {
            wait_until(lost, || {
                dig(TAP_V4, "n1.bulk.test A");
                number(&pmdns, lost) > 0
            });
        }
        assert!(number(&pmdns, "/clients/failures") > 0 && number(&pmdns, "/sinks/1/failing") == 1);
        assert!(number(&pmdns, "/query_log/2/failures") > 0);
        assert!(number(&pmdns, "/query_log/3/failures") > 0);
        assert!(!order("dump /run/lab/small/dump").0);
        let socket = "/run/lab/pmdns.sock";
        let found = run(&["log", "--socket", socket, "--name", "n1.bulk.test"]);
        assert!(found.status.success() && !found.stdout.is_empty(), "{found:?}");
        assert_eq!(dig(TAP_V4, "n1.kept.example A").status, "NXDOMAIN");
        assert_eq!(dig(TAP_V4, "n2.bulk.test A").status, "NOERROR");
        pmdns.stop();
    });
}

/// A disk for all files, and what has the kernel take it for damaged: it becomes read-only, as the file systems of most
/// machines do. A remount would be refused while files are open. `None`: there are no loop devices here.
fn disk_that_fails() -> Option<impl FnOnce()> {
    sh("cd /run/lab && mkdir small && truncate -s 16M image && mkfs.ext4 -q image");
    let mut attach = Command::new("losetup");
    let attached = attach.args(["--find", "--show", "/run/lab/image"]).output().unwrap();
    if !attached.status.success() {
        println!("not tried: {}", String::from_utf8_lossy(&attached.stderr));
        return None;
    }
    let device = String::from_utf8(attached.stdout).unwrap().trim().to_owned();
    // It is free again when the mount ends.
    sh(&format!("mount -o errors=remount-ro {device} {FOLDER}/small && losetup -d {device}"));
    sh("mkdir /run/lab/small/kept");
    let device = device.trim_start_matches("/dev/").to_owned();
    Some(move || {
        // Pages that are clean can no longer be written through a mapping.
        sh("sync -f /run/lab/small");
        fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "1").unwrap();
        assert!(File::create(path("small/new")).is_err());
    })
}

/// It has read what was kept, answers, and tells what it cannot write.
fn serves_without_sinks(pmdns: &Pmdns, next: usize) {
    assert_eq!(dig(TAP_V4, "n1.kept.example A").status, "NXDOMAIN");
    assert_eq!(dig(TAP_V4, "n1.bulk.test A").status, "NOERROR");
    assert_eq!(number(pmdns, "/sinks/1/failing"), 1, "entries");
    assert!(number(pmdns, "/clients/failures") > 0);
    wait_until("rows are lost", || {
        dig(TAP_V4, "n1.bulk.test A");
        number(pmdns, "/query_log/3/lost") > 0
    });
    assert!(number(pmdns, "/query_log/3/failures") > 0);
    assert!(!is_kept(next));
}

fn serves_with_sinks(pmdns: &Pmdns, next: usize) {
    assert!(is_kept(next));
    assert_eq!(number(pmdns, "/sinks/1/failing"), 0);
    wait_until("the logs are written", || {
        dig(TAP_V4, "n1.bulk.test A");
        number(pmdns, "/query_log/2/up") == 1 && number(pmdns, "/query_log/3/up") == 1
    });
}

/// A list and a zone that come by the network.
const FETCHED: &str = r#"
[[blocklist]]
file = "/run/lab/small/ads"
url = "https://lists.test:8443/ads"
address = "127.0.0.1"
ca_file = "/run/lab/ca.pem"
refresh_seconds = 86400
"#;

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_full_disk_leaves_fetched_lists_and_transferred_zones_as_they_are() {
    isolated("sinks::a_full_disk_leaves_fetched_lists_and_transferred_zones_as_they_are", || {
        small_disk();
        let _nsd = nsd::start();
        let _knot = transfer::start_knot();
        write_certificates("lists.test");
        fs::create_dir(path("www")).unwrap();
        fs::write(path("www/ads"), "n1.listed.test\n").unwrap();
        // The server tells versions apart by the second.
        sh("touch -d '1 hour ago' /run/lab/www/ads");
        let _server = serve_files(("127.0.0.1", 8443));
        let zone = transfer::TRANSFER.replace("/run/lab/kept.rpz", "/run/lab/small/rpz");
        let pmdns = Pmdns::start_on_tap(&format!("{FETCHED}{zone}{}", upstream(nsd::PORT)));
        let is_blocked = |name: &str| dig(TAP_V4, &format!("{name} A")).status == "NXDOMAIN";
        let of_list = |name: &str| number(&pmdns, &format!("/fetched_lists/0/{name}"));
        let of_zone = |name: &str| number(&pmdns, &format!("/policy_zones/0/{name}"));
        wait_until("both come", || of_list("fetched") == 1 && of_zone("whole") == 1);
        wait_until("both hold", || is_blocked("n1.bulk.test") && is_blocked("n1.listed.test"));
        let files = sh("cd /run/lab/small && ls -A && cat ads rpz");

        fill();
        fs::write(path("www/ads"), "n1.listed.test\nn2.bulk.test\n").unwrap();
        let (is_done, said) = order("refresh ads");
        assert!(!is_done && said.contains("cannot write it: No space left"), "{said}");
        transfer::change("zone-set rpz.example n3.bulk.test 60 CNAME .");
        wait_until("the zone is not kept", || of_zone("failures") > 0);
        assert!(order("reload").0, "the rules are read again from both");
        assert_eq!((of_list("failures"), of_list("failing"), of_list("names")), (1, 1, 1));
        assert_eq!((of_list("fetched"), of_zone("incremental")), (1, 0));
        assert!(of_zone("failing") > 0);
        for (name, rcode) in [("n1", "NXDOMAIN"), ("n2", "NOERROR"), ("n3", "NOERROR")] {
            assert_eq!(dig(TAP_V4, &format!("{name}.bulk.test A")).status, rcode, "{name}");
        }
        assert!(is_blocked("n1.listed.test"));
        let log = pmdns.log();
        for told in ["list /run/lab/small/ads is not refreshed", "cannot write /run/lab/small/rpz"]
        {
            assert!(log.contains(told), "{told}: {log}");
        }
        sh("rm /run/lab/small/fill");
        assert_eq!(
            sh("cd /run/lab/small && ls -A && cat ads rpz"),
            files,
            "nothing is left behind"
        );

        assert!(order("refresh ads").0);
        transfer::change("zone-set rpz.example n4.bulk.test 60 CNAME .");
        wait_until("all of them hold", || {
            (1..5).all(|number| is_blocked(&format!("n{number}.bulk.test")))
        });
        assert_eq!((of_list("failing"), of_zone("failing")), (0, 0));
        pmdns.stop();
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_start_while_another_program_locks_the_database_serves() {
    isolated("sinks::a_start_while_another_program_locks_the_database_serves", || {
        small_disk();
        let _nsd = nsd::start();
        let start = || Pmdns::start_on_tap_alone(&files(nsd::PORT));
        // Not one of ours yet: a start has to write to it.
        let database = rusqlite::Connection::open("/run/lab/small/q.db").unwrap();
        database.execute_batch("CREATE TABLE other (one); BEGIN IMMEDIATE").unwrap();
        let pmdns = start();
        assert_eq!(dig(TAP_V4, "n1.bulk.test A").status, "NOERROR");
        wait_until("rows are lost", || {
            dig(TAP_V4, "n1.bulk.test A");
            number(&pmdns, "/query_log/3/lost") > 0
        });
        assert!(number(&pmdns, "/query_log/3/failures") > 0);
        database.execute_batch("COMMIT").unwrap();
        wait_until("rows are written", || {
            dig(TAP_V4, "n1.bulk.test A");
            number(&pmdns, "/query_log/3/up") == 1
        });
        pmdns.stop();
    });
}

/// Accepts dnstap connections and closes them at once.
fn reader_that_leaves() -> thread::JoinHandle<()> {
    let listener = UnixListener::bind(path("dnstap.sock")).unwrap();
    thread::spawn(move || listener.incoming().for_each(drop))
}

/// Gives such orders until one is refused because the disk is full: a page of a file may have room left.
fn until_refused(order_of: impl Fn(usize) -> String) {
    let refused = (1..100).map(|number| order(&order_of(number))).find(|(is_done, _)| !is_done);
    let (_, said) = refused.expect("the disk is full");
    assert!(said.contains("is not kept: the disk refuses"), "{said}");
}

fn full_disk(pmdns: &Pmdns) {
    fill();
    until_refused(|number| format!("block n{number}.after.example"));
    until_refused(|number| format!("client set 192.0.2.{number} default"));
    let asking = thread::spawn(|| (0..20).for_each(|_| drop(dig(TAP_V4, "n1.bulk.test A"))));
    for (words, what) in [
        ("dump /run/lab/small/dump", "No space left on device"),
        ("capture --count 1 -w /run/lab/small/full.pcap", "cannot write the capture"),
    ] {
        let (is_done, said) = order(words);
        assert!(!is_done && said.contains(what), "{words}: {said}");
    }
    asking.join().unwrap();
    wait_until("JSON lines are lost", || {
        dig(TAP_V4, "n1.bulk.test A");
        number(pmdns, "/query_log/2/lost") > 0
    });
    wait_until("rows are lost", || {
        dig(TAP_V4, "n1.bulk.test A");
        number(pmdns, "/query_log/3/lost") > 0
    });
    assert_eq!(number(pmdns, "/sinks/1/lost"), 1, "the change that was refused");
    assert!(number(pmdns, "/clients/failures") > 0);
    sh("rm /run/lab/small/fill");
    assert!(order("block again.example").0 && order("client set 192.0.2.200 default").0);
    assert_eq!(number(pmdns, "/sinks/1/failing"), 0);
    wait_until("the logs are written again", || {
        dig(TAP_V4, "n1.bulk.test A");
        number(pmdns, "/query_log/2/up") == 1 && number(pmdns, "/query_log/3/up") == 1
    });
    let kept = fs::read_to_string("/run/lab/small/kept/entries").unwrap();
    assert!(kept.contains("n1.after.example") && kept.contains("again.example"), "{kept}");
    let lines = pmdns.log().matches("query log: cannot write").count();
    assert!((1..=4).contains(&lines), "{lines} lines: {}", pmdns.log());
}

/// Clients of the control socket, and of what is printed, that do not wait for their answer.
fn clients_that_leave(pmdns: &Pmdns) {
    let stats = "GET /api/v1/stats HTTP/1.1\r\nHost: pmdns\r\n\r\n";
    let entries = "GET /api/v1/entries HTTP/1.1\r\nHost: pmdns\r\n\r\n";
    for request in [stats, entries, &stats[..9]] {
        for _ in 0..5 {
            let mut stream = UnixStream::connect("/run/lab/pmdns.sock").unwrap();
            stream.write_all(request.as_bytes()).unwrap();
        }
    }
    for words in [&["stats", "--json"][..], &["capture", "--count", "1", "-w", "-"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(BINARY);
        command.args(words).args(["--socket", "/run/lab/pmdns.sock"]).stdout(full);
        let mut child = Process::start_with_stdout_set("asking", &mut command);
        dig(TAP_V4, "n1.bulk.test A");
        let code = child.wait().code();
        assert!(code.is_some(), "{words:?} was ended by a signal: {}", child.log());
    }
    assert!(pmdns.stats().total("received") > 0);
}

fn read_only(pmdns: Pmdns) {
    sh("mount --bind /run/lab/small /run/lab/small && mount -o remount,bind,ro /run/lab/small");
    let (is_done, said) = order("dump /run/lab/small/dump");
    assert!(!is_done && said.contains("Read-only file system"), "{said}");
    assert_eq!(dig(TAP_V4, "n2.bulk.test A").status, "NOERROR");
    let log = pmdns.stop_with_log();
    assert!(log.contains("cannot write the snapshot /run/lab/small/cache: Read-only"), "{log}");
}
