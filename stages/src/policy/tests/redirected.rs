//! Answers that a name does not exist: who is redirected, from the cache and from the slow path alike.

use pmdns_config::{Redirect, View};

use super::*;
use crate::cache::{Entry, EntryParts};

/// Clients of 10.77.0.1 are in a view that is not redirected.
fn config(settings: impl FnOnce(&mut Redirect)) -> Config {
    let view = View {
        name: "truth".into(),
        clients: vec!["10.77.0.1".parse().unwrap()],
        ..View::default()
    };
    let mut redirect = Redirect {
        addresses: vec!["192.0.2.80".parse().unwrap(), "192.0.2.81".parse().unwrap()],
        ttl: 60,
        only_www: false,
        names: Vec::new(),
        file: None,
        except: Vec::new(),
        except_file: None,
        text: None,
        views: vec!["default".into()],
    };
    settings(&mut redirect);
    let acl = pmdns_config::AclSettings::open();
    Config { acl, views: vec![view], redirects: vec![redirect], ..bare() }
}

/// What a client gets whose last octet is this, if the answer is this one: the same by lookup and by the slow path.
fn outcome(config: &Config, client: u8, asked: &QueryFrame, answer: &Entry) -> Answer {
    hit(config, client, asked, answer).answer
}

/// The packet of that client behind lookup.
fn hit(config: &Config, client: u8, asked: &QueryFrame, answer: &Entry) -> Packet {
    let rules = Arc::new(Ruleset::load(config, seed(), 1).unwrap().0);
    let ports: Ports = [Port::new(OUR_MAC, [OUR_IPV4.into()])].into();
    let asked = QueryFrame { source: vec![10, 77, 0, client], ..asked.clone() };
    let packet = || {
        let packet = act_once(&mut Parse::new(Arc::clone(&ports), seed()), asked.packet(), &at(0));
        act_once(&mut Acl::new(config, &rules), packet, &at(0))
    };
    let (cache, mut writers) = Cache::new(Arena::heap(1 << 16), 1, seed()).unwrap();
    writers[0].insert(&rules.respond_again(answer.clone()));
    let mut lookup = Lookup::new(Arc::clone(&cache), Arc::clone(&rules));
    let hit = Packet { step: Step::at(StageName::Lookup), ..packet() };
    let hit = act_once(&mut lookup, hit, &at(0));
    assert_eq!(hit.step, ANSWERED);
    let mut late = packet();
    match rules.instead(&mut late, &answer.words()).is_some() {
        true => assert_eq!((late.answer, late.extended_error), (hit.answer, hit.extended_error)),
        false => assert!(matches!(hit.answer, Answer::Cached(_)) && hit.extended_error.is_none()),
    }
    hit
}

fn denial(query: &QueryFrame, flags: u8, answers: u16) -> Entry {
    let is_dnssec = query.edns.is_some_and(|(_, dnssec_ok)| dnssec_ok);
    let key_flags = if is_dnssec { Key::DO } else { 0 };
    let key = Key { name: &query.name, qtype: query.qtype, qclass: 1, flags: key_flags };
    Entry::new(&EntryParts {
        key,
        hash: key.hash(seed(), seed().hash(&query.name)),
        learnt: 0,
        expires: 300,
        rcode: Rcode::NXDOMAIN,
        flags,
        counts: [answers, 0, 0],
        body: &[],
        optional_at: 0,
        ttls: &[],
    })
}

