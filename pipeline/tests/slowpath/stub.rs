//! An upstream of a test: real sockets on loopback, UDP and TCP on the same port, and a script that says
//! what to reply.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use pmdns_stages::wire::dns::{HEADER_LEN, QUESTION_FIXED_LEN, flag, header};
use pmdns_stages::wire::{be16, name, put16};

/// How long a stub waits before it looks whether the test is over.
const POLL: Duration = Duration::from_millis(10);
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

    /// A response with this rcode and nothing but the question.
    pub(crate) fn rcode(&self, rcode: u8) -> Vec<u8> {
        let name_len = name::length(&self.message[HEADER_LEN..]).unwrap();
        let mut reply = self.message[..HEADER_LEN + name_len + QUESTION_FIXED_LEN].to_vec();
        put16(&mut reply, header::FLAGS, flag::QR | flag::RD | flag::RA | u16::from(rcode));
        put16(&mut reply, header::ARCOUNT, 0);
        reply
    }

    /// A response with `count` records of this TTL, each an address, whatever the type asked for.
    pub(crate) fn addresses(&self, count: u16, ttl: u32) -> Vec<u8> {
        let mut reply = self.rcode(0);
        let qtype = be16(&reply, reply.len() - QUESTION_FIXED_LEN).unwrap();
        put16(&mut reply, header::ANCOUNT, count);
        for number in 0..count {
            reply.extend([0xc0, 12]);
            reply.extend(qtype.to_be_bytes());
            reply.extend([0, 1]);
            reply.extend(ttl.to_be_bytes());
            reply.extend([0, 4, 192, 0]);
            reply.extend(number.to_be_bytes());
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

/// What the stub sends.
#[derive(Clone, Debug)]
pub(crate) enum Send {
    /// From the port the query went to.
    Reply(Vec<u8>),
    /// From another port, as a forger would who does not know better.
    FromElsewhere(Vec<u8>),
}

/// A running stub; it ends when dropped.
pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
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
        let stub_address = udp.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let script = Arc::new(script);
        let record = {
            let asked = Arc::clone(&asked);
            move |query: &Asked| {
                asked.lock().unwrap().push(query.clone());
                script(query)
            }
        };
        let over_udp = {
            let (record, stop) = (record.clone(), Arc::clone(&stop));
            move || serve_udp(&udp, record, &stop)
        };
        let over_tcp = {
            let stop = Arc::clone(&stop);
            move || serve_tcp(&tcp, record, &stop)
        };
        let threads = vec![std::thread::spawn(over_udp), std::thread::spawn(over_tcp)];
        Self { address: stub_address, asked, stop, threads }
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

fn serve_udp(socket: &UdpSocket, script: impl Fn(&Asked) -> Vec<Send>, stop: &AtomicBool) {
    let elsewhere = UdpSocket::bind((socket.local_addr().unwrap().ip(), 0)).unwrap();
    socket.set_read_timeout(Some(POLL)).unwrap();
    let mut buffer = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
        let asked = Asked { message: buffer[..len].to_vec(), from, over_tcp: false };
        for send in script(&asked) {
            // The client may have gone; that is its affair.
            let _ = match send {
                Send::Reply(reply) => socket.send_to(&reply, from),
                Send::FromElsewhere(reply) => elsewhere.send_to(&reply, from),
            };
        }
    }
}

fn serve_tcp(listener: &TcpListener, script: impl Fn(&Asked) -> Vec<Send>, stop: &AtomicBool) {
    listener.set_nonblocking(true).unwrap();
    while !stop.load(Ordering::Relaxed) {
        let Ok((mut stream, from)) = listener.accept() else {
            std::thread::sleep(POLL);
            continue;
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut message).unwrap();
        for send in script(&Asked { message, from, over_tcp: true }) {
            let (Send::Reply(reply) | Send::FromElsewhere(reply)) = send;
            stream.write_all(&(reply.len() as u16).to_be_bytes()).unwrap();
            stream.write_all(&reply).unwrap();
        }
    }
}
