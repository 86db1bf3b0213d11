//! What a crash leaves: the packets that the data core had in hand.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::handover::{ask_over_the_port, with_streams};
use crate::harness::{isolated, path, sh, wait_until};
use crate::keeper::{end, first_answer, serving, state, tell};
use crate::nsd;
use crate::pmdns::{Pmdns, TAP_V4, set_up_tap};

/// A query for `poison.bulk.test` A with RD, behind its ID.
const POISON: &[u8] =
    b"\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x06poison\x04bulk\x04test\x00\x00\x01\x00\x01";
/// Crashes by it.
const CRASHES: u8 = 3;

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_packet_that_crashes_each_process_is_known_by_its_count() {
    isolated("crashes::a_packet_that_crashes_each_process_is_known_by_its_count", || {
        let _nsd = nsd::start();
        let (kept_file, file) = (path("crashes.pcapng"), path("asked.pcapng"));
        let key = format!("[control]\ncrashes = \"{}\"\n", kept_file.display());
        let config = with_streams();
        assert!(config.contains("[control]\n"));
        let kept = Pmdns::start_kept_crashing(&config.replace("[control]\n", &key), "poison");
        set_up_tap();
        first_answer();
        assert_eq!(crashes(), json!([]));
        let client = UdpSocket::bind("10.97.0.1:0").unwrap();
        for count in 1..=CRASHES {
            let before = serving();
            client.send_to(&[&[7, count][..], POISON].concat(), (TAP_V4, 53)).unwrap();
            wait_until("the next process serves", || state().is_some_and(|now| now != before));
            let crash = &crashes()[0];
            assert_eq!((&crash["signal"], &crash["process"]), (&json!("SIGABRT"), &json!(before)));
            let own: Vec<&Value> =
                packets(crash).filter(|it| it["core"] == crash["core"]).collect();
            let poison = own.iter().find(|it| it["question"] == "poison.bulk.test A");
            let poison = poison.unwrap_or_else(|| panic!("{crash}"));
            assert_eq!(
                (&poison["client"], &poison["in_a_row"]),
                (&json!("10.97.0.1"), &json!(count))
            );
            let others = packets(crash).filter(|it| it["question"] != "poison.bulk.test A");
            assert!(
                others.clone().all(|it| it["in_a_row"] == 1 || it["question"].is_null()),
                "{crash}"
            );
        }
        kept.wait_for_times("has crashed by SIGABRT on core", CRASHES.into());
        assert!(tell(&["crash"]).contains("poison.bulk.test A, 76 bytes, in 3 crashes in a row"));
        tell(&["crash", "--pcap", file.to_str().unwrap()]);
        assert_eq!(poisoned(&file), usize::from(CRASHES));
        assert_eq!(fs::read(&file).unwrap(), fs::read(&kept_file).unwrap());
        aborted_from_outside();
        end(kept);
    });
}

/// A keeper does so with a process that does not work any more.
fn aborted_from_outside() {
    let report = thread::scope(|threads| {
        let udp = threads.spawn(|| ask_over_the_port(4));
        thread::sleep(Duration::from_secs(1));
        let before = serving();
        sh(&format!("kill -ABRT {before}"));
        wait_until("the next process serves", || state().is_some_and(|now| now != before));
        let crashes = crashes();
        assert_eq!(crashes.as_array().unwrap().len(), usize::from(CRASHES) + 1);
        let crash = &crashes[0];
        assert_eq!((&crash["process"], &crash["core"]), (&json!(before), &Value::Null));
        println!("{} packets in hand when it was aborted", packets(crash).count());
        udp.join().unwrap()
    });
    println!("{report}");
}

fn crashes() -> Value {
    let told: Value = serde_json::from_str(&tell(&["crash", "--json"])).unwrap();
    told["crashes"].clone()
}

fn packets(crash: &Value) -> impl Iterator<Item = &Value> + Clone {
    crash["packets"].as_array().unwrap().iter()
}

/// How many queries for the name others find in a capture.
fn poisoned(file: &Path) -> usize {
    let printed = sh(&format!("tcpdump -n -r {} 2> /dev/null", file.display()));
    printed.lines().filter(|line| line.contains("A? poison.bulk.test.")).count()
}
