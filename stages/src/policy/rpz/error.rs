//! Why a policy zone, or a rule of one, cannot be used.

use crate::policy::local_error::LocalDataError;
use crate::policy::names::MAX_NAMES;

/// Why a zone cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RpzError {
    /// It is not known what owner names are relative to.
    #[error(
        "there is no SOA record, which a policy zone has at its apex; set `origin` if names in the file are relative"
    )]
    NoApex,
    /// A record stands elsewhere.
    #[error("`{0}` is not below the zone's apex")]
    Outside(String),
    /// A prefix that is none.
    #[error(
        "`{0}` does not say an address prefix as in 24.0.2.0.192.rpz-client-ip or 48.zz.db8.2001.rpz-ip"
    )]
    Prefix(String),
    /// An action of the future.
    #[error("`{name}` has the action `{action}`, which is not known")]
    Action {
        /// The rule's owner.
        name: String,
        /// Where its CNAME record points.
        action: String,
    },
    /// Records contradict each other.
    #[error(transparent)]
    Local(#[from] LocalDataError),
    /// More rules than a table can hold.
    #[error("there are more than {MAX_NAMES} rules; split the zone, or leave out a part")]
    TooMany,
}
