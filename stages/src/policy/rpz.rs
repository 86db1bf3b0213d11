//! Response policy zones: rules about clients, names and addresses in answers, written as a zone.
//!
//! A rule is an owner name below the zone's apex, which says what it is about, and records, which say what to do
//! (draft-vixie-dnsop-dns-rpz-00). Of several zones the first that has a rule decides; in a zone, rules about the
//! client come before rules about the name, those before rules about the addresses in the answer, and those about name
//! servers and their addresses last. A forwarder knows of name servers what the answer's authority and additional
//! sections say.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arrayvec::ArrayVec;
use pmdns_config::{LocalRecord, Prefix, ViewSet};

use super::filter::{Candidate, Filter, all_candidates};
use super::local::{Entries, LocalError, Node, rule_node};
use super::names::{Listing, MAX_NAMES, Names};
use super::zone::{LocalZone, text};
use crate::lpm::Clients;
use crate::wire::dns::rtype;
use crate::wire::name::{MAX_NAME, Seed, suffixes};
use crate::wire::record::{Record, Records, Section, follow_name};

/// Name servers of one answer that are looked at.
const MAX_SERVERS: usize = 16;

/// Why a zone cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RpzError {
    /// It is not known what owner names are relative to.
    #[error(
        "there is no SOA record, which a policy zone has at its apex; set `origin` if names in the file are relative"
    )]
    NoApex,
    /// A record stands elsewhere.
    #[error("`{0}` is not below the zone's apex")]
    Outside(String),
    /// A prefix that is none.
    #[error(
        "`{0}` does not say an address prefix as in 24.0.2.0.192.rpz-client-ip or 48.zz.db8.2001.rpz-ip"
    )]
    Prefix(String),
    /// An action of the future.
    #[error("`{name}` has the action `{action}`, which is not known")]
    Action {
        /// The rule's owner.
        name: String,
        /// Where its CNAME record points.
        action: String,
    },
    /// Records contradict each other.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// More rules than a table can hold.
    #[error("there are more than {MAX_NAMES} rules; split the zone, or leave out a part")]
    TooMany,
}

/// Types that sign a zone and say nothing of what is to be done: KEY, DS, RRSIG, NSEC, DNSKEY, NSEC3 and NSEC3PARAM.
const DNSSEC: [u16; 7] = [25, rtype::DS, 46, 47, 48, 50, 51];

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// No other rule counts.
    Passthru,
    /// NXDOMAIN.
    Nxdomain,
    /// NOERROR without records.
    Nodata,
    /// Nothing is answered.
    Drop,
    /// TC=1: come back over TCP.
    TcpOnly,
    /// SERVFAIL: the rules are not here yet. No zone can say so.
    NotReady,
    /// The records of the rule, by the number of its node.
    Local(u32),
}

/// The numbers of the actions without records; then follow the nodes.
const ACTIONS: [Action; 6] = [
    Action::Passthru,
    Action::Nxdomain,
    Action::Nodata,
    Action::Drop,
    Action::TcpOnly,
    Action::NotReady,
];

/// No rule.
const NONE: u32 = u32::MAX;

/// A rule about addresses: the length of its prefix, and the number of its action.
type Ranked = (u8, u32);

/// The prefix that IPv4 addresses have among IPv6 addresses, `::ffff:0:0/96`, so that the lengths of prefixes of both
/// compare.
const MAPPED: u8 = 96;

impl Action {
    fn number(self) -> u32 {
        match self {
            Self::Local(node) => ACTIONS.len() as u32 + node,
            fixed => ACTIONS.iter().position(|one| *one == fixed).unwrap_or_default() as u32,
        }
    }

    fn of(number: u32) -> Option<Self> {
        match ACTIONS.get(number as usize) {
            Some(action) => Some(*action),
            None if number == NONE => None,
            None => Some(Self::Local(number - ACTIONS.len() as u32)),
        }
    }
}

