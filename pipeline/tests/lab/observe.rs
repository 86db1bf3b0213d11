//! What an operator sees of a running pmdns: the metrics endpoint, `pmdns top`, `pmdns profile`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;

use crate::harness::{PATIENCE, isolated, isolated_alone, path, wait_until};
use crate::messages::{NOERROR, ask_a, rcode};
use crate::pmdns::{BINARY, COMMON, Pmdns, TAP_PORT, TAP_V4, run, run_to_failure, upstream};
use crate::stub::Stub;

const STUB_PORT: u16 = 5301;
/// Where the lab's pmdns serves its metrics.
const METRICS: &str = "127.0.0.1:9153";
const SOCKET: [&str; 2] = ["--socket", "/run/lab/pmdns.sock"];
/// How often each name is asked for: one miss, and hits.
const ROUNDS: u16 = 20;
const NAMES: u16 = 5;
/// A ring between two cores, and the endpoint.
const OBSERVED: &str = r#"
[metrics]
listen = "127.0.0.1:9153"

[[placement]]
stages = "parse..ratelimit"
cores = [0]

[[placement]]
stages = "lookup..encode"
cores = [1]
"#;

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn counters_are_seen_from_outside() {
    isolated_alone("observe::counters_are_seen_from_outside", || {
        let _stub = Stub::start(STUB_PORT);
        let pmdns = Pmdns::start_on_tap(&format!("{OBSERVED}{}", upstream(STUB_PORT)));
        let hits = "pmdns_cache_hits_total";
        assert_eq!(sample(&metrics(), hits), 0.0);
        ask();
        let expected = f64::from(NAMES * (ROUNDS - 1));
        wait_until("the hits are published", || sample(&metrics(), hits) >= expected);
        seen_in_metrics(&metrics());
        seen_in_stats(&pmdns);
        requests_that_are_not_for_us();
        top();
        let mut profile = profiling();
        while profile.try_wait().unwrap().is_none() {
            ask();
        }
        let output = profile.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let page = fs::read_to_string(path("profile.html")).unwrap();
        for part in ["lookup", "core 0 → core 1", "slow path 0", "p99.9", "127.0.0.1:5301"] {
            assert!(page.contains(part), "no {part} in the page");
        }
        pmdns.stop();
        assert!(TcpStream::connect(METRICS).is_err(), "the endpoint goes with pmdns");
        let output = run(&[&["top", "--once"][..], &SOCKET].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{error}");
        assert!(error.contains("no running instance answers at /run/lab/pmdns.sock"), "{error}");
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_metrics_address_in_use_is_told() {
    isolated("observe::a_metrics_address_in_use_is_told", || {
        let _other = TcpListener::bind(METRICS).unwrap();
        let (code, said) =
            run_to_failure(&format!("{TAP_PORT}{COMMON}{OBSERVED}{}", upstream(STUB_PORT)));
        assert_eq!(code, Some(5), "{said}");
        let expected = "`metrics.listen` is 127.0.0.1:9153, where another program listens";
        assert!(said.contains(expected), "{said}");
    });
}

/// Each name so many times, one query after the other.
fn ask() {
    let client = UdpSocket::bind("10.97.0.1:0").unwrap();
    client.connect((TAP_V4, 53)).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 4096];
    for round in 0..ROUNDS {
        for name in 0..NAMES {
            client.send(&ask_a(round, &format!("good_{name}.test"))).unwrap();
            client.recv(&mut buffer).unwrap();
            assert_eq!(rcode(&buffer), NOERROR);
        }
    }
}

fn seen_in_metrics(metrics: &str) {
    let value = |name: &str| sample(metrics, name);
    let [hits, misses] = [NAMES * (ROUNDS - 1), NAMES].map(f64::from);
    assert_eq!(value("pmdns_cache_misses_total"), misses);
    assert_eq!(value("pmdns_latency_seconds_count{answered_by=\"hit\"}"), hits);
    assert_eq!(value("pmdns_latency_seconds_count{answered_by=\"miss\"}"), misses);
    assert!(value("pmdns_latency_seconds_sum{answered_by=\"miss\"}") > 0.0);
    let ring = "{from=\"core 0\",to=\"core 1\",carries=\"packets\"}";
    assert!(value(&format!("pmdns_ring_taken_total{ring}")) >= hits + misses);
    assert!(value(&format!("pmdns_ring_occupancy_count{ring}")) > 0.0);
    let ring = "{from=\"core 1\",to=\"slow path 0\",carries=\"misses\"}";
    assert_eq!(value(&format!("pmdns_ring_taken_total{ring}")), misses);
    let ring = "{from=\"slow path 0\",to=\"core 1\",carries=\"answers\"}";
    assert_eq!(value(&format!("pmdns_ring_taken_total{ring}")), misses);
    assert_eq!(value("pmdns_upstream_queries_total{address=\"127.0.0.1:5301\"}"), misses);
    assert!(value("pmdns_core_seconds_total{core=\"1\",state=\"housekeeping\"}") > 0.0);
    assert_eq!(value("pmdns_port_link_up{port=\"tap\"}"), 1.0);
}

fn seen_in_stats(pmdns: &Pmdns) {
    let stats = pmdns.stats();
    assert_eq!(stats.number("/latency/hit/count"), u64::from(NAMES * (ROUNDS - 1)));
    assert_eq!(stats.number("/rings/0/capacity"), 1024);
    assert!(stats.number("/rings/0/max") >= 1);
    assert!(stats.number("/workers/0/housekeeping_ticks") > 0);
}

/// Other paths and methods, nonsense, and clients that connect and say nothing: the endpoint stays.
fn requests_that_are_not_for_us() {
    assert!(http("GET / HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(http("POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 405"));
    assert!(!http("\u{1}\r\n\r\n").starts_with("HTTP/1.1 200"));
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(METRICS).unwrap()).collect();
    let served = metrics();
    drop(silent);
    assert!(served.ends_with("# EOF\n"), "silent clients are not waited for long");
}

fn top() {
    let output = run(&[&["top", "--once", "--interval", "0.2"][..], &SOCKET].concat());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["stages: cycles per packet", "core 0 → core 1", "127.0.0.1:5301", "tap"] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    let output = run(&[&["top"][..], &SOCKET].concat());
    assert_eq!(output.status.code(), Some(2), "a pipe is no terminal: {output:?}");
}

fn profiling() -> std::process::Child {
    let mut command = Command::new(BINARY);
    command.args(["profile", "--seconds", "2", "-o"]).arg(path("profile.html")).args(SOCKET);
    command.spawn().unwrap()
}

/// The metrics, as they are served now.
fn metrics() -> String {
    let accept = "Accept: application/openmetrics-text";
    let response = http(&format!("GET /metrics HTTP/1.1\r\nHost: pmdns\r\n{accept}\r\n\r\n"));
    let (head, body) = response.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.contains(kind), "{head}");
    body.to_owned()
}

/// What the endpoint says to a request.
fn http(request: &str) -> String {
    let mut connection = TcpStream::connect(METRICS).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    connection.read_to_end(&mut response).unwrap();
    String::from_utf8(response).unwrap()
}

/// A sample by its name and labels.
fn sample(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find(|line| line.rsplit_once(' ').is_some_and(|(n, _)| n == name));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{metrics}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}
