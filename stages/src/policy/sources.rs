//! The sources of local names, and the views in which each holds.

use std::collections::BTreeSet;

use pmdns_config::files::read_zone;
use pmdns_config::{Config, LocalRecord, ViewSet};

use super::builtin::{Trees, ipv4only_arpa, pointers, resolver_arpa, special_use};
use super::dns64::Dns64;
use super::ruleset::RulesetError;
use super::zone_files::{ReadZone, each_for_its_own_zone, endless_aliases};

/// The sources, read.
pub(super) struct LocalSources {
    records: Vec<(ViewSet, LocalRecord)>,
    /// Records of zone files that are left out, for people.
    pub(super) warnings: Vec<String>,
    /// The zones that have upstreams of their own.
    forwarded: Vec<(ViewSet, Box<[u8]>)>,
}

impl LocalSources {
    pub(super) fn read(config: &Config) -> Result<Self, RulesetError> {
        let local = config.local.iter();
        let mut records: Vec<_> =
            local.map(|one| (config.view_set(&one.views), one.record.clone())).collect();
        let (mut zones, mut warnings) = (Vec::new(), Vec::new());
        for zone in &config.zones {
            let mut read = ReadZone {
                file: &zone.file,
                views: config.view_set(&zone.views),
                records: read_zone(&zone.file, zone.origin.as_deref())?,
            };
            read.leave_out_of_zone(&mut warnings);
            read.leave_out_hidden(&mut warnings);
            zones.push(read);
        }
        records.extend(each_for_its_own_zone(zones));
        let mut forwarded = Vec::new();
        for forward in &config.forwards {
            let zone = forward.wire_zone().map_err(RulesetError::Forward)?;
            // Forwarding the root says nothing of any name.
            if zone.len() > 1 {
                forwarded.push((config.view_set(&forward.views), zone));
            }
        }
        let mut sources = Self { records, warnings, forwarded };
        let views: BTreeSet<u8> = sources.alike(config).into_iter().collect();
        let endless = endless_aliases(&sources.records, views.into_iter());
        sources.warnings.extend(endless);
        Ok(sources)
    }

    /// For each view the first one whose local names are the same. They depend on block lists too.
    pub(super) fn alike(&self, config: &Config) -> Vec<u8> {
        let records = self.records.iter().map(|(views, _)| *views);
        let forwarded = self.forwarded.iter().map(|(views, _)| *views);
        let lists = config.blocklists.iter().map(|list| config.view_set(&list.views));
        let dns64 = config.dns64.iter().map(|dns64| config.view_set(&dns64.views));
        let canary = config.canary_views();
        config.alike(records.chain(forwarded).chain(lists).chain(dns64).chain(canary))
    }

    /// The records of a view, those that nobody wrote down included.
    pub(super) fn records(&self, config: &Config, view: u8) -> Vec<LocalRecord> {
        fn in_view<T: Clone>(all: &[(ViewSet, T)], view: u8) -> Vec<T> {
            all.iter().filter(|(views, _)| views.has(view)).map(|(_, one)| one.clone()).collect()
        }
        let mut records = in_view(&self.records, view);
        records.extend(resolver_arpa(&records));
        let trees = Trees::of(&records);
        records.extend(config.streams.discovery().into_iter().filter(|one| !trees.hide(&one.name)));
        let dns64 = Dns64::of(config, view);
        if let Some(dns64) = &dns64 {
            records.extend(ipv4only_arpa(&records, dns64));
        }
        if config.policy.special_use {
            let mut forwarded = in_view(&self.forwarded, view);
            forwarded.extend(dns64.iter().flat_map(Dns64::reverse_zones));
            records.extend(special_use(&records, &forwarded));
        }
        if config.policy.auto_ptr {
            records.extend(pointers(&records));
        }
        records
    }
}
