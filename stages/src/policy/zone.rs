//! Local records by owner, and the wire image of what is answered with them.
//!
//! An owner name is a pointer to the question, which stands at the same place in every answer, or to the CNAME
//! record before it. CNAME records are followed as far as the local records lead; from there on a client has to
//! ask by itself.

use std::collections::{BTreeMap, BTreeSet};

use pmdns_config::LocalRecord;
use pmdns_config::limits::MAX_UDP_SIZE;

use super::local::LocalError;
use super::names::{Names, suffixes};
use crate::wire::dns::{CLASS_IN, HEADER_LEN, question_len, rtype};
use crate::wire::edns::OPT_LEN;
use crate::wire::name::{Seed, length};

/// CNAME records in one answer.
pub(super) const MAX_CNAMES: usize = 8;

/// A compression pointer (RFC 1035 section 4.1.4).
const POINTER: u16 = 0xc000;

/// Local records by their owner, in lower case. The records of an owner are in the order of the file.
pub(super) struct Zone<'r> {
    owners: BTreeMap<Vec<u8>, Vec<RecordSet<'r>>>,
}

impl<'r> Zone<'r> {
    /// The records by owner, checked against each other.
    pub(super) fn new(records: &'r [LocalRecord]) -> Result<Self, LocalError> {
        let mut owners: BTreeMap<Vec<u8>, Vec<RecordSet<'_>>> = BTreeMap::new();
        for record in records {
            check_name(&record.name)?;
            if record.rtype == rtype::CNAME {
                check_name(&record.data)?;
            }
            let sets = owners.entry(record.name.to_ascii_lowercase()).or_default();
            match sets.iter_mut().find(|set| set.rtype == record.rtype) {
                Some(set) => set.add(record),
                None => sets.push(RecordSet {
                    rtype: record.rtype,
                    ttl: record.ttl,
                    data: vec![&record.data],
                }),
            }
        }
        for (name, sets) in &owners {
            let alone = sets.len() == 1 && sets[0].data.len() == 1;
            if !alone && sets.iter().any(|set| set.rtype == rtype::CNAME) {
                return Err(LocalError::CnameNotAlone { name: text(name) });
            }
        }
        Ok(Self { owners })
    }

    /// Every name that has records.
    pub(super) fn owners(&self) -> impl Iterator<Item = &[u8]> {
        self.owners.keys().map(Vec::as_slice)
    }

    /// Whether the name has a CNAME record.
    pub(super) fn is_alias(&self, name: &[u8]) -> bool {
        self.alias(name).is_some()
    }

    /// Names that have no records but stand above one that has, as far as they are ours to answer for: below
    /// another local name, or blocked. They exist (RFC 4592 section 2.2.2), and NXDOMAIN for them
    /// would deny the local names below (RFC 8020). Those above all our names are the business of whoever
    /// serves them: a local www.example.com must not hide example.com.
    pub(super) fn empty_names(&self, blocked: &Names, seed: Seed) -> BTreeSet<&[u8]> {
        let above = self.owners.keys().flat_map(|owner| suffixes(owner).skip(1));
        let is_ours = |name: &[u8]| {
            let below_ours = suffixes(name).skip(1).any(|above| self.owners.contains_key(above));
            below_ours || blocked.covers(seed.hash(name), name)
        };
        above.filter(|name| !self.owners.contains_key(*name) && is_ours(name)).collect()
    }

    /// The CNAME record of a name and where it points, if it has one.
    fn alias(&self, name: &[u8]) -> Option<(&RecordSet<'r>, Vec<u8>)> {
        let set = self.owners.get(name)?.first().filter(|set| set.rtype == rtype::CNAME)?;
        Some((set, set.data.first()?.to_ascii_lowercase()))
    }

    /// The records that a query for `name` and `qtype` is answered with.
    pub(super) fn answer(&self, name: &[u8], qtype: u16) -> Result<Body, LocalError> {
        let mut body = Body::new(name.len());
        let mut owner = name.to_vec();
        let mut owner_at = HEADER_LEN;
        for _ in 0..=MAX_CNAMES {
            match self.alias(&owner) {
                Some((set, target)) if qtype != rtype::CNAME => {
                    owner_at = body.put(owner_at, set);
                    owner = target;
                }
                _ => {
                    let sets = self.owners.get(&owner).map(Vec::as_slice).unwrap_or_default();
                    if let Some(set) = sets.iter().find(|set| set.rtype == qtype) {
                        body.put(owner_at, set);
                    }
                    return body.checked(name, qtype);
                }
            }
        }
        Err(LocalError::CnameChain { name: text(name) })
    }

