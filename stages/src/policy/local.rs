//! Local names, made into answers at load: one entry for each name and type.

use std::collections::HashMap;

use pmdns_config::LocalRecord;
use pmdns_config::narrow::to_u16;

use super::filter::Candidate;
use super::local_error::LocalDataError;
use super::names::{Listing, Names};
use super::zone::{Keeper, LocalZone, Reply, tree_above};
use crate::cache::{Entry, EntryParts, Head, Key};
use crate::wire::dns::{CLASS_IN, Rcode, rtype};
use crate::wire::name::Seed;

/// The number of what there is not.
const NONE: u32 = u32::MAX;

/// No type of any record (RFC 6895 section 3.1).
const NO_TYPE: u16 = 0;

/// Local names and what is answered for them.
#[derive(Debug)]
pub(super) struct Local {
    /// The value of a name is the number of its node.
    pub(super) names: Names,
    nodes: Box<[Node]>,
}

/// The answers for one name: entries, by number. A node without any is of a name that is not ours.
#[derive(Clone, Debug)]
pub(super) struct Node {
    types: Box<[(u16, u32)]>,
    /// For types it has no records of.
    other: u32,
    /// For a query of type ANY: the first records it has (RFC 8482 section 4.1).
    any: u32,
    /// The node that answers for names below it that do not exist: a wildcard's.
    wildcard: u32,
    /// For names below it that do not exist, without a wildcard.
    below: u32,
    /// Whether the DS records of the name belong to a zone that is not ours.
    is_ds_above: bool,
}

/// A local answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundLocal {
    /// The number of the entry.
    pub(super) entry: u32,
    /// Whether the servers of the zone above have the answer. Then this one is given only if another rule is about the name,
    /// which exists.
    pub(super) is_above: bool,
}

impl Node {
    /// Of a name that is not ours.
    fn foreign() -> Self {
        Self {
            types: Box::default(),
            other: NONE,
            any: NONE,
            wildcard: NONE,
            below: NONE,
            is_ds_above: false,
        }
    }

    /// Of a name whose part of a zone of ours is served by others. DS records stand in the zone above, which is ours (RFC 4035
    /// section 3.1.4.1).
    fn delegated(ds: u32) -> Self {
        Self { types: [(rtype::DS, ds)].into(), ..Self::foreign() }
    }

    /// Of an owner of records: the entries by type, and the one for all other types.
    fn of_types(types: Vec<(u16, u32)>, other: u32) -> Self {
        let any = types.first().map_or(other, |(_, entry)| *entry);
        Self { types: types.into(), other, any, ..Self::foreign() }
    }

    fn found(&self, qtype: u16) -> FoundLocal {
        FoundLocal { entry: self.find(qtype), is_above: self.is_ds_above && qtype == rtype::DS }
    }

    /// The number of the entry that answers a query of this type.
    pub(super) fn find(&self, qtype: u16) -> u32 {
        if qtype == rtype::ANY {
            return self.any;
        }
        let found = self.types.iter().find(|(rtype, _)| *rtype == qtype);
        found.map_or(self.other, |(_, entry)| *entry)
    }
}

impl Local {
    /// The answers for these records, put among `entries`. `is_ours` says of a name above a local one, but
    /// below none, whether it is ours all the same.
    pub(super) fn new(
        records: &[LocalRecord],
        is_ours: impl Fn(&[u8]) -> bool,
        entries: &mut Entries,
    ) -> Result<Self, LocalDataError> {
        let zone = LocalZone::new(records, is_ours)?;
        let mut build = Build {
            zone: &zone,
            entries,
            negative: HashMap::new(),
            listing: Listing::default(),
            nodes: Vec::new(),
        };
        for name in zone.owners() {
            match zone.cut(name) {
                Some(cut) if cut == name => build.add_delegation(name)?,
                Some(_) => {}
                None => build.add_owner(name)?,
            }
        }
        for name in zone.empty().filter(|name| zone.cut(name).is_none()) {
            build.add_empty(name)?;
        }
        // A wildcard needs a node above it, be it ours or not.
        for above in zone.owners().filter_map(LocalZone::above_wildcard) {
            if zone.cut(above).is_none() {
                build.add(above, Node::foreign())?;
            }
        }
        let Build { listing, mut nodes, entries, .. } = build;
        let names = listing.build(entries.seed, |earlier, _| earlier);
        for above in zone.owners().filter_map(LocalZone::above_wildcard) {
            let number = |name: &[u8]| names.find(entries.seed.hash_loosely(name), name);
            let wildcard = zone.wildcard(above).and_then(number);
            if let (Some(node), Some(wildcard)) = (number(above), wildcard) {
                nodes[node as usize].wildcard = wildcard;
            }
        }
        Ok(Self { names, nodes: nodes.into() })
    }

