//! `pmdns lookup`: the answer that a client would get now, and why. No upstream is asked, and nothing is counted.
//!
//! The same tables decide as on the line: access lists, rules, the cache. The thread of the slow path that has the key says what
//! a miss would lead to. The query is a plain one over UDP: class IN, recursion desired, no EDNS. Rate limits are not looked at.

mod job;
pub(crate) mod records;
pub(crate) mod rules;

use std::net::IpAddr;

pub use job::Lookups;
pub(crate) use job::octets;
pub use pmdns_control::lookup::{
    CachedReport, DecidedBy, GroupReport, LookupReport, RuleReport, UpstreamReport, ValidationState,
};

/// A lookup: its question and its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// In wire format, lower case.
    pub name: Box<[u8]>,
    /// The record type.
    pub qtype: u16,
    /// Who asks; `None`: a client in no view, which may ask.
    pub client: Option<IpAddr>,
}