    /// The types that a name has records of, either itself or where its CNAME records lead.
    pub(super) fn types(&self, name: &[u8]) -> Vec<u16> {
        let mut types = Vec::new();
        let mut owner = name.to_vec();
        for _ in 0..=MAX_CNAMES {
            let sets = self.owners.get(&owner).map(Vec::as_slice).unwrap_or_default();
            types.extend(sets.iter().map(|set| set.rtype));
            let Some((_, target)) = self.alias(&owner) else { break };
            owner = target;
        }
        // Several CNAME records in a row are one type.
        let mut seen = BTreeSet::new();
        types.retain(|rtype| seen.insert(*rtype));
        types
    }
}

/// The records of one name and type.
struct RecordSet<'r> {
    rtype: u16,
    ttl: u32,
    data: Vec<&'r [u8]>,
}

impl<'r> RecordSet<'r> {
    fn add(&mut self, record: &'r LocalRecord) {
        // RFC 2181 section 5.2: the records of a set have one TTL; section 5: and are different.
        self.ttl = self.ttl.min(record.ttl);
        if !self.data.contains(&&*record.data) {
            self.data.push(&record.data);
        }
    }
}

/// The wire image of an answer's records.
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    pub(super) records: u16,
    /// Where it starts in the message.
    start: usize,
}

impl Body {
    /// An empty one behind a question for a name of this length.
    pub(super) fn new(name_len: usize) -> Self {
        Self { bytes: Vec::new(), records: 0, start: HEADER_LEN + question_len(name_len as u8) }
    }

    /// Adds records whose owner stands at `owner_at` of the message, and says where the last one's data is.
    fn put(&mut self, owner_at: usize, set: &RecordSet<'_>) -> usize {
        let mut data_at = 0;
        for data in &set.data {
            self.bytes.extend((POINTER | owner_at as u16).to_be_bytes());
            self.bytes.extend(set.rtype.to_be_bytes());
            self.bytes.extend(CLASS_IN.to_be_bytes());
            self.bytes.extend(set.ttl.to_be_bytes());
            self.bytes.extend((data.len() as u16).to_be_bytes());
            data_at = self.start + self.bytes.len();
            self.bytes.extend_from_slice(data);
            self.records = self.records.saturating_add(1);
        }
        data_at
    }

    /// The body, if it fits an answer. Then its lengths, counts and pointers fit their fields too.
    fn checked(self, name: &[u8], rtype: u16) -> Result<Self, LocalError> {
        let room = usize::from(MAX_UDP_SIZE) - self.start - OPT_LEN;
        if self.bytes.len() > room {
            let bytes = self.bytes.len();
            return Err(LocalError::TooLong { name: text(name), rtype, bytes, room });
        }
        Ok(self)
    }
}

/// Checks that the bytes are one whole name.
pub(super) fn check_name(name: &[u8]) -> Result<(), LocalError> {
    match length(name) {
        Some(len) if len == name.len() => Ok(()),
        _ => Err(LocalError::Name { name: name.escape_ascii().to_string() }),
    }
}

