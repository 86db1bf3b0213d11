//! Local records by owner, and the wire image of their answers.
//!
//! A name that has an SOA record is the apex of a zone. Every name below it is ours to answer for, and a
//! name that is not there does not exist. Without an SOA record above it a local name is an exception among
//! names of somebody else. Only the name itself, and names between two local names, are ours.
//!
//! NS records below an apex hand a part of the zone to other servers (RFC 1034 section 4.2.1). A referral is of
//! no use to our clients. So queries for that part go on to the cache and the upstreams, as if the zone were
//! not here.
//!
//! The owner of the first records of an answer is a pointer to the question, which fits wildcards as well. CNAME
//! records are followed as far as the local records lead; from there on the slow path resolves the name.

mod reply;

use std::collections::{BTreeMap, BTreeSet};

use pmdns_config::LocalRecord;

use super::local_error::{LocalDataError, MAX_CNAMES};
use crate::wire::dns::{Rcode, rtype};
use crate::wire::name::{length, suffixes};
pub(super) use reply::Reply;
use reply::{QUESTION, RecordSet};

/// Types that may stand beside a CNAME record, in the order of their numbers: KEY (RFC 3007 section 3), RRSIG and NSEC
/// (RFC 4034 sections 3 and 4). Every CNAME record of a signed zone has the latter two.
const BESIDE_CNAME: [u16; 3] = [25, 46, 47];

/// The label of a wildcard (RFC 4592 section 2.1.1).
const ASTERISK: &[u8] = b"\x01*";

/// The MINIMUM field is the last of an SOA record's data (RFC 1035 section 3.3.13).
const MINIMUM: usize = 4;

/// Local records by their owner, in lower case. The records of an owner are in the order of the file.
pub(super) struct LocalZone<'r> {
    owners: BTreeMap<Vec<u8>, Vec<RecordSet<'r>>>,
    /// Names without records that are above one that has, and ours.
    empty: BTreeSet<Vec<u8>>,
}

/// Where a name leads in the local records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameMatch<'n> {
    /// To the records of this owner: the name itself, or a wildcard.
    Owner(&'n [u8]),
    /// The name exists, without records.
    Empty,
    /// There is no such name.
    Missing,
    /// It is not ours.
    Elsewhere,
}

/// The zone that has the DS records of a name, or says that there are none. They stand on the upper side of a zone cut
/// (RFC 4035 section 3.1.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeper<'n> {
    /// The local records of the name.
    Zone,
    /// The local zone of this name, right above an apex.
    ZoneAbove(&'n [u8]),
    /// A zone of others.
    Above,
}

impl<'r> LocalZone<'r> {
    /// The records by owner, checked against each other. `is_ours` says of a name without records whether
    /// it is ours although no local name is above it.
    pub(super) fn new(
        records: &'r [LocalRecord],
        is_ours: impl Fn(&[u8]) -> bool,
    ) -> Result<Self, LocalDataError> {
        let mut owners: BTreeMap<Vec<u8>, Vec<RecordSet<'_>>> = BTreeMap::new();
        for record in records {
            check_name(&record.name)?;
            match record.rtype {
                rtype::CNAME | rtype::DNAME => check_name(&record.data)?,
                _ => {}
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
            let alias = sets.iter().find(|set| set.rtype == rtype::CNAME);
            if alias.is_some_and(|alias| alias.data.len() > 1 || !is_alone(sets)) {
                return Err(LocalDataError::CnameNotAlone { name: text(name) });
            }
            if sets.iter().any(|set| set.rtype == rtype::SOA && set.data.len() > 1) {
                return Err(LocalDataError::TwoSoas { name: text(name) });
            }
        }
        let mut zone = Self { owners, empty: BTreeSet::new() };
        zone.check_trees()?;
        zone.empty = zone.empty_names(is_ours);
        Ok(zone)
    }

    /// Checks DNAME records: a name has one, is no wildcard, and nothing stands below it (RFC 6672 sections 2.4 and 3.3).
    fn check_trees(&self) -> Result<(), LocalDataError> {
        if self.owners.values().flatten().all(|set| set.rtype != rtype::DNAME) {
            return Ok(());
        }
        for owner in self.owners.keys() {
            let has_two = self.tree(owner).is_some_and(|tree| tree.data.len() > 1);
            let is_wildcard = Self::above_wildcard(owner).is_some();
            if has_two || is_wildcard && self.tree(owner).is_some() {
                return Err(LocalDataError::DnameNotAlone { name: text(owner) });
            }
            if let Some(tree) = self.tree_above(owner) {
                return Err(LocalDataError::BelowDname { name: text(owner), owner: text(tree) });
            }
        }
        Ok(())
    }

    /// The DNAME record of an owner.
    fn tree(&self, owner: &[u8]) -> Option<&RecordSet<'r>> {
        self.sets(owner).iter().find(|set| set.rtype == rtype::DNAME)
    }

