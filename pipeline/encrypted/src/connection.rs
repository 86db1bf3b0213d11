//! One encrypted connection, over TLS, HTTPS or QUIC.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;

use pmdns_config::{Host, Protocol};
use rustls::pki_types::ServerName;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::doh::Doh;
use crate::doq::Doq;
use crate::dot::Dot;
use crate::query::QueryFailure;
use crate::trust::{Settings, alpn};

/// A connection.
pub(crate) struct EncryptedConnection {
    spoken: Spoken,
    /// When a query was last sent.
    pub(crate) used: Cell<Instant>,
    /// When it was opened, or last brought a reply.
    pub(crate) heard: Cell<Instant>,
    /// Whether it has ever brought a reply.
    pub(crate) has_replied: Cell<bool>,
}

/// The protocol over it.
enum Spoken {
    Dot(Dot),
    Doh(Doh),
    Doq(Doq),
}

impl EncryptedConnection {
    /// Opens a connection to an address of the server.
    pub(crate) async fn open(settings: &Settings, to: SocketAddr) -> io::Result<Self> {
        let spoken = match &settings.server.protocol {
            Protocol::Tls => Spoken::Dot(Dot::new(tls(settings, to).await?)),
            Protocol::Https(path) => {
                let stream = tls(settings, to).await?;
                Spoken::Doh(Doh::open(stream, settings, path).await?)
            }
            Protocol::Quic => Spoken::Doq(Doq::open(settings, to).await?),
        };
        let (used, heard) = (Cell::new(Instant::now()), Cell::new(Instant::now()));
        Ok(Self { spoken, used, heard, has_replied: Cell::new(false) })
    }

    /// Sends a query with id 0, and waits for its reply, which has id 0 as well. Many queries may be under way at once.
    pub(crate) async fn ask(&self, query: &[u8]) -> Result<Vec<u8>, QueryFailure> {
        self.used.set(Instant::now());
        let reply = match &self.spoken {
            Spoken::Dot(dot) => dot.ask(query).await,
            Spoken::Doh(doh) => doh.ask(query).await,
            Spoken::Doq(doq) => doq.ask(query).await,
        }?;
        self.heard.set(Instant::now());
        self.has_replied.set(true);
        Ok(reply)
    }

    /// Whether a query may be sent. The connection may have ended without a sign; then sending fails.
    pub(crate) fn is_open(&self) -> bool {
        match &self.spoken {
            Spoken::Dot(dot) => dot.is_open(),
            Spoken::Doh(doh) => doh.is_open(),
            Spoken::Doq(doq) => doq.is_open(),
        }
    }
}

/// A TLS connection over TCP.
async fn tls(settings: &Settings, to: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if let Some(source) = settings.source {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    let name = match &settings.name {
        Host::Address(address) => ServerName::from(*address),
        Host::Name(name) => ServerName::try_from(name.to_string()).map_err(io::Error::other)?,
    };
    let stream = TlsConnector::from(settings.tls.clone()).connect(name, stream).await?;
    // A server without ALPN may still be used for DNS over TLS, but not for HTTP/2.
    let wanted = alpn(&settings.server.protocol);
    let chosen = stream.get_ref().1.alpn_protocol();
    let is_needed = matches!(settings.server.protocol, Protocol::Https(_));
    if is_needed && chosen != Some(wanted) {
        return Err(io::Error::other("the server does not offer HTTP/2 (ALPN h2)"));
    }
    Ok(stream)
}
