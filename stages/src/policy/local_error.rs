//! Why local records, or those of a policy zone, cannot be served.

use super::names::MAX_NAMES;

/// CNAME records in one answer, as many as upstreams may have in theirs.
pub(super) const MAX_CNAMES: usize = 16;

/// Why local data cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocalDataError {
    /// Bytes that should be a name are none.
    #[error("the bytes `{name}` are not one whole domain name")]
    Name {
        /// The bytes, escaped.
        name: String,
    },
    /// RFC 1034 section 3.6.2.
    #[error(
        "local name `{name}` has a CNAME record and another record. A CNAME record must be the only \
         one of its name. Remove it or the others"
    )]
    CnameNotAlone {
        /// The owner of the records.
        name: String,
    },
    /// A zone has one start of authority.
    #[error(
        "local name `{name}` has more than one SOA record; remove all but one, or all but one of the files that have it"
    )]
    TwoSoas {
        /// The owner of the records.
        name: String,
    },
    /// A DNAME record that cannot be meant (RFC 6672 sections 2.4 and 3.3).
    #[error(
        "local name `{name}` has two DNAME records, or is a wildcard with one. Remove one, or the wildcard"
    )]
    DnameNotAlone {
        /// The owner of the records.
        name: String,
    },
    /// A name that a DNAME record hides (RFC 6672 section 2.4).
    #[error(
        "local name `{name}` is below `{owner}`, whose DNAME record stands for all names there. Remove one of them"
    )]
    BelowDname {
        /// The name below.
        name: String,
        /// The owner of the DNAME record.
        owner: String,
    },
    /// A DNAME record in a policy zone.
    #[error("`{name}` has a DNAME record, which is no rule; write a CNAME record of a wildcard")]
    DnameIsNoRule {
        /// The owner of the record.
        name: String,
    },
    /// An answer that could not be sent.
    #[error(
        "the answer for local name `{name}` and type {rtype} has {bytes} bytes of records, but an \
         answer has room for {room}. Remove some of its records"
    )]
    TooLong {
        /// The owner of the records.
        name: String,
        /// Their type.
        rtype: u16,
        /// The length of the records.
        bytes: usize,
        /// The length that would do.
        room: usize,
    },
    /// More names than a table can hold.
    #[error("there are more than {MAX_NAMES} local names, or their answers; remove some")]
    TooMany,
}
