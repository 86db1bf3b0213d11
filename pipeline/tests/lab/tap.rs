//! A TAP port that any client of the kernel can reach, NSD behind it: dig, ping, dnsperf.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use crate::dig::{dig, dig_is_unanswered};
use crate::harness::{isolated, isolated_alone, path, settled, sh};
use crate::nsd::{self, BULK_NAMES};
use crate::pmdns::{Pmdns, TAP_V4, TAP_V6, upstream};

/// Questions a second that dnsperf sends: far below what one core can answer.
const DNSPERF_RATE: u32 = 5000;

const LOCAL: &str = r#"
[[local]]
name = "router.home.arpa"
type = "A"
ttl = 120
data = "10.97.0.2"

[[local]]
name = "router.home.arpa"
type = "AAAA"
data = "fd97::2"

[block]
names = ["ads.example.net"]
"#;

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn dig_and_ping_over_tap() {
    isolated("tap::dig_and_ping_over_tap", || {
        let _nsd = nsd::start();
        let pmdns = Pmdns::start_on_tap(&format!("{LOCAL}{}", upstream(nsd::PORT)));
        neighbors();
        for server in [TAP_V4, TAP_V6] {
            kinds_of_answers(server);
            letter_case(server);
            edns_sizes_and_truncation(server);
            local_records(server);
        }
        ttl_counts_down();
        let stats = pmdns.stats();
        stats.assert_balanced();
        let stats = pmdns.stop();
        assert!(stats.cache_hits() > 0 && stats.total("slow_path") > 0);
        assert!(!crate::pmdns::interface_exists("pm0"), "the TAP goes with pmdns");
        println!("dig over v4 and v6, ping: {}", stats.summary());
    });
}

/// ARP, neighbour discovery and echo, at sizes up to a whole frame.
fn neighbors() {
    for size in [0, 1, 56, 1400] {
        sh(&format!("ping -n -c 3 -i 0.2 -W 5 -s {size} {TAP_V4}"));
        sh(&format!("ping -6 -n -c 3 -i 0.2 -W 5 -s {size} {TAP_V6}"));
    }
    let neighbors = sh("ip neighbor show dev pm0");
    for address in [TAP_V4, TAP_V6] {
        let known = format!("{address} lladdr 02:00:00:00:00:aa");
        assert!(neighbors.contains(&known), "{known} in {neighbors}");
    }
}

/// Every answer twice: from upstream, then from the cache.
fn kinds_of_answers(server: &str) {
    for _ in ["miss", "hit"] {
        let reply = dig(server, "web.example.test A");
        assert_eq!((&*reply.status, reply.data()), ("NOERROR", vec!["192.0.2.80".into()]));
        assert!(reply.has("qr") && reply.has("ra") && reply.has("rd") && !reply.has("tc"));

        let reply = dig(server, "no-such-name.example.test A");
        assert_eq!((&*reply.status, reply.answers.len()), ("NXDOMAIN", 0));
        assert!(reply.authorities[0].contains(" SOA "), "{reply:?}");

        let reply = dig(server, "web.example.test MX");
        assert_eq!((&*reply.status, reply.answers.len()), ("NOERROR", 0));
        assert!(reply.authorities[0].contains(" SOA "), "{reply:?}");

        let reply = dig(server, "c1.example.test A");
        let chain = ["c2.example.test.", "c3.example.test.", "web.example.test.", "192.0.2.80"];
        assert_eq!(reply.data(), chain);

        let reply = dig(server, "ent.a.b.c.example.test A");
        assert_eq!(reply.data(), ["192.0.2.5"]);
        let reply = dig(server, "x.dn.example.test A");
        assert!(reply.answers[0].contains(" DNAME target.example.test."), "{reply:?}");
        assert_eq!(reply.data().last().unwrap(), "192.0.2.77");
        let reply = dig(server, "unk.example.test TYPE65400");
        assert_eq!(reply.data(), ["\\# 4 0A000001"]);
        let reply = dig(server, "example.test AAAA");
        assert_eq!(reply.data(), ["2001:db8::1"]);
    }
}

/// The reply repeats the question in the client's own letters, hit or miss (DNS 0x20).
fn letter_case(server: &str) {
    let fresh = if server == TAP_V4 { "H10.eXaMpLe.TeSt." } else { "H11.eXaMpLe.TeSt." };
    for name in [fresh, fresh, &fresh.to_uppercase(), &fresh.to_lowercase()] {
        let reply = dig(server, &format!("{name} A"));
        assert_eq!((reply.question.as_str(), reply.answers.len()), (name, 1));
    }
}

