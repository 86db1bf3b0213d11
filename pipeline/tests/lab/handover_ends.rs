//! One of two processes ends late in a hand-over, while clients ask over a TAP port. The other one serves on.

use std::fs;
use std::thread;

use crate::handover::{DRAINS, UNDER_WAY, ask, ask_over_the_port, connect, lost, with_streams};
use crate::harness::isolated;
use crate::nsd;
use crate::pmdns::{IS_ALONE, Pmdns, interface_exists, run_to_failure, set_up_tap};

/// Seconds in which clients ask.
const SECONDS: u32 = 10;
/// What the outgoing process says when it goes on.
pub(crate) const GOES_ON: &str = "the process that wanted to take over has ended; this one goes on";

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn an_incoming_process_that_ends_before_it_serves_costs_nothing() {
    lab("an_incoming_process_that_ends_before_it_serves_costs_nothing", 0, |running, config| {
        Pmdns::launch_held("killed", config, "frozen").kill();
        goes_on(&running, 1);
        let mut stopped = Pmdns::launch_held("stopped", config, "frozen");
        stopped.signal("TERM");
        stopped.signal("CONT");
        assert_eq!(stopped.ended(), Some(5), "{}", stopped.log());
        assert!(stopped.log().contains("stopped before it had taken over"), "{}", stopped.log());
        goes_on(&running, 2);
        running
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn an_incoming_process_that_hangs_is_ended() {
    lab("an_incoming_process_that_hangs_is_ended", 0, |running, config| {
        let mut hanging = Pmdns::launch_held("hanging", config, "frozen");
        assert_eq!(hanging.ended(), None, "{}", hanging.log());
        let why =
            "the process that wants to take over is ended: the incoming process takes too long";
        running.wait_for_times(why, 1);
        goes_on(&running, 1);
        running
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn an_incoming_process_that_has_the_ports_and_is_killed_gives_them_back() {
    let name = "an_incoming_process_that_has_the_ports_and_is_killed_gives_them_back";
    lab(name, UNDER_WAY, |running, config| {
        Pmdns::launch_held("killed", config, "serving").kill();
        goes_on(&running, 1);
        running
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn an_outgoing_process_that_drains_takes_back_what_one_that_is_killed_had() {
    let name = "an_outgoing_process_that_drains_takes_back_what_one_that_is_killed_had";
    lab(name, UNDER_WAY, |running, config| take_back(running, config, "KILL"));
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn an_outgoing_process_that_drains_takes_back_what_one_that_is_stopped_had() {
    let name = "an_outgoing_process_that_drains_takes_back_what_one_that_is_stopped_had";
    // What has come is answered, but for what it has just asked an upstream.
    lab(name, UNDER_WAY / 2, |running, config| take_back(running, config, "TERM"));
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn when_the_outgoing_process_is_killed_the_incoming_one_takes_what_there_is() {
    let name = "when_the_outgoing_process_is_killed_the_incoming_one_takes_what_there_is";
    lab(name, UNDER_WAY, |running, config| be_left(running, config, "KILL"));
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn when_the_outgoing_process_is_stopped_the_incoming_one_takes_what_there_is() {
    let name = "when_the_outgoing_process_is_stopped_the_incoming_one_takes_what_there_is";
    lab(name, UNDER_WAY, |running, config| be_left(running, config, "TERM"));
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn when_the_outgoing_process_is_killed_before_the_next_one_has_its_port_that_one_serves() {
    let name =
        "when_the_outgoing_process_is_killed_before_the_next_one_has_its_port_that_one_serves";
    lab(name, UNDER_WAY, |running, config| {
        // Of the queues of a TAP, those of a second process are not the first ones.
        let running = running.hand_over("second", config);
        let mut next = Pmdns::launch_as("next", config);
        next.wait_for("passes its sockets");
        running.kill();
        next.wait_for(IS_ALONE);
        next
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn an_outgoing_process_that_drains_may_be_stopped() {
    lab("an_outgoing_process_that_drains_may_be_stopped", UNDER_WAY, |mut running, config| {
        let mut open = connect();
        ask(&mut open);
        let mut next = Pmdns::launch_as("next", config);
        running.wait_for_times(DRAINS, 1);
        running.signal("TERM");
        assert_eq!(running.ended(), Some(0), "{}", running.log());
        next.wait_for(IS_ALONE);
        next
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_second_process_is_refused_while_one_takes_over() {
    lab("a_second_process_is_refused_while_one_takes_over", 0, |mut running, config| {
        let mut next = Pmdns::launch_held("next", config, "frozen");
        let (code, said) = run_to_failure(config);
        assert_eq!(code, Some(5), "{said}");
        assert!(said.contains("another process takes over already"), "{said}");
        next.signal("CONT");
        next.wait_for(IS_ALONE);
        assert_eq!(running.ended(), Some(0), "{}", running.log());
        next
    });
}

/// Runs `story` from the first process to the one that is left, while clients ask. At most so many queries are lost. Who is left
/// serves clients and operators, hands over, and leaves nothing behind.
fn lab(name: &str, most: u32, story: impl FnOnce(Pmdns, &str) -> Pmdns) {
    isolated(&format!("handover_ends::{name}"), || {
        let _nsd = nsd::start();
        let config = with_streams();
        let first = Pmdns::start(&config);
        set_up_tap();
        let (report, left) = thread::scope(|threads| {
            let udp = threads.spawn(|| ask_over_the_port(SECONDS));
            let left = story(first, &config);
            ask(&mut connect());
            (udp.join().unwrap(), left)
        });
        left.stats().assert_balanced();
        println!("{} lost, {most} are the most", lost(&report));
        assert!(lost(&report) <= most, "{report}");
        left.hand_over("last", &config).stop();
        assert!(!interface_exists("pm0"));
        let sockets = fs::read_to_string("/proc/net/unix").unwrap();
        assert!(!sockets.contains("pmdns.sock"), "{sockets}");
        for socket in ["/run/lab/pmdns.sock", "/run/lab/pmdns.sock.handover"] {
            assert!(!fs::exists(socket).unwrap(), "{socket}");
        }
    });
}

/// The incoming process gets a signal while the outgoing one drains.
fn take_back(running: Pmdns, config: &str, signal: &str) -> Pmdns {
    // It drains as long as this is open.
    let mut open = connect();
    ask(&mut open);
    let mut next = Pmdns::launch_as("next", config);
    running.wait_for_times(DRAINS, 1);
    ask(&mut open);
    ends_by(&mut next, signal);
    goes_on(&running, 1);
    ask(&mut open);
    ask(&mut connect());
    running
}

/// The outgoing process gets a signal while the incoming one is about to take over.
fn be_left(mut running: Pmdns, config: &str, signal: &str) -> Pmdns {
    let mut next = Pmdns::launch_held("next", config, "frozen");
    ends_by(&mut running, signal);
    next.signal("CONT");
    next.wait_for(IS_ALONE);
    next
}

/// Ends a process by a signal: in good order, if it is told to stop.
fn ends_by(process: &mut Pmdns, signal: &str) {
    process.signal(signal);
    let code = process.ended();
    assert_eq!(code, if signal == "TERM" { Some(0) } else { None }, "{}", process.log());
}

/// Waits until a process has gone on so often.
fn goes_on(running: &Pmdns, times: usize) {
    running.wait_for_times(GOES_ON, times);
}
