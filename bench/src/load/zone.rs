//! What the right answer is: a zone file, looked up as RFC 1034 section 4.3.2 says.

use std::collections::{HashMap, HashSet};

use domain::base::Name;
use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::name::ToName as _;
use domain::base::rdata::ComposeRecordData as _;
use domain::zonefile::inplace::{Entry, Zonefile};

/// Aliases followed in a row.
const MAX_ALIASES: usize = 8;

/// A record without its TTL. Names in it are lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// Owner in wire format.
    pub owner: Vec<u8>,
    /// Type.
    pub rtype: Rtype,
    /// Data, uncompressed.
    pub data: Vec<u8>,
}

/// What a right answer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The response code.
    pub rcode: Rcode,
    /// The records of the answer section, sorted.
    pub answer: Vec<Record>,
}

/// What a zone says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'z> {
    /// Its records, those of other types among them.
    Records(&'z [Record]),
    /// An alias, which is to be followed.
    Alias,
    /// No record of the type.
    NoData,
    /// The name does not exist.
    NoName,
}

/// A zone.
#[derive(Clone, Debug, Default)]
pub struct Zone {
    apex: Vec<u8>,
    records: HashMap<Vec<u8>, Vec<Record>>,
    /// Every name that exists, those that only have names below them too.
    names: HashSet<Vec<u8>>,
    /// Whether parts of it are delegated.
    has_delegations: bool,
}

/// Why a zone file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ZoneError {
    /// The scanner's words.
    #[error("the zone file is not well formed: {0}")]
    Syntax(String),
    /// Another file is asked for.
    #[error("the zone file has $INCLUDE, which is not followed; put everything into one file")]
    Include,
    /// No SOA record.
    #[error("the zone file has no SOA record, so nobody can tell which names it speaks for")]
    NoSoa,
    /// Data that cannot be written in wire format.
    #[error("the zone file has a record whose data is too long")]
    TooLong,
}

impl Zone {
    /// Reads a zone file.
    pub fn parse(text: &str) -> Result<Self, ZoneError> {
        let mut file = Zonefile::from(text);
        file.set_origin(Name::root_bytes());
        file.set_default_class(Class::IN);
        let mut zone = Self::default();
        loop {
            match file.next_entry() {
                Ok(None) => break,
                Ok(Some(Entry::Include { .. })) => return Err(ZoneError::Include),
                Err(error) => return Err(ZoneError::Syntax(error.to_string())),
                Ok(Some(Entry::Record(record))) => {
                    let mut owner = Vec::new();
                    let mut data = Vec::new();
                    let composed = record.owner().compose_canonical(&mut owner);
                    composed.map_err(|_| ZoneError::TooLong)?;
                    let composed = record.data().compose_canonical_rdata(&mut data);
                    composed.map_err(|_| ZoneError::TooLong)?;
                    zone.add(Record { owner, rtype: record.rtype(), data });
                }
            }
        }
        zone.has_delegations = zone.records.iter().any(|(owner, records)| {
            *owner != zone.apex && records.iter().any(|record| record.rtype == Rtype::NS)
        });
        if zone.apex.is_empty() { Err(ZoneError::NoSoa) } else { Ok(zone) }
    }

    fn add(&mut self, record: Record) {
        if record.rtype == Rtype::SOA {
            self.apex.clone_from(&record.owner);
        }
        for name in ancestors(&record.owner) {
            if !self.names.insert(name.to_vec()) {
                break;
            }
        }
        self.records.entry(record.owner.clone()).or_default().push(record);
    }

    /// The right answer to a question, whose name is in wire format. `None`: the zone cannot tell, because the name
    /// lies outside or in a delegated zone, or the type is a query type.
    pub fn answer(&self, name: &[u8], rtype: Rtype) -> Option<Expected> {
        let name = name.to_ascii_lowercase();
        if matches!(rtype.to_int(), 128..=255 | 41) || !self.is_inside(&name) {
            return None;
        }
        let mut answer = Vec::new();
        let mut rcode = Rcode::NOERROR;
        let mut at = name;
        for _ in 0..=MAX_ALIASES {
            if self.is_delegated(&at) {
                return None;
            }
            let Some(source) = self.source_of(&at) else {
                rcode = Rcode::NXDOMAIN;
                break;
            };
            let there = self.records.get(source).map_or(&[][..], Vec::as_slice);
            let found = |wanted: Rtype| there.iter().filter(move |record| record.rtype == wanted);
            let owned = |record: &Record| Record { owner: at.clone(), ..record.clone() };
            answer.extend(found(rtype).map(owned));
            if found(rtype).next().is_some() || rtype == Rtype::CNAME {
                break;
            }
            let Some(alias) = found(Rtype::CNAME).next() else { break };
            answer.push(owned(alias));
            let target = alias.data.to_ascii_lowercase();
            if !self.is_inside(&target) {
                return None;
            }
            at = target;
        }
        answer.sort_unstable();
        Some(Expected { rcode, answer })
    }

