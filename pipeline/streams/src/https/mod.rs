//! DNS over HTTPS (RFC 8484): connections of HTTP/2 and HTTP/1.1.

mod exchange;
mod freshness;

pub use exchange::is_dns_message;

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use pmdns_config::narrow::to_u32;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use crate::client::{Client, ConnectionEnd};
use crate::service::ConnectionLimits;

/// Bytes of a request's headers.
const MAX_HEADER_BYTES: u32 = 8192;
/// Headers of a request.
const MAX_HEADERS: usize = 64;
/// Bytes of requests that a client may send ahead, on each stream and on all: what HTTP/2 begins with.
const WINDOW: u32 = 65_535;
/// Streams that a client may have reset before they were looked at. More end the connection ("rapid reset").
const MAX_RESETS: usize = 20;
/// Streams that we may have reset because of what the client sent. More end the connection.
const MAX_LOCAL_RESETS: usize = 64;
/// Bytes of one answer that wait for the client's window.
const MAX_SEND_BUFFER: usize = 65_536;
/// Bytes of HPACK's table.
const HEADER_TABLE: u32 = 4096;

/// What is served.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// The path of the resource.
    pub(crate) path: Arc<str>,
}

/// Serves requests over `stream` until the connection ends.
pub(crate) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    is_http2: bool,
    site: &Site,
    client: &Arc<Client>,
) {
    let service = service_fn(|request| {
        let (site, client) = (site.clone(), Arc::clone(client));
        async move { Ok::<_, Infallible>(exchange::respond(request, &site, &client).await) }
    });
    let io = TokioIo::new(stream);
    if is_http2 {
        let connection = http2(&client.service.limits).serve_connection(io, service);
        drive(pin!(connection), http2::Connection::graceful_shutdown, client).await;
    } else {
        let connection = http1(client.service.limits.io_timeout).serve_connection(io, service);
        drive(pin!(connection), http1::Connection::graceful_shutdown, client).await;
    }
}

fn http2(limits: &ConnectionLimits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .max_concurrent_streams(to_u32(limits.max_queries_in_flight))
        .max_header_list_size(MAX_HEADER_BYTES)
        .header_table_size(HEADER_TABLE)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_LOCAL_RESETS)
        .max_send_buf_size(MAX_SEND_BUFFER)
        .keep_alive_interval(limits.idle_timeout)
        .keep_alive_timeout(limits.io_timeout);
    builder
}

fn http1(io_timeout: Duration) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .header_read_timeout(io_timeout)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES as usize);
    builder
}

/// Runs a connection until it ends by itself or has to.
async fn drive<C: Future>(
    mut connection: Pin<&mut C>,
    shut_down: fn(Pin<&mut C>),
    client: &Client,
) {
    let end = tokio::select! {
        _ = connection.as_mut() => return,
        end = client.end() => end,
    };
    if end != ConnectionEnd::SlowReader {
        shut_down(connection.as_mut());
        drop(timeout(client.service.limits.io_timeout, connection).await);
    }
}

#[cfg(all(test, feature = "tls"))]
mod tests;
