//! Budgets over time: a zone that costs too much, beside zones that do not.

use std::time::Duration;

use pmdns_hierarchy::{
    EXPIRATION, INCEPTION, Message, NOW, Name, OwnedRecord, Status, World, rtype,
};
use pmdns_validator::slots::Slots;
use pmdns_validator::{Cost, Progress, Question, SecurityStatus, Validator, ValidatorLimits, ede};

use crate::judged::{A, validator};

/// Clients of so many networks ask in turns.
const NETWORKS: u32 = 1000;

/// The verdict on a reply that has a place of these clients; `None`: they have none.
fn judge_in(
    slots: &mut Slots<u32>,
    (validator, world): (&mut Validator, &World),
    (clients, now): (u32, Duration),
    reply: &Message,
) -> Option<SecurityStatus> {
    let place = slots.take(clients, reply.question.0.wire(), now)?;
    let (verdict, cost) = judge_within(place.limits(), (validator, world), reply);
    slots.give_back(place, cost, now);
    Some(verdict)
}

/// The verdict on a reply within limits, and what it has cost.
fn judge_within(
    limits: ValidatorLimits,
    (validator, world): (&mut Validator, &World),
    reply: &Message,
) -> (SecurityStatus, Cost) {
    let (name, qtype, _) = &reply.question;
    let question = Question { name: name.wire(), qtype: *qtype, qclass: 1 };
    let mut job = validator.start_within(limits, question, &reply.to_bytes());
    loop {
        match validator.step(&mut job, u64::from(NOW)) {
            Progress::Working => {}
            Progress::Fetch { name: wire, qtype } => {
                let (name, _) = Name::parse(&wire, 0).unwrap();
                let reply = world.reply(&name, qtype).message.to_bytes();
                validator.fetched(&mut job, &wire, qtype, Some(&reply));
            }
            Progress::Done(judgement) => return (judgement.verdict, job.cost()),
        }
    }
}

/// A good answer of `a16.`, whose signatures are costly: a chain of more aliases than anybody needs.
fn dear(world: &World, number: u32) -> Message {
    let zone = world.zone(&Name::new("a16."));
    let key = &zone.keys.as_ref().unwrap()[1];
    let owner = |step: u32| Name::new(&format!("x{step}.y{number}.evil.a16."));
    let mut reply = Message::reply(&owner(0), A);
    for step in 0..=8 {
        let set = match step {
            8 => [OwnedRecord::new(&owner(step), A, [192, 0, 2, 1])],
            _ => [OwnedRecord::new(&owner(step), rtype::CNAME, owner(step + 1).wire())],
        };
        let signature = key.sign_set(&zone.apex, &set, [INCEPTION, EXPIRATION]);
        reply.sections[0].extend([set[0].clone(), signature]);
    }
    reply
}

#[test]
fn audit_03_a_zone_that_burns_its_budget_is_refused_and_others_validate() {
    let world = World::new();
    let mut validator = validator(&world);
    let (mut slots, now) = (Slots::new(1024), Duration::from_secs(1000));
    let with = &mut validator;
    let mut ask = |number, reply: &Message| {
        judge_in(&mut slots, (with, &world), (number % NETWORKS, now), reply)
    };
    let replies: Vec<_> = (0..8).map(|number| dear(&world, number)).collect();
    let verdicts: Vec<_> =
        (0..200).map(|number| ask(number, &replies[number as usize % 8]).unwrap()).collect();
    let good = verdicts.iter().take_while(|verdict| **verdict == SecurityStatus::Secure).count();
    assert!((20..150).contains(&good), "{good} before it is used up");
    let alike = |verdict: &SecurityStatus| [SecurityStatus::Secure, OVER].contains(verdict);
    assert!(verdicts.iter().all(alike), "{verdicts:?}");
    // Another zone and another network, and one network and that zone's neighbour.
    for owner in ["www.sec.a13.", "www.a8.", "www.a16."] {
        let reply = world.reply(&Name::new(owner), A).message;
        for clients in [5, 5000] {
            assert_eq!(ask(clients, &reply), Some(SecurityStatus::Secure), "{owner} {clients}");
        }
    }
}

const OVER: SecurityStatus = SecurityStatus::OverBudget(ede::INDETERMINATE);

#[test]
fn audit_03_what_is_signed_as_usual_validates_within_tight_limits_too() {
    let world = World::new();
    let mut validator = validator(&world);
    for (name, qtype) in world.questions() {
        let reply = world.reply(name, *qtype);
        let limits = ValidatorLimits::default().frugal();
        let mut verdicts = Vec::new();
        // What a question that is refused finds out about zones is there for the next one.
        while verdicts.len() < 4 && verdicts.last().is_none_or(|last| *last == OVER) {
            let (verdict, cost) = judge_within(limits, (&mut validator, &world), &reply.message);
            assert!(cost.check_us <= limits.check_us);
            verdicts.push(verdict);
        }
        if reply.status() == Status::Secure {
            assert_eq!(
                verdicts.last(),
                Some(&SecurityStatus::Secure),
                "{name} {qtype}: {verdicts:?}"
            );
        }
    }
}
