//! The truth about a name.

use crate::message::OwnedRecord;
use crate::name::Name;
use crate::rtype;
use crate::world::World;
use crate::zone::{Denial, Status, Zone};

/// What there is of a name and type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// These records.
    Set(Vec<OwnedRecord>),
    /// An alias to another name.
    Alias(OwnedRecord, Name),
    /// A DNAME record above it, the alias that follows from it, and where that leads.
    Redirect(OwnedRecord, OwnedRecord, Name),
    /// The name, but not the type.
    NoData,
    /// Nothing.
    NoName,
}

/// A fact, and its basis.
#[derive(Clone, Debug)]
pub struct Truth {
    /// The verdict that a validator has to reach.
    pub status: Status,
    /// What is true.
    pub fact: Fact,
    /// The apex of the zone that says so.
    pub zone: Name,
    /// The longest name at or above it that exists.
    pub encloser: Name,
    /// The wildcard that it comes of.
    pub wildcard: Option<Name>,
}

impl World {
    /// The truth about a name and type.
    pub fn truth(&self, name: &Name, qtype: u16) -> Truth {
        let zone = self.zone_for(name, qtype);
        let encloser = name.chain().find(|above| zone.exists(above));
        let encloser = encloser.unwrap_or_else(|| zone.apex.clone());
        let mut wildcard = None;
        let fact = redirected(zone, name).unwrap_or_else(|| {
            if encloser == *name {
                return at(zone, name, name, qtype);
            }
            let source = encloser.child("*");
            if !zone.exists(&source) {
                return Fact::NoName;
            }
            wildcard = Some(source.clone());
            at(zone, &source, name, qtype)
        });
        let is_redirect = matches!(fact, Fact::Redirect(..));
        let is_exact = encloser == *name && !zone.is_left_out(name) || is_redirect;
        let status = match (&zone.denial, zone.status) {
            // What such a zone does not have may as well be a delegation without DS records.
            (Denial::Nsec3 { opt_out: true, .. }, Status::Secure) if !is_exact => Status::Open,
            (_, status) => status,
        };
        Truth { status, fact, zone: zone.apex.clone(), encloser, wildcard }
    }
}

impl Zone {
    /// Whether opt-out keeps a delegation out of the chain of denials.
    pub fn is_left_out(&self, name: &Name) -> bool {
        matches!(self.denial, Denial::Nsec3 { opt_out: true, .. })
            && self.is_cut(name)
            && self.set(name, rtype::DS).is_none()
    }
}

/// What a DNAME record above a name makes of it.
fn redirected(zone: &Zone, name: &Name) -> Option<Fact> {
    let mut above = name.chain().skip(1);
    let record =
        above.find_map(|above| zone.set(&above, rtype::DNAME)).map(|set| set[0].clone())?;
    let (target, _) = Name::parse(&record.data, 0)?;
    let target = name.redirected(&record.owner, &target)?;
    let alias = OwnedRecord::new(name, rtype::CNAME, target.wire());
    Some(Fact::Redirect(record, alias, target))
}

/// What the records of `source` say of `name`.
fn at(zone: &Zone, source: &Name, name: &Name, qtype: u16) -> Fact {
    let own = |record: &OwnedRecord| OwnedRecord { owner: name.clone(), ..record.clone() };
    if let Some(set) = zone.set(source, qtype) {
        return Fact::Set(set.iter().map(own).collect());
    }
    match zone.set(source, rtype::CNAME) {
        Some(set) => match Name::parse(&set[0].data, 0) {
            Some((target, _)) => Fact::Alias(own(&set[0]), target),
            None => Fact::NoData,
        },
        None => Fact::NoData,
    }
}
