//! The dearest replies of 64 KB there are, validated with the zones' keys known. By hand, in a release build:
//! `cargo test --release -p pmdns-validator --test validate -- worst --ignored --nocapture`.

use std::time::{Duration, Instant};

use pmdns_hierarchy::{EXPIRATION, INCEPTION, Message, NOW, Name, OwnedRecord, World, rtype};
use pmdns_validator::{Judgement, Progress, Question, Validator, ValidatorLimits, pass_on};

use crate::costs::{colliding, costly};
use crate::judged::{A, validator};

/// Runs of each case; the median counts.
const RUNS: usize = 11;

/// A reply to a name of `zone` with these sets, signed by it, in answer or authority.
fn signed(world: &World, zone: &str, owner: &Name, sets: &[(usize, Vec<OwnedRecord>)]) -> Message {
    let zone = world.zone(&Name::new(zone));
    let key = &zone.keys.as_ref().unwrap()[1];
    let mut reply = Message::reply(owner, sets[0].1[0].rtype);
    for (section, set) in sets {
        reply.sections[*section].extend(set.clone());
        let signature = key.sign_set(&zone.apex, set, [INCEPTION, EXPIRATION]);
        reply.sections[*section].push(signature);
    }
    reply
}

/// A chain of so many aliases, each with a signature.
fn aliases(world: &World, zone: &str, count: usize) -> Message {
    let name = |at: usize| Name::new(&format!("x{at}.{zone}"));
    let alias = |at: usize| vec![OwnedRecord::new(&name(at), rtype::CNAME, name(at + 1).wire())];
    let mut sets: Vec<_> = (0..count).map(|at| (0, alias(at))).collect();
    sets.push((0, vec![OwnedRecord::new(&name(count), A, [192, 0, 2, 1])]));
    let mut reply = signed(world, zone, &name(0), &sets);
    reply.question.1 = A;
    reply
}

fn cases(world: &World) -> Vec<(&'static str, Message)> {
    let www = Name::new("www.sec.a13.");
    let long = Name::new(&format!("{}sec.a13.", "x.".repeat(119)));
    let records = |owner: &Name, rtype, count: u16, len: usize| {
        let data = |n: u16| [&n.to_be_bytes()[..], &vec![7; len]].concat();
        (0..count).map(|n| OwnedRecord::new(owner, rtype, data(n))).collect::<Vec<_>>()
    };
    let beside = |owner: &Name, count: u16| {
        let mut sets = vec![(0, records(owner, 65_280, 1, 4))];
        sets.extend((0..count).map(|n| (1, records(owner, 1000 + n, 1, 100))));
        signed(world, "sec.a13.", owner, &sets)
    };
    let mut many = signed(world, "sec.a13.", &www, &[(0, records(&www, 65_280, 1, 4))]);
    let one = many.sections[0].last().unwrap().clone();
    many.sections[0].extend(vec![one; 400]);
    let wrong = |zone: &str| {
        let mut reply = world.reply(&Name::new(&format!("www.{zone}")), A).message;
        let good = reply.sections[0].pop().unwrap();
        for n in 0..16 {
            let mut wrong = good.clone();
            let at = wrong.data.len() - 1 - n;
            wrong.data[at] ^= 1;
            reply.sections[0].push(wrong);
        }
        reply
    };
    let hashed = Name::new(&format!("{}a8.", "x.".repeat(120)));
    vec![
        ("an address", world.reply(&www, A).message),
        (
            "2,000 records, 120 labels each",
            signed(world, "sec.a13.", &long, &[(0, records(&long, 65_280, 2000, 4))]),
        ),
        (
            "one set of 60 KB",
            signed(world, "sec.a13.", &www, &[(0, records(&www, 65_280, 500, 110))]),
        ),
        ("250 signed sets beside an answer", beside(&long, 250)),
        ("400 signatures of one set", many),
        ("5,000 records", {
            let mut reply = Message::reply(&www, A);
            reply.sections[0] = records(&www, A, 5000, 2);
            reply
        }),
        ("16 wrong signatures, ECDSA P-256", wrong("sec.a13.")),
        ("16 wrong signatures, ECDSA P-384", wrong("a14.")),
        ("16 wrong signatures, Ed448", wrong("a16.")),
        ("14 aliases, RSA", aliases(world, "a8.", 14)),
        ("14 aliases, ECDSA P-256", aliases(world, "sec.a13.", 14)),
        ("14 aliases, ECDSA P-384", aliases(world, "a14.", 14)),
        ("14 aliases, Ed448", aliases(world, "a16.", 14)),
        ("a denial, Ed448", world.reply(&Name::new("none.a16."), A).message),
        ("NSEC3, 150 iterations, salt of 255 octets", costly(world, 150, &[7; 255], &hashed)),
        ("NSEC3, 0 iterations, 120 labels", costly(world, 0, &[], &hashed)),
        ("40 keys with one tag", {
            let (signature, keys) = colliding(world, 40);
            let mut reply = Message::reply(&Name::new("sec.a13."), rtype::DNSKEY);
            reply.sections[0] = [&keys[..], &[signature]].concat();
            reply
        }),
    ]
}

/// Judges a reply, and says how long that took, and its longest step.
#[inline(never)]
fn measured(
    (validator, world): (&mut Validator, &World),
    question: Question<'_>,
    reply: &[u8],
) -> (Duration, Duration, Judgement) {
    let (mut total, mut longest) = (Duration::ZERO, Duration::ZERO);
    let mut timed = |from: Instant| {
        let step = from.elapsed();
        total += step;
        longest = longest.max(step);
    };
    let started = Instant::now();
    let mut job = validator.start(question, reply, u64::from(NOW));
    timed(started);
    loop {
        let started = Instant::now();
        let progress = validator.step(&mut job, u64::from(NOW));
        timed(started);
        match progress {
            Progress::Working => {}
            Progress::Fetch { name: wire, qtype } => {
                let (name, _) = Name::parse(&wire, 0).unwrap();
                let fetched = world.reply(&name, qtype).message.to_bytes();
                let started = Instant::now();
                validator.fetched(&mut job, &wire, qtype, Some(&fetched));
                timed(started);
            }
            Progress::Done(judgement) => {
                let started = Instant::now();
                let limit = ValidatorLimits::default().records;
                std::hint::black_box(pass_on(reply, &judgement.keep, true, true, limit));
                timed(started);
                return (total, longest, judgement);
            }
        }
    }
}

#[test]
#[ignore = "a measurement"]
fn what_the_worst_replies_cost() {
    let world = World::new();
    let mut validator = validator(&world);
    for (what, message) in cases(&world) {
        let (name, qtype, _) = &message.question;
        let question = Question { name: name.wire(), qtype: *qtype, qclass: 1 };
        let reply = message.to_bytes();
        // The first run fetches keys.
        let mut runs: Vec<_> = (0..=RUNS)
            .map(|_| measured((&mut validator, &world), question, &reply))
            .skip(1)
            .collect();
        runs.sort_by_key(|(total, ..)| *total);
        let (total, _, judgement) = &runs[RUNS / 2];
        let mut steps: Vec<_> = runs.iter().map(|(_, longest, _)| *longest).collect();
        steps.sort();
        println!(
            "{total:9.1?} ({:.1?} to {:.1?}), longest step {:.1?}, {} bytes, {:?}: {what}",
            runs[0].0,
            runs[RUNS - 1].0,
            steps[RUNS / 2],
            reply.len(),
            judgement.verdict
        );
    }
}
