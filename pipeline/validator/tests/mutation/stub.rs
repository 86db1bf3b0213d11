//! A server on the loopback interface that answers from the hierarchy, but for what it is told to say instead.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use pmdns_hierarchy::message::flag;
use pmdns_hierarchy::{Name, World};

use crate::drive::Forged;

/// How long it waits for a query before it looks whether it is to end.
const PATIENCE: Duration = Duration::from_millis(50);

/// The server; it ends when it is dropped.
pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    pub(crate) forged: Arc<Mutex<Vec<Forged>>>,
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Stub {
    pub(crate) fn start() -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        let udp = UdpSocket::bind(address).unwrap();
        let (forged, ends): (Arc<Mutex<Vec<Forged>>>, Arc<AtomicBool>) = Default::default();
        let (told, over) = (Arc::clone(&forged), Arc::clone(&ends));
        let datagrams = std::thread::spawn(move || serve_udp(&udp, &told, &over));
        let (told, over) = (Arc::clone(&forged), Arc::clone(&ends));
        let connections = std::thread::spawn(move || serve_tcp(&tcp, &told, &over));
        Self { address, forged, ends, threads: vec![datagrams, connections] }
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn serve_udp(socket: &UdpSocket, forged: &Mutex<Vec<Forged>>, ends: &AtomicBool) {
    let world = World::new();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut query = [0; 4096];
    while !ends.load(Ordering::Relaxed) {
        let Ok((len, client)) = socket.recv_from(&mut query) else { continue };
        let Some(mut reply) = answer(&world, &query[..len], forged) else { continue };
        if reply.len() > 1232 {
            reply = truncated(&reply);
        }
        let _ = socket.send_to(&reply, client);
    }
}

fn serve_tcp(listener: &TcpListener, forged: &Mutex<Vec<Forged>>, ends: &AtomicBool) {
    let world = World::new();
    listener.set_nonblocking(true).unwrap();
    while !ends.load(Ordering::Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut len = [0; 2];
        // One query a connection is all that is answered.
        if stream.read_exact(&mut len).is_err() {
            continue;
        }
        let mut query = vec![0; usize::from(u16::from_be_bytes(len))];
        if stream.read_exact(&mut query).is_err() {
            continue;
        }
        if let Some(reply) = answer(&world, &query, forged) {
            let len = (reply.len() as u16).to_be_bytes();
            let _ = stream.write_all(&[&len[..], &reply].concat());
        }
    }
}

/// The reply to a query; none for what is no query.
fn answer(world: &World, query: &[u8], forged: &Mutex<Vec<Forged>>) -> Option<Vec<u8>> {
    let (name, end) = Name::parse(query, 12)?;
    let qtype = u16::from_be_bytes([*query.get(end)?, *query.get(end + 1)?]);
    let told = forged.lock().unwrap();
    let found = told.iter().find(|((of, rtype), _)| (of, *rtype) == (&name, qtype));
    let mut reply = match found {
        Some((_, reply)) => reply.clone()?,
        None => world.reply(&name, qtype).message.to_bytes(),
    };
    reply[..2].copy_from_slice(&query[..2]);
    // With the letters of the query.
    reply[12..end].copy_from_slice(&query[12..end]);
    Some(reply)
}

fn truncated(reply: &[u8]) -> Vec<u8> {
    let (_, end) = Name::parse(reply, 12).unwrap();
    let mut short = reply[..end + 4].to_vec();
    short[2] |= (flag::TC >> 8) as u8;
    short[6..12].fill(0);
    short
}
