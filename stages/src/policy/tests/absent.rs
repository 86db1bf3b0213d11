//! A policy zone that was never transferred: nothing passes, unless the operator says so.

use pmdns_config::{Absent, View};

use super::*;
use crate::testing::OUR_IPV6;
use crate::wire::edns::ExtendedError;

const NOT_READY: (Step, Answer, Option<ExtendedError>) =
    (ANSWERED, Answer::Rcode(Rcode::SERVFAIL), Some(ExtendedError::NOT_READY));
const PASSED: (Step, Answer, Option<ExtendedError>) = (ON, Answer::None, None);

/// A policy zone whose file is not there.
fn never_transferred() -> Rpz {
    let file = std::env::temp_dir().join("pmdns-never-transferred");
    Rpz { file, zone: Some("absent".into()), ..Rpz::default() }
}

/// What becomes of a query on its way from the access list, with this in the cache.
struct Way {
    acl: Acl,
    lookup: Lookup,
    policy: Policy,
    cached: QueryFrame,
}

impl Way {
    fn new(config: &Config) -> Self {
        let config = Config { acl: pmdns_config::AclSettings::open(), ..config.clone() };
        let policy = policy(&config);
        let (cache, mut writers) = Cache::new(Arena::heap(1 << 16), 1, seed()).unwrap();
        let cached = query("cached.example. A");
        let entry = entry_of(&cached, &[(0, 1, 60, vec![192, 0, 2, 1])], 0, seed());
        writers[0].insert(&policy.rules.respond_again(entry));
        let (acl, rules) = (Acl::new(&config, &policy.rules), Arc::clone(&policy.rules));
        Self { acl, lookup: Lookup::new(cache, rules), policy, cached }
    }

    fn go(&mut self, query: &QueryFrame) -> (Step, Answer, Option<ExtendedError>) {
        let ports: Ports = [Port::new(OUR_MAC, [OUR_IPV4.into(), OUR_IPV6.into()])].into();
        let packet = act_once(&mut Parse::new(ports, seed()), query.packet(), &at(0));
        let packet = act_once(&mut self.acl, packet, &at(0));
        let packet = Packet { step: Step::at(StageName::Lookup), ..packet };
        let mut packet = act_once(&mut self.lookup, packet, &at(0));
        if packet.step == Lookup::CONTINUE {
            packet = act_once(&mut self.policy, packet, &at(0));
        }
        (packet.step, packet.answer, packet.extended_error)
    }

    fn ask(&mut self, text: &str) -> (Step, Answer, Option<ExtendedError>) {
        self.go(&query(text))
    }

    fn is_hit(&mut self) -> bool {
        let query = self.cached.clone();
        matches!(self.go(&query), (ANSWERED, Answer::Cached(_), None))
    }
}

#[test]
fn audit_low_rules_that_never_came_let_nothing_pass() {
    let earlier = rules("spared.example 60 CNAME rpz-passthru.\nbad.example 60 CNAME .\n");
    let mut config = bare();
    config.rpz = vec![earlier.rpz(), never_transferred()];
    config.local = vec![address("local.example.")];
    config.block.names = vec!["blocked.example".into()];
    let mut way = Way::new(&config);
    for text in ["any.example. A", ". NS", "blocked.example. A", "cached.example. A"] {
        assert_eq!(way.ask(text), NOT_READY, "{text}");
        assert_eq!(way.go(&query(text).over_ipv6()), NOT_READY, "{text} over IPv6");
    }
    assert_eq!(way.ask("spared.example. A"), PASSED, "an earlier zone decides");
    assert_eq!(way.ask("bad.example. A").1, Answer::Rcode(Rcode::NXDOMAIN));
    assert!(matches!(way.ask("local.example. A"), (ANSWERED, Answer::Local(_), None)));

    config.rpz.swap(0, 1);
    assert_eq!(Way::new(&config).ask("spared.example. A"), NOT_READY, "a later zone does not");
    // No answer is rewritten: it is good as soon as the zone is there.
    let ruleset = Ruleset::load(&config, seed(), 1).unwrap().0;
    let records = [(0, 1, 60, vec![192, 0, 2, 1]), (0, 1, 60, vec![192, 0, 2, 2])];
    let entry = entry_of(&query("any.example. A"), &records, 0, seed());
    let head = ruleset.respond_again(entry).head();
    assert_eq!((head.rcode, head.counts(), head.passed), (Rcode::NOERROR, [2, 0, 0], 1));
}

#[test]
fn rules_that_never_came_are_none_if_the_operator_says_so() {
    let mut config = bare();
    config.rpz = vec![Rpz { absent: Absent::Pass, ..never_transferred() }];
    let mut way = Way::new(&config);
    assert_eq!(way.ask("any.example. A"), PASSED);
    assert!(way.is_hit());
}

#[test]
fn rules_that_never_came_hold_in_their_views_only() {
    let mut config = bare();
    let clients = vec!["10.77.0.9".parse().unwrap()];
    config.views = vec![View { name: "kids".into(), clients, ..View::default() }];
    config.rpz = vec![Rpz { views: vec!["kids".into()], ..never_transferred() }];
    let mut way = Way::new(&config);
    let kid = QueryFrame { source: vec![10, 77, 0, 9], ..query("any.example. A") };
    assert_eq!(way.go(&kid), NOT_READY);
    assert_eq!(way.ask("any.example. A"), PASSED);
    assert!(way.is_hit());
}

#[test]
fn what_becomes_of_queries_is_warned_of() {
    for (absent, said) in
        [(Absent::Servfail, "queries in its views get SERVFAIL"), (Absent::Pass, "it has no rules")]
    {
        let mut config = bare();
        config.rpz = vec![Rpz { absent, ..never_transferred() }];
        let (_, digest) = Ruleset::load(&config, seed(), 1).unwrap();
        let [warning] = digest.warnings.as_slice() else { panic!("{digest:?}") };
        let end = format!("pmdns-never-transferred: the policy zone is not here yet, so {said}");
        assert!(warning.ends_with(&end), "{warning}");
    }
}
