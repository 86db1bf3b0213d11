//! The upstreams in use, and their changes by a reload, which are built aside for each thread of the slow path.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use pmdns_config::Config;
use pmdns_resolver::{Roster, RosterError, Settings};

use crate::encrypted::{EncryptedChange, EncryptedError, LoadEncrypted, are_encrypted};

/// Why upstreams cannot be taken over.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamsError {
    /// There is no slot for one of them.
    #[error("{1}")]
    Roster(usize, RosterError),
    /// One is encrypted, and cannot be asked.
    #[error(transparent)]
    Encrypted(#[from] EncryptedError),
    /// The system gives no threads.
    #[error("upstream: {0}")]
    System(#[from] io::Error),
}

impl UpstreamsError {
    /// The key that is to blame, if it is one of the file.
    pub fn key(&self) -> Option<String> {
        match self {
            Self::Roster(place, RosterError::OverPort) => Some(format!("upstream[{place}].port")),
            Self::Roster(place, RosterError::Full) => Some(format!("upstream[{place}]")),
            Self::Encrypted(_) | Self::System(_) => None,
        }
    }
}

/// The upstreams in use. Copies show the same. No data core asks.
#[derive(Clone, Debug)]
pub struct UpstreamsInUse {
    now: Arc<Mutex<InUse>>,
    load_encrypted: LoadEncrypted,
}

#[derive(Clone, Debug)]
struct InUse {
    roster: Arc<Roster>,
    /// Whether drivers of encrypted upstreams run.
    has_drivers: bool,
}

/// The changes for one thread of the slow path.
pub struct ResolverUpdate {
    /// For its resolver.
    pub settings: Settings,
    /// For the driver beside it; none: it never had an encrypted upstream.
    pub encrypted: Option<EncryptedChange>,
}

/// The changes for all of them.
pub struct UpstreamsUpdate {
    next: InUse,
    /// By thread.
    pub(crate) threads: Vec<ResolverUpdate>,
}

impl UpstreamsInUse {
    /// Those of the start. Encrypted ones that come later are loaded by `load_encrypted`.
    pub fn new(config: &Config, load_encrypted: LoadEncrypted) -> Self {
        let roster = Arc::new(Roster::new(config));
        let now = InUse { has_drivers: are_encrypted(&roster), roster };
        Self { now: Arc::new(Mutex::new(now)), load_encrypted }
    }

    /// The upstreams by slot.
    pub fn roster(&self) -> Arc<Roster> {
        self.now().roster
    }

    /// The address of the upstream in a slot, which may have left.
    pub fn address(&self, slot: usize) -> Option<String> {
        let roster = self.roster();
        roster.slots().get(slot).map(|slot| slot.upstream.address.to_string())
    }

    /// Builds what another configuration changes for so many threads.
    pub(crate) fn build(
        &self,
        config: &Config,
        threads: usize,
    ) -> Result<UpstreamsUpdate, UpstreamsError> {
        let InUse { roster, has_drivers } = self.now();
        let roster = roster
            .with_config(config)
            .map_err(|(place, error)| UpstreamsError::Roster(place, error))?;
        let upstreams = (self.load_encrypted)(config)?;
        let next =
            InUse { has_drivers: has_drivers || are_encrypted(&roster), roster: roster.into() };
        let threads = (0..threads).map(|_| {
            let change = || EncryptedChange::new(&*upstreams, &next.roster, !has_drivers);
            let encrypted = next.has_drivers.then(change).transpose()?;
            let settings = Settings::new(config, Roster::clone(&next.roster))?;
            Ok::<_, io::Error>(ResolverUpdate { settings, encrypted })
        });
        Ok(UpstreamsUpdate { threads: threads.collect::<Result<_, _>>()?, next })
    }

    /// What was built comes into use.
    pub(crate) fn set(&self, update: &UpstreamsUpdate) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = update.next.clone();
    }

    fn now(&self) -> InUse {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
