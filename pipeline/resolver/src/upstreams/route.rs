//! The way of a query.

use std::net::{IpAddr, SocketAddr};

/// The addresses of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Index of the upstream.
    pub upstream: usize,
    /// The upstream's.
    pub to: SocketAddr,
    /// Ours, if the operator chose one.
    pub from: Option<IpAddr>,
    /// The port that the queries leave by; `None`: by a socket of the kernel.
    pub port: Option<usize>,
}
