//! What `pmdns import` makes of a file, beside the server that the file is for: the same questions from the same clients.
//!
//! The files are those of `pipeline/import/tests/import/data/cases`. pmdns plays the questions as a capture. All three forward
//! to the same two stubs, which say in each answer who they are.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use hickory_proto::op::Message;

use crate::frames::{self, Path};
use crate::harness::{FOLDER, PATIENCE, isolated, path, sh, wait_until};
use crate::import_cases::{Case, DNSDIST, HIDDEN, NAMED, UNBOUND};
use crate::messages::{Query, id};
use crate::pcap;
use crate::pmdns::BINARY;
use crate::process::Process;

/// The address that all of them answer at.
const SERVER: &str = "192.0.2.53";
/// Clients: in the views of the files, and in none.
pub(crate) const CLIENTS: [&str; 4] = ["10.1.0.5", "10.2.0.5", "172.16.0.5", "198.51.100.7"];
/// A client in the network of the server.
pub(crate) const NEIGHBOUR: &str = "192.0.2.7";
/// The port of the stubs, and their addresses.
const UPSTREAMS: (&str, u16) = ("127.0.0.", 5399);
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]];
pub(crate) const A: u16 = 1;
const PTR: u16 = 12;
pub(crate) const MX: u16 = 15;

#[test]
#[ignore = "needs root and network namespaces: scripts/test.sh runs it"]
fn unbound_answers_as_what_was_made_of_its_file() {
    isolated("import::unbound_answers_as_what_was_made_of_its_file", || {
        set_up();
        for case in &UNBOUND {
            compare(case, unbound(&case.text()));
        }
    });
}

/// Starts Unbound with a file, and what a lab needs besides.
pub(crate) fn unbound(text: &str) -> Process {
    let more = format!(
        "server:\n username: \"\"\n chroot: \"\"\n directory: {FOLDER}\n pidfile: {FOLDER}/unbound.pid\n use-syslog: no\n \
         module-config: iterator\n do-not-query-localhost: no\n num-threads: 1\nremote-control:\n control-enable: no\n"
    );
    let file = path("unbound.conf");
    fs::write(&file, text.to_owned() + &more).unwrap();
    let mut command = Command::new("/usr/sbin/unbound");
    Process::start("unbound", command.arg("-d").arg("-c").arg(&file))
}

pub(crate) fn named(text: &str) -> Process {
    let file = path("named.conf");
    fs::write(&file, text.to_owned() + "controls { };\n").unwrap();
    let mut command = Command::new("/usr/sbin/named");
    Process::start("named", command.arg("-g").arg("-c").arg(&file))
}

pub(crate) fn dnsdist(text: &str) -> Process {
    let file = path("dnsdist.conf");
    fs::write(&file, text).unwrap();
    let mut command = Command::new("/usr/bin/dnsdist");
    Process::start("dnsdist", command.args(["--supervised", "-C"]).arg(&file))
}

#[test]
#[ignore = "needs root and network namespaces: scripts/test.sh runs it"]
fn named_answers_as_what_was_made_of_its_file() {
    isolated("import::named_answers_as_what_was_made_of_its_file", || {
        set_up();
        for case in &NAMED {
            compare(case, named(&case.text()));
        }
        // A zone that some may not ask for is shown to nobody.
        for (case, address) in &HIDDEN {
            let shows = |answer: &Answer| answer.1.iter().any(|record| record.contains(address));
            let queries = queries(case.clients, case.questions);
            let server = named(&case.text());
            wait_for_theirs(case.clients[0], case.questions[0]);
            let theirs = theirs(&queries, PATIENCE);
            drop(server);
            assert!(theirs.iter().any(shows), "{}: {theirs:?}", case.file);
            let ours = ours_of(case, &queries);
            assert!(!ours.iter().any(shows), "{}: {ours:?}", case.file);
        }
    });
}

#[test]
#[ignore = "needs root and network namespaces: scripts/test.sh runs it"]
fn dnsdist_answers_as_what_was_made_of_its_file() {
    isolated("import::dnsdist_answers_as_what_was_made_of_its_file", || {
        set_up();
        for case in &DNSDIST {
            compare(case, dnsdist(&case.text()));
        }
    });
}

