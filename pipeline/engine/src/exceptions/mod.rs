//! The kernel behind the ports: packets for this host but not for us, and packets that the host sends.
//!
//! Each port may have a TAP, an interface of the kernel that stands for it. Data cores pass exceptions over rings to the
//! TAP's thread ([`thread`]), which writes them. It reads the kernel's frames and passes them to a data core, which sends
//! them. Data cores make no system call for this. [`interface`] makes the TAP, over vhost-net where the kernel has that, and
//! gives it the port's addresses.

#[cfg(test)]
mod fake;
pub mod interface;
mod netlink;
mod outlet;
mod thread;

pub(crate) use self::outlet::KernelOutlets;
pub(crate) use self::thread::TapRings;
pub use self::thread::{TapCounters, TapSnapshot, TapThread, run};

use pmdns_nics::MAX_BURST;
use pmdns_stages::exceptions::ExceptionClass;

/// Slots in each ring to and from the thread of a TAP.
pub const SLOTS: usize = 512;
/// Frames that the thread of a TAP keeps for a kernel without room, and that its interface holds.
pub const HELD: usize =
    ExceptionClass::ALL.len() * MAX_BURST + 2 * pmdns_nics::KERNEL_DESCRIPTORS as usize;

#[cfg(test)]
mod tests;
