//! What NSEC records prove (RFC 4035 section 5.4, RFC 6840 section 4).
//!
//! The records' signatures by the zone have been checked before they come here.

use std::cmp::Ordering;

use crate::message::{CanonicalRecord, rtype};
use crate::name::{self, Name};
use crate::rdata::Types;

/// A record that can prove something.
#[derive(Clone, Debug)]
pub(crate) struct Nsec<'m> {
    owner: &'m [u8],
    next: Name,
    types: Types<'m>,
}

/// The kind of a name, judged by its DS records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// A delegation that is not signed.
    Unsigned,
    /// A name of the zone itself. If a name below it is given, the names between both are of the zone, too.
    Inside(Option<Name>),
    /// There is no such name.
    NoName,
}

impl<'m> Nsec<'m> {
    /// `None`: it is malformed, or leads out of the zone (CVE-2026-13321).
    pub(crate) fn read(record: &'m CanonicalRecord, zone: &[u8]) -> Option<Self> {
        if record.rtype != rtype::NSEC || !record.is_sound || !name::is_within(&record.owner, zone)
        {
            return None;
        }
        let (next, types) = record.data.split_at(name::length(&record.data)?);
        let next: Name = next.to_ascii_lowercase().into();
        // The last one leads back to the zone's own name, and nowhere else.
        let is_in_order = name::compare(&record.owner, &next) == Ordering::Less || *next == *zone;
        let is_inside = name::is_within(&next, zone) && is_in_order;
        is_inside.then_some(Self { owner: &record.owner, next, types: Types::read(types)? })
    }

    /// Whether `name` lies between its owner and the next name, and belongs to this zone.
    fn covers(&self, name: &[u8]) -> bool {
        let is_after = name::compare(self.owner, name) == Ordering::Less;
        let is_last = name::compare(self.owner, &self.next) != Ordering::Less;
        let is_before = is_last || name::compare(name, &self.next) == Ordering::Less;
        // RFC 6840 section 4.1: names below a delegation or a DNAME are not this zone's to deny.
        let is_elsewhere = self.types.ends_names() && name::is_below(name, self.owner);
        is_after && is_before && !is_elsewhere
    }

    /// Whether `name` has no records, but names below it.
    fn is_empty(&self, name: &[u8]) -> bool {
        self.covers(name) && name::is_below(&self.next, name)
    }

    /// Whether there is no such name.
    fn is_no_name(&self, name: &[u8]) -> bool {
        self.covers(name) && !name::is_below(&self.next, name)
    }

    /// The longest name above `name` that exists, if this record denies `name`.
    fn closest<'n>(&self, name: &'n [u8]) -> &'n [u8] {
        let (one, other) = (name::common(name, self.owner), name::common(name, &self.next));
        if one.len() > other.len() { one } else { other }
    }
}

/// Whether a name with these types has no records of `qtype`.
pub(crate) fn lacks(types: Types<'_>, name: &[u8], qtype: u16) -> bool {
    // DS records stand above a cut, all others below it (RFC 6840 section 4.1).
    let is_wrong_side = match qtype {
        rtype::DS => types.has(rtype::SOA) && name != name::ROOT,
        _ => types.is_delegation(),
    };
    // A name with any record cannot lack all types.
    qtype != rtype::ANY && !is_wrong_side && !types.has(qtype) && !types.has(rtype::CNAME)
}

/// Whether `name` has no records of this type, itself or by a wildcard.
pub(crate) fn denies_type(records: &[Nsec<'_>], name: &[u8], qtype: u16) -> bool {
    let has_none = |name: &[u8]| {
        records
            .iter()
            .any(|one| *one.owner == *name && lacks(one.types, name, qtype) || one.is_empty(name))
    };
    let by_wildcard = || {
        let closest = records.iter().find(|one| one.is_no_name(name))?.closest(name);
        Some(has_none(&name::wildcard(closest)?))
    };
    has_none(name) || by_wildcard() == Some(true)
}

/// Whether there is neither `name` nor a wildcard for it.
pub(crate) fn denies_name(records: &[Nsec<'_>], name: &[u8]) -> bool {
    let denied = || {
        let closest = records.iter().find(|one| one.is_no_name(name))?.closest(name);
        let wildcard = name::wildcard(closest)?;
        Some(records.iter().any(|one| one.is_no_name(&wildcard)))
    };
    denied() == Some(true)
}

/// Whether no name comes closer to `name` than its last `labels` labels, whose wildcard was used for it.
pub(crate) fn denies_closer(records: &[Nsec<'_>], name: &[u8], labels: usize) -> bool {
    let denies = |one: &Nsec<'_>| one.is_no_name(name) && name::labels(one.closest(name)) == labels;
    records.iter().any(denies)
}

/// The kind of `name`, which has no DS records; `None`: nothing is proved.
pub(crate) fn cut(records: &[Nsec<'_>], name: &[u8]) -> Option<Cut> {
    records.iter().find_map(|one| {
        if *one.owner == *name {
            let is_answer = !one.types.has(rtype::DS) && !one.types.has(rtype::SOA);
            let cut = if one.types.has(rtype::NS) { Cut::Unsigned } else { Cut::Inside(None) };
            return is_answer.then_some(cut);
        }
        if one.is_empty(name) {
            return Some(Cut::Inside(Some(one.next.clone())));
        }
        one.is_no_name(name).then_some(Cut::NoName)
    })
}
