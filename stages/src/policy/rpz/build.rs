//! How a policy zone is made of its records.

use std::collections::BTreeMap;

use pmdns_config::narrow::to_u32;
use pmdns_config::{LocalRecord, Prefix, ViewSet};

use super::action::{Action, NONE, Ranked, fixed_action};
use super::error::RpzError;
use super::trigger::{Trigger, trigger};
use super::{NameRules, PolicyZone, Skipped};
use crate::lpm::Clients;
use crate::policy::local::{Entries, Node, rule_node};
use crate::policy::local_error::LocalDataError;
use crate::policy::names::Listing;
use crate::policy::zone::{LocalZone, text};
use crate::wire::dns::rtype;
use crate::wire::name::{Seed, suffixes};

/// Types that sign a zone and say nothing of what is to be done: KEY, DS, RRSIG, NSEC, DNSKEY, NSEC3 and NSEC3PARAM.
pub(super) const DNSSEC: [u16; 7] = [25, rtype::DS, 46, 47, 48, 50, 51];

/// The prefix that IPv4 addresses have among IPv6 addresses, `::ffff:0:0/96`, so that the lengths of prefixes of both
/// compare.
const MAPPED: u8 = 96;

/// Rules on their way into a zone.
#[derive(Default)]
pub(super) struct Build {
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
    /// The rules of these records, and what is left out of them.
    pub(super) fn of(
        records: &[LocalRecord],
        entries: &mut Entries,
    ) -> Result<(Self, Skipped), RpzError> {
        let apex =
            records.iter().find(|record| record.rtype == rtype::SOA).ok_or(RpzError::NoApex)?;
        let mut skipped = Skipped::default();
        let relative = relative(records, &apex.name, &mut skipped);
        let zone = LocalZone::new(&relative, |_| false)?;
        let mut build = Self::default();
        for owner in zone.owners() {
            match build.add_owner(&zone, owner, entries) {
                Err(RpzError::TooMany) => return Err(RpzError::TooMany),
                Err(problem) => skipped.add(problem),
                Ok(()) => {}
            }
        }
        Ok((build, skipped))
    }

    /// One rule about these clients, and no other.
    pub(super) fn of_clients(clients: &[Prefix], action: Action) -> Self {
        let rule = |prefix: &Prefix| (*prefix, action.number());
        Self { clients: clients.iter().map(rule).collect(), ..Self::default() }
    }

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
                Action::Local(to_u32(self.nodes.len() - 1))
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

    /// The zone, ready to be looked up.
    pub(super) fn finish(self, seed: Seed, skipped: Skipped) -> PolicyZone {
        // A rule that stands twice is one record set, so no name comes twice.
        let first = |earlier, _| earlier;
        let rules = |names: Listing, below: Listing| NameRules {
            names: names.build(seed, first),
            below: below.build(seed, first),
        };
        PolicyZone {
            views: ViewSet::ALL,
            number: 0,
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
    let sound = |records: &Vec<LocalRecord>| -> Result<(), LocalDataError> {
        if let Some(record) = records.iter().find(|record| record.rtype == rtype::DNAME) {
            return Err(LocalDataError::DnameIsNoRule { name: text(&record.name) });
        }
        LocalZone::new(records, |_| false).map(|_| ())
    };
    let is_sound = |records: &Vec<LocalRecord>| match sound(records) {
        Ok(()) => true,
        Err(problem) => {
            skipped.add(problem.into());
            false
        }
    };
    owners.into_values().filter(is_sound).flatten().collect()
}
