//! Records nobody wrote down: of special-use names, and of addresses' names.
//!
//! Special-use names mean something to hosts only, or to nobody (RFC 6761 and the documents that add to its list).
//! Reverse names of private addresses have no meaning outside of their network (RFC 6303). Asked upstream they tell
//! others about that network and burden servers that have no answer. So each such name is the apex of a zone of its
//! own here, empty but for what the RFC says. `test.` is left to the upstreams: who serves it does so on purpose.

use std::collections::HashSet;

use pmdns_config::LocalRecord;
use pmdns_config::narrow::to_u8;

use super::dns64::Dns64;
use super::zone::{LocalZone, tree_above};
use crate::wire::dns::rtype;
use crate::wire::name::suffixes;

/// TTLs and timers of RFC 6303 section 3: TTL, refresh, retry, expire, minimum.
const TTL: u32 = 10_800;
const TIMERS: [u32; 5] = [1, 3600, 1200, 604_800, TTL];

/// Names without any records, and the document that says so.
const EMPTY: [&str; 13] = [
    "invalid",        // RFC 6761 section 6.4
    "onion",          // RFC 7686 section 2
    "home.arpa",      // RFC 8375 section 4
    "service.arpa",   // RFC 9665 section 9.1
    "0.in-addr.arpa", // RFC 6303 section 4.2, as those below
    "254.169.in-addr.arpa",
    "2.0.192.in-addr.arpa",
    "100.51.198.in-addr.arpa",
    "113.0.203.in-addr.arpa",
    "255.255.255.255.in-addr.arpa",
    "d.f.ip6.arpa",             // RFC 6303 section 4.4
    "8.b.d.0.1.0.0.2.ip6.arpa", // RFC 6303 section 4.6
    "10.in-addr.arpa",          // RFC 6303 section 4.1
];

/// Where clients discover encrypted transports (RFC 9462 section 8.2): a zone of its own in any case.
const RESOLVER: &str = "resolver.arpa";

/// Where hosts discover the prefix of a NAT64 (RFC 7050), and the addresses there (RFC 8880 section 8).
const IPV4_ONLY: &str = "ipv4only.arpa";
const IPV4_ONLY_ADDRESSES: [[u8; 4]; 2] = [[192, 0, 0, 170], [192, 0, 0, 171]];

/// `::` and `::1` (RFC 6303 section 4.3): 31 digits and a last one.
const ZEROS: &str = "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa";

/// Every special-use name in wire format, each the apex of a zone.
fn special_names() -> Vec<Vec<u8>> {
    let private = (16..32).map(|second| format!("{second}.172.in-addr.arpa"));
    // RFC 7793: the addresses behind carriers' NAT.
    let shared = (64..128).map(|second| format!("{second}.100.in-addr.arpa"));
    let link_local = ["8", "9", "a", "b"].map(|digit| format!("{digit}.e.f.ip6.arpa"));
    let loopback = [format!("0.{ZEROS}"), format!("1.{ZEROS}")];
    let rest = ["localhost", "168.192.in-addr.arpa", "127.in-addr.arpa"].map(str::to_owned);
    let empty = EMPTY.map(str::to_owned);
    let names = private.chain(shared).chain(link_local).chain(loopback).chain(rest).chain(empty);
    names.map(|text| wire(&text)).collect()
}

/// The records of special-use names. Left out are names that `records` have an SOA record of, and names
/// that are one of `forwarded` or below it. So are names that a DNAME record stands for. What is forwarded below one of them is
/// a part that others serve.
pub(super) fn special_use(records: &[LocalRecord], forwarded: &[Box<[u8]>]) -> Vec<LocalRecord> {
    let (mut names, trees) = (special_names(), Trees::of(records));
    names.retain(|name| !trees.hide(name));
    empty_zones(names, records, forwarded)
}

/// The records of `resolver.arpa`, by which clients discover our encrypted transports. Nothing below it is ever forwarded
/// (RFC 9462 section 8.2).
pub(super) fn resolver_arpa(records: &[LocalRecord]) -> Vec<LocalRecord> {
    empty_zones(vec![wire(RESOLVER)], records, &[])
}

