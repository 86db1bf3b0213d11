use super::build::DNSSEC;
use super::*;
use crate::testing::{name_of, query, reply};
use crate::wire::dns::Rcode;

fn seed() -> Seed {
    Seed::new(*b"sixteen letters!")
}

fn record(name: &str, rtype: u16, data: &[u8]) -> LocalRecord {
    LocalRecord { name: name_of(name).into(), rtype, ttl: 60, data: data.into() }
}

/// Rules as owner and target of their CNAME records, below `rpz.`.
fn zone(rules: &[(&str, &str)]) -> Result<PolicyZone, RpzError> {
    let mut records = vec![record("rpz.", rtype::SOA, &[0; 22])];
    for (owner, target) in rules {
        records.push(record(&format!("{owner}.rpz."), rtype::CNAME, &name_of(target)));
    }
    PolicyZone::new(&records, &mut Entries::new(seed()), seed())
}

fn of_name(zone: &PolicyZone, text: &str) -> Option<Action> {
    let mut filter = Filter::with_capacity(zone.len(), seed());
    zone.add_to(&mut filter);
    let name = name_of(text);
    zone.of_name(&name, &filter.candidates(&name))
}

#[test]
fn every_action_of_a_name() {
    let rules = zone(&[
        ("a.example", "."),
        ("b.example", "*."),
        ("c.example", "rpz-passthru."),
        ("d.example", "rpz-drop."),
        ("e.example", "rpz-tcp-only."),
        ("f.example", "f.example."),
        ("g.example", "walled.garden."),
    ]);
    let rules = rules.unwrap();
    for (name, action) in [
        ("a.example.", Action::Nxdomain),
        ("B.Example.", Action::Nodata),
        ("c.example.", Action::Passthru),
        ("d.example.", Action::Drop),
        ("e.example.", Action::TcpOnly),
        ("f.example.", Action::Passthru),
        ("g.example.", Action::Local(0)),
    ] {
        assert_eq!(of_name(&rules, name), Some(action), "{name}");
    }
    assert_eq!(of_name(&rules, "x.a.example."), None);
    assert_eq!(of_name(&rules, "example."), None);
}

#[test]
fn a_wildcard_is_about_what_is_below_and_the_longest_counts() {
    let rules =
        zone(&[("*.example", "."), ("*.a.example", "*."), ("b.a.example", "rpz-passthru.")]);
    let rules = rules.unwrap();
    assert_eq!(of_name(&rules, "example."), None);
    assert_eq!(of_name(&rules, "a.example."), Some(Action::Nxdomain));
    assert_eq!(of_name(&rules, "x.a.example."), Some(Action::Nodata));
    assert_eq!(of_name(&rules, "b.a.example."), Some(Action::Passthru));
    assert_eq!(of_name(&rules, "x.b.a.example."), Some(Action::Nodata));
}

#[test]
fn rules_about_clients_by_the_longest_prefix() {
    let rules = zone(&[
        ("24.0.2.0.192.rpz-client-ip", "rpz-drop."),
        ("32.7.2.0.192.rpz-client-ip", "rpz-passthru."),
        ("48.zz.1.db8.2001.rpz-client-ip", "."),
    ]);
    let rules = rules.unwrap();
    assert_eq!(rules.of_client(&[192, 0, 2, 1]), Some(Action::Drop));
    assert_eq!(rules.of_client(&[192, 0, 2, 7]), Some(Action::Passthru));
    assert_eq!(rules.of_client(&[192, 0, 3, 7]), None);
    let mut ipv6 = [0; 16];
    ipv6[..6].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 1]);
    assert_eq!(rules.of_client(&ipv6), Some(Action::Nxdomain));
    assert_eq!(rules.client_prefixes.len(), 3);
}

#[test]
fn rules_about_addresses_look_at_the_answer_section() {
    let rules = zone(&[("24.0.2.0.192.rpz-ip", "."), ("128.1.zz.2001.rpz-ip", "*.")]).unwrap();
    assert!(rules.has_responses());
    let query = query("www.example. A");
    let of = |section, rtype, data: &[u8]| {
        rules.of_response(&reply(&query, &[(section, rtype, 60, data.to_vec())]))
    };
    assert_eq!(of(0, 1, &[192, 0, 2, 9]), Some(Action::Nxdomain));
    assert_eq!(of(0, 1, &[192, 0, 3, 9]), None);
    assert_eq!(of(2, 1, &[192, 0, 2, 9]), None, "additional");
    assert_eq!(of(0, 16, &[192, 0, 2, 9]), None, "no address");
    let mut ipv6 = [0; 16];
    (ipv6[0], ipv6[1], ipv6[15]) = (0x20, 1, 1);
    assert_eq!(of(0, 28, &ipv6), Some(Action::Nodata));
}

