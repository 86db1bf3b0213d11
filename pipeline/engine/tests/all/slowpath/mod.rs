//! The slow path against upstreams that a script speaks for: what clients get, whatever the upstreams do.
//!
//! It is turned by hand, with a clock that stands still until nothing is left to do. So nothing depends on the machine, and
//! nobody waits. The same over the kernel's sockets, as far as these matter, is in `kernel/`.

#![cfg(debug_assertions)]
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of tests are small"
)]

/// Whether upstreams are asked over a port.
pub(crate) const BY_PORT: bool = false;
/// Who asks encrypted upstreams.
pub(crate) const LOAD_ENCRYPTED: pmdns_engine::encrypted::LoadEncrypted =
    pmdns_engine::encrypted::asked_by_test;

mod answers;
#[path = "../../rig/both.rs"]
mod both;
mod bounds;
mod cache_jobs;
mod dns64;
mod dnssec;
mod driver;
mod explained;
mod faults;
mod forgery;
mod garden;
mod groups;
mod judged;
mod late;
mod lives;
mod network;
mod nxdomain;
mod outages;
mod prefetch;
mod rebinding;
mod relayed;
mod reload;
#[expect(dead_code, reason = "the tests of `kernel/` use more of it")]
#[path = "../../rig/mod.rs"]
mod rig;
mod shares;
mod signed;
mod stale;
#[expect(dead_code, reason = "the simulator uses more of it")]
#[path = "../../stepping/mod.rs"]
mod stepping;
mod stub;
mod subnets;
mod suspicion;
mod unchanged;
mod views;
