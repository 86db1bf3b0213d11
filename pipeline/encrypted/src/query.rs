//! A query over any of the protocols: how long it may be, and how it fails.

use std::io;

/// The longest message there is (RFC 1035 section 4.2.2).
pub(crate) const MAX_MESSAGE: usize = 65_535;

/// Why a query got no reply.
#[derive(Debug)]
pub(crate) enum QueryFailure {
    /// The server refused this query; the connection stays open.
    Refused(io::Error),
    /// The connection has ended, or cannot be used any more.
    Ended(io::Error),
}
