//! An encrypted upstream of a test: the libraries' servers on loopback, with certificates made for the test.

mod identity;

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pmdns_config::{Pin, Upstream};
use quinn::crypto::rustls::QuicServerConfig;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, Notify, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::rig::upstream;
use crate::stub::Asked;
use identity::{Authority, Identity, tls};

/// The name every server's certificate is for, beside 127.0.0.1.
pub(crate) const NAME: &str = "dns.example";

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tls,
    Https,
    Quic,
}

/// How a server behaves.
#[derive(Clone)]
pub(crate) struct Manners {
    pub(crate) kind: Kind,
    /// Replies to nobody before so many ask at once.
    pub(crate) at_once: usize,
    /// Closes each connection after so many replies.
    pub(crate) closes_after: usize,
    /// The ALPN it chooses; none: it does not know of ALPN.
    pub(crate) alpn: Option<&'static [u8]>,
    /// The HTTP status of its responses.
    pub(crate) status: StatusCode,
    /// Fields of the header of its responses over HTTPS.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// Over HTTPS, the queries whose stream it resets instead of a response.
    pub(crate) resets: fn(&[u8]) -> bool,
}

/// What a server has seen.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicUsize,
    /// Those of them that have ended.
    pub(crate) ended: AtomicUsize,
    /// Sessions that were resumed.
    pub(crate) resumed: AtomicUsize,
    pub(crate) asked: Mutex<Vec<Asked>>,
}

/// A running server; it ends when dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
    pub(crate) authority: Authority,
    manners: Manners,
    pin: Pin,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What a server says to a query; nothing if it keeps silent.
type Script = dyn Fn(&Asked) -> Option<Vec<u8>> + Send + Sync;

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Tls, Self::Https, Self::Quic];

    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Https => "https",
            Self::Quic => "quic",
        }
    }
}

impl Manners {
    /// A server as it should be.
    pub(crate) fn good(kind: Kind) -> Self {
        let alpn: &[u8] = match kind {
            Kind::Tls => b"dot",
            Kind::Https => b"h2",
            Kind::Quic => b"doq",
        };
        let status = StatusCode::OK;
        Self {
            kind,
            at_once: 1,
            closes_after: usize::MAX,
            alpn: Some(alpn),
            status,
            headers: &[("content-type", MEDIA_TYPE)],
            resets: |_| false,
        }
    }
}

impl Server {
    /// A good server that replies to every query with one address.
    pub(crate) fn good(kind: Kind) -> Self {
        Self::start(Manners::good(kind), |asked| Some(asked.address()))
    }

    /// A server that says what `script` says.
    pub(crate) fn start(
        manners: Manners,
        script: impl Fn(&Asked) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let seen: Arc<Seen> = Arc::default();
        let Identity { authority, certificate, key, pin } = Identity::new();
        let tls = tls(&manners, certificate, key, &seen);
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let house = House {
            manners: manners.clone(),
            seen: Arc::clone(&seen),
            barrier: Arc::new(Barrier::new(manners.at_once)),
            script: Arc::new(script),
        };
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    () = house.open(tls, tell) => {}
                    _ = stopped => {}
                }
            });
        });
        let address = told.recv().unwrap();
        let (stop, thread) = (Some(stop), Some(thread));
        Self { address, seen, authority, manners, pin, stop, thread }
    }

    /// How many connections it has had.
    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::Relaxed)
    }

    /// How many of them resumed a session.
    pub(crate) fn resumed(&self) -> usize {
        self.seen.resumed.load(Ordering::Relaxed)
    }

    /// Every query so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.seen.asked.lock().unwrap().clone()
    }

    /// The server as an upstream of which nothing is known but where it is.
    pub(crate) fn unknown(&self) -> Upstream {
        let (scheme, address) = (self.manners.kind.scheme(), self.address);
        upstream(format!("{scheme}://{address}").parse().unwrap())
    }

    /// The server as an upstream whose certificate's name and root are known.
    pub(crate) fn known(&self) -> Upstream {
        Upstream {
            name: Some(NAME.parse().unwrap()),
            ca_file: Some(self.authority.path().to_owned()),
            ..self.unknown()
        }
    }

    /// The server as an upstream whose key is known.
    pub(crate) fn pinned(&self) -> Upstream {
        Upstream { pin: vec![self.pin], ..self.unknown() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
    }
}

/// What all connections of a server share.
#[derive(Clone)]
struct House {
    manners: Manners,
    seen: Arc<Seen>,
    barrier: Arc<Barrier>,
    script: Arc<Script>,
}

impl House {
    /// Listens, says where, and serves for ever.
    async fn open(self, tls: Arc<ServerConfig>, tell: std::sync::mpsc::Sender<SocketAddr>) {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut guests = JoinSet::new();
        if self.manners.kind == Kind::Quic {
            let crypto = QuicServerConfig::try_from(tls).unwrap();
            let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
            let endpoint = quinn::Endpoint::server(config, any).unwrap();
            tell.send(endpoint.local_addr().unwrap()).unwrap();
            while let Some(incoming) = endpoint.accept().await {
                guests.spawn(self.clone().serve_quic(incoming));
            }
            return;
        }
        let listener = TcpListener::bind(any).await.unwrap();
        tell.send(listener.local_addr().unwrap()).unwrap();
        let acceptor = TlsAcceptor::from(tls);
        loop {
            let (stream, from) = listener.accept().await.unwrap();
            guests.spawn(self.clone().serve_tcp(acceptor.clone(), stream, from));
        }
    }

