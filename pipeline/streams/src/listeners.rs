//! The sockets that clients come to, bound before privileges are given up.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use pmdns_config::Streams;
use socket2::{Domain, Socket, Type};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// An address cannot be listened at.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen at `streams.{transport}` {address}: {source}; write an address of this machine and a free port"
)]
pub struct ListenError {
    transport: &'static str,
    address: SocketAddr,
    source: io::Error,
}

/// Bound sockets, by transport.
#[derive(Debug, Default)]
pub struct Listeners {
    /// For TCP.
    pub tcp: Vec<TcpListener>,
    /// For TLS.
    pub tls: Vec<TcpListener>,
    /// For HTTPS.
    pub https: Vec<TcpListener>,
    /// For QUIC.
    pub quic: Vec<UdpSocket>,
}

impl Listeners {
    /// Binds every address of the settings.
    pub fn bind(settings: &Streams) -> Result<Self, ListenError> {
        let tcp = |transport, addresses: &[SocketAddr]| bind_all(transport, addresses, listen);
        Ok(Self {
            tcp: tcp("tcp", &settings.tcp)?,
            tls: tcp("tls", &settings.tls)?,
            https: tcp("https", &settings.https)?,
            quic: bind_all("quic", &settings.quic, |address| {
                Ok(socket(address, Type::DGRAM)?.into())
            })?,
        })
    }

    /// The sockets of one of the threads. All threads accept connections of each address, and one has the packets of QUIC.
    pub(crate) fn of_thread(&self, number: usize) -> io::Result<Self> {
        let share = |all: &[TcpListener]| -> io::Result<Vec<_>> {
            all.iter().map(TcpListener::try_clone).collect()
        };
        let quic = if number == 0 { &self.quic[..] } else { &[] };
        Ok(Self {
            tcp: share(&self.tcp)?,
            tls: share(&self.tls)?,
            https: share(&self.https)?,
            quic: quic.iter().map(UdpSocket::try_clone).collect::<io::Result<_>>()?,
        })
    }
}

fn bind_all<T>(
    transport: &'static str,
    addresses: &[SocketAddr],
    bind: impl Fn(SocketAddr) -> io::Result<T>,
) -> Result<Vec<T>, ListenError> {
    let bind = |address: &SocketAddr| {
        bind(*address).map_err(|source| ListenError { transport, address: *address, source })
    };
    addresses.iter().map(bind).collect()
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(address, Type::STREAM)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A socket bound to `address`, of its family only: an IPv4 client never looks like one of IPv6.
fn socket(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    // An address may come later, with the interface of a port or by an anycast announcement.
    match address {
        SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
        SocketAddr::V6(_) => {
            socket.set_only_v6(true)?;
            socket.set_freebind_v6(true)?;
        }
    }
    if kind == Type::STREAM {
        // A restart need not wait for connections of the previous process.
        socket.set_reuse_address(true)?;
    }
    socket.bind(&address.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_use_is_an_error_that_names_the_key() {
        let first = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = first.local_addr().unwrap();
        let settings = Streams { tls: vec![address], ..Streams::default() };
        let error = Listeners::bind(&settings).unwrap_err().to_string();
        let expected = format!("cannot listen at `streams.tls` {address}: ");
        assert!(error.starts_with(&expected), "{error}");
    }
}
