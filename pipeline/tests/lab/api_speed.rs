//! How fast the HTTP API is while queries are answered. It prints figures, which are worth something in a release build:
//! `cargo test --release -p pmdns -p pmdns-bench --test lab -- --include-ignored --test-threads=1 --nocapture api_speed::`

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::api::{WRITER, measure};
use crate::api_calls::{config_of_all, start_with};
use crate::harness::{PATIENCE, isolated};
use crate::messages::ask_a;
use crate::pmdns::TAP_V4;

/// Connections that ask at a time.
const CONNECTIONS: usize = 4;
/// Requests of each, and requests that wait for the disk.
const REQUESTS: usize = if cfg!(debug_assertions) { 250 } else { 5000 };
const CHANGES: usize = 250;
/// Changes of the client table in one request, and such requests.
const BATCH: usize = 1000;
const BATCHES: usize = if cfg!(debug_assertions) { 5 } else { 100 };
/// Clients that ask for names meanwhile, each again as soon as it has its answer.
const CLIENTS: u16 = 2;

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn requests_and_changes_beside_queries() {
    isolated("api_speed::requests_and_changes_beside_queries", || {
        let (_stub, pmdns) = start_with(&config_of_all());
        let askers = Askers::start();
        requests("GET /api/v1/state", REQUESTS, |_| ("GET /api/v1/state", String::new()));
        requests("POST /api/v1/entries", CHANGES, |number| {
            let name = format!("n{number}.example");
            let body = format!("{{\"entries\":[{{\"name\":\"{name}\",\"kind\":\"block\"}}]}}");
            ("POST /api/v1/entries", body)
        });
        requests("POST /api/v1/clients, 1,000 changes in each", BATCHES, |number| {
            ("POST /api/v1/clients", batch_of_clients(number))
        });
        measure(0);
        askers.stop();
        pmdns.stop().assert_balanced();
    });
}

/// A batch of clients that get a view, others for each number.
fn batch_of_clients(number: usize) -> String {
    let first = 0x0a00_0000 + (number * BATCH) as u32;
    let one =
        |at| format!("{{\"prefix\":\"{}\",\"view\":\"kids\"}}", Ipv4Addr::from_bits(first + at));
    let all: Vec<String> = (0..BATCH as u32).map(one).collect();
    format!("{{\"clients\":[{}]}}", all.join(","))
}

/// Clients that ask on and on. Each query has to be answered.
pub(crate) struct Askers {
    ends: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    began: Instant,
    clients: Vec<JoinHandle<()>>,
}

impl Askers {
    pub(crate) fn start() -> Self {
        let (ends, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let client = |id| {
            let (ends, answered) = (Arc::clone(&ends), Arc::clone(&answered));
            std::thread::spawn(move || ask_on(id, &ends, &answered))
        };
        let clients = (0..CLIENTS).map(client).collect();
        Self { ends, answered, began: Instant::now(), clients }
    }

    /// Ends them, and prints how much they were answered.
    pub(crate) fn stop(self) {
        self.ends.store(true, Ordering::Relaxed);
        self.clients.into_iter().for_each(|client| client.join().unwrap());
        let answered = self.answered.load(Ordering::Relaxed);
        let rate = answered as f64 / self.began.elapsed().as_secs_f64();
        println!(
            "meanwhile {answered} queries were answered, {rate:.0} a second, and none was lost"
        );
    }
}

/// Asks for a name in the cache, and each tenth time for a new one, until it is told to end.
fn ask_on(id: u16, ends: &AtomicBool, answered: &AtomicU64) {
    let client = UdpSocket::bind("10.97.0.1:0").unwrap();
    client.connect((TAP_V4, 53)).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 512];
    for number in 0_u64.. {
        if ends.load(Ordering::Relaxed) {
            return;
        }
        let name = if number.is_multiple_of(10) {
            &format!("good_{id}_{number}.test")
        } else {
            "good_load.test"
        };
        client.send(&ask_a(id, name)).unwrap();
        client.recv(&mut buffer).unwrap();
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes `count` requests on each of several connections that stay, and prints how many a second are answered with 200.
fn requests(
    what: &str,
    count: usize,
    request: impl Fn(usize) -> (&'static str, String) + Copy + Send + Sync,
) {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            scope.spawn(move || {
                let mut stream = BufReader::new(TcpStream::connect("127.0.0.1:8053").unwrap());
                stream.get_ref().set_nodelay(true).unwrap();
                for number in 0..count {
                    let (line, body) = request(connection * count + number);
                    let text = format!(
                        "{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {WRITER}\r\n\
                         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                        body.len()
                    );
                    stream.get_mut().write_all(text.as_bytes()).unwrap();
                    assert_eq!(status_of(&mut stream), 200, "{line} {number}");
                }
            });
        }
    });
    let rate = (CONNECTIONS * count) as f64 / began.elapsed().as_secs_f64();
    println!("{what}: {rate:.0} requests a second over {CONNECTIONS} connections");
}

/// The status of an answer, which is read to its end.
fn status_of(stream: &mut BufReader<TcpStream>) -> u16 {
    let (mut status, mut length) = (0, 0);
    for line in stream.by_ref().lines() {
        let line = line.unwrap().to_ascii_lowercase();
        if let Some(rest) = line.strip_prefix("http/1.1 ") {
            status = rest[..3].parse().unwrap();
        } else if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        } else if line.is_empty() {
            break;
        }
    }
    stream.read_exact(&mut vec![0; length]).unwrap();
    status
}
