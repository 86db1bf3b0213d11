//! A process that has run out of file descriptors: whatever listens goes on when there are some again.
//!
//! One test, in a process of its own: descriptors are the process's.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, reason = "it is shared with tests that use more of it")]
#[path = "../engine/tests/all/kernel/driver.rs"]
mod driver;
#[allow(dead_code, unused_imports, reason = "it is shared with tests that use more of it")]
#[path = "../engine/tests/rig/mod.rs"]
mod rig;
#[allow(dead_code, reason = "it is shared with tests that use more of it")]
#[path = "../engine/tests/all/kernel/stub.rs"]
mod stub;

use std::fs::File;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pmdns::control::metrics::server::MetricsListener;
use pmdns::control::socket::ControlSocket;
use pmdns_config::Control;
use pmdns_control::CallReply;
use pmdns_control::report::Report;
use pmdns_stages::testing::query;
use socket2::{Domain, SockAddr, Socket, Type};

use rig::Setup;
use stub::Stub;

/// Whether upstreams are asked over a port.
pub(crate) const BY_PORT: bool = false;
/// Who asks encrypted upstreams.
pub(crate) const LOAD_ENCRYPTED: pmdns_engine::encrypted::LoadEncrypted =
    pmdns_engine::encrypted::without_encrypted;

/// Descriptors the process may have: few, so that they are soon used up.
const LIMIT: usize = 200;

#[test]
fn trap_26_no_listener_dies_of_a_failing_accept() {
    let limit = format!("--nofile={LIMIT}:");
    let set =
        Command::new("prlimit").args(["--pid", &std::process::id().to_string(), &limit]).status();
    assert!(set.unwrap().success(), "prlimit (package util-linux) lowers the limit");

    let path = std::env::temp_dir().join(format!("pmdns-descriptors-{}.sock", std::process::id()));
    let settings = Control { socket: path.clone(), ..Control::default() };
    let mut control = ControlSocket::open(&settings).unwrap().serve(None).unwrap();
    let listener = MetricsListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = listener.address().unwrap();
    let mut metrics = listener.serve(None).unwrap();
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = Setup::asking(&[&stub]).hasty(20_000, 500).start();
    assert_eq!(rig.resolve(&query("before.example. A")).records, 1);
    // Its socket may be closed after the client has the answer. Then there would be a descriptor to ask with.
    rig.wait_until(|_| !is_asked(stub.address.port()));

    // Sockets made while that works, for the moment in which nothing can be opened any more.
    let control_client = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    let metrics_client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let held = use_up_descriptors();
    control_client.connect(&SockAddr::unix(&path).unwrap()).unwrap();
    let stats = b"GET /api/v1/stats HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
    (&control_client).write_all(stats).unwrap();
    metrics_client.connect(&address.into()).unwrap();
    (&metrics_client).write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    // Each of the three fails now: the socket to ask upstream from, and both accepts.
    rig.ask(&query("during.example. A"));
    rig.wait_for(|counters| counters.socket_errors > 0);
    // Time for the threads to notice their clients; were it too little, this would test less, not fail.
    std::thread::sleep(Duration::from_millis(50));
    drop(held);

    rig.answers(1);
    rig.wait_until(|rig| rig.resolve(&query("after.example. A")).records == 1);
    let waiting = std::thread::spawn(move || read_all(control_client));
    rig.wait_until(|_| {
        control.take(|_, caller| caller.reply(CallReply::Done("the report".into())));
        waiting.is_finished()
    });
    let answer = waiting.join().unwrap();
    assert!(answer.ends_with("{\"done\":\"the report\"}"), "{answer}");
    let waiting = std::thread::spawn(move || read_all(metrics_client));
    rig.wait_until(|_| {
        metrics.answer(Report::default);
        waiting.is_finished()
    });
    let answer = waiting.join().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    rig.finish();
    assert!(Path::new(&path).exists(), "it listened to the end");
}

/// Opens files until no more can be opened, and holds them.
fn use_up_descriptors() -> Vec<File> {
    let mut held = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        held.push(file);
        assert!(held.len() <= LIMIT, "the limit does not hold");
    }
    held
}

/// Whether a socket is connected to this UDP port of the loopback address.
fn is_asked(port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/self/net/udp").unwrap();
    let remote = format!("0100007F:{port:04X}");
    sockets.lines().any(|line| line.split_whitespace().nth(2) == Some(&*remote))
}

fn read_all(mut socket: Socket) -> String {
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}
