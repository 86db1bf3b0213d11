//! One process takes over from another: the sockets between them, and what passes. [`pmdns_handover`] decides each step.

#[cfg(feature = "dpdk")]
mod answers;
#[cfg(feature = "dpdk")]
mod cache;
#[cfg(feature = "dpdk")]
mod channel;
#[cfg(feature = "dpdk")]
mod devices;
#[cfg(feature = "dpdk")]
mod hops;
#[cfg(feature = "dpdk")]
mod incoming;
#[cfg(feature = "dpdk")]
mod kept;
#[cfg(feature = "dpdk")]
mod obstacles;
#[cfg(feature = "dpdk")]
mod offered;
#[cfg(feature = "dpdk")]
mod outgoing;
#[cfg(feature = "dpdk")]
mod parts;
#[cfg(feature = "dpdk")]
mod passed;
#[cfg(feature = "dpdk")]
mod process;
#[cfg(feature = "dpdk")]
mod relay;
#[cfg(feature = "dpdk")]
mod taps;

#[cfg(feature = "dpdk")]
pub(crate) use self::cache::adopted;
#[cfg(feature = "dpdk")]
pub(crate) use self::devices::{is_exclusive, passed, planned};
#[cfg(feature = "dpdk")]
pub(crate) use self::hops::{known_hops, passed_hops};
#[cfg(feature = "dpdk")]
pub use self::incoming::TakeOver;
#[cfg(feature = "dpdk")]
pub(crate) use self::incoming::TakeOverStep;
#[cfg(feature = "dpdk")]
pub use self::kept::LeftByCrash;
#[cfg(feature = "dpdk")]
pub(crate) use self::kept::{FIRST, inherited};
#[cfg(feature = "dpdk")]
pub(crate) use self::obstacles::obstacle_between;
#[cfg(feature = "dpdk")]
pub(crate) use self::outgoing::HandOver;
#[cfg(feature = "dpdk")]
pub(crate) use self::parts::{OpenedForNext, Step};
#[cfg(feature = "dpdk")]
pub use self::process::HandoverError;
#[cfg(feature = "dpdk")]
pub(crate) use self::relay::RelayToBefore;
#[cfg(feature = "dpdk")]
pub(crate) use self::taps::Taps;