#[test]
fn the_longest_prefix_over_all_addresses_decides_in_whatever_order_they_come() {
    let rules = zone(&[
        ("24.0.2.0.192.rpz-ip", "."),
        ("32.7.2.0.192.rpz-ip", "rpz-passthru."),
        ("32.9.2.0.192.rpz-ip", "*."),
        ("24.0.2.0.192.rpz-nsip", "."),
        ("32.7.2.0.192.rpz-nsip", "rpz-passthru."),
        ("64.zz.db8.2001.rpz-nsip", "*."),
    ]);
    let rules = rules.unwrap();
    let mut ipv6 = [0; 16];
    ipv6[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
    let address = |last| [192, 0, 2, last];
    let of = |mut records: Vec<(usize, u16, u32, Vec<u8>)>| {
        let query = query("ns.example. A");
        let found = rules.of_response(&reply(&query, &records));
        // The first is that of the authority section, if there is one.
        let first = records.iter().position(|record| record.0 != 1).unwrap_or_default();
        records[first..].reverse();
        assert_eq!(rules.of_response(&reply(&query, &records)), found, "reversed");
        found
    };
    let answer = |last| (0, rtype::A, 60, address(last).to_vec());
    assert_eq!(of(vec![answer(1), answer(7)]), Some(Action::Passthru));
    assert_eq!(of(vec![answer(1), answer(2), answer(9)]), Some(Action::Nodata));
    assert_eq!(of(vec![answer(9), answer(7)]), Some(Action::Passthru), "the smallest address");
    let server = || (1, rtype::NS, 60, vec![0xc0, 12]);
    let glue = |last| (2, rtype::A, 60, address(last).to_vec());
    let ipv6_glue = || (2, rtype::AAAA, 60, ipv6.to_vec());
    assert_eq!(of(vec![server(), glue(1), glue(7)]), Some(Action::Passthru));
    assert_eq!(of(vec![server(), ipv6_glue(), glue(1)]), Some(Action::Nxdomain), "as 120 bits");
    assert_eq!(of(vec![server(), ipv6_glue()]), Some(Action::Nodata));
}

#[test]
fn rules_about_name_servers_look_at_what_the_answer_says_of_them() {
    let rules = zone(&[
        ("ns.bad.example.rpz-nsdname", "."),
        ("*.worse.example.rpz-nsdname", "*."),
        ("24.0.2.0.192.rpz-nsip", "rpz-passthru."),
    ]);
    let rules = rules.unwrap();
    assert!(rules.has_responses());
    // Every owner is the name that is asked for, so that addresses are a server's if that is the server.
    let of = |name: &str, records: &[(usize, u16, &[u8])]| {
        let records: Vec<_> = records
            .iter()
            .map(|(section, rtype, data)| (*section, *rtype, 60, data.to_vec()))
            .collect();
        rules.of_response(&reply(&query(&format!("{name} A")), &records))
    };
    let (bad, worse) = (name_of("NS.Bad.example."), name_of("a.b.worse.example."));
    let address = [192, 0, 2, 1];
    assert_eq!(of("x.", &[(1, rtype::NS, &bad)]), Some(Action::Nxdomain));
    assert_eq!(of("x.", &[(1, rtype::NS, &worse)]), Some(Action::Nodata));
    assert_eq!(of("x.", &[(0, rtype::NS, &bad)]), None, "the answer section is no authority");
    assert_eq!(of("x.", &[(1, rtype::NS, &name_of("worse.example."))]), None);
    // A pointer to the name that is asked for.
    let pointer: &[u8] = &[0xc0, 12];
    assert_eq!(of("ns.bad.example.", &[(1, rtype::NS, pointer)]), Some(Action::Nxdomain));
    let with_address = [(1, rtype::NS, pointer), (2, rtype::A, &address[..])];
    assert_eq!(of("ns.example.", &with_address), Some(Action::Passthru));
    assert_eq!(of("ns.bad.example.", &with_address), Some(Action::Nxdomain), "names first");
    assert_eq!(of("ns.example.", &with_address[1..]), None, "nobody says it is a server");
}

#[test]
fn records_of_a_rule_are_what_is_answered() {
    let mut entries = Entries::new(seed());
    let records = [
        record("rpz.", rtype::SOA, &[0; 22]),
        record("a.example.rpz.", 1, &[192, 0, 2, 1]),
        record("a.example.rpz.", 16, b"\x02hi"),
    ];
    let rules = PolicyZone::new(&records, &mut entries, seed()).unwrap();
    assert_eq!(of_name(&rules, "a.example."), Some(Action::Local(0)));
    let count = |qtype| entries.get(rules.entry(0, qtype)).unwrap().head().counts()[0];
    assert_eq!((count(1), count(16), count(28)), (1, 1, 0));
}

#[test]
fn a_cname_record_of_a_rule_is_not_followed_into_other_rules() {
    let mut entries = Entries::new(seed());
    let alias = |owner: &str, target: &str| {
        record(&format!("{owner}.rpz."), rtype::CNAME, &name_of(target))
    };
    for target_rule in [
        alias("block.bad.example", "rpz-passthru."),
        alias("block.bad.example", "."),
        record("block.bad.example.rpz.", 1, &[192, 0, 2, 1]),
        // The wildcard is about its own target then.
        alias("other.example", "."),
    ] {
        let wildcard = alias("*.bad.example", "block.bad.example.");
        let records = [record("rpz.", rtype::SOA, &[0; 22]), wildcard, target_rule];
        let rules = PolicyZone::new(&records, &mut entries, seed()).unwrap();
        let Some(Action::Local(node)) = of_name(&rules, "x.bad.example.") else {
            panic!("no records");
        };
        for qtype in [1, 28, rtype::CNAME, rtype::ANY] {
            let head = entries.get(rules.entry(node, qtype)).unwrap().head();
            assert_eq!((head.rcode, head.counts()), (Rcode::NOERROR, [1, 0, 0]), "type {qtype}");
        }
    }
}

#[test]
fn records_that_sign_a_policy_zone_are_no_part_of_its_rules() {
    let mut records = vec![record("rpz.", rtype::SOA, &[0; 22])];
    let owner = "a.example.rpz.";
    for rtype in DNSSEC {
        records.push(record(owner, rtype, &[0; 20]));
        records.push(record("hash.rpz.", rtype, &[0; 20]));
    }
    records.push(record(owner, rtype::CNAME, &name_of(".")));
    let rules = PolicyZone::new(&records, &mut Entries::new(seed()), seed()).unwrap();
    assert_eq!(of_name(&rules, "a.example."), Some(Action::Nxdomain));
    assert_eq!(of_name(&rules, "hash."), None);
    assert_eq!(rules.len(), 1);
}

#[test]
fn cve_2026_33600_rules_that_cannot_be_used_are_left_out_and_the_others_hold() {
    // Each is left out, and the rule beside it holds.
    let error = |rules: &[(&str, &str)]| {
        let rules = [rules, &[("sound.example", ".")]].concat();
        let zone = zone(&rules).unwrap();
        assert_eq!(of_name(&zone, "sound.example."), Some(Action::Nxdomain));
        assert_eq!((zone.skipped.count, zone.len()), (1, 1));
        zone.skipped.first.unwrap().to_string()
    };
    assert!(error(&[("24.2.0.192.rpz-ip", ".")]).contains("does not say an address prefix"));
    assert!(error(&[("24.7.2.0.192.rpz-client-ip", ".")]).contains("prefix"), "bits beyond");
    assert!(error(&[("a.example", "rpz-log.")]).contains("action `rpz-log.`"));
    assert!(error(&[("a.rpz-nsip", ".")]).contains("does not say an address prefix"));
    let outside = [record("rpz.", rtype::SOA, &[0; 22]), record("a.notrpz.", 1, &[0; 4])];
    let mut entries = Entries::new(seed());
    let zone = PolicyZone::new(&outside, &mut entries, seed()).unwrap();
    assert_eq!(zone.skipped.first, Some(RpzError::Outside("a.notrpz.".into())));
    assert_eq!(
        check_policy_zone(&outside, true),
        Err(RpzError::Outside("a.notrpz.".into())),
        "a strict zone is refused"
    );
    assert_eq!(check_policy_zone(&outside, false), Ok(()));
    let error = PolicyZone::new(&[], &mut entries, seed()).unwrap_err();
    assert_eq!(error, RpzError::NoApex);
}
