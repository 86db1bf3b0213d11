//! Validation: what clients get of replies that are signed, not signed, or signed wrongly.

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::RecordType;
use hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};
use pmdns_config::Dnssec;
use pmdns_stages::testing::{QueryFrame, query};
use pmdns_stages::wire::be16;
use pmdns_stages::wire::dns::{flag, header};

use super::BY_PORT;
use super::rig::{Answer, Rig, Setup};
use super::signed::{TTL, Zone, question};
use super::stub::{Asked, Send, Stub};

const DS: u16 = 43;
const DNSKEY: u16 = 48;

/// A resolver of the signed zone.
fn honest() -> Stub {
    let zone = Zone::new();
    Stub::replying(move |asked| zone.reply(asked))
}

/// A rig that validates what these stubs say, by the key of the signed zone.
fn validating(test: &str, stubs: &[&Stub]) -> Setup {
    Setup { dnssec: Zone::new().trusted(test), ..Setup::asking(stubs) }
}

/// A client's query that wants to know what AD says.
fn curious(text: &str) -> QueryFrame {
    let plain = query(text).edns(1232, false);
    QueryFrame { flags: plain.flags | flag::AD, ..plain }
}

/// The whole answer to a query.
fn resolve(rig: &mut Rig, query: &QueryFrame) -> Message {
    Message::from_vec(&rig.resolve_whole(query)).unwrap()
}

/// The types of all records of an answer, but OPT.
fn types(message: &Message) -> Vec<RecordType> {
    let records = message.answers.iter().chain(&message.authorities).chain(&message.additionals);
    records.map(|record| record.record_type()).collect()
}

/// The extended error of an answer.
fn extended_error(message: &Message) -> Option<u16> {
    match message.edns.as_ref()?.option(EdnsCode::from(15))? {
        EdnsOption::Unknown(_, data) => be16(data, 0),
        _ => None,
    }
}

fn asked_flags(asked: &Asked) -> u16 {
    be16(&asked.message, header::FLAGS).unwrap()
}

#[test]
fn what_is_signed_has_ad_and_signatures_only_for_those_who_ask() {
    let stub = honest();
    let mut rig = validating("secure", &[&stub]).start();
    let answer = resolve(&mut rig, &curious("www.signed. A"));
    assert!(answer.metadata.authentic_data);
    assert_eq!(types(&answer), [RecordType::A], "RFC 4035 section 3.2.1");
    assert_eq!(answer.answers[0].ttl, TTL);
    let incurious = resolve(&mut rig, &query("www.signed. A"));
    assert!(!incurious.metadata.authentic_data, "RFC 6840 section 5.8");
    let whole = resolve(&mut rig, &query("www.signed. A").edns(1232, true));
    assert!(whole.metadata.authentic_data);
    assert_eq!(types(&whole), [RecordType::A, RecordType::RRSIG]);
    for asked in stub.asked() {
        let message = Message::from_vec(&asked.message).unwrap();
        assert!(message.metadata.checking_disabled, "RFC 6840 section 5.9");
        assert!(message.edns.unwrap().flags().dnssec_ok);
    }
    let keys = stub.asked().iter().filter(|asked| question(asked).1 == DNSKEY).count();
    assert_eq!(keys, 1, "keys are remembered");
    let counters = rig.finish();
    assert_eq!((counters.secure, counters.validation_queries), (2, 1));
}

#[test]
fn answers_live_no_longer_than_the_zone_said() {
    let stub = honest();
    let mut rig = validating("short", &[&stub]).start();
    let answer = resolve(&mut rig, &curious("short.signed. A"));
    assert!(answer.metadata.authentic_data);
    assert_eq!(answer.answers[0].ttl, 7, "RFC 4035 section 5.3.3");
    rig.finish();
}

#[test]
fn what_is_provably_not_signed_is_passed_on_without_ad() {
    let stub = honest();
    let mut rig = validating("insecure", &[&stub]).start();
    for name in ["www.open.signed.", "alias.signed.", "empty.open.signed."] {
        let answer = resolve(&mut rig, &curious(&format!("{name} A")));
        assert_eq!(answer.metadata.response_code, ResponseCode::NoError, "{name}");
        assert!(!answer.metadata.authentic_data, "{name}: the upstream's AD is not believed");
        assert!(!types(&answer).contains(&RecordType::RRSIG));
    }
    assert_eq!(rig.finish().insecure, 3);
}

#[test]
fn a_denial_is_secure_with_its_proof_and_has_it_only_for_those_who_ask() {
    let stub = honest();
    let mut rig = validating("denial", &[&stub]).start();
    let answer = resolve(&mut rig, &curious("none.signed. A"));
    assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
    assert!(answer.metadata.authentic_data);
    assert_eq!(types(&answer), [RecordType::SOA]);
    let whole = resolve(&mut rig, &query("none.signed. A").edns(1232, true));
    assert!(whole.metadata.authentic_data && types(&whole).contains(&RecordType::NSEC));
    rig.finish();
}

