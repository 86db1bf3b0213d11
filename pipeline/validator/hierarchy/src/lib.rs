//! A signed DNS hierarchy in memory, for tests of validation. It has a root, zones of every algorithm, NSEC and NSEC3,
//! wildcards and aliases. Its delegations are secure, insecure or broken.
//!
//! [`World::new`] always makes the same hierarchy. [`World::reply`] answers a question as a resolver answers a
//! forwarder that sets DO and CD. [`World::truth`] says what is true of a name, and [`oracle`] whether an answer is
//! right. At the time [`NOW`] the signatures are valid. Nothing here shares code with the validator, so that both
//! cannot have the same mistake.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "it is for tests, whose zones are small"
)]

mod authority;
mod content;
mod key;
pub mod message;
pub mod name;
pub mod oracle;
pub mod rng;
mod rsa;
mod truth;
mod world;
pub mod zone;

pub use authority::CorrectReply;
pub use key::SigningKey;
pub use message::{Message, OwnedRecord};
pub use name::Name;
pub use rng::Rng;
pub use truth::{Fact, Truth};
pub use world::World;
pub use zone::{Denial, Status, Zone};

/// When everything happens: 15 January 2027.
pub const NOW: u32 = 1_800_000_000;
/// When signatures start to be good.
pub const INCEPTION: u32 = NOW - 86_400;
/// When they end.
pub const EXPIRATION: u32 = NOW + 30 * 86_400;
/// TTL of all records.
pub const TTL: u32 = 3600;

/// Types of records.
#[expect(missing_docs, reason = "the names are those of the registry")]
pub mod rtype {
    pub const A: u16 = 1;
    pub const NS: u16 = 2;
    pub const CNAME: u16 = 5;
    pub const SOA: u16 = 6;
    pub const PTR: u16 = 12;
    pub const MX: u16 = 15;
    pub const TXT: u16 = 16;
    pub const AAAA: u16 = 28;
    pub const SRV: u16 = 33;
    pub const NAPTR: u16 = 35;
    pub const DNAME: u16 = 39;
    pub const OPT: u16 = 41;
    pub const DS: u16 = 43;
    pub const RRSIG: u16 = 46;
    pub const NSEC: u16 = 47;
    pub const DNSKEY: u16 = 48;
    pub const NSEC3: u16 = 50;
    pub const NSEC3PARAM: u16 = 51;
    pub const HTTPS: u16 = 65;
    pub const ANY: u16 = 255;
    pub const CAA: u16 = 257;
    /// A type that nobody knows.
    pub const UNKNOWN: u16 = 65_280;
}
