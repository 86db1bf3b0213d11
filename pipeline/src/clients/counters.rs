//! Counters of the client table.

use pmdns_counters::counters;

counters! {
    /// The counters of the client table.
    ClientCounters,
    /// The counters of the client table, read at one time.
    ClientSnapshot {
        /// Prefixes with a view.
        entries: gauge,
        /// Prefixes that fit into the table.
        max_entries: gauge,
        /// Prefixes of which something was said at run time.
        at_run_time: gauge,
        /// Prefixes set and removed at run time.
        changes: counter,
        /// Calls that were refused.
        refused: counter,
        /// Prefixes that had no room: of the file, or of the journal.
        left_out: counter,
        /// Failures of the disk under the journal.
        failures: counter,
    }
}