#[test]
fn what_is_bogus_is_servfail_and_says_why() {
    let stub = honest();
    let mut rig = validating("bogus", &[&stub]).start();
    for (name, why) in [("bad", 6), ("old", 7), ("early", 8), ("naked", 10)] {
        let answer = resolve(&mut rig, &curious(&format!("{name}.signed. A")));
        assert_eq!(answer.metadata.response_code, ResponseCode::ServFail, "{name}");
        assert_eq!(extended_error(&answer), Some(why), "{name}");
        let again = resolve(&mut rig, &curious(&format!("{name}.signed. A")));
        assert_eq!(extended_error(&again), Some(why), "RFC 4035 section 4.7, RFC 9520");
    }
    assert_eq!(rig.finish().bogus, 4);
}

#[test]
fn of_bogus_data_another_upstream_may_have_better() {
    let zone = Zone::new();
    let liar = Stub::replying(move |asked| match question(asked).1 {
        DNSKEY => zone.reply(asked),
        _ => asked.address(),
    });
    let stub = honest();
    let mut rig = validating("better", &[&liar, &stub]).start();
    let answer = resolve(&mut rig, &curious("www.signed. A"));
    assert_eq!(answer.metadata.response_code, ResponseCode::NoError);
    assert!(answer.metadata.authentic_data);
    let counters = rig.finish();
    assert_eq!((counters.bogus, counters.secure, counters.answered), (1, 1, 1));
}

#[test]
fn an_upstream_that_leaves_out_signatures_is_not_asked_for_keys_twice() {
    let plain = Stub::replying(Asked::address);
    let stub = honest();
    let mut rig = validating("plain", &[&plain, &stub]).start();
    assert!(resolve(&mut rig, &curious("www.signed. A")).metadata.authentic_data);
    rig.finish();
}

#[test]
fn clients_that_validate_get_the_data_as_they_are() {
    let stub = honest();
    let mut rig = validating("cd", &[&stub]).start();
    let mut own = query("bad.signed. A").edns(1232, true);
    own.flags |= flag::CD | flag::AD;
    let answer = resolve(&mut rig, &own);
    assert_eq!(answer.metadata.response_code, ResponseCode::NoError, "RFC 4035 section 4.9.2");
    assert!(!answer.metadata.authentic_data);
    assert_eq!(types(&answer), [RecordType::A, RecordType::RRSIG]);
    assert_ne!(asked_flags(&stub.asked()[0]) & flag::CD, 0);
    let counters = rig.finish();
    assert_eq!((counters.bogus, counters.validation_queries), (0, 0));
}

#[test]
fn names_that_the_operator_spares_are_not_validated() {
    let stub = honest();
    let mut setup = validating("spared", &[&stub]);
    setup.dnssec.negative_trust_anchors = vec!["bad.signed".into(), "open.signed".into()];
    let mut rig = setup.start();
    for name in ["bad.signed", "alias.signed"] {
        let answer = resolve(&mut rig, &curious(&format!("{name}. A")));
        assert_eq!(answer.metadata.response_code, ResponseCode::NoError, "{name}");
        assert!(!answer.metadata.authentic_data, "{name}: RFC 7646 section 2");
    }
    let naked = resolve(&mut rig, &curious("naked.signed. A"));
    assert_eq!(naked.metadata.response_code, ResponseCode::ServFail, "others are");
    assert_eq!(rig.finish().insecure, 2);
}

#[test]
fn beyond_the_trust_anchors_nothing_is_known() {
    let stub = honest();
    let mut rig = validating("beyond", &[&stub]).start();
    let answer = resolve(&mut rig, &curious("www.example. A"));
    assert_eq!(answer.metadata.response_code, ResponseCode::NoError);
    assert!(!answer.metadata.authentic_data);
    assert_eq!(rig.finish().indeterminate, 1);
}

#[test]
fn what_a_policy_zone_makes_of_an_answer_is_not_authentic() {
    let stub = honest();
    let mut rig = validating("policy", &[&stub]).start();
    rig.deny_all_addresses("policy");
    let answer = resolve(&mut rig, &curious("www.signed. A"));
    assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
    assert!(!answer.metadata.authentic_data);
    assert_eq!(rig.finish().secure, 1, "it was judged before");
}

#[test]
fn cve_2026_50243_no_rule_makes_an_answer_of_bogus_data() {
    let stub = honest();
    let mut rig = validating("rpz-bogus", &[&stub]).start();
    rig.judge_by("rpz-bogus", "0.0.0.0.0.rpz-ip 60 A 192.0.2.80\n");
    let answer = resolve(&mut rig, &curious("bad.signed. A"));
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
    assert!(answer.answers.is_empty());
    rig.finish();
}

#[test]
fn without_keys_clients_are_answered_by_their_deadline() {
    let zone = Zone::new();
    let stub = Stub::start([127, 0, 0, 1].into(), move |asked| match question(asked).1 {
        DNSKEY => Vec::new(),
        _ => vec![Send::Reply(zone.reply(asked))],
    });
    let mut rig = validating("keyless", &[&stub]).hasty(400, 100).start();
    let answer = resolve(&mut rig, &curious("www.signed. A"));
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
    rig.wait_for(|counters| counters.pending == 0);
    rig.finish();
}

