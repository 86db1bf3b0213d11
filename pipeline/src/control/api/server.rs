//! Connections of the API. Each has a place ([`crate::admission`]), bounds and deadlines.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use pmdns_control::api::{Admitted, Peer, Router, respond};
use pmdns_streams::tls::Certificate;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::admission::{Bounds, Gate, Pass, peer_of};
use crate::control::socket::{ControlSocket, may_ask};

/// Connections at a time, in all and of one address or user.
pub(super) const BOUNDS: Bounds =
    Bounds { places: 64, per_peer: 32, grace: Duration::from_secs(10) };
/// How long a handshake may take.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(5);
/// How long a request's head may take to come, and a connection without a request may last.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may last in all. The longest call has to end within it.
const PATIENCE: Duration = Duration::from_secs(600);
/// The most bytes of a request's head.
const MAX_HEAD: usize = 16 << 10;
/// The most headers of a request.
const MAX_HEADERS: usize = 64;
/// A pause after an accept that failed: too many open files, for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often the certificate's files are looked at.
const REFRESH: Duration = Duration::from_secs(10);

/// The socket that is listened at.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) tcp: Option<TcpListener>,
    pub(super) unix: Option<ControlSocket>,
    pub(super) tls: Option<(Certificate, Arc<rustls::ServerConfig>)>,
}

/// Accepts connections, for ever.
pub(super) async fn serve(serving: Serving, router: Router, gate: Gate<Peer>) {
    let Serving { tcp, unix, tls } = serving;
    let (certificate, config) = tls.unzip();
    let acceptor = config.map(TlsAcceptor::from);
    let over_tcp = async {
        match tcp {
            Some(listener) => accept(listener, acceptor, &router, &gate).await,
            None => std::future::pending().await,
        }
    };
    let over_unix = async {
        match &unix {
            Some(socket) => accept_users(socket, &router, &gate).await,
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
    router: &Router,
    gate: &Gate<Peer>,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("the API cannot be served over TCP: {error}"),
    };
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let _ = stream.set_nodelay(true);
                let (peer, router) = (Peer::Address(address.ip()), router.clone());
                let place = Peer::Address(peer_of(address.ip()));
                let acceptor = acceptor.clone();
                enter(gate, place, |pass| async move {
                    encrypt(stream, acceptor, peer, pass, router).await;
                });
            }
            Err(error) => {
                tracing::debug!("a client of the API was lost: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
        // A request that has arrived already is read before the next connection can take its place.
        tokio::task::yield_now().await;
    }
}

async fn accept_users(socket: &ControlSocket, router: &Router, gate: &Gate<Peer>) {
    let listener = socket.listener.try_clone().and_then(UnixListener::from_std);
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("the API's socket cannot be served: {error}"),
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => enter_user(stream, socket.has_group, router, gate),
            Err(error) => {
                tracing::debug!("a client of the API was lost: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
        tokio::task::yield_now().await;
    }
}

fn enter_user(stream: UnixStream, has_group: bool, router: &Router, gate: &Gate<Peer>) {
    let user = match stream.peer_cred() {
        Ok(peer) => peer.uid(),
        Err(error) => return tracing::debug!("a client of the API went away: {error}"),
    };
    if !may_ask(user, rustix::process::geteuid().as_raw(), has_group) {
        gate.refuse();
        return tracing::warn!("api: user {user} is refused");
    }
    let (peer, router) = (Peer::User(user), router.clone());
    enter(gate, peer, |pass| {
        pass.vouch();
        converse(stream, peer, pass, router)
    });
}

/// Serves a connection for which there is a place.
fn enter<F>(gate: &Gate<Peer>, place: Peer, serve: impl FnOnce(Pass<Peer>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let Some((pass, told_to_go)) = gate.enter(place) else { return };
    let served = timeout(PATIENCE, serve(pass));
    tokio::spawn(async move {
        tokio::select! {
            served = served => if served.is_err() {
                tracing::debug!("a client of the API took more than {PATIENCE:?}");
            },
            _ = told_to_go => tracing::debug!("a client of the API lost its place to another"),
        }
    });
}

async fn encrypt(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    peer: Peer,
    pass: Pass<Peer>,
    router: Router,
) {
    let Some(acceptor) = acceptor else { return converse(stream, peer, pass, router).await };
    match timeout(HANDSHAKE_PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => converse(stream, peer, pass, router).await,
        Ok(Err(error)) => tracing::debug!("a client of the API failed its handshake: {error}"),
        Err(_) => tracing::debug!(
            "a client of the API took more than {HANDSHAKE_PATIENCE:?} for its handshake"
        ),
    }
}

/// Answers the requests of a connection, one after another.
async fn converse<S>(stream: S, peer: Peer, pass: Pass<Peer>, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let pass = &pass;
    let admitted = Admitted::new(pass.voucher());
    let service = service_fn(|mut request: hyper::Request<_>| {
        let router = router.clone();
        request.extensions_mut().insert(admitted.clone());
        async move {
            pass.waits();
            let response = respond(router, peer, request).await;
            pass.reads();
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!("a client of the API went away: {error}");
    }
}
