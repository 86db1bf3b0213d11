//! A version of a zone, and how the next one is assembled from a primary's transfer (RFC 5936, RFC 1995).

use std::collections::HashMap;
use std::time::Duration;

use domain::base::Serial;
use pmdns_config::LocalRecord;

/// Record type SOA (RFC 1035 section 3.2.2).
const SOA: u16 = 6;
/// Bytes of an SOA record's numbers, which are the end of its data.
const NUMBERS: usize = 20;

/// Bytes that the allocator adds to a part of a record, about.
const ALLOCATION: usize = 16;

/// Bytes that a record takes in memory: itself, its owner and its data.
pub(super) fn size_in_memory(record: &LocalRecord) -> usize {
    size_of::<LocalRecord>() + record.name.len() + record.data.len() + 2 * ALLOCATION
}

/// An error in a primary's transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum VersionError {
    /// A transfer must begin with the SOA record of the version.
    #[error("the transfer does not begin with the zone's SOA record")]
    NoSoa,
    /// An SOA record is where none may be.
    #[error("an SOA record is at a wrong place")]
    StraySoa,
    /// The differences do not lead from our version to the next, and so on to the last.
    #[error("the differences do not lead from one version to the next")]
    Broken,
    /// The differences are from another version than ours, though it has the same serial.
    #[error(
        "the differences remove records that do not exist, or add records that do; the whole zone is asked for"
    )]
    Inexact,
    /// There are records after the last one.
    #[error("the transfer has records after its end")]
    GoesOn,
    /// Records are missing at the end.
    #[error("the transfer is cut short")]
    CutOff,
}

/// The numbers of an SOA record (RFC 1035 section 3.3.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Soa {
    pub(super) serial: Serial,
    pub(super) refresh: Duration,
    pub(super) retry: Duration,
    pub(super) expire: Duration,
}

impl Soa {
    /// The numbers of `record`, if it is a zone's.
    pub(super) fn of(record: &LocalRecord, zone: &[u8]) -> Option<Self> {
        if record.rtype != SOA || *record.name != *zone {
            return None;
        }
        let numbers = record.data.len().checked_sub(NUMBERS)?;
        let (numbers, _) = record.data[numbers..].as_chunks();
        let [serial, refresh, retry, expire, _] = numbers else { return None };
        let seconds = |number: &[u8; 4]| Duration::from_secs(u32::from_be_bytes(*number).into());
        Some(Self {
            serial: Serial(u32::from_be_bytes(*serial)),
            refresh: seconds(refresh),
            retry: seconds(retry),
            expire: seconds(expire),
        })
    }
}

/// The identity of a record: owner, type and data.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Identity {
    name: Box<[u8]>,
    rtype: u16,
    data: Box<[u8]>,
}

fn apart(LocalRecord { name, rtype, ttl, data }: LocalRecord) -> (Identity, u32) {
    (Identity { name, rtype, data }, ttl)
}

fn together(Identity { name, rtype, data }: Identity, ttl: u32) -> LocalRecord {
    LocalRecord { name, rtype, ttl, data }
}

/// The sort key of a record in a zone.
fn place(record: &LocalRecord) -> (bool, &[u8], u16, &[u8]) {
    (record.rtype != SOA, &record.name, record.rtype, &record.data)
}

/// The change of one record by differences.
#[derive(Debug)]
struct Change {
    /// Whether our version has the record.
    was: bool,
    /// Its TTL in the new version, if it has the record.
    is: Option<u32>,
}

/// The differences between our version and another.
#[derive(Debug, Default)]
pub(super) struct Changes(HashMap<Identity, Change>);

impl Changes {
    fn delete(&mut self, record: LocalRecord) {
        let (identity, _) = apart(record);
        self.0.entry(identity).or_insert(Change { was: true, is: None }).is = None;
    }

    fn add(&mut self, record: LocalRecord) {
        let (identity, ttl) = apart(record);
        self.0.entry(identity).or_insert(Change { was: false, is: None }).is = Some(ttl);
    }