    /// The name above this one whose DNAME record stands for it.
    fn tree_above<'n>(&self, name: &'n [u8]) -> Option<&'n [u8]> {
        tree_above(name, |name, rtype| self.has(name, rtype))
    }

    /// The answer for names below an owner with a DNAME record: the record, with its owner written out. The alias that
    /// follows from it is made for each name.
    pub(super) fn below_tree(&self, owner: &[u8]) -> Option<Reply> {
        let tree = self.tree(owner)?;
        let mut reply = Reply::empty();
        reply.answers = reply.put(owner, tree);
        reply.leads_on = true;
        Some(reply)
    }

    /// Names that have no records but stand above one that has, as far as they are ours to answer for. These
    /// are below another local name, or `is_ours` says so. They exist (RFC 4592 section 2.2.2), and NXDOMAIN
    /// for them would deny the local names below (RFC 8020). Names above all of ours are the business of
    /// their own servers: a local www.example.com must not hide example.com. Names that a DNAME record stands for are not
    /// empty: a zone may be below them.
    fn empty_names(&self, is_ours: impl Fn(&[u8]) -> bool) -> BTreeSet<Vec<u8>> {
        let mut empty = BTreeSet::new();
        for owner in self.owners.keys() {
            for name in suffixes(owner).skip(1) {
                if self.owners.contains_key(name)
                    || empty.contains(name)
                    || self.tree_above(name).is_some()
                {
                    continue;
                }
                let below_ours =
                    suffixes(name).skip(1).any(|above| self.owners.contains_key(above));
                if below_ours || is_ours(name) {
                    empty.insert(name.to_vec());
                }
            }
        }
        empty
    }

    /// Every name that has records.
    pub(super) fn owners(&self) -> impl Iterator<Item = &[u8]> {
        self.owners.keys().map(Vec::as_slice)
    }

    /// Every name that exists without records.
    pub(super) fn empty(&self) -> impl Iterator<Item = &[u8]> {
        self.empty.iter().map(Vec::as_slice)
    }

    /// The name whose part of a zone is served by others, if `name` is in such a part. The one nearest to the
    /// apex counts: what is below it is not ours to judge. A zone of our own is ours, wherever it is.
    pub(super) fn cut(&self, name: &[u8]) -> Option<&[u8]> {
        let above: Vec<&[u8]> = suffixes(name).collect();
        let apex = above.iter().position(|name| self.has(name, rtype::SOA))?;
        let is_cut = |name: &&[u8]| self.has(name, rtype::NS);
        let cut = above[..apex].iter().rev().copied().find(is_cut)?;
        self.owners.get_key_value(cut).map(|(owner, _)| owner.as_slice())
    }

    /// The apex of the zone that a name of ours is in.
    pub(super) fn apex(&self, name: &[u8]) -> Option<&[u8]> {
        let apex = suffixes(name).find(|name| self.has(name, rtype::SOA))?;
        self.owners.get_key_value(apex).map(|(owner, _)| owner.as_slice())
    }

    /// Where the DS records of a name of ours are. A name without a zone of ours stands alone among those of others. What
    /// is below it may be a zone of theirs.
    pub(super) fn keeper_of_ds<'n>(&self, name: &'n [u8]) -> Keeper<'n> {
        let Some(above) = suffixes(name).nth(1) else { return Keeper::Zone };
        let is_ours = self.apex(above).is_some() && self.cut(above).is_none();
        match (self.has(name, rtype::SOA), is_ours) {
            (true, true) => Keeper::ZoneAbove(above),
            (true, false) => Keeper::Above,
            (false, _) if self.apex(name).is_some() => Keeper::Zone,
            (false, _) if self.has(name, rtype::DS) || self.alias(name).is_some() => Keeper::Zone,
            (false, _) => Keeper::Above,
        }
    }

    /// The wildcard below a name.
    pub(super) fn wildcard(&self, name: &[u8]) -> Option<&[u8]> {
        let wildcard = [ASTERISK, name].concat();
        self.owners.get_key_value(&wildcard).map(|(owner, _)| owner.as_slice())
    }

    /// The name below which a wildcard stands, if `owner` is one.
    pub(super) fn above_wildcard(owner: &[u8]) -> Option<&[u8]> {
        owner.strip_prefix(ASTERISK)
    }

    /// Where the CNAME record of an owner points, in lower case.
    pub(super) fn alias(&self, owner: &[u8]) -> Option<Vec<u8>> {
        let set = self.sets(owner).iter().find(|set| set.rtype == rtype::CNAME)?;
        set.data.first().map(|target| target.to_ascii_lowercase())
    }

    /// The records that a query for `owner`, a name or a wildcard, and `qtype` is answered with.
    pub(super) fn answer(&self, owner: &[u8], qtype: u16) -> Result<Reply, LocalDataError> {
        let mut reply = Reply::empty();
        let mut name = owner.to_vec();
        let mut place = NameMatch::Owner(owner);
        let mut passed: Vec<Vec<u8>> = Vec::new();
        while passed.len() <= MAX_CNAMES && !passed.contains(&name.to_ascii_lowercase()) {
            passed.push(name.to_ascii_lowercase());
            let sets = match place {
                NameMatch::Owner(owner) => self.sets(owner),
                _ => &[],
            };
            let shown: &[u8] = if reply.answers == 0 { &QUESTION } else { &name };
            let alias = sets.iter().find(|set| set.rtype == rtype::CNAME);
            match (alias, sets.iter().find(|set| set.rtype == qtype)) {
                (_, Some(set)) => reply.answers += reply.put(shown, set),
                (Some(set), None) => {
                    reply.answers += reply.put(shown, set);
                    name = set.data.first().copied().unwrap_or_default().to_vec();
                    place = self.place(&name.to_ascii_lowercase());
                    continue;
                }
                (None, None) => {
                    reply.leads_on = reply.answers > 0 && place == NameMatch::Elsewhere;
                    self.deny(&name.to_ascii_lowercase(), place, &mut reply);
                }
            }
            return reply.checked(owner, qtype);
        }
        // A circle, or a long way, which ends as it does for BIND.
        reply.rcode = Rcode::SERVFAIL;
        reply.checked(owner, qtype)
    }

    /// What queries for the types of an owner's own records are answered with. CNAME records are not followed.
    pub(super) fn own_answers(&self, owner: &[u8]) -> Result<Vec<(u16, Reply)>, LocalDataError> {
        let answer = |set: &RecordSet<'_>| {
            let mut reply = Reply::empty();
            reply.answers = reply.put(&QUESTION, set);
            Ok((set.rtype, reply.checked(owner, set.rtype)?))
        };
        self.sets(owner).iter().map(answer).collect()
    }

    /// What is answered for a name that does not exist in the zone of `apex`.
    pub(super) fn missing(&self, apex: &[u8]) -> Reply {
        let mut reply = Reply::empty();
        self.deny(apex, NameMatch::Missing, &mut reply);
        reply
    }

    /// What is answered for a name in the zone of `apex` that exists, but not with such records.
    pub(super) fn nodata(&self, apex: &[u8]) -> Reply {
        let mut reply = Reply::empty();
        self.deny(apex, NameMatch::Empty, &mut reply);
        reply
    }

    /// Says that there are no such records: with the SOA record of the zone, so that resolvers know how long
    /// to remember it (RFC 2308 section 3).
    fn deny(&self, name: &[u8], place: NameMatch<'_>, reply: &mut Reply) {
        if place == NameMatch::Elsewhere {
            return;
        }
        if place == NameMatch::Missing {
            reply.rcode = Rcode::NXDOMAIN;
        }
        let Some(apex) = self.apex(name) else { return reply.deny_of_nobody(name) };
        let Some(soa) = self.sets(apex).iter().find(|set| set.rtype == rtype::SOA) else { return };
        let minimum = soa.data.first().and_then(|data| data.last_chunk::<MINIMUM>());
        let minimum = minimum.map_or(soa.ttl, |minimum| u32::from_be_bytes(*minimum));
        let soa = RecordSet { ttl: soa.ttl.min(minimum), ..soa.clone() };
        reply.authorities += reply.put(apex, &soa);
    }

    /// The types that an owner has records of, either itself or where its CNAME records lead.
    pub(super) fn types(&self, owner: &[u8]) -> Vec<u16> {
        let mut types = Vec::new();
        let mut place = NameMatch::Owner(owner);
        for _ in 0..=MAX_CNAMES {
            let NameMatch::Owner(owner) = place else { break };
            types.extend(self.sets(owner).iter().map(|set| set.rtype));
            let Some(target) = self.alias(owner) else { break };
            place = self.place(&target);
        }
        // Several CNAME records in a row are one type.
        let mut seen = BTreeSet::new();
        types.retain(|rtype| seen.insert(*rtype));
        types
    }

    /// Where a name leads: to itself, or to the wildcard below the closest name that exists (RFC 4592
    /// section 3.3.1).
    fn place(&self, name: &[u8]) -> NameMatch<'_> {
        // Below a DNAME record the slow path goes on, which makes the alias.
        if self.cut(name).is_some() || self.tree_above(name).is_some() {
            return NameMatch::Elsewhere;
        }
        if let Some((owner, _)) = self.owners.get_key_value(name) {
            return NameMatch::Owner(owner);
        }
        if self.empty.contains(name) {
            return NameMatch::Empty;
        }
        let exists = |name: &&[u8]| {
            self.owners.contains_key(*name)
                || self.empty.contains(*name)
                || self.wildcard(name).is_some()
        };
        let closest = suffixes(name).skip(1).find(exists);
        match closest.and_then(|closest| self.wildcard(closest)) {
            Some(wildcard) => NameMatch::Owner(wildcard),
            None if self.apex(name).is_some() => NameMatch::Missing,
            None => NameMatch::Elsewhere,
        }
    }

    fn sets(&self, owner: &[u8]) -> &[RecordSet<'r>] {
        self.owners.get(owner).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether an owner has records of a type.
    pub(super) fn has(&self, owner: &[u8], rtype: u16) -> bool {
        self.sets(owner).iter().any(|set| set.rtype == rtype)
    }
}

