//! Clients over TCP (RFC 7766).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use pmdns_counters::count;
use pmdns_nics::stream::Transport;
use tokio::net::{TcpListener, TcpStream};

use crate::access::{is_proxy, reset};
use crate::places::{ConnectionPlace, Lost};
use crate::service::Service;
use crate::{framing, proxy};

/// A pause after an accept that failed, for want of file descriptors for example. Trying again at once would take a whole CPU.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves a listener's clients over TCP, for ever.
pub(crate) async fn serve(listener: std::net::TcpListener, service: Service) {
    accept(listener, Transport::Tcp, service, plain).await;
}

/// Serves a connection without encryption.
async fn plain(stream: TcpStream, client: SocketAddr, place: ConnectionPlace, service: Service) {
    framing::serve(stream, client, &place, &service).await;
}

/// Accepts connections for ever, and has `serve` serve each that gets a place, on a task of its own. A place is taken only by
/// who may ask, or by a proxy, whose client is judged when it is known.
pub(crate) async fn accept<F>(
    listener: std::net::TcpListener,
    transport: Transport,
    service: Service,
    serve: impl Fn(TcpStream, SocketAddr, ConnectionPlace, Service) -> F + Clone + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            return tracing::error!("streams over {} cannot be served: {error}", transport.name());
        }
    };
    loop {
        match listener.accept().await {
            Ok((stream, client)) => {
                // Answers are written whole. None of them waits for more to be sent with it.
                let _best_effort = stream.set_nodelay(true);
                if !is_proxy(&service.proxies, client) && !service.access.admits(client) {
                    count(&service.counters.of(transport).denied);
                    reset(&stream);
                } else if let Some((place, lost)) = service.places.enter(client, transport) {
                    let (serve, service) = (serve.clone(), service.clone());
                    tokio::spawn(connection(stream, client, place, lost, service, serve));
                }
            }
            Err(error) => {
                count(&service.counters.of(transport).accept_errors);
                tracing::debug!("a connection over {} was lost: {error}", transport.name());
                if !is_of_one_connection(&error) {
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Serves a connection until it ends, or its place has gone to another one.
pub(crate) async fn connection<F: Future<Output = ()>>(
    stream: TcpStream,
    client: SocketAddr,
    place: ConnectionPlace,
    lost: Lost,
    service: Service,
    serve: impl FnOnce(TcpStream, SocketAddr, ConnectionPlace, Service) -> F,
) {
    tokio::select! {
        // Made here: a future that is made outside and moved in has room in the task twice.
        () = async {
            let told = proxy::client(stream, client, place, &service).await;
            if let Some((stream, client, place)) = told {
                serve(stream, client, place, service.clone()).await;
            }
        } => {}
        _ = lost => {}
    }
}

/// Whether the next connection may be accepted all the same.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::size_of_task;

    #[test]
    fn an_idle_connection_takes_little_memory() {
        // It was 10,600 when futures were moved from one into another.
        let size = size_of_task(plain);
        assert!(size <= 2560, "{size} bytes");
    }
}
