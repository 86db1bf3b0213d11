//! What of a zone file is not served, as BIND does not serve it: it is left out with a warning.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use pmdns_config::{LocalRecord, ViewSet};

use super::local_error::MAX_CNAMES;
use super::zone::{LocalZone, text};
use crate::wire::dns::rtype;
use crate::wire::name::suffixes;

/// A zone file that was read: the views it is for, and its records.
pub(super) struct ReadZone<'c> {
    pub(super) file: &'c Path,
    pub(super) views: ViewSet,
    pub(super) records: Vec<LocalRecord>,
}

/// Names, in lower case.
type NameSet = HashSet<Vec<u8>>;

impl ReadZone<'_> {
    /// The owners of records of a type.
    fn owners(&self, rtype: u16) -> NameSet {
        let records = self.records.iter().filter(|record| record.rtype == rtype);
        records.map(|record| record.name.to_ascii_lowercase()).collect()
    }

    /// Leaves out records that are neither at nor below a name with an SOA record, if the file has one: they are not of its
    /// zone.
    pub(super) fn leave_out_of_zone(&mut self, warnings: &mut Vec<String>) {
        let apexes = self.owners(rtype::SOA);
        if !apexes.is_empty() {
            let is_outside = |name: &[u8]| !suffixes(name).any(|above| apexes.contains(above));
            self.leave_out("their names are outside the zone", warnings, |_, name| {
                is_outside(name)
            });
        }
    }

    /// Leaves out records below a DNAME record, which stands for all names there (RFC 6672 section 2.4), and a DNAME record of
    /// a wildcard (section 3.3).
    pub(super) fn leave_out_hidden(&mut self, warnings: &mut Vec<String>) {
        let mut trees = self.owners(rtype::DNAME);
        if trees.is_empty() {
            return;
        }
        trees.retain(|name| LocalZone::above_wildcard(name).is_none());
        let is_below = |name: &[u8]| suffixes(name).skip(1).any(|above| trees.contains(above));
        self.leave_out("a DNAME record stands above them", warnings, |_, name| is_below(name));
        self.leave_out("a DNAME record has no wildcard", warnings, |record, name| {
            record.rtype == rtype::DNAME && LocalZone::above_wildcard(name).is_some()
        });
    }

    /// Leaves out records, with a warning that says why, how many they are, and the first.
    fn leave_out(
        &mut self,
        why: &str,
        warnings: &mut Vec<String>,
        is_out: impl Fn(&LocalRecord, &[u8]) -> bool,
    ) {
        let all = self.records.len();
        let mut first = None;
        self.records.retain(|record| {
            let is_out = is_out(record, &record.name.to_ascii_lowercase());
            if is_out {
                first.get_or_insert_with(|| text(&record.name));
            }
            !is_out
        });
        if let Some(first) = first {
            let count = all - self.records.len();
            let file = self.file.display();
            warnings.push(format!(
                "{file}: {count} records are left out, because {why}, the first is {first}"
            ));
        }
    }
}

/// The records of all files, each with the views it is for. Where the zone of one file hangs below that of another, its own file
/// alone answers for it: of what the other has there, only DS records count, which stand above a zone cut (RFC 4035 section
/// 3.1.4.1).
pub(super) fn each_for_its_own_zone(zones: Vec<ReadZone<'_>>) -> Vec<(ViewSet, LocalRecord)> {
    let apexes: Vec<(ViewSet, NameSet)> =
        zones.iter().map(|zone| (zone.views, zone.owners(rtype::SOA))).collect();
    let mut records = Vec::new();
    for (number, zone) in zones.into_iter().enumerate() {
        let others = apexes.iter().enumerate().filter(|(other, _)| *other != number);
        let others: Vec<_> = others.map(|(_, other)| other).collect();
        let own = &apexes[number].1;
        for record in zone.records {
            let name = record.name.to_ascii_lowercase();
            let mut views = zone.views;
            for (at, above) in suffixes(&name).enumerate() {
                // From its own apex on upwards nothing hangs below it.
                if own.contains(above) {
                    break;
                }
                if at == 0 && record.rtype == rtype::DS {
                    continue;
                }
                for (other_views, _) in others.iter().filter(|(_, apexes)| apexes.contains(above)) {
                    views = views.without(*other_views);
                }
            }
            // A file without an apex adds single names to whatever there is.
            let views = if own.is_empty() { zone.views } else { views };
            if !views.is_empty() {
                records.push((views, record));
            }
        }
    }
    records
}

/// Says which CNAME records go in a circle, or through too many names, in one of these views. They are answered as far as they
/// go, with SERVFAIL.
pub(super) fn endless_aliases(
    records: &[(ViewSet, LocalRecord)],
    views: impl Iterator<Item = u8>,
) -> Option<String> {
    let lower = |name: &[u8]| name.to_ascii_lowercase();
    let aliases = records.iter().filter(|(_, record)| record.rtype == rtype::CNAME);
    let aliases: Vec<_> =
        aliases.map(|(views, record)| (views, lower(&record.name), lower(&record.data))).collect();
    let mut endless = BTreeSet::new();
    for view in views {
        let here = aliases.iter().filter(|(views, ..)| views.has(view));
        let targets: HashMap<&[u8], &[u8]> =
            here.map(|(_, name, target)| (&name[..], &target[..])).collect();
        let is_endless = |name: &&[u8]| {
            let mut name = *name;
            (0..=MAX_CNAMES).all(|_| {
                let next = targets.get(name).copied();
                name = next.unwrap_or(name);
                next.is_some()
            })
        };
        endless.extend(targets.keys().copied().filter(is_endless));
    }
    let first = text(endless.first()?);
    Some(format!(
        "the CNAME records of {} local names go in a circle or through more than {MAX_CNAMES} names, so \
         queries get SERVFAIL, the first is {first}",
        endless.len()
    ))
}
