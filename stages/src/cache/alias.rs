//! Aliases by a rule, and where they lead: the alias and the records of its target in one answer.
//!
//! The target's answer has names that point to its own question, so all names are written out before they stand
//! behind another one.

use pmdns_config::narrow::{to_u8, to_u16};

use super::entry::{Entry, Head};
use super::key::Key;
use super::lifetimes::Lifetimes;
use super::reply::names_of;
use crate::wire::dns::{HEADER_LEN, Rcode, flag, header, rtype};
use crate::wire::name::{MAX_NAME, equal};
use crate::wire::record::{Records, Section, WireRecord, take_labels};
use crate::wire::{put16, put32};

/// A compression pointer to the question (RFC 1035 section 4.1.4).
const QUESTION: [u8; 2] = [0xc0, to_u8(HEADER_LEN)];

/// The label of a wildcard (RFC 4592 section 2.1.1).
const ASTERISK: &[u8] = b"\x01*";

/// Why there is no target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAlias {
    /// It would be longer than a name can be: YXDOMAIN, as for DNAME records (RFC 6672 section 2.2).
    TooLong,
    /// The entry has no alias.
    Missing,
}

/// An alias that stands in a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The records of the rule, as they go into the answer section; the first owner points to the question.
    records: Vec<u8>,
    count: u16,
    /// The name to resolve, in lower case.
    target: Vec<u8>,
}

impl Alias {
    /// The alias in `entry`, a rule's answer to a query for `qname`.
    ///
    /// # Errors
    ///
    /// [`NoAlias`]: its target is too long, or it has none.
    pub fn of(entry: &Entry, qname: &[u8]) -> Result<Self, NoAlias> {
        let message = entry.message();
        let mut alias = Self { records: Vec::new(), count: 0, target: Vec::new() };
        let mut is_made = false;
        for record in Records::new(&message).map_err(|_| NoAlias::Missing)?.map_while(Result::ok) {
            if record.section != Section::Answer {
                break;
            }
            let mut target = Vec::new();
            expand(&message, record.data_at, &mut target).ok_or(NoAlias::Missing)?;
            if record.rtype == rtype::DNAME {
                alias.put_tree(&message, &record, &target, qname)?;
                is_made = true;
                continue;
            }
            // An answer that has been put together once has the alias already.
            if std::mem::take(&mut is_made) && record.rtype == rtype::CNAME {
                continue;
            }
            if entry.head().is_template() {
                target = filled_in(&target, qname)?;
            }
            alias.records.extend_from_slice(&message[record.start..record.data_at - 2]);
            alias.records.extend(to_u16(target.len()).to_be_bytes());
            alias.records.extend_from_slice(&target);
            alias.count += 1;
            target.make_ascii_lowercase();
            alias.target = target;
        }
        if alias.count == 0 { Err(NoAlias::Missing) } else { Ok(alias) }
    }

    /// Puts a DNAME record, whose owner is written out, and the alias that follows from it (RFC 6672 section 3.1).
    fn put_tree(
        &mut self,
        message: &[u8],
        record: &WireRecord,
        tree: &[u8],
        qname: &[u8],
    ) -> Result<(), NoAlias> {
        let mut owner = Vec::new();
        let fixed_at = expand(message, record.start, &mut owner).ok_or(NoAlias::Missing)?;
        // Behind other aliases it is their target that stands below the owner.
        let (name, shown) = match self.count {
            0 => (qname, &QUESTION[..]),
            _ => (&*self.target, &*self.target),
        };
        let labels = name.len().checked_sub(owner.len()).map(|len| name.split_at(len));
        let (labels, _) = labels.filter(|(_, end)| equal(end, &owner)).ok_or(NoAlias::Missing)?;
        let mut target = [labels, tree].concat();
        if target.len() > MAX_NAME {
            return Err(NoAlias::TooLong);
        }
        let times = message.get(fixed_at + 2..record.data_at - 2).ok_or(NoAlias::Missing)?;
        let mut made = owner;
        for (owner, rtype, target) in
            [(&[][..], rtype::DNAME, tree), (shown, rtype::CNAME, &target)]
        {
            made.extend(owner);
            made.extend(rtype.to_be_bytes());
            made.extend(times);
            made.extend(to_u16(target.len()).to_be_bytes());
            made.extend(target);
        }
        self.records.extend(made);
        self.count += 2;
        target.make_ascii_lowercase();
        self.target = target;
        Ok(())
    }

    /// The name to resolve, in lower case.
    pub fn target(&self) -> &[u8] {
        &self.target
    }

    /// Whether a query of this type is answered by the alias itself.
    pub fn answers(&self, qtype: u16) -> bool {
        matches!(qtype, rtype::CNAME | rtype::ANY)
    }

