//! What of zone files is served: what BIND serves of them (named 9.18 was asked).

use super::*;
use crate::wire::edns::ExtendedError;
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
fn a_zone_below_a_dname_record_of_another_file_answers_for_itself() {
    let above = Written::new(&format!(
        "{HEAD}tree DNAME other\nb.other A 192.0.2.8\na.b.other A 192.0.2.10\n"
    ));
    let below = Written::new(&format!("{HEAD}www A 192.0.2.5\n"));
    let zones = [above.zone("zone.example"), below.zone("A.b.Tree.zone.example")];
    for order in [[0, 1], [1, 0]] {
        let mut config = bare();
        config.zones = order.map(|at| zones[at].clone()).to_vec();
        let mut policy = policy(&config);
        for (name, rcode, addresses) in [
            ("www.a.b.tree", Rcode::NOERROR, &[5][..]),
            ("ns.a.b.tree", Rcode::NOERROR, &[1]),
            ("other.a.b.tree", Rcode::NXDOMAIN, &[]),
            ("b.other", Rcode::NOERROR, &[8]),
        ] {
            let asked = format!("{name}.zone.example. A");
            assert_eq!(told(&mut policy, &asked), (rcode, addresses.to_vec()), "{name} {order:?}");
        }
        let mut dname = |text: &str| {
            let packet = asked(&mut policy, text);
            let Answer::Local(found) = packet.answer else { panic!("{text}") };
            (packet.step, policy.rules.entry(found).unwrap().head().is_template())
        };
        for text in
            ["b.tree.zone.example. A", "c.b.tree.zone.example. A", "a.b.tree.zone.example. DS"]
        {
            assert_eq!(dname(text), (ON, true), "{text} {order:?}");
        }
        assert_eq!(dname("a.b.tree.zone.example. SOA"), (ANSWERED, false));
    }
}

#[test]
fn a_circle_of_aliases_is_one_of_a_single_view() {
    let warnings = |of_all: &str, of_kids: &str| {
        let files = [of_all, of_kids].map(|lines| Written::new(&format!("{HEAD}{lines}")));
        let mut config = bare();
        config.views = vec![View { name: "kids".into(), ..View::default() }];
        let of = |file: &Written, view: &str| ZoneFile {
            views: vec![view.into()],
            ..file.zone("zone.example")
        };
        config.zones = vec![of(&files[0], "default"), of(&files[1], "kids")];
        Ruleset::load(&config, seed(), 1).unwrap().1.warnings.join("\n")
    };
    assert_eq!(
        warnings("a CNAME b\n", "b CNAME a\n"),
        "",
        "each leads on to a name without an alias"
    );
    for (of_all, of_kids) in
        [("a CNAME b\nb CNAME a\n", "a CNAME ns\n"), ("a CNAME ns\n", "a CNAME b\nb CNAME a\n")]
    {
        let warnings = warnings(of_all, of_kids);
        assert!(
            warnings.contains("the CNAME records of 2 local names go in a circle"),
            "{warnings}"
        );
    }
}

#[test]
fn the_same_alias_in_another_spelling_is_one_record() {
    let file = Written::new(&format!(
        "{HEAD}a CNAME www\na CNAME WWW\nwww A 192.0.2.5\nm MX 65 a\nm MX 97 a\n"
    ));
    let mut config = bare();
    config.zones = vec![file.zone("zone.example")];
    let mut policy = policy(&config);
    assert_eq!(told(&mut policy, "a.zone.example. A"), (Rcode::NOERROR, vec![5]));
    assert_eq!(local(&mut policy, "m.zone.example. MX"), Some((Rcode::NOERROR, [2, 0, 0])));
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
    let told_why = |policy: &mut Policy, text: &str| asked(policy, text).extended_error;
    let no_end = Some(ExtendedError::INVALID_DATA);
    assert_eq!(told_why(&mut policy, "me.zone.example. A"), no_end);
    assert_eq!(told_why(&mut policy, "x.e.zone.example. A"), None);
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
