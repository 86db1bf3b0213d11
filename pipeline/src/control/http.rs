//! Connections over HTTP: those of the control socket, of the API and of metrics. Each has a place ([`crate::admission`]), bounds
//! and deadlines.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use pmdns_control::api::{Admitted, Peer};
use pmdns_streams::tls::Certificate;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::socket::ControlSocket;
use crate::admission::{Gate, Pass, peer_of};

/// How long a handshake may take.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(5);
/// The most bytes of a request's head.
const MAX_HEAD: usize = 16 << 10;
/// The most headers of a request.
const MAX_HEADERS: usize = 64;
/// A pause after an accept that failed: too many open files, for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often the certificate's files are looked at.
const REFRESH: Duration = Duration::from_secs(10);

/// The answer to a user who may not ask.
const DENIED: &str =
    r#"{"type":"about:blank","title":"Forbidden","status":403,"detail":"permission denied"}"#;
/// Users who are told so at a time, and how long each has to ask. Others are not told.
static DENIALS: Semaphore = Semaphore::const_new(8);
const DENIAL: Duration = Duration::from_secs(1);
/// How long a connection of a user of this machine may last: who may ask there may watch packets for an hour.
const USERS_PATIENCE: Duration = Duration::from_secs(3660);

/// How a service serves its connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Its name, for the log.
    pub(crate) service: &'static str,
    /// How long a request's head may take to come, and a connection without a request may last.
    pub(crate) head: Duration,
    /// How long a connection over TCP may last in all.
    pub(crate) connection: Duration,
    /// Whether further requests may come over a connection.
    pub(crate) keeps_alive: bool,
}

/// The sockets that are listened at.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    pub(crate) tcp: Option<TcpListener>,
    pub(crate) unix: Option<ControlSocket>,
    pub(crate) tls: Option<(Certificate, Arc<rustls::ServerConfig>)>,
}

/// What answers requests. Each connection has a clone.
pub(crate) trait Respond: Clone + Send + Sync + 'static {
    /// The body of an answer.
    type Body: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + 'static;

    /// The answer to a request of `peer`.
    fn respond(
        self,
        peer: Peer,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

/// Accepts connections, for ever.
pub(crate) async fn serve(
    listening: Listening,
    respond: impl Respond,
    terms: Terms,
    gate: Gate<Peer>,
) {
    let Listening { tcp, unix, tls } = listening;
    let (certificate, config) = tls.unzip();
    let acceptor = config.map(TlsAcceptor::from);
    let over_tcp = async {
        match tcp {
            Some(listener) => accept(listener, acceptor, &respond, terms, &gate).await,
            None => std::future::pending().await,
        }
    };
    let over_unix = async {
        match &unix {
            Some(socket) => accept_users(socket, &respond, terms, &gate).await,
            None => std::future::pending().await,
        }
    };
    let fresh = async {
        match &certificate {
            Some(certificate) => keep_fresh(certificate).await,
            None => std::future::pending().await,
        }
    };
    tokio::join!(over_tcp, over_unix, fresh);
}

async fn keep_fresh(certificate: &Certificate) {
    loop {
        sleep(REFRESH).await;
        match certificate.refresh() {
            Ok(false) => {}
            Ok(true) => tracing::info!("new connections to the API get the changed certificate"),
            Err(error) => tracing::warn!("the API's certificate in use stays: {error}"),
        }
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    respond: &impl Respond,
    terms: Terms,
    gate: &Gate<Peer>,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            return tracing::error!("{} cannot be served over TCP: {error}", terms.service);
        }
    };
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let _ = stream.set_nodelay(true);
                let place = Peer::Address(peer_of(address.ip()));
                if let Some((pass, told_to_go)) = gate.enter(place) {
                    let peer = Peer::Address(address.ip());
                    let client = Client { peer, pass, respond: respond.clone(), terms };
                    run(client.encrypt(stream, acceptor.clone()), told_to_go, terms);
                }
            }
            Err(error) => lose(&error, terms).await,
        }
        // A request that has arrived already is read before the next connection can take its place.
        tokio::task::yield_now().await;
    }
}

async fn accept_users(
    socket: &ControlSocket,
    respond: &impl Respond,
    terms: Terms,
    gate: &Gate<Peer>,
) {
    let listener = socket.listener.try_clone().and_then(UnixListener::from_std);
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => {
            return tracing::error!("{} cannot be served at its socket: {error}", terms.service);
        }
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => enter_user(stream, socket.has_group, respond, terms, gate),
            Err(error) => lose(&error, terms).await,
        }
        tokio::task::yield_now().await;
    }
}

/// A connection could not be accepted.
async fn lose(error: &io::Error, Terms { service, .. }: Terms) {
    tracing::debug!("a client of {service} was lost: {error}");
    sleep(ACCEPT_PAUSE).await;
}

