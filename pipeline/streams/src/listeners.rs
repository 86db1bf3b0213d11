//! The sockets that clients come to, bound before privileges are given up.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};

use pmdns_config::Streams;
use socket2::{Domain, Socket, Type};

use crate::quic_steering::{QuicGeneration, QuicSteering};

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
    /// Which of the processes that follow each other has them.
    pub generation: QuicGeneration,
}

impl Listeners {
    /// Binds every address of the settings, unless `inherited` has its socket from another process: by its key and address. That
    /// process keeps its own socket for QUIC, whose packets [are steered](Self::quic_steering).
    pub fn bind(
        settings: &Streams,
        inherited: &mut dyn FnMut(&str, SocketAddr) -> Option<OwnedFd>,
        generation: QuicGeneration,
    ) -> Result<Self, ListenError> {
        let mut tcp = |transport, addresses: &[SocketAddr]| {
            bind_all(transport, addresses, |address| match inherited(transport, address) {
                Some(socket) => Ok(socket.into()),
                None => Ok(open(address, Type::STREAM)?.into()),
            })
        };
        Ok(Self {
            tcp: tcp("tcp", &settings.tcp)?,
            tls: tcp("tls", &settings.tls)?,
            https: tcp("https", &settings.https)?,
            quic: bind_all("quic", &settings.quic, |address| open_quic(address, generation))?,
            generation,
        })
    }

    /// The addresses of the settings at which nobody can listen now, with their keys and the reasons. All are opened as
    /// [`Listeners::bind`] does it, and closed again.
    pub fn refused(settings: &Streams) -> Vec<(String, SocketAddr, io::Error)> {
        let Streams { tcp, tls, https, quic, .. } = settings;
        // Two addresses of ours may be in each other's way, so all are held.
        let (mut held, mut refused) = (Vec::new(), Vec::new());
        for (transport, kind, addresses) in [
            ("tcp", Type::STREAM, tcp),
            ("tls", Type::STREAM, tls),
            ("https", Type::STREAM, https),
            ("quic", Type::DGRAM, quic),
        ] {
            for (place, address) in addresses.iter().enumerate() {
                match open(*address, kind) {
                    Ok(socket) => held.push(socket),
                    Err(why) => {
                        refused.push((format!("streams.{transport}[{place}]"), *address, why));
                    }
                }
            }
        }
        refused
    }

    /// Copies of the sockets for connections, with the address that the settings have for each.
    pub fn copies(
        &self,
        settings: &Streams,
    ) -> io::Result<Vec<(&'static str, SocketAddr, OwnedFd)>> {
        let of = |transport, addresses: &[SocketAddr], sockets: &[TcpListener]| {
            let copy = |(address, socket): (&SocketAddr, &TcpListener)| {
                Ok((transport, *address, socket.as_fd().try_clone_to_owned()?))
            };
            addresses.iter().zip(sockets).map(copy).collect::<io::Result<Vec<_>>>()
        };
        let mut copies = of("tcp", &settings.tcp, &self.tcp)?;
        copies.extend(of("tls", &settings.tls, &self.tls)?);
        copies.extend(of("https", &settings.https, &self.https)?);
        Ok(copies)
    }

    /// What decides which of two processes gets the packets of QUIC.
    pub fn quic_steering(&self) -> io::Result<QuicSteering> {
        let copies = self.quic.iter().map(UdpSocket::try_clone);
        Ok(QuicSteering::new(copies.collect::<io::Result<_>>()?, self.generation))
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
            generation: self.generation,
        })
    }
}

/// A copy of a socket to accept connections with. `None`: there is none, and the log says why.
pub(crate) fn copy(socket: &TcpListener) -> Option<TcpListener> {
    let failed = |error| tracing::error!("a socket of streams cannot be served: {error}");
    socket.try_clone().map_err(failed).ok()
}

fn bind_all<T>(
    transport: &'static str,
    addresses: &[SocketAddr],
    mut bind: impl FnMut(SocketAddr) -> io::Result<T>,
) -> Result<Vec<T>, ListenError> {
    let bind = |address: &SocketAddr| {
        bind(*address).map_err(|source| ListenError { transport, address: *address, source })
    };
    addresses.iter().map(bind).collect()
}

/// A socket for QUIC, beside which the next process can have one. Nobody else has one there, but for the process before.
fn open_quic(address: SocketAddr, generation: QuicGeneration) -> io::Result<UdpSocket> {
    if !generation.is_beside {
        open(address, Type::DGRAM)?;
    }
    Ok(open_as(address, Type::DGRAM, true)?.into())
}

/// A socket bound to `address`, of its family only: an IPv4 client never looks like one of IPv6. One for connections listens.
fn open(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    open_as(address, kind, false)
}

/// The same. `is_shared`: beside others of this user that are shared, too.
fn open_as(address: SocketAddr, kind: Type, is_shared: bool) -> io::Result<Socket> {
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
    socket.set_reuse_port(is_shared)?;
    socket.bind(&address.into())?;
    if kind == Type::STREAM {
        socket.listen(BACKLOG)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_use_is_an_error_that_names_the_key() {
        let first = open("127.0.0.1:0".parse().unwrap(), Type::STREAM).unwrap();
        let address = first.local_addr().unwrap().as_socket().unwrap();
        let settings = Streams { tls: vec![address], ..Streams::default() };
        let error = Listeners::bind(&settings, &mut |_, _| None, QuicGeneration::default())
            .unwrap_err()
            .to_string();
        let expected = format!("cannot listen at `streams.tls` {address}: ");
        assert!(error.starts_with(&expected), "{error}");
        let refused = Listeners::refused(&settings);
        assert_eq!(refused.len(), 1);
        assert_eq!((&*refused[0].0, refused[0].1), ("streams.tls[0]", address));
    }

    #[test]
    fn what_is_refused_at_a_start_is_known_before_and_nothing_else_is() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let _other = UdpSocket::bind(taken).unwrap();
        let port = taken.port();
        let at = |text: &str| vec![format!("{text}:{port}").parse().unwrap()];
        // Addresses for documentation (RFC 5737, RFC 3849): that of a TAP may come later.
        for (settings, keys) in [
            (Streams { quic: at("127.0.0.1"), ..Streams::default() }, &["streams.quic[0]"][..]),
            (Streams { quic: at("192.0.2.1"), tcp: at("192.0.2.1"), ..Streams::default() }, &[]),
            (Streams { https: at("[2001:db8::1]"), ..Streams::default() }, &[]),
            (
                Streams { tcp: [at("0.0.0.0"), at("127.0.0.2")].concat(), ..Streams::default() },
                &["streams.tcp[1]"],
            ),
        ] {
            let refused = Listeners::refused(&settings);
            let found: Vec<_> = refused.iter().map(|(key, ..)| &**key).collect();
            assert_eq!(found, keys);
            assert_eq!(
                Listeners::bind(&settings, &mut |_, _| None, QuicGeneration::default()).is_err(),
                !keys.is_empty(),
                "as at a start"
            );
        }
    }
}