/// What a rule is about.
enum Trigger {
    Name(Vec<u8>),
    Below(Vec<u8>),
    Client(Prefix),
    Response(Prefix),
    Server(Vec<u8>),
    ServerBelow(Vec<u8>),
    ServerAddress(Prefix),
}

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
        let apex =
            records.iter().find(|record| record.rtype == rtype::SOA).ok_or(RpzError::NoApex)?;
        let mut skipped = Skipped::default();
        let relative = relative(records, &apex.name, &mut skipped);
        let zone = LocalZone::new(&relative, |_| false)?;
        let mut build = Build::default();
        for owner in zone.owners() {
            match build.add_owner(&zone, owner, entries) {
                Err(RpzError::TooMany) => return Err(RpzError::TooMany),
                Err(problem) => skipped.add(problem),
                Ok(()) => {}
            }
        }
        Ok(build.finish(seed, skipped))
    }

    /// A zone that was never transferred: no client gets by rules that are not known. The rule is about clients, so that
    /// answers from upstream stay as they are.
    pub(super) fn not_ready(seed: Seed) -> Self {
        let everybody: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let rule = |network| (Prefix { network, length: 0 }, Action::NotReady.number());
        let build = Build { clients: everybody.map(rule).into(), ..Build::default() };
        build.finish(seed, Skipped::default())
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
        let NameRules { names, below } = &self.names;
        names.iter().chain(below.iter()).for_each(|(name, _)| filter.add(name));
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

/// The records of rules, with owners relative to the apex. What no zone could hold is left out.
fn relative(records: &[LocalRecord], apex: &[u8], skipped: &mut Skipped) -> Vec<LocalRecord> {
    let mut relative: Vec<LocalRecord> = Vec::new();
    for record in records {
        if *record.name == *apex || DNSSEC.contains(&record.rtype) {
            continue;
        }
        let is_below = suffixes(&record.name).any(|above| *above == *apex);
        match record.name.strip_suffix(apex).filter(|_| is_below) {
            Some(name) => {
                let name = [name, &[0]].concat().into();
                relative.push(LocalRecord { name, ..record.clone() });
            }
            None => skipped.add(RpzError::Outside(text(&record.name))),
        }
    }
    // Each owner by itself: what contradicts itself there says nothing about the others.
    let mut owners: BTreeMap<Vec<u8>, Vec<LocalRecord>> = BTreeMap::new();
    for record in relative {
        owners.entry(record.name.to_ascii_lowercase()).or_default().push(record);
    }
    let is_sound = |records: &Vec<LocalRecord>| match LocalZone::new(records, |_| false) {
        Ok(_) => true,
        Err(problem) => {
            skipped.add(problem.into());
            false
        }
    };
    owners.into_values().filter(is_sound).flatten().collect()
}

/// A name without pointers, in lower case.
pub(super) type WholeName = ArrayVec<u8, MAX_NAME>;

/// The name at `at` of a message.
fn whole_name(message: &[u8], at: usize) -> Option<WholeName> {
    let name = RefCell::new(WholeName::new());
    follow_name(message, at, |part| match message.get(part) {
        // A pointer.
        Some([0xc0..=0xff, ..]) => true,
        Some(label) => name.borrow_mut().try_extend_from_slice(label).is_ok(),
        None => false,
    })?;
    let mut name = name.into_inner();
    name.make_ascii_lowercase();
    Some(name)
}

/// The records of a message, as far as they can be read.
fn records(message: &[u8]) -> impl Iterator<Item = Record> {
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

/// Rules on their way into a zone.
#[derive(Default)]
struct Build {
    names: Listing,
    below: Listing,
    clients: Vec<(Prefix, u32)>,
    responses: Vec<(Prefix, u32)>,
    servers: Listing,
    servers_below: Listing,
    server_addresses: Vec<(Prefix, u32)>,
    nodes: Vec<Node>,
}

impl Build {
    /// Adds the rule that an owner and its records are.
    fn add_owner(
        &mut self,
        zone: &LocalZone<'_>,
        owner: &[u8],
        entries: &mut Entries,
    ) -> Result<(), RpzError> {
        let trigger = trigger(owner)?;
        let action = match fixed_action(zone, owner)? {
            Some(action) => action,
            None => {
                self.nodes.push(rule_node(zone, owner, entries)?);
                Action::Local(self.nodes.len() as u32 - 1)
            }
        };
        self.add(trigger, action.number())
    }

    fn add(&mut self, trigger: Trigger, number: u32) -> Result<(), RpzError> {
        let prefixes = match trigger {
            Trigger::Client(prefix) => Ok((&mut self.clients, prefix)),
            Trigger::Response(prefix) => Ok((&mut self.responses, prefix)),
            Trigger::ServerAddress(prefix) => Ok((&mut self.server_addresses, prefix)),
            Trigger::Name(name) => Err((&mut self.names, name)),
            Trigger::Below(name) => Err((&mut self.below, name)),
            Trigger::Server(name) => Err((&mut self.servers, name)),
            Trigger::ServerBelow(name) => Err((&mut self.servers_below, name)),
        };
        let has_room = match prefixes {
            Ok((prefixes, prefix)) => {
                prefixes.push((prefix, number));
                true
            }
            Err((names, name)) => names.add(&name, number),
        };
        if has_room { Ok(()) } else { Err(RpzError::TooMany) }
    }

    fn finish(self, seed: Seed, skipped: Skipped) -> PolicyZone {
        // A rule that stands twice is one record set, so no name comes twice.
        let first = |earlier, _| earlier;
        let rules = |names: Listing, below: Listing| NameRules {
            names: names.build(seed, first),
            below: below.build(seed, first),
        };
        PolicyZone {
            views: ViewSet::ALL,
            names: rules(self.names, self.below),
            clients: clients(&self.clients),
            responses: ranked(&self.responses),
            servers: rules(self.servers, self.servers_below),
            server_addresses: ranked(&self.server_addresses),
            nodes: self.nodes.into(),
            seed,
            client_prefixes: self.clients.into_iter().map(|(prefix, _)| prefix).collect(),
            skipped,
        }
    }
}

fn clients(rules: &[(Prefix, u32)]) -> Option<Clients<u32>> {
    let rules_of = rules.iter().map(|(prefix, number)| (prefix, *number));
    (!rules.is_empty()).then(|| Clients::new(rules_of, NONE))
}

fn ranked(rules: &[(Prefix, u32)]) -> Option<Clients<Ranked>> {
    let rules_of = rules.iter().map(|(prefix, number)| (prefix, (rank(prefix), *number)));
    (!rules.is_empty()).then(|| Clients::new(rules_of, (0, NONE)))
}

fn rank(prefix: &Prefix) -> u8 {
    if prefix.network.is_ipv4() { MAPPED + prefix.length } else { prefix.length }
}

/// The action that an owner's CNAME record says; `None`: its records are what is answered.
fn fixed_action(zone: &LocalZone<'_>, owner: &[u8]) -> Result<Option<Action>, RpzError> {
    let Some(target) = zone.alias(owner) else { return Ok(None) };
    let action = match target.as_slice() {
        b"\0" => Action::Nxdomain,
        b"\x01*\0" => Action::Nodata,
        b"\x0crpz-passthru\0" => Action::Passthru,
        b"\x08rpz-drop\0" => Action::Drop,
        b"\x0crpz-tcp-only\0" => Action::TcpOnly,
        // The oldest way to write it: the name leads to itself.
        target if target == owner => Action::Passthru,
        target if is_reserved(target) => {
            return Err(RpzError::Action { name: text(owner), action: text(target) });
        }
        _ => return Ok(None),
    };
    Ok(Some(action))
}

/// A single label that begins with `rpz-`: actions that are none of ours.
fn is_reserved(target: &[u8]) -> bool {
    suffixes(target).count() == 2 && target[1..].starts_with(b"rpz-")
}

/// What the rule of an owner is about.
fn trigger(owner: &[u8]) -> Result<Trigger, RpzError> {
    let labels: Vec<&[u8]> = labels(owner);
    let prefix = |labels| prefix(labels).ok_or_else(|| RpzError::Prefix(text(owner)));
    match labels.split_last() {
        Some((&b"rpz-client-ip", address)) => Ok(Trigger::Client(prefix(address)?)),
        Some((&b"rpz-ip", address)) => Ok(Trigger::Response(prefix(address)?)),
        Some((&b"rpz-nsip", address)) => Ok(Trigger::ServerAddress(prefix(address)?)),
        Some((&b"rpz-nsdname", _)) => {
            let name = [owner.strip_suffix(b"\x0brpz-nsdname\0").unwrap_or(owner), &[0]].concat();
            Ok(match LocalZone::above_wildcard(&name) {
                Some(above) => Trigger::ServerBelow(above.to_vec()),
                None => Trigger::Server(name),
            })
        }
        _ => Ok(match LocalZone::above_wildcard(owner) {
            Some(above) => Trigger::Below(above.to_vec()),
            None => Trigger::Name(owner.to_vec()),
        }),
    }
}

fn labels(name: &[u8]) -> Vec<&[u8]> {
    let label = |rest: &'_ [u8]| 1..1 + usize::from(rest[0]);
    suffixes(name).filter(|rest| rest.len() > 1).map(|rest| &rest[label(rest)]).collect()
}

/// A prefix as rules write it: its length, and then the address from its end to its start. `zz` stands for the
/// longest run of zeros.
fn prefix(labels: &[&[u8]]) -> Option<Prefix> {
    let (length, address) = labels.split_first()?;
    let length: u8 = std::str::from_utf8(length).ok()?.parse().ok()?;
    let words: Vec<&str> = address
        .iter()
        .rev()
        .map(|label| std::str::from_utf8(label))
        .collect::<Result<_, _>>()
        .ok()?;
    let decimal = || -> Option<IpAddr> {
        let bytes: Vec<u8> = words.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into())
    };
    let hexadecimal = || -> Option<IpAddr> {
        let zeros = words.iter().position(|word| *word == "zz");
        let hex = |words: &[&str]| -> Option<Vec<u16>> {
            words.iter().map(|word| u16::from_str_radix(word, 16).ok()).collect()
        };
        let words = match zeros {
            None => hex(&words)?,
            Some(at) => {
                let (before, after) = (hex(&words[..at])?, hex(&words[at + 1..])?);
                let zeros = 8usize.checked_sub(before.len() + after.len())?;
                [before, vec![0; zeros], after].concat()
            }
        };
        Some(Ipv6Addr::from(<[u16; 8]>::try_from(words).ok()?).into())
    };
    let network = decimal().or_else(hexadecimal)?;
    format!("{network}/{length}").parse().ok()
}

#[cfg(test)]
mod tests;
