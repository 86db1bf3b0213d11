//! Who may connect: the access list of the configuration, asked before a connection gets a place.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pmdns_config::Prefix;
use socket2::SockRef;
use tokio::net::TcpStream;

use crate::lock::lock;

/// Whether the client at an address may ask.
pub type MayAsk = dyn Fn(IpAddr) -> bool + Send + Sync;

/// An access list that reloads replace. Cloning it gives another handle to the same list.
#[derive(Clone)]
pub struct AccessList(Arc<Mutex<Arc<MayAsk>>>);

impl AccessList {
    /// The list that `may_ask` keeps to.
    pub fn new(may_ask: Arc<MayAsk>) -> Self {
        Self(Arc::new(Mutex::new(may_ask)))
    }

    /// Keeps to this from now on. Connections that are open stay, and their queries meet the line's list.
    pub fn set(&self, may_ask: Arc<MayAsk>) {
        *lock(&self.0) = may_ask;
    }

    /// Whether a client may connect.
    pub(crate) fn admits(&self, client: SocketAddr) -> bool {
        let may_ask = Arc::clone(&lock(&self.0));
        may_ask(client.ip().to_canonical())
    }
}

/// Whether a peer is one of the proxies, which say who their clients are.
pub(crate) fn is_proxy(proxies: &[Prefix], peer: SocketAddr) -> bool {
    let address = peer.ip().to_canonical();
    proxies.iter().any(|prefix| prefix.contains(address))
}

/// Has the connection end with a reset, so that nothing of it stays with the kernel.
pub(crate) fn reset(stream: &TcpStream) {
    let _best_effort = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