    /// Applies the changes to `records`.
    fn apply(self, records: Vec<LocalRecord>) -> Result<Vec<LocalRecord>, VersionError> {
        let Self(changes) = self;
        let (mut next, mut missing) = (Vec::with_capacity(records.len()), 0);
        missing += changes.values().filter(|change| change.was).count();
        for record in records {
            let (identity, ttl) = apart(record);
            match changes.get(&identity) {
                None => next.push(together(identity, ttl)),
                Some(Change { was: true, .. }) => missing = missing.saturating_sub(1),
                Some(Change { was: false, .. }) => return Err(VersionError::Inexact),
            }
        }
        if missing > 0 {
            return Err(VersionError::Inexact);
        }
        let added = changes.into_iter().filter_map(|(identity, one)| Some((identity, one.is?)));
        next.extend(added.map(|(identity, ttl)| together(identity, ttl)));
        Ok(next)
    }
}

/// The result of a transfer.
#[derive(Debug)]
pub(super) enum Transferred {
    /// There is no newer version.
    Nothing,
    /// The whole zone.
    Whole(Vec<LocalRecord>),
    /// The differences from our version, and the SOA record of the new one.
    Changes(Changes, LocalRecord),
}

impl Transferred {
    /// The records of the new version, the SOA record first. `held` gives the records of our version.
    pub(super) fn records<E: From<VersionError>>(
        self,
        zone: &[u8],
        held: impl FnOnce() -> Result<Vec<LocalRecord>, E>,
    ) -> Result<Vec<LocalRecord>, E> {
        match self {
            Self::Nothing => held(),
            Self::Whole(mut records) => {
                // RFC 5936 section 2.2: a record that comes twice counts once.
                records.sort_unstable_by(|a, b| place(a).cmp(&place(b)));
                records.dedup_by(|a, b| place(a) == place(b));
                Ok(records)
            }
            Self::Changes(changes, soa) => {
                let mut records = held()?;
                records.retain(|record| Soa::of(record, zone).is_none());
                let records = changes.apply(records)?;
                Ok([vec![soa], records].concat())
            }
        }
    }
}

/// Assembles a transfer, record by record.
#[derive(Debug)]
pub(super) struct Assembly {
    zone: Box<[u8]>,
    /// The version that differences were asked from; `None`: the whole zone was asked for.
    from: Option<Serial>,
    /// The SOA record of the version that is sent.
    last: Option<(LocalRecord, Soa)>,
    part: TransferPart,
}

/// Which part of a transfer comes next.
#[derive(Debug)]
enum TransferPart {
    /// The SOA record of the version that is sent.
    First,
    /// The record that tells a whole zone from differences.
    Second,
    /// A record of the whole zone.
    Whole(Vec<LocalRecord>),
    /// A record to remove from the version `from`.
    Deletions { changes: Changes },
    /// A record to add for the version `to`.
    Additions { changes: Changes, to: Serial },
    /// Nothing.
    End(Transferred),
}

impl Assembly {
    pub(super) fn new(zone: &[u8], from: Option<Serial>) -> Self {
        Self { zone: zone.into(), from, last: None, part: TransferPart::First }
    }

