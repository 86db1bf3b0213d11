//! Answers without some of their addresses.

use pmdns_config::narrow::{to_u8, to_u16};

use super::alias::write_rest;
use super::entry::{Entry, EntryParts, Head};
use super::key::Key;
use super::synthesis::Owner;
use crate::wire::be16;
use crate::wire::dns::{HEADER_LEN, question_len, rtype};
use crate::wire::name::length;
use crate::wire::record::{Records, Section, WireRecord};

/// Parameters of SVCB and HTTPS records (RFC 9460 section 14.3.2).
const MANDATORY: u16 = 0;
const IPV4_HINT: u16 = 4;
const IPV6_HINT: u16 = 6;

/// What becomes of a record.
enum Fate {
    Stays,
    /// It has other data.
    Changes(Vec<u8>),
    Goes,
}

impl Entry {
    /// The same answer without the addresses that are `unwanted`, of 4 or 16 bytes, in A and AAAA records and in the hints of
    /// SVCB and HTTPS records. `None`: it has none of those. `Some(None)`: nothing of what was asked for is left.
    ///
    /// Signatures of sets that have changed are left out, and nothing is authentic any more.
    pub fn without_addresses(
        &self,
        key: Key<'_>,
        unwanted: impl Fn(&[u8]) -> bool,
    ) -> Option<Option<Self>> {
        let source = self.message();
        let records: Vec<WireRecord> = Records::new(&source).ok()?.map_while(Result::ok).collect();
        let fates: Vec<Fate> = records.iter().map(|one| fate(&source, one, &unwanted)).collect();
        if fates.iter().all(|fate| matches!(fate, Fate::Stays)) {
            return None;
        }
        Some(self.with_fates(key, &source, &records, &fates))
    }

    fn with_fates(
        &self,
        key: Key<'_>,
        source: &[u8],
        records: &[WireRecord],
        fates: &[Fate],
    ) -> Option<Self> {
        let is_changed = |rtype: u16| {
            let mut both = records.iter().zip(fates);
            both.any(|(record, fate)| record.rtype == rtype && !matches!(fate, Fate::Stays))
        };
        let start = HEADER_LEN + question_len(to_u8(key.name.len()));
        let mut written = source.get(..start)?.to_vec();
        let (mut counts, mut ttls, mut owner) = ([0; 3], Vec::new(), Owner::default());
        let mut is_answered = false;
        for (record, fate) in records.iter().zip(fates) {
            let is_signature = record.rtype == rtype::RRSIG;
            let covered = be16(source, record.data_at).unwrap_or(0);
            if matches!(fate, Fate::Goes) || is_signature && is_changed(covered) {
                continue;
            }
            owner.write(source, record.start, key.name, &mut written)?;
            ttls.push(u16::try_from(written.len() + 4 - start).ok()?);
            match fate {
                Fate::Changes(data) => {
                    written.extend_from_slice(source.get(record.ttl_at - 4..record.data_at - 2)?);
                    written.extend(u16::try_from(data.len()).ok()?.to_be_bytes());
                    written.extend_from_slice(data);
                }
                _ => write_rest(source, record, 0, &mut written)?,
            }
            counts[record.section as usize] += 1;
            let leads_on = matches!(record.rtype, rtype::CNAME | rtype::DNAME);
            let is_asked = record.rtype == key.qtype || !leads_on && !is_signature;
            is_answered |= is_asked && record.section == Section::Answer;
        }
        if !is_answered || written.len() > usize::from(u16::MAX) {
            return None;
        }
        let Head { hash, learnt, expires, rcode, flags, ttl_count, .. } = self.head();
        let body = written.get(start..)?;
        Some(Self::new(&EntryParts {
            key,
            hash,
            learnt,
            expires,
            rcode,
            flags: flags & !Head::AUTHENTIC | Head::REWRITTEN,
            counts,
            body,
            optional_at: to_u16(body.len()),
            // Records by rules do not age.
            ttls: if ttl_count == 0 { &[] } else { &ttls },
        }))
    }
}

fn fate(message: &[u8], record: &WireRecord, unwanted: &impl Fn(&[u8]) -> bool) -> Fate {
    let Some(data) = message.get(record.data_at..record.end) else { return Fate::Stays };
    match (record.rtype, data.len()) {
        (rtype::A, 4) | (rtype::AAAA, 16) if unwanted(data) => Fate::Goes,
        (rtype::SVCB | rtype::HTTPS, _) => service_fate(data, unwanted),
        _ => Fate::Stays,
    }
}

/// What becomes of an SVCB or HTTPS record: priority, target, and parameters in the order of their keys (RFC 9460 section 2.2).
/// Without a hint that clients must understand there is no record.
fn service_fate(data: &[u8], unwanted: &impl Fn(&[u8]) -> bool) -> Fate {
    let Some(mut at) = data.get(2..).and_then(length).map(|len| 2 + len) else {
        return Fate::Stays;
    };
    let mut kept = data[..at].to_vec();
    let (mut mandatory, mut is_changed): (&[u8], bool) = (&[], false);
    while let Some((key, value)) = parameter(data, at) {
        let size = match key {
            IPV4_HINT => 4,
            IPV6_HINT => 16,
            _ => usize::MAX,
        };
        if key == MANDATORY {
            mandatory = value;
        }
        let wanted: Vec<u8> = match size {
            usize::MAX => value.to_vec(),
            size => value.chunks(size).filter(|one| !unwanted(one)).collect::<Vec<_>>().concat(),
        };
        is_changed |= wanted.len() < value.len();
        if !wanted.is_empty() || value.is_empty() {
            kept.extend(key.to_be_bytes());
            kept.extend(to_u16(wanted.len()).to_be_bytes());
            kept.extend(wanted);
        } else if mandatory.as_chunks::<2>().0.contains(&key.to_be_bytes()) {
            return Fate::Goes;
        }
        at += 4 + value.len();
    }
    if is_changed { Fate::Changes(kept) } else { Fate::Stays }
}

