//! Floods of misses over a TAP port. The upstream never answers the names. They come from one client prefix, from 64
//! and from 10,000. Beside the flood, one client asks for new names and for a cached one.

use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::harness::{isolated_alone, sh, wait_until};
use crate::messages::{NOERROR, ask_a, id, question, rcode};
use crate::pmdns::{Pmdns, TAP_V6, upstream};

const UPSTREAM: u16 = 5399;
/// Queries a second of each flood.
const RATE: u32 = 10_000;
/// How long a flood lasts before the client asks: until every table is full.
const WARM_UP: Duration = Duration::from_secs(3);
/// New names that the client asks for, and how often it asks.
const NAMES: u16 = 60;
const PAUSE: Duration = Duration::from_millis(40);
/// Hits that it asks for with each of them.
const HITS: u16 = 10;
/// How long it waits for the last answers: a little longer than the deadline.
const LAST_WAIT: Duration = Duration::from_millis(3500);

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn audit_05_new_names_are_answered_beside_floods() {
    isolated_alone("floods::audit_05_new_names_are_answered_beside_floods", || {
        let _upstream = swallow_slow_names();
        // Queries can come from any address, and replies to it are ours to drop.
        sh("echo 1 > /proc/sys/net/ipv6/ip_nonlocal_bind");
        sh("ip -6 route add local fd50::/12 dev lo");
        for (prefixes, least) in [(1, 60), (64, 57), (10_000, 0)] {
            let pmdns = Pmdns::start_on_tap(&upstream(UPSTREAM));
            let flood = Flood::start(prefixes);
            let (answered, hits) = ask_beside(&flood);
            let sent = flood.stop();
            let stats = pmdns.stop();
            let told =
                ["told_busy", "shed_client", "shed_prefix", "shed_pending", "shed_displaced"]
                    .map(|name| format!("{name} {}", stats.slow_path(name)));
            println!(
                "{prefixes} prefixes, {sent} slow questions: {answered} of {NAMES} new names answered, {hits} of {} \
                 hits; {}",
                NAMES * HITS,
                told.join(", ")
            );
            let misses = stats.slow_path("misses");
            assert!(misses > u64::from(sent) / 4, "the flood came: {misses} misses");
            assert!(answered >= least, "{prefixes} prefixes: {answered} of {NAMES}");
            assert_eq!(hits, NAMES * HITS, "hits lose nothing");
        }
    });
}

/// An upstream that answers all names but those that begin with `slow`.
fn swallow_slow_names() -> JoinHandle<()> {
    let socket = UdpSocket::bind(("127.0.0.1", UPSTREAM)).unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            // Letters come mixed.
            if length > 17 && !buffer[13..17].eq_ignore_ascii_case(b"slow") {
                let _ = socket.send_to(&answer(&buffer[..length]), from);
            }
        }
    })
}

/// A reply with one address.
fn answer(query: &[u8]) -> Vec<u8> {
    let mut reply = query[..question(query).2].to_vec();
    reply[2..4].copy_from_slice(&[0x81, 0x80]);
    reply[4..12].copy_from_slice(&[0, 1, 0, 1, 0, 0, 0, 0]);
    reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 192, 0, 2, 10]);
    reply
}

/// Queries for ever new slow names.
struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU32>,
    thread: JoinHandle<()>,
}

impl Flood {
    fn start(prefixes: u32) -> Self {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let thread = thread::spawn({
            let (stop, sent) = (Arc::clone(&stop), Arc::clone(&sent));
            move || {
                let start = Instant::now();
                while !stop.load(Ordering::Relaxed) {
                    let due = (start.elapsed().as_millis() as u32).saturating_mul(RATE / 1000);
                    for number in sent.load(Ordering::Relaxed)..due {
                        send_slow(number, prefixes);
                    }
                    sent.store(due, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        Self { stop, sent, thread }
    }

    fn stop(self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.sent.load(Ordering::Relaxed)
    }
}

/// Sends query `number` from an address of its own in one of `prefixes` networks of 56 bits.
fn send_slow(number: u32, prefixes: u32) {
    let [_, high, middle, low] = (number % prefixes).to_be_bytes();
    let [a, b, c, d] = number.to_be_bytes();
    let from = Ipv6Addr::from([0xfd, 0x50, 0, 0, high, middle, low, 0, 0, 0, 0, 1, a, b, c, d]);
    let socket = UdpSocket::bind((from, 0)).unwrap();
    let query = ask_a(number as u16, &format!("slow{number}.example.test"));
    let _ = socket.send_to(&query, server());
}

fn server() -> SocketAddr {
    SocketAddr::new(TAP_V6.parse().unwrap(), 53)
}

/// Asks for new names and hits beside a flood, and says how many of either were answered.
fn ask_beside(flood: &Flood) -> (u16, u16) {
    let client = UdpSocket::bind("[fd97::1]:0").unwrap();
    client.set_nonblocking(true).unwrap();
    let (mut answered, mut hits) = ([false; NAMES as usize], 0);
    let mut take = |answered: &mut [bool]| {
        let mut buffer = [0; 512];
        while let Ok(length) = client.recv(&mut buffer) {
            let reply = &buffer[..length];
            assert!(rcode(reply) == NOERROR || id(reply) < NAMES, "a hit failed");
            match id(reply) {
                number if number < NAMES => answered[usize::from(number)] = rcode(reply) == NOERROR,
                _ => hits += 1,
            }
        }
    };
    let ask = |id, name: &str| client.send_to(&ask_a(id, name), server()).unwrap();
    // Fills the cache, before the flood has filled anything.
    ask(0, "hit.example.test");
    wait_until("the cached name is known", || {
        take(&mut answered);
        std::mem::take(&mut answered[0])
    });
    let sent = || flood.sent.load(Ordering::Relaxed);
    wait_until("the flood has filled the tables", || {
        u128::from(sent()) >= WARM_UP.as_millis() * u128::from(RATE / 1000)
    });
    for number in 0..NAMES {
        ask(number, &format!("new{number}.example.test"));
        for hit in 0..HITS {
            ask(NAMES + hit, "hit.example.test");
        }
        thread::sleep(PAUSE);
        take(&mut answered);
    }
    let last = Instant::now();
    while last.elapsed() < LAST_WAIT && answered.contains(&false) {
        thread::sleep(PAUSE);
        take(&mut answered);
    }
    (answered.iter().filter(|answered| **answered).count() as u16, hits)
}
