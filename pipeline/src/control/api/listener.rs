//! Where the API is asked: opened before privileges are dropped, served after.

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;

use pmdns_config::{Api, Config};
use pmdns_control::api::{Guard, Rate};
use pmdns_encrypted::roots;
use pmdns_streams::tls::Certificate;
use rustls::crypto::ring::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use super::{ApiError, ApiServer, BOUNDS, Manner, TERMS};
use crate::control::http::Listening;
use crate::control::socket::{ControlSocket, SocketFile};
use crate::service::listen;
use crate::sockets::OpenSockets;

/// The keys of its sockets.
const LISTEN: &str = "api.listen";
const SOCKET: &str = "api.socket";
/// Connections that wait to be taken in.
const BACKLOG: i32 = 128;
/// Connections over TLS speak this, and no other protocol.
const ALPN: &[u8] = b"http/1.1";

/// Bound addresses that are not served yet.
#[derive(Debug)]
pub struct ApiListener {
    listening: Listening,
    guard: Guard,
    has_console: bool,
}

impl ApiListener {
    /// Reads the files that `config` names, and opens nothing.
    ///
    /// # Errors
    ///
    /// A file cannot be used.
    pub fn check(config: &Config) -> Result<(), ApiError> {
        if config.api.is_configured() {
            super::load(&config.tokens)?;
            tls(&config.api)?;
        }
        Ok(())
    }

    /// Opens what `config` names; `None`: it names nothing. Clients that connect wait until it is served.
    ///
    /// # Errors
    ///
    /// Something cannot be opened or read.
    pub fn open(config: &Config, sockets: &mut OpenSockets) -> Result<Option<Self>, ApiError> {
        let api = &config.api;
        if !api.is_configured() {
            return Ok(None);
        }
        let tokens = super::load(&config.tokens)?;
        let tcp = api.listen.map(|address| match sockets.take(LISTEN, address) {
            Some(socket) => Ok(socket.into()),
            None => listen(address, BACKLOG).map_err(|source| ApiError::Listen { address, source }),
        });
        let unix = api.socket.as_deref().map(|path| {
            let group = config.control.group.as_deref();
            ControlSocket::open_at(SOCKET, path, group, sockets.take_local(SOCKET, path))
        });
        let listening =
            Listening { tcp: tcp.transpose()?, unix: unix.transpose()?, tls: tls(api)? };
        let guard = Guard::new(api.hosts.clone(), tokens, Rate(api.requests_per_second));
        Ok(Some(Self { listening, guard, has_console: api.console }))
    }

    /// Adds copies of its sockets. Returns what decides about the file of the local one.
    #[cfg_attr(
        not(feature = "dpdk"),
        allow(dead_code, reason = "without ports nothing is handed over")
    )]
    pub(crate) fn copy(
        &self,
        config: &Config,
        copies: &mut OpenSockets,
    ) -> io::Result<Option<Arc<SocketFile>>> {
        let Listening { tcp, unix, .. } = &self.listening;
        if let (Some(address), Some(listener)) = (config.api.listen, tcp) {
            copies.add(LISTEN, address, listener.as_fd().try_clone_to_owned()?);
        }
        let (Some(path), Some(unix)) = (&config.api.socket, unix) else { return Ok(None) };
        let (socket, file) = unix.copy()?;
        copies.add_local(SOCKET, path, socket);
        Ok(Some(file))
    }

    /// The certificate that clients get, if it serves over TLS.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.listening.tls.as_ref().map(|(certificate, _)| certificate)
    }

    /// Serves, on a thread pinned to the CPU `core` if one is given. The calling thread is woken for each call.
    ///
    /// # Errors
    ///
    /// There is no thread.
    pub fn serve(self, core: Option<usize>) -> Result<ApiServer, ApiError> {
        let Self { listening, guard, has_console } = self;
        let manner = Manner { name: "api", bounds: BOUNDS, terms: TERMS };
        ApiServer::start(listening, guard, has_console, manner, core).map_err(ApiError::Thread)
    }
}

/// The certificate, and what it is served with.
fn tls(api: &Api) -> Result<Option<(Certificate, Arc<rustls::ServerConfig>)>, ApiError> {
    let (Some(certificate), Some(key)) = (&api.certificate, &api.key) else { return Ok(None) };
    let certificate = Certificate::load("api", certificate, key)?;
    let clients = match &api.client_ca {
        None => WebPkiClientVerifier::no_client_auth(),
        Some(file) => {
            verifier(file).map_err(|why| ApiError::ClientCa { file: file.clone(), why })?
        }
    };
    let server = certificate.server_for(&[ALPN], clients)?;
    Ok(Some((certificate, Arc::new(server))))
}

/// Accepts clients whose certificates an authority of this file has signed.
fn verifier(file: &Path) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let roots = roots::of_file(file)?;
    let provider = Arc::new(default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map(|one| one as Arc<dyn ClientCertVerifier>).map_err(|error| error.to_string())
}
