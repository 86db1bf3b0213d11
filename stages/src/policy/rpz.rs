//! Response policy zones: rules about clients, names and addresses in answers, written as a zone.
//!
//! A rule is an owner name below the zone's apex, which says what it is about, and records, which say what to do
//! (draft-vixie-dnsop-dns-rpz-00). Of several zones the first that has a rule decides. In a zone, rules about the
//! client come first, and then rules about the name. Rules about the addresses in the answer follow. Rules about name
//! servers and their addresses come last. A forwarder knows of name servers what the answer's authority and additional
//! sections say.

mod action;
mod build;
mod error;
mod trigger;

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arrayvec::ArrayVec;
use pmdns_config::{LocalRecord, Prefix, ViewSet};

use super::filter::{Candidate, Filter, all_candidates};
use super::local::{Entries, Node};
use super::names::Names;
use crate::lpm::Clients;
use crate::wire::dns::rtype;
use crate::wire::name::{MAX_NAME, Seed};
use crate::wire::record::{Records, Section, WireRecord, take_labels};
use action::Ranked;
use build::Build;

pub(super) use action::Action;
pub use error::RpzError;

/// Name servers of one answer that are looked at.
const MAX_SERVERS: usize = 16;

/// Rules about names.
#[derive(Debug)]
struct NameRules {
    names: Names,
    below: Names,
}

impl NameRules {
    /// The rule about the name itself, or else the longest about a name above it.
    fn find(&self, name: &[u8], candidates: &[Candidate<'_>]) -> Option<Action> {
        let found = candidates.iter().rev().find_map(|one| {
            let table = if one.name.len() == name.len() { &self.names } else { &self.below };
            table.find(one.hash, one.name)
        });
        Action::of(found?)
    }

    fn len(&self) -> usize {
        self.names.len() + self.below.len()
    }

    fn footprint(&self) -> usize {
        self.names.footprint() + self.below.footprint()
    }
}

/// Whether these records make a policy zone; a strict one has no rules that cannot be used.
///
/// # Errors
///
/// What is wrong with them.
pub fn check_policy_zone(records: &[LocalRecord], strict: bool) -> Result<(), RpzError> {
    let seed = Seed::new([0; 16]);
    let zone = PolicyZone::new(records, &mut Entries::new(seed), seed)?;
    zone.skipped.first.filter(|_| strict).map_or(Ok(()), Err)
}

/// Rules of a zone that cannot be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Skipped {
    pub(super) count: usize,
    pub(super) first: Option<RpzError>,
}

impl Skipped {
    fn add(&mut self, problem: RpzError) {
        self.count += 1;
        self.first.get_or_insert(problem);
    }
}

/// A policy zone, ready to be looked up.
#[derive(Debug)]
pub(super) struct PolicyZone {
    /// The views it holds in.
    pub(super) views: ViewSet,
    /// Its number in the configuration.
    pub(super) number: u8,
    names: NameRules,
    clients: Option<Clients<u32>>,
    responses: Option<Clients<Ranked>>,
    servers: NameRules,
    server_addresses: Option<Clients<Ranked>>,
    nodes: Box<[Node]>,
    seed: Seed,
    /// Prefixes of clients that there are rules about.
    pub(super) client_prefixes: Vec<Prefix>,
    /// What is left out of it.
    pub(super) skipped: Skipped,
}

impl PolicyZone {
    /// The zone of these records; answers are put among `entries`. Rules that cannot be used are left out.
    pub(super) fn new(
        records: &[LocalRecord],
        entries: &mut Entries,
        seed: Seed,
    ) -> Result<Self, RpzError> {
        let (build, skipped) = Build::of(records, entries)?;
        Ok(build.finish(seed, skipped))
    }

    /// A zone that was never transferred: no client gets by rules that are not known. The rule is about clients, so that
    /// answers from upstream stay as they are.
    pub(super) fn not_ready(seed: Seed) -> Self {
        let everybody: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let everybody = everybody.map(|network| Prefix { network, length: 0 });
        Build::of_clients(&everybody, Action::NotReady).finish(seed, Skipped::default())
    }

    /// The rule about a client with this address.
    pub(super) fn of_client(&self, client: &[u8]) -> Option<Action> {
        Action::of(self.clients.as_ref()?.find(client))
    }

