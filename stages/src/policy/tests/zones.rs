//! Policy zones: which rule decides, and what becomes of answers and aliases.

use super::*;

#[test]
fn of_several_policy_zones_the_first_that_has_a_rule_decides() {
    let first = rules("spared.example 60 CNAME rpz-passthru.\na.example 60 CNAME *.\n");
    let second = rules(
        "*.example 60 CNAME .\na.example 60 CNAME .\nd.example 60 CNAME rpz-drop.\n\
         t.example 60 CNAME rpz-tcp-only.\nl.example 60 A 192.0.2.1\n",
    );
    let mut policy = with_policies(&[&first, &second], &["spared.example", "b.blocked"]);
    let rcode = |rcode| (ANSWERED, Answer::Rcode(rcode));
    assert_eq!(ask(&mut policy, "spared.example. A"), (ON, Answer::None), "from the list too");
    assert_eq!(ask(&mut policy, "a.example. A"), rcode(Rcode::NOERROR));
    assert_eq!(ask(&mut policy, "x.EXAMPLE. A"), rcode(Rcode::NXDOMAIN));
    assert_eq!(ask(&mut policy, "d.example. A"), (Step::drop(Reason::Blocked), Answer::None));
    assert_eq!(ask(&mut policy, "t.example. A"), (ANSWERED, Answer::Truncated));
    assert_eq!(local(&mut policy, "l.example. A"), Some((Rcode::NOERROR, [1, 0, 0])));
    assert_eq!(ask(&mut policy, "b.blocked. A"), BLOCKED);
    assert_eq!(ask(&mut policy, "elsewhere. A"), (ON, Answer::None));
}

/// The client of [`query`] is 10.77.0.1.
#[test]
fn a_rule_about_the_client_comes_before_one_about_the_name() {
    let name = rules("a.example 60 CNAME .\n");
    let client = rules("32.1.0.77.10.rpz-client-ip 60 CNAME rpz-passthru.\na.example 60 CNAME .\n");
    let other = rules("32.9.0.77.10.rpz-client-ip 60 CNAME rpz-passthru.\na.example 60 CNAME .\n");
    let refusing = rules("24.0.0.77.10.rpz-client-ip 60 CNAME rpz-drop.\n");
    let ask = |zones: &[&Written], text| self::ask(&mut with_policies(zones, &[]), text);
    assert_eq!(ask(&[&client], "a.example. A"), (ON, Answer::None));
    assert_eq!(ask(&[&other], "a.example. A"), BLOCKED);
    assert_eq!(ask(&[&name, &client], "a.example. A"), BLOCKED, "the first zone decides");
    assert_eq!(ask(&[&refusing], "any.name. A"), (Step::drop(Reason::Blocked), Answer::None));
}

#[test]
fn an_address_in_an_answer_is_judged_before_it_is_kept() {
    let zone = rules(
        "32.9.2.0.192.rpz-ip 60 CNAME .\n32.8.2.0.192.rpz-ip 60 A 192.0.2.80\n\
         32.7.2.0.192.rpz-ip 60 CNAME rpz-tcp-only.\nspared.example 60 CNAME rpz-passthru.\n",
    );
    let policy = with_policies(&[&zone], &[]);
    let respond = |name: &str, last: u8| {
        let query = query(&format!("{name} A"));
        let records = [(0, 1, 60, vec![192, 0, 2, last])];
        let entry = entry_of(&query, &records, 5, seed());
        let key = Key { name: &query.name, qtype: 1, qclass: 1, flags: 0 };
        let judged = policy.rules.respond(entry.clone(), key, &reply(&query, &records));
        let (before, after) = (entry.head(), judged.head());
        assert_eq!((after.hash, after.learnt, after.expires), (before.hash, 5, 65));
        assert!(answers(&judged.words(), &key), "it answers the same question");
        (after.rcode, after.counts(), after.flags, judged.message() == entry.message())
    };
    assert_eq!(respond("www.example.", 1), (Rcode::NOERROR, [1, 0, 0], 0, true));
    assert_eq!(respond("WWW.example.", 9), (Rcode::NXDOMAIN, [0, 1, 0], Head::REWRITTEN, false));
    let flags = Head::AUTHORITATIVE | Head::REWRITTEN;
    let local = (Rcode::NOERROR, [1, 0, 0], flags, false);
    assert_eq!(respond("www.example.", 8), local);
    let flags = Head::TOO_LONG | Head::REWRITTEN;
    // Over a stream it is given.
    assert_eq!(respond("www.example.", 7), (Rcode::NOERROR, [1, 0, 0], flags, true));
    assert_eq!(respond("spared.example.", 9), (Rcode::NOERROR, [1, 0, 0], 0, true));
}

