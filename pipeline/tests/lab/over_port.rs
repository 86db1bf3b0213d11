//! One port for both sides: clients come in by a port, and upstreams are asked over the same port. By every kind of port that
//! needs no hardware.

use std::fs;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use crate::dig::dig;
use crate::harness::{
    HUGE_FOLDER, PATIENCE, isolated, isolated_alone, path, reserve_huge_pages, sh, wait_until,
};
use crate::messages::{Query, SERVFAIL, id, rcode};
use crate::nsd::{self, BULK_NAMES};
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, TAP_V4, TAP_V6, set_up_tap};
use crate::stats::Stats;
use crate::testpmd::{SOCKET, Testpmd};

/// What a TAP port needs of the EAL.
const TAP_EAL: &str = "\"--no-pci\", \"--no-huge\", \"-m\", \"512\", \"--no-shconf\"";
/// Questions a second that dnsperf sends: far below what one core can answer.
const DNSPERF_RATE: u32 = 5000;
/// Queries that wait for an upstream when pmdns is stopped.
const WAITING: u16 = 200;

/// A config whose only upstream is asked over the TAP port.
fn config(upstream: &str, more_of_port: &str) -> String {
    format!(
        "{TAP_PORT}query_sources = [\"10.97.0.60\", \"10.97.0.61\", \"fd97::60\"]\n{more_of_port}{COMMON}\
         [[upstream]]\naddress = \"{upstream}\"\nport = \"tap\"\n"
    )
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn clients_and_an_upstream_on_one_link() {
    isolated("over_port::clients_and_an_upstream_on_one_link", || {
        for upstream in ["10.97.0.1", "fd97::1"] {
            let pmdns = Pmdns::start(&config(&with_port(upstream), ""));
            set_up_tap();
            serve(&pmdns, upstream);
            assert_eq!(stop(pmdns, upstream).upstream(0, "timeouts"), 0);
        }
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn one_core_runs_the_line_and_resolves() {
    isolated("over_port::one_core_runs_the_line_and_resolves", || {
        let upstream = "10.97.0.1";
        let resolves = "[[placement]]\ncores = [1]\nresolver = true\n";
        let config = config(&with_port(upstream), "") + resolves;
        let pmdns = Pmdns::start(&config);
        set_up_tap();
        serve(&pmdns, upstream);
        let threads = sh(&format!("cat /proc/{}/task/*/comm", pmdns.id()));
        assert!(threads.contains("worker-1") && !threads.contains("slowpath"), "{threads}");
        let stats = stop(pmdns, upstream);
        assert_eq!(stats.upstream(0, "timeouts"), 0);
        assert!(stats.number("/workers/0/resolving_ticks") > 0);

        let pmdns = Pmdns::start(&config);
        set_up_tap();
        // It takes what it is asked, and keeps silent.
        let _upstream = UdpSocket::bind((upstream, nsd::PORT)).unwrap();
        let client = UdpSocket::bind((upstream, 0)).unwrap();
        client.connect((TAP_V4, 53)).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        for id in 0..WAITING {
            let name = &format!("n{id}.bulk.test");
            client.send(&Query { id, name, qtype: 1, udp_size: None }.message()).unwrap();
        }
        wait_until("all of them wait", || {
            pmdns.stats().number("/slow_path/0/waiting") == u64::from(WAITING)
        });
        pmdns.stop();
        let mut told = [false; WAITING as usize];
        let mut reply = [0; 512];
        for _ in 0..WAITING {
            client.recv(&mut reply).unwrap();
            assert_eq!(rcode(&reply), SERVFAIL);
            told[usize::from(id(&reply))] = true;
        }
        assert!(told.iter().all(|told| *told), "each is answered at the stop");
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn the_same_over_virtio_user() {
    isolated_alone("over_port::the_same_over_virtio_user", || {
        let device = format!(
            "net_virtio_user0,path={SOCKET},queues=1,queue_size=1024,mac=02:00:00:00:00:bb"
        );
        over_a_bridge(&format!("net_vhost1,iface={SOCKET},queues=1"), &device);
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn the_same_over_memif() {
    isolated_alone("over_port::the_same_over_memif", || {
        let memif = |role| format!("net_memif1,role={role},socket={SOCKET},socket-abstract=no");
        over_a_bridge(&memif("server"), &memif("client"));
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn the_same_over_af_xdp() {
    isolated_alone("over_port::the_same_over_af_xdp", || {
        reserve_huge_pages(512);
        for upstream in ["10.97.0.1", "fd97::1"] {
            sh("ip link add vB type veth peer name pm0 && ip link set vB up");
            // XDP sees packets before any checksum offload would.
            sh("ethtool -K vB tx off && ethtool -K pm0 tx off");
            set_up_tap();
            let device = "net_af_xdp0,iface=vB,start_queue=0,queue_count=1";
            let pmdns = Pmdns::start(&config_on(device, upstream));
            serve(&pmdns, upstream);
            stop(pmdns, upstream);
            sh("ip link delete vB");
        }
    });
}

/// Serves over a device whose other end testpmd connects to a TAP, on which clients and upstream are.
fn over_a_bridge(their_end: &str, device: &str) {
    reserve_huge_pages(768);
    for upstream in ["10.97.0.1", "fd97::1"] {
        let mut testpmd = Testpmd::start(&["net_tap0,iface=pm0".to_owned(), their_end.to_owned()]);
        testpmd.tell(&["set fwd io", "start"]);
        set_up_tap();
        let pmdns = Pmdns::start(&config_on(device, upstream));
        serve(&pmdns, upstream);
        // A memif port of testpmd may crash if its peer leaves while it forwards. The counters come when it has stopped.
        testpmd.tell(&["stop"]);
        testpmd.count(1);
        stop(pmdns, upstream);
        testpmd.quit();
    }
}

/// A config whose port has this device, on huge pages.
fn config_on(device: &str, upstream: &str) -> String {
    let config = config(&with_port(upstream), "");
    let (eal, tap) = (TAP_EAL, "net_tap0,iface=pm0,mac=02:00:00:00:00:aa");
    assert!(config.contains(eal) && config.contains(tap));
    let huge = format!(
        "\"--no-pci\", \"--in-memory\", \"--single-file-segments\", \"-m\", \"256\", \"--huge-dir\", \"{HUGE_FOLDER}\""
    );
    config.replace(eal, &huge).replace(tap, device)
}

/// The address of NSD there.
fn with_port(upstream: &str) -> String {
    match upstream.contains(':') {
        true => format!("[{upstream}]:{}", nsd::PORT),
        false => format!("{upstream}:{}", nsd::PORT),
    }
}

/// Has clients of both families served, who are on the link as the upstream is.
fn serve(pmdns: &Pmdns, upstream: &str) {
    let _nsd = nsd::start_at(upstream);
    wait_until("the next hop is found", || pmdns.stats().text("/next_hops/0/state") == "reachable");
    for server in [TAP_V4, TAP_V6] {
        for _ in ["miss", "hit"] {
            let reply = dig(server, "web.example.test A");
            assert_eq!(reply.data(), ["192.0.2.80"]);
        }
        // Over TCP, which stays with the kernel.
        let reply = dig(server, "big.example.test TXT +bufsize=4096");
        assert_eq!((&*reply.status, reply.has("tc")), ("NOERROR", true));
    }
    every_name_once();
    assert!(pmdns.stats().upstream(0, "queries") > u64::from(BULK_NAMES));
}

/// Ends it, and returns what it has counted.
fn stop(pmdns: Pmdns, upstream: &str) -> Stats {
    let stats = pmdns.stop();
    assert!(stats.number("/workers/0/queries") > u64::from(BULK_NAMES));
    assert!(stats.number("/workers/0/replies") > u64::from(BULK_NAMES));
    println!("{upstream}: {}", stats.summary());
    stats
}

/// Asks for all bulk names by dnsperf. None may be lost.
fn every_name_once() {
    let names: String = (0..BULK_NAMES).map(|number| format!("n{number}.bulk.test A\n")).collect();
    let file = path("names");
    fs::write(&file, names).unwrap();
    let report = sh(&format!(
        "dnsperf -s {TAP_V4} -d {} -n 1 -Q {DNSPERF_RATE} -q 200 -t 10",
        file.display()
    ));
    assert!(report.contains(&format!("Queries completed:    {BULK_NAMES} (100.00%)")), "{report}");
    assert!(report.contains(&format!("NOERROR {BULK_NAMES} (100.00%)")), "{report}");
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn without_a_gateway_clients_are_told_and_with_one_they_are_served() {
    isolated("over_port::without_a_gateway_clients_are_told_and_with_one_they_are_served", || {
        let upstream = format!("203.0.113.53:{}", nsd::PORT);
        let pmdns = Pmdns::start(&config(&upstream, "gateways = [\"10.97.0.254\"]\n"));
        set_up_tap();
        let reply = dig(TAP_V4, "web.example.test A +tries=1 +timeout=10");
        assert_eq!(reply.status, "SERVFAIL");
        wait_until("the log tells of it", || {
            pmdns.log().contains("nobody answers for the next hop 10.97.0.254")
        });
        assert_eq!(pmdns.stats().text("/next_hops/0/address"), "10.97.0.254");
        assert_ne!(pmdns.stats().text("/next_hops/0/state"), "reachable");

        sh("ip address add 203.0.113.53/32 dev lo");
        let _nsd = nsd::start_at("203.0.113.53");
        sh("ip address add 10.97.0.254/24 dev pm0");
        wait_until("clients are served", || {
            thread::sleep(Duration::from_millis(100));
            dig(TAP_V4, "web.example.test A +tries=1 +timeout=10").status == "NOERROR"
        });
        assert_eq!(pmdns.stats().text("/next_hops/0/state"), "reachable");
        pmdns.stop();
    });
}
