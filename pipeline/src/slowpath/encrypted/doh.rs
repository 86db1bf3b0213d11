//! DNS over HTTPS (RFC 8484): each query a POST request of its own on one HTTP/2 connection.

use std::error::Error as _;
use std::io;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pmdns_config::Host;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::query::{MAX_MESSAGE, QueryFailure};
use super::trust::Settings;

/// The media type of queries and replies (RFC 8484 section 6).
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/dns-message");
/// The default port, which requests leave out.
const USUAL_PORT: u16 = 443;

/// A connection.
pub(super) struct Doh {
    sender: SendRequest<Full<Bytes>>,
    resource: Uri,
}

impl Doh {
    /// Starts HTTP/2 over `stream`, for the resource at `path`.
    pub(super) async fn open(
        stream: TlsStream<TcpStream>,
        settings: &Settings,
        path: &str,
    ) -> io::Result<Self> {
        let resource = Uri::builder()
            .scheme("https")
            .authority(authority(&settings.name, settings.server.port))
            .path_and_query(path)
            .build()
            .map_err(io::Error::other)?;
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        // The task ends with the connection, or when the sender is dropped.
        tokio::task::spawn_local(connection);
        Ok(Self { sender, resource })
    }

    /// Sends a query and waits for its reply. HTTP/2 matches them.
    pub(super) async fn ask(&self, query: &[u8]) -> Result<Vec<u8>, QueryFailure> {
        let mut request = Request::post(self.resource.clone())
            .header(CONTENT_TYPE, MEDIA_TYPE)
            .header(ACCEPT, MEDIA_TYPE)
            .body(Full::new(Bytes::copy_from_slice(query)))
            .map_err(|error| QueryFailure::Refused(io::Error::other(error)))?;
        *request.version_mut() = hyper::Version::HTTP_2;
        let response = self.sender.clone().send_request(request).await.map_err(failure)?;
        // A resolver without an answer sends a DNS rcode with status 200. Any other status concerns the request
        // (section 4.2.1).
        if response.status() != StatusCode::OK {
            return Err(refused(format!("HTTP status {}", response.status())));
        }
        if response.headers().get(CONTENT_TYPE) != Some(&MEDIA_TYPE) {
            return Err(refused("the response is not application/dns-message".to_owned()));
        }
        let body = Limited::new(response.into_body(), MAX_MESSAGE).collect().await;
        body.map(|body| body.to_bytes().to_vec()).map_err(|error| match self.is_open() {
            true => refused(error.to_string()),
            false => QueryFailure::Ended(io::Error::other(error)),
        })
    }

    /// Whether it has not ended.
    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }
}

/// The host as requests name it (RFC 9113 section 8.3.1).
fn authority(host: &Host, port: u16) -> String {
    let host = match host {
        Host::Address(address) if address.is_ipv6() => format!("[{address}]"),
        host => host.to_string(),
    };
    if port == USUAL_PORT { host } else { format!("{host}:{port}") }
}

/// The failure behind an error that came instead of a response. A reset stream concerns only its own query, not those
/// on other streams (RFC 9113 section 5.4.2).
fn failure(error: hyper::Error) -> QueryFailure {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<h2::Error>());
    match cause.is_some_and(h2::Error::is_reset) {
        true => QueryFailure::Refused(io::Error::other(error)),
        false => QueryFailure::Ended(io::Error::other(error)),
    }
}

fn refused(why: String) -> QueryFailure {
    QueryFailure::Refused(io::Error::other(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities() {
        let of = |host: &str, port| authority(&host.parse().unwrap(), port);
        assert_eq!(of("dns.example", 443), "dns.example");
        assert_eq!(of("192.0.2.53", 8443), "192.0.2.53:8443");
        assert_eq!(of("2001:db8::53", 443), "[2001:db8::53]");
    }
}
