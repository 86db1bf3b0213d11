//! The process that serves is killed again and again while clients ask, and the keeper starts the next one. No answer is wrong, and
//! the cache is warm. The long form (`scripts/test.sh kills`) measures how long clients wait.

use std::collections::HashMap;
use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::af_xdp::{config, lay_cable};
use crate::handover::with_streams;
use crate::harness::{isolated, isolated_alone, reserve_huge_pages, sh};
use crate::keeper::{end, serving};
use crate::messages::{NOERROR, NXDOMAIN, SERVFAIL, ask_a};
use crate::nsd;
use crate::pmdns::{Pmdns, TAP_V4, set_up_tap};
use crate::stats::Stats;

/// Processes that are killed, or as many as this variable says.
const KILLS: (&str, u32) = ("PMDNS_LAB_KILLS", 3);
/// Queries under way at a time.
const BATCH: u16 = 32;
/// Of that many queries one is for a name that nobody has asked.
const MISS_EVERY: u32 = 10;
/// Names that are asked again and again.
const NAMES: u32 = 500;
/// How long a client waits for the answers of a batch.
const PATIENCE: Duration = Duration::from_millis(20);
/// How long hits are counted before a kill.
const BEFORE: Duration = Duration::from_millis(300);
/// The same from the first answer after it.
const AFTER: Duration = Duration::from_secs(1);
/// The hit ratio after a kill, of that before.
const LEAST_RATIO: f64 = 0.95;

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn no_kill_on_a_tap_port_brings_a_wrong_answer_or_a_cold_cache() {
    isolated("kills::no_kill_on_a_tap_port_brings_a_wrong_answer_or_a_cold_cache", || {
        let kept = Pmdns::start_kept(&with_streams());
        set_up_tap();
        kill_again_and_again(|| UdpSocket::bind("10.97.0.1:0").unwrap(), TAP_V4);
        end(kept);
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn no_kill_on_a_port_over_af_xdp_brings_a_wrong_answer_or_a_cold_cache() {
    isolated_alone(
        "kills::no_kill_on_a_port_over_af_xdp_brings_a_wrong_answer_or_a_cold_cache",
        || {
            reserve_huge_pages(1024);
            lay_cable();
            let kept = Pmdns::start_kept(&config());
            // The thread of the client stays in its namespace.
            let bind = || {
                let namespace = File::open("/run/netns/client").unwrap();
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), kind).unwrap();
                UdpSocket::bind("10.98.0.1:0").unwrap()
            };
            kill_again_and_again(bind, "10.98.0.2");
            end(kept);
        },
    );
}

fn kill_again_and_again(bind: impl FnOnce() -> UdpSocket + Send, server: &str) {
    let _nsd = nsd::start();
    let kills = std::env::var(KILLS.0).map_or(KILLS.1, |text| text.parse().unwrap());
    let (is_over, killed, (first, answered)) =
        (AtomicBool::new(false), Mutex::new(None), channel());
    let (pauses, ratios, client) = thread::scope(|threads| {
        let _ends = Ends(&is_over);
        let load = threads.spawn(|| {
            let socket = bind();
            socket.connect((server, 53)).unwrap();
            let mut client = Client::new(socket);
            while !is_over.load(Ordering::Relaxed) {
                client.ask(&killed, &first);
            }
            client
        });
        // Names are in the cache by then.
        thread::sleep(AFTER);
        let (mut pauses, mut ratios) = (Vec::new(), Vec::new());
        for _ in 0..kills {
            let (process, counted) = (serving(), counted());
            thread::sleep(BEFORE);
            let before = ratio(counted, self::counted());
            assert!(before > 0.8, "names are not in the cache: {before}");
            let begun = kill(process);
            *killed.lock().unwrap() = Some(Instant::now());
            pauses.push(
                answered.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|_| no_answer())
                    - begun,
            );
            thread::sleep(AFTER);
            assert_ne!(serving(), process);
            ratios.push(ratio((0, 0), self::counted()) / before);
        }
        is_over.store(true, Ordering::Relaxed);
        (pauses, ratios, load.join().unwrap())
    });
    println!(
        "{kills} kills; {} queries, {} without an answer in time, {} SERVFAIL",
        client.asked, client.late, client.failed
    );
    println!("from the kill to the first right answer: {}", spread(pauses));
    println!("hit ratio of the second after, of that before: {}", spread(ratios.clone()));
    assert!(client.failed * 100 <= client.asked, "names that nobody has asked are not resolved");
    assert!(ratios.iter().all(|ratio| *ratio >= LEAST_RATIO), "{ratios:?}");
}

/// What is to be seen where nobody answers.
fn no_answer() -> Instant {
    let stats = crate::pmdns::run(&["stats", "--json", "--socket", "/run/lab/pmdns.sock"]);
    panic!("nobody answers: {}{stats:?}", sh("ip -s link; ip address; ip neigh"));
}

