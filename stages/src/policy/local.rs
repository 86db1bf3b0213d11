//! Local names, made into answers at load: one entry for each name and type.

use pmdns_config::LocalRecord;

use super::names::{MAX_NAMES, Names};
use super::zone::{Body, MAX_CNAMES, Zone};
use crate::cache::{Entry, Head, Key, Parts};
use crate::wire::dns::{CLASS_IN, Rcode, rtype};
use crate::wire::name::Seed;

/// The entry of every name and type that has no records.
const NODATA: u32 = 0;

/// No type of any record (RFC 6895 section 3.1).
const NO_TYPE: u16 = 0;

/// Why local data cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocalError {
    /// Bytes that should be a name are none.
    #[error("the bytes `{name}` are not one whole domain name")]
    Name {
        /// The bytes, escaped.
        name: String,
    },
    /// RFC 1034 section 3.6.2.
    #[error(
        "local name `{name}` has a CNAME record and another record; a CNAME record must be the only \
         one of its name: remove it or the others"
    )]
    CnameNotAlone {
        /// The owner of the records.
        name: String,
    },
    /// CNAME records that lead nowhere.
    #[error(
        "the CNAME records from local name `{name}` on go in a circle or through more than \
         {MAX_CNAMES} names; let `{name}` point at the last name directly"
    )]
    CnameChain {
        /// Where the chain starts.
        name: String,
    },
    /// An answer that could not be sent.
    #[error(
        "the answer for local name `{name}` and type {rtype} has {bytes} bytes of records, but an \
         answer over UDP has room for {room}; remove some of its records"
    )]
    TooLong {
        /// The owner of the records.
        name: String,
        /// Their type.
        rtype: u16,
        /// The length of the records.
        bytes: usize,
        /// The length that would do.
        room: usize,
    },
    /// More names than a table can hold.
    #[error("there are more than {MAX_NAMES} local or blocked names; remove some")]
    TooMany,
}

/// Local names and what is answered for them.
#[derive(Debug)]
pub(super) struct Local {
    names: Names,
    /// By the number of the name.
    nodes: Box<[Node]>,
    entries: Box<[Entry]>,
}

/// What is answered for one name: entries, by number.
#[derive(Clone, Debug)]
struct Node {
    types: Box<[(u16, u32)]>,
    /// For types it has no records of.
    other: u32,
    /// For a query of type ANY: the first records it has (RFC 8482 section 4.1).
    any: u32,
}

impl Local {
    /// The answers for these records. Which names are blocked matters for the names above local ones.
    pub(super) fn new(
        records: &[LocalRecord],
        blocked: &Names,
        seed: Seed,
    ) -> Result<Self, LocalError> {
        let zone = Zone::new(records)?;
        let between = zone.empty_names(blocked, seed);
        let count = zone.owners().count() + between.len();
        if count > MAX_NAMES {
            return Err(LocalError::TooMany);
        }
        let mut names = Names::with_capacity(count, seed);
        let mut entries = Entries { list: vec![nodata(seed)], seed };
        let mut nodes = Vec::with_capacity(count);
        for name in zone.owners() {
            names.add(name);
            nodes.push(entries.add(&zone, name)?);
        }
        for name in between {
            names.add(name);
            nodes.push(Node { types: Box::default(), other: NODATA, any: NODATA });
        }
        Ok(Self { names, nodes: nodes.into(), entries: entries.list.into() })
    }

    /// The entry that answers for this name and type, if the name is a local one.
    #[inline]
    pub(super) fn find(&self, hash: u64, name: &[u8], qtype: u16) -> Option<u32> {
        let node = &self.nodes[self.names.find(hash, name)? as usize];
        if qtype == rtype::ANY {
            return Some(node.any);
        }
        let found = node.types.iter().find(|(rtype, _)| *rtype == qtype);
        Some(found.map_or(node.other, |(_, entry)| *entry))
    }

    /// The entry with this number.
    #[inline]
    pub(super) fn entry(&self, index: u32) -> &Entry {
        &self.entries[index as usize]
    }

    /// Starts loading what a name with this hash is looked for in.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        self.names.prefetch(hash);
    }

    /// Whether there are no local names.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// The entries made so far.
struct Entries {
    list: Vec<Entry>,
    seed: Seed,
}

impl Entries {
    /// Makes the entries of one name.
    fn add(&mut self, zone: &Zone<'_>, name: &[u8]) -> Result<Node, LocalError> {
        let mut types = Vec::new();
        for rtype in zone.types(name) {
            types.push((rtype, self.push(zone, name, rtype)?));
        }
        let other = if zone.is_alias(name) {
            // The CNAME records, and nothing behind them.
            self.push(zone, name, NO_TYPE)?
        } else {
            NODATA
        };
        let any = types.first().map_or(NODATA, |(_, entry)| *entry);
        Ok(Node { types: types.into(), other, any })
    }

    fn push(&mut self, zone: &Zone<'_>, name: &[u8], rtype: u16) -> Result<u32, LocalError> {
        let body = zone.answer(name, rtype)?;
        let number = u32::try_from(self.list.len()).map_err(|_| LocalError::TooMany)?;
        self.list.push(entry(name, rtype, &body, self.seed));
        Ok(number)
    }
}

/// An answer that says there are no such records. Nothing in it depends on the name.
fn nodata(seed: Seed) -> Entry {
    const ROOT: &[u8] = &[0];
    entry(ROOT, NO_TYPE, &Body::new(ROOT.len()), seed)
}

