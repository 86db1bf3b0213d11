//! A real upstream is replaced by another while dnsperf asks for names that are in no cache. No query is lost.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::commands::command;
use crate::harness::{isolated_alone, path, settled, sh};
use crate::nsd::{self, BULK_NAMES};
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, TAP_V4, config_file, set_up_tap, upstream};

/// Questions a second: so few that the changes come among them.
const RATE: u32 = 2000;
/// How often the upstream is replaced.
const CHANGES: usize = 7;

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn no_query_is_lost_while_the_upstream_is_replaced() {
    isolated_alone("changed_upstreams::no_query_is_lost_while_the_upstream_is_replaced", || {
        let first = nsd::start();
        let _second = nsd::serve_second(&[("bulk.test", &nsd::bulk_zone())]);
        let config = |port: u16| format!("{TAP_PORT}{COMMON}{}", upstream(port));
        let pmdns = Pmdns::start(&config(nsd::PORT));
        set_up_tap();
        let at_rest = settled(|| pmdns.stats().frames_in_use());
        let report = thread::scope(|threads| {
            let dnsperf = threads.spawn(every_name_once);
            for number in 0..CHANGES {
                thread::sleep(Duration::from_millis(400));
                let port = if number % 2 == 0 { nsd::SECOND_PORT } else { nsd::PORT };
                config_file(&config(port));
                let said = command(&["reload"], 0);
                assert!(!said.contains("restart"), "{said}");
            }
            // The last one is the second, so the first is not needed any more.
            drop(first);
            dnsperf.join().unwrap()
        });
        assert!(
            report.contains(&format!("Queries completed:    {BULK_NAMES} (100.00%)")),
            "{report}"
        );
        assert!(report.contains(&format!("NOERROR {BULK_NAMES} (100.00%)")), "{report}");
        let stats = pmdns.stats();
        assert_eq!(stats.text("/upstreams/0/address"), format!("127.0.0.1:{}", nsd::SECOND_PORT));
        assert_eq!(settled(|| pmdns.stats().frames_in_use()), at_rest, "the pool is whole");
        println!("{CHANGES} changes, {BULK_NAMES} queries, none lost\n{}", pmdns.stop().summary());
    });
}

/// Asks for all bulk names by dnsperf, and returns its report.
fn every_name_once() -> String {
    let names: String = (0..BULK_NAMES).map(|number| format!("n{number}.bulk.test A\n")).collect();
    let file = path("names");
    fs::write(&file, names).unwrap();
    sh(&format!("dnsperf -s {TAP_V4} -d {} -n 1 -Q {RATE} -q 200 -t 10", file.display()))
}