    /// The entry that answers a query for `name`, whose candidates these are, if it is for us to answer.
    pub(super) fn find(
        &self,
        name: &[u8],
        candidates: &[Candidate<'_>],
        qtype: u16,
    ) -> Option<FoundLocal> {
        // The closest name that exists decides, also if it decides that nothing is ours.
        let (closest, number) = candidates.iter().rev().find_map(|one| {
            let number = self.names.find(one.hash, one.name)?;
            Some((one.name, number))
        })?;
        let node = self.nodes.get(number as usize)?;
        let found = if closest.len() == name.len() {
            node.found(qtype)
        } else {
            let below = FoundLocal { entry: node.below, is_above: false };
            let wildcard = self.nodes.get(node.wildcard as usize);
            wildcard.map_or(below, |wildcard| wildcard.found(qtype))
        };
        (found.entry != NONE).then_some(found)
    }
}

/// Nodes and entries on their way into the table.
struct Build<'z, 'r> {
    zone: &'z LocalZone<'r>,
    entries: &'z mut Entries,
    /// By the apex of a zone: what is answered for types a name has not, and for names that are not there.
    negative: HashMap<&'z [u8], (u32, u32)>,
    listing: Listing,
    nodes: Vec<Node>,
}

impl<'z> Build<'z, '_> {
    fn add(&mut self, name: &[u8], node: Node) -> Result<(), LocalDataError> {
        let number = u32::try_from(self.nodes.len()).map_err(|_| LocalDataError::TooMany)?;
        self.nodes.push(node);
        match self.listing.add(name, number) {
            true => Ok(()),
            false => Err(LocalDataError::TooMany),
        }
    }

    /// Adds a name that has records.
    fn add_owner(&mut self, name: &'z [u8]) -> Result<(), LocalDataError> {
        let (nodata, missing) = self.negative(name)?;
        let mut node = owner_node(self.zone, name, nodata, self.entries)?;
        node.below = match self.zone.below_tree(name) {
            Some(reply) => self.entries.add_template(&reply)?,
            None => missing,
        };
        match self.zone.keeper_of_ds(name) {
            Keeper::Zone => {}
            Keeper::Above => node.is_ds_above = true,
            Keeper::ZoneAbove(_) if self.zone.has(name, rtype::DS) => {}
            Keeper::ZoneAbove(above) => {
                let ds = self.no_ds(name, above)?;
                node.types = node.types.iter().copied().chain([(rtype::DS, ds)]).collect();
            }
        }
        self.add(name, node)
    }

    /// What the zone above an apex answers for its DS records, of which it has none. A DNAME record there stands for the apex.
    fn no_ds(&mut self, apex: &[u8], above: &[u8]) -> Result<u32, LocalDataError> {
        let tree =
            tree_above(apex, |name, rtype| name.len() < apex.len() && self.zone.has(name, rtype));
        match tree.and_then(|tree| self.zone.below_tree(tree)) {
            Some(reply) => self.entries.add_template(&reply),
            None => Ok(self.negative(above)?.0),
        }
    }

    /// Adds a name whose part of a zone of ours is served by others.
    fn add_delegation(&mut self, name: &'z [u8]) -> Result<(), LocalDataError> {
        let ds = if self.zone.has(name, rtype::DS) {
            self.entries.add(&self.zone.answer(name, rtype::DS)?, Head::AUTHORITATIVE)?
        } else {
            self.negative(name)?.0
        };
        self.add(name, Node::delegated(ds))
    }

    /// Adds a name that exists without records.
    fn add_empty(&mut self, name: &'z [u8]) -> Result<(), LocalDataError> {
        let (nodata, missing) = self.negative(name)?;
        let is_ds_above = self.zone.keeper_of_ds(name) == Keeper::Above;
        let node =
            Node { other: nodata, any: nodata, below: missing, is_ds_above, ..Node::foreign() };
        self.add(name, node)
    }

    /// What is answered for types a name of ours has not, and for names below it that are not there.
    fn negative(&mut self, name: &[u8]) -> Result<(u32, u32), LocalDataError> {
        let Some(apex) = self.zone.apex(name) else { return Ok((Entries::NODATA, NONE)) };
        if let Some(known) = self.negative.get(apex) {
            return Ok(*known);
        }
        let nodata = self.entries.add(&self.zone.nodata(apex), Head::AUTHORITATIVE)?;
        let missing = self.entries.add(&self.zone.missing(apex), Head::AUTHORITATIVE)?;
        self.negative.insert(apex, (nodata, missing));
        Ok((nodata, missing))
    }
}

