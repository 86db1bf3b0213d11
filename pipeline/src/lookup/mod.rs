//! `pmdns lookup`: the answer that a client would get now, and why. No upstream is asked, and nothing is counted.
//!
//! The same tables decide as on the line: access lists, rules, the cache. The thread of the slow path that has the key says what
//! a miss would lead to. The query is a plain one over UDP: class IN, recursion desired, no EDNS. Rate limits are not looked at.

mod job;
mod records;
mod report;
mod rules;

pub use job::Lookups;
pub use report::{
    CachedReport, DecidedBy, GroupReport, Lookup, LookupReport, RuleReport, UpstreamReport,
    ValidationState,
};