    /// The rule about a name whose candidates these are: about the name itself, or else the longest about a name
    /// above it.
    pub(super) fn of_name(&self, name: &[u8], candidates: &[Candidate<'_>]) -> Option<Action> {
        self.names.find(name, candidates)
    }

    /// The rule about an address in the answer section of a message, or else about a name server that it speaks of.
    pub(super) fn of_response(&self, message: &[u8]) -> Option<Action> {
        let in_answer = addresses(message, Section::Answer).map(|(_, address)| address);
        find_in(self.responses.as_ref(), in_answer).or_else(|| self.of_servers(message))
    }

    /// The rule about a name server in the authority section, or else about an address that the additional section has
    /// for one of them.
    fn of_servers(&self, message: &[u8]) -> Option<Action> {
        if !self.has_servers() {
            return None;
        }
        let servers: ArrayVec<_, MAX_SERVERS> = records(message)
            .filter(|record| record.section == Section::Authority && record.rtype == rtype::NS)
            .filter_map(|record| whole_name(message, record.data_at))
            .take(MAX_SERVERS)
            .collect();
        let by_name = |name: &WholeName| self.servers.find(name, &all_candidates(name, self.seed));
        servers.iter().find_map(by_name).or_else(|| {
            let of_servers = addresses(message, Section::Additional).filter(|(owner, _)| {
                whole_name(message, *owner).is_some_and(|one| servers.contains(&one))
            });
            find_in(self.server_addresses.as_ref(), of_servers.map(|(_, address)| address))
        })
    }

    /// Whether there are rules about what answers say.
    pub(super) fn has_responses(&self) -> bool {
        self.responses.is_some() || self.has_servers()
    }

    fn has_servers(&self) -> bool {
        self.servers.len() > 0 || self.server_addresses.is_some()
    }

    /// The entry that answers a query of this type by the records of a rule.
    pub(super) fn entry(&self, node: u32, qtype: u16) -> u32 {
        self.nodes.get(node as usize).map_or(Entries::NODATA, |node| node.find(qtype))
    }

    /// The names, for the filter.
    pub(super) fn add_to(&self, filter: &mut Filter) {
        self.names.names.add_to(filter);
        self.names.below.add_to(filter);
    }

    /// How many names there are rules about.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// How many bytes they take.
    pub(super) fn footprint(&self) -> usize {
        self.names.footprint() + self.servers.footprint()
    }
}

/// The best rule about these addresses: that of the longest prefix, and of equally long ones that about the smallest
/// address. The order in which the message has them means nothing.
fn find_in<'m>(
    rules: Option<&Clients<Ranked>>,
    addresses: impl Iterator<Item = &'m [u8]>,
) -> Option<Action> {
    let rules = rules?;
    let found = addresses.filter_map(|address| {
        let (length, number) = rules.find(address);
        Some((length, address, Action::of(number)?))
    });
    // IPv4 addresses are shorter, and smaller than any IPv6 address that is in use.
    let best =
        found.max_by_key(|(length, address, _)| (*length, Reverse((address.len(), *address))));
    best.map(|(_, _, action)| action)
}

/// A name without pointers, in lower case.
pub(super) type WholeName = ArrayVec<u8, MAX_NAME>;

/// The name at `at` of a message.
fn whole_name(message: &[u8], at: usize) -> Option<WholeName> {
    let mut name = WholeName::new();
    take_labels(message, at, |label| name.try_extend_from_slice(label).is_ok())?;
    name.make_ascii_lowercase();
    Some(name)
}

/// The records of a message, as far as they can be read.
fn records(message: &[u8]) -> impl Iterator<Item = WireRecord> {
    Records::new(message).into_iter().flatten().map_while(Result::ok)
}

/// The names that aliases in an answer lead to, in lower case.
pub(super) fn alias_targets(message: &[u8]) -> impl Iterator<Item = WholeName> {
    records(message)
        .filter(|record| record.section == Section::Answer && record.rtype == rtype::CNAME)
        .filter_map(|record| whole_name(message, record.data_at))
}

/// The addresses in a section: where their owner's name is, and they themselves.
fn addresses(message: &[u8], section: Section) -> impl Iterator<Item = (usize, &[u8])> {
    records(message)
        .filter(move |record| record.section == section)
        .filter(|record| matches!(record.rtype, rtype::A | rtype::AAAA))
        .filter_map(|record| Some((record.start, message.get(record.data_at..record.end)?)))
        .filter(|(_, address)| matches!(address.len(), 4 | 16))
}

#[cfg(test)]
mod tests;