/// Key and value of the parameter at `at`.
fn parameter(data: &[u8], at: usize) -> Option<(u16, &[u8])> {
    let (key, len) = (be16(data, at)?, be16(data, at + 2)?);
    Some((key, data.get(at + 4..at + 4 + usize::from(len))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ReplyRecord as Written, entry_of, name_of, query};
    use crate::wire::name::Seed;

    /// The answer to a query without addresses that begin with 10.
    fn without_ten(asked: &str, records: &[Written]) -> Option<Option<Entry>> {
        let query = query(asked);
        let key = Key { name: &query.name, qtype: query.qtype, qclass: 1, flags: 0 };
        let entry = entry_of(&query, records, 5, Seed::new([1; 16]));
        let rest = entry.without_addresses(key, |address| address[0] == 10);
        if let Some(Some(rest)) = &rest {
            let (before, after) = (entry.head(), rest.head());
            assert_eq!((after.hash, after.learnt, after.expires), (before.hash, 5, before.expires));
            assert_eq!(after.flags, Head::REWRITTEN);
            let message = rest.message();
            let left: Vec<WireRecord> =
                Records::new(&message).unwrap().map(Result::unwrap).collect();
            assert_eq!(usize::from(after.ttl_count), left.len());
        }
        rest
    }

    fn records(entry: &Entry) -> Vec<(u16, u32, Vec<u8>)> {
        let message = entry.message();
        let records = Records::new(&message).unwrap().map(Result::unwrap);
        records.map(|one| (one.rtype, one.ttl, message[one.data_at..one.end].to_vec())).collect()
    }

    fn address(last: u8, ttl: u32, first: u8) -> Written {
        (0, rtype::A, ttl, vec![first, 0, 0, last])
    }

    #[test]
    fn only_what_is_unwanted_goes() {
        assert!(without_ten("www.example. A", &[address(1, 60, 192)]).is_none());
        let rest = without_ten("www.example. A", &[address(1, 60, 10), address(2, 70, 192)]);
        assert_eq!(records(&rest.unwrap().unwrap()), [(rtype::A, 70, vec![192, 0, 0, 2])]);
        assert!(without_ten("www.example. A", &[address(1, 60, 10)]).unwrap().is_none());
    }

    #[test]
    fn aliases_stay_before_what_is_left_and_alone_they_are_nothing() {
        let alias = |target: &str| (0, rtype::CNAME, 30, name_of(target));
        let both = [alias("a.example."), address(1, 60, 10), address(2, 70, 192)];
        let rest = without_ten("www.example. A", &both).unwrap().unwrap();
        let types: Vec<u16> = records(&rest).iter().map(|(rtype, ..)| *rtype).collect();
        assert_eq!(types, [rtype::CNAME, rtype::A]);
        assert!(without_ten("www.example. A", &both[..2]).unwrap().is_none());
    }

    #[test]
    fn hints_of_services_are_cleaned() {
        let head = [&[0, 1][..], &name_of("svc.example.")].concat();
        let alpn = [0, 1, 0, 3, 2, b'h', b'2'];
        let hints = [0, 4, 0, 8, 10, 0, 0, 1, 192, 0, 2, 1];
        let ipv6 = [&[0, 6, 0, 16, 10][..], &[0; 15]].concat();
        let service = |parts: &[&[u8]]| {
            let record = (0, rtype::HTTPS, 60, [&[&head[..]][..], parts].concat().concat());
            let rest = without_ten("www.example. HTTPS", &[record])?;
            Some(rest.map(|entry| records(&entry)[0].2.clone()))
        };
        let cleaned = [&head[..], &alpn, &[0, 4, 0, 4, 192, 0, 2, 1]].concat();
        assert_eq!(service(&[&alpn, &hints, &ipv6]), Some(Some(cleaned)));
        assert_eq!(service(&[&alpn]), None);
        let mandatory = [0, 0, 0, 2, 0, 6];
        assert_eq!(service(&[&mandatory, &alpn, &ipv6]), Some(None), "the hint must be understood");
        assert_eq!(service(&[&[0, 4]]), None, "what cannot be read stays");
    }

    #[test]
    fn signatures_of_what_has_changed_go_too() {
        let signature = |covered: u16| {
            let data = [&covered.to_be_bytes()[..], &[0; 16], &[0], b"signed"].concat();
            (0, rtype::RRSIG, 60, data)
        };
        let all = [address(1, 60, 10), address(2, 60, 192), signature(1), signature(28)];
        let rest = without_ten("www.example. A", &all).unwrap().unwrap();
        let left = records(&rest);
        assert_eq!(left.len(), 2, "{left:?}");
        assert_eq!(left[1].2[..2], [0, 28]);
    }
}
