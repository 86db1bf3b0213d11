//! A flood of random names below one zone, beside normal traffic: it is found, named, limited, and others go on being answered.

use std::fs;
use std::process::Command;

use crate::dig::dig;
use crate::harness::{isolated, path, wait_until};
use crate::nsd;
use crate::pmdns::{Pmdns, TAP_V4, run, upstream};
use crate::process::Process;

const SETTINGS: &str = "\n[hitters]\nenabled = true\nsample = 1\nflood_names = 100\n";
const VICTIM: &str = "$ORIGIN victim.test.\n$TTL 3600\n@ SOA ns h 1 3600 900 604800 60\n@ NS ns\nns A 127.0.0.1\nwww A 10.1.2.3\n";

/// What `pmdns` prints.
fn pmdns(arguments: &[&str]) -> String {
    let output = run(&[arguments, &["--socket", "/run/lab/pmdns.sock"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&pmdns(&[arguments, &["--json"]].concat())).unwrap()
}

/// Asks the names of a file again and again until it is stopped.
fn dnsperf(name: &str, names: impl Iterator<Item = String>, rate: u32) -> Process {
    let file = path(name);
    fs::write(&file, names.map(|name| format!("{name} A\n")).collect::<String>()).unwrap();
    let mut command = Command::new("dnsperf");
    command.args(["-s", TAP_V4, "-l", "120", "-t", "5", "-Q", &rate.to_string(), "-d"]).arg(file);
    Process::start(name, &mut command)
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_flood_is_named_and_limited_and_others_are_answered() {
    isolated("hitters::a_flood_is_named_and_limited_and_others_are_answered", || {
        let bulk: String = (0..2000).map(|at| format!("n{at} A 10.9.9.9\n")).collect();
        let bulk = format!(
            "$ORIGIN bulk.test.\n$TTL 3600\n@ SOA ns h 1 3600 900 604800 60\n@ NS ns\nns A 127.0.0.1\n{bulk}"
        );
        let _nsd = nsd::serve(&[("victim.test", VICTIM), ("bulk.test", &bulk)]);
        let instance = Pmdns::start_on_tap(&format!("{SETTINGS}{}", upstream(nsd::PORT)));
        assert_eq!(dig(TAP_V4, "www.victim.test A").status, "NOERROR");
        let mut normal = dnsperf("normal", (0..50).map(|at| format!("n{at}.bulk.test")), 300);
        let mut flood = dnsperf("flood", (0..200_000).map(|at| format!("x{at}.victim.test")), 1000);
        wait_until("the flood is found", || {
            json(&["floods"])["floods"]
                .as_array()
                .unwrap()
                .iter()
                .any(|row| row["zone"] == "victim.test")
        });
        assert_eq!(json(&["hitters", "nxdomain"])["rows"][0]["key"], "victim.test");
        wait_until("normal names are counted", || {
            let names = json(&["hitters", "names", "--window", "1m", "-n", "60"]);
            names["rows"].to_string().contains("n7.bulk.test")
        });
        assert_eq!(json(&["hitters", "clients"])["rows"].as_array().unwrap().len(), 1);
        println!("{}{}", pmdns(&["floods"]), pmdns(&["hitters", "-n", "3"]));
        assert!(
            pmdns(&["limit", "victim.test", "--rate", "0", "--for", "10m"]).contains("for 600 s")
        );
        let limit = || json(&["limit"])["limits"][0].clone();
        wait_until("misses are refused", || limit()["refused"].as_u64() > Some(500));
        assert_eq!(limit()["passed"], 0);
        println!("{}", pmdns(&["limit"]));
        assert_eq!(dig(TAP_V4, "www.victim.test A").status, "NOERROR", "it is in the cache");
        assert_eq!(dig(TAP_V4, "new.victim.test A").status, "SERVFAIL");
        assert_eq!(dig(TAP_V4, "n1999.bulk.test A").status, "NOERROR", "another zone's miss");
        flood.signal("INT");
        flood.wait();
        pmdns(&["unlimit", "victim.test"]);
        wait_until("the limit is lifted", || {
            dig(TAP_V4, "other.victim.test A").status == "NXDOMAIN"
        });
        normal.signal("INT");
        normal.wait();
        let report = normal.log();
        assert!(report.contains("NOERROR") && !report.contains("SERVFAIL"), "{report}");
        let metrics = instance.stats();
        assert!(
            metrics.number("/hitters/0/floods") >= 1 && metrics.number("/hitters/0/refused") > 500
        );
        assert!(instance.log().contains("victim.test is flooded"));
        instance.stop().assert_balanced();
    });
}
