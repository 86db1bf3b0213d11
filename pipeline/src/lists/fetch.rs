//! One download over HTTPS: a GET request on a connection of its own. Nothing is redirected, compressed or kept open.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body, Bytes};
use hyper::client::conn::http1;
use hyper::header::{
    ACCEPT, ETAG, HOST, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    LAST_MODIFIED, LOCATION, USER_AGENT,
};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use pmdns_config::{Host, Protocol, Server};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use pmdns_changes::Reach;

/// Bytes of the longest list that is fetched.
pub(super) const MAX_BYTES: usize = 128 << 20;
/// How long it may take to find the address, to connect, to make a handshake, and to get the next part.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long all of it may take.
const TOTAL_PATIENCE: Duration = Duration::from_secs(300);
/// Addresses of a server that are tried.
const MAX_ADDRESSES: usize = 4;
/// The default port, which requests leave out.
const USUAL_PORT: u16 = 443;
/// The name that the server is told.
const AGENT: &str = concat!("pmdns/", env!("CARGO_PKG_VERSION"));

/// Characters that are shown of where a server redirects to.
const MAX_SHOWN: usize = 200;

/// Where a list is.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) server: Server,
    pub(super) address: Option<IpAddr>,
    pub(super) tls: Arc<ClientConfig>,
    /// Addresses that it may have.
    pub(super) reach: Reach,
}

/// Why there is no list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FetchError {
    /// No server with a certificate that is trusted has answered. The text would tell what has, or that nothing has.
    #[error("{0}")]
    Unreached(String),
    /// The right server answers, but with no list that can be used.
    #[error("{0}")]
    Unusable(String),
}

impl From<String> for FetchError {
    fn from(why: String) -> Self {
        Self::Unusable(why)
    }
}

/// The server's words about the version that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Version {
    etag: Option<HeaderValue>,
    modified: Option<HeaderValue>,
}

/// The result of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fetched {
    /// The version that is kept is the newest.
    Unchanged,
    /// Another one.
    New(Vec<u8>, Version),
}

/// Fetches the list, if it is another than the one of `version`. An error says what to change, if anything.
pub(super) async fn fetch(source: &Source, version: &Version) -> Result<Fetched, FetchError> {
    let whole = timeout(TOTAL_PATIENCE, whole(source, version));
    let late = |_| Err(format!("it took longer than {TOTAL_PATIENCE:?}").into());
    whole.await.unwrap_or_else(late)
}

async fn whole(source: &Source, version: &Version) -> Result<Fetched, FetchError> {
    let stream = connect(source).await.map_err(FetchError::Unreached)?;
    Ok(exchange(stream, request(source, version)?, version).await?)
}

/// Sends the request, and takes in what the server says to it.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    request: Request<Empty<Bytes>>,
    version: &Version,
) -> Result<Fetched, String> {
    let (mut sender, connection) =
        in_time("the handshake of HTTP", http1::handshake(TokioIo::new(stream))).await?;
    // The task ends with the connection, when the sender and the body are dropped.
    let _connection = tokio::task::spawn_local(connection);
    let response = in_time("the response", sender.send_request(request)).await?;
    match response.status() {
        // It answers a condition only.
        StatusCode::NOT_MODIFIED if *version != Version::default() => Ok(Fetched::Unchanged),
        StatusCode::NOT_MODIFIED => {
            Err("the server answers with status 304, which nothing asked for".to_owned())
        }
        StatusCode::OK => {
            let version = Version::of(response.headers());
            Ok(Fetched::New(whole_body(response.into_body(), MAX_BYTES).await?, version))
        }
        status if status.is_redirection() => {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let to: String = to.unwrap_or("nowhere").chars().take(MAX_SHOWN).collect();
            Err(format!("the server redirects to {}; write that as `url`", to.escape_debug()))
        }
        status => Err(format!("the server answers with status {status}")),
    }
}

impl Version {
    fn of(headers: &HeaderMap) -> Self {
        let header = |name: HeaderName| headers.get(name).cloned();
        Self { etag: header(ETAG), modified: header(LAST_MODIFIED) }
    }
}

fn request(source: &Source, version: &Version) -> Result<Request<Empty<Bytes>>, String> {
    let Protocol::Https(path) = &source.server.protocol else {
        return Err("lists come over https".to_owned());
    };
    let host = match &source.server.host {
        Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
        host => host.to_string(),
    };
    let host = match source.server.port {
        USUAL_PORT => host,
        port => format!("{host}:{port}"),
    };
    let request = Request::get(&**path).header(HOST, host).header(USER_AGENT, AGENT);
    let mut request = request
        .header(ACCEPT, "text/plain, */*")
        .body(Empty::new())
        .map_err(|error| error.to_string())?;
    let headers = request.headers_mut();
    version.etag.iter().for_each(|etag| drop(headers.insert(IF_NONE_MATCH, etag.clone())));
    version.modified.iter().for_each(|date| drop(headers.insert(IF_MODIFIED_SINCE, date.clone())));
    Ok(request)
}

/// The whole body, if it has at most so many bytes.
async fn whole_body<B>(mut body: B, most: usize) -> Result<Vec<u8>, String>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let mut bytes = Vec::new();
    while let Some(frame) = timeout(PATIENCE, body.frame()).await.map_err(|_| late("the list"))? {
        let frame = frame.map_err(|error| format!("the list did not come to its end: {error}"))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > most {
            return Err(format!("it has more than {most} bytes"));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

async fn connect(source: &Source) -> Result<TlsStream<TcpStream>, String> {
    let Source { server, address, tls, reach } = source;
    let host = server.host.to_string();
    let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
    let addresses: Vec<SocketAddr> = match (address, &server.host) {
        (Some(address), _) | (None, Host::Address(address)) => vec![(*address, server.port).into()],
        (None, Host::Name(name)) => {
            let found = tokio::net::lookup_host((&**name, server.port));
            in_time("the system's resolver", found).await?.take(MAX_ADDRESSES).collect()
        }
    };
    let mut failure = format!("{host} has no address");
    for address in addresses {
        if !reach.allows(address.ip()) {
            failure = format!("{} is neither public nor in `control.list_networks`", address.ip());
            continue;
        }
        match in_time(&address.to_string(), TcpStream::connect(address)).await {
            Ok(stream) => {
                let connector = TlsConnector::from(Arc::clone(tls));
                return in_time("the handshake of TLS", connector.connect(name, stream)).await;
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// The result of a step, if it comes in time.
async fn in_time<T, E: std::fmt::Display>(
    what: &str,
    step: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match timeout(PATIENCE, step).await {
        Ok(result) => result.map_err(|error| format!("{what}: {error}")),
        Err(_) => Err(late(what)),
    }
}

fn late(what: &str) -> String {
    let error = io::Error::from(io::ErrorKind::TimedOut);
    format!("{what}: {error} after {PATIENCE:?}")
}

#[cfg(test)]
mod tests;