    /// The answer to `key` at second `now`: the alias, and behind it the answer `found` for its target, aged since
    /// it was learnt. Without one it is the alias alone. Nobody signed it, so it is not authentic.
    pub fn answer(
        &self,
        key: Key<'_>,
        hash: u64,
        found: Option<&Entry>,
        now: u32,
        lifetimes: &Lifetimes,
    ) -> Option<Entry> {
        let mut message = vec![0; HEADER_LEN];
        message.extend_from_slice(key.name);
        message.extend(key.qtype.to_be_bytes());
        message.extend(key.qclass.to_be_bytes());
        message.extend_from_slice(&self.records);
        let mut counts = [self.count, 0];
        let mut rcode = Rcode::NOERROR;
        let mut is_whole = true;
        if let Some(found) = found {
            let head = found.head();
            rcode = head.rcode;
            is_whole = head.flags & Head::TOO_LONG == 0;
            // Records by rules do not know the name that they are about.
            let source = found.message_about(&self.target);
            // Local records do not age.
            let age = if head.ttl_count == 0 { 0 } else { now.saturating_sub(head.learnt) };
            for record in Records::new(&source).ok()?.map_while(Result::ok) {
                let Some(count) = counts.get_mut(record.section as usize) else { break };
                write_out(&source, &record, age, &mut message)?;
                *count += 1;
            }
        }
        put16(&mut message, header::FLAGS, flag::QR | u16::from(rcode.0));
        put16(&mut message, header::QDCOUNT, 1);
        put16(&mut message, header::ANCOUNT, counts[0]);
        put16(&mut message, header::NSCOUNT, counts[1]);
        let mut entry = Entry::from_reply(&message, key, hash, now, lifetimes).ok()?;
        if !is_whole {
            entry = entry.without_records(key, rcode, Head::TOO_LONG);
        }
        entry.set_flags(entry.head().flags | Head::REWRITTEN);
        Some(entry)
    }
}

/// A wildcard target with the name that is asked for in the wildcard's place.
fn filled_in(target: &[u8], qname: &[u8]) -> Result<Vec<u8>, NoAlias> {
    let below = target.strip_prefix(ASTERISK).ok_or(NoAlias::Missing)?;
    let labels = qname.strip_suffix(&[0]).ok_or(NoAlias::Missing)?;
    let whole = [labels, below].concat();
    if whole.len() > MAX_NAME { Err(NoAlias::TooLong) } else { Ok(whole) }
}

/// Writes a record with all its names written out, and its TTL lower by `age`.
pub(super) fn write_out(
    source: &[u8],
    record: &WireRecord,
    age: u32,
    to: &mut Vec<u8>,
) -> Option<()> {
    expand(source, record.start, to)?;
    write_rest(source, record, age, to)
}

/// The same, without the owner.
pub(super) fn write_rest(
    source: &[u8],
    record: &WireRecord,
    age: u32,
    to: &mut Vec<u8>,
) -> Option<()> {
    let fixed = to.len();
    to.extend_from_slice(source.get(record.ttl_at - 4..record.data_at)?);
    put32(to, fixed + 4, record.ttl.saturating_sub(age));
    let data = to.len();
    let mut at = record.data_at;
    for name in names_of(source, record).into_iter().skip(1) {
        to.extend_from_slice(source.get(at..name)?);
        at = expand(source, name, to)?;
    }
    to.extend_from_slice(source.get(at..record.end)?);
    let len = u16::try_from(to.len() - data).ok()?;
    put16(to, data - 2, len);
    Some(())
}

