//! Encrypted upstreams, as the slow path sees them. A crate of its own asks them (`pipeline/encrypted/`), because the libraries
//! for TLS, HTTP and QUIC are large, and tests of the slow path need none of them. Whoever builds an engine gives it a
//! [`LoadEncrypted`].

use std::any::Any;
use std::io;
use std::sync::Arc;

use pmdns_config::Config;
use pmdns_resolver::Roster;
use pmdns_resolver::encrypted::{EncryptedOutcome, EncryptedQuery, EncryptedReport};

/// Makes the encrypted upstreams of a configuration ready to be asked. Reading their certificates may take long.
pub type LoadEncrypted = fn(&Config) -> Result<Arc<dyn EncryptedUpstreams>, EncryptedError>;

/// Why encrypted upstreams cannot be asked.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct EncryptedError(pub Box<dyn std::error::Error + Send + Sync>);

/// Peers of a driver, which only the driver itself can read.
pub type Peers = Box<dyn Any + Send>;

/// The encrypted upstreams of a configuration, which may be asked.
pub trait EncryptedUpstreams: Send + Sync {
    /// A driver for those in the slots of `roster`, which works beside the calling thread.
    ///
    /// # Errors
    ///
    /// The system gives no thread, or the libraries refuse the settings.
    fn driver(&self, roster: &Roster) -> io::Result<Box<dyn EncryptedDriver>>;

    /// Those in the slots of `roster`, for a driver that works already.
    ///
    /// # Errors
    ///
    /// The libraries refuse the settings.
    fn peers(&self, roster: &Roster) -> io::Result<Peers>;
}

/// Asks encrypted upstreams for one thread of the slow path. None of its calls waits.
pub trait EncryptedDriver: Send {
    /// Passes a query on. Exactly one report with an outcome follows, at the latest when the time of the query has passed. Before
    /// that one more may say that it is late. If the query cannot be passed on, the error is the report for it.
    ///
    /// # Errors
    ///
    /// The driver has ended.
    fn ask(&self, query: EncryptedQuery) -> Result<(), EncryptedReport>;

    /// The next report, if there is one.
    fn report(&self) -> Option<EncryptedReport>;

    /// Takes other peers over. Those that stay keep their connections.
    fn change_peers(&mut self, peers: &mut Peers);
}

/// A change of upstreams, for one thread of the slow path.
pub enum EncryptedChange {
    /// Other peers for the driver.
    Peers(Peers),
    /// The driver, because there was none.
    Driver(Encrypted),
}

impl EncryptedChange {
    /// The change to the upstreams of `roster`. With `is_new` there was no driver.
    pub(crate) fn new(
        upstreams: &dyn EncryptedUpstreams,
        roster: &Roster,
        is_new: bool,
    ) -> io::Result<Self> {
        match is_new {
            true => Encrypted::start(upstreams, roster).map(Self::Driver),
            false => upstreams.peers(roster).map(Self::Peers),
        }
    }
}

/// The driver, if any upstream is encrypted.
pub struct Encrypted(Option<Box<dyn EncryptedDriver>>);

impl Encrypted {
    /// Starts the driver, if it has anybody to ask.
    pub(crate) fn start(upstreams: &dyn EncryptedUpstreams, roster: &Roster) -> io::Result<Self> {
        let driver = are_encrypted(roster).then(|| upstreams.driver(roster));
        Ok(Self(driver.transpose()?))
    }

    /// Passes a query on. If that is impossible, the error is the report for it.
    pub(crate) fn ask(&self, query: EncryptedQuery) -> Result<(), EncryptedReport> {
        match &self.0 {
            Some(driver) => driver.ask(query),
            None => Err(unasked(&query)),
        }
    }

    /// Applies a change, and gives back what is not used any more.
    pub(crate) fn apply(&mut self, change: &mut EncryptedChange) {
        match change {
            EncryptedChange::Driver(driver) => std::mem::swap(self, driver),
            EncryptedChange::Peers(peers) => {
                debug_assert!(self.0.is_some(), "the first encrypted upstream brings the driver");
                self.0.iter_mut().for_each(|driver| driver.change_peers(peers));
            }
        }
    }

    /// The next report, if there is one.
    pub(crate) fn receive(&self) -> Option<EncryptedReport> {
        self.0.as_ref()?.report()
    }
}

/// Whether any upstream in use is encrypted.
pub(crate) fn are_encrypted(roster: &Roster) -> bool {
    roster.in_use().iter().any(|(_, slot)| slot.upstream.address.server().is_some())
}

/// The report for a query that nobody can be asked.
pub fn unasked(query: &EncryptedQuery) -> EncryptedReport {
    let outcome = Some(EncryptedOutcome::Broken(io::ErrorKind::BrokenPipe.into()));
    EncryptedReport { slot: query.slot, outcome }
}

/// For programs without drivers: no upstream may be encrypted.
///
/// # Errors
///
/// One is.
pub fn without_encrypted(config: &Config) -> Result<Arc<dyn EncryptedUpstreams>, EncryptedError> {
    let mut upstreams = config.upstreams.iter().enumerate();
    match upstreams.find(|(_, upstream)| upstream.address.server().is_some()) {
        None => Ok(Arc::new(NobodyAsks)),
        Some((index, upstream)) => {
            let address = &upstream.address;
            let why =
                "this program asks no encrypted upstreams; write its address without a scheme";
            Err(EncryptedError(format!("upstream[{index}].address: {address}: {why}").into()))
        }
    }
}

/// For tests that ask encrypted upstreams in their own way, or not at all.
///
/// # Errors
///
/// None.
pub fn asked_by_test(_: &Config) -> Result<Arc<dyn EncryptedUpstreams>, EncryptedError> {
    Ok(Arc::new(NobodyAsks))
}

/// Upstreams that no driver asks.
struct NobodyAsks;

impl EncryptedUpstreams for NobodyAsks {
    fn driver(&self, _: &Roster) -> io::Result<Box<dyn EncryptedDriver>> {
        Ok(Box::new(Self))
    }

    fn peers(&self, _: &Roster) -> io::Result<Peers> {
        Ok(Box::new(()))
    }
}

impl EncryptedDriver for NobodyAsks {
    fn ask(&self, query: EncryptedQuery) -> Result<(), EncryptedReport> {
        Err(unasked(&query))
    }

    fn report(&self) -> Option<EncryptedReport> {
        None
    }

    fn change_peers(&mut self, _: &mut Peers) {}
}

#[cfg(test)]
mod tests {
    use pmdns_config::Upstream;

    use super::*;

    fn config(address: &str) -> Config {
        Config { upstreams: vec![Upstream::at(address.parse().unwrap())], ..Config::default() }
    }

    #[test]
    fn without_encrypted_upstreams_there_is_no_driver() {
        let config = config("192.0.2.53:53");
        let upstreams = without_encrypted(&config).unwrap_or_else(|error| panic!("{error}"));
        assert!(Encrypted::start(&*upstreams, &Roster::new(&config)).unwrap().0.is_none());
    }

    #[test]
    fn a_program_without_drivers_refuses_encrypted_upstreams() {
        let refused = without_encrypted(&config("tls://192.0.2.53")).err().map(|it| it.to_string());
        let refused = refused.expect("an error");
        assert!(refused.starts_with("upstream[0].address: tls://192.0.2.53"), "{refused}");
    }
}
