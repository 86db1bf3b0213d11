//! Clients over TCP: real ones, the same answers as over UDP, and the same rules.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::dig::{dig, dig_is_unanswered};
use crate::harness::{isolated, path, sh};
use crate::messages::{ask_a, id, is_truncated};
use crate::nsd::{self, BULK_NAMES};
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, TAP_V4, set_up_tap, upstream};

/// Where clients ask over TCP, on loopback.
const SERVER: &str = "10.98.0.53";
const SERVER_V6: &str = "fd98::53";
/// Clients that are refused, and in a view of their own.
const REFUSED: &str = "10.98.0.66";
const DROPPED: &str = "10.98.0.67";
const KID: &str = "10.98.0.9";
/// A client that asks too fast.
const FAST: &str = "10.98.0.77";

/// Gives loopback the addresses of server and clients, and starts pmdns there and on a TAP port.
fn start(more: &str) -> Pmdns {
    for address in [SERVER, REFUSED, DROPPED, KID, FAST] {
        sh(&format!("ip address add {address}/32 dev lo"));
    }
    sh(&format!("ip address add {SERVER_V6}/128 dev lo nodad"));
    let streams = format!("[streams]\ntcp = [\"{SERVER}:53\", \"[{SERVER_V6}]:53\"]\n");
    let pmdns = Pmdns::start(&format!("{TAP_PORT}{COMMON}{}{streams}{more}", upstream(nsd::PORT)));
    set_up_tap();
    pmdns
}

/// A zone with sets of so many records of 250 bytes.
fn long_zone(sets: &[(&str, usize)]) -> String {
    let mut zone =
        "$ORIGIN long.test.\n$TTL 3600\n@ SOA ns h 1 3600 900 604800 60\n@ NS ns\nns A 127.0.0.1\n"
            .to_owned();
    for (name, records) in sets {
        for number in 0..*records {
            let text = format!("{number:04}{}", "x".repeat(233));
            writeln!(zone, "{name} TXT \"{text}\"").unwrap();
        }
    }
    zone
}

/// A connection to the server from this address.
fn connect_from(client: &str) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let client: SocketAddr = format!("{client}:0").parse().unwrap();
    let server: SocketAddr = format!("{SERVER}:53").parse().unwrap();
    socket.bind(&client.into()).unwrap();
    socket.connect(&server.into()).unwrap();
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    stream
}

fn send(stream: &mut TcpStream, message: &[u8]) {
    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length, message].concat()).unwrap();
}

