//! Upstreams are drained, resumed, added and removed by command and API while dnsperf asks. No query is lost.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::api::{READER, WRITER, with_token};
use crate::api_calls::config;
use crate::commands::command;
use crate::harness::{isolated_alone, path, settled, sh};
use crate::nsd::{self, BULK_NAMES};
use crate::pmdns::{Pmdns, TAP_V4, config_file, set_up_tap};
use crate::stats::Stats;

/// Questions a second: so few that the changes come among them.
const RATE: u32 = 1000;
/// Time for questions.
const WHILE: Duration = Duration::from_millis(1500);

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// The queries that an upstream has got.
fn queries(stats: &Stats, port: u16) -> u64 {
    let place =
        (0..2).find(|place| stats.text(&format!("/upstreams/{place}/address")) == address(port));
    stats.number(&format!("/upstreams/{}/queries", place.expect("it is asked")))
}

/// The same, now and a while later.
fn before_and_after(pmdns: &Pmdns, port: u16) -> (u64, u64) {
    let before = queries(&pmdns.stats(), port);
    thread::sleep(WHILE);
    (before, queries(&pmdns.stats(), port))
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn no_query_is_lost_while_an_upstream_is_drained() {
    isolated_alone("runtime_upstreams::no_query_is_lost_while_an_upstream_is_drained", || {
        crate::api::write_tokens();
        fs::create_dir_all(path("log")).unwrap();
        sh("ip link set lo up");
        let _first = nsd::start();
        let second = nsd::serve_second(&[("bulk.test", &nsd::bulk_zone())]);
        let (first_at, second_at) = (address(nsd::PORT), address(nsd::SECOND_PORT));
        let text = config("[[group]]\nname = \"default\"\nstrategy = \"round_robin\"\n");
        let text = text.split("[[upstream]]").next().unwrap().to_owned()
            + &format!(
                "[[upstream]]\naddress = \"{first_at}\"\n[[upstream]]\naddress = \"{second_at}\"\n"
            );
        let pmdns = Pmdns::start(&text);
        set_up_tap();
        let at_rest = settled(|| pmdns.stats().frames_in_use());
        let report = thread::scope(|threads| {
            let dnsperf = threads.spawn(every_name_once);
            let (before, after) = before_and_after(&pmdns, nsd::SECOND_PORT);
            assert!(after > before, "each has its turn: {before} {after}");

            let said = command(&["upstream", "drain", &second_at], 0);
            assert!(said.contains("gets no new questions"), "{said}");
            thread::sleep(Duration::from_millis(200));
            let (before, after) = before_and_after(&pmdns, nsd::SECOND_PORT);
            assert_eq!(after, before, "a drained upstream gets nothing");
            let said = command(&["upstream", "drain", &first_at], 1);
            assert!(said.contains("nobody would be asked"), "{said}");

            command(&["reload"], 0);
            let (before, after) = before_and_after(&pmdns, nsd::SECOND_PORT);
            assert_eq!(after, before, "a reload keeps it");
            for said in [command(&["config", "--running"], 0), command(&["config", "--diff"], 0)] {
                assert!(
                    said.contains(&format!("upstream {second_at} drained (user 0, ")),
                    "{said}"
                );
            }

            command(&["upstream", "resume", &second_at], 0);
            let (before, after) = before_and_after(&pmdns, nsd::SECOND_PORT);
            assert!(after > before, "it is asked again: {before} {after}");
            let shares = weighed(&pmdns, &second_at);
            assert!((2.5..3.5).contains(&shares), "three of four questions: {shares}");
            drop(command(&["upstream", "drain", &second_at], 0));
            thread::sleep(Duration::from_millis(200));
            // Nothing is under way to it.
            drop(second);
            let url = |address: &str| format!("http://127.0.0.1:8053/api/v1/upstreams{address}");
            let one = url(&format!("/{second_at}"));
            assert_eq!(with_token(READER, &["-X", "DELETE", &one]).0, 403);
            assert_eq!(with_token(WRITER, &["-X", "DELETE", &one]).0, 200);
            assert_eq!(with_token(WRITER, &["-X", "DELETE", &one]).0, 404);
            let (status, shown) = with_token(READER, &[&url("")]);
            assert!(status == 200 && !shown.contains(&second_at), "{shown}");
            dnsperf.join().unwrap()
        });
        assert!(
            report.contains(&format!("Queries completed:    {BULK_NAMES} (100.00%)")),
            "{report}"
        );
        assert!(report.contains(&format!("NOERROR {BULK_NAMES} (100.00%)")), "{report}");
        let said = command(&["upstream", "add", &second_at], 0);
        assert!(said.contains("as the file says"), "{said}");
        let said = command(&["upstream", "add", "127.0.0.1:5399"], 0);
        assert!(said.contains("until the instance stops"), "{said}");
        let shown = command(&["upstream", "list", "--json"], 0);
        assert!(shown.contains("127.0.0.1:5399") && shown.contains("\"drained\":false"), "{shown}");
        // The file has it too by now, so one that is removed comes back as the file says.
        config_file(&format!("{text}[[upstream]]\naddress = \"127.0.0.1:5399\"\n"));
        command(&["reload"], 0);
        assert_eq!(settled(|| pmdns.stats().frames_in_use()), at_rest, "the pool is whole");
        println!("{BULK_NAMES} queries, none lost\n{}", pmdns.stop().summary());
    });
}

/// Gives the second upstream three times the weight of the first, and returns how many times the queries it gets then. A
/// reload keeps the weight, and the API takes it back.
fn weighed(pmdns: &Pmdns, second_at: &str) -> f64 {
    let said = command(&["upstream", "weight", second_at, "3"], 0);
    assert!(said.contains("has the weight 3"), "{said}");
    command(&["reload"], 0);
    let counts = || [nsd::PORT, nsd::SECOND_PORT].map(|port| queries(&pmdns.stats(), port));
    let before = counts();
    thread::sleep(WHILE);
    let after = counts();
    let shown = command(&["upstream", "list", "--json"], 0);
    assert!(shown.contains("\"weight\":3") && shown.contains("\"weight\":1"), "{shown}");
    let said = command(&["config", "--running"], 0);
    assert!(said.contains(&format!("upstream {second_at} weight 3 (user 0, ")), "{said}");
    let one = format!("http://127.0.0.1:8053/api/v1/upstreams/{second_at}");
    let patch = |json: &str| with_token(WRITER, &["-X", "PATCH", "-d", json, &one]).0;
    assert_eq!([r#"{"weight":101}"#, "{}", r#"{"weight":1}"#].map(patch), [409, 422, 200]);
    let said = command(&["config", "--running"], 0);
    assert!(!said.contains("weight"), "{said}");
    (after[1] - before[1]) as f64 / (after[0] - before[0]) as f64
}

/// Asks for all bulk names by dnsperf, and returns its report.
fn every_name_once() -> String {
    let names: String = (0..BULK_NAMES).map(|number| format!("n{number}.bulk.test A\n")).collect();
    let file = path("names");
    fs::write(&file, names).unwrap();
    sh(&format!("dnsperf -s {TAP_V4} -d {} -n 1 -Q {RATE} -q 200 -t 10", file.display()))
}
