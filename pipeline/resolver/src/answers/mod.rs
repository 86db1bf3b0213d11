//! Answers: what clients get, from an upstream, from the cache, or by a rule.

pub(crate) mod aliases;
pub(crate) mod nxdomain_cut;
pub(crate) mod responder;
pub(crate) mod stale;
pub(crate) mod subnets;
