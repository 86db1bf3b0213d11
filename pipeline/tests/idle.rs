//! Peers of the metrics endpoint that say nothing, too much, or do not read, and a scrape beside them.
//!
//! One test, in a process of its own: its limit of open files is the process's.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pmdns::admission::ConnectionSnapshot;
use pmdns::control::metrics::server::MetricsListener;
use pmdns_control::report::{Report, UpstreamReport};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Connections of the audit; fewer where the system allows fewer open files.
const IDLE: usize = 10_000;
/// Files that the test needs beside them.
const OTHERS: u64 = 200;
/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn audit_low_idle_and_unbounded_peers_do_not_deny_metrics() {
    let connections = IDLE.min(raise_limit());
    let listener = MetricsListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = listener.address().unwrap();
    let mut server = listener.serve(None).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&is_over);
    let main = std::thread::spawn(move || {
        // Longer than what the sockets of both sides hold.
        let upstream = UpstreamReport { address: "x".repeat(1 << 20), ..UpstreamReport::default() };
        while !stop.load(Ordering::Relaxed) {
            server.answer(|| Report { upstreams: vec![upstream.clone()], ..Report::default() });
            std::thread::park_timeout(Duration::from_millis(1));
        }
        server.counters()
    });

    let idle: Vec<TcpStream> =
        (0..connections).map(|_| TcpStream::connect(address).unwrap()).collect();
    println!("{} idle connections", idle.len());
    assert!(scrape(address).starts_with("HTTP/1.1 200"), "while they are open");

    cve_2026_33257_33260_42005_a_request_without_end_is_cut_off(address);

    // Those that ask and do not read make place as well, after a while.
    let mut slow: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    slow.iter_mut().for_each(|one| drop(one.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")));
    let scraped = (0..1000)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            scrape(address)
        })
        .find(|text| text.starts_with("HTTP/1.1 200"));
    assert!(scraped.is_some());

    is_over.store(true, Ordering::Relaxed);
    let ConnectionSnapshot { accepted, evicted, refused } = main.join().unwrap();
    println!("{accepted} accepted, {evicted} evicted, {refused} refused");
    assert!(accepted + refused > connections as u64 && evicted > 0);
    drop((idle, slow));
}

/// dnsdist read the whole of a request to its API, whatever its length.
fn cve_2026_33257_33260_42005_a_request_without_end_is_cut_off(address: SocketAddr) {
    let endless_head = [&b"GET /metrics HTTP/1.1\r\nHost: a\r\nx: "[..], &[b'a'; 1 << 20]].concat();
    let many_fields = b"GET /metrics HTTP/1.1\r\n".iter().copied();
    let many_fields: Vec<u8> = many_fields.chain(b"a: b\r\n".repeat(100_000)).collect();
    let body = b"POST /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".iter();
    let chunks = b"8\r\nendless \r\n".repeat(1_000_000);
    let endless_body: Vec<u8> = body.copied().chain(chunks).collect();
    for request in [endless_head, many_fields, endless_body] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let written = stream.write_all(&request).map_err(|error| error.kind());
        let ended = stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        // However it is told: it ends before our patience does.
        let is_late = [ErrorKind::WouldBlock, ErrorKind::TimedOut];
        for result in [written, ended.map(drop)] {
            assert!(!result.is_err_and(|kind| is_late.contains(&kind)), "{result:?}");
        }
    }
    assert!(scrape(address).starts_with("HTTP/1.1 200"));
}

/// The answer to a scrape; empty if the connection was closed.
fn scrape(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    let mut text = String::new();
    match stream.read_to_string(&mut text) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("no answer: {error}"),
        _ => text,
    }
}

/// Raises the limit of open files as far as possible, and returns how many connections that allows. Both ends of them
/// are ours, but few are open at the server's end at a time.
fn raise_limit() -> usize {
    let wanted = IDLE as u64 + OTHERS;
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let more = Rlimit { current: Some(wanted), maximum: maximum.map(|most| most.max(wanted)) };
    let allowed = match setrlimit(Resource::Nofile, more) {
        Ok(()) => wanted,
        Err(_) => {
            let most = Rlimit { current: maximum, maximum };
            let _ = setrlimit(Resource::Nofile, most);
            getrlimit(Resource::Nofile).current.unwrap_or(wanted)
        }
    };
    usize::try_from(allowed.saturating_sub(OTHERS)).unwrap()
}
