//! Counters of heavy hitters, floods and limits.

use pmdns_counters::counters;

counters! {
    /// The counters of heavy hitters, floods and limits.
    HitterCounters,
    /// The same, read at one time.
    HitterSnapshot {
        /// Records counted for heavy hitters.
        records: counter,
        /// Records lost, because the thread that counts them got no CPU.
        lost: counter,
        /// Floods of random names that have begun.
        floods: counter,
        /// Zones that are flooded now.
        flooded: gauge,
        /// Zones that are limited now.
        limited: gauge,
        /// Misses refused, because their zone was over its limit.
        refused: counter,
    }
}
