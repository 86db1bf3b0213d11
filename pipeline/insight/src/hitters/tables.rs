//! The counts of the records: five tables over three windows, and floods. Pure: it is told the time.

use std::net::IpAddr;

use pmdns_config::Config;
use pmdns_control::hitters::{FloodRow, Floods as FloodList, HitterRow, HitterTable};
use pmdns_control::{Hitter, HittersQuery};
use pmdns_engine::rule_names::RuleNames;
use pmdns_stages::wire::dns::Rcode;
use pmdns_stages::wire::name::Seed;

use super::floods::{Bounds, Floods, News};
use super::windows::Windows;
use super::zone::ZoneCut;
use crate::records::{Mask, QueryRecord, QueryRecordHead, Source, question, rcode, readable};

/// Everything that is counted.
pub(super) struct Tables {
    /// In the order of [`Hitter::ALL`].
    windows: [Windows; 5],
    floods: Floods,
    cut: ZoneCut,
    rules: RuleNames,
    sample: u32,
    mask: Mask,
    /// The second under way.
    second: u64,
    /// The name in hand, in lower case.
    name: Vec<u8>,
}

impl Tables {
    pub(super) fn new(config: &Config, rules: RuleNames, seed: Seed) -> Self {
        let hitters = &config.hitters;
        let bounds =
            Bounds { names: hitters.flood_names.into(), share: hitters.flood_share.into() };
        Self {
            windows: Hitter::ALL.map(|_| Windows::new(hitters.keys as usize)),
            floods: Floods::new(bounds, seed),
            cut: ZoneCut::new(rules.forwards()),
            rules,
            sample: hitters.sample,
            mask: Mask::new(hitters.ipv4_prefix, hitters.ipv6_prefix),
            second: 0,
            name: Vec::new(),
        }
    }

    /// Counts a record.
    pub(super) fn take(&mut self, record: &QueryRecord<'_>) {
        let QueryRecord { head, message } = record;
        let Some((name, qtype)) = question(message) else { return };
        let mut name_in_hand = std::mem::take(&mut self.name);
        name_in_hand.clear();
        name_in_hand.extend(name.iter().map(u8::to_ascii_lowercase));
        self.count(head, &name_in_hand, qtype, rcode(message));
        self.name = name_in_hand;
    }

    fn count(&mut self, head: &QueryRecordHead, name: &[u8], qtype: u16, rcode: Rcode) {
        use Source::{
            Drop, Error, Failure, Forward, Hit, Late, Local, Miss, Policy, Stale, Truncated,
        };
        let zone = self.cut.zone(name);
        // A query is counted where it is answered, or where it misses.
        let weight = match head.source {
            Hit | Local | Policy | Truncated | Error | Drop => self.sample.into(),
            Miss | Forward | Late | Stale | Failure => 1,
        };
        match head.source {
            Forward | Late | Stale | Failure => {}
            Hit | Local | Policy | Truncated | Error | Drop | Miss => {
                self.add(Hitter::Names, name, weight);
                match self.mask.of(head.client) {
                    IpAddr::V4(v4) => self.add(Hitter::Clients, &v4.octets(), weight),
                    IpAddr::V6(v6) => self.add(Hitter::Clients, &v6.octets(), weight),
                }
            }
        }
        match head.source {
            Miss => self.floods.miss(zone, name),
            // SERVFAIL says that there was no room for the miss.
            Policy if rcode == Rcode::SERVFAIL => {}
            Policy | Drop => self.add(Hitter::Blocked, name, weight),
            Local if self.is_blocked(head, name, qtype) => {
                self.add(Hitter::Blocked, name, weight);
            }
            Hit | Forward | Late | Stale if rcode == Rcode::NXDOMAIN => {
                self.add(Hitter::Nxdomain, zone, weight);
            }
            Forward | Late if rcode == Rcode::NOERROR => self.floods.answer(zone),
            Failure | Forward if rcode != Rcode::NOERROR => {
                self.add(Hitter::Failing, zone, weight);
            }
            _ => {}
        }
    }

    fn add(&mut self, what: Hitter, key: &[u8], weight: u64) {
        self.windows[what as usize].add(key, weight);
    }

    /// Whether a list has the rule that gave a local answer.
    fn is_blocked(&self, head: &QueryRecordHead, name: &[u8], qtype: u16) -> bool {
        head.list_in(&self.rules, name, qtype).is_some()
    }

    /// It is this second now. Returns what became of floods, if the second before is over.
    pub(super) fn set_second(&mut self, second: u64) -> Vec<News> {
        if second <= self.second {
            return Vec::new();
        }
        let over = std::mem::replace(&mut self.second, second);
        // A reload may have brought others.
        self.cut = ZoneCut::new(self.rules.forwards());
        self.windows.iter_mut().for_each(|windows| windows.end_second(over));
        self.floods.end_second(over)
    }

    /// Those that come most.
    pub(super) fn top(&self, query: &HittersQuery) -> HitterTable {
        let (sketch, seconds) = self.windows[query.what as usize].of(query.window);
        let text = |key: &[u8]| match (query.what, <[u8; 4]>::try_from(key)) {
            (Hitter::Clients, Ok(v4)) => IpAddr::from(v4).to_string(),
            (Hitter::Clients, Err(_)) => <[u8; 16]>::try_from(key)
                .map_or_else(|_| String::new(), |v6| IpAddr::from(v6).to_string()),
            _ => readable(key),
        };
        let rows = sketch.top(query.n).into_iter().map(|(key, counted)| HitterRow {
            key: text(&key),
            count: counted.count,
            error: counted.error,
        });
        HitterTable {
            what: query.what,
            seconds,
            total: sketch.total(),
            error: sketch.floor(),
            sample: self.sample,
            rows: rows.collect(),
        }
    }

    /// How many zones are flooded.
    pub(super) fn flooded(&self) -> u64 {
        self.floods.list().count() as u64
    }

    /// The flooded zones.
    pub(super) fn floods(&self) -> FloodList {
        let floods = self.floods.list().map(|(zone, flood)| FloodRow {
            zone: readable(zone),
            seconds: self.second.saturating_sub(flood.since),
            names: flood.names,
            misses: flood.misses,
            answered: flood.answered,
        });
        FloodList { floods: floods.collect() }
    }
}

#[cfg(test)]
mod tests {
    use pmdns_engine::rule_names::ListNames;
    use pmdns_engine::testing::config;

    use super::*;

    #[test]
    fn forward_zones_of_a_reload_are_cut_from_the_next_second_on() {
        const FORWARD: &str = "[[upstream]]\naddress = \"192.0.2.2:53\"\ngroup = \"inner\"\n\
             [[forward]]\nzone = \"lab.corp.example\"\ngroup = \"inner\"\n";
        let names = RuleNames::default();
        let mut tables = Tables::new(&config(""), names.clone(), Seed::new([1; 16]));
        let name = pmdns_config::wire_name("x.lab.corp.example").unwrap();
        names.set_lists(ListNames::of(&config(FORWARD)));
        for (second, zone) in [(0, "corp.example"), (1, "lab.corp.example")] {
            tables.set_second(second);
            assert_eq!(readable(tables.cut.zone(&name)), zone);
        }
    }
}