/// A file of the cases; its other files are in the lab's folder.
pub(crate) fn text_of(file: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/import/tests/import/data/cases");
    for zone in ["internal.db", "external.db", "rpz.db"] {
        fs::copy(format!("{folder}/{zone}"), path(zone)).unwrap();
    }
    fs::read_to_string(format!("{folder}/{file}")).unwrap().replace("SCRATCH", FOLDER)
}

/// All addresses are on loopback. Two stubs answer there.
pub(crate) fn set_up() {
    for address in CLIENTS.iter().chain(&[SERVER, NEIGHBOUR]) {
        sh(&format!("ip address add {address}/32 dev lo"));
    }
    for number in 1..=3_u8 {
        let socket = UdpSocket::bind((format!("{}{number}", UPSTREAMS.0), UPSTREAMS.1)).unwrap();
        thread::spawn(move || serve(&socket, number));
    }
}

/// Answers every question: addresses and names have the number of the stub in them, other types have no records.
fn serve(socket: &UdpSocket, number: u8) {
    let mut query = [0; 1500];
    loop {
        let (length, from) = socket.recv_from(&mut query).unwrap();
        let query = &query[..length];
        let end = 12 + query[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
        let qtype = u16::from_be_bytes([query[end - 4], query[end - 3]]);
        let data: Option<Vec<u8>> = match qtype {
            A => Some(vec![203, 0, 113, number]),
            PTR => Some(vec![2, b'u', b'0' + number, 0]),
            _ => None,
        };
        let mut reply = query[..2].to_vec();
        reply.extend([0x81, 0x80, 0, 1, 0, u8::from(data.is_some()), 0, 0, 0, 0]);
        reply.extend(&query[12..end]);
        if let Some(data) = data {
            reply.extend([0xc0, 12]);
            reply.extend(&query[end - 4..end]);
            reply.extend([0, 0, 0, 60, 0, u8::try_from(data.len()).unwrap()]);
            reply.extend(data);
        }
        socket.send_to(&reply, from).unwrap();
    }
}

/// The rcode of a reply, and its records without their TTLs.
pub(crate) type Answer = (String, BTreeSet<String>);

fn answer(message: &Message) -> Answer {
    let records = message.answers.iter();
    let shown =
        |record: &hickory_proto::rr::Record| format!("{} {}", record.record_type(), record.data);
    (message.metadata.response_code.to_string(), records.map(shown).collect())
}

/// Asks both; every answer is the same.
fn compare(case: &Case, server: Process) {
    wait_for_theirs(case.clients[0], case.questions[0]);
    // named answers before it has loaded its policy zones.
    let text = case.text();
    let blocks = text.split("response-policy").skip(1).filter_map(|rest| rest.split('}').next());
    let policies: usize = blocks.map(|block| block.matches("zone ").count()).sum();
    wait_until("policy zones are loaded", || {
        server.log().matches("reload done").count() >= policies
    });
    let queries = queries(case.clients, case.questions);
    let theirs = theirs(&queries, PATIENCE);
    drop(server);
    for (query, theirs) in queries.iter().zip(&theirs) {
        assert_ne!(*theirs, silence(), "{}: no reply to {query:?}", case.file);
    }
    are_alike(case.file, &queries, &theirs, &ours_of(case, &queries));
    println!("{}: {} answers are the same", case.file, queries.len());
}

pub(crate) fn are_alike(what: &str, queries: &[Asked], theirs: &[Answer], ours: &[Answer]) {
    for ((query, theirs), ours) in queries.iter().zip(theirs).zip(ours) {
        assert_eq!(ours, theirs, "{what}: {} asks for {} {}", query.0, query.1.0, query.1.1);
    }
}

/// The answers of pmdns with the configuration that import makes of a case.
fn ours_of(case: &Case, queries: &[Asked]) -> Vec<Answer> {
    let text = case.text();
    let mut made = import(&text, &[]);
    if case.is_partial {
        assert_eq!((made.status.code(), made.stdout.len()), (Some(10), 0), "{}", said(&made));
        made = import(&text, &["--partial"]);
    }
    assert!([Some(0), Some(6)].contains(&made.status.code()), "{}: {}", case.file, said(&made));
    ours(&written(&made), queries)
}

/// A question of a client.
pub(crate) type Asked = (&'static str, (&'static str, u16));

/// Each question by each client.
pub(crate) fn queries(clients: &[&'static str], questions: &[(&'static str, u16)]) -> Vec<Asked> {
    let of = |client: &'static str| questions.iter().map(move |question| (client, *question));
    clients.iter().flat_map(|client| of(client)).collect()
}

