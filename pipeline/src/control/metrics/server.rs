//! The HTTP endpoint. It has a thread of its own, away from the data cores, which asks the main thread for reports.
//!
//! It holds no part of the engine. Reports come over a channel, so the thread may end at any time.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, VARY};
use hyper::{Method, Request, Response, StatusCode};
use pmdns_control::api::Peer;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::plain::wants_openmetrics;
use super::{encode, plain};
use crate::admission::{Bounds, ConnectionSnapshot};
use crate::control::http::{Listening, Respond, Terms, serve};
use crate::health::NodeVerdict;
use crate::service::{Service, listen};
use crate::sockets::OpenSockets;
use pmdns_control::report::Report;

/// Connections at a time, in all and of one address.
const BOUNDS: Bounds = Bounds { places: 64, per_peer: 16, grace: Duration::from_secs(1) };
/// The key of its address.
pub(crate) const KEY: &str = "metrics.listen";
/// Connections that wait to be taken in.
const BACKLOG: i32 = 1024;
/// Requests that wait for the main thread, which takes them all at once.
const MAX_REQUESTS: usize = 64;
/// Each connection has one request.
const TERMS: Terms = Terms {
    service: "metrics",
    head: Duration::from_secs(2),
    connection: Duration::from_secs(5),
    keeps_alive: false,
};
/// How long the main thread may take to give a report.
const REPORT_PATIENCE: Duration = Duration::from_secs(2);

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

/// A bound address that is not served yet.
#[derive(Debug)]
pub struct MetricsListener {
    listener: TcpListener,
}

/// The running endpoint. Dropping it ends it.
pub struct MetricsServer {
    asked: mpsc::Receiver<oneshot::Sender<Arc<Report>>>,
    service: Service,
}

/// How a report becomes text.
type Encode = fn(&Report) -> Result<String, fmt::Error>;
/// The way to ask the main thread for a report.
type Ask = mpsc::Sender<oneshot::Sender<Arc<Report>>>;

impl MetricsListener {
    /// Listens at `address`. Clients that connect wait until it is served.
    pub fn bind(address: SocketAddr) -> Result<Self, MetricsError> {
        let listener =
            listen(address, BACKLOG).map_err(|source| MetricsError::Listen { address, source })?;
        Ok(Self { listener })
    }

    /// The same, unless its socket is open already.
    pub fn open(address: SocketAddr, sockets: &mut OpenSockets) -> Result<Self, MetricsError> {
        match sockets.take(KEY, address) {
            Some(socket) => Ok(Self { listener: socket.into() }),
            None => Self::bind(address),
        }
    }

    /// Adds a copy of its socket.
    #[cfg_attr(
        not(feature = "dpdk"),
        allow(dead_code, reason = "without ports nothing is handed over")
    )]
    pub(crate) fn copy(&self, address: SocketAddr, copies: &mut OpenSockets) -> io::Result<()> {
        copies.add(KEY, address, self.listener.as_fd().try_clone_to_owned()?);
        Ok(())
    }

    /// The address that is listened at.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves, on a thread pinned to the CPU `core` if one is given.
    pub fn serve(self, core: Option<usize>) -> Result<MetricsServer, MetricsError> {
        let (ask, asked) = mpsc::channel(MAX_REQUESTS);
        let listening = Listening { tcp: Some(self.listener), ..Listening::default() };
        let serve = |gate| serve(listening, Metrics { ask }, TERMS, gate);
        let service = Service::start("metrics", core, BOUNDS, serve);
        Ok(MetricsServer { asked, service: service.map_err(MetricsError::Thread)? })
    }
}

impl MetricsServer {
    /// Sends one report to all clients that have asked since the last call. Never waits.
    pub fn answer(&mut self, report: impl Fn() -> Report) {
        let mut made = None;
        for _ in 0..MAX_REQUESTS {
            let Ok(client) = self.asked.try_recv() else { break };
            // A client that has closed its connection meanwhile needs no report.
            let _ = client.send(Arc::clone(made.get_or_insert_with(|| Arc::new(report()))));
        }
    }

    /// The counters of its connections.
    pub fn counters(&self) -> ConnectionSnapshot {
        self.service.counters()
    }
}

/// What answers requests for metrics.
#[derive(Clone)]
struct Metrics {
    ask: Ask,
}

impl Respond for Metrics {
    type Body = Full<Bytes>;

