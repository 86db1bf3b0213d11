//! An upstream of a test: real sockets on loopback, UDP and TCP on the same port, a script that says what to
//! reply, and faults that can be turned on and off while it runs.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pmdns_stages::wire::dns::{HEADER_LEN, QUESTION_FIXED_LEN, flag, header};
use pmdns_stages::wire::edns::{option, option_in};
use pmdns_stages::wire::subnet::SCOPE;
use pmdns_stages::wire::{be16, name, put16};

/// How long a stub waits before it looks whether the test is over.
const POLL: Duration = Duration::from_millis(10);
/// How long it waits while replies are on their way.
const SHORT_POLL: Duration = Duration::from_millis(1);
/// How often a stub looks for a port that is free for UDP and TCP.
const BIND_TRIES: usize = 100;

/// A query as it reached the stub.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) message: Vec<u8>,
    pub(crate) from: SocketAddr,
    pub(crate) over_tcp: bool,
}

impl Asked {
    pub(crate) fn id(&self) -> u16 {
        be16(&self.message, header::ID).unwrap()
    }

    pub(crate) fn has_edns(&self) -> bool {
        be16(&self.message, header::ARCOUNT) == Some(1)
    }

    /// The data of the query's subnet option.
    pub(crate) fn subnet(&self) -> Option<Vec<u8>> {
        option_in(&self.message, option::SUBNET).map(<[u8]>::to_vec)
    }

    /// The data of the query's cookie option.
    pub(crate) fn cookie(&self) -> Option<Vec<u8>> {
        option_in(&self.message, option::COOKIE).map(<[u8]>::to_vec)
    }

    /// `reply` with the query's cookie and this server cookie.
    pub(crate) fn with_cookie(&self, reply: Vec<u8>, server: [u8; 8]) -> Vec<u8> {
        let Some(data) = self.cookie() else { return reply };
        self.with_option(reply, option::COOKIE, &[&data[..8], &server].concat())
    }

    /// `reply` with an OPT record that has this option.
    pub(crate) fn with_option(&self, mut reply: Vec<u8>, code: u16, data: &[u8]) -> Vec<u8> {
        put16(&mut reply, header::ARCOUNT, 1);
        let (len, all) = (data.len() as u16, data.len() as u16 + 4);
        reply.extend([0, 0, 41, 4, 208, 0, 0, 0, 0]);
        reply.extend([all, code, len].map(u16::to_be_bytes).concat());
        reply.extend(data);
        reply
    }

    /// `reply` for so long a prefix of the network that the query is for, if it is for one.
    pub(crate) fn with_scope(&self, reply: Vec<u8>, scope: u8) -> Vec<u8> {
        let Some(mut data) = self.subnet() else { return reply };
        data[SCOPE] = scope;
        self.with_option(reply, option::SUBNET, &data)
    }

    /// A response with this rcode and nothing but the question.
    pub(crate) fn rcode(&self, rcode: u8) -> Vec<u8> {
        let name_len = name::length(&self.message[HEADER_LEN..]).unwrap();
        let mut reply = self.message[..HEADER_LEN + name_len + QUESTION_FIXED_LEN].to_vec();
        put16(&mut reply, header::FLAGS, flag::QR | flag::RD | flag::RA | u16::from(rcode));
        put16(&mut reply, header::ARCOUNT, 0);
        reply
    }

    /// A response with `count` records of this TTL and of the type asked for, each with other data.
    pub(crate) fn addresses(&self, count: u16, ttl: u32) -> Vec<u8> {
        let mut reply = self.rcode(0);
        let qtype = be16(&reply, reply.len() - QUESTION_FIXED_LEN).unwrap();
        put16(&mut reply, header::ANCOUNT, count);
        for number in 0..count {
            reply.extend([0xc0, 12]);
            reply.extend(qtype.to_be_bytes());
            reply.extend([0, 1]);
            reply.extend(ttl.to_be_bytes());
            reply.extend(data_of(qtype, number));
        }
        reply
    }

    /// A response with one A record.
    pub(crate) fn address(&self) -> Vec<u8> {
        self.addresses(1, 300)
    }

    /// An NXDOMAIN whose SOA allows to keep it for this many seconds.
    pub(crate) fn nxdomain(&self, ttl: u32) -> Vec<u8> {
        let mut reply = self.rcode(3);
        put16(&mut reply, header::NSCOUNT, 1);
        reply.extend([0, 0, 6, 0, 1]);
        reply.extend(ttl.to_be_bytes());
        reply.extend([0, 22, 0, 0]);
        reply.extend([1, 2, 3, 4].map(u32::to_be_bytes).concat());
        reply.extend(ttl.to_be_bytes());
        reply
    }

    /// A response that says TC=1.
    pub(crate) fn truncated(&self) -> Vec<u8> {
        let mut reply = self.rcode(0);
        reply[2] |= 2;
        reply
    }
}

