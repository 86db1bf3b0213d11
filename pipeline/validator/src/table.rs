//! The knowledge about zones, shared by all jobs, and bounded.

use std::sync::Arc;

use lru::LruCache;

use crate::limits::ValidatorLimits;
use crate::name::Name;
use crate::rdata::Ds;
use crate::sets::Zone;

/// What is known about a name.
#[derive(Clone, Debug)]
pub(crate) enum NameStatus {
    /// Nothing but a failure.
    Unknown,
    /// A zone with trusted keys.
    Secure(Arc<Zone>),
    /// A delegation with these DS records; its keys are not known yet.
    Signed(Arc<[Ds]>),
    /// A delegation that is not signed: nor is anything below.
    Insecure,
    /// A name of the zone above.
    Inside,
    /// No such name in the zone above: no cut here nor below.
    NoName,
}

#[derive(Debug)]
struct NameStatusEntry {
    state: NameStatus,
    /// Seconds since 1970, as below.
    expires: u64,
    /// What went wrong with the next question about it, and until when that holds.
    failure: Option<(u16, u64)>,
}

/// States by name.
#[derive(Debug)]
pub(crate) struct NameStatusTable {
    entries: LruCache<Name, NameStatusEntry>,
    bytes: usize,
    limits: ValidatorLimits,
}

/// Bytes of an entry beside what its state holds: the entry itself twice, for the list and the index.
const ENTRY_LEN: usize = 2 * size_of::<NameStatusEntry>() + 64;

impl NameStatusTable {
    pub(crate) fn new(limits: ValidatorLimits) -> Self {
        // Memory is taken as entries come, so that a validator that sees few zones is small.
        Self { entries: LruCache::unbounded(), bytes: 0, limits }
    }

    /// What is known about a name.
    pub(crate) fn state(&mut self, name: &[u8], now: u64) -> Option<&NameStatus> {
        let entry = self.entries.get(name)?;
        let is_known = entry.expires > now && !matches!(entry.state, NameStatus::Unknown);
        is_known.then_some(&entry.state)
    }

    /// Why the last question about it failed, a moment ago.
    pub(crate) fn failure(&self, name: &[u8], now: u64) -> Option<u16> {
        let (why, until) = self.entries.peek(name)?.failure?;
        (until > now).then_some(why)
    }

    /// Keeps a state for so many seconds, or less.
    pub(crate) fn keep(&mut self, name: &[u8], state: NameStatus, seconds: u32, now: u64) {
        let seconds = seconds.min(self.limits.zone_seconds);
        // A state that is for no time at all is for those who wait for it.
        let expires = now + u64::from(seconds.max(1));
        self.put(name, NameStatusEntry { state, expires, failure: None });
    }

    /// Remembers that a question about a name failed. Earlier knowledge about it stays.
    pub(crate) fn fail(&mut self, name: &[u8], why: u16, now: u64) {
        let until = now + u64::from(self.limits.failure_seconds);
        match self.entries.get_mut(name) {
            Some(entry) => entry.failure = Some((why, until)),
            None => self.put(name, NameStatusEntry::failed(why, until)),
        }
    }

    fn put(&mut self, name: &[u8], entry: NameStatusEntry) {
        self.bytes += size(name, &entry);
        if let Some(before) = self.entries.put(name.into(), entry) {
            self.bytes -= size(name, &before);
        }
        while self.entries.len() > self.limits.zones || self.bytes > self.limits.zone_bytes {
            let Some((name, entry)) = self.entries.pop_lru() else { return };
            self.bytes -= size(&name, &entry);
        }
    }
}

impl NameStatusEntry {
    fn failed(why: u16, until: u64) -> Self {
        Self { state: NameStatus::Unknown, expires: 0, failure: Some((why, until)) }
    }
}

fn size(name: &[u8], entry: &NameStatusEntry) -> usize {
    let held: usize = match &entry.state {
        NameStatus::Secure(zone) => zone.keys.iter().map(|key| key.data.len() + 64).sum(),
        NameStatus::Signed(all) => all.iter().map(|ds| ds.digest.len() + 64).sum(),
        _ => 0,
    };
    ENTRY_LEN + 2 * name.len() + held
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(zones: usize, zone_bytes: usize) -> NameStatusTable {
        NameStatusTable::new(ValidatorLimits { zones, zone_bytes, ..ValidatorLimits::default() })
    }

    #[test]
    fn the_table_is_bounded_by_entries_and_bytes() {
        let mut few = table(3, usize::MAX);
        let mut small = table(usize::MAX, 3 * (ENTRY_LEN + 6) + 1);
        for one in 0..10u8 {
            for table in [&mut few, &mut small] {
                table.keep(&[1, one, 0], NameStatus::Inside, 100, 0);
                table.fail(&[1, one, 0], 6, 0);
            }
        }
        for table in [&mut few, &mut small] {
            assert_eq!(table.entries.len(), 3);
            assert!(table.state(&[1, 6, 0], 1).is_none() && table.state(&[1, 7, 0], 1).is_some());
            assert_eq!(table.bytes, 3 * (ENTRY_LEN + 6));
        }
    }

    #[test]
    fn states_and_failures_end_at_their_times() {
        let mut table = table(9, usize::MAX);
        table.keep(&[0], NameStatus::Insecure, 10, 100);
        table.fail(&[0], 6, 100);
        assert_eq!(table.failure(&[0], 100), Some(6));
        assert_eq!(table.failure(&[0], 101), None);
        assert!(table.state(&[0], 109).is_some() && table.state(&[0], 110).is_none());
        table.fail(&[1, 1, 0], 9, 100);
        assert!(table.state(&[1, 1, 0], 100).is_none(), "a failure says nothing about the name");
    }
}