/// The next message; `None`: there is none in time.
fn receive(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message).ok()?;
    Some(message)
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn long_answers_are_whole_over_tcp_and_truncated_over_udp() {
    isolated("streams::long_answers_are_whole_over_tcp_and_truncated_over_udp", || {
        let zone = long_zone(&[("short", 1), ("middle", 12), ("long", 240)]);
        let _nsd = nsd::start_with(&[("long.test", &zone)]);
        let pmdns = start("");
        for server in [SERVER, SERVER_V6] {
            for (name, records) in [("short", 1), ("middle", 12), ("long", 240)] {
                let over_udp = dig(TAP_V4, &format!("{name}.long.test TXT"));
                assert_eq!(over_udp.has("tc"), records > 1, "{over_udp:?}");
                let reply = dig(server, &format!("+tcp {name}.long.test TXT"));
                assert!(!reply.has("tc") && reply.status == "NOERROR", "{reply:?}");
                assert_eq!(reply.answers.len(), records, "{name}");
                assert!(reply.size > records * 245, "{} bytes", reply.size);
                let kdig = sh(&format!("kdig @{server} +tcp +noall +answer {name}.long.test TXT"));
                assert_eq!(kdig.lines().count(), records, "{name}: {kdig}");
            }
        }
        let stats = pmdns.stats();
        // A question was asked once, and all later ones were answered from the cache.
        assert_eq!(stats.total("slow_path"), 3);
        assert_eq!((stats.over_tcp("queries"), stats.over_tcp("answers")), (12, 12));
        let stats = pmdns.stop();
        assert_eq!((stats.over_tcp("open"), stats.over_tcp("malformed")), (0, 0));
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn rules_hold_over_tcp() {
    isolated("streams::rules_hold_over_tcp", || {
        fs::write(
            path("rules.rpz"),
            "$ORIGIN rpz.\n@ 60 SOA a. b. 1 1 1 1 1\n@ NS a.\nn2.bulk.test CNAME rpz-tcp-only.\n",
        )
        .unwrap();
        let _nsd = nsd::start();
        let rpz = path("rules.rpz");
        let pmdns = start(&format!(
            "[acl]\nallow = [\"10.0.0.0/8\", \"fd00::/8\"]\nrefuse = [\"{REFUSED}/32\"]\ndrop = [\"{DROPPED}/32\"]\n\
             [block]\nnames = [\"n3.bulk.test\"]\n[[rpz]]\nfile = {rpz:?}\n\
             [[view]]\nname = \"kids\"\nclients = [\"{KID}\"]\n\
             [[local]]\nname = \"n4.bulk.test\"\ntype = \"A\"\ndata = \"192.0.2.4\"\nviews = [\"kids\"]\n\
             [ratelimit]\nqueries_per_second = 1\nburst = 10\nslip = 1\nipv4_prefix = 32\nerror_replies_per_second = 0\n"
        ));
        let ask =
            |client: &str, name: &str| dig(SERVER, &format!("+tcp -b {client} {name}.bulk.test A"));
        assert_eq!(ask(SERVER, "n1").data(), [nsd::bulk_address(1)]);
        assert_eq!(ask(REFUSED, "n1").status, "REFUSED");
        assert!(dig_is_unanswered(SERVER, &format!("+tcp -b {DROPPED} n1.bulk.test A")));
        assert_eq!(ask(SERVER, "n3").status, "NXDOMAIN");
        assert_eq!(ask(SERVER, "n4").data(), [nsd::bulk_address(4)]);
        assert_eq!(ask(KID, "n4").data(), ["192.0.2.4"]);
        // The rule sends clients over UDP to TCP, before and after the answer is in the cache.
        assert!(dig(TAP_V4, "n2.bulk.test A").has("tc"));
        assert_eq!(ask(SERVER, "n2").data(), [nsd::bulk_address(2)]);
        assert!(dig(TAP_V4, "n2.bulk.test A").has("tc"));
        // Nobody is told over TCP to come over TCP.
        let mut stream = connect_from(FAST);
        for number in 0..40 {
            send(&mut stream, &ask_a(number, "n1.bulk.test"));
        }
        let answers: Vec<_> = std::iter::from_fn(|| receive(&mut stream)).collect();
        assert!((10..=14).contains(&answers.len()), "{} answers", answers.len());
        assert!(answers.iter().all(|answer| !is_truncated(answer)));
        let stats = pmdns.stop();
        assert!(stats.exits("ratelimit", "drop.rate_limited") >= 26);
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn cve_2025_59030_notify_and_update_over_tcp_change_nothing() {
    isolated("streams::cve_2025_59030_notify_and_update_over_tcp_change_nothing", || {
        let _nsd = nsd::start();
        let pmdns = start("");
        assert_eq!(dig(SERVER, "+tcp n1.bulk.test A").data(), [nsd::bulk_address(1)]);
        for opcode in ["notify", "update"] {
            let reply = dig(SERVER, &format!("+tcp +opcode={opcode} bulk.test SOA"));
            assert_eq!(reply.status, "NOTIMP", "{opcode}");
        }
        let before = pmdns.stats().total("slow_path");
        assert_eq!(dig(SERVER, "+tcp n1.bulk.test A").data(), [nsd::bulk_address(1)]);
        assert_eq!(pmdns.stats().total("slow_path"), before, "it is still in the cache");
        pmdns.stop();
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn connections_are_reused_and_answers_come_out_of_order() {
    isolated("streams::connections_are_reused_and_answers_come_out_of_order", || {
        let _nsd = nsd::start();
        let pmdns = start("");
        dig(SERVER, "+tcp n1.bulk.test A");
        // The first one has to be asked upstream; the others are known. An upstream may be as fast as a busy data core, but not
        // every time.
        let mut stream = connect_from(SERVER);
        let mut order = |new: usize| -> Vec<u16> {
            let new = format!("n{new}.bulk.test");
            for (number, name) in (0..).zip([&*new, "n1.bulk.test", "n1.bulk.test"]) {
                send(&mut stream, &ask_a(number, name));
            }
            (0..3).filter_map(|_| receive(&mut stream)).map(|it| id(&it)).collect()
        };
        let orders: Vec<Vec<u16>> = (20..60).map(&mut order).collect();
        assert!(orders.iter().any(|order| order == &[1, 2, 0]), "{orders:?}");
        let keepalive = Command::new("dig")
            .args([&format!("@{SERVER}"), "+tcp", "+keepalive", "n1.bulk.test", "A"])
            .output()
            .unwrap();
        let keepalive = String::from_utf8_lossy(&keepalive.stdout).into_owned();
        assert!(keepalive.contains("KEEPALIVE: 30.0 secs"), "{keepalive}");
        let names = (0..BULK_NAMES).map(|number| format!("n{number}.bulk.test A\n"));
        fs::write(path("names"), names.collect::<String>()).unwrap();
        let file = path("names");
        let report = sh(&format!(
            "dnsperf -m tcp -s {SERVER} -d {} -l 3 -c 8 -q 100 -Q 3000 -t 5",
            file.display()
        ));
        assert!(report.contains("Queries lost:         0"), "{report}");
        assert!(report.contains("(100.00%)"), "{report}");
        let stats = pmdns.stop();
        assert_eq!(stats.over_tcp("queries"), stats.over_tcp("answers"));
        assert!(stats.over_tcp("accepted") < 20);
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn hits_over_udp_are_answered_beside_many_idle_connections() {
    /// The comparison holds more (`scripts/compare.sh streams`).
    const HELD: usize = 2000;
    isolated("streams::hits_over_udp_are_answered_beside_many_idle_connections", || {
        let _nsd = nsd::start();
        let pmdns = start(&format!(
            "max_connections = {0}\nmax_connections_per_prefix = {0}\nidle_timeout_ms = 60000\n",
            2 * HELD
        ));
        let mut held: Vec<TcpStream> = Vec::new();
        for number in 0..HELD {
            let mut stream = connect_from(KID);
            let id = u16::try_from(number).unwrap();
            send(&mut stream, &ask_a(id, "n1.bulk.test"));
            assert!(receive(&mut stream).is_some(), "connection {number}");
            held.push(stream);
        }
        assert_eq!(pmdns.stats().over_tcp("open"), HELD as u64);
        fs::write(path("names"), "n1.bulk.test A\n").unwrap();
        let report = sh(&format!(
            "dnsperf -s {TAP_V4} -d {} -n 4000 -q 8 -Q 2000 -t 5",
            path("names").display()
        ));
        assert!(report.contains("Queries lost:         0"), "{report}");
        assert_eq!(pmdns.stats().over_tcp("open"), HELD as u64);
        for stream in &mut held {
            send(stream, &ask_a(7, "n1.bulk.test"));
            assert!(receive(stream).is_some());
        }
        drop(held);
        let stats = pmdns.stop();
        assert_eq!(stats.over_tcp("answers"), 2 * HELD as u64);
    });
}
