//! An upstream of a test: real sockets on loopback, UDP and TCP on the same port, and a script that says what to reply.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use pmdns_config::narrow::to_u16;
use pmdns_stages::wire::be16;

pub(crate) use super::rig::Asked;

/// How long a stub waits before it looks whether the test is over.
const POLL: Duration = Duration::from_millis(10);
/// How long it waits before it looks at its connections again.
const SHORT_POLL: Duration = Duration::from_millis(1);
/// How often a stub looks for a port that is free for UDP and TCP.
const BIND_TRIES: usize = 100;

/// What the stub sends.
#[derive(Clone, Debug)]
pub(crate) enum Send {
    /// From the port the query went to.
    Reply(Vec<u8>),
    /// From another port, as a forger would who does not know better.
    FromElsewhere(Vec<u8>),
    /// The end of the connection, if there is one.
    Close,
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
        let over_tcp = tcp.map(|tcp| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || serve_tcp(&tcp, record, &stop))
        });
        let threads = [std::thread::spawn(over_udp)].into_iter().chain(over_tcp).collect();
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

/// An address at which nobody listens: its port was free a moment ago, and nobody else here asks for a particular one.
pub(crate) fn unused(address: IpAddr) -> SocketAddr {
    UdpSocket::bind((address, 0)).unwrap().local_addr().unwrap()
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
    let mut buffer = [0; 2048];
    socket.set_read_timeout(Some(POLL)).unwrap();
    while !stop.load(Ordering::Relaxed) {
        let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
        let asked = Asked { message: buffer[..len].to_vec(), from, over_tcp: false };
        for send in script(&asked) {
            // The client may have gone; that is its affair.
            let _ = match send {
                Send::Reply(reply) => socket.send_to(&reply, from),
                Send::FromElsewhere(reply) => elsewhere.send_to(&reply, from),
                Send::Close => Ok(0),
            };
        }
    }
}

/// A client's connection.
struct Client {
    stream: TcpStream,
    from: SocketAddr,
    incoming: Vec<u8>,
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
    fn serve(&mut self, script: &impl Fn(&Asked) -> Vec<Send>) -> bool {
        if !self.receive() {
            return false;
        }
        let mut sends = Vec::new();
        while let Some(message) = self.query() {
            sends.extend(script(&Asked { message, from: self.from, over_tcp: true }));
        }
        for send in sends {
            let (Send::Reply(reply) | Send::FromElsewhere(reply)) = send else { return false };
            let message = [&to_u16(reply.len()).to_be_bytes(), &*reply].concat();
            self.stream.set_nonblocking(false).unwrap();
            // The client may have gone.
            let sent = self.stream.write_all(&message);
            self.stream.set_nonblocking(true).unwrap();
            if sent.is_err() {
                return false;
            }
        }
        true
    }
}

fn serve_tcp(listener: &TcpListener, script: impl Fn(&Asked) -> Vec<Send>, stop: &AtomicBool) {
    listener.set_nonblocking(true).unwrap();
    let mut clients: Vec<Client> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(SHORT_POLL);
        while let Ok((stream, from)) = listener.accept() {
            stream.set_nonblocking(true).unwrap();
            clients.push(Client { stream, from, incoming: Vec::new() });
        }
        clients.retain_mut(|client| client.serve(&script));
    }
}
