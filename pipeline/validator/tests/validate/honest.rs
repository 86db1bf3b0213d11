//! What the hierarchy says of itself is found to be so.

use pmdns_hierarchy::{Fact, NOW, Status, World, rtype};
use pmdns_validator::SecurityStatus;

use crate::judged::{judge, judge_by, validator};

#[test]
fn every_question_has_the_verdict_that_its_zones_deserve() {
    let world = World::new();
    let mut warm = validator(&world);
    let mut wrong = Vec::new();
    for (name, qtype) in world.questions() {
        let reply = world.reply(name, *qtype);
        let honest = |name: &_, qtype| Some(world.reply(name, qtype).message.to_bytes());
        let judged = [judge(&world, &reply.message), judge_by(&mut warm, &reply.message, honest)];
        for judged in judged {
            let is_right = match reply.status() {
                Status::Secure => judged.verdict == SecurityStatus::Secure,
                Status::Insecure => judged.verdict == SecurityStatus::Insecure,
                // Data are signed as ever; what is denied is not proved.
                Status::Open => {
                    matches!(judged.verdict, SecurityStatus::Insecure | SecurityStatus::Secure)
                }
                Status::Bogus => matches!(judged.verdict, SecurityStatus::Bogus(_)),
            };
            assert!(judged.widest_step <= 8 && judged.cost.fetches <= 12, "{judged:?}");
            if !is_right {
                wrong.push(format!("{name} {qtype}: {:?}, {:?}", reply.status(), judged.verdict));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_secure_reply_passes_on_all_that_it_has() {
    let world = World::new();
    for (name, qtype) in world.questions() {
        let reply = world.reply(name, *qtype);
        let judged = judge(&world, &reply.message);
        // An alias that was asked for is an answer: what it leads to is nobody's question.
        if judged.verdict == SecurityStatus::Secure && *qtype != rtype::CNAME {
            assert!(judged.judgement.keep.is_empty(), "{}\n{judged:?}", reply.message);
            let is_denial =
                reply.steps.iter().any(|step| matches!(step.fact, Fact::NoData | Fact::NoName));
            assert!(judged.judgement.max_ttl <= if is_denial { 3600 } else { u32::MAX });
        }
    }
}

#[test]
fn zones_are_remembered_for_others() {
    let world = World::new();
    let mut validator = validator(&world);
    let honest = |name: &_, qtype| Some(world.reply(name, qtype).message.to_bytes());
    let names = ["www.sec.a13.", "mail.sec.a13."].map(pmdns_hierarchy::Name::new);
    let first = judge_by(&mut validator, &world.reply(&names[0], 1).message, honest);
    assert_eq!(first.fetched.len(), 5, "{:?}", first.fetched);
    let second = judge_by(&mut validator, &world.reply(&names[1], 15).message, honest);
    assert_eq!((second.verdict, second.fetched.len()), (SecurityStatus::Secure, 0));
    assert!(
        NOW > 0 && first.fetched.iter().all(|(_, one)| [rtype::DS, rtype::DNSKEY].contains(one))
    );
}