#[test]
fn stopping_drains_those_whose_replies_are_being_judged() {
    let zone = Zone::new();
    let stub = Stub::start([127, 0, 0, 1].into(), move |asked| match question(asked).1 {
        DNSKEY => Vec::new(),
        _ => vec![Send::Reply(zone.reply(asked))],
    });
    let mut rig = validating("stopped", &[&stub]).start();
    rig.ask(&curious("www.signed. A"));
    rig.wait_for(|counters| counters.validation_queries == 1);
    let (counters, leftover) = rig.stop();
    assert_eq!((counters.servfail, leftover.len()), (1, 1));
}

#[test]
fn an_operator_who_does_not_validate_believes_upstreams_as_ever() {
    let stub = honest();
    let setup = Setup { dnssec: Dnssec::default(), ..Setup::asking(&[&stub]) };
    let mut rig = setup.start();
    let authentic = resolve(&mut rig, &curious("bad.signed. A")).metadata.authentic_data;
    assert_eq!(
        authentic, !BY_PORT,
        "an upstream on this machine is believed, one on a link is not"
    );
    assert_eq!(asked_flags(&stub.asked()[0]) & flag::CD, 0);
    rig.finish();
}

#[test]
fn audit_01_a_forged_signature_of_an_unsigned_zone_does_not_pass() {
    let stub = honest();
    let mut rig = validating("forged", &[&stub]).start();
    let answer = resolve(&mut rig, &curious("forged.signed. A"));
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
    assert_eq!(extended_error(&answer), Some(10), "the zone has signed nothing");
    assert_eq!(rig.finish().bogus, 1);
}

#[test]
fn audit_03_a_name_of_many_labels_costs_its_budget_and_no_more() {
    let stub = honest();
    let mut rig = validating("labels", &[&stub]).start();
    let name = "a.".repeat(117);
    let answer = resolve(&mut rig, &curious(&format!("{name}signed. A")));
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
    assert_eq!(extended_error(&answer), Some(5));
    let counters = rig.finish();
    let queries = u64::from(pmdns_validator::ValidatorLimits::default().fetches);
    assert_eq!((counters.validation_over_budget, counters.validation_queries), (1, queries));
}

/// A resolver of the signed zone that answers all but questions for DS records of names that begin with `slow`.
fn keyless() -> Stub {
    let zone = Zone::new();
    Stub::start([127, 0, 0, 1].into(), move |asked| {
        let (owner, qtype) = question(asked);
        match owner.starts_with("slow") && qtype == DS {
            true => Vec::new(),
            false => vec![Send::Reply(zone.reply(asked))],
        }
    })
}

/// A rig with little room that validates what the stub says.
fn narrow(test: &str, stub: &Stub) -> Rig {
    let mut setup = Setup { answers: 4096, ..validating(test, &[stub]) };
    setup.settings.max_pending = 256;
    setup.start()
}

/// Many questions of one prefix whose validation takes keys that nobody brings.
fn flood(rig: &mut Rig) {
    for number in 0..600_u32 {
        let source = vec![10, 0, 0, (number % 250) as u8 + 1];
        rig.ask(&QueryFrame { source, id: 0, ..query(&format!("www.slow{number}.signed. A")) });
    }
}

/// The next answer that is not for the flood.
fn answer_beside(rig: &mut Rig) -> Answer {
    loop {
        let answer = rig.answers(1).remove(0);
        if answer.id != 0 {
            return answer;
        }
    }
}

#[test]
fn audit_03_keys_are_fetched_beside_a_flood_of_names_whose_keys_nobody_brings() {
    let stub = keyless();
    let mut rig = narrow("keys-beside", &stub);
    flood(&mut rig);
    rig.wait_for(|counters| counters.validation_queries >= 60);
    for id in 1..=60 {
        rig.ask(&QueryFrame { id, ..query(&format!("www.open{id}.signed. A")) });
        let answer = answer_beside(&mut rig);
        assert_eq!((answer.id, answer.rcode), (id, 0));
    }
    let counters = rig.counters();
    assert!(counters.insecure >= 60);
    rig.stop();
}

#[test]
fn audit_03_who_asks_the_same_as_a_flood_does_not_end_with_it() {
    let stub = keyless();
    let mut rig = narrow("same", &stub);
    // The keys of the zone are known.
    assert_eq!(
        resolve(&mut rig, &curious("www.signed. A")).metadata.response_code,
        ResponseCode::NoError
    );
    stub.faults.busy.set(true);
    let asked = query("www.open.signed. A");
    rig.ask(&QueryFrame { id: 1, source: vec![10, 0, 0, 1], ..asked.clone() });
    rig.wait_for(|counters| counters.waiting == 1);
    rig.ask(&QueryFrame { id: 2, ..asked });
    rig.wait_for(|counters| counters.coalesced == 1);
    flood(&mut rig);
    rig.wait_for(|counters| counters.shed_pending + counters.shed_prefix > 100);
    stub.faults.busy.set(false);
    for _ in 0..2 {
        assert_eq!(answer_beside(&mut rig).rcode, 0);
    }
    assert!(rig.counters().validation_shed > 0, "there was no room for the first");
    rig.stop();
}
