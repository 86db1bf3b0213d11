//! A data core that sleeps when nothing comes, and is woken by packets.

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::isolated_alone;
use crate::pmdns::{Pmdns, TAP_V4, upstream};

/// Queries, each after a pause that is long enough for the deepest sleep.
const QUERIES: u16 = 30;
const PAUSE: Duration = Duration::from_millis(100);
const LOCAL: &str = "\n[[local]]\nname = \"here.test\"\ntype = \"A\"\ndata = \"192.0.2.1\"\n";

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn packets_wake_a_core_that_sleeps() {
    isolated_alone("idle::packets_wake_a_core_that_sleeps", || {
        let pmdns = Pmdns::start_on_tap(&format!("{LOCAL}{}", upstream(53)));
        assert!(pmdns.log().contains("packets wake it by RX interrupts"), "{}", pmdns.log());
        let mut times = ask_after_pauses();
        times.sort();
        let before = pmdns.stats();
        thread::sleep(Duration::from_secs(2));
        let turns = [before, pmdns.stats()].map(|stats| stats.number("/workers/0/idle_turns"));
        println!(
            "woken: answers after {:?} (median), {:?} (longest); {} turns a second without packets",
            times[times.len() / 2],
            times[times.len() - 1],
            (turns[1] - turns[0]) / 2
        );
        pmdns.stop();
    });
}

/// How long each answer took.
fn ask_after_pauses() -> Vec<Duration> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect((TAP_V4, 53)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let ask = |id: u16| {
        thread::sleep(PAUSE);
        let mut query = id.to_be_bytes().to_vec();
        query.extend(
            b"\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04here\x04test\x00\x00\x01\x00\x01",
        );
        let begun = Instant::now();
        socket.send(&query).unwrap();
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer).expect("each query is answered");
        assert_eq!((&answer[..2], length > query.len()), (&query[..2], true));
        begun.elapsed()
    };
    // The first ones find the way.
    (0..QUERIES + 5).map(ask).skip(5).collect()
}
