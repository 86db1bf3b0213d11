//! The servers of encrypted transports: they make a connection secure, and give it to the code of its protocol.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use pmdns_config::Streams;
use pmdns_counters::count;
use pmdns_nics::stream::Transport;
use quinn::{ConnectionError, Endpoint, Incoming, Runtime as _, TokioRuntime};
use rustls::ServerConfig;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::client::Client;
use crate::https::Site;
use crate::listeners::{Listeners, copy};
use crate::places::ConnectionPlace;
use crate::quic_socket::{CountingSocket, Handshakes};
use crate::quic_steering::QuicGeneration;
use crate::service::Service;
use crate::tcp::accept;
use crate::tls::{Certificate, CertificateError, DOT, H2, HTTP_1_1};
use crate::written::BufferedStream;
use crate::{doq, framing, https};

/// How long the bytes to an address are counted after its handshake has failed.
const LINGER: Duration = Duration::from_millis(100);

/// How long connections over QUIC may take to be closed.
const FAREWELL: Duration = Duration::from_millis(100);

/// How often the files of the certificate are looked at.
const REFRESH: Duration = Duration::from_secs(5);

/// The needs of the encrypted transports. Cheap to clone.
#[derive(Clone)]
pub struct Encryption {
    certificate: Certificate,
    tls: Arc<ServerConfig>,
    https: Arc<ServerConfig>,
    site: Site,
}

impl Encryption {
    /// The encryption by `settings`; `None`: no transport is encrypted.
    ///
    /// # Errors
    ///
    /// The certificate or its key cannot be used. The error names the key of the configuration, and what to change.
    pub fn load(settings: &Streams) -> Result<Option<Self>, CertificateError> {
        let (Some(certificate), Some(key), true) =
            (&settings.certificate, &settings.key, settings.are_encrypted())
        else {
            return Ok(None);
        };
        let certificate = Certificate::load("streams", certificate, key)?;
        let tls = Arc::new(certificate.server(&[DOT])?);
        let https = Arc::new(certificate.server(&[H2, HTTP_1_1])?);
        let site = Site { path: settings.https_path.as_str().into() };
        Ok(Some(Self { certificate, tls, https, site }))
    }

    /// The certificate that clients get.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Uses the files again when they have changed, for ever. Old connections keep what they have.
    pub(crate) async fn keep_fresh(self) {
        loop {
            sleep(REFRESH).await;
            match self.certificate.refresh() {
                Ok(false) => {}
                Ok(true) => tracing::info!("new connections get the changed certificate"),
                Err(error) => tracing::warn!("the certificate in use stays: {error}"),
            }
        }
    }

    /// Begins to accept connections of all encrypted transports.
    pub(crate) fn accept(
        &self,
        listeners: &Listeners,
        service: &Service,
        accepting: &mut JoinSet<()>,
    ) {
        for listener in listeners.tls.iter().filter_map(copy) {
            accepting.spawn(self.clone().serve_tls(listener, service.clone()));
        }
        for listener in listeners.https.iter().filter_map(copy) {
            accepting.spawn(self.clone().serve_https(listener, service.clone()));
        }
    }

    /// Begins to serve clients over QUIC. An endpoint has the packets of all of its connections, so nothing ends it before them.
    pub(crate) fn begin_quic(&self, listeners: &Listeners, service: &Service) -> QuicEndpoints {
        let serve = |socket| self.serve_quic(socket, listeners.generation, service.clone());
        let begin = |socket: &UdpSocket| {
            let failed = |error| tracing::error!("streams over quic cannot be served: {error}");
            socket.try_clone().and_then(serve).map_err(failed).ok()
        };
        QuicEndpoints(listeners.quic.iter().filter_map(begin).collect())
    }

    /// Serves clients over TLS, for ever.
    async fn serve_tls(self, listener: TcpListener, service: Service) {
        accept(listener, Transport::Tls, service, move |stream, client, place, service| {
            secure(Arc::clone(&self.tls), stream, client, place, service)
        })
        .await;
    }

    /// Serves clients over HTTPS, for ever.
    async fn serve_https(self, listener: TcpListener, service: Service) {
        accept(listener, Transport::Https, service, move |stream, client, place, service| {
            let (tls, site) = (Arc::clone(&self.https), self.site.clone());
            async move {
                if let Some(stream) = handshake(tls, stream, Transport::Https, &service).await {
                    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(H2);
                    let client = Client::new(client, &place, service);
                    https::serve(stream, is_http2, &site, &client).await;
                }
                drop(place);
            }
        })
        .await;
    }