fn entry(name: &[u8], rtype: u16, body: &Body, seed: Seed) -> Entry {
    let key = Key { name, qtype: rtype, qclass: CLASS_IN, flags: 0 };
    Entry::new(&Parts {
        key,
        hash: key.hash(seed, seed.hash(name)),
        learnt: 0,
        expires: u32::MAX,
        rcode: Rcode::NOERROR,
        flags: Head::AUTHORITATIVE,
        counts: [body.records, 0, 0],
        body: &body.bytes,
        additional_at: body.bytes.len() as u16,
        // These records are not ageing: nothing counts their TTLs down.
        ttls: &[],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::name_of;
    use crate::wire::record::Records;

    fn record(name: &str, rtype: u16, data: &[u8]) -> LocalRecord {
        LocalRecord { name: name_of(name).into(), rtype, ttl: 300, data: data.into() }
    }

    fn seed() -> Seed {
        Seed::new(*b"sixteen letters!")
    }

    fn local(records: &[LocalRecord]) -> Local {
        Local::new(records, &Names::with_capacity(0, seed()), seed()).unwrap()
    }

    /// The types of the records that the name and type are answered with; `None`: the name is not ours.
    fn answer(local: &Local, name: &str, qtype: u16) -> Option<Vec<u16>> {
        let name = name_of(name);
        let entry = local.entry(local.find(seed().hash(&name), &name, qtype)?);
        let head = entry.head();
        assert_eq!((head.learnt, head.expires, head.ttl_count), (0, u32::MAX, 0));
        assert_eq!((head.rcode, head.flags), (Rcode::NOERROR, Head::AUTHORITATIVE));
        assert_eq!(head.additional_at, head.body_len);
        let body = entry.words()[head.body_at..].iter().flat_map(|word| word.to_le_bytes());
        let body: Vec<u8> = body.take(usize::from(head.body_len)).collect();
        // A message as encode would write it, read by the reader that reads upstreams' messages.
        let count = head.counts()[0] as u8;
        let header = [0, 0, 0x84, 0, 0, 1, 0, count, 0, 0, 0, 0];
        let message = [header.as_slice(), &name, &qtype.to_be_bytes(), &[0, 1], &body].concat();
        let records = Records::new(&message).unwrap().map(Result::unwrap);
        let types = records.map(|record| record.rtype).collect();
        Some(types)
    }

    #[test]
    fn each_type_of_a_name_has_its_answer_and_other_types_have_none() {
        let local = local(&[
            record("a.example.", 28, &[0; 16]),
            record("a.example.", 1, &[192, 0, 2, 1]),
            record("a.example.", 1, &[192, 0, 2, 2]),
            record("b.example.", 16, b"\x02hi"),
        ]);
        assert_eq!(answer(&local, "a.example.", 1), Some(vec![1, 1]));
        assert_eq!(answer(&local, "A.Example.", 28), Some(vec![28]));
        assert_eq!(answer(&local, "a.example.", 16), Some(vec![]));
        assert_eq!(answer(&local, "b.example.", 16), Some(vec![16]));
        assert_eq!(answer(&local, "c.example.", 1), None);
        assert_eq!(answer(&local, "x.a.example.", 1), None);
        assert_eq!(answer(&local, "example.", 1), None, "not ours");
    }

    #[test]
    fn any_is_answered_with_the_first_records_of_the_file() {
        let local = local(&[
            record("a.example.", 28, &[0; 16]),
            record("a.example.", 1, &[192, 0, 2, 1]),
            record("w.example.", rtype::CNAME, &name_of("a.example.")),
            record("x.y.a.example.", 1, &[192, 0, 2, 1]),
        ]);
        assert_eq!(answer(&local, "a.example.", rtype::ANY), Some(vec![28]));
        assert_eq!(answer(&local, "w.example.", rtype::ANY), Some(vec![5]));
        assert_eq!(answer(&local, "y.a.example.", rtype::ANY), Some(vec![]));
    }

    #[test]
    fn aliases_answer_every_type_with_at_least_themselves() {
        let local = local(&[
            record("w.example.", rtype::CNAME, &name_of("a.example.")),
            record("a.example.", 1, &[192, 0, 2, 1]),
            record("far.example.", rtype::CNAME, &name_of("elsewhere.")),
        ]);
        assert_eq!(answer(&local, "w.example.", 1), Some(vec![5, 1]));
        assert_eq!(answer(&local, "w.example.", 28), Some(vec![5]));
        assert_eq!(answer(&local, "w.example.", 5), Some(vec![5]));
        assert_eq!(answer(&local, "far.example.", 1), Some(vec![5]));
    }

    #[test]
    fn a_name_between_local_names_exists_without_records() {
        let local = local(&[record("lan.", 1, &[0; 4]), record("a.b.lan.", 1, &[0; 4])]);
        assert_eq!(answer(&local, "b.lan.", 1), Some(vec![]));
        assert_eq!(answer(&local, ".", 1), None);
    }

    #[test]
    fn a_circle_of_aliases_is_refused_at_load() {
        let circle = [
            record("a.", rtype::CNAME, &name_of("b.")),
            record("b.", rtype::CNAME, &name_of("a.")),
        ];
        let error = Local::new(&circle, &Names::with_capacity(0, seed()), seed()).err();
        assert_eq!(error, Some(LocalError::CnameChain { name: "a.".into() }));
    }
}
