//! The threads of the control socket and of the HTTP API: each accepts connections and has [`pmdns_control::api`] answer their
//! requests. Neither holds a part of the engine. Calls go to the main thread, and replies come back.

mod listener;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, Response};
use pmdns_config::{Config, Token};
use pmdns_control::api::{Guard, Peer, Rate, Router, Tokens, TokensError, respond, router};
use pmdns_control::{AnyCaller, Call, CallReceiver, CallSender, MAX_CALLS};
use pmdns_streams::tls::CertificateError;

use super::http::{Listening, Respond, Terms, serve};
use super::socket::{ControlSocket, SocketError};
use crate::admission::{Bounds, ConnectionSnapshot};
use crate::service::Service;

pub use listener::ApiListener;

/// The API cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The address cannot be listened at.
    #[error(
        "cannot serve the API at {address}: {source}; set `api.listen` to an address of this machine and a free port"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The unix socket cannot be opened.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A token cannot be used.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The authorities of clients' certificates cannot be used.
    #[error("api.client_ca: cannot use {}: {why}; write the path of a PEM file with certificates", file.display())]
    ClientCa {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
    },
    /// The thread cannot be started.
    #[error("cannot start the API's thread: {0}")]
    Thread(io::Error),
}

/// Connections to the API at a time, in all and of one address or user.
const BOUNDS: Bounds = Bounds { places: 64, per_peer: 32, grace: Duration::from_secs(10) };
const TERMS: Terms = Terms {
    service: "the API",
    head: Duration::from_secs(10),
    connection: Duration::from_secs(600),
    keeps_alive: true,
};
/// The same of the control socket.
const CONTROL_BOUNDS: Bounds = Bounds { places: 32, per_peer: 8, grace: Duration::from_secs(1) };
const CONTROL_TERMS: Terms = Terms { service: "the control socket", ..TERMS };

/// A running thread. Dropping it ends it.
#[derive(Debug)]
pub struct ApiServer {
    calls: CallReceiver,
    guard: Arc<Guard>,
    service: Service,
}

/// The routes of the API.
#[derive(Clone)]
struct Api(Router);

impl Respond for Api {
    type Body = pmdns_control::api::Body;

    async fn respond(self, peer: Peer, request: Request<Incoming>) -> Response<Self::Body> {
        respond(self.0, peer, request).await
    }
}

impl ControlSocket {
    /// Serves the calls of users of this machine, on a thread pinned to the CPU `core` if one is given.
    ///
    /// # Errors
    ///
    /// There is no thread.
    pub fn serve(self, core: Option<usize>) -> Result<ApiServer, SocketError> {
        let guard = Guard::new(Vec::new(), Tokens::default(), Rate(0));
        let listening = Listening { unix: Some(self), ..Listening::default() };
        let manner = Manner { name: "control", bounds: CONTROL_BOUNDS, terms: CONTROL_TERMS };
        ApiServer::start(listening, guard, false, manner, core).map_err(SocketError::Thread)
    }
}

/// How a server treats its connections.
struct Manner {
    /// Its name, for its thread.
    name: &'static str,
    bounds: Bounds,
    terms: Terms,
}

impl ApiServer {
    /// Serves on a thread of this name. The calling thread is woken for each call.
    fn start(
        listening: Listening,
        guard: Guard,
        has_console: bool,
        manner: Manner,
        core: Option<usize>,
    ) -> io::Result<Self> {
        let Manner { name, bounds, terms } = manner;
        let main = std::thread::current();
        let (sender, calls) = CallSender::new(move || main.unpark());
        let guard = Arc::new(guard);
        let api = Api(router(sender, Arc::clone(&guard), has_console));
        let serve = move |gate| serve(listening, api, terms, gate);
        Ok(Self { calls, guard, service: Service::start(name, core, bounds, serve)? })
    }

    /// Passes on the calls that have come since the last time, each with its caller. Never waits.
    pub fn take(&mut self, mut answer: impl FnMut(Call, AnyCaller)) {
        for _ in 0..MAX_CALLS {
            let Ok((call, caller)) = self.calls.try_recv() else { break };
            answer(call, caller);
        }
    }

    /// Only the tokens of this configuration count from now on, unless they cannot be used.
    pub fn apply_config(&self, config: &Config) {
        match load(&config.tokens) {
            Ok(tokens) => self.guard.set_tokens(tokens),
            Err(error) => tracing::error!("{error}; the same tokens as before count"),
        }
    }

    /// The counters of its connections.
    pub fn counters(&self) -> ConnectionSnapshot {
        self.service.counters()
    }
}

fn load(tokens: &[Token]) -> Result<Tokens, ApiError> {
    Ok(Tokens::load(tokens)?)
}