fn is_redirected(config: &Config, text: &str) -> bool {
    let query = query(text);
    match outcome(config, 3, &query, &denial(&query, Head::NEGATIVE, 0)) {
        Answer::Local(_) => true,
        Answer::Cached(_) => false,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_denial_leads_to_the_addresses_in_the_views_of_the_table() {
    let config = config(|_| ());
    let query = query("Typo.example. A");
    let denial = denial(&query, Head::NEGATIVE, 0);
    let rules = Ruleset::load(&config, seed(), 1).unwrap().0;
    let Answer::Local(found) = outcome(&config, 3, &query, &denial) else { panic!("addresses") };
    let head = rules.entry(found).unwrap().head();
    assert_eq!((head.rcode, head.counts(), head.flags), (Rcode::NOERROR, [2, 0, 0], 0));
    assert!(matches!(outcome(&config, 1, &query, &denial), Answer::Cached(_)), "it opts out");
    assert_eq!(rules.respond_again(denial.clone()).head().passed, 0, "each hit asks");
    let other = super::query("typo.example. MX");
    let other = self::denial(&other, Head::NEGATIVE, 0);
    assert_eq!(rules.respond_again(other).head().passed, 1, "hits of others do not");
    let nowhere = Config { redirects: Vec::new(), ..config };
    let rules = Ruleset::load(&nowhere, seed(), 1).unwrap().0;
    assert_eq!(rules.respond_again(denial).head().passed, 1, "without redirections nobody asks");
}

#[test]
fn without_an_address_of_the_family_there_are_no_records_and_the_name_exists() {
    let query = query("typo.example. AAAA");
    let denial = denial(&query, Head::NEGATIVE, 0);
    assert_eq!(outcome(&config(|_| ()), 3, &query, &denial), Answer::Rcode(Rcode::NOERROR));
}

#[test]
fn what_is_no_plain_denial_stays() {
    let config = config(|_| ());
    let plain = query("typo.example. A");
    for (flags, answers) in [
        (Head::NEGATIVE | Head::AUTHENTIC, 0),
        (Head::REWRITTEN, 0),
        (Head::NEGATIVE, 1),
        (Head::NEGATIVE | Head::TOO_LONG, 0),
    ] {
        let found = outcome(&config, 3, &plain, &denial(&plain, flags, answers));
        assert!(matches!(found, Answer::Cached(_)), "{flags} {answers}");
    }
    let validating = QueryFrame { edns: Some((1232, true)), ..plain.clone() };
    let found = outcome(&config, 3, &validating, &denial(&validating, Head::NEGATIVE, 0));
    assert!(matches!(found, Answer::Cached(_)), "the client validates");
    assert!(!is_redirected(&config, "typo.example. MX"));
    let there = entry_of(&plain, &[(0, 1, 60, vec![192, 0, 2, 1])], 0, seed());
    assert!(matches!(outcome(&config, 3, &plain, &there), Answer::Cached(_)), "the name exists");
}

#[test]
fn lists_and_www_say_which_names() {
    let file = Written::new("# ours\ncorp.example\n");
    let limited = config(|one| {
        one.names = vec!["Shop.example".into()];
        one.except = vec!["mail.shop.example".into()];
    });
    for (name, expected) in [
        ("shop.example", true),
        ("a.b.SHOP.example", true),
        ("mail.shop.example", false),
        ("x.MAIL.shop.example", false),
        ("xshop.example", false),
        ("_25._tcp.shop.example", false),
        ("wpad.shop.example", false),
    ] {
        assert_eq!(is_redirected(&limited, &format!("{name}. A")), expected, "{name}");
    }
    let except = config(|one| {
        one.only_www = true;
        one.except_file = Some(file.0.clone());
    });
    for (name, expected) in [
        ("www.example", true),
        ("WWW.a.example", true),
        ("wwww.a.example", false),
        ("a.example", false),
        ("www.corp.example", false),
        ("www.printer.local", false),
    ] {
        assert_eq!(is_redirected(&except, &format!("{name}. A")), expected, "{name}");
    }
    let only = config(|one| one.file = Some(file.0.clone()));
    assert!(is_redirected(&only, "x.corp.example. A") && !is_redirected(&only, "x.example. A"));
}

#[test]
fn the_first_table_about_a_name_decides() {
    let mut config = config(|one| one.names = vec!["a.example".into()]);
    let second = Redirect { names: Vec::new(), views: Vec::new(), ..config.redirects[0].clone() };
    config.redirects.push(second);
    let query = query("x.a.example. A");
    let denial = denial(&query, Head::NEGATIVE, 0);
    let place = |client| hit(&config, client, &query, &denial).extended_error?.rule();
    let redirect = |place| ListNumber::Redirect(place).as_reason().rule();
    assert_eq!([place(3), place(1)], [redirect(0), redirect(1)], "by view");
}
