//! Why there is no ruleset.

use std::path::PathBuf;

use pmdns_config::NameError;
use pmdns_config::files::FileError;
use pmdns_config::limits::MAX_LIST_NAMES;

use crate::policy::local_error::LocalDataError;
use crate::policy::rpz::RpzError;

/// Why there is no ruleset.
#[derive(Debug, thiserror::Error)]
pub enum RulesetError {
    /// Local data contradict themselves.
    #[error(transparent)]
    Local(#[from] LocalDataError),
    /// A policy zone cannot be used.
    #[error("{}: {problem}", file.display())]
    Rpz {
        /// Its file.
        file: PathBuf,
        /// What is wrong with it.
        problem: RpzError,
    },
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A blocked name is no name.
    #[error("block.names: {0}")]
    Block(#[from] NameError),
    /// A name of a redirection is none.
    #[error("redirect: {0}")]
    Redirect(NameError),
    /// A name that is excepted from a rule about rebinding is none.
    #[error("rebinding.except: {0}")]
    Rebinding(NameError),
    /// A forwarded zone is no name.
    #[error("forward.zone: {0}")]
    Forward(NameError),
    /// There are more names than there is room for.
    #[error("block.names: there are more than {MAX_LIST_NAMES} blocked names; remove some")]
    TooMany,
}
