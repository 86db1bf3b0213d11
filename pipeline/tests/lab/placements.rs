//! The same traffic through every way of manning the line that two cores allow: the same answers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::UdpSocket;

use pmdns_config::{StageName, Stretch};

use crate::harness::{PATIENCE, data, isolated_alone, sh, shared_machine, unzip};
use crate::malformed;
use crate::messages::{Query, REFUSED, id, rcode, without_ttls};
use crate::nsd;
use crate::pcap;
use crate::pmdns::{Pmdns, TAP_V4, TAP_V6, upstream};
use crate::replay::{CONFIG, Folder};

/// Local and blocked names, and two clients that may not ask.
const POLICY: &str = r#"
[acl]
default = "allow"
refuse = ["10.97.0.66"]
drop = ["10.97.0.67"]

[block]
names = ["blocked.test"]

[[local]]
name = "local.test"
type = "A"
data = "192.0.2.1"
"#;

/// Answers by the id of their query, TTLs zeroed.
type Answers = BTreeMap<u16, Vec<u8>>;

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn every_placement_answers_alike_over_tap() {
    isolated_alone("placements::every_placement_answers_alike_over_tap", || {
        let _nsd = nsd::start();
        let queries = queries();
        let mut first: Option<Answers> = None;
        for (name, placement) in placements() {
            let config = format!("{POLICY}{placement}{}", upstream(nsd::PORT));
            let pmdns = Pmdns::start_on_tap(&config);
            sh("ip address add 10.97.0.66/24 dev pm0 && ip address add 10.97.0.67/24 dev pm0");
            let cold = ask_all(&queries);
            let warm = ask_all(&queries);
            assert_eq!(cold.len(), queries.len(), "{name}: every query is answered");
            same_answers(&format!("{name}, cold and warm"), &cold, &warm);
            let first = first.get_or_insert_with(|| cold.clone());
            same_answers(&format!("fused and {name}"), first, &cold);
            clients_that_may_not_ask();
            println!("{name}: {} answers alike; {}", cold.len(), pmdns.stop().summary());
        }
    });
}

#[test]
fn every_placement_answers_a_capture_alike() {
    let _machine = shared_machine();
    let folder = Folder::new("placements");
    let mut frames: Vec<Vec<u8>> = malformed::kinds().into_iter().map(|(_, frame)| frame).collect();
    frames.extend(pcap::parse(&unzip(&data("corpus-licensed.pcap.gz"))));
    for (number, name) in (0..).zip(["local.test", "x.blocked.test", "LOCAL.test", "."]) {
        for mut path in [malformed::v4_path(&[]), malformed::v6_path(&[9])] {
            let message = Query { id: number, name, qtype: 1, udp_size: Some(4096) }.message();
            frames.push(path.frame(&message));
            if path.from.1.is_ipv4() {
                for refused in [66, 67] {
                    path.from.1 = [10, 77, refused, 1].into();
                    frames.push(path.frame(&message));
                }
            }
        }
    }
    let mut first: Option<Vec<Vec<u8>>> = None;
    // A replay pins no threads, so it can use more cores than there are.
    for (name, placement) in placements().into_iter().chain(larger_placements()) {
        let (stats, mut answers) = folder.replay(&format!("{CONFIG}{placement}"), &frames);
        stats.assert_balanced();
        assert_eq!(stats.total("received"), frames.len() as u64);
        answers.sort();
        println!("{name}: {} answers; {}", answers.len(), stats.summary());
        let first = first.get_or_insert_with(|| answers.clone());
        if let Some(lost) = first.iter().find(|answer| answers.binary_search(answer).is_err()) {
            panic!("{name} does not give this answer, which fused gives: {lost:02x?}");
        }
        if let Some(new) = answers.iter().find(|answer| first.binary_search(answer).is_err()) {
            panic!("{name} gives this answer, which fused does not give: {new:02x?}");
        }
        assert_eq!(first.len(), answers.len(), "fused and {name} answer equally often");
    }
}

/// Every placement by name: fused, cut in two at every point, sharded, and with the resolver.
fn placements() -> Vec<(String, String)> {
    let mut placements = vec![("fused".to_owned(), "\n[[placement]]\ncores = [1]\n".to_owned())];
    for pair in StageName::ALL.windows(2) {
        let head = Stretch { first: Stretch::ALL.first, last: pair[0] };
        let tail = Stretch { first: pair[1], last: Stretch::ALL.last };
        let mut text = String::new();
        for (stages, core) in [(head, 0), (tail, 1)] {
            writeln!(text, "\n[[placement]]\nstages = \"{stages}\"\ncores = [{core}]").unwrap();
        }
        placements.push((format!("split {head} | {tail}"), text));
    }
    for (name, text) in [
        ("sharded", "cores = [0, 1]\n"),
        ("resolving", "cores = [1]\nresolver = true\n"),
        ("sharded and resolving", "cores = [0, 1]\nresolver = true\n"),
    ] {
        placements.push((name.to_owned(), format!("\n[[placement]]\n{text}")));
    }
    placements
}

