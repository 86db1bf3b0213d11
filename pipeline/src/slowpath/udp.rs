//! One query over UDP, from a socket of its own.
//!
//! A forger who cannot see our packets must guess (RFC 5452): the source port, drawn anew for every query
//! from all unprivileged ones, and the id, drawn by the caller. The socket is connected, so the kernel
//! discards what does not come from the upstream's address and port before we see it.
//!
//! One socket per query costs four system calls. This file is the only one that knows; an engine with
//! sockets opened ahead would replace it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::AtomicU64;

use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::counters::count;
use super::query::Query;

/// Ports below are for services (RFC 6056 section 3.2 allows all above).
const FIRST_PORT: u16 = 1024;
/// How many random ports are tried before the kernel may choose one.
const PORT_TRIES: u32 = 16;
/// The longest datagram taken in. Upstreams were told 1232; what is longer than this is cut off, does
/// not parse, and is asked for over TCP.
const MAX_DATAGRAM: usize = 4096;
/// Datagrams that do not match, for one query. More are an attack, and TCP ends it.
const MAX_MISMATCHED: u32 = 32;

/// How a query can end without a reply.
#[derive(Debug)]
pub(super) enum Lost {
    /// It was never sent: this machine has no socket for it.
    NotSent(io::Error),
    /// The network returned an error.
    Broken(io::Error),
    /// Too much came that was no reply to it.
    Flooded,
}

/// Sends `query` to `upstream`, from `source` if given, and waits for the reply to it. The caller limits
/// the time. Datagrams that do not match are counted, and the waiting goes on.
pub(super) async fn exchange(
    upstream: SocketAddr,
    source: Option<IpAddr>,
    query: &Query,
    mismatched: &AtomicU64,
) -> Result<Vec<u8>, Lost> {
    let socket = bind(source.unwrap_or_else(|| unspecified(upstream))).map_err(Lost::NotSent)?;
    socket.connect(upstream).await.map_err(Lost::Broken)?;
    socket.send(query.bytes()).await.map_err(Lost::Broken)?;
    for _ in 0..MAX_MISMATCHED {
        match receive(&socket, query).await.map_err(Lost::Broken)? {
            Some(reply) => return Ok(reply),
            None => count(mismatched),
        }
    }
    Err(Lost::Flooded)
}

/// Waits for a datagram; `None` if it is not the reply to `query`.
async fn receive(socket: &UdpSocket, query: &Query) -> io::Result<Option<Vec<u8>>> {
    loop {
        // "Connection refused" makes a socket erroneous, not readable.
        let ready = socket.ready(Interest::READABLE | Interest::ERROR).await?;
        if ready.is_error() {
            unless_would_block(socket.try_io(Interest::ERROR, || take_error(socket)))?;
        }
        // The buffer lives between two awaits only, so that waiting queries hold none.
        let mut buffer = [0; MAX_DATAGRAM];
        if let Some(len) = unless_would_block(socket.try_recv(&mut buffer))? {
            let reply = &buffer[..len];
            return Ok(query.is_answered_by(reply).then(|| reply.to_vec()));
        }
    }
}

/// The socket's error. Without one it "would block", which makes the runtime look again.
fn take_error(socket: &UdpSocket) -> io::Result<()> {
    Err(socket.take_error()?.unwrap_or_else(|| io::ErrorKind::WouldBlock.into()))
}

fn unless_would_block<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        result => result.map(Some),
    }
}

/// A socket on a random port.
fn bind(source: IpAddr) -> io::Result<UdpSocket> {
    for _ in 0..PORT_TRIES {
        let port = port_of(random()?);
        match std::net::UdpSocket::bind((source, port)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
            Ok(socket) => return into_tokio(socket),
        }
    }
    // Nearly all ports are taken. The kernel knows which are not, and its choice is random too.
    into_tokio(std::net::UdpSocket::bind((source, 0))?)
}

fn into_tokio(socket: std::net::UdpSocket) -> io::Result<UdpSocket> {
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

/// A port from [`FIRST_PORT`] to 65535, all equally likely.
fn port_of(random: u32) -> u16 {
    let ports = u64::from(u16::MAX - FIRST_PORT) + 1;
    FIRST_PORT + ((u64::from(random) * ports) >> 32) as u16
}

/// Four bytes that nobody can foretell.
pub(super) fn random() -> io::Result<u32> {
    getrandom::u32().map_err(|error| io::Error::other(error.to_string()))
}

/// The address that leaves the choice to the kernel.
pub(super) fn unspecified(upstream: SocketAddr) -> IpAddr {
    match upstream {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unprivileged_port_may_be_drawn_and_no_other() {
        assert_eq!(port_of(0), FIRST_PORT);
        assert_eq!(port_of(u32::MAX), u16::MAX);
        let mut seen = vec![false; 1 << 16];
        for step in 0..1 << 20 {
            seen[usize::from(port_of(step << 12))] = true;
        }
        assert!(seen[usize::from(FIRST_PORT)..].iter().all(|drawn| *drawn));
    }
}
