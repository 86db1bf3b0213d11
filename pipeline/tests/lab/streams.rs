//! Clients over TCP: real ones, the same answers as over UDP, and the same rules.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::dig::{dig, dig_is_reset};
use crate::harness::{isolated, path, sh};
use crate::messages::{A, Query, ask_a, be16, id, is_truncated, question};
use crate::nsd::{self, BULK_NAMES};
use crate::pmdns::{COMMON, Pmdns, TAP_PORT, TAP_V4, set_up_tap, upstream};

/// Where clients ask over TCP, on loopback.
const SERVER: &str = "10.98.0.53";
const SERVER_V6: &str = "fd98::53";
/// Clients that are refused, and in a view of their own.
const REFUSED: &str = "10.98.0.66";
const DROPPED: &str = "10.98.0.67";
const KID: &str = "10.98.0.9";
/// Where the upstream is that holds its answers.
const HOLDER: u16 = 5396;
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

/// An upstream for `held.test.` at this port, which answers nothing before it may. Each message to it allows one answer,
/// and all are allowed when the sender is dropped.
fn hold_answers(port: u16) -> Sender<()> {
    let socket = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    let (release, released) = mpsc::channel();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let _ = released.recv();
            // NOERROR without records.
            let (.., end) = question(&buffer[..length]);
            let mut reply = buffer[..end].to_vec();
            reply[2..4].copy_from_slice(&[0x81, 0x80]);
            reply[6..12].fill(0);
            let _ = socket.send_to(&reply, client);
        }
    });
    release
}

/// The idle time that an answer allows its connection, in tenths of a second (RFC 7828 section 3.1).
fn keepalive(answer: &[u8]) -> Option<u16> {
    let at = answer.windows(4).position(|option| option == [0, 11, 0, 2])?;
    Some(be16(answer, at + 4))
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
        // Who may not ask may not connect.
        for denied in [REFUSED, DROPPED] {
            assert!(dig_is_reset(SERVER, &format!("+tcp -b {denied} n1.bulk.test A")));
        }
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
        let release = hold_answers(HOLDER);
        let holder = format!(
            "[[upstream]]\naddress = \"127.0.0.1:{HOLDER}\"\ngroup = \"held\"\n\
             [[forward]]\nzone = \"held.test\"\ngroup = \"held\"\n"
        );
        let pmdns = start(&holder);
        dig(SERVER, "+tcp n1.bulk.test A");
        // The first one's answer is held until those of the others, which are known, have come.
        let mut stream = connect_from(SERVER);
        let names = ["held.test.", "n1.bulk.test.", "n1.bulk.test."];
        for (number, name) in (0..).zip(names) {
            send(&mut stream, &ask_a(number, name));
        }
        let mut next = || {
            let answer = receive(&mut stream).expect("an answer in time");
            let number = id(&answer);
            assert_eq!(question(&answer).0, names[usize::from(number)], "each has its question");
            number
        };
        let mut first = [next(), next()];
        first.sort_unstable();
        assert_eq!(first, [1, 2]);
        drop(release);
        assert_eq!(next(), 0);
        let mut asks =
            Query { id: 7, name: "n1.bulk.test", qtype: A, udp_size: Some(1232) }.message();
        let data_len_at = asks.len() - 1;
        asks[data_len_at] = 4;
        asks.extend([0, 11, 0, 0]);
        send(&mut stream, &asks);
        assert_eq!(keepalive(&receive(&mut stream).unwrap()), Some(300), "30 seconds");
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