/// An OPT in the reply if and only if one was in the query; what does not fit is cut, with TC=1.
fn edns_sizes_and_truncation(server: &str) {
    for size in [512, 1232, 4096] {
        let reply = dig(server, &format!("web.example.test A +bufsize={size}"));
        assert_eq!((&*reply.status, reply.edns_udp_size), ("NOERROR", Some(1232)));
    }
    let reply = dig(server, "web.example.test A +noedns");
    assert_eq!((&*reply.status, reply.edns_udp_size), ("NOERROR", None));

    // The TXT records of `big` take about 3 kB, the addresses of `many` about 500 bytes.
    for _ in ["miss", "hit"] {
        for (edns, limit) in [("+noedns", 512), ("+bufsize=512", 512), ("+bufsize=4096", 1232)] {
            let reply = dig(server, &format!("big.example.test TXT {edns}"));
            assert_eq!(reply.status, "NOERROR");
            assert!(reply.has("tc") && reply.size <= limit, "{edns}: {reply:?}");
        }
        let reply = dig(server, "many.example.test A +bufsize=1232");
        assert!(!reply.has("tc") && reply.size > 400, "{reply:?}");
        assert_eq!(reply.answers.len(), 28);
        let reply = dig(server, "many.example.test A +bufsize=512");
        assert!(reply.has("tc") == (reply.answers.len() < 28) && reply.size <= 512, "{reply:?}");
    }
}

/// Local records are authoritative; a blocked name and all below it do not exist.
fn local_records(server: &str) {
    let reply = dig(server, "Router.Home.ARPA A");
    assert_eq!((reply.data(), reply.ttl()), (vec!["10.97.0.2".into()], 120));
    assert!(reply.has("aa"));
    assert_eq!(dig(server, "router.home.arpa AAAA").data(), ["fd97::2"]);
    let reply = dig(server, "router.home.arpa TXT");
    assert_eq!((&*reply.status, reply.answers.len()), ("NOERROR", 0));
    for name in ["ads.example.net", "x.y.ADS.example.net"] {
        assert_eq!(dig(server, &format!("{name} A")).status, "NXDOMAIN");
    }
    // NSD refuses what it has no zone for; pmdns passes some error on, but answers.
    assert_ne!(dig(server, "example.net A").status, "NOERROR");
    assert!(dig_is_unanswered("10.97.0.77", "web.example.test A"), "nobody has that address");
}

/// A cached record's TTL is that of its arrival less the seconds since.
fn ttl_counts_down() {
    let ask = || dig(TAP_V4, "h20.example.test A").ttl();
    let first = ask();
    assert_eq!(first, 300);
    let mut last = first;
    crate::harness::wait_until("the TTL counts down by two", || {
        thread::sleep(Duration::from_millis(200));
        let ttl = ask();
        assert!(ttl <= last, "a TTL grew from {last} to {ttl}");
        last = ttl;
        ttl <= first - 2
    });
    // A TTL of zero is for the client that asked, not for the next one (RFC 1035 section 3.2.1).
    for _ in 0..3 {
        assert_eq!(dig(TAP_V4, "ttl0.example.test A").ttl(), 0);
    }
    assert!(dig(TAP_V4, "ttlmax.example.test A").ttl() > 0);
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn dnsperf_over_tap() {
    isolated_alone("tap::dnsperf_over_tap", || {
        let _nsd = nsd::start();
        let pmdns = Pmdns::start_on_tap(&upstream(nsd::PORT));
        let names = (0..BULK_NAMES).map(|number| format!("n{number}.bulk.test A\n"));
        fs::write(path("names"), names.collect::<String>()).unwrap();
        let file = path("names");
        let report = sh(&format!(
            "dnsperf -s {TAP_V4} -d {} -l 5 -c 4 -q 100 -Q {DNSPERF_RATE} -t 5",
            file.display()
        ));
        let figures = dnsperf_figures(&report);
        let (sent, completed) = (figures["Queries sent"], figures["Queries completed"]);
        assert!(sent > BULK_NAMES.into(), "every name was asked for: {report}");
        assert_eq!((completed, figures["Queries lost"]), (sent, 0), "{report}");
        assert!(report.contains(&format!("NOERROR {sent} (100.00%)")), "{report}");

        let stats = settled_stats(&pmdns);
        assert_eq!(
            stats.cache_hits() + stats.total("slow_path"),
            sent,
            "every query was looked up"
        );
        assert!(stats.total("slow_path") >= BULK_NAMES.into());
        let rate = report.lines().find(|line| line.contains("Queries per second")).unwrap();
        println!("dnsperf over TAP, {BULK_NAMES} names: {sent} sent, none lost, all NOERROR");
        println!("{}; {}", rate.trim(), pmdns.stop().summary());
    });
}

/// The counters once nothing moves any more.
fn settled_stats(pmdns: &Pmdns) -> crate::stats::Stats {
    settled(|| pmdns.stats().cache_hits());
    pmdns.stats()
}

/// The whole numbers of dnsperf's report, by their labels.
fn dnsperf_figures(report: &str) -> BTreeMap<String, u64> {
    let figure = |line: &str| {
        let (label, rest) = line.trim().split_once(':')?;
        let number = rest.split_whitespace().next()?.parse().ok()?;
        Some((label.to_owned(), number))
    };
    report.lines().filter_map(figure).collect()
}
