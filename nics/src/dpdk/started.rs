//! The state that a running port and its queues share.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

use dpdk_sys::rte_eth_stats;

use super::mempool::{FastFree, Mempool};
use super::port::Device;
use crate::PortStats;

/// The part that a running port and its queues share. The port stops when the last of them goes.
pub(super) struct Started {
    // Dropped in this order: the device gives its frames back before the pool goes.
    pub(super) device: Device,
    pub(super) _fast_free: Option<FastFree>,
    pub(super) _pool: Mempool,
    /// Received mbufs that cannot be frames: of more than one segment, or with a foreign buffer.
    pub(super) unfit: AtomicU64,
    /// Whether its RX queues have interrupts.
    pub(super) has_interrupts: bool,
}

impl Started {
    /// The counters of the port.
    pub(super) fn stats(&self) -> PortStats {
        // SAFETY: the struct is numbers.
        let mut stats: rte_eth_stats = unsafe { mem::zeroed() };
        // SAFETY: `stats` can be written; what a driver cannot tell stays zero.
        let _best_effort = unsafe { dpdk_sys::rte_eth_stats_get(self.device.id, &raw mut stats) };
        PortStats {
            rx_frames: stats.ipackets,
            rx_bytes: stats.ibytes,
            rx_missed: stats.imissed,
            rx_errors: stats.ierrors + self.unfit.load(Ordering::Relaxed),
            rx_no_buffer: stats.rx_nombuf,
            tx_frames: stats.opackets,
            tx_bytes: stats.obytes,
            tx_errors: stats.oerrors,
        }
    }
}
