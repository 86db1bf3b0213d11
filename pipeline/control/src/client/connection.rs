//! Where an instance is asked, and the connection to it.

use std::fmt;
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use axum::http::Uri;
use hyper_util::rt::TokioIo;
use pmdns_config::files::open_regular;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::sleep;
use tokio_rustls::TlsConnector;

use super::{ClientError, LOOK};

/// The longest file of authorities.
const MAX_FILE: u64 = 1 << 20;
/// Connections over TLS speak this, and no other protocol.
const ALPN: &[u8] = b"http/1.1";

/// Where an instance is asked.
#[derive(Clone, Debug)]
pub(super) enum Server {
    /// A control socket of this machine. The kernel says who asks.
    Socket(PathBuf),
    /// An API over TCP.
    Url(Box<ApiUrl>),
}

/// An API over TCP, and who asks there.
#[derive(Clone)]
pub(super) struct ApiUrl {
    host: String,
    port: u16,
    /// Host and port, as the URL has them.
    authority: String,
    token: String,
    /// Absent: it is asked without TLS.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl fmt::Debug for ApiUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority)
    }
}

/// A connection that a request can be sent over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Stream for T {}

impl Server {
    pub(super) fn at_url(
        url: &str,
        token: String,
        ca_file: Option<&Path>,
    ) -> Result<Self, ClientError> {
        let wrong = |why: &str| {
            ClientError::Server(format!(
                "--api {url}: {why}; write for example https://node2.example:8053"
            ))
        };
        let uri: Uri = url.parse().map_err(|_| wrong("it is no URL"))?;
        let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
        if !matches!(uri.path(), "" | "/")
            || uri.query().is_some()
            || authority.as_str().contains('@')
        {
            return Err(wrong("it has more than a host and a port"));
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let (tls, port) = match uri.scheme_str() {
            Some("https") => {
                let name = ServerName::try_from(host.clone());
                let name = name.map_err(|_| wrong("its host is no name of a server"))?;
                (Some((tls(ca_file)?, name)), 443)
            }
            Some("http") if is_of_this_machine(&host) => (None, 80),
            Some("http") => return Err(wrong("the token would pass in clear text")),
            _ => return Err(wrong("it begins neither with https:// nor with http://")),
        };
        let port = match authority.as_str().rsplit_once(':') {
            Some((_, text)) if !text.ends_with(']') => {
                text.parse().map_err(|_| wrong("its port is no number up to 65535"))?
            }
            _ => port,
        };
        let authority = authority.to_string();
        Ok(Self::Url(Box::new(ApiUrl { host, port, authority, token, tls })))
    }

    /// The value of the Host header.
    pub(super) fn host(&self) -> &str {
        match self {
            Self::Socket(_) => "pmdns",
            Self::Url(url) => &url.authority,
        }
    }

    /// The token that is shown.
    pub(super) fn token(&self) -> Option<&str> {
        match self {
            Self::Socket(_) => None,
            Self::Url(url) => Some(&url.token),
        }
    }

    /// Nobody answers there.
    pub(super) fn unreached(&self, source: io::Error) -> ClientError {
        let at = self.to_string();
        match self {
            Self::Socket(_) => ClientError::Ask { at, source },
            Self::Url(_) => ClientError::Unreached { at, source },
        }
    }

    pub(super) async fn connect(&self) -> Result<TokioIo<Pin<Box<dyn Stream>>>, ClientError> {
        let failed = |source| self.unreached(source);
        let stream: Pin<Box<dyn Stream>> = match self {
            Self::Socket(path) => match connect_to(path).await {
                Ok(stream) => Box::pin(stream),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(ClientError::Denied(path.clone()));
                }
                Err(error) => return Err(failed(error)),
            },
            Self::Url(url) => {
                let stream = TcpStream::connect((&*url.host, url.port)).await.map_err(failed)?;
                match &url.tls {
                    None => Box::pin(stream),
                    Some((config, name)) => {
                        let connector = TlsConnector::from(Arc::clone(config));
                        let stream = connector.connect(name.clone(), stream).await;
                        Box::pin(stream.map_err(failed)?)
                    }
                }
            }
        };
        Ok(TokioIo::new(stream))
    }
}

/// Connects. While the queue of connections that wait is full, it is tried again.
async fn connect_to(path: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(LOOK).await,
            connected => return connected,
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Url(url) => f.write_str(&url.authority),
        }
    }
}

/// Whether an instance runs at this control socket.
pub fn is_running(socket: &Path) -> bool {
    match std::os::unix::net::UnixStream::connect(socket) {
        Ok(_) => true,
        // Without permission to ask, the error still shows that an instance is there.
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

fn is_of_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Trusts the authorities of this file, or those of the system.
fn tls(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, ClientError> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(file) => {
            let wrong = |why: &dyn fmt::Display| {
                ClientError::Server(format!("--ca-file {}: {why}", file.display()))
            };
            let mut pem = Vec::new();
            let opened = open_regular(file).map_err(|error| wrong(&error))?;
            opened.take(MAX_FILE + 1).read_to_end(&mut pem).map_err(|error| wrong(&error))?;
            if pem.len() as u64 > MAX_FILE {
                return Err(wrong(&format!("it is longer than {MAX_FILE} bytes")));
            }
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                let certificate = certificate.map_err(|error| wrong(&error))?;
                roots.add(certificate).map_err(|error| wrong(&error))?;
            }
            if roots.is_empty() {
                return Err(wrong(&"it has no certificate; write the path of a PEM file"));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| ClientError::Server(error.to_string()))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}
