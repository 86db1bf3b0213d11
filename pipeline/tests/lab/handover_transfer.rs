//! Processes take over from each other, and start after a crash, while a primary notifies of new versions. One of them transfers at
//! a time, and no notification is lost.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use crate::handover::{DRAINS, TCP, connect_to, with_streams};
use crate::harness::{isolated, path, sh, wait_until};
use crate::keeper::{end, serving};
use crate::messages::{NOERROR, NXDOMAIN};
use crate::nsd;
use crate::pmdns::{IS_ALONE, Pmdns, set_up_tap};
use crate::transfer::{TRANSFER, answer, change, start_knot};

/// Processes that follow the first one.
const PROCESSES: usize = 3;
/// Where clients over TCP come to: the primary notifies at the usual address.
const CLIENTS: &str = "127.0.0.1:5398";

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn one_process_transfers_at_a_time_and_no_notification_is_lost() {
    isolated(
        "handover_transfer::one_process_transfers_at_a_time_and_no_notification_is_lost",
        || {
            let _nsd = nsd::start();
            let _knot = start_knot();
            let config = config();
            let mut running = Pmdns::start(&config);
            set_up_tap();
            wait_until("the first version comes", || answer("n1.bulk.test") == NXDOMAIN);
            let sockets = sockets();
            assert_eq!(sockets.len(), 2, "{sockets:?}");
            for number in 0..PROCESSES {
                let (held, drained) = (format!("n{}", 10 + number), format!("n{}", 20 + number));
                let mut next = Pmdns::launch_held(&format!("next-{number}"), &config, "frozen");
                let version = fs::read_to_string(path("kept.rpz")).unwrap();
                // The notification waits in the socket, and the primary asks again if it gets no answer.
                change(&format!("zone-set rpz.example {held}.bulk.test 60 CNAME ."));
                assert_eq!(answer(&format!("{held}.bulk.test")), NOERROR);
                wait_until("the notification waits", || waiting() > 0);
                // The process before drains as long as this is open.
                let open = connect_to(CLIENTS);
                // It would have transferred by then.
                sleep(Duration::from_secs(1));
                assert_eq!(
                    fs::read_to_string(path("kept.rpz")).unwrap(),
                    version,
                    "nobody transfers"
                );
                next.signal("CONT");
                running.wait_for_times(DRAINS, 1);
                wait_until("the next one transfers", || {
                    answer(&format!("{held}.bulk.test")) == NXDOMAIN
                });
                change(&format!("zone-set rpz.example {drained}.bulk.test 60 CNAME ."));
                let is_blocked = || answer(&format!("{drained}.bulk.test")) == NXDOMAIN;
                wait_until("it is notified", is_blocked);
                assert!(next.stats().number("/policy_zones/0/notified") > 0);
                assert!(
                    !next.log().contains(IS_ALONE),
                    "the one before is there yet: {}",
                    next.log()
                );
                drop(open);
                next.wait_for(IS_ALONE);
                assert_eq!(running.ended(), Some(0), "{}", running.log());
                running = next;
                assert_eq!(self::sockets(), sockets, "they are the same ones");
            }
            running.stop();
        },
    );
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_process_that_is_killed_before_it_serves_leaves_transfers_to_the_other() {
    let name = "handover_transfer::a_process_that_is_killed_before_it_serves_leaves_transfers_to_the_other";
    isolated(name, || {
        let _nsd = nsd::start();
        let _knot = start_knot();
        let config = config();
        let running = Pmdns::start(&config);
        set_up_tap();
        wait_until("the first version comes", || answer("n1.bulk.test") == NXDOMAIN);
        for (times, (name, step)) in (1..).zip([("n2", "frozen"), ("n3", "serving")]) {
            let next = Pmdns::launch_held(name, &config, step);
            change(&format!("zone-set rpz.example {name}.bulk.test 60 CNAME ."));
            next.kill();
            running.wait_for_times("this one goes on", times);
            wait_until("it transfers again", || answer(&format!("{name}.bulk.test")) == NXDOMAIN);
        }
        running.stop();
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn sockets_for_notifications_outlive_a_crash() {
    isolated("handover_transfer::sockets_for_notifications_outlive_a_crash", || {
        let _nsd = nsd::start();
        let _knot = start_knot();
        let kept = Pmdns::start_kept(&config());
        set_up_tap();
        wait_until("the first version comes", || answer("n1.bulk.test") == NXDOMAIN);
        let sockets = sockets();
        let killed = serving();
        sh(&format!("kill -KILL {killed}"));
        change("zone-set rpz.example n2.bulk.test 60 CNAME .");
        wait_until("the next process serves", || serving() != killed);
        wait_until("a rule comes", || answer("n2.bulk.test") == NXDOMAIN);
        assert_eq!(self::sockets(), sockets, "they are the same ones");
        end(kept);
    });
}

/// Clients over TCP beside a policy zone, whose primary notifies.
fn config() -> String {
    format!("{}{TRANSFER}", with_streams().replace(TCP, CLIENTS))
}

/// The inodes of the sockets for notifications.
fn sockets() -> Vec<String> {
    let mut found = columns(9);
    found.sort();
    found
}

/// Bytes and connections that nobody has taken in there.
fn waiting() -> u32 {
    let of = |queues: &String| u32::from_str_radix(queues.split_once(':').unwrap().1, 16).unwrap();
    columns(4).iter().map(of).sum()
}

/// A column of what the kernel says of the sockets for notifications.
fn columns(number: usize) -> Vec<String> {
    let all = sh("cat /proc/net/udp /proc/net/tcp");
    let columns = all.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    columns
        .filter(|columns| columns[1] == "0100007F:1517" && columns[2] == "00000000:0000")
        .map(|columns| columns[number].to_owned())
        .collect()
}
