//! DNS over QUIC (RFC 9250): each query on a stream of its own.

use std::hash::Hasher as _;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pmdns_config::narrow::to_u32;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Connection, ConnectionId, ConnectionIdGenerator, EndpointConfig, IdleTimeout, RecvStream,
    SendStream, ServerConfig, TransportConfig, VarInt,
};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use siphasher::sip::SipHasher24;
use tokio::time::timeout;

use crate::answer::LENGTH;
use crate::client::{AnswerPart, Client, ConnectionEnd, Unanswered};
use crate::framing::MAX_QUERY;
use crate::places::Lost;
use crate::quic_steering::{MARK, QuicGeneration};
use crate::service::ConnectionLimits;
use crate::tls::{Certificate, CertificateError, DOQ};

/// Error codes (section 4.3).
pub(crate) const NO_ERROR: VarInt = VarInt::from_u32(0);
const INTERNAL_ERROR: VarInt = VarInt::from_u32(1);
const PROTOCOL_ERROR: VarInt = VarInt::from_u32(2);
const EXCESSIVE_LOAD: VarInt = VarInt::from_u32(4);
const UNSPECIFIED_ERROR: VarInt = VarInt::from_u32(5);

/// Bytes of our ids of connections.
const ID: usize = MARK + 8;

/// Bytes that a client may send ahead, on each stream and on all.
const STREAM_WINDOW: u32 = 8 << 10;
const CONNECTION_WINDOW: u32 = 64 << 10;
/// Connections that wait for us to look at them, and the bytes that they may have sent so far, each and together.
const MAX_INCOMING: usize = 1024;
const MAX_INCOMING_BYTES: u64 = 16 << 10;
const MAX_INCOMING_BYTES_IN_ALL: u64 = 1 << 20;
/// Bytes of a handshake that came out of order.
const MAX_CRYPTO_BYTES: usize = 16 << 10;

/// How an endpoint treats its connections.
pub(crate) fn config(
    certificate: &Certificate,
    limits: &ConnectionLimits,
) -> Result<ServerConfig, CertificateError> {
    let tls = certificate.server(&[DOQ])?;
    let tls =
        QuicServerConfig::try_from(tls).expect("the provider has the suite that QUIC begins with");
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(to_u32(limits.max_queries_in_flight)))
        // Only clients open streams, and all are for a query and its answer (section 4.2).
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .send_window(limits.max_buffered_bytes as u64)
        .crypto_buffer_size(MAX_CRYPTO_BYTES)
        .max_idle_timeout(IdleTimeout::try_from(limits.idle_timeout).ok())
        .datagram_receive_buffer_size(None);
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    config
        .transport_config(Arc::new(transport))
        // A connection keeps the address that its place was given to.
        .migration(false)
        .max_incoming(MAX_INCOMING)
        .incoming_buffer_size(MAX_INCOMING_BYTES)
        .incoming_buffer_size_total(MAX_INCOMING_BYTES_IN_ALL);
    Ok(config)
}

/// How the endpoint at an address names its connections, and resets those that it does not know (RFC 9000 section 10.3). Every
/// process that has the same private key can do so there. Elsewhere nobody learns what resets a connection (section 21.11).
pub(crate) fn endpoint_config(
    certificate: &Certificate,
    address: SocketAddr,
    generation: QuicGeneration,
) -> io::Result<EndpointConfig> {
    let mut secret = [0; 16];
    let none = |_| io::Error::other("the system gives no random numbers");
    SystemRandom::new().fill(&mut secret).map_err(none)?;
    let of_this = hmac::sign(certificate.reset_key(), address.to_string().as_bytes());
    let key = hmac::Key::new(hmac::HMAC_SHA256, of_this.as_ref());
    let mut config = EndpointConfig::new(Arc::new(key));
    config.cid_generator(move || Box::new(MarkedIds { mark: generation.mark(), secret, count: 0 }));
    Ok(config)
}