    /// Takes the next record.
    pub(super) fn take(&mut self, record: LocalRecord) -> Result<(), VersionError> {
        let soa = Soa::of(&record, &self.zone);
        if record.rtype == SOA && soa.is_none() {
            return Err(VersionError::StraySoa);
        }
        self.part = match (std::mem::replace(&mut self.part, TransferPart::First), soa) {
            (TransferPart::First, None) => return Err(VersionError::NoSoa),
            (TransferPart::First, Some(soa)) => {
                // RFC 1995 section 2: a secondary that already has the newest version gets only its SOA record.
                let is_news = self.from.is_none_or(|from| from < soa.serial);
                self.last = Some((record, soa));
                if is_news { TransferPart::Second } else { TransferPart::End(Transferred::Nothing) }
            }
            (TransferPart::Second, Some(soa)) if self.from == Some(soa.serial) => {
                TransferPart::Deletions { changes: Changes::default() }
            }
            (TransferPart::Second, None) => TransferPart::Whole(vec![record]),
            (TransferPart::Second, Some(_)) => self.close(&record, Vec::new())?,
            (TransferPart::Whole(mut records), None) => {
                records.push(record);
                TransferPart::Whole(records)
            }
            (TransferPart::Whole(records), Some(_)) => self.close(&record, records)?,
            (TransferPart::Deletions { mut changes }, None) => {
                changes.delete(record);
                TransferPart::Deletions { changes }
            }
            (TransferPart::Deletions { changes }, Some(soa)) => {
                TransferPart::Additions { changes, to: soa.serial }
            }
            (TransferPart::Additions { mut changes, to }, None) => {
                changes.add(record);
                TransferPart::Additions { changes, to }
            }
            (TransferPart::Additions { to, .. }, Some(soa)) if to != soa.serial => {
                return Err(VersionError::Broken);
            }
            (TransferPart::Additions { changes, to }, Some(_)) => match &self.last {
                Some((last, soa)) if soa.serial == to => {
                    TransferPart::End(Transferred::Changes(changes, last.clone()))
                }
                _ => TransferPart::Deletions { changes },
            },
            (TransferPart::End(_), _) => return Err(VersionError::GoesOn),
        };
        Ok(())
    }

    /// Ends a whole zone with the SOA record that it began with.
    fn close(
        &mut self,
        record: &LocalRecord,
        mut records: Vec<LocalRecord>,
    ) -> Result<TransferPart, VersionError> {
        match self.last.take() {
            Some((last, _)) if last.data == record.data => {
                records.push(last);
                Ok(TransferPart::End(Transferred::Whole(records)))
            }
            _ => Err(VersionError::StraySoa),
        }
    }