/// Data of a record of this type with its length: an address, or as much as an address.
fn data_of(qtype: u16, number: u16) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    match qtype {
        28 => [&[0, 16, 32, 1, 13, 184][..], &[0; 10], &[high, low]].concat(),
        2 | 5 | 12 | 39 => vec![0, 4, 2, b'a' + high, b'a' + low % 26, 0],
        16 => vec![0, 4, 3, 192, high, low],
        _ => vec![0, 4, 192, 0, high, low],
    }
}

/// What the stub sends.
#[derive(Clone, Debug)]
pub(crate) enum Send {
    /// From the port the query went to.
    Reply(Vec<u8>),
    /// From another port, as a forger would who does not know better.
    FromElsewhere(Vec<u8>),
}

/// What is wrong with a stub, or with the way to it; nothing at first.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// It takes queries and does not reply.
    pub(crate) dead: AtomicBool,
    /// How long a datagram takes to leave, in milliseconds.
    pub(crate) delay_ms: AtomicU64,
    /// Of so many datagrams one is lost; 0: none.
    pub(crate) lose_one_of: AtomicU64,
    /// Of two datagrams the later one leaves first; so do replies to queries that came over TCP together.
    pub(crate) reorder: AtomicBool,
    /// Datagrams say TC=1 and nothing else.
    pub(crate) truncate: AtomicBool,
    /// Before each datagram comes one that is not true.
    pub(crate) lie: AtomicBool,
    /// TCP connections from this port are not served any more.
    pub(crate) deaf_to: AtomicU64,
    /// After so many replies a TCP connection is closed; 0: never.
    pub(crate) close_after: AtomicU64,
}

/// A running stub; it ends when dropped.
pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    pub(crate) faults: Arc<Faults>,
    asked: Arc<Mutex<Vec<Asked>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Stub {
    /// A stub that replies to every query with what `script` says.
    pub(crate) fn replying(
        script: impl Fn(&Asked) -> Vec<u8> + Sync + std::marker::Send + 'static,
    ) -> Self {
        Self::start(Ipv4Addr::LOCALHOST.into(), move |asked| vec![Send::Reply(script(asked))])
    }

    /// The same, but it refuses connections.
    pub(crate) fn without_tcp(
        script: impl Fn(&Asked) -> Vec<u8> + Sync + std::marker::Send + 'static,
    ) -> Self {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        Self::serving(udp, None, move |asked| vec![Send::Reply(script(asked))])
    }

    /// A stub that receives and never replies.
    pub(crate) fn silent() -> Self {
        Self::start(Ipv4Addr::LOCALHOST.into(), |_| Vec::new())
    }

    /// A stub on an address of this machine that does what `script` says.
    pub(crate) fn start(
        address: IpAddr,
        script: impl Fn(&Asked) -> Vec<Send> + Sync + std::marker::Send + 'static,
    ) -> Self {
        let (udp, tcp) = bind(address);
        Self::serving(udp, Some(tcp), script)
    }

    fn serving(
        udp: UdpSocket,
        tcp: Option<TcpListener>,
        script: impl Fn(&Asked) -> Vec<Send> + Sync + std::marker::Send + 'static,
    ) -> Self {
        let stub_address = udp.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let faults: Arc<Faults> = Arc::default();
        let script = Arc::new(script);
        let record = {
            let asked = Arc::clone(&asked);
            move |query: &Asked| {
                asked.lock().unwrap().push(query.clone());
                script(query)
            }
        };
        let over_udp = {
            let (record, faults, stop) = (record.clone(), Arc::clone(&faults), Arc::clone(&stop));
            move || serve_udp(&udp, record, &faults, &stop)
        };
        let over_tcp = tcp.map(|tcp| {
            let (faults, stop) = (Arc::clone(&faults), Arc::clone(&stop));
            std::thread::spawn(move || serve_tcp(&tcp, record, &faults, &stop))
        });
        let threads = [std::thread::spawn(over_udp)].into_iter().chain(over_tcp).collect();
        Self { address: stub_address, faults, asked, stop, threads }
    }

    /// Every query so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the stub's script panicked");
        }
    }
}

fn bind(address: IpAddr) -> (UdpSocket, TcpListener) {
    for _ in 0..BIND_TRIES {
        let udp = UdpSocket::bind((address, 0)).unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
            return (udp, tcp);
        }
    }
    panic!("no port is free for UDP and TCP");
}

/// Datagrams that have not left yet.
#[derive(Default)]
struct Link {
    /// When each leaves; the first is not the earliest if the delay was lowered.
    waiting: Vec<(Instant, Send, SocketAddr)>,
    /// One that waits for a later one to pass it.
    passed: Option<(Send, SocketAddr)>,
    sent: u64,
}

impl Link {
    /// Takes a reply to `asked`, as the faults have it.
    fn take(&mut self, send: Send, asked: &Asked, faults: &Faults) {
        if faults.lie.load(Ordering::Relaxed) {
            let mut lie = asked.addresses(7, 300);
            lie[13] ^= 1;
            self.take_one(Send::Reply(lie), asked.from, faults);
        }
        let send = match faults.truncate.load(Ordering::Relaxed) {
            true => Send::Reply(asked.truncated()),
            false => send,
        };
        self.take_one(send, asked.from, faults);
    }