    /// The reply to a query; silence never ends.
    async fn reply(&self, message: Vec<u8>, from: SocketAddr) -> Vec<u8> {
        let asked = Asked { message, from, over_tcp: true };
        self.seen.asked.lock().unwrap().push(asked.clone());
        self.barrier.wait().await;
        match (self.script)(&asked) {
            Some(reply) => reply,
            None => std::future::pending().await,
        }
    }

    /// Clients may go when they like; that is their affair.
    async fn serve_tcp(self, acceptor: TlsAcceptor, stream: TcpStream, from: SocketAddr) {
        let Ok(stream) = acceptor.accept(stream).await else { return };
        self.seen.connections.fetch_add(1, Ordering::Relaxed);
        let _ = match self.manners.kind {
            Kind::Https => self.clone().serve_https(stream, from).await,
            _ => self.clone().serve_tls(stream, from).await,
        };
        self.seen.ended.fetch_add(1, Ordering::Relaxed);
    }

    async fn serve_tls(
        self,
        stream: tokio_rustls::server::TlsStream<TcpStream>,
        from: SocketAddr,
    ) -> io::Result<()> {
        let (mut reading, mut writing) = tokio::io::split(stream);
        let (sender, mut replies) = mpsc::channel::<Vec<u8>>(4096);
        let house = self.clone();
        let mut asking = JoinSet::new();
        let read = async move {
            loop {
                let mut message = vec![0; usize::from(reading.read_u16().await?)];
                reading.read_exact(&mut message).await?;
                let (house, sender) = (house.clone(), sender.clone());
                asking.spawn(async move {
                    let _ = sender.send(house.reply(message, from).await).await;
                });
            }
        };
        let write = async move {
            for _ in 0..self.manners.closes_after {
                let Some(reply) = replies.recv().await else { break };
                writing.write_u16(reply.len() as u16).await?;
                writing.write_all(&reply).await?;
                writing.flush().await?;
            }
            writing.shutdown().await
        };
        either(read, write).await
    }

    async fn serve_https(
        self,
        stream: tokio_rustls::server::TlsStream<TcpStream>,
        from: SocketAddr,
    ) -> io::Result<()> {
        let (replies, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let closing = Arc::clone(&enough);
        let service = service_fn(move |request: Request<Incoming>| {
            let house = self.clone();
            let (replies, enough) = (Arc::clone(&replies), Arc::clone(&enough));
            async move {
                let well_formed = request.method() == Method::POST
                    && request.uri().path() == "/dns-query"
                    && request.uri().host() == Some(NAME)
                    && request.headers().get(HOST).is_none()
                    && request.headers().get("accept").is_some_and(|it| it == MEDIA_TYPE)
                    && request.headers().get(CONTENT_TYPE).is_some_and(|it| it == MEDIA_TYPE);
                let query = request
                    .into_body()
                    .collect()
                    .await
                    .map_err(io::Error::other)?
                    .to_bytes()
                    .to_vec();
                if (house.manners.resets)(&query) {
                    return Err(io::Error::other("reset"));
                }
                let reply = house.reply(query, from).await;
                if replies.fetch_add(1, Ordering::Relaxed) + 1 == house.manners.closes_after {
                    enough.notify_one();
                }
                let status =
                    if well_formed { house.manners.status } else { StatusCode::BAD_REQUEST };
                let mut response = Response::builder().status(status);
                for (name, value) in house.manners.headers {
                    response = response.header(*name, *value);
                }
                Ok(response.body(Full::new(Bytes::from(reply))).unwrap())
            }
        });
        let connection = http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(io::Error::other),
            () = closing.notified() => connection.as_mut().graceful_shutdown(),
        }
        connection.await.map_err(io::Error::other)
    }

    async fn serve_quic(self, incoming: quinn::Incoming) {
        let Ok(connection) = incoming.await else { return };
        self.seen.connections.fetch_add(1, Ordering::Relaxed);
        let mut asking = JoinSet::new();
        let replies = Arc::new(AtomicUsize::new(0));
        while let Ok((mut send, mut receive)) = connection.accept_bi().await {
            let (house, replies, connection) =
                (self.clone(), Arc::clone(&replies), connection.clone());
            asking.spawn(async move {
                let Ok(message) = receive.read_to_end(1 << 16).await else { return };
                assert_eq!(
                    usize::from(u16::from_be_bytes([message[0], message[1]])),
                    message.len() - 2
                );
                let reply = house.reply(message[2..].to_vec(), connection.remote_address()).await;
                let whole = [&(reply.len() as u16).to_be_bytes(), &*reply].concat();
                let _ = send.write_all(&whole).await;
                let _ = send.finish();
                // Until the client has it all.
                let _ = send.stopped().await;
                if replies.fetch_add(1, Ordering::Relaxed) + 1 == house.manners.closes_after {
                    connection.close(0_u32.into(), b"");
                }
            });
        }
        self.seen.ended.fetch_add(1, Ordering::Relaxed);
    }
}

const MEDIA_TYPE: &str = "application/dns-message";

/// Runs both until the first has ended.
async fn either(
    one: impl Future<Output = io::Result<()>>,
    other: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    tokio::select! {
        ended = one => ended,
        ended = other => ended,
    }
}
