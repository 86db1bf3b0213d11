//! Clients of different views under one ruleset.

use pmdns_config::View;
use proptest::prelude::*;

use super::*;
use crate::wire::layout::Who;

/// Two views with a client each; 10.77.0.3 is in none.
fn two_views() -> Vec<View> {
    let view = |name: &str, client: &str| View {
        name: name.into(),
        clients: vec![client.parse().unwrap()],
        ..View::default()
    };
    vec![view("a", "10.77.0.1"), view("b", "10.77.0.4")]
}

/// The last octet of the address of a client of each view, by number.
const CLIENTS: [u8; 3] = [3, 1, 4];

fn named(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The query of a client of a view, whose view the access list has found out.
fn query_in(config: &Config, view: usize, text: &str) -> Packet {
    let ports = [Port::new(OUR_MAC, [OUR_IPV4.into()])].into();
    let query = QueryFrame {
        source: vec![10, 77, 0, CLIENTS[view]],
        destination: OUR_IPV4.to_vec(),
        ..query(text)
    };
    let packet = act_once(&mut Parse::new(ports, seed()), query.packet(), &at(0));
    assert_eq!(packet.step, Step::at(StageName::Acl), "it is a query");
    let packet = act_once(&mut Acl::new(config, &Ruleset::empty(seed())), packet, &at(0));
    assert_eq!(usize::from(packet.layout.who.view()), view);
    packet
}

/// Where it goes, and with which answer: an rcode, or the words of an entry.
fn outcome(policy: &mut Policy, packet: Packet) -> (Step, Option<Answer>, Vec<u64>) {
    let packet = act_once(policy, packet, &at(0));
    match packet.answer {
        Answer::Local(found) => {
            (packet.step, None, policy.rules.entry(found).unwrap().words().to_vec())
        }
        other => (packet.step, Some(other), Vec::new()),
    }
}

#[test]
fn each_kind_of_source_holds_in_its_views_only() {
    let list = Written::new("||listed.example^\n@@||spared.ads.example^\n");
    let zone = Written::new("@ 600 SOA ns admin 1 2 3 4 30\n@ 600 NS ns\nns 600 A 192.0.2.1\n");
    let policy_zone = rules("p.example 60 CNAME .\n32.4.0.77.10.rpz-client-ip 60 CNAME *.\n");
    let mut config =
        Config { acl: pmdns_config::AclSettings::open(), views: two_views(), ..Config::default() };
    config.local = vec![Local { views: named(&["a"]), ..address("local.example.") }];
    config.zones = vec![ZoneFile { views: named(&["a", "default"]), ..zone.zone("zone.example") }];
    config.blocklists = vec![Blocklist { views: named(&["a"]), ..list.list(BlockAction::Refused) }];
    config.rpz = vec![Rpz { views: named(&["b"]), ..policy_zone.rpz() }];
    config.forwards = vec![Forward {
        zone: "home.arpa".into(),
        group: "home".into(),
        views: named(&["b", "default"]),
    }];
    config.block.names = vec!["ads.example".into()];
    let mut policy = policy(&config);
    let answered = |rcode| (ANSWERED, Some(Answer::Rcode(rcode)), Vec::new());
    let on = (ON, Some(Answer::None), Vec::new());
    let mut get = |view, text| outcome(&mut policy, query_in(&config, view, text));
    let local = |got: (Step, Option<Answer>, Vec<u64>)| (got.0, got.1) == (ANSWERED, None);
    assert_eq!(get(0, "local.example. A"), on);
    assert!(local(get(1, "local.example. A")));
    assert!(local(get(0, "no.zone.example. A")) && local(get(1, "ns.zone.example. A")));
    assert_eq!(get(0, "x.listed.example. A"), on);
    assert_eq!(get(1, "x.listed.example. A"), answered(Rcode::REFUSED));
    assert_eq!(get(0, "p.example. A"), on);
    assert_eq!(get(1, "p.example. A"), on);
    // The policy zone of the second view has a rule about its client.
    assert_eq!(get(2, "p.example. A"), answered(Rcode::NOERROR));
    assert_eq!(get(2, "listed.example. A"), answered(Rcode::NOERROR));
    assert_eq!(get(0, "ads.example. A"), answered(Rcode::NXDOMAIN), "[block] is for all");
    assert_eq!(get(0, "spared.ads.example. A"), answered(Rcode::NXDOMAIN));
    assert_eq!(get(1, "spared.ads.example. A"), on);
    assert_eq!(get(0, "x.home.arpa. A"), on, "it is forwarded");
    assert!(local(get(1, "x.home.arpa. A")), "it is a special-use name");
}

/// What a client of a view gets that asks for a name whose alias leads to `target`: rcode and counts.
fn led_to(rules: &Ruleset, packet: Packet, target: &str) -> (Rcode, [u16; 3]) {
    let mut packet = packet;
    let records = [(0, rtype::CNAME, 60, name_of(target)), (0, 1, 60, vec![192, 0, 2, 1])];
    let asked = query("shop.example. A");
    let scope = packet.layout.who.scope();
    let key = Key { name: &asked.name, qtype: 1, qclass: 1, flags: scope << 3 };
    let entry = rules.respond(entry_of(&asked, &records, 5, seed()), key, &reply(&asked, &records));
    let head = entry.head();
    let of_head = |head: Head| match head.flags & Head::TOO_LONG {
        0 => (head.rcode, head.counts()),
        _ => (Rcode::NOERROR, [0; 3]),
    };
    match rules.instead(&mut packet, &entry.words()) {
        None => of_head(head),
        Some(Step::ANSWER) => match packet.answer {
            Answer::Local(found) => of_head(rules.entry(found).unwrap().head()),
            Answer::Rcode(rcode) => {
                (rcode, rules.denial(&packet, rcode).map_or([0; 3], |entry| entry.head().counts()))
            }
            Answer::Truncated => (Rcode::NOERROR, [0; 3]),
            other => panic!("{other:?}"),
        },
        Some(step) if step == Step::drop(Reason::Blocked) => (Head::SILENT, [0; 3]),
        Some(step) => panic!("{step:?}"),
    }
}

#[test]
fn a_list_of_some_views_blocks_what_aliases_lead_to_there_and_nowhere_else() {
    let list = Written::new("||listed.example^\n");
    let mut config =
        Config { acl: pmdns_config::AclSettings::open(), views: two_views(), ..bare() };
    config.blocklists = vec![Blocklist { views: named(&["a"]), ..list.list(BlockAction::Refused) }];
    assert_eq!(config.scopes(), [0; 3], "they share answers");
    let stage = policy(&config);
    let of_views = config.clone();
    let get = |rules: &Ruleset, view| {
        led_to(rules, query_in(&of_views, view, "shop.example. A"), "x.listed.example.").0
    };
    assert_eq!(
        [0, 1, 2].map(|view| get(&stage.rules, view)),
        [Rcode::NOERROR, Rcode::REFUSED, Rcode::NOERROR]
    );
    // An exception of run time in one view lifts nothing in another.
    config.blocklists = vec![list.list(BlockAction::Refused)];
    let exception = RuntimeEntry {
        name: name_of("listed.example.").into(),
        below: true,
        action: None,
        views: config.view_set(&named(&["b"])),
    };
    let runtime = RuntimeNames::new(vec![exception], Vec::new(), false, seed()).unwrap();
    let rules = policy(&config).rules.with_runtime(2, Some(Arc::new(runtime)));
    assert_eq!(
        [0, 1, 2].map(|view| get(&rules, view)),
        [Rcode::REFUSED, Rcode::REFUSED, Rcode::NOERROR]
    );
}

#[test]
fn a_hit_on_what_views_judge_differently_is_judged_for_its_view() {
    let list = Written::new("||listed.example^\n");
    let mut config =
        Config { acl: pmdns_config::AclSettings::open(), views: two_views(), ..bare() };
    for (action, answer) in [
        (BlockAction::Nxdomain, Some(Answer::Rcode(Rcode::NXDOMAIN))),
        (BlockAction::Refused, Some(Answer::Rcode(Rcode::REFUSED))),
        (BlockAction::Drop, None),
    ] {
        config.blocklists = vec![Blocklist { views: named(&["a"]), ..list.list(action) }];
        let rules = policy(&config).rules;
        let asked = query("shop.example. A");
        let target = (0, rtype::CNAME, 60, name_of("x.listed.example."));
        let entry = entry_of(&asked, &[target, (0, 1, 60, vec![192, 0, 2, 1])], 0, seed());
        let (cache, mut writers) = Cache::new(Arena::heap(1 << 16), 1, seed()).unwrap();
        writers[0].insert(&rules.respond_again(entry));
        let mut lookup = Lookup::new(cache, Arc::clone(&rules));
        let mut hit = |view| {
            let packet = query_in(&config, view, "shop.example. A");
            let packet = Packet { step: Step::at(StageName::Lookup), ..packet };
            act_once(&mut lookup, packet, &at(0))
        };
        for view in [0, 2] {
            let packet = hit(view);
            assert!(matches!(packet.answer, Answer::Cached(_)) && packet.step == ANSWERED);
        }
        let packet = hit(1);
        match answer {
            Some(answer) => assert_eq!((packet.step, packet.answer), (ANSWERED, answer)),
            None => assert_eq!(packet.step, Step::drop(Reason::Blocked)),
        }
        // An answer without an alias is nobody's to judge.
        let plain = entry_of(&asked, &[(0, 1, 60, vec![192, 0, 2, 1])], 5, seed());
        assert_eq!(rules.respond_again(plain).head().passed, rules.generation());
    }
}

#[test]
fn an_address_in_an_answer_is_judged_by_the_zones_of_its_scope() {
    let zone = rules("32.9.2.0.192.rpz-ip 60 CNAME .\n");
    let mut config = Config { views: two_views(), ..bare() };
    config.rpz = vec![Rpz { views: named(&["b"]), ..zone.rpz() }];
    assert_eq!(config.scopes(), [0, 0, 2]);
    let policy = policy(&config);
    let query = query("www.example. A");
    let records = [(0, 1, 60, vec![192, 0, 2, 9])];
    let entry = entry_of(&query, &records, 5, seed());
    for (scope, rcode) in [(0, Rcode::NOERROR), (2, Rcode::NXDOMAIN)] {
        let key = Key { name: &query.name, qtype: 1, qclass: 1, flags: scope << 3 };
        assert_eq!(key.scope(), scope);
        let judged = policy.rules.respond(entry.clone(), key, &reply(&query, &records));
        assert_eq!(judged.head().rcode, rcode, "scope {scope}");
        assert!(answers(&judged.words(), &key) || scope == 0);
    }
}

/// One source of a configuration: what kind, and what of few names it is about.
#[derive(Clone, Debug)]
struct Source {
    kind: u8,
    name: String,
    what: u8,
    views: Vec<String>,
}

fn source() -> impl Strategy<Value = Source> {
    let views = proptest::sample::subsequence(vec!["default", "a", "b"], 0..=3);
    (0u8..5, "([xy]\\.){0,2}(e|f)", 0u8..6, views).prop_map(|(kind, name, what, views)| Source {
        kind,
        name,
        what,
        views: named(&views),
    })
}

/// The configuration of these sources, and the files it names.
fn configured(sources: &[Source]) -> (Config, Vec<Written>) {
    let (mut config, mut files) = (bare(), Vec::new());
    for Source { kind, name, what, views } in sources {
        let views = views.clone();
        match kind {
            0 => {
                let mut local = Local { views, ..address(name) };
                local.record.data = Box::new([192, 0, 2, *what]);
                config.local.push(local);
            }
            1 => {
                let file = Written::new(&format!(
                    "@ 60 SOA ns admin 1 2 3 4 {what}\nx 60 A 192.0.2.{what}\n*.y 60 TXT {what}\n"
                ));
                config.zones.push(ZoneFile { views, ..file.zone(name) });
                files.push(file);
            }
            2 => {
                let action = ["CNAME .", "CNAME *.", "CNAME rpz-passthru.", "A 192.0.2.1"];
                let rule = action[usize::from(*what) % action.len()];
                let file = rules(&format!(
                    "{name} 60 {rule}\n*.{name} 60 {rule}\n32.{}.0.77.10.rpz-client-ip 60 CNAME .\n",
                    CLIENTS[usize::from(*what) % 3] * 7 % 5,
                ));
                config.rpz.push(Rpz { views, ..file.rpz() });
                files.push(file);
            }
            _ => {
                let line = match what {
                    0 => format!("@@||{name}^\nother.example\n"),
                    1 => format!("0.0.0.0 {name}\n"),
                    _ => format!("||{name}^\n"),
                };
                use BlockAction::{Drop, Nodata, Null, Nxdomain, Refused};
                let actions = [Nxdomain, Nodata, Null, Refused, Drop];
                let file = Written::new(&line);
                let action = actions[usize::from(*what) % actions.len()];
                config.blocklists.push(Blocklist { views, ..file.list(action) });
                files.push(file);
            }
        }
    }
    (config, files)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 64 }, ..ProptestConfig::default() })]

    #[test]
    fn a_view_is_as_if_its_sources_were_all_there_are(
        sources in proptest::collection::vec(source(), 0..9),
    ) {
        let (config, _files) = configured(&sources);
        let config = Config { views: two_views(), ..config };
        // Sources that contradict each other in one view are refused there, and so together.
        let alone: Vec<_> = (0..3u8).map(|view| {
            let holds = |source: &&Source| config.view_set(&source.views).has(view);
            let its: Vec<_> = sources.iter().filter(holds).cloned().map(|source| {
                Source { views: Vec::new(), ..source }
            }).collect();
            let (config, _files) = configured(&its);
            Ruleset::load(&config, seed(), 1).map(|(rules, _)| Policy::new(Arc::new(rules), seed()))
        }).collect();
        let Ok((rules, _)) = Ruleset::load(&config, seed(), 1) else {
            prop_assert!(alone.iter().any(Result::is_err));
            return Ok(());
        };
        let mut together = Policy::new(Arc::new(rules), seed());
        let mut alone: Vec<_> = alone.into_iter().map(|one| one.expect("it is a part")).collect();
        for _ in 0..2 {
            for name in ["e", "f", "x.e", "y.e", "x.y.e", "y.x.f", "z.y.x.e", "other.example", "g"] {
                for (view, alone) in alone.iter_mut().enumerate() {
                    for qtype in ["A", "TXT"] {
                        let text = format!("{name}. {qtype}");
                        let of_view = outcome(&mut together, query_in(&config, view, &text));
                        // There its only view is the default one.
                        let mut packet = query_in(&config, view, &text);
                        packet.layout.who = Who::default();
                        prop_assert_eq!(of_view, outcome(alone, packet), "{} in {}", text, view);
                    }
                    let packet = || query_in(&config, view, "shop.example. A");
                    let of_view = led_to(&together.rules, packet(), &format!("{name}."));
                    let mut packet = packet();
                    packet.layout.who = Who::default();
                    let alone = led_to(&alone.rules, packet, &format!("{name}."));
                    prop_assert_eq!(of_view, alone, "an alias to {} in {}", name, view);
                }
            }
        }
    }
}

#[test]
fn a_view_that_only_an_earlier_core_knows_of_is_told_to_come_back() {
    let local = vec![address("local.example.")];
    let old = Config { acl: pmdns_config::AclSettings::open(), local, ..Config::default() };
    let new = Config { views: two_views(), ..old.clone() };
    let mut policy = policy(&old);
    for (view, expected) in [(0, None), (1, Some(Answer::Rcode(Rcode::SERVFAIL)))] {
        let (_, answer, _) = outcome(&mut policy, query_in(&new, view, "local.example. A"));
        assert_eq!(answer, expected, "view {view}");
    }
}
