//! The slow path against upstreams on loopback: what clients get, whatever the upstreams do.
//!
//! Tests wait for what must happen and never measure how long it took.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod answers;
mod bounds;
mod dnssec;
mod encrypted;
mod explained;
mod faults;
mod forgery;
mod garden;
mod groups;
mod judged;
mod late;
mod lives;
mod nxdomain;
mod orders;
mod outages;
mod prefetch;
mod relayed;
mod rig;
mod server;
mod shares;
mod signed;
mod stale;
mod stub;
mod subnets;
mod suspicion;
mod views;
