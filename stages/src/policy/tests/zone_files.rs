//! What of zone files is served: what BIND serves of them (named 9.18 was asked).

use super::*;
use crate::wire::record::Records;
use pmdns_config::View;

const HEAD: &str = "$TTL 60\n@ SOA ns admin 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

/// The rcode and the addresses of an answer.
fn told(policy: &mut Policy, text: &str) -> (Rcode, Vec<u8>) {
    let answer = ask(policy, text);
    let (_, Answer::Local(found)) = answer else { panic!("{text}: {answer:?}") };
    let entry = policy.rules.entry(found).unwrap();
    let message = entry.message();
    let records = Records::new(&message).unwrap().map(Result::unwrap);
    let addresses =
        records.filter(|record| record.rtype == 1).map(|record| message[record.data_at + 3]);
    (entry.head().rcode, addresses.collect())
}

#[test]
fn each_zone_file_answers_for_its_own_zone_alone() {
    let above = Written::new(&format!(
        "{HEAD}a NS ns.a\nns.a A 192.0.2.3\nwww.a A 192.0.2.66\n*.a A 192.0.2.67\nto CNAME www.a\n\
         b A 192.0.2.9\nx.b A 192.0.2.10\n"
    ));
    let below = Written::new(&format!("{HEAD}www A 192.0.2.5\n"));
    let zones = [above.zone("zone.example"), below.zone("A.Zone.example")];
    for order in [[0, 1], [1, 0]] {
        let mut config = bare();
        config.zones = order.map(|at| zones[at].clone()).to_vec();
        let mut policy = policy(&config);
        for (name, rcode, addresses) in [
            ("www.a", Rcode::NOERROR, &[5][..]),
            ("ns.a", Rcode::NOERROR, &[1]),
            ("other.a", Rcode::NXDOMAIN, &[]),
            ("to", Rcode::NOERROR, &[5]),
            ("x.b", Rcode::NOERROR, &[10]),
        ] {
            let asked = format!("{name}.zone.example. A");
            assert_eq!(told(&mut policy, &asked), (rcode, addresses.to_vec()), "{name} {order:?}");
        }
    }
}

#[test]
fn a_zone_below_another_is_its_own_in_its_views_only() {
    let above = Written::new(&format!("{HEAD}www.a A 192.0.2.66\n"));
    let below = Written::new(&format!("{HEAD}www A 192.0.2.5\n"));
    let mut config = bare();
    config.views = vec![View { name: "kids".into(), ..View::default() }];
    let of_kids = ZoneFile { views: vec!["kids".into()], ..below.zone("a.zone.example") };
    config.zones = vec![above.zone("zone.example"), of_kids];
    let mut policy = policy(&config);
    assert_eq!(told(&mut policy, "www.a.zone.example. A"), (Rcode::NOERROR, vec![66]));
}

#[test]
fn what_bind_takes_is_no_reason_to_refuse_a_configuration() {
    let file = Written::new(&format!(
        "{HEAD}me CNAME me\na1 CNAME b1\nb1 CNAME a1\nd DNAME e\nx.d A 192.0.2.9\nx.e A 192.0.2.8\n*.f DNAME e\n"
    ));
    let mut config = bare();
    config.zones = vec![file.zone("zone.example")];
    let (_, digest) = Ruleset::load(&config, seed(), 1).unwrap();
    let warnings = digest.warnings.join("\n");
    for part in [
        "1 records are left out, because a DNAME record stands above them, the first is x.d.zone.example.",
        "1 records are left out, because a DNAME record has no wildcard, the first is *.f.zone.example.",
        "the CNAME records of 3 local names go in a circle",
    ] {
        assert!(warnings.contains(part), "{part} is not in {warnings}");
    }
    let mut policy = policy(&config);
    assert_eq!(told(&mut policy, "me.zone.example. A"), (Rcode::SERVFAIL, vec![]));
    assert_eq!(told(&mut policy, "x.e.zone.example. A"), (Rcode::NOERROR, vec![8]));
}

#[test]
fn a_denial_behind_a_local_alias_says_how_long_it_holds() {
    let mut config = bare();
    let record = |name: &str, rtype, data: Vec<u8>| LocalRecord {
        name: name_of(name).into(),
        rtype,
        ttl: 300,
        data: data.into(),
    };
    let alone = |record| Local { record, views: Vec::new() };
    config.local = vec![
        alone(record("alias.test.", 5, name_of("host.test.").to_vec())),
        alone(record("host.test.", 1, vec![192, 0, 2, 1])),
    ];
    let mut policy = policy(&config);
    assert_eq!(local(&mut policy, "alias.test. A"), Some((Rcode::NOERROR, [2, 0, 0])));
    assert_eq!(local(&mut policy, "alias.test. AAAA"), Some((Rcode::NOERROR, [1, 1, 0])));
}