    /// Serves clients over QUIC, for ever. One endpoint has all packets of its socket.
    fn serve_quic(
        &self,
        socket: UdpSocket,
        generation: QuicGeneration,
        service: Service,
    ) -> io::Result<Endpoint> {
        let handshakes = Handshakes::default();
        let config = doq::config(&self.certificate, &service.limits).map_err(io::Error::other)?;
        let ours = doq::endpoint_config(&self.certificate, socket.local_addr()?, generation)?;
        let runtime = Arc::new(TokioRuntime);
        let socket = runtime.wrap_udp_socket(socket)?;
        let socket = CountingSocket::new(socket, handshakes.clone());
        let endpoint = Endpoint::new_with_abstract_socket(ours, Some(config), socket, runtime)?;
        let accepting = endpoint.clone();
        tokio::spawn(async move {
            while let Some(incoming) = accepting.accept().await {
                take(incoming, &service, &handshakes);
            }
        });
        Ok(endpoint)
    }
}

/// The endpoints of clients over QUIC.
pub(crate) struct QuicEndpoints(Vec<Endpoint>);

impl QuicEndpoints {
    /// Closes all connections. A client learns of it by one packet, so it need not wait for an answer that will not come.
    pub(crate) async fn close(self) {
        self.0.iter().for_each(|endpoint| endpoint.close(doq::NO_ERROR, b""));
        let closed = async {
            for endpoint in &self.0 {
                endpoint.wait_idle().await;
            }
        };
        // They wait for what comes late, which is nothing to us.
        let _ = timeout(FAREWELL, closed).await;
    }
}

/// Gives a new QUIC connection a place. While places are few, in all or for its prefix, its client first has to show that it is
/// at its address (RFC 9000 section 8.1.2). A forged address would take a place of somebody else's prefix.
fn take(incoming: Incoming, service: &Service, handshakes: &Handshakes) {
    let address = incoming.remote_address();
    if !service.access.admits(address) {
        count(&service.counters.of(Transport::Quic).denied);
        // An answer would go to an address that may be forged.
        return incoming.ignore();
    }
    if !incoming.remote_address_validated() && service.places.are_few_for(address) {
        // It can be asked to, as it is not validated.
        let _ = incoming.retry();
        return;
    }
    let Some((place, mut lost)) = service.places.enter(address, Transport::Quic) else {
        return incoming.refuse();
    };
    let service = service.clone();
    let handshake = (!incoming.remote_address_validated()).then(|| handshakes.begin(address));
    tokio::spawn(async move {
        let connecting = async { incoming.accept()?.await };
        let connecting = service.places.in_time(service.limits.io_timeout, connecting);
        let connected = tokio::select! {
            connected = connecting => connected,
            _ = &mut lost => Some(Err(ConnectionError::LocallyClosed)),
        };
        match connected {
            Some(Ok(connection)) => {
                drop(handshake);
                let client = Client::new(address, &place, service);
                return doq::serve(connection, &client, lost).await;
            }
            Some(Err(error)) => tracing::debug!("a connection over quic was lost: {error}"),
            None => count(&service.counters.of(Transport::Quic).slow_queries),
        }
        drop(place);
        // The end of the connection is sent to an address that is not believed either.
        sleep(LINGER).await;
    });
}

/// Makes a connection secure. `None`: that failed, or took too long.
async fn handshake(
    tls: Arc<ServerConfig>,
    stream: TcpStream,
    transport: Transport,
    service: &Service,
) -> Option<TlsStream<TcpStream>> {
    let handshake = TlsAcceptor::from(tls).accept(stream);
    match service.places.in_time(service.limits.io_timeout, handshake).await {
        Some(Ok(stream)) => return Some(stream),
        Some(Err(error)) => tracing::debug!("no handshake over {}: {error}", transport.name()),
        None => count(&service.counters.of(transport).slow_queries),
    }
    None
}

/// Serves a connection with DNS over TLS (RFC 7858): the same messages as over TCP.
async fn secure(
    tls: Arc<ServerConfig>,
    stream: TcpStream,
    client: SocketAddr,
    place: ConnectionPlace,
    service: Service,
) {
    let stream = handshake(tls, stream, Transport::Tls, &service).await;
    let Some(mut stream) = stream.map(BufferedStream::new) else { return };
    framing::serve(&mut stream, client, &place, &service).await;
    // The client sees by it that nothing was cut off (RFC 8446 section 6.1).
    drop(timeout(service.limits.io_timeout, stream.shutdown()).await);
}

#[cfg(test)]
mod tests;