/// Writes the name at `at` of a message without pointers, and says where it ends there.
pub(super) fn expand(message: &[u8], at: usize, to: &mut Vec<u8>) -> Option<usize> {
    take_labels(message, at, |label| {
        to.extend_from_slice(label);
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ReplyRecord as Written, entry_of, name_of, query};
    use crate::wire::name::Seed;

    const LIFETIMES: Lifetimes =
        Lifetimes { min_ttl: 0, max_ttl: 86_400, max_negative_ttl: 300, max_body: 1232 };

    fn seed() -> Seed {
        Seed::new([1; 16])
    }

    fn rule(target: &str, flags: u8) -> Entry {
        let records: [Written; 1] = [(0, rtype::CNAME, 60, name_of(target))];
        let mut entry = entry_of(&query("rule.example. CNAME"), &records, 0, seed());
        entry.set_flags(flags);
        entry
    }

    fn key(name: &[u8]) -> Key<'_> {
        Key { name, qtype: rtype::A, qclass: 1, flags: 0 }
    }

    #[test]
    fn a_dname_record_makes_the_alias_of_the_name_that_is_asked_for() {
        let rule = |target: &str| {
            let records: [Written; 1] = [(0, rtype::DNAME, 60, name_of(target))];
            entry_of(&query("tree.test. DNAME"), &records, 0, seed()).into_template()
        };
        let alias = Alias::of(&rule("Other.test."), &name_of("a.b.TREE.test.")).unwrap();
        assert_eq!(alias.target(), name_of("a.b.other.test."));
        assert_eq!(alias.count, 2);
        // Put together and taken apart, it is the same.
        let asked = name_of("a.b.tree.test.");
        let key = key(&asked);
        let hash = key.hash(seed(), seed().hash(&asked));
        let whole = alias.answer(key, hash, None, 0, &LIFETIMES).unwrap();
        assert_eq!(whole.head().counts(), [2, 0, 0]);
        let again = Alias::of(&whole, &asked).unwrap();
        assert_eq!((again.count, again.target()), (2, alias.target()));
        let longer = [&[63; 64][..], &[63; 64], &[63; 64], &name_of("tree.test.")].concat();
        let target = format!("{}.test.", "o".repeat(63));
        assert_eq!(Alias::of(&rule(&target), &longer), Err(NoAlias::TooLong));
    }

    #[test]
    fn the_alias_comes_first_and_then_what_was_found_aged() {
        let alias = Alias::of(&rule("Garden.test.", Head::LEADS_ON), b"").unwrap();
        assert_eq!(alias.target(), name_of("garden.test."));
        let records: [Written; 2] =
            [(0, 1, 300, vec![192, 0, 2, 1]), (0, 1, 100, vec![192, 0, 2, 2])];
        let found = entry_of(&query("garden.test. A"), &records, 10, seed());
        let name = name_of("bad.example.");
        let entry = alias.answer(key(&name), 7, Some(&found), 50, &LIFETIMES).unwrap();
        let head = entry.head();
        assert_eq!((head.counts(), head.rcode, head.hash), ([3, 0, 0], Rcode::NOERROR, 7));
        assert_eq!((head.learnt, head.expires), (50, 50 + 60), "40 of 100 have passed");
        let message = entry.message();
        let records: Vec<WireRecord> =
            Records::new(&message).unwrap().map(Result::unwrap).collect();
        let owners: Vec<Vec<u8>> = records
            .iter()
            .map(|record| {
                let mut name = Vec::new();
                expand(&message, record.start, &mut name).unwrap();
                name
            })
            .collect();
        let garden = name_of("garden.test.");
        assert_eq!(owners, [name, garden.clone(), garden]);
        assert_eq!(records.iter().map(|record| record.ttl).collect::<Vec<_>>(), [60, 260, 60]);
        assert_ne!(head.flags & Head::REWRITTEN, 0);
        assert_eq!(head.flags & (Head::AUTHENTIC | Head::LEADS_ON), 0);
    }

    #[test]
    fn that_the_target_is_not_there_is_said() {
        let alias = Alias::of(&rule("garden.test.", Head::LEADS_ON), b"").unwrap();
        let found = entry_of(&query("garden.test. A"), &[], 10, seed());
        let found = found.without_records(key(&name_of("garden.test.")), Rcode::NXDOMAIN, 0);
        let name = name_of("bad.example.");
        let entry = alias.answer(key(&name), 7, Some(&found), 50, &LIFETIMES).unwrap();
        assert_eq!((entry.head().rcode, entry.head().counts()), (Rcode::NXDOMAIN, [1, 0, 0]));
        let alone = alias.answer(key(&name), 7, None, 50, &LIFETIMES).unwrap();
        for entry in [&entry, &alone] {
            let message = entry.message();
            let first = Records::new(&message).unwrap().next().unwrap().unwrap();
            assert_eq!(first.ttl, 60, "the rule's own TTL");
            assert_eq!(entry.head().expires, 50, "and nothing is kept without an SOA record");
        }
        assert_eq!((alone.head().rcode, alone.head().counts()), (Rcode::NOERROR, [1, 0, 0]));
    }

    #[test]
    fn cve_2026_11331_a_wildcard_target_takes_the_name_in_and_is_never_too_long() {
        let rule = rule("*.garden.test.", Head::LEADS_ON).into_template();
        let alias = Alias::of(&rule, &name_of("www.bad.example.")).unwrap();
        assert_eq!(alias.target(), name_of("www.bad.example.garden.test."));
        let label = "a".repeat(63);
        let long = name_of(&format!("{label}.{label}.{label}.{}.", "b".repeat(47)));
        assert_eq!(long.len(), 241 + 1 - 1, "with garden.test. one octet less than the limit");
        assert_eq!(Alias::of(&rule, &long).map(|alias| alias.target().len()), Ok(253));
        let longer = name_of(&format!("{label}.{label}.{label}.{}.", "b".repeat(50)));
        assert_eq!(Alias::of(&rule, &longer), Err(NoAlias::TooLong));
    }
}