/// The records of `ipv4only.arpa`, by which hosts learn the prefixes of `dns64` (RFC 7050, RFC 8880 section 7.2), and of the
/// names of its addresses.
pub(super) fn ipv4only_arpa(records: &[LocalRecord], dns64: &Dns64) -> Vec<LocalRecord> {
    let name = wire(IPV4_ONLY);
    let mut all = empty_zones(vec![name.clone()], records, &[]);
    let (is_ours, trees) = (!all.is_empty(), Trees::of(records));
    for address in IPV4_ONLY_ADDRESSES.into_iter().filter(|_| is_ours) {
        let mut add = |name: &[u8], rtype: u16, data: &[u8]| {
            all.push(LocalRecord { name: name.into(), rtype, ttl: TTL, data: data.into() });
        };
        add(&name, rtype::A, &address);
        dns64.under_all(address).for_each(|address| add(&name, rtype::AAAA, &address));
        let [a, b, c, d] = address;
        let reverse = wire(&format!("{d}.{c}.{b}.{a}.in-addr.arpa"));
        let is_there = records.iter().any(|record| *record.name == *reverse);
        if !is_there && !trees.hide(&reverse) {
            add(&reverse, rtype::PTR, &name);
        }
    }
    all
}

/// The records of `names`, with the exceptions of [`special_use`].
fn empty_zones(
    names: Vec<Vec<u8>>,
    records: &[LocalRecord],
    forwarded: &[Box<[u8]>],
) -> Vec<LocalRecord> {
    let is_served = |name: &[u8]| {
        let by_file = |record: &LocalRecord| record.rtype == rtype::SOA && *record.name == *name;
        let by_others = suffixes(name).any(|name| forwarded.iter().any(|one| **one == *name));
        records.iter().any(by_file) || by_others
    };
    let mut all = Vec::new();
    let mut trees = Trees::of(records);
    for name in names.into_iter().filter(|name| !is_served(name)) {
        trees.apexes.insert(name.clone());
        let timers = TIMERS.map(u32::to_be_bytes).concat();
        let soa = [name.as_slice(), &wire("nobody.invalid"), &timers].concat();
        let mut add = |owner: &[u8], rtype: u16, data: &[u8]| {
            if !trees.hide(owner) {
                all.push(LocalRecord { name: owner.into(), rtype, ttl: TTL, data: data.into() });
            }
        };
        add(&name, rtype::SOA, &soa);
        add(&name, rtype::NS, &name);
        for part in forwarded.iter().filter(|part| suffixes(part).any(|one| one == name)) {
            add(part, rtype::NS, part);
        }
        // RFC 6761 section 6.3: localhost and all names below it are the host itself.
        if name == wire("localhost") {
            for owner in [name.clone(), [b"\x01*".as_slice(), &name].concat()] {
                add(&owner, rtype::A, &[127, 0, 0, 1]);
                add(&owner, rtype::AAAA, &std::net::Ipv6Addr::LOCALHOST.octets());
            }
        } else if name == wire("127.in-addr.arpa") {
            add(&wire("1.0.0.127.in-addr.arpa"), rtype::PTR, &wire("localhost"));
        } else if name == wire(&format!("1.{ZEROS}")) {
            add(&name, rtype::PTR, &wire("localhost"));
        }
    }
    all
}

/// A PTR record for each address, to the first name that has it. A set of all names of one address may be too long for
/// an answer. None for an address whose reverse name has PTR records already, or a CNAME record, which stands alone, or is below
/// a DNAME record.
pub(super) fn pointers(records: &[LocalRecord]) -> Vec<LocalRecord> {
    let is_taken = |record: &&LocalRecord| matches!(record.rtype, rtype::PTR | rtype::CNAME);
    let taken = records.iter().filter(is_taken);
    let mut taken: HashSet<Vec<u8>> =
        taken.map(|record| record.name.to_ascii_lowercase()).collect();
    let trees = Trees::of(records);
    let mut pointers = Vec::new();
    for record in records.iter().filter(|record| LocalZone::above_wildcard(&record.name).is_none())
    {
        let Some(name) = reverse_name(record) else { continue };
        if !trees.hide(&name) && taken.insert(name.clone()) {
            pointers.push(LocalRecord {
                name: name.into(),
                rtype: rtype::PTR,
                ttl: record.ttl,
                data: record.name.clone(),
            });
        }
    }
    pointers
}

/// The names of DNAME records and of apexes, in lower case.
pub(super) struct Trees {
    trees: HashSet<Vec<u8>>,
    apexes: HashSet<Vec<u8>>,
}

impl Trees {
    /// Those of these records.
    pub(super) fn of(records: &[LocalRecord]) -> Self {
        let owners = |rtype: u16| {
            let records = records.iter().filter(|record| record.rtype == rtype);
            records.map(|record| record.name.to_ascii_lowercase()).collect()
        };
        Self { trees: owners(rtype::DNAME), apexes: owners(rtype::SOA) }
    }