    /// A body of the request is never read.
    async fn respond(self, _: Peer, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let ask = self.ask;
        let response = Response::builder();
        let response = if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let response =
                response.status(StatusCode::METHOD_NOT_ALLOWED).header(ALLOW, "GET, HEAD");
            response.body(text("only GET and HEAD are answered here\n"))
        } else if request.uri().path() == "/healthz" {
            match timeout(REPORT_PATIENCE, report(ask, verdict)).await.ok().flatten() {
                Some((true, verdict)) => response.body(Full::new(Bytes::from(verdict))),
                Some((false, verdict)) => {
                    let response = response.status(StatusCode::SERVICE_UNAVAILABLE);
                    response.body(Full::new(Bytes::from(verdict)))
                }
                None => unavailable(),
            }
        } else if request.uri().path() != "/metrics" {
            let there =
                "pmdns: the metrics are at /metrics, and whether it is fit to serve at /healthz\n";
            response.status(StatusCode::NOT_FOUND).body(text(there))
        } else {
            let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
            let (kind, encode): (_, Encode) = match wants_openmetrics(accept.unwrap_or_default()) {
                true => (encode::CONTENT_TYPE, encode::encode),
                false => (plain::CONTENT_TYPE, plain::encode),
            };
            let encode = |report: &Report| encode(report).ok();
            match timeout(REPORT_PATIENCE, report(ask, encode)).await.ok().flatten().flatten() {
                Some(metrics) => response
                    .header(CONTENT_TYPE, kind)
                    .header(VARY, "Accept")
                    .body(Full::new(Bytes::from(metrics))),
                None => unavailable(),
            }
        };
        response.expect("every header above is a lawful one")
    }
}

/// What is made of the report; `None` if the main thread has stopped giving reports.
async fn report<T>(ask: Ask, make: impl FnOnce(&Report) -> T) -> Option<T> {
    let (give, given) = oneshot::channel();
    ask.send(give).await.ok()?;
    let report = given.await.ok()?;
    Some(make(&report))
}

/// Whether the node is fit to serve, and the word for it: no more than the metrics say to the same readers.
fn verdict(report: &Report) -> (bool, String) {
    (report.verdict == NodeVerdict::Serving, format!("{}\n", report.verdict))
}

fn unavailable() -> hyper::http::Result<Response<Full<Bytes>>> {
    let response = Response::builder().status(StatusCode::SERVICE_UNAVAILABLE);
    response.body(text("pmdns is starting or stopping\n"))
}

fn text(text: &'static str) -> Full<Bytes> {
    Full::new(Bytes::from_static(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;
    use pmdns_control::testing as fixture;

    /// The response to a request for this path.
    fn fetch(address: SocketAddr, path: &str, accept: &str) -> String {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    #[test]
    fn d27_whether_the_node_is_fit_needs_no_token() {
        let listener = MetricsListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address().unwrap();
        let mut server = listener.serve(None).unwrap();
        for (verdict, status, word) in [
            (NodeVerdict::Serving, "200", "serving"),
            (NodeVerdict::Drained, "503", "drained"),
            (NodeVerdict::Unfit, "503", "NOT FIT"),
        ] {
            let asking = std::thread::spawn(move || fetch(address, "/healthz", "*/*"));
            while !asking.is_finished() {
                server.answer(|| Report { verdict, ..fixture::reports().1 });
                std::thread::yield_now();
            }
            let response = asking.join().unwrap();
            assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
            assert!(response.ends_with(&format!("\r\n\r\n{word}\n")), "{response}");
        }
    }

    #[test]
    fn d15_who_asks_decides_on_the_format() {
        let listener = MetricsListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address().unwrap();
        let mut server = listener.serve(None).unwrap();
        for (accept, kind, end) in [
            ("text/plain", plain::CONTENT_TYPE, "\n"),
            ("application/openmetrics-text", encode::CONTENT_TYPE, "\n# EOF\n"),
        ] {
            let asking = std::thread::spawn(move || fetch(address, "/metrics", accept));
            while !asking.is_finished() {
                server.answer(|| fixture::reports().1);
                std::thread::yield_now();
            }
            let response = asking.join().unwrap();
            assert!(response.contains(&format!("content-type: {kind}\r\n")), "{response}");
            assert!(
                response.ends_with(end) && response.contains("\npmdns_cache_hits_total 1960000\n")
            );
        }
    }
}
