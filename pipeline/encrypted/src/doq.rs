//! DNS over QUIC (RFC 9250): each query on a stream of its own.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use pmdns_config::narrow::to_u16;
use pmdns_engine::slowpath::unspecified;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, RecvStream, SendStream, TransportConfig,
    VarInt,
};

use crate::query::{MAX_MESSAGE, QueryFailure};
use crate::trust::Settings;

/// Bytes of the length before a message (section 4.2).
const LENGTH_LEN: usize = 2;
/// DOQ_NO_ERROR: the client closes the connection normally (section 4.3).
const NO_ERROR: VarInt = VarInt::from_u32(0);
/// DOQ_REQUEST_CANCELLED: the client does not wait for the reply any more.
const REQUEST_CANCELLED: VarInt = VarInt::from_u32(3);

/// A connection, on a UDP port of its own.
pub(crate) struct Doq {
    /// Held, so that its socket stays open.
    _endpoint: Endpoint,
    connection: Connection,
}

/// The stream of a query under way.
struct Exchange {
    send: SendStream,
    receive: RecvStream,
    done: bool,
}

impl Doq {
    /// Connects to an address of the server.
    pub(crate) async fn open(settings: &Settings, to: SocketAddr) -> io::Result<Self> {
        let tls =
            QuicClientConfig::try_from(Arc::clone(&settings.tls)).map_err(io::Error::other)?;
        let mut transport = TransportConfig::default();
        // Servers open no streams (section 4.2).
        transport.max_concurrent_bidi_streams(VarInt::from_u32(0));
        transport.max_concurrent_uni_streams(VarInt::from_u32(0));
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(transport));
        let endpoint = Endpoint::client(SocketAddr::new(source(settings, to), 0))?;
        let connecting = endpoint
            .connect_with(config, to, &settings.name.to_string())
            .map_err(io::Error::other)?;
        let connection = connecting.await?;
        Ok(Self { _endpoint: endpoint, connection })
    }

    /// Sends a query and waits for its reply. Its id is 0 on the wire (section 4.2.1).
    pub(crate) async fn ask(&self, query: &[u8]) -> Result<Vec<u8>, QueryFailure> {
        let ended = |error: ConnectionError| QueryFailure::Ended(error.into());
        let (send, receive) = self.connection.open_bi().await.map_err(ended)?;
        let mut exchange = Exchange { send, receive, done: false };
        let reply = exchange.run(query).await;
        reply.map_err(|error| match self.connection.close_reason() {
            Some(reason) => QueryFailure::Ended(reason.into()),
            None => QueryFailure::Refused(error),
        })
    }

    /// Whether it has not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.connection.close_reason().is_none()
    }
}

impl Drop for Doq {
    fn drop(&mut self) {
        self.connection.close(NO_ERROR, b"");
    }
}

impl Exchange {
    /// One query, one reply, and the end of the stream after each.
    async fn run(&mut self, query: &[u8]) -> io::Result<Vec<u8>> {
        let message = [&to_u16(query.len()).to_be_bytes(), query].concat();
        self.send.write_all(&message).await?;
        self.send.finish().map_err(io::Error::other)?;
        let whole = self.receive.read_to_end(LENGTH_LEN + MAX_MESSAGE).await;
        let mut reply = whole.map_err(io::Error::other)?;
        self.done = true;
        let length = to_u16(reply.len().saturating_sub(LENGTH_LEN)).to_be_bytes();
        if !reply.starts_with(&length) {
            return Err(io::Error::other("a message of another length than it says"));
        }
        reply.drain(..LENGTH_LEN);
        Ok(reply)
    }
}

impl Drop for Exchange {
    /// Cancels the query at the server if the reply is not needed any more.
    fn drop(&mut self) {
        if !self.done {
            // Either direction may have ended already.
            let _ = self.send.reset(REQUEST_CANCELLED);
            let _ = self.receive.stop(REQUEST_CANCELLED);
        }
    }
}

/// The configured source address; otherwise the unspecified address, with which the kernel chooses.
fn source(settings: &Settings, to: SocketAddr) -> IpAddr {
    settings.source.unwrap_or_else(|| unspecified(to))
}
