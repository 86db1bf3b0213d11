//! Marks of the rules that let a question pass, and who believes them.

use super::*;

#[test]
fn an_answer_of_another_generation_is_not_looked_up() {
    let mut policy = policy_of(&["www.example."], &[]);
    let (_, Answer::Local(found)) = ask(&mut policy, "www.example. A") else { panic!("local") };
    assert!(policy.rules.entry(found).is_some());
    assert!(Ruleset::empty(seed()).entry(found).is_none());
}

#[test]
fn a_name_that_was_let_pass_once_is_no_way_round_the_rules() {
    let client = rules("32.9.0.77.10.rpz-client-ip 60 CNAME .\n");
    let mut policy = with_policies(&[&client], &["ads.example"]);
    let mut from = |last: u8, text: &str| {
        let ports = [Port::new(OUR_MAC, [OUR_IPV4.into()])].into();
        let query = QueryFrame { source: vec![10, 77, 0, last], ..query(text) };
        let packet = act_once(&mut Parse::new(ports, seed()), query.packet(), &at(0));
        let packet = act_once(&mut policy, packet, &at(0));
        (packet.step, packet.answer)
    };
    for _ in 0..3 {
        assert_eq!(from(1, "www.example. A"), (ON, Answer::None));
        assert_eq!(from(9, "WWW.example. A"), BLOCKED, "another client");
        assert_eq!(from(1, "ads.example. A"), BLOCKED);
    }
}

/// What a ruleset has once let pass is marked, and nobody asks again for it; everything else is asked about each time.
#[test]
fn only_what_these_rules_let_pass_is_marked_with_their_generation() {
    let client =
        rules("32.9.0.77.10.rpz-client-ip 60 CNAME .\nspared.example 60 CNAME rpz-passthru.\n");
    let policy = with_policies(&[&client], &["ads.example", "spared.example"]);
    for (name, passed) in [
        ("www.example.", 1),
        ("WWW.ads.example.", 0),
        ("ads.example.", 0),
        ("spared.example.", 1),
        ("x.spared.example.", 0),
        (".", 1),
    ] {
        let query = query(&format!("{name} A"));
        let mut entry = entry_of(&query, &[(0, 1, 60, vec![192, 0, 2, 1])], 5, seed());
        let counts = entry.head().counts;
        // Of rules before a reload, or of another process.
        entry.set_passed(77);
        let head = policy.rules.respond_again(entry).head();
        assert_eq!((head.passed, head.counts), (passed, counts), "{name}");
    }
}

/// Lookup believes a mark of its own rules, and asks the rules about any other and about clients they are about.
#[test]
fn lookup_asks_the_rules_unless_they_are_known_to_let_pass() {
    let client = rules("32.9.0.77.10.rpz-client-ip 60 CNAME .\n");
    let stage = with_policies(&[&client], &["ads.example"]);
    let acl = Acl::new(&bare(), &stage.rules);
    let ports: Ports = [Port::new(OUR_MAC, [OUR_IPV4.into()])].into();
    let (cache, mut writers) = Cache::new(Arena::heap(1 << 16), 1, seed()).unwrap();
    let mut lookup = Lookup::new(Arc::clone(&cache), Arc::clone(&stage.rules));
    for (text, passed, client, expected) in [
        ("www.example. A", 1, 1, ANSWERED),
        ("www.example. A", 2, 1, ANSWERED),
        ("www.example. A", 1, 9, Lookup::CONTINUE),
        // A mark that is not true shows that nobody asks.
        ("www.ads.example. A", 1, 1, ANSWERED),
        ("www.ads.example. A", 2, 1, Lookup::CONTINUE),
        ("www.ads.example. A", 0, 1, Lookup::CONTINUE),
    ] {
        let asked = QueryFrame { source: vec![10, 77, 0, client], ..query(text) };
        let mut entry = entry_of(&asked, &[(0, 1, 60, vec![192, 0, 2, 1])], 0, seed());
        entry.set_passed(passed);
        writers[0].insert(&entry);
        let packet = act_once(&mut Parse::new(Arc::clone(&ports), seed()), asked.packet(), &at(0));
        let packet = act_once(&mut acl.clone(), packet, &at(0));
        let packet = Packet { step: Step::at(StageName::Lookup), ..packet };
        let packet = act_once(&mut lookup, packet, &at(0));
        assert_eq!(packet.step, expected, "{text} passed {passed}, from {client}");
        let is_hit = matches!(packet.answer, Answer::Cached(_));
        assert_eq!(is_hit, expected == ANSWERED, "what rules answer is no hit");
    }
}
