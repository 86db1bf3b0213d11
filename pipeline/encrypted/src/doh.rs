//! DNS over HTTPS (RFC 8484): each query a POST request of its own on one HTTP/2 connection.

use std::error::Error as _;
use std::io;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::header::{ACCEPT, AGE, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pmdns_config::Host;
use pmdns_stages::wire::dns::rtype;
use pmdns_stages::wire::put32;
use pmdns_stages::wire::record::{Records, WireRecord};
use pmdns_streams::is_dns_message;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::query::{MAX_MESSAGE, QueryFailure};
use crate::trust::Settings;

/// The media type of queries and replies (RFC 8484 section 6).
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/dns-message");
/// The default port, which requests leave out.
const USUAL_PORT: u16 = 443;

/// A connection.
pub(crate) struct Doh {
    sender: SendRequest<Full<Bytes>>,
    resource: Uri,
}

impl Doh {
    /// Starts HTTP/2 over `stream`, for the resource at `path`.
    pub(crate) async fn open(
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
    pub(crate) async fn ask(&self, query: &[u8]) -> Result<Vec<u8>, QueryFailure> {
        let mut request = Request::post(self.resource.clone())
            .header(CONTENT_TYPE, MEDIA_TYPE)
            .header(ACCEPT, MEDIA_TYPE)
            .body(Full::new(Bytes::copy_from_slice(query)))
            .map_err(|error| QueryFailure::Refused(io::Error::other(error)))?;
        *request.version_mut() = hyper::Version::HTTP_2;
        let response = self.sender.clone().send_request(request).await.map_err(failure)?;
        check(response.status(), response.headers()).map_err(refused)?;
        let age = age(response.headers());
        let body = Limited::new(response.into_body(), MAX_MESSAGE).collect().await;
        let body = body.map_err(|error| match self.is_open() {
            true => refused(error.to_string()),
            false => QueryFailure::Ended(io::Error::other(error)),
        })?;
        let mut message = body.to_bytes().to_vec();
        grow_older(&mut message, age);
        Ok(message)
    }

    /// Whether it has not ended.
    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }
}

/// Whether a response has a DNS message. A resolver without an answer sends a DNS rcode with a status of success. Any other
/// status concerns the request (section 4.2.1).
fn check(status: StatusCode, headers: &HeaderMap) -> Result<(), String> {
    if !status.is_success() {
        return Err(format!("HTTP status {status}"));
    }
    if !is_dns_message(headers) {
        return Err("the response is not application/dns-message".to_owned());
    }
    Ok(())
}

/// How long caches on the way have had the response, in seconds. Of several values the first counts; one that is no number
/// is none, and one that is too large is as large as can be (RFC 9111 sections 1.2.2 and 5.1).
fn age(headers: &HeaderMap) -> u32 {
    let value = headers.get(AGE).and_then(|value| value.to_str().ok());
    let first = value.and_then(|value| value.split(',').next()).unwrap_or_default().trim();
    let is_number = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { first.parse().unwrap_or(u32::MAX) } else { 0 }
}

/// Takes `age` seconds from the TTLs of a message (section 5.1). One that is malformed is left to those who read it.
fn grow_older(message: &mut [u8], age: u32) {
    if age == 0 {
        return;
    }
    let records: Vec<WireRecord> =
        Records::new(message).into_iter().flatten().map_while(Result::ok).collect();
    for record in records.iter().filter(|record| record.rtype != rtype::OPT) {
        // RFC 2181 section 8: with the highest bit set, a TTL is zero.
        let ttl = if record.ttl >> 31 == 0 { record.ttl } else { 0 };
        put32(message, record.ttl_at, ttl.saturating_sub(age));
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

    fn headers(pairs: &[(hyper::header::HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn responses_of_success_with_a_message_are_taken() {
        let media = |value| headers(&[(CONTENT_TYPE, value)]);
        let good = media("application/dns-message");
        for status in [200, 201, 203, 226] {
            assert!(check(StatusCode::from_u16(status).unwrap(), &good).is_ok(), "{status}");
        }
        for status in [304, 400, 404, 503] {
            assert!(check(StatusCode::from_u16(status).unwrap(), &good).is_err(), "{status}");
        }
        for value in ["Application/DNS-Message", "application/dns-message; charset=utf-8"] {
            assert!(check(StatusCode::OK, &media(value)).is_ok(), "{value}");
        }
        for value in ["application/dns-json", "application/dns-messages", "text/html", ""] {
            assert!(check(StatusCode::OK, &media(value)).is_err(), "{value}");
        }
        assert!(check(StatusCode::OK, &HeaderMap::new()).is_err());
    }

    #[test]
    fn ages() {
        for (values, seconds) in [
            (&[][..], 0),
            (&["250"], 250),
            (&["250, 9"], 250),
            (&["250", "9"], 250),
            (&["0"], 0),
            (&["99999999999999999999"], u32::MAX),
            (&["-5"], 0),
            (&["+5"], 0),
            (&["1.5"], 0),
            (&["soon"], 0),
            (&[""], 0),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AGE, HeaderValue::from_static(value));
            }
            assert_eq!(age(&headers), seconds, "{values:?}");
        }
    }

    #[test]
    fn ttls_of_an_old_response_are_shorter() {
        let mut message = b"\0\0\x81\x80\0\x01\0\x02\0\0\0\x01\x01a\0\0\x10\0\x01".to_vec();
        let ttls = [600_u32, 1 << 31];
        for ttl in ttls {
            message.extend(b"\xc0\x0c\0\x10\0\x01");
            message.extend(ttl.to_be_bytes());
            message.extend(b"\0\x02\x01x");
        }
        message.extend(b"\0\0\x29\x04\xd0\0\0\x80\0\0\0");
        let whole = message.clone();
        grow_older(&mut message, 0);
        assert_eq!(message, whole);
        grow_older(&mut message, 250);
        let after: Vec<u32> =
            Records::new(&message).unwrap().map(|record| record.unwrap().ttl).collect();
        assert_eq!(after, [350, 0, 0x8000], "the OPT record has no TTL");
        for end in 0..whole.len() {
            grow_older(&mut whole[..end].to_vec(), 250);
        }
    }

    #[test]
    fn authorities() {
        let of = |host: &str, port| authority(&host.parse().unwrap(), port);
        assert_eq!(of("dns.example", 443), "dns.example");
        assert_eq!(of("192.0.2.53", 8443), "192.0.2.53:8443");
        assert_eq!(of("2001:db8::53", 443), "[2001:db8::53]");
    }
}