    /// The records of the zone for a name in lower case, at the name or at its wildcard. No alias is followed.
    /// `None`: the zone cannot tell.
    pub fn find(&self, name: &[u8], rtype: Rtype) -> Option<Found<'_>> {
        let is_meta = matches!(rtype.to_int(), 128..=255 | 41);
        if is_meta || !self.is_inside(name) || self.is_delegated(name) {
            return None;
        }
        let Some(source) = self.source_of(name) else { return Some(Found::NoName) };
        let there = self.records.get(source).map_or(&[][..], Vec::as_slice);
        let has = |wanted| there.iter().any(|record| record.rtype == wanted);
        match (has(rtype), has(Rtype::CNAME)) {
            (true, _) => Some(Found::Records(there)),
            (false, true) => Some(Found::Alias),
            (false, false) => Some(Found::NoData),
        }
    }

    /// The zone's own name and the data of its SOA record.
    pub fn start_of_authority(&self) -> (&[u8], &[u8]) {
        let at_apex = self.records.get(&self.apex).map_or(&[][..], Vec::as_slice);
        let soa = at_apex.iter().find(|record| record.rtype == Rtype::SOA);
        (&self.apex, soa.map_or(&[][..], |soa| &soa.data))
    }

    /// Where the records of a name stand: at the name, or at the wildcard that covers it (RFC 4592 section
    /// 3.3.1). `None`: the name does not exist.
    fn source_of<'a>(&'a self, name: &'a [u8]) -> Option<&'a [u8]> {
        if self.names.contains(name) {
            return Some(name);
        }
        let encloser = ancestors(name).skip(1).find(|ancestor| self.names.contains(*ancestor))?;
        let wildcard = [b"\x01*", encloser].concat();
        self.names.get(&wildcard).map(Vec::as_slice)
    }

    fn is_inside(&self, name: &[u8]) -> bool {
        ancestors(name).any(|ancestor| ancestor == self.apex)
    }

    /// Whether the name lies at or below an NS record that is not the zone's own.
    fn is_delegated(&self, name: &[u8]) -> bool {
        let has_ns = |ancestor: &[u8]| {
            let records = self.records.get(ancestor);
            records.is_some_and(|all| all.iter().any(|record| record.rtype == Rtype::NS))
        };
        self.has_delegations
            && ancestors(name).take_while(|ancestor| *ancestor != self.apex).any(has_ns)
    }
}

/// A name in wire format, and every name above it.
fn ancestors(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(name), |name| {
        let label = usize::from(*name.first()?);
        if label == 0 { None } else { name.get(1 + label..) }
    })
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::name_of;

    use super::*;

    const ZONE: &str = "$ORIGIN Example.\n$TTL 60\n@ SOA ns host 1 2 3 4 5\n@ NS ns\nns A 192.0.2.53\n\
        www A 192.0.2.1\nwww A 192.0.2.2\nalias CNAME Middle\nmiddle CNAME www\n\
        out CNAME www.other.\n*.wild TXT any\na.b.deep A 192.0.2.3\nsub NS ns.sub\nns.sub A 192.0.2.9\n\
        loop1 CNAME loop2\nloop2 CNAME loop1\n";

    fn ask(name: &str, rtype: Rtype) -> Option<(Rcode, usize)> {
        let zone = Zone::parse(ZONE).unwrap();
        zone.answer(&name_of(name), rtype).map(|found| (found.rcode, found.answer.len()))
    }

    #[test]
    fn what_a_zone_answers() {
        let good = |count| Some((Rcode::NOERROR, count));
        assert_eq!(ask("WWW.example.", Rtype::A), good(2));
        assert_eq!(ask("www.example.", Rtype::AAAA), good(0), "no data");
        assert_eq!(ask("alias.example.", Rtype::A), good(4), "two aliases, two addresses");
        assert_eq!(ask("alias.example.", Rtype::CNAME), good(1));
        assert_eq!(ask("x.wild.example.", Rtype::TXT), good(1));
        assert_eq!(ask("y.x.wild.example.", Rtype::TXT), good(1));
        assert_eq!(ask("b.deep.example.", Rtype::A), good(0), "an empty non-terminal");
        assert_eq!(ask("no.example.", Rtype::A), Some((Rcode::NXDOMAIN, 0)));
        assert_eq!(ask("no.www.example.", Rtype::A), Some((Rcode::NXDOMAIN, 0)));
        assert_eq!(ask("loop1.example.", Rtype::A).map(|found| found.0), Some(Rcode::NOERROR));
    }

    #[test]
    fn what_a_zone_cannot_tell() {
        assert_eq!(ask("www.other.", Rtype::A), None);
        assert_eq!(ask("out.example.", Rtype::A), None);
        assert_eq!(ask("x.sub.example.", Rtype::A), None);
        assert_eq!(ask("www.example.", Rtype::ANY), None);
    }

    #[test]
    fn what_is_wrong_with_a_zone_file_is_said() {
        let error = |text| Zone::parse(text).unwrap_err().to_string();
        assert!(error("www.example. 60 A 192.0.2.1\n").contains("SOA"));
        assert!(error("www.example. 60 A 192.0.2\n").contains("well formed"));
        assert!(error("$INCLUDE other\n").contains("INCLUDE"));
    }
}
