//! Upstreams: what is known of each, the queries on the way to them, and what is believed of their replies.

pub(crate) mod capabilities;
pub(crate) mod connection;
pub(crate) mod cookies;
pub mod encrypted;
pub(crate) mod exchange;
pub(crate) mod fallback;
pub(crate) mod health;
pub(crate) mod letter_case;
pub(crate) mod network;
#[cfg(test)]
mod odds;
pub(crate) mod reading;
pub(crate) mod retry;
pub(crate) mod tcp_queries;
pub(crate) mod udp_batch;
