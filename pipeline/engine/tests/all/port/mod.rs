//! The slow path against the same upstreams as in `slowpath/`, which are asked over a port: by the real driver, with frames.

#![cfg(debug_assertions)]
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of tests are small"
)]

/// Whether upstreams are asked over a port.
pub(crate) const BY_PORT: bool = true;
/// Who asks encrypted upstreams.
pub(crate) const LOAD_ENCRYPTED: pmdns_engine::encrypted::LoadEncrypted =
    pmdns_engine::encrypted::asked_by_test;

#[path = "../slowpath/answers.rs"]
mod answers;
mod beside;
#[path = "../../rig/both.rs"]
mod both;
#[path = "../slowpath/bounds.rs"]
mod bounds;
#[path = "../slowpath/cache_jobs.rs"]
mod cache_jobs;
#[path = "../slowpath/dnssec.rs"]
mod dnssec;
#[path = "../slowpath/driver.rs"]
mod driver;
mod exhausted;
#[path = "../slowpath/explained.rs"]
mod explained;
#[path = "../slowpath/faults.rs"]
mod faults;
mod flood;
#[path = "../slowpath/forgery.rs"]
mod forgery;
#[path = "../slowpath/garden.rs"]
mod garden;
mod gateways;
#[path = "../slowpath/groups.rs"]
mod groups;
#[path = "../slowpath/judged.rs"]
mod judged;
#[path = "../slowpath/late.rs"]
mod late;
#[path = "../slowpath/lives.rs"]
mod lives;
#[path = "../slowpath/network.rs"]
mod network;
#[path = "../slowpath/nxdomain.rs"]
mod nxdomain;
mod only_ports;
#[path = "../slowpath/outages.rs"]
mod outages;
mod over_tcp;
#[path = "../slowpath/prefetch.rs"]
mod prefetch;
mod queues;
#[path = "../slowpath/relayed.rs"]
mod relayed;
#[expect(dead_code, reason = "the tests of `kernel/` use more of it")]
#[path = "../../rig/mod.rs"]
mod rig;
#[path = "../slowpath/shares.rs"]
mod shares;
#[path = "../slowpath/signed.rs"]
mod signed;
#[path = "../slowpath/stale.rs"]
mod stale;
#[expect(dead_code, reason = "the simulator uses more of it")]
#[path = "../../stepping/mod.rs"]
mod stepping;
#[path = "../slowpath/stub.rs"]
mod stub;
#[path = "../slowpath/subnets.rs"]
mod subnets;
#[path = "../slowpath/suspicion.rs"]
mod suspicion;
#[path = "../slowpath/views.rs"]
mod views;
mod wired;
