//! Counters of each transferred zone. The thread that transfers writes, anybody may read.

use pmdns_counters::counters;

counters! {
    /// The counters of a transferred zone.
    ZoneCounters,
    /// The counters of a transferred zone, read at one time.
    ZoneSnapshot {
        /// Serial of the version that is kept; 0 as long as there is none.
        serial: gauge,
        /// Records of that version.
        records: gauge,
        /// When a primary last told or sent the newest version, in Unix time.
        refreshed: gauge,
        /// 1: no primary could be asked for longer than the zone's SOA record allows; its rules still hold.
        expired: gauge,
        /// Attempts that failed since the last successful one.
        failing: gauge,
        /// Times that a primary had nothing new.
        unchanged: counter,
        /// New versions transferred whole.
        whole: counter,
        /// New versions transferred as differences from the one before.
        incremental: counter,
        /// Attempts that failed, for any reason.
        failures: counter,
        /// New versions refused because they are no policy zone; each is a failure as well.
        refused: counter,
        /// Notifications of a new version that were accepted.
        notified: counter,
        /// Notifications that were not accepted: not from a primary, or not signed with the zone's key.
        disbelieved: counter,
    }
}
