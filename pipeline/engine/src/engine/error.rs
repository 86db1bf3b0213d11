//! Errors of building and starting an engine.

use pmdns_config::BrokenRule;
use pmdns_nics::hugepage::ArenaError;
use pmdns_stages::cache::CacheError;
use pmdns_stages::policy::RulesetError;

use crate::encrypted::EncryptedError;
use crate::slowpath::AnchorError;

/// Why the engine could not be built.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No memory for the cache.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// The cache does not fit its memory.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The rules cannot be made ready.
    #[error(transparent)]
    Rules(#[from] RulesetError),
    /// The file with cookie secrets has changed since it was checked.
    #[error("cookies.secret_file {0}")]
    Cookies(BrokenRule),
    /// Encrypted upstreams cannot be asked.
    #[error(transparent)]
    Encrypted(#[from] EncryptedError),
    /// The trust anchors cannot be used.
    #[error(transparent)]
    Anchors(#[from] AnchorError),
    /// The system gives no random numbers.
    #[error("no random numbers from the system: {0}")]
    Random(getrandom::Error),
    /// There is no memory for the client table.
    #[error("the client table: {0}; or lower clients.max_entries")]
    Clients(ArenaError),
    /// The memory of the cache cannot be locked.
    #[error("cannot lock the cache: {0}")]
    Lock(std::io::Error),
    /// Another process writes to the cache that has been passed.
    #[error("another process still writes to the cache")]
    Locked,
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}