#[test]
fn names_that_aliases_lead_to_are_judged_too() {
    let zone = rules(
        "tracker.example 60 CNAME .\n*.ads.example 60 A 192.0.2.80\ndrop.example 60 CNAME rpz-drop.\n\
         spared.example 60 CNAME rpz-passthru.\nfine.listed.example 60 CNAME rpz-passthru.\n",
    );
    let policy = with_policies(&[&zone], &["listed.example"]);
    let kept = |asked: &str, targets: &[&str]| kept_of_aliases(&policy, asked, targets);
    assert_eq!(kept("shop.example. A", &["cdn.example."]), (Rcode::NOERROR, [2, 0, 0]));
    let denied = (Rcode::NXDOMAIN, [0, 1, 0]);
    assert_eq!(kept("shop.example. A", &["Tracker.example."]), denied);
    assert_eq!(kept("shop.example. A", &["cdn.example.", "tracker.example."]), denied);
    assert_eq!(kept("shop.example. A", &["drop.example."]), (Head::SILENT, [0; 3]));
    assert_eq!(kept("shop.example. A", &["x.ads.example."]), (Rcode::NOERROR, [1, 0, 0]));
    assert_eq!(kept("shop.example. A", &["x.listed.example."]), denied);
    let passed = (Rcode::NOERROR, [2, 0, 0]);
    assert_eq!(kept("shop.example. A", &["fine.listed.example."]), passed);
    assert_eq!(kept("spared.example. A", &["tracker.example."]), passed);
    // Who asks for the alias itself does not go where it leads.
    assert_eq!(kept("shop.example. CNAME", &["tracker.example."]), passed);
}

#[test]
fn difference_an_alias_by_a_rule_goes_to_the_slow_path_for_what_it_leads_to() {
    let zone = rules("bad.example 60 CNAME garden.test.\n*.wild.example 60 CNAME *.garden.test.\n");
    let mut policy = with_policies(&[&zone], &[]);
    for name in ["bad.example. A", "x.wild.example. A", "x.wild.example. CNAME"] {
        let (step, answer) = ask(&mut policy, name);
        assert!(step == ON && matches!(answer, Answer::Local(_)), "{name}: {step:?}");
    }
    let (step, answer) = ask(&mut policy, "bad.example. CNAME");
    assert!(step == ANSWERED && matches!(answer, Answer::Local(_)));
    let mut unrecursive = |text: &str| {
        let query = QueryFrame { flags: 0, ..query(text) };
        let ports = [Port::new(OUR_MAC, [OUR_IPV4.into()])].into();
        let packet = act_once(&mut Parse::new(ports, seed()), query.packet(), &at(0));
        let packet = act_once(&mut policy, packet, &at(0));
        (packet.step, packet.answer)
    };
    let (step, answer) = unrecursive("bad.example. A");
    assert!(step == ANSWERED && matches!(answer, Answer::Local(_)), "alone");
    assert_eq!(unrecursive("x.wild.example. A"), (ANSWERED, Answer::Rcode(Rcode::REFUSED)));
}
