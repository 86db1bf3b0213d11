//! Counters of a TAP's thread.

use pmdns_counters::counters;

counters! {
    /// The counters of one TAP, while its thread counts.
    TapCounters,
    /// The counters of one TAP.
    TapSnapshot {
        /// Frames that the kernel took.
        to_kernel: counter,
        /// Frames that the kernel did not take: the interface is down or gone.
        refused: counter,
        /// Frames that the kernel sent, and that went to a data core.
        from_kernel: counter,
        /// Frames that the kernel sent and that are too long for a packet buffer.
        too_long: counter,
        /// Whether the interface has carrier, as the port's link: 1 or 0.
        link_up: gauge,
        /// Whether the interface was deleted by somebody else: 1 or 0. Then nothing passes until a restart.
        gone: gauge,
    }
}