fn enter_user(
    stream: UnixStream,
    has_group: bool,
    respond: &impl Respond,
    terms: Terms,
    gate: &Gate<Peer>,
) {
    let (user, process) = match stream.peer_cred() {
        Ok(peer) => (peer.uid(), peer.pid().unwrap_or(0)),
        Err(error) => return tracing::debug!("a client of {} went away: {error}", terms.service),
    };
    if !may_ask(user, rustix::process::geteuid().as_raw(), has_group) {
        gate.refuse();
        tracing::warn!("{}: user {user} (process {process}) is refused", terms.service);
        if let Ok(place) = DENIALS.try_acquire() {
            tokio::spawn(async move {
                deny(stream).await;
                drop(place);
            });
        }
        return;
    }
    let peer = Peer::User(user);
    if let Some((pass, told_to_go)) = gate.enter(peer) {
        pass.vouch();
        let terms = Terms { connection: USERS_PATIENCE, ..terms };
        let client = Client { peer, pass, respond: respond.clone(), terms };
        run(client.converse(stream), told_to_go, terms);
    }
}

/// Says that it is refused, once it has asked: to a client nothing before that is an answer. Then it may end the connection, for
/// what it still sends would be an error to it, which comes before the answer.
async fn deny(mut stream: UnixStream) {
    let kind = "content-type: application/problem+json\r\nconnection: close";
    let head = format!("HTTP/1.1 403 Forbidden\r\n{kind}\r\ncontent-length: {}", DENIED.len());
    let mut request = [0; 1024];
    let told = async {
        if stream.read(&mut request).await? > 0 {
            stream.write_all(format!("{head}\r\n\r\n{DENIED}").as_bytes()).await?;
        }
        while stream.read(&mut request).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = timeout(DENIAL, told).await;
}

/// Root and the instance's own user may always ask. Others may if a group is configured, because the kernel lets only
/// its members connect.
fn may_ask(user: u32, own: u32, has_group: bool) -> bool {
    user == 0 || user == own || has_group
}

/// Serves a connection until it ends, or has to go.
fn run(
    served: impl Future<Output = ()> + Send + 'static,
    told_to_go: oneshot::Receiver<()>,
    Terms { service, connection, .. }: Terms,
) {
    let served = timeout(connection, served);
    tokio::spawn(async move {
        tokio::select! {
            served = served => if served.is_err() {
                tracing::debug!("a client of {service} took more than {connection:?}");
            },
            _ = told_to_go => tracing::debug!("a client of {service} lost its place to another"),
        }
    });
}

/// A client that has a place.
struct Client<R> {
    peer: Peer,
    pass: Pass<Peer>,
    respond: R,
    terms: Terms,
}

impl<R: Respond> Client<R> {
    async fn encrypt(self, stream: TcpStream, acceptor: Option<TlsAcceptor>) {
        let Some(acceptor) = acceptor else { return self.converse(stream).await };
        let service = self.terms.service;
        match timeout(HANDSHAKE_PATIENCE, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => self.converse(stream).await,
            Ok(Err(error)) => {
                tracing::debug!("a client of {service} failed its handshake: {error}")
            }
            Err(_) => tracing::debug!(
                "a client of {service} took more than {HANDSHAKE_PATIENCE:?} for its handshake"
            ),
        }
    }

    /// Answers the requests of a connection, one after another.
    async fn converse<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self { peer, pass, respond, terms } = self;
        let pass = &pass;
        let admitted = Admitted::new(pass.voucher());
        let service = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(admitted.clone());
            let respond = respond.clone();
            async move {
                pass.waits();
                let response = respond.respond(peer, request).await;
                pass.reads();
                Ok::<_, Infallible>(response)
            }
        });
        let served = http1::Builder::new()
            .keep_alive(terms.keeps_alive)
            .timer(TokioTimer::new())
            .header_read_timeout(terms.head)
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_HEADERS)
            .serve_connection(TokioIo::new(stream), service)
            .await;
        if let Err(error) = served {
            tracing::debug!("a client of {} went away: {error}", terms.service);
        }
    }
}

#[cfg(test)]
mod tests {
    use pmdns_control::Call;
    use pmdns_control::client::{ApiClient, ClientError};

    use super::*;

    #[test]
    fn who_may_not_ask_is_told_so() {
        let name = format!("pmdns-denied-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(async { UnixListener::bind(&path) }).unwrap();
        let denying = std::thread::spawn(move || {
            runtime.block_on(async { deny(listener.accept().await.unwrap().0).await });
        });
        let asked = ApiClient::at_socket(&path).ask(&Call::Stats);
        denying.join().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(asked, Err(ClientError::Denied(_))), "{asked:?}");
    }

    #[test]
    fn audit_12_who_may_ask() {
        assert!(may_ask(0, 1000, false) && may_ask(1000, 1000, false));
        assert!(!may_ask(1001, 1000, false), "whatever the file's mode has become");
        assert!(may_ask(1001, 1000, true), "the file's group has let it in");
    }
}
