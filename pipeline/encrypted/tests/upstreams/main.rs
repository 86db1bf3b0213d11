//! The slow path with encrypted upstreams: real servers over TLS, HTTPS and QUIC, asked by the libraries for them.
//!
//! Tests wait for what must happen and never measure how long it took.

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
pub(crate) const LOAD_ENCRYPTED: pmdns_engine::encrypted::LoadEncrypted = pmdns_encrypted::load;

mod bootstrap;
#[expect(dead_code, reason = "the tests of the engine use more of it")]
#[path = "../../../engine/tests/all/kernel/driver.rs"]
mod driver;
mod encrypted;
#[expect(dead_code, unused_imports, reason = "the tests of the engine use more of it")]
#[path = "../../../engine/tests/rig/mod.rs"]
mod rig;
mod server;
#[expect(dead_code, reason = "the tests of the engine use more of it")]
#[path = "../../../engine/tests/all/kernel/stub.rs"]
mod stub;
