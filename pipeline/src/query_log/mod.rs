//! Searches of the query log ([`pmdns_insight::query_log`]).

mod check;
pub mod find;