fn message(place: usize, (name, qtype): (&str, u16)) -> Vec<u8> {
    Query { id: u16::try_from(place).unwrap(), name, qtype, udp_size: None }.message()
}

/// Asks the other server.
fn ask(client: &str, query: &[u8]) -> UdpSocket {
    let socket = UdpSocket::bind((client, 0)).unwrap();
    socket.send_to(query, (SERVER, 53)).unwrap();
    socket
}

/// Its reply, if it comes in time.
fn reply(socket: &UdpSocket, patience: Duration) -> Option<Message> {
    socket.set_read_timeout(Some(patience.max(Duration::from_millis(1)))).unwrap();
    let mut reply = [0; 1500];
    let length = socket.recv(&mut reply).ok()?;
    Message::from_vec(&reply[..length]).ok()
}

/// Waits until the other server answers this question of a client.
pub(crate) fn wait_for_theirs(client: &str, question: (&str, u16)) {
    let first = message(1, question);
    let wait = Duration::from_millis(100);
    wait_until("the other server answers", || reply(&ask(client, &first), wait).is_some());
}

/// The other server's answers. One that is not there after so long is none.
pub(crate) fn theirs(queries: &[Asked], patience: Duration) -> Vec<Answer> {
    let ask =
        |(place, (client, question)): (usize, &Asked)| ask(client, &message(place, *question));
    let sockets: Vec<UdpSocket> = queries.iter().enumerate().map(ask).collect();
    let end = Instant::now() + patience;
    let heard = |socket| {
        reply(socket, end.saturating_duration_since(Instant::now()))
            .as_ref()
            .map_or_else(silence, answer)
    };
    sockets.iter().map(heard).collect()
}

/// What a client gets whose query is dropped.
fn silence() -> Answer {
    ("none".to_owned(), BTreeSet::new())
}

/// Runs an import.
pub(crate) fn import(text: &str, more: &[&str]) -> Output {
    let file = path("imported.conf");
    fs::write(&file, text).unwrap();
    Command::new(BINARY).arg("import").arg(&file).args(more).output().unwrap()
}

/// The configuration that an import has made.
pub(crate) fn written(made: &Output) -> String {
    String::from_utf8(made.stdout.clone()).unwrap()
}

/// The answers of pmdns with a configuration that import has made.
pub(crate) fn ours(made: &str, queries: &[Asked]) -> Vec<Answer> {
    let config = path("pmdns.toml");
    fs::write(&config, for_replay(made)).unwrap();
    let (input, output) = (path("in.pcap"), path("out.pcap"));
    let frame = |(place, (client, question)): (usize, &Asked)| {
        let from: IpAddr = client.parse().unwrap();
        let to: IpAddr = SERVER.parse().unwrap();
        let path = Path { from: (MACS[0], from, 5000), to: (MACS[1], to, 53), vlans: Vec::new() };
        path.frame(&message(place, *question))
    };
    let frames: Vec<Vec<u8>> = queries.iter().enumerate().map(frame).collect();
    pcap::write(&input, &frames);
    let mut replay = Command::new(BINARY);
    replay.arg("replay").arg(&input).arg("-o").arg(&output).arg("-c").arg(&config);
    let played = replay.output().unwrap();
    assert_eq!(played.status.code(), Some(0), "{}\n{made}", said(&played));
    let mut answers = vec![silence(); frames.len()];
    for frame in pcap::read(&output) {
        let Some(datagram) = frames::read(&frame).unwrap() else { continue };
        let reply = Message::from_vec(datagram.payload).unwrap();
        answers[usize::from(id(datagram.payload))] = answer(&reply);
    }
    answers
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The configuration with the port of a replay, without the sockets of a kernel, and a small cache.
fn for_replay(toml: &str) -> String {
    let toml = toml.replace("0000:01:00.0", "replay");
    let mut tables: Vec<&str> = toml.split("\n\n").collect();
    tables.retain(|table| !table.contains("[streams]"));
    let lines = tables.join("\n\n");
    let lines: Vec<&str> = lines.lines().filter(|line| !line.starts_with("tap = ")).collect();
    lines.join("\n") + "\n[cache]\nsize = \"16MiB\"\npages = \"normal\"\n"
}
