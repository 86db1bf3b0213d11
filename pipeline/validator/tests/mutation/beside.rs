//! Unbound beside the validator: the same anchor, the same answers, the same mutants. By hand: `-- --ignored`.

use std::collections::BTreeMap;

use pmdns_hierarchy::message::{flag, type_name};
use pmdns_hierarchy::{Fact, Message, Name, Status, World, oracle, rtype};
use pmdns_validator::SecurityStatus;

use crate::changes::CHANGES;
use crate::drive::{judge, validator};
use crate::mutate::Mutator;
use crate::stub::Stub;
use crate::unbound::Unbound;
use crate::{is_true, run};

/// Mutants that Unbound is shown: each takes it a few milliseconds.
const MUTANTS: u64 = 3000;

#[test]
#[ignore = "needs Unbound"]
fn unbound_finds_true_answers_as_they_are() {
    let world = World::new();
    let stub = Stub::start();
    let unbound = Unbound::start(&world, stub.address);
    let mut wrong = Vec::new();
    for (name, qtype) in world.questions() {
        let reply = world.reply(name, *qtype);
        let made = |fact: &Fact| *qtype == rtype::CNAME && matches!(fact, Fact::Redirect(..));
        // Unbound refuses an alias that a DNAME record makes when the alias itself is asked for.
        if reply.steps.iter().any(|step| made(&step.fact)) {
            continue;
        }
        let answered = unbound.ask(name, *qtype);
        let (found, expected) = (status(&answered), reply.status());
        let is_open = expected == Status::Open && found != Status::Bogus;
        let is_true = found == Status::Bogus || truth_of(&world, &answered).is_ok();
        if !is_open && found != expected || !is_true {
            let question = format!("{name} {}", type_name(*qtype));
            wrong.push(format!("{question}: {found:?}, but {expected:?}\n{answered}"));
        }
    }
    assert!(wrong.is_empty(), "{} verdicts are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Fails if either passes on what is not true; if it is Unbound, the oracle is to be looked at. Prints the mutants that only
/// one of both refuses, and how many there are of each class.
#[test]
#[ignore = "needs Unbound"]
fn unbound_lets_no_mutant_pass_either() {
    let world = World::new();
    let mutator = Mutator::new(&world, CHANGES);
    let stub = Stub::start();
    let unbound = Unbound::start(&world, stub.address);
    let mut shared = validator(&world);
    let (mut passed, mut both) = (Vec::new(), 0);
    let (mut ours, mut theirs) = (BTreeMap::new(), BTreeMap::new());
    for seed in run(MUTANTS) {
        let mutant = mutator.mutant(seed);
        // Unbound fetches keys with the same questions, and remembers for a minute what it finds wrong with them.
        let is_key = [rtype::DS, rtype::DNSKEY].contains(&mutant.qtype);
        if is_key || !mutant.forged.is_empty() || Message::parse(&mutant.reply).is_none() {
            continue;
        }
        let question = (&mutant.name, mutant.qtype);
        let told = ((mutant.name.clone(), mutant.qtype), Some(mutant.reply.clone()));
        *stub.forged.lock().unwrap() = vec![told];
        let answered = unbound.ask(question.0, question.1);
        let judged = judge(&mut shared, &world, question, &mutant.reply, &[]);
        let verdict = judged.judgement.verdict;
        let is_refused =
            matches!(verdict, SecurityStatus::Bogus(_) | SecurityStatus::OverBudget(_));
        let is_bogus = status(&answered) == Status::Bogus;
        match (is_refused, is_bogus) {
            (true, true) => both += 1,
            (true, false) => {
                let class = (why(verdict), format!("{:?}", status(&answered)));
                *ours.entry(class).or_insert(0) += 1;
                println!("only pmdns refuses ({verdict:?}) {mutant}Unbound: {answered}");
            }
            (false, true) => {
                let class = (standing(&world, question, verdict), extended_error(&answered));
                *theirs.entry(class).or_insert(0) += 1;
                println!("only Unbound refuses ({verdict:?}) {mutant}{answered}");
            }
            (false, false) => {}
        }
        if !is_refused && let Err(why) = is_true(&world, &mutant, &judged) {
            passed.push(format!("pmdns passes it on, but {why}: {mutant}"));
        }
        if !is_bogus && let Err(why) = truth_of(&world, &answered) {
            passed.push(format!("passes, but {why}: {mutant}Unbound: {answered}"));
        }
    }
    println!("both refuse {both}");
    for ((why, status), count) in ours {
        println!("{count} refused by pmdns only: {why}; Unbound: {status}");
    }
    for ((standing, why), count) in theirs {
        println!("{count} refused by Unbound only, extended error {why:?}; pmdns: {standing}");
    }
    assert!(passed.is_empty(), "{} mutants pass:\n{}", passed.len(), passed.join("\n"));
}

/// The extended error of a verdict that refuses.
fn why(verdict: SecurityStatus) -> String {
    match verdict {
        SecurityStatus::Bogus(why) => format!("bogus, extended error {why}"),
        other => format!("{other:?}"),
    }
}

/// A verdict, and what is known of the first name on the way along true aliases that is not signed.
fn standing(world: &World, (name, qtype): (&Name, u16), verdict: SecurityStatus) -> String {
    let mut here = name.clone();
    for _ in 0..16 {
        let truth = world.truth(&here, qtype);
        match (truth.status, truth.fact) {
            (Status::Secure, Fact::Alias(_, target) | Fact::Redirect(_, _, target)) => {
                here = target
            }
            (Status::Open, _) if truth.zone == Name::new("many.") => {
                return format!("{verdict:?}, a zone with 151 iterations");
            }
            (Status::Open, _) => return format!("{verdict:?}, opt-out"),
            (status, fact) => {
                let fact = match fact {
                    Fact::Set(_) => "a set",
                    Fact::NoData | Fact::NoName => "a denial",
                    Fact::Alias(..) | Fact::Redirect(..) => "an alias",
                };
                return format!("{verdict:?}, {fact} of a {status:?} zone");
            }
        }
    }
    format!("{verdict:?}, aliases")
}

/// The extended error that Unbound gives.
fn extended_error(answered: &Message) -> Option<u16> {
    let options = &answered.records().find(|record| record.rtype == rtype::OPT)?.data;
    let mut rest = &options[..];
    while let [code_high, code_low, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if u16::from_be_bytes([*code_high, *code_low]) == 15 {
            return Some(u16::from_be_bytes([*after.first()?, *after.get(1)?]));
        }
        rest = after.get(length..)?;
    }
    None
}

/// What Unbound thinks of the answer that it gave.
fn status(answered: &Message) -> Status {
    match answered.rcode() {
        0 | 3 if answered.flags & flag::AD != 0 => Status::Secure,
        0 | 3 => Status::Insecure,
        _ => Status::Bogus,
    }
}

/// `Err` says what is not true of what Unbound answered.
fn truth_of(world: &World, answered: &Message) -> Result<(), String> {
    let (name, qtype, _) = &answered.question;
    let (is_secure, answer) = (answered.flags & flag::AD != 0, &answered.sections[0]);
    let check = |rcode| oracle::check(world, (name, *qtype), is_secure, rcode, answer);
    // Where an alias leads to no name, Unbound says NOERROR when it has asked again.
    let has_alias = answer.iter().any(|record| record.rtype == rtype::CNAME);
    check(answered.rcode()).or_else(|why| if has_alias { check(3) } else { Err(why) })
}