/// Ids of connections. They say which process has chosen them, and nobody else can tell the next one.
struct MarkedIds {
    mark: [u8; MARK],
    secret: [u8; 16],
    count: u64,
}

impl ConnectionIdGenerator for MarkedIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut hasher = SipHasher24::new_with_key(&self.secret);
        hasher.write_u64(self.count);
        self.count += 1;
        let mut id = [0; ID];
        id[..MARK].copy_from_slice(&self.mark);
        id[MARK..].copy_from_slice(&hasher.finish().to_ne_bytes());
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        ID
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// Serves the queries of a connection until it ends.
pub(crate) async fn serve(connection: Connection, client: &Arc<Client>, lost: Lost) {
    let (mut end, mut lost) = (std::pin::pin!(client.end()), lost);
    let code = loop {
        tokio::select! {
            stream = connection.accept_bi() => {
                let Ok((send, receive)) = stream else { return };
                let exchange = Exchange { connection: connection.clone(), client: Arc::clone(client), send };
                tokio::spawn(exchange.run(receive));
            }
            _ = &mut lost => break EXCESSIVE_LOAD,
            end = &mut end => break if end == ConnectionEnd::SlowReader { EXCESSIVE_LOAD } else { NO_ERROR },
        }
    };
    connection.close(code, b"");
}

/// One query and its answer.
struct Exchange {
    connection: Connection,
    client: Arc<Client>,
    send: SendStream,
}

impl Exchange {
    async fn run(mut self, mut receive: RecvStream) {
        let whole = receive.read_to_end(LENGTH + MAX_QUERY);
        let whole = match timeout(self.client.service.limits.io_timeout, whole).await {
            Ok(Ok(whole)) => whole,
            // The client has reset the stream or lost the connection, so nobody waits.
            Ok(Err(quinn::ReadToEndError::Read(_))) => return,
            // The library keeps no more, so there is nothing to answer.
            Ok(Err(quinn::ReadToEndError::TooLong)) => {
                let _ = receive.stop(EXCESSIVE_LOAD);
                return self.reset(EXCESSIVE_LOAD);
            }
            Err(_) => {
                // Either direction may have ended already.
                let _ = receive.stop(UNSPECIFIED_ERROR);
                return self.reset(UNSPECIFIED_ERROR);
            }
        };
        let Some(query) = query(&whole) else { return self.close() };
        let stopped = self.send.stopped();
        let answer = tokio::select! {
            answer = self.client.ask(query) => answer,
            // The client has cancelled the query (section 4.2.1), which is forgotten.
            _ = stopped => return,
        };
        match answer {
            // The line has read the options.
            Ok(answer) if answer.has_keepalive() => self.close(),
            Ok(answer) => match self.client.send(answer, AnswerPart::Framed) {
                Some(answer) => self.answer(answer).await,
                None => self.reset(EXCESSIVE_LOAD),
            },
            Err(Unanswered::Malformed) => self.close(),
            Err(Unanswered::Full) => self.reset(EXCESSIVE_LOAD),
            Err(Unanswered::Dropped) => self.reset(INTERNAL_ERROR),
        }
    }

    async fn answer(&mut self, answer: Bytes) {
        // An error means that the client has stopped the stream, or that the connection has ended.
        if self.send.write_chunk(answer).await.is_ok() {
            let _ = self.send.finish();
        }
    }

    fn reset(&mut self, code: VarInt) {
        let _ = self.send.reset(code);
    }

    /// Ends the connection, because the client does not keep to the protocol (section 4.3.3).
    fn close(&self) {
        self.connection.close(PROTOCOL_ERROR, b"");
    }
}

/// The one message on a stream, unless the client broke a rule of sections 4.2 or 4.2.1.
fn query(whole: &[u8]) -> Option<&[u8]> {
    let (length, query) = whole.split_first_chunk::<LENGTH>()?;
    let is_whole = usize::from(u16::from_be_bytes(*length)) == query.len();
    let has_id = !query.starts_with(&[0, 0]);
    (is_whole && !has_id).then_some(query)
}

#[cfg(test)]
mod tests;