/// Placements for more than two cores: each stage on its own, and shards behind a cut.
fn larger_placements() -> Vec<(String, String)> {
    let mut assembly = String::new();
    for (core, stage) in StageName::ALL.iter().enumerate() {
        writeln!(assembly, "\n[[placement]]\nstages = \"{stage}\"\ncores = [{core}]").unwrap();
    }
    let shards = "\n[[placement]]\nstages = \"parse..ratelimit\"\ncores = [0, 1]\n\
                  \n[[placement]]\nstages = \"lookup..encode\"\ncores = [2, 3, 4]\n";
    vec![
        ("a core for each stage".into(), assembly),
        ("two cores into three shards".into(), shards.into()),
    ]
}

/// The queries: every name and type of the lab's list, local, blocked and wrong ones, with and
/// without EDNS; the id is the number.
fn queries() -> Vec<Vec<u8>> {
    let list = String::from_utf8(unzip(&data("lab-example-test.txt.gz"))).unwrap();
    // Escapes in names have a test elsewhere; a TTL of zero may be asked for again and again.
    let wanted = |name: &str| !name.contains('\\') && !name.starts_with("ttl");
    let listed = list.lines().filter_map(|line| line.split_once(' '));
    let listed = listed.filter(|(name, _)| wanted(name)).step_by(3);
    let own =
        ["local.test A", "LoCaL.tEsT A", "local.test TXT", "a.blocked.test A", "nowhere.test A"];
    let own = own.iter().filter_map(|line| line.split_once(' '));
    let mut queries: Vec<Vec<u8>> = Vec::new();
    for (name, qtype) in listed.chain(own) {
        let Some(qtype) = type_number(qtype) else { continue };
        for udp_size in [None, Some(1232)] {
            let id = u16::try_from(queries.len()).unwrap();
            queries.push(Query { id, name, qtype, udp_size }.message());
        }
    }
    // Wrong in ways that are answered: opcode, class, EDNS version, two questions.
    for (at, value) in [(2, 0x11), (5, 2), (queries[1].len() - 5, 9)] {
        let mut query = queries[1].clone();
        query[..2].copy_from_slice(&u16::try_from(queries.len()).unwrap().to_be_bytes());
        query[at] = value;
        queries.push(query);
    }
    queries
}

fn type_number(name: &str) -> Option<u16> {
    let known = [
        ("A", 1),
        ("NS", 2),
        ("CNAME", 5),
        ("SOA", 6),
        ("PTR", 12),
        ("HINFO", 13),
        ("MX", 15),
        ("TXT", 16),
        ("AAAA", 28),
        ("LOC", 29),
        ("SRV", 33),
        ("NAPTR", 35),
        ("DNAME", 39),
        ("TLSA", 52),
        ("SVCB", 64),
        ("HTTPS", 65),
        ("CAA", 257),
    ];
    known.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// Asks one query after another, over IPv4 and IPv6 in turn, and collects the answers.
fn ask_all(queries: &[Vec<u8>]) -> Answers {
    let socket_to = |from: &str, to: &str| {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        socket.connect((to, 53)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let sockets = [socket_to("10.97.0.1", TAP_V4), socket_to("fd97::1", TAP_V6)];
    let mut answers = Answers::new();
    let mut buffer = [0; 4096];
    for (number, query) in queries.iter().enumerate() {
        let socket = &sockets[number % 2];
        socket.send(query).unwrap();
        let length = socket
            .recv(&mut buffer)
            .unwrap_or_else(|error| panic!("no answer to query {number} {query:02x?}: {error}"));
        assert_eq!(id(&buffer), id(query), "one answer at a time, to the query asked last");
        answers.insert(id(query), without_ttls(&buffer[..length]));
    }
    answers
}

fn same_answers(what: &str, one: &Answers, other: &Answers) {
    for (number, answer) in one {
        let theirs = other.get(number);
        assert!(theirs == Some(answer), "{what}: query {number}: {answer:02x?} and {theirs:02x?}");
    }
    assert_eq!(one.len(), other.len(), "{what}");
}

/// One client is refused, the other hears nothing.
fn clients_that_may_not_ask() {
    let query = Query { id: 7, name: "local.test", qtype: 1, udp_size: None }.message();
    let mut buffer = [0; 512];
    let dropped = UdpSocket::bind("10.97.0.67:0").unwrap();
    dropped.set_nonblocking(true).unwrap();
    dropped.send_to(&query, (TAP_V4, 53)).unwrap();
    let refused = UdpSocket::bind("10.97.0.66:0").unwrap();
    refused.set_read_timeout(Some(PATIENCE)).unwrap();
    // Asked later and answered: the query before it is not under way any more.
    for _ in 0..3 {
        refused.send_to(&query, (TAP_V4, 53)).unwrap();
        refused.recv(&mut buffer).unwrap();
        assert_eq!(rcode(&buffer), REFUSED);
    }
    assert!(dropped.recv(&mut buffer).is_err(), "a dropped client gets no answer");
}
