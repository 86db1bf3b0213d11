//! The HTTP API's thread: it accepts connections and has [`pmdns_control::api`] answer their requests. It holds no part
//! of the engine. Calls go to the main thread, and replies come back.

mod listener;
mod server;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use pmdns_config::{Config, Token};
use pmdns_control::api::{Guard, Tokens, TokensError};
use pmdns_control::{Asked, Refusal, Reply};
use pmdns_streams::tls::CertificateError;
use tokio::sync::mpsc;

use super::request::Request;
use super::socket::{Client, SocketError};
use crate::admission::ConnectionSnapshot;
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

/// The running thread. Dropping it ends it.
#[derive(Debug)]
pub struct ApiServer {
    asked: mpsc::Receiver<Asked>,
    guard: Arc<Guard>,
    service: Service,
}

impl ApiServer {
    /// Passes on the calls that have come since the last time, each with its client. Never waits.
    pub fn take(&mut self, mut answer: impl FnMut(Request, Client)) {
        for _ in 0..pmdns_control::MAX_ASKED {
            let Ok(Asked { call, by, file, answer: way_back }) = self.asked.try_recv() else {
                break;
            };
            let client = Client::new(way_back, by, file);
            match Request::try_from(call) {
                Ok(request) => answer(request, client),
                Err(why) => client.reply(Reply::Refused(Refusal::Wrong, why)),
            }
        }
    }

    /// Only the tokens of this configuration count from now on, unless they cannot be used.
    pub fn follow(&self, config: &Config) {
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