    fn take_one(&mut self, send: Send, to: SocketAddr, faults: &Faults) {
        self.sent += 1;
        let lose_one_of = faults.lose_one_of.load(Ordering::Relaxed);
        if lose_one_of > 0 && self.sent.is_multiple_of(lose_one_of) {
            return;
        }
        let leaves =
            Instant::now() + Duration::from_millis(faults.delay_ms.load(Ordering::Relaxed));
        let earlier = self.passed.take();
        if faults.reorder.load(Ordering::Relaxed) && earlier.is_none() {
            self.passed = Some((send, to));
        } else {
            self.waiting.push((leaves, send, to));
        }
        self.waiting.extend(earlier.map(|(send, to)| (leaves, send, to)));
    }

    /// Takes out what leaves now; if nothing comes any more, nothing is passed either.
    fn leave(&mut self, quiet: bool) -> Vec<(Send, SocketAddr)> {
        let now = Instant::now();
        let mut leaving = Vec::new();
        self.waiting.retain(|(leaves, send, to)| {
            if *leaves <= now {
                leaving.push((send.clone(), *to));
            }
            *leaves > now
        });
        if quiet {
            leaving.extend(self.passed.take());
        }
        leaving
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.passed.is_none()
    }
}

fn serve_udp(
    socket: &UdpSocket,
    script: impl Fn(&Asked) -> Vec<Send>,
    faults: &Faults,
    stop: &AtomicBool,
) {
    let elsewhere = UdpSocket::bind((socket.local_addr().unwrap().ip(), 0)).unwrap();
    let mut link = Link::default();
    let mut buffer = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        let wait = if link.is_empty() { POLL } else { SHORT_POLL };
        socket.set_read_timeout(Some(wait)).unwrap();
        let received = socket.recv_from(&mut buffer);
        if let Ok((len, from)) = received {
            let asked = Asked { message: buffer[..len].to_vec(), from, over_tcp: false };
            let sends = script(&asked);
            if !faults.dead.load(Ordering::Relaxed) {
                sends.into_iter().for_each(|send| link.take(send, &asked, faults));
            }
        }
        for (send, to) in link.leave(received.is_err()) {
            // The client may have gone; that is its affair.
            let _ = match send {
                Send::Reply(reply) => socket.send_to(&reply, to),
                Send::FromElsewhere(reply) => elsewhere.send_to(&reply, to),
            };
        }
    }
}

/// A client's connection.
struct Client {
    stream: TcpStream,
    from: SocketAddr,
    incoming: Vec<u8>,
    replies: u64,
}

impl Client {
    /// Takes in what has come; `false`: the client has gone.
    fn receive(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => return false,
            Ok(len) => self.incoming.extend(&bytes[..len]),
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
        true
    }

    /// The next whole query.
    fn query(&mut self) -> Option<Vec<u8>> {
        let end = 2 + usize::from(be16(&self.incoming, 0)?);
        (self.incoming.len() >= end).then(|| self.incoming.drain(..end).skip(2).collect())
    }

    /// Serves the queries that have come, and says whether to go on with this client.
    fn serve(&mut self, script: &impl Fn(&Asked) -> Vec<Send>, faults: &Faults) -> bool {
        if !self.receive() {
            return false;
        }
        let mut sends = Vec::new();
        while let Some(message) = self.query() {
            sends.extend(script(&Asked { message, from: self.from, over_tcp: true }));
        }
        if faults.reorder.load(Ordering::Relaxed) {
            sends.reverse();
        }
        for send in sends {
            let (Send::Reply(reply) | Send::FromElsewhere(reply)) = send;
            let message = [&(reply.len() as u16).to_be_bytes(), &*reply].concat();
            self.stream.set_nonblocking(false).unwrap();
            // The client may have gone.
            let sent = self.stream.write_all(&message);
            self.stream.set_nonblocking(true).unwrap();
            self.replies += 1;
            if sent.is_err() || self.replies == faults.close_after.load(Ordering::Relaxed) {
                return false;
            }
        }
        true
    }
}

fn serve_tcp(
    listener: &TcpListener,
    script: impl Fn(&Asked) -> Vec<Send>,
    faults: &Faults,
    stop: &AtomicBool,
) {
    listener.set_nonblocking(true).unwrap();
    let mut clients: Vec<Client> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(SHORT_POLL);
        // What is dead leaves connecting to its kernel.
        if faults.dead.load(Ordering::Relaxed) {
            continue;
        }
        while let Ok((stream, from)) = listener.accept() {
            stream.set_nonblocking(true).unwrap();
            clients.push(Client { stream, from, incoming: Vec::new(), replies: 0 });
        }
        let deaf_to = faults.deaf_to.load(Ordering::Relaxed);
        clients.retain_mut(|client| {
            u64::from(client.from.port()) == deaf_to || client.serve(&script, faults)
        });
    }
}
