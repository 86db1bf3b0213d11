//! Upstreams that are dead or slow, or send wrong or truncated replies. Clients wait a bounded time and get the right
//! rcode. Hits are not delayed, and nothing is left over.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use hickory_proto::op::Message;

use crate::harness::{PATIENCE, isolated, isolated_alone, wait_until};
use crate::messages::{NOERROR, SERVFAIL, ask_a, id, is_truncated, rcode};
use crate::pmdns::{Pmdns, TAP_V4, upstream};
use crate::stub::{LIE, LONG_ANSWER, Stub, TRUTH};

const STUB_PORT: u16 = 5301;
/// Nobody listens there.
const CLOSED_PORT: u16 = 5399;
/// The client deadline in the labs' configs.
const DEADLINE: Duration = Duration::from_millis(1500);
/// How much later than its deadline an answer may come: a lab machine is small and shared.
const SLACK: Duration = Duration::from_secs(5);
/// Identical questions at the same time.
const CROWD: u16 = 50;

const SLOW_PATH: &str = r#"
[slowpath]
deadline_ms = 1500
"#;

/// One upstream that answers within 300 ms or not at all.
fn stub_upstream() -> String {
    upstream(STUB_PORT).replace("timeout_ms = 800", "timeout_ms = 300")
}

/// The slow path's config, and what comes after it.
fn config(upstreams: &str) -> String {
    format!("{SLOW_PATH}{upstreams}")
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn lies_are_not_believed() {
    isolated("upstreams::lies_are_not_believed", || {
        let stub = Stub::start(STUB_PORT);
        let pmdns = Pmdns::start_on_tap(&config(&stub_upstream()));
        let client = Client::new();
        let at_rest = pmdns.stats().frames_in_use();
        let lies =
            ["wrongid", "wrongname", "wrongtype", "wrongport", "wrongaddress", "query", "short"];
        for lie in lies {
            let answer = client.ask(&format!("{lie}-then.test"));
            assert_eq!(addresses(&answer), [TRUTH], "{lie}, then the truth");
        }
        for lie in lies {
            let start = Instant::now();
            let answer = client.ask(&format!("{lie}.test"));
            assert_eq!(rcode(&answer), SERVFAIL, "{lie}, and nothing else");
            assert!(start.elapsed() < DEADLINE + SLACK, "{lie}: {:?}", start.elapsed());
        }
        // Nothing that a liar said is remembered, for his question or for any other.
        assert_eq!(addresses(&client.ask("good.test")), [TRUTH]);
        assert_ne!(rcode(&client.ask("elsewhere.test")), NOERROR);
        let mismatched = pmdns.stats().upstream(0, "mismatched");
        assert!(mismatched >= 2, "lies are counted, {mismatched} times");
        assert!(stub.look(|seen| seen.names.contains_key("good.test.")));
        nothing_left_over(pmdns, at_rest, "lying upstream");
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn dead_and_slow_upstreams_hold_nobody_up() {
    isolated_alone("upstreams::dead_and_slow_upstreams_hold_nobody_up", || {
        let stub = Stub::start(STUB_PORT);
        // Waits longer than the slow answers take.
        let pmdns = Pmdns::start_on_tap(&config(&upstream(STUB_PORT)));
        let client = Client::new();
        assert_eq!(addresses(&client.ask("good.test")), [TRUTH]);
        let at_rest = pmdns.stats().frames_in_use();

        // Dead: all of them get SERVFAIL by the deadline. Hits that are asked for later are answered before the first
        // SERVFAIL.
        let start = Instant::now();
        for number in 0..CROWD {
            client.send(&ask_a(number, &format!("dead_{number}.test")));
        }
        for number in 1000..1100 {
            client.send(&ask_a(number, "good.test"));
        }
        let replies = client.receive(usize::from(CROWD) + 100);
        let (hits, failures) = replies.split_at(100);
        assert!(hits.iter().all(|reply| id(reply) >= 1000), "hits do not wait for misses");
        assert!(hits.iter().all(|reply| addresses(reply) == [TRUTH]));
        assert!(failures.iter().all(|reply| rcode(reply) == SERVFAIL));
        assert!(start.elapsed() < DEADLINE + SLACK, "{:?}", start.elapsed());
        assert_eq!(ids(failures), (0..CROWD).collect::<Vec<_>>());

        // A crowd with one question: one leads, a failing leader fails all.
        for name in ["dead_crowd.test", "slow_crowd.test"] {
            for number in 0..CROWD {
                client.send(&ask_a(number, name));
            }
            let replies = client.receive(CROWD.into());
            assert_eq!(ids(&replies), (0..CROWD).collect::<Vec<_>>(), "{name}");
            let alive = name.starts_with("slow");
            let right = |reply: &Vec<u8>| match alive {
                true => addresses(reply) == [TRUTH],
                false => rcode(reply) == SERVFAIL,
            };
            assert!(replies.iter().all(right), "{name}: {replies:02x?}");
        }
        nothing_left_over(pmdns, at_rest, "dead and slow upstream");
        assert!(stub.asked("dead_crowd.test.") >= 1, "the dead one was asked");
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn a_crowd_of_equal_questions_is_asked_once() {
    isolated("upstreams::a_crowd_of_equal_questions_is_asked_once", || {
        let stub = Stub::start(STUB_PORT);
        let patient = upstream(STUB_PORT).replace("timeout_ms = 800", "timeout_ms = 1400");
        let pmdns = Pmdns::start_on_tap(&format!("{SLOW_PATH}queries_per_port = 1\n{patient}"));
        let client = Client::new();
        let at_rest = pmdns.stats().frames_in_use();
        for number in 0..CROWD {
            client.send(&ask_a(number, if number % 2 == 0 { "slow.test" } else { "SLOW.tEsT" }));
        }
        let replies = client.receive(CROWD.into());
        assert!(replies.iter().all(|reply| addresses(reply) == [TRUTH]));
        assert_eq!(ids(&replies), (0..CROWD).collect::<Vec<_>>());
        assert_eq!(stub.asked("slow.test."), 1, "one question upstream for the whole crowd");

        // Different questions: each from a port of its own, as `queries_per_port` says, with an id of its own.
        for number in 0..CROWD {
            client.send(&ask_a(number, &format!("good_{number}.test")));
        }
        client.receive(CROWD.into());
        let (ports, ids) = stub.look(|seen| (seen.ports.len(), seen.ids.len()));
        let most = usize::from(CROWD) * 9 / 10;
        assert!(ports > most && ids > most, "{ports} ports and {ids} ids in {CROWD} questions");
        nothing_left_over(pmdns, at_rest, "equal questions");
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn truncated_answers_are_fetched_over_tcp() {
    isolated("upstreams::truncated_answers_are_fetched_over_tcp", || {
        let stub = Stub::start(STUB_PORT);
        let pmdns = Pmdns::start_on_tap(&config(&stub_upstream()));
        let client = Client::new();
        let at_rest = pmdns.stats().frames_in_use();
        for _ in ["miss", "hit"] {
            // The whole answer is larger than a client without EDNS takes.
            let answer = client.ask("tc.test");
            assert!(is_truncated(&answer) && answer.len() <= 512 && rcode(&answer) == NOERROR);
            assert!(addresses(&answer).iter().all(|address| address[..3] == TRUTH[..3]));
            assert!(addresses(&answer).len() < LONG_ANSWER);
        }
        assert!(stub.look(|seen| seen.over_tcp) >= 1, "the stub was asked over TCP");
        assert_eq!(rcode(&client.ask("tcdead.test")), SERVFAIL);
        assert_eq!(rcode(&client.ask("servfail.test")), SERVFAIL);
        nothing_left_over(pmdns, at_rest, "truncated answers");
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn the_next_upstream_steps_in() {
    isolated("upstreams::the_next_upstream_steps_in", || {
        let _stub = Stub::start(STUB_PORT);
        // Bound and silent: the second kind of dead, after the port that nobody has.
        let _silent = UdpSocket::bind("127.0.0.1:5302").unwrap();
        let silent = upstream(5302).replace("timeout_ms = 800", "timeout_ms = 300");
        let upstreams = format!("{}{silent}{}", upstream(CLOSED_PORT), stub_upstream());
        let pmdns = Pmdns::start_on_tap(&config(&upstreams));
        let client = Client::new();
        let at_rest = pmdns.stats().frames_in_use();
        for number in 0..20 {
            let answer = client.ask(&format!("good_{number}.test"));
            assert_eq!(addresses(&answer), [TRUTH], "question {number} finds the living upstream");
        }
        let stats = pmdns.stats();
        assert!(stats.upstream(2, "replies") >= 20);
        nothing_left_over(pmdns, at_rest, "two dead upstreams, one alive");
    });
}

/// No question pending, no client waiting, as many frames in use as before, and the balance right.
fn nothing_left_over(pmdns: Pmdns, at_rest: u64, what: &str) {
    wait_until("nothing is pending", || {
        let stats = pmdns.stats();
        stats.slow_path("pending") == 0 && stats.slow_path("waiting") == 0
    });
    let mut in_use = 0;
    wait_until("all frames are given back", || {
        in_use = pmdns.stats().frames_in_use();
        in_use <= at_rest
    });
    let stats = pmdns.stop();
    let ended = stats.slow_path("misses");
    println!("{what}: {ended} misses, frames in use {at_rest} before, {in_use} after");
    println!("{}", stats.summary());
}

/// The addresses in a reply; fails if it is malformed.
fn addresses(reply: &[u8]) -> Vec<[u8; 4]> {
    let message = Message::from_vec(reply).unwrap();
    let texts = message.answers.iter().map(|record| record.data.to_string());
    let addresses: Vec<[u8; 4]> =
        texts.map(|text| text.parse::<std::net::Ipv4Addr>().unwrap().octets()).collect();
    assert!(!addresses.contains(&LIE), "a lie reached the client: {message:?}");
    addresses
}

/// The ids of replies, sorted.
fn ids(replies: &[Vec<u8>]) -> Vec<u16> {
    let mut ids: Vec<u16> = replies.iter().map(|reply| id(reply)).collect();
    ids.sort_unstable();
    ids
}

/// A client at the kernel's end of the TAP.
struct Client(UdpSocket);

impl Client {
    fn new() -> Self {
        let socket = UdpSocket::bind("10.97.0.1:0").unwrap();
        socket.connect((TAP_V4, 53)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    fn send(&self, query: &[u8]) {
        self.0.send(query).unwrap();
    }

    /// The next `count` replies, in the order in which they come.
    fn receive(&self, count: usize) -> Vec<Vec<u8>> {
        let mut buffer = [0; 4096];
        let mut replies = Vec::new();
        let mut by_rcode = BTreeMap::new();
        for _ in 0..count {
            let length = self.0.recv(&mut buffer).unwrap_or_else(|error| {
                panic!("{} of {count} replies ({by_rcode:?} by rcode): {error}", replies.len())
            });
            *by_rcode.entry(rcode(&buffer)).or_insert(0) += 1;
            replies.push(buffer[..length].to_vec());
        }
        replies
    }

    /// Asks for the address of `name` and returns the reply.
    fn ask(&self, name: &str) -> Vec<u8> {
        self.send(&ask_a(0x5a5a, name));
        let reply = self.receive(1).remove(0);
        assert_eq!(id(&reply), 0x5a5a);
        reply
    }
}
