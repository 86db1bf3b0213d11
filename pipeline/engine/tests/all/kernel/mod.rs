//! The slow path as it is: on threads, with the kernel's sockets.
//!
//! Tests wait for what must happen and never measure how long it took. What does not depend on sockets is tested in
//! `slowpath/`, where nobody waits.

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
    pmdns_engine::encrypted::without_encrypted;

#[path = "../../rig/both.rs"]
mod both;
mod driver;
#[expect(dead_code, reason = "the tests of `slowpath/` use more of it")]
#[path = "../../rig/mod.rs"]
mod rig;
#[path = "../slowpath/signed.rs"]
mod signed;
mod sockets;
mod stub;
mod threads;