    /// Whether the last record has come.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.part, TransferPart::End(_))
    }

    /// The result, if the last record has come.
    pub(super) fn end(self) -> Result<Transferred, VersionError> {
        match self.part {
            TransferPart::End(transferred) => Ok(transferred),
            _ => Err(VersionError::CutOff),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ZONE: &str = "rpz";

    fn soa(serial: u32) -> LocalRecord {
        LocalRecord::new(ZONE, "SOA", 60, &format!("ns. admin. {serial} 2 3 4 5")).unwrap()
    }

    fn rule(name: &str) -> LocalRecord {
        LocalRecord::new(&format!("{name}.{ZONE}"), "CNAME", 60, ".").unwrap()
    }

    /// The result of these records for a secondary with the version `held`, whose first record is the SOA record.
    fn assemble(
        held: Option<&[LocalRecord]>,
        records: &[LocalRecord],
    ) -> Result<Vec<LocalRecord>, VersionError> {
        let zone = rule("a").name[2..].to_vec();
        let from = held.map(|held| Soa::of(&held[0], &zone).unwrap().serial);
        let mut assembly = Assembly::new(&zone, from);
        for record in records {
            assembly.take(record.clone())?;
        }
        let held = || Ok(held.unwrap_or_default().to_vec());
        let mut records = assembly.end()?.records::<VersionError>(&zone, held)?;
        records.sort_by_key(|record| (record.rtype != SOA, record.name.clone()));
        Ok(records)
    }

    #[test]
    fn a_whole_zone_stands_between_two_soa_records() {
        let whole = [soa(7), rule("a"), rule("b"), rule("a"), soa(7)];
        let expected = vec![soa(7), rule("a"), rule("b")];
        assert_eq!(assemble(None, &whole), Ok(expected.clone()), "twice is once");
        assert_eq!(assemble(Some(&[soa(3)]), &whole), Ok(expected), "RFC 1995 section 4");
        assert_eq!(assemble(Some(&[soa(3)]), &[soa(7), soa(7)]), Ok(vec![soa(7)]), "an empty one");
        for cut in 0..whole.len() {
            assert_eq!(assemble(None, &whole[..cut]), Err(VersionError::CutOff), "{cut}");
        }
        assert_eq!(assemble(None, &[rule("a")]), Err(VersionError::NoSoa));
        assert_eq!(assemble(None, &[soa(7), rule("a"), soa(8)]), Err(VersionError::StraySoa));
        let more = [soa(7), rule("a"), soa(7), rule("b")];
        assert_eq!(assemble(None, &more), Err(VersionError::GoesOn));
        let other = LocalRecord { name: rule("a").name, ..soa(7) };
        assert_eq!(assemble(None, &[soa(7), other]), Err(VersionError::StraySoa));
    }

    #[test]
    fn differences_are_applied_one_after_the_other() {
        let held = [soa(1), rule("a"), rule("b")];
        let differences = [
            [soa(3), soa(1), rule("a"), soa(2), rule("c")].to_vec(),
            [soa(2), rule("c"), rule("b"), soa(3), rule("a"), rule("d"), soa(3)].to_vec(),
        ]
        .concat();
        let expected = vec![soa(3), rule("a"), rule("d")];
        assert_eq!(assemble(Some(&held), &differences), Ok(expected));
        for cut in 0..differences.len() {
            let cut_off = assemble(Some(&held), &differences[..cut]);
            assert_eq!(cut_off, Err(VersionError::CutOff), "{cut}");
        }
    }

    #[test]
    fn differences_from_another_version_are_noticed() {
        let held = [soa(1), rule("a")];
        let absent = [soa(2), soa(1), rule("b"), soa(2), soa(2)];
        assert_eq!(assemble(Some(&held), &absent), Err(VersionError::Inexact));
        let present = [soa(2), soa(1), soa(2), rule("a"), soa(2)];
        assert_eq!(assemble(Some(&held), &present), Err(VersionError::Inexact));
        let gap = [soa(4), soa(1), soa(2), soa(3), soa(4), soa(4)];
        assert_eq!(assemble(Some(&held), &gap), Err(VersionError::Broken));
    }

    #[test]
    fn a_new_ttl_is_a_difference() {
        let held = [soa(1), rule("a")];
        let other = LocalRecord { ttl: 5, ..rule("a") };
        let differences = [soa(2), soa(1), rule("a"), soa(2), other.clone(), soa(2)];
        assert_eq!(assemble(Some(&held), &differences), Ok(vec![soa(2), other]));
    }

    #[test]
    fn serials_come_round() {
        // RFC 1982: 2 comes after 4294967290.
        let held = [soa(4_294_967_290), rule("a")];
        let differences = [soa(2), soa(4_294_967_290), rule("a"), soa(2), soa(2)];
        assert_eq!(assemble(Some(&held), &differences), Ok(vec![soa(2)]));
        assert_eq!(assemble(Some(&held), &[soa(4_294_967_290)]), Ok(held.to_vec()), "no news");
        assert_eq!(assemble(Some(&held), &[soa(4_294_967_289)]), Ok(held.to_vec()), "an older one");
    }

    proptest! {
        /// Differences lead from any version to any later one, in any number of steps. A missing record is noticed or
        /// harmless.
        #[test]
        fn differences_lead_to_the_last_version(
            versions in prop::collection::vec(prop::collection::btree_set("[a-f]", 0..6), 1..6),
            start: u32,
            missing in any::<prop::sample::Index>(),
        ) {
            let serial = |number: usize| start.wrapping_add(number as u32);
            let version = |number: usize| -> Vec<LocalRecord> {
                let rules = versions[number].iter().map(|name| rule(name));
                std::iter::once(soa(serial(number))).chain(rules).collect()
            };
            let last = versions.len() - 1;
            let mut differences = vec![soa(serial(last))];
            for (number, pair) in versions.windows(2).enumerate() {
                differences.push(soa(serial(number)));
                differences.extend(pair[0].difference(&pair[1]).map(|name| rule(name)));
                differences.push(soa(serial(number + 1)));
                differences.extend(pair[1].difference(&pair[0]).map(|name| rule(name)));
            }
            if last > 0 {
                differences.push(soa(serial(last)));
            }
            let held = version(0);
            prop_assert_eq!(assemble(Some(&held), &differences), Ok(version(last)));
            differences.remove(missing.index(differences.len()));
            let _ = assemble(Some(&held), &differences);
        }
    }
}
