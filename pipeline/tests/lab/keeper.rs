//! A keeper starts the next process when one crashes, and one that takes over when that is asked for.

use std::fs;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use crate::dig::dig;
use crate::handover::{QUERY, ask, ask_over_the_port, connect, lost, with_streams};
use crate::harness::{isolated, sh, wait_until};
use crate::nsd;
use crate::pmdns::{IS_ALONE, Pmdns, TAP_V4, config_file, interface_exists, run, set_up_tap};

/// Seconds in which clients ask.
const SECONDS: u32 = 12;
/// Where the instance of a lab answers operators.
pub(crate) const SOCKET: [&str; 2] = ["--socket", "/run/lab/pmdns.sock"];
/// Processes that are killed.
const KILLS: u32 = 4;
/// Names that are asked.
const NAMES: u32 = 40;

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn another_process_takes_over_when_it_is_asked_for() {
    isolated("keeper::another_process_takes_over_when_it_is_asked_for", || {
        let _nsd = nsd::start();
        let config = with_files();
        let kept = Pmdns::start_kept(&config);
        set_up_tap();
        let first = serving();
        let report = thread::scope(|threads| {
            let udp = threads.spawn(|| ask_over_the_port(SECONDS));
            thread::sleep(Duration::from_secs(1));
            assert!(tell(&["upgrade"]).contains("has taken over as process"));
            let second = serving();
            assert_ne!(first, second);
            // A key that a reload cannot change in the process that runs.
            config_file(&config.replace("32MiB", "24MiB"));
            let told = tell(&["reload"]);
            assert!(told.contains("the next process takes over with cache.size\n"), "{told}");
            assert!(told.contains("has taken over as process"), "{told}");
            assert_ne!(serving(), second);
            ask(&mut connect());
            udp.join().unwrap()
        });
        assert_eq!(lost(&report), 0, "{report}");
        // The ways to upstreams over ports are laid out at the start.
        let third = serving();
        let over_port = "\n[[upstream]]\naddress = \"10.97.0.1:53\"\nport = \"tap\"\n";
        let sources = "\"fd97::2/64\"]\nquery_sources = [\"10.97.0.77\"]";
        let other = config.replace("32MiB", "24MiB").replace("\"fd97::2/64\"]", sources);
        config_file(&format!("{other}{over_port}"));
        let told = tell(&["reload"]);
        assert!(told.contains("the next process takes over, because"), "{told}");
        assert!(told.contains("upstream[1].port"), "{told}");
        assert_ne!(serving(), third);
        // What does not start costs nothing: the file is checked first, and by the process that would take over.
        let last = serving();
        fs::write("/run/lab/pmdns.toml", "[cache]\nsize = 5\n").unwrap();
        let refused = run(&["upgrade", "--config", "/run/lab/pmdns.toml", SOCKET[0], SOCKET[1]]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert_eq!(serving(), last);
        // A device that is only found out at its start.
        config_file(&config.replace("iface=pm0", "iface=a-name-that-is-too-long"));
        let (begun, failed) = (Instant::now(), run(&["upgrade", SOCKET[0], SOCKET[1]]));
        assert_eq!(failed.status.code(), Some(1), "{failed:?}");
        assert!(String::from_utf8_lossy(&failed.stderr).contains("port"), "{failed:?}");
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody waits for who has ended");
        config_file("[cache]\nsize = 5\n");
        thread::sleep(Duration::from_secs(1));
        let failed = run(&["upgrade", SOCKET[0], SOCKET[1]]);
        assert!(String::from_utf8_lossy(&failed.stderr).contains("cache.size"), "{failed:?}");
        // What `check` finds costs no memory.
        config_file(&config.replace("32MiB", "900GiB"));
        let failed = run(&["reload", SOCKET[0], SOCKET[1]]);
        let why = String::from_utf8_lossy(&failed.stderr);
        assert!(why.contains("`cache.size` is 900GiB, but this machine has"), "{failed:?}");
        // Nobody would find this process there. What it can take over is in use.
        let blocked = "\n[block]\nnames = [\"blocked.example\"]\n";
        config_file(&format!("{}{blocked}", config.replace("pmdns.sock", "other.sock")));
        let told = tell(&["config", "--diff"]);
        let restart = "restart for cache.size, control.socket, port[0].query_sources: another `control.socket`";
        assert!(told.contains(&format!("a reload: {restart}")), "{told}");
        let told = tell(&["reload"]);
        assert!(told.contains(restart) && told.contains("1 blocked names"), "{told}");
        let failed = run(&["upgrade", SOCKET[0], SOCKET[1]]);
        let why = String::from_utf8_lossy(&failed.stderr);
        assert!(why.contains(&format!("process {last} is not at")), "{failed:?}");
        // One that the keeper has not started does not take over.
        let file = config_file(&config);
        let foreign = run(&["run", "--config", file.to_str().unwrap()]);
        assert_eq!(foreign.status.code(), Some(5), "{foreign:?}");
        assert!(String::from_utf8_lossy(&foreign.stderr).contains("pmdns upgrade"), "{foreign:?}");
        assert_eq!(serving(), last);
        end(kept);
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_crash_costs_neither_the_cache_nor_the_ports() {
    isolated("keeper::a_crash_costs_neither_the_cache_nor_the_ports", || {
        let nsd = nsd::start();
        let kept = Pmdns::start_kept(&with_streams());
        set_up_tap();
        let ask_all = || {
            for number in 0..NAMES {
                let reply = dig(TAP_V4, &format!("n{number}.bulk.test A"));
                assert_eq!(reply.data(), vec![nsd::bulk_address(number)]);
            }
        };
        ask_all();
        let report = thread::scope(|threads| {
            let udp = threads.spawn(|| ask_over_the_port(SECONDS));
            for _ in 0..KILLS {
                thread::sleep(Duration::from_secs(1));
                let killed = serving();
                sh(&format!("kill -KILL {killed}"));
                let begun = Instant::now();
                first_answer();
                println!("killed; the next process answers after {:?}", begun.elapsed());
                wait_until("operators are answered", || state().is_some_and(|now| now != killed));
                ask(&mut connect());
            }
            udp.join().unwrap()
        });
        println!("{KILLS} kills\n{report}");
        drop(nsd);
        // Nobody could be asked.
        ask_all();
        kept.wait_for_times("comes with", KILLS as usize);
        // One that does not work any more is ended, though it is stopped.
        let stopped = serving();
        sh(&format!("kill -STOP {stopped}"));
        let ended = format!("process {stopped} has ended: signal: 6 (SIGABRT)");
        wait_until("it is ended", || kept.log().contains(&ended));
        first_answer();
        ask_all();
        end(kept);
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn after_a_crash_another_process_takes_over_and_no_files_stay() {
    isolated("keeper::after_a_crash_another_process_takes_over_and_no_files_stay", || {
        let _nsd = nsd::start();
        let kept = Pmdns::start_kept(&with_files());
        set_up_tap();
        assert!(tell(&["upgrade"]).contains("has taken over as process"));
        kept.wait_for_times(IS_ALONE, 1);
        wait_until("the first one's files are gone", || files() == ["kept-next"]);
        let killed = serving();
        sh(&format!("kill -KILL {killed}"));
        wait_until("operators are answered", || state().is_some_and(|now| now != killed));
        wait_until("the killed one's files are gone", || files() == ["kept"]);
        ask(&mut connect());
        // It has the only queues of the TAP, though the interface was there before.
        assert!(tell(&["upgrade"]).contains("has taken over as process"));
        kept.wait_for_times(IS_ALONE, 2);
        first_answer();
        end(kept);
        assert!(files().is_empty());
    });
}

/// A config with files of DPDK, which two processes must not share.
fn with_files() -> String {
    with_streams().replace("--no-shconf", "--file-prefix=kept")
}

/// Folders of DPDK for the files of these processes.
fn files() -> Vec<String> {
    let folders = fs::read_dir("/run/dpdk").into_iter().flatten().flatten();
    let names = folders.map(|folder| folder.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("kept")).collect()
}

/// Asks until an answer comes.
pub(crate) fn first_answer() {
    let client = UdpSocket::bind("10.97.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    wait_until("a question is answered", || {
        client.send_to(&QUERY[2..], (TAP_V4, 53)).is_ok() && client.recv(&mut [0; 512]).is_ok()
    });
}

/// The process that serves; `None`: none answers.
pub(crate) fn state() -> Option<u64> {
    let output = run(&["state", "--json", SOCKET[0], SOCKET[1]]);
    let state: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    state["process"].as_u64()
}

/// The process that serves, once one does.
pub(crate) fn serving() -> u64 {
    let mut process = None;
    wait_until("a process serves", || {
        process = state();
        process.is_some()
    });
    process.unwrap()
}

/// What a command says that has done its work.
pub(crate) fn tell(command: &[&str]) -> String {
    let output = run(&[command, &SOCKET].concat());
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Ends a keeper and its process. Nothing is left.
pub(crate) fn end(mut kept: Pmdns) {
    kept.signal("TERM");
    assert_eq!(kept.ended(), Some(0), "{}", kept.log());
    wait_until("the port is gone", || !interface_exists("pm0"));
    for socket in ["/run/lab/pmdns.sock", "/run/lab/pmdns.sock.handover"] {
        assert!(!fs::exists(socket).unwrap(), "{socket}");
    }
}