/// The client ends too when the test fails.
struct Ends<'o>(&'o AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Kills a process, and returns when. It has ended.
fn kill(process: u64) -> Instant {
    let process = Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
    let descriptor = pidfd_open(process, PidfdFlags::empty()).unwrap();
    let begun = Instant::now();
    kill_process(process, Signal::KILL).unwrap();
    poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None).unwrap();
    begun
}

/// Queries that the process which serves has found in its cache, and all that it has looked for.
fn counted() -> (u64, u64) {
    let output = crate::pmdns::run(&["stats", "--json", "--socket", "/run/lab/pmdns.sock"]);
    let stats = Stats::parse(&String::from_utf8(output.stdout).unwrap());
    (stats.cache_hits(), stats.each_exit("lookup").map(|(_, count)| count).sum())
}

/// The share of hits between two counts.
#[expect(clippy::cast_precision_loss, reason = "they are small")]
fn ratio(from: (u64, u64), to: (u64, u64)) -> f64 {
    (to.0 - from.0) as f64 / (to.1 - from.1) as f64
}

/// The least, the middle and the most of some values.
fn spread<T: PartialOrd + std::fmt::Debug>(mut values: Vec<T>) -> String {
    values.sort_by(|one, other| one.partial_cmp(other).unwrap());
    let [first, middle, last] = [0, values.len() / 2, values.len() - 1].map(|place| &values[place]);
    format!("median {middle:?}, {first:?} to {last:?}")
}

/// One that asks batch after batch, and believes no answer.
struct Client {
    socket: UdpSocket,
    asked: u32,
    late: u32,
    failed: u32,
}

impl Client {
    fn new(socket: UdpSocket) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, asked: 0, late: 0, failed: 0 }
    }

    /// Asks a batch and reads its answers. The first right one to a question that was asked after a process was killed is told.
    fn ask(&mut self, killed: &Mutex<Option<Instant>>, first: &Sender<Instant>) {
        let begun = Instant::now();
        let questions: Vec<_> = (self.asked..).take(BATCH.into()).map(Question::new).collect();
        for question in &questions {
            // Without a process the interface may refuse.
            let _ = self.socket.send(&question.query);
        }
        self.asked += u32::from(BATCH);
        let mut waiting: HashMap<u16, &Question> =
            questions.iter().map(|one| (one.id(), one)).collect();
        let mut reply = [0; 1024];
        while !waiting.is_empty()
            && let Ok(length) = self.socket.recv(&mut reply)
        {
            let reply = &reply[..length];
            let id = u16::from_be_bytes([reply[0], reply[1]]);
            let Some(question) = waiting.remove(&id) else {
                // A late answer to a batch before, or the second one to a question.
                let behind = (self.asked - 1).wrapping_sub(id.into()) & 0xffff;
                Question::new((self.asked - 1).wrapping_sub(behind)).check(reply);
                continue;
            };
            if !question.check(reply) {
                self.failed += 1;
            } else if killed.lock().unwrap().take_if(|killed| *killed < begun).is_some() {
                first.send(Instant::now()).unwrap();
            }
        }
        self.late += u32::try_from(waiting.len()).unwrap();
    }
}

/// A question, and its only right answer.
struct Question {
    query: Vec<u8>,
    /// `None`: there is no such name.
    address: Option<String>,
}

impl Question {
    fn new(number: u32) -> Self {
        let known = (!number.is_multiple_of(MISS_EVERY)).then_some(number % NAMES);
        let name = known
            .map_or_else(|| format!("u{number}.bulk.test"), |known| format!("n{known}.bulk.test"));
        let id = u16::try_from(number & 0xffff).unwrap();
        Self { query: ask_a(id, &name), address: known.map(nsd::bulk_address) }
    }

    fn id(&self) -> u16 {
        u16::from_be_bytes([self.query[0], self.query[1]])
    }

    /// Whether this is the answer. `false`: the server could not say. Anything else ends the test.
    fn check(&self, reply: &[u8]) -> bool {
        let question = &self.query[12..];
        let (head, rest) = reply.split_at(12);
        let (flags, rcode) = (head[2], head[3] & 15);
        assert_eq!(flags & 0x82, 0x80, "a whole response: {reply:02x?}");
        assert!(rest.starts_with(question), "another question: {reply:02x?}");
        if rcode == SERVFAIL {
            return false;
        }
        // A name that points at the question, then type A, class IN, TTL and length.
        let is_one = head[6..8] == [0, 1];
        let is_address =
            |record: &[u8]| record[..6] == [0xc0, 12, 0, 1, 0, 1] && record[10..12] == [0, 4];
        let record = rest[question.len()..].get(..16).filter(|record| is_one && is_address(record));
        let address = record.filter(|_| rcode == NOERROR).map(|record| {
            let ttl = record[6..10].iter().fold(0, |ttl, byte| ttl << 8 | u32::from(*byte));
            assert!(ttl <= nsd::BULK_TTL, "{ttl}");
            format!("{}.{}.{}.{}", record[12], record[13], record[14], record[15])
        });
        assert_eq!(
            (address.is_none(), &address),
            (rcode == NXDOMAIN, &self.address),
            "{reply:02x?}"
        );
        true
    }
}
