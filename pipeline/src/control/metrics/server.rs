//! The HTTP endpoint: a thread of its own, away from the data cores, that asks the main thread for a report.
//!
//! It holds nothing of the engine: reports come over a channel, so it may end whenever it likes.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use core_affinity::CoreId;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use super::encode;
use crate::control::report::Report;

/// Connections served at a time; more wait in the kernel's backlog.
const CONNECTIONS: usize = 8;
/// How long a connection may last, and with it whatever a client may make us wait for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the main thread may take to give a report.
const REPORT_PATIENCE: Duration = Duration::from_secs(2);
/// The most bytes of a request's head.
const MAX_HEAD: usize = 16 << 10;
/// A pause after an accept that failed: too many open files, for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The endpoint cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The address cannot be listened at.
    #[error(
        "cannot serve metrics at {address}: {source}; set `metrics.listen` to an address of this machine \
         and a free port"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The thread cannot be started.
    #[error("cannot start the metrics thread: {0}")]
    Thread(io::Error),
}

/// An address that is listened at, but not served yet.
#[derive(Debug)]
pub struct MetricsListener {
    listener: TcpListener,
}

/// The running endpoint. Dropping it ends it.
pub struct MetricsServer {
    asked: mpsc::Receiver<oneshot::Sender<Report>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The way to ask the main thread for a report.
type Ask = mpsc::Sender<oneshot::Sender<Report>>;

impl MetricsListener {
    /// Listens at `address`. Clients that connect wait until it is served.
    pub fn bind(address: SocketAddr) -> Result<Self, MetricsError> {
        let listener = TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|source| MetricsError::Listen { address, source })?;
        Ok(Self { listener })
    }

    /// The address that is listened at.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves, on a thread pinned to the CPU `core` if one is given.
    pub fn serve(self, core: Option<usize>) -> Result<MetricsServer, MetricsError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(MetricsError::Thread)?;
        let (ask, asked) = mpsc::channel(CONNECTIONS);
        let (stop, stopped) = oneshot::channel();
        let body = move || {
            if let Some(id) = core
                && !core_affinity::set_for_current(CoreId { id })
            {
                tracing::warn!("cannot pin the metrics thread to core {id}; it runs where it may");
            }
            runtime.block_on(async {
                tokio::select! {
                    () = accept(self.listener, ask) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(body);
        let thread = Some(thread.map_err(MetricsError::Thread)?);
        Ok(MetricsServer { asked, stop: Some(stop), thread })
    }
}

impl MetricsServer {
    /// Gives a report to each client that has asked since the last call. Never waits.
    pub fn answer(&mut self, report: impl Fn() -> Report) {
        for _ in 0..CONNECTIONS {
            let Ok(client) = self.asked.try_recv() else { break };
            // A client that has gone away meanwhile needs none.
            let _ = client.send(report());
        }
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Takes connections in, [`CONNECTIONS`] at a time, for ever.
async fn accept(listener: TcpListener, ask: Ask) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("metrics cannot be served: {error}"),
    };
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&free).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((client, _)) => {
                let ask = ask.clone();
                tokio::spawn(async move {
                    if timeout(PATIENCE, serve(client, ask)).await.is_err() {
                        tracing::debug!("a metrics client took more than {PATIENCE:?}");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!("a metrics client was lost: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers one request of a connection and closes it.
async fn serve(client: TcpStream, ask: Ask) {
    let service = service_fn(|request| respond(request, ask.clone()));
    let served = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(client), service)
        .await;
    if let Err(error) = served {
        tracing::debug!("a metrics client went away: {error}");
    }
}

async fn respond(
    request: Request<Incoming>,
    ask: Ask,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let response = Response::builder();
    let response = if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let response = response.status(StatusCode::METHOD_NOT_ALLOWED).header(ALLOW, "GET, HEAD");
        response.body(text("only GET and HEAD are answered here\n"))
    } else if request.uri().path() != "/metrics" {
        response.status(StatusCode::NOT_FOUND).body(text("pmdns: the metrics are at /metrics\n"))
    } else {
        match timeout(REPORT_PATIENCE, report(ask)).await.ok().flatten() {
            Some(metrics) => response
                .header(CONTENT_TYPE, encode::CONTENT_TYPE)
                .body(Full::new(Bytes::from(metrics))),
            None => {
                let response = response.status(StatusCode::SERVICE_UNAVAILABLE);
                response.body(text("pmdns is starting or stopping\n"))
            }
        }
    };
    Ok(response.expect("every header above is a lawful one"))
}

/// The report as text; `None` if the main thread gives none any more.
async fn report(ask: Ask) -> Option<String> {
    let (give, given) = oneshot::channel();
    ask.send(give).await.ok()?;
    let report = given.await.ok()?;
    encode::encode(&report).ok()
}

fn text(text: &'static str) -> Full<Bytes> {
    Full::new(Bytes::from_static(text.as_bytes()))
}