/// A name for people to read.
fn text(name: &[u8]) -> String {
    let labels = suffixes(name).map(|rest| {
        let len = rest.first().map_or(0, |len| usize::from(*len));
        rest.get(1..1 + len).unwrap_or(rest).escape_ascii().to_string()
    });
    let labels: Vec<_> = labels.filter(|label| !label.is_empty()).collect();
    labels.join(".") + "."
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::name_of;

    fn record(name: &str, rtype: u16, ttl: u32, data: &[u8]) -> LocalRecord {
        LocalRecord { name: name_of(name).into(), rtype, ttl, data: data.into() }
    }

    fn alias(name: &str, target: &str) -> LocalRecord {
        record(name, rtype::CNAME, 60, &name_of(target))
    }

    fn error(records: &[LocalRecord]) -> Option<LocalError> {
        Zone::new(records).err()
    }

    #[test]
    fn records_of_a_type_stand_in_file_order_with_their_least_ttl() {
        let records = [
            record("a.example.", 1, 300, &[192, 0, 2, 2]),
            record("a.example.", 16, 300, b"\x02hi"),
            record("A.example.", 1, 60, &[192, 0, 2, 1]),
            record("a.example.", 1, 90, &[192, 0, 2, 2]),
        ];
        let zone = Zone::new(&records).unwrap();
        let name = name_of("a.example.");
        let body = zone.answer(&name, 1).unwrap();
        let expected = [
            [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 2],
            [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1],
        ];
        assert_eq!((body.records, body.bytes), (2, expected.concat()));
        assert_eq!(zone.types(&name), [1, 16]);
        let none = zone.answer(&name, 28).unwrap();
        assert_eq!((none.records, none.bytes.len()), (0, 0));
    }

    #[test]
    fn cname_records_lead_to_the_records_asked_for() {
        let records = [
            alias("w.x.", "W2.x."),
            alias("w2.x.", "h.x."),
            record("h.x.", 1, 300, &[192, 0, 2, 1]),
        ];
        let zone = Zone::new(&records).unwrap();
        let name = name_of("w.x.");
        let body = zone.answer(&name, 1).unwrap();
        // The question is 5 + 4 bytes behind the header of 12; the records start at 21.
        let expected = [
            b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x06\x02W2\x01x\0".as_slice(),
            b"\xc0\x21\0\x05\0\x01\0\0\0\x3c\0\x05\x01h\x01x\0",
            b"\xc0\x33\0\x01\0\x01\0\0\x01\x2c\0\x04\xc0\0\x02\x01",
        ];
        assert_eq!((body.records, body.bytes), (3, expected.concat()));
        assert_eq!(zone.types(&name), [5, 1]);
        assert_eq!(zone.answer(&name, 28).unwrap().bytes, expected[..2].concat());
        assert_eq!(zone.answer(&name, rtype::CNAME).unwrap().bytes, expected[0]);
    }

    #[test]
    fn a_cname_record_stands_alone() {
        let (name, first, second) = ("w.x.", alias("w.x.", "a."), alias("w.x.", "b."));
        let not_alone = Some(LocalError::CnameNotAlone { name: name.into() });
        assert_eq!(error(&[first.clone(), second]), not_alone);
        assert_eq!(error(&[record(name, 1, 0, &[0; 4]), first.clone()]), not_alone);
        assert_eq!(error(&[first.clone(), first]), None, "the same record twice");
    }

    #[test]
    fn chains_have_an_end() {
        let circle = [alias("a.", "b."), alias("b.", "a.")];
        let zone = Zone::new(&circle).unwrap();
        let error = zone.answer(&name_of("a."), 1).err();
        assert_eq!(error, Some(LocalError::CnameChain { name: "a.".into() }));

        let chain: Vec<_> = (0..=MAX_CNAMES)
            .map(|step| alias(&format!("n{step}."), &format!("n{}.", step + 1)))
            .collect();
        let zone = Zone::new(&chain).unwrap();
        assert!(zone.answer(&name_of("n0."), 1).is_err());
        assert_eq!(zone.answer(&name_of("n1."), 1).unwrap().records, MAX_CNAMES as u16);
    }

    #[test]
    fn answers_that_fit_no_datagram_are_refused_at_load() {
        let records: Vec<_> =
            (0..110u8).map(|last| record("a.", 1, 60, &[192, 0, 2, last])).collect();
        let name = name_of("a.");
        let answer = |count: usize| Zone::new(&records[..count]).unwrap().answer(&name, 1);
        // 1680 bytes less header, question and OPT record: 1650, and 16 for each record.
        assert!(answer(103).is_ok());
        let Err(LocalError::TooLong { bytes, room, .. }) = answer(104) else {
            panic!("104 records of 16 bytes do not fit")
        };
        assert_eq!((bytes, room), (1664, 1650));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let name = Box::from(b"\x03www".as_slice());
        let broken = LocalRecord { name, ..record("a.", 1, 60, &[0; 4]) };
        assert_eq!(error(&[broken]), Some(LocalError::Name { name: "\\x03www".into() }));
        assert!(error(&[record("a.", rtype::CNAME, 60, b"\xc0\x0c")]).is_some());
    }

    #[test]
    fn empty_names_lie_between_our_own_names() {
        let seed = Seed::new([7; 16]);
        let records = [
            record("a.b.c.lan.", 1, 60, &[0; 4]),
            record("lan.", 1, 60, &[0; 4]),
            record("www.ads.example.com.", 1, 60, &[0; 4]),
        ];
        let mut blocked = Names::with_capacity(1, seed);
        blocked.add(&name_of("ads.example.com."));
        let zone = Zone::new(&records).unwrap();
        let empty: Vec<String> = zone.empty_names(&blocked, seed).into_iter().map(text).collect();
        // Not example.com, com and the root, which are not ours.
        assert_eq!(empty, ["b.c.lan.", "c.lan.", "ads.example.com."]);
    }
}
