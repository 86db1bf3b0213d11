//! Clients over TCP, TLS, HTTPS and QUIC, which the kernel's sockets serve.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use crate::prefix::Prefix;
use crate::size::ByteSize;

/// `[streams]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Streams {
    /// Where clients ask over TCP (RFC 7766). No address of any transport: there are no streams.
    pub tcp: Vec<SocketAddr>,
    /// Where clients ask over TLS (RFC 7858).
    pub tls: Vec<SocketAddr>,
    /// Where clients ask over HTTPS (RFC 8484).
    pub https: Vec<SocketAddr>,
    /// Where clients ask over QUIC (RFC 9250).
    pub quic: Vec<SocketAddr>,
    /// The PEM file of our certificate and those that lead to its issuer, for encrypted transports.
    pub certificate: Option<PathBuf>,
    /// The PEM file of its private key.
    pub key: Option<PathBuf>,
    /// The path of the resource over HTTPS.
    pub https_path: String,
    /// Our name in the certificate, by which clients discover the encrypted transports (RFC 9462); absent: they do not.
    pub name: Option<String>,
    /// Proxies that begin each connection but those of QUIC with a PROXY header, which says who the client is.
    pub proxy_protocol: Vec<Prefix>,
    /// Threads that serve the connections.
    pub threads: usize,
    /// CPUs those threads may run on; empty: every CPU no data core uses, or all if none is left.
    pub cores: Vec<usize>,
    /// Connections of all transports at a time.
    pub max_connections: usize,
    /// Connections of one client prefix at a time, over all transports.
    pub max_connections_per_prefix: usize,
    /// Queries under way of all connections. Each has a buffer of 64 KiB, of which only the pages in use take memory.
    pub max_queries: usize,
    /// Queries under way of one connection; no more are read from it meanwhile.
    pub max_queries_in_flight: usize,
    /// Queries of one connection in all; then it is closed.
    pub max_queries_per_connection: u64,
    /// A connection without a query is closed after this time, or sooner when few places are left.
    pub idle_timeout_ms: u64,
    /// The time for the rest of a query, for a handshake, and for a client to read what was sent to it.
    pub io_timeout_ms: u64,
    /// Bytes of answers that wait for one connection's client to read.
    pub max_buffered_bytes: ByteSize,
    /// The same of all connections together.
    pub max_buffered_bytes_in_all: ByteSize,
}

impl Streams {
    /// Whether there are clients over any such transport.
    pub fn are_configured(&self) -> bool {
        [&self.tcp, &self.tls, &self.https, &self.quic].iter().any(|listed| !listed.is_empty())
    }

    /// Whether some transport needs a certificate.
    pub fn are_encrypted(&self) -> bool {
        [&self.tls, &self.https, &self.quic].iter().any(|listed| !listed.is_empty())
    }
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            tcp: Vec::new(),
            tls: Vec::new(),
            https: Vec::new(),
            quic: Vec::new(),
            certificate: None,
            key: None,
            https_path: "/dns-query".to_owned(),
            name: None,
            proxy_protocol: Vec::new(),
            threads: 1,
            cores: Vec::new(),
            max_connections: 4096,
            max_connections_per_prefix: 256,
            max_queries: 2048,
            max_queries_in_flight: 64,
            max_queries_per_connection: 1_000_000,
            idle_timeout_ms: 30_000,
            io_timeout_ms: 5_000,
            max_buffered_bytes: ByteSize(256 << 10),
            max_buffered_bytes_in_all: ByteSize::mebibytes(64),
        }
    }
}
