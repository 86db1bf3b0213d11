//! DS records stand in the zone above (RFC 4035 section 3.1.4.1): which queries for them are ours to answer.

use super::*;
use crate::policy::dns64::Dns64;
use crate::policy::sources::LocalSources;
use crate::policy::zone::text;

/// A stage and the records of its only view, those that nobody wrote down included.
fn with_records(config: &Config) -> (Policy, Vec<LocalRecord>) {
    let records = LocalSources::read(config).unwrap().records(config, 0);
    (policy(config), records)
}

fn soa(name: &str) -> Local {
    let data = [name_of(name), name_of("admin."), vec![0; 20]].concat();
    local_record(name, rtype::SOA, &data)
}

fn local_record(name: &str, rtype: u16, data: &[u8]) -> Local {
    let record = LocalRecord { name: name_of(name).into(), rtype, ttl: 300, data: data.into() };
    Local { record, views: Vec::new() }
}

/// A configuration with every source of local zones there is.
fn with_every_source(zone: &Written) -> Config {
    let dns64 = pmdns_config::Dns64Settings {
        prefix: "64:ff9b::/96".parse().unwrap(),
        exclude: Vec::new(),
        exclude_ipv4: Vec::new(),
        views: Vec::new(),
    };
    let config = Config {
        zones: vec![zone.zone("lan.test"), zone.zone("deep.below.lan.test")],
        local: vec![soa("own.example."), address("www.own.example."), address("lone.test.")],
        dns64: vec![dns64],
        ..Config::default()
    };
    assert!(Dns64::of(&config, 0).is_some());
    config
}

#[test]
fn ds_of_no_local_apex_is_answered_here_unless_the_zone_above_is_ours_too() {
    let file = Written::new("@ 600 SOA ns admin 1 2 3 4 30\n@ 600 NS ns\nns 600 A 192.0.2.1\n");
    let (mut policy, records) = with_records(&with_every_source(&file));
    let apexes: Vec<String> = records
        .iter()
        .filter(|record| record.rtype == rtype::SOA)
        .map(|record| text(&record.name))
        .collect();
    // 102 of special use, resolver.arpa, ipv4only.arpa, two files, one of single records.
    assert_eq!(apexes.len(), 102 + 2 + 3);
    for apex in &apexes {
        assert!(local(&mut policy, &format!("{apex} SOA")).is_some(), "{apex}");
        assert!(local(&mut policy, &format!("{apex} DNSKEY")).is_some(), "{apex}");
        let ds = format!("{apex} DS");
        match apex.as_str() {
            "deep.below.lan.test." => {
                let nodata = Some((Rcode::NOERROR, [0, 1, 0]));
                assert_eq!(local(&mut policy, &ds), nodata, "{apex}: of lan.test.");
            }
            _ => assert_eq!(ask(&mut policy, &ds), (ON, Answer::None), "{apex}"),
        }
    }
    // The same holds of a name that stands alone, below which there may be a zone of others.
    assert_eq!(ask(&mut policy, "lone.test. DS"), (ON, Answer::None));
    let nodata = Some((Rcode::NOERROR, [0, 1, 0]));
    assert_eq!(local(&mut policy, "www.own.example. DS"), nodata, "no apex, but in a zone");
}

#[test]
fn ds_below_a_local_apex_is_ours() {
    let ds = "12345 13 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let file = Written::new(&format!(
        "@ 600 SOA ns admin 1 2 3 4 30\n@ 600 NS ns\nns 600 A 192.0.2.1\ndeleg 600 NS ns.deleg\n\
         ns.deleg 600 A 192.0.2.2\nsigned 600 NS ns.elsewhere.\nsigned 600 DS {ds}\n"
    ));
    let mut config = bare();
    config.zones = vec![file.zone("lan.test")];
    let mut policy = policy(&config);
    assert_eq!(local(&mut policy, "deleg.lan.test. DS"), Some((Rcode::NOERROR, [0, 1, 0])));
    assert_eq!(local(&mut policy, "signed.lan.test. DS"), Some((Rcode::NOERROR, [1, 0, 0])));
    assert_eq!(local(&mut policy, "ns.lan.test. DS"), Some((Rcode::NOERROR, [0, 1, 0])));
    for text in ["deleg.lan.test. A", "deleg.lan.test. NS", "x.deleg.lan.test. DS", "lan.test. DS"]
    {
        assert_eq!(ask(&mut policy, text), (ON, Answer::None), "{text}");
    }
    // What is forwarded below a zone of special use is delegated by it.
    let forward = Forward { zone: "corp.home.arpa".into(), group: "corp".into(), views: vec![] };
    let mut policy = self::policy(&Config { forwards: vec![forward], ..Config::default() });
    assert_eq!(local(&mut policy, "corp.home.arpa. DS"), Some((Rcode::NOERROR, [0, 1, 0])));
}

