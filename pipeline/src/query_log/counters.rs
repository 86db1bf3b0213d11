//! Counters of the query log: of the cores' rings, and of each sink.

use pmdns_counters::counters;

counters! {
    /// The counters of a part of the query log.
    LogCounters,
    /// The counters of a part of the query log, read at one time.
    LogSnapshot {
        /// Records written: of `rings`, those given to the sinks.
        written: counter,
        /// Records lost, because the part is slower than the log, or its reader or disk is not there.
        lost: counter,
        /// Failures: connections that broke or were refused, and errors of the disk.
        failures: counter,
        /// Whether the part is in order: its reader is connected, its file open.
        up: gauge,
    }
}
