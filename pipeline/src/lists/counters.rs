//! Counters of each fetched list. The thread that fetches writes, anybody may read.

use pmdns_counters::counters;

counters! {
    /// The counters of a fetched list.
    ListCounters,
    /// The counters of a fetched list, read at one time.
    ListSnapshot {
        /// Names of the version that is kept; 0 as long as there is none.
        names: gauge,
        /// When the server last gave or confirmed that version, in Unix time; 0: never.
        refreshed: gauge,
        /// Attempts that failed since the last successful one.
        failing: gauge,
        /// New versions.
        fetched: counter,
        /// Times that the server had nothing new.
        unchanged: counter,
        /// Attempts that failed, for any reason.
        failures: counter,
        /// Downloads refused because they are no such list; each is a failure as well.
        refused: counter,
    }
}