/// The node of an owner of records. Queries for types it has no records of are answered with `nodata`.
fn owner_node(
    zone: &LocalZone<'_>,
    owner: &[u8],
    nodata: u32,
    entries: &mut Entries,
) -> Result<Node, LocalDataError> {
    let mut answer = |rtype| entries.add(&zone.answer(owner, rtype)?, Head::AUTHORITATIVE);
    let mut types = Vec::new();
    for rtype in zone.types(owner) {
        types.push((rtype, answer(rtype)?));
    }
    // The CNAME records, and nothing behind them.
    let other = if zone.alias(owner).is_some() { answer(NO_TYPE)? } else { nodata };
    Ok(Node::of_types(types, other))
}

/// The node of a policy rule with records: only the owner's own are answered. The other owners of a policy zone are
/// rules and no names, so a CNAME record is not followed into them.
pub(super) fn rule_node(
    zone: &LocalZone<'_>,
    owner: &[u8],
    entries: &mut Entries,
) -> Result<Node, LocalDataError> {
    let mut types = Vec::new();
    for (rtype, reply) in zone.own_answers(owner)? {
        types.push((rtype, entries.add(&reply, Head::AUTHORITATIVE)?));
    }
    let alias = zone.own_answers(owner)?.into_iter().find(|(rtype, _)| *rtype == rtype::CNAME);
    let Some((_, alias)) = alias else { return Ok(Node::of_types(types, Entries::NODATA)) };
    // A target below a wildcard is made of the name that is asked for, for every type.
    if zone.alias(owner).is_some_and(|target| LocalZone::above_wildcard(&target).is_some()) {
        let reply = Reply { leads_on: true, ..alias };
        let entry = entries.add_template(&reply)?;
        return Ok(Node::of_types(vec![(rtype::CNAME, entry)], entry));
    }
    let other = entries.add(&Reply { leads_on: true, ..alias }, Head::AUTHORITATIVE)?;
    Ok(Node::of_types(types, other))
}

/// Answers, known by their number.
#[derive(Debug)]
pub(super) struct Entries {
    list: Vec<Entry>,
    seed: Seed,
}

impl Entries {
    /// The entry that says that a local name has no such records.
    pub(super) const NODATA: u32 = 0;

    /// None but [`Self::NODATA`].
    pub(super) fn new(seed: Seed) -> Self {
        let nodata = Reply::denial(Rcode::NOERROR);
        Self { list: vec![entry(&nodata, Head::AUTHORITATIVE, seed)], seed }
    }

    /// Adds an answer and gives its number.
    pub(super) fn add(&mut self, reply: &Reply, flags: u8) -> Result<u32, LocalDataError> {
        self.push(entry(reply, flags, self.seed))
    }

    /// Adds an answer whose alias is made of the name that is asked for.
    fn add_template(&mut self, reply: &Reply) -> Result<u32, LocalDataError> {
        self.push(entry(reply, Head::AUTHORITATIVE, self.seed).into_template())
    }

    fn push(&mut self, entry: Entry) -> Result<u32, LocalDataError> {
        let number = u32::try_from(self.list.len()).ok().filter(|number| *number != NONE);
        self.list.push(entry);
        number.ok_or(LocalDataError::TooMany)
    }

    /// The answer with this number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&Entry> {
        self.list.get(number as usize)
    }
}

/// The entry of a reply. Nothing in it depends on the name that is asked for.
fn entry(reply: &Reply, flags: u8, seed: Seed) -> Entry {
    let flags = flags | if reply.leads_on { Head::LEADS_ON } else { 0 };
    const ROOT: &[u8] = &[0];
    let key = Key { name: ROOT, qtype: NO_TYPE, qclass: CLASS_IN, flags: 0 };
    Entry::new(&EntryParts {
        key,
        hash: key.hash(seed, seed.hash(ROOT)),
        learnt: 0,
        expires: u32::MAX,
        rcode: reply.rcode,
        flags,
        counts: [reply.answers, reply.authorities, 0],
        body: &reply.bytes,
        optional_at: to_u16(reply.bytes.len()),
        // These records are not ageing: nothing counts their TTLs down.
        ttls: &[],
    })
}

#[cfg(test)]
mod tests;
