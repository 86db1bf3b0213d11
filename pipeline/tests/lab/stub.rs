//! An upstream that behaves as the name asked for says.
//!
//! The first label of the name is `KIND` or `KIND-then`, or either with `_` and any text after it. The kinds are
//! `good`, `slow`, `dead`, `servfail`, `tc` (truncated, whole over TCP) and `tcdead` (truncated, silent over TCP).
//! Wrong replies are `wrongid`, `wrongname`, `wrongtype`, `wrongport`, `wrongaddress`, `query` (a reply with QR=0) and
//! `short`. With `-then`, the right reply follows.

use std::collections::{HashMap, HashSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::messages::{question, wire_name};

/// The truth about every name.
pub(crate) const TRUTH: [u8; 4] = [192, 0, 2, 10];
/// What lies claim.
pub(crate) const LIE: [u8; 4] = [203, 0, 113, 66];
/// Records in an answer that does not fit a datagram.
pub(crate) const LONG_ANSWER: usize = 120;
/// How long a slow answer takes.
const SLOWNESS: Duration = Duration::from_millis(400);
/// How long after a lie the truth comes.
const TRUTH_DELAY: Duration = Duration::from_millis(50);

/// A stub upstream on loopback; its threads end with the lab's process.
#[derive(Clone)]
pub(crate) struct Stub {
    seen: Arc<Mutex<Seen>>,
}

/// What it has been asked.
#[derive(Default)]
pub(crate) struct Seen {
    /// How often each name was asked for over UDP, in lower case.
    pub(crate) names: HashMap<String, usize>,
    /// Source ports of the questions.
    pub(crate) ports: HashSet<u16>,
    /// Ids of the questions.
    pub(crate) ids: HashSet<[u8; 2]>,
    /// Questions over TCP.
    pub(crate) over_tcp: usize,
}

impl Stub {
    /// Starts one on this port, UDP and TCP.
    pub(crate) fn start(port: u16) -> Self {
        Self::start_at("127.0.0.1", port)
    }

    /// The same at another address.
    pub(crate) fn start_at(address: &str, port: u16) -> Self {
        let stub = Self { seen: Arc::default() };
        let udp = UdpSocket::bind((address, port)).unwrap();
        let tcp = TcpListener::bind((address, port)).unwrap();
        let (on_udp, on_tcp) = (stub.clone(), stub.clone());
        thread::spawn(move || on_udp.serve_udp(&udp));
        thread::spawn(move || on_tcp.serve_tcp(&tcp));
        stub
    }

    /// How often `name` (lower case, with its last dot) was asked for over UDP.
    pub(crate) fn asked(&self, name: &str) -> usize {
        self.seen.lock().unwrap().names.get(name).copied().unwrap_or(0)
    }

    /// Looks at what it has been asked.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&Seen) -> T) -> T {
        at(&self.seen.lock().unwrap())
    }

    fn serve_udp(&self, socket: &UdpSocket) {
        let mut buffer = [0; 4096];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let query = buffer[..length].to_vec();
            let name = question(&query).0.to_lowercase();
            {
                let mut seen = self.seen.lock().unwrap();
                *seen.names.entry(name.clone()).or_default() += 1;
                seen.ports.insert(client.port());
                seen.ids.insert([query[0], query[1]]);
            }
            let socket = socket.try_clone().unwrap();
            thread::spawn(move || reply(&socket, client, &query, &name));
        }
    }

    fn serve_tcp(&self, listener: &TcpListener) {
        while let Ok((connection, _)) = listener.accept() {
            let stub = self.clone();
            thread::spawn(move || stub.serve_connection(connection));
        }
    }

    /// Answers one question; an error ends the connection, as it would a server's.
    fn serve_connection(&self, mut connection: TcpStream) {
        let mut length = [0; 2];
        if connection.read_exact(&mut length).is_err() {
            return;
        }
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        if connection.read_exact(&mut query).is_err() {
            return;
        }
        self.seen.lock().unwrap().over_tcp += 1;
        if question(&query).0.starts_with("tcdead") {
            // Holds the connection until the other end gives up.
            let _ = connection.read(&mut length);
            return;
        }
        let answer = answer(&query, TRUTH, LONG_ANSWER);
        let mut message = u16::try_from(answer.len()).unwrap().to_be_bytes().to_vec();
        message.extend(answer);
        let _ = connection.write_all(&message);
    }
}

/// Sends what the name asks for.
fn reply(socket: &UdpSocket, client: SocketAddr, query: &[u8], name: &str) {
    let label = name.split(['.', '_']).next().unwrap();
    let (kind, truth_follows) = match label.split_once("-then") {
        Some((kind, _)) => (kind, true),
        None => (label, false),
    };
    let mut lie = answer(query, LIE, 1);
    let mut liar = None;
    match kind {
        "good" => lie = answer(query, TRUTH, 1),
        "slow" => {
            thread::sleep(SLOWNESS);
            lie = answer(query, TRUTH, 1);
        }
        "tc" | "tcdead" => {
            lie = answer(query, LIE, 0);
            lie[2] |= 0x02;
        }
        "servfail" => {
            lie = answer(query, LIE, 0);
            lie[3] |= 2;
        }
        "wrongid" => lie[1] ^= 0x55,
        "wrongname" => lie = answer(&asking_for("elsewhere.test", query), LIE, 1),
        "wrongtype" => {
            let end = question(&lie).2;
            lie[end - 3] ^= 0x1d;
        }
        "wrongport" => liar = Some(UdpSocket::bind("127.0.0.1:0").unwrap()),
        "wrongaddress" => {
            let port = socket.local_addr().unwrap().port();
            liar = Some(UdpSocket::bind(("127.0.0.99", port)).unwrap());
        }
        "query" => lie[2] &= 0x7f,
        "short" => lie.truncate(7),
        _ => return,
    }
    let _ = liar.as_ref().unwrap_or(socket).send_to(&lie, client);
    if truth_follows {
        thread::sleep(TRUTH_DELAY);
        let _ = socket.send_to(&answer(query, TRUTH, 1), client);
    }
}

/// A reply to `query` with `records` address records, which differ in their last byte.
fn answer(query: &[u8], address: [u8; 4], records: usize) -> Vec<u8> {
    let end = question(query).2;
    let mut reply = query[..end].to_vec();
    reply[2..4].copy_from_slice(&[0x81, 0x80]);
    reply[4..12].fill(0);
    reply[5] = 1;
    reply[7] = u8::try_from(records).unwrap();
    for number in 0..reply[7] {
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4]);
        reply.extend(&address[..3]);
        reply.push(address[3].wrapping_add(number));
    }
    reply
}

/// `query` with another name in it.
fn asking_for(name: &str, query: &[u8]) -> Vec<u8> {
    let mut other = query[..12].to_vec();
    other.extend(wire_name(name));
    other.extend([0, 1, 0, 1]);
    other
}