#[test]
fn a_zone_of_ours_below_a_part_that_others_serve_is_ours() {
    let file = Written::new("@ 600 SOA ns admin 1 2 3 4 30\n@ 600 NS ns\nns 600 A 192.0.2.1\n");
    let forward = Forward { zone: "corp.home.arpa".into(), group: "corp".into(), views: vec![] };
    let mut config = Config { forwards: vec![forward], ..Config::default() };
    config.zones = vec![file.zone("lab.corp.home.arpa")];
    let mut policy = policy(&config);
    let address = Some((Rcode::NOERROR, [1, 0, 0]));
    assert_eq!(local(&mut policy, "ns.lab.corp.home.arpa. A"), address);
    assert_eq!(ask(&mut policy, "x.corp.home.arpa. A"), (ON, Answer::None));
    assert_eq!(ask(&mut policy, "lab.corp.home.arpa. DS"), (ON, Answer::None));
}

/// What a list denies does not exist for its clients; a local name does.
#[test]
fn a_query_for_ds_goes_round_no_rule() {
    let zone = rules("policy.test 60 CNAME .\n*.policy.test 60 CNAME .\n");
    let client = rules("32.1.0.77.10.rpz-client-ip 60 CNAME rpz-drop.\n");
    let mut config = bare();
    config.local = ["listed.test.", "policy.test.", "free.test.", "www.ads.test."]
        .map(address)
        .into_iter()
        .chain([soa("apex.test.")])
        .collect();
    config.block.names = ["listed.test", "apex.test", "ads.test"].map(str::to_owned).into();
    config.rpz = vec![zone.rpz()];
    let mut with_lists = policy(&config);
    for name in ["listed.test.", "policy.test.", "www.ads.test.", "ads.test."] {
        let nodata = Some((Rcode::NOERROR, [0, 1, 0]));
        assert_eq!(local(&mut with_lists, &format!("{name} DS")), nodata, "{name}");
    }
    assert_eq!(local(&mut with_lists, "apex.test. DS"), Some((Rcode::NOERROR, [0, 1, 0])));
    assert_eq!(ask(&mut with_lists, "free.test. DS"), (ON, Answer::None));
    for text in ["x.listed.test. DS", "x.policy.test. DS", "other.ads.test. DS"] {
        assert_eq!(ask(&mut with_lists, text), BLOCKED, "{text}");
    }
    config.rpz.push(client.rpz());
    assert!(local(&mut policy(&config), "free.test. DS").is_some(), "local names come first");
    let said = vec![RuntimeEntry {
        name: name_of("free.test.").into(),
        below: true,
        action: Some(BlockAction::Drop),
        views: pmdns_config::ViewSet::ALL,
    }];
    let runtime = |said: Vec<RuntimeEntry>, records: &[Local]| {
        let records = records.iter().map(|one| one.record.clone()).collect();
        let names = RuntimeNames::new(said, records, false, seed()).unwrap();
        let rules = with_lists.rules.with_runtime(2, Some(Arc::new(names)));
        Policy::new(Arc::new(rules), seed())
    };
    let of_runtime = [address("now.test."), address("listed.test.")];
    let mut with_runtime = runtime(said, &of_runtime);
    assert!(local(&mut with_runtime, "listed.test. DS").is_some());
    assert_eq!(ask(&mut with_runtime, "now.test. DS"), (ON, Answer::None));
    assert_eq!(ask(&mut with_runtime, "free.test. DS").0, Step::drop(Reason::Blocked));
}