    /// Whether a DNAME record stands for a name, so that records of it would contradict that one.
    pub(super) fn hide(&self, name: &[u8]) -> bool {
        let has = |name: &[u8], rtype| match rtype {
            rtype::DNAME => self.trees.contains(name),
            _ => self.apexes.contains(name),
        };
        !self.trees.is_empty() && tree_above(name, has).is_some()
    }
}

/// The name under which an address is looked up (RFC 1035 section 3.5, RFC 3596 section 2.5).
fn reverse_name(record: &LocalRecord) -> Option<Vec<u8>> {
    match (record.rtype, record.data.len()) {
        (rtype::A, 4) => {
            let labels = record.data.iter().rev().map(|byte| format!("{byte}."));
            Some(wire(&format!("{}in-addr.arpa", labels.collect::<String>())))
        }
        (rtype::AAAA, 16) => {
            let digits = record.data.iter().rev();
            let labels = digits.map(|byte| format!("{:x}.{:x}.", byte & 15, byte >> 4));
            Some(wire(&format!("{}ip6.arpa", labels.collect::<String>())))
        }
        _ => None,
    }
}

/// A name of our own making in wire format: no escapes, no label too long.
pub(super) fn wire(text: &str) -> Vec<u8> {
    let mut name = Vec::new();
    for label in text.split('.') {
        name.push(to_u8(label.len()));
        name.extend_from_slice(label.as_bytes());
    }
    name.push(0);
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::name_of;

    fn address(name: &str, rtype: u16, data: &[u8]) -> LocalRecord {
        LocalRecord { name: name_of(name).into(), rtype, ttl: 60, data: data.into() }
    }

    fn has(records: &[LocalRecord], name: &str, rtype: u16) -> bool {
        records.iter().any(|record| *record.name == name_of(name) && record.rtype == rtype)
    }

    #[test]
    fn every_special_use_name_is_a_zone() {
        let records = special_use(&[], &[]);
        for name in [
            "localhost.",
            "invalid.",
            "onion.",
            "home.arpa.",
            "10.in-addr.arpa.",
            "16.172.in-addr.arpa.",
            "31.172.in-addr.arpa.",
            "168.192.in-addr.arpa.",
            "64.100.in-addr.arpa.",
            "127.100.in-addr.arpa.",
            "b.e.f.ip6.arpa.",
            "d.f.ip6.arpa.",
        ] {
            assert!(has(&records, name, rtype::SOA) && has(&records, name, rtype::NS), "{name}");
        }
        for name in ["32.172.in-addr.arpa.", "63.100.in-addr.arpa.", "test.", "example."] {
            assert!(!has(&records, name, rtype::SOA), "{name}");
        }
        assert!(has(&records, "*.localhost.", rtype::AAAA));
        assert!(has(&records, "1.0.0.127.in-addr.arpa.", rtype::PTR));
        assert_eq!(wire(&format!("1.{ZEROS}")).len(), 2 * 32 + 10, "32 digits");
    }

    #[test]
    fn resolver_arpa_is_a_zone_of_its_own_whatever_is_forwarded() {
        let records = resolver_arpa(&[]);
        assert!(has(&records, "resolver.arpa.", rtype::SOA));
        assert!(has(&records, "resolver.arpa.", rtype::NS));
        assert_eq!(records.len(), 2);
        let own = address("resolver.arpa.", rtype::SOA, &[0; 22]);
        assert!(resolver_arpa(&[own]).is_empty(), "an operator's own zone takes its place");
    }

    #[test]
    fn a_zone_of_one_s_own_or_somebody_else_s_replaces_one() {
        let own = address("10.in-addr.arpa.", rtype::SOA, &[0; 22]);
        let forwarded = [name_of("168.192.in-addr.arpa."), name_of("ip6.arpa.")];
        let records = special_use(&[own], &forwarded.map(Into::into));
        for name in ["10.in-addr.arpa.", "168.192.in-addr.arpa.", "d.f.ip6.arpa."] {
            assert!(!has(&records, name, rtype::SOA), "{name}");
        }
        assert!(has(&records, "16.172.in-addr.arpa.", rtype::SOA));
    }

    #[test]
    fn what_is_forwarded_below_a_zone_is_a_part_of_its_own() {
        let records = special_use(&[], &[name_of("corp.home.arpa.").into()]);
        assert!(has(&records, "home.arpa.", rtype::SOA));
        assert!(has(&records, "corp.home.arpa.", rtype::NS));
        assert!(!has(&records, "corp.home.arpa.", rtype::SOA));
    }

    #[test]
    fn addresses_get_names() {
        let records = [
            address("a.lan.", rtype::A, &[10, 1, 2, 3]),
            address(
                "six.lan.",
                rtype::AAAA,
                &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf],
            ),
            address("*.lan.", rtype::A, &[10, 9, 9, 9]),
            address("b.lan.", rtype::A, &[10, 0, 0, 1]),
            address("1.0.0.10.in-addr.arpa.", rtype::PTR, &name_of("chosen.lan.")),
        ];
        let found = pointers(&records);
        assert_eq!(found.len(), 2, "no wildcard, and no second name for 10.0.0.1");
        assert_eq!(*found[0].name, name_of("3.2.1.10.in-addr.arpa."));
        assert_eq!(*found[0].data, name_of("a.lan."));
        let reverse = "f.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.";
        assert_eq!(*found[1].name, name_of(reverse));
    }

    #[test]
    fn an_address_of_many_names_is_named_by_the_first_of_them() {
        let names = (0..200).map(|number| format!("host{number}.lan."));
        let records: Vec<_> =
            names.map(|name| address(&name, rtype::A, &[192, 168, 1, 10])).collect();
        let found = pointers(&records);
        assert_eq!(found.len(), 1);
        assert_eq!(*found[0].data, name_of("host0.lan."));
    }

    #[test]
    fn an_address_whose_reverse_name_leads_elsewhere_gets_no_name() {
        let target = name_of("10.0-25.1.168.192.in-addr.arpa.");
        let records = [
            address("a.lan.", rtype::A, &[192, 168, 1, 10]),
            address("b.lan.", rtype::A, &[192, 168, 1, 11]),
            address("10.1.168.192.IN-ADDR.ARPA.", rtype::CNAME, &target),
        ];
        let found = pointers(&records);
        assert_eq!(found.len(), 1);
        assert_eq!(*found[0].name, name_of("11.1.168.192.in-addr.arpa."));
        let all = [&records[..], &found].concat();
        assert!(LocalZone::new(&all, |_| false).is_ok());
    }

    fn tree(name: &str) -> LocalRecord {
        address(name, rtype::DNAME, &name_of("1.rev.corp.example."))
    }

    #[test]
    fn an_address_whose_reverse_name_is_below_a_dname_record_gets_no_name() {
        let records = [
            address("a.lan.", rtype::A, &[192, 168, 1, 10]),
            address("b.lan.", rtype::A, &[192, 168, 2, 10]),
            address("c.lan.", rtype::A, &[192, 168, 1, 130]),
            address("168.192.in-addr.arpa.", rtype::SOA, &[0; 22]),
            tree("1.168.192.IN-ADDR.arpa."),
            address("130.1.168.192.in-addr.arpa.", rtype::SOA, &[0; 22]),
        ];
        let found = pointers(&records);
        let names: Vec<_> = found.iter().map(|record| record.name.to_vec()).collect();
        let expected = ["10.2.168.192.in-addr.arpa.", "130.1.168.192.in-addr.arpa."].map(name_of);
        assert_eq!(names, expected, "a zone below the DNAME record answers for itself");
        let all = [&records[..], &found].concat();
        assert!(LocalZone::new(&all, |_| false).is_ok());
    }

    #[test]
    fn a_dname_record_stands_for_special_use_names() {
        let records = [
            tree("172.in-addr.arpa."),
            tree("localhost."),
            tree("0.127.in-addr.arpa."),
            tree("10.in-addr.arpa."),
        ];
        let forwarded = [name_of("1.10.in-addr.arpa.").into()];
        let made = special_use(&records, &forwarded);
        assert!(!has(&made, "16.172.in-addr.arpa.", rtype::SOA));
        assert!(has(&made, "localhost.", rtype::SOA) && !has(&made, "*.localhost.", rtype::A));
        assert!(has(&made, "127.in-addr.arpa.", rtype::SOA));
        assert!(!has(&made, "1.0.0.127.in-addr.arpa.", rtype::PTR));
        assert!(!has(&made, "1.10.in-addr.arpa.", rtype::NS));
        let all = [&records[..], &made].concat();
        assert!(LocalZone::new(&all, |_| false).is_ok());
        let above = [tree("arpa.")];
        let resolver = resolver_arpa(&above);
        assert!(has(&resolver, "resolver.arpa.", rtype::SOA), "in any case");
        assert!(LocalZone::new(&[&above[..], &resolver].concat(), |_| false).is_ok());
    }
}
