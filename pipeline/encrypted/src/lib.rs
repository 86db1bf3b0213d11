//! Upstreams over encrypted connections: TLS, HTTPS and QUIC.
//!
//! ```text
//!  loop ──EncryptedQuery──► peer, one for each upstream ──► its connection ──► upstream
//!       ◄──EncryptedReport───  (bootstrap, back-off, reuse)    (dot, doh, doq)
//! ```
//!
//! Whoever builds an engine gives it [`load`]. Then each thread of the slow path that needs it has a driver, a thread with a
//! tokio runtime. The engine knows drivers by its trait only. So a program that asks no encrypted upstreams links no library for
//! them. docs/adr/0018-encrypted-upstreams.md and docs/adr/0075-encrypted-upstreams-are-a-crate.md give the reasons.
#![deny(clippy::print_stderr, clippy::print_stdout)] // They panic when nobody reads.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::cast_possible_truncation,
        clippy::unwrap_used,
        reason = "numbers of tests are small, and a test may end"
    )
)]

mod bootstrap;
mod connection;
mod doh;
mod doq;
mod dot;
mod peer;
mod query;
pub mod roots;
mod thread;
mod trust;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use pmdns_config::Config;
use pmdns_engine::encrypted::{EncryptedDriver, EncryptedError, EncryptedUpstreams, Peers};
use pmdns_resolver::Roster;

use crate::thread::EncryptedThread;
pub use crate::trust::{UpstreamRoots, UpstreamRootsError};

/// The upstreams of a configuration.
struct Upstreams {
    trust: UpstreamRoots,
    bootstrap: Arc<[SocketAddr]>,
}

/// Reads the certificates that the encrypted upstreams of `config` are checked with.
///
/// # Errors
///
/// There are none, or they cannot be read.
pub fn load(config: &Config) -> Result<Arc<dyn EncryptedUpstreams>, EncryptedError> {
    let trust =
        UpstreamRoots::load(&config.upstreams).map_err(|error| EncryptedError(error.into()))?;
    Ok(Arc::new(Upstreams { trust, bootstrap: config.slowpath.bootstrap.clone().into() }))
}

impl EncryptedUpstreams for Upstreams {
    fn driver(&self, roster: &Roster) -> io::Result<Box<dyn EncryptedDriver>> {
        let settings = self.trust.settings(roster, &self.bootstrap).map_err(io::Error::other)?;
        Ok(Box::new(EncryptedThread::start(settings)?))
    }

    fn peers(&self, roster: &Roster) -> io::Result<Peers> {
        let settings = self.trust.settings(roster, &self.bootstrap).map_err(io::Error::other)?;
        Ok(Box::new(settings))
    }
}