/// The name above this one whose DNAME record stands for it (RFC 6672 section 2.4). It stands for no name of a zone that hangs
/// below it, which answers for itself. `has` says whether a name has records of a type.
pub(super) fn tree_above(name: &[u8], has: impl Fn(&[u8], u16) -> bool) -> Option<&[u8]> {
    for (at, above) in suffixes(name).enumerate() {
        if at > 0 && has(above, rtype::DNAME) {
            return Some(above);
        }
        if has(above, rtype::SOA) {
            return None;
        }
    }
    None
}

/// Whether a CNAME record among these is the only record, but for those that may stand beside it.
fn is_alone(sets: &[RecordSet<'_>]) -> bool {
    sets.iter().all(|set| set.rtype == rtype::CNAME || BESIDE_CNAME.contains(&set.rtype))
}

/// Checks that the bytes are one whole name.
fn check_name(name: &[u8]) -> Result<(), LocalDataError> {
    match length(name) {
        Some(len) if len == name.len() => Ok(()),
        _ => Err(LocalDataError::Name { name: name.escape_ascii().to_string() }),
    }
}

/// A name for people to read.
pub(super) fn text(name: &[u8]) -> String {
    let labels = suffixes(name).map(|rest| {
        let len = rest.first().map_or(0, |len| usize::from(*len));
        rest.get(1..1 + len).unwrap_or(rest).escape_ascii().to_string()
    });
    let labels: Vec<_> = labels.filter(|label| !label.is_empty()).collect();
    labels.join(".") + "."
}

#[cfg(test)]
mod tests;
