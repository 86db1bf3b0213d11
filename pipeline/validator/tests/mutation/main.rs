//! Mutated answers: none that differs from the truth may pass.
//!
//! `mutate`, `changes` and `forgeries` make mutants, `drive` has them judged. `beside` has Unbound judge the same.
//!
//! `PMDNS_MUTANTS` is the number of mutants, `PMDNS_MUTANT_SEED` the first of their seeds: 1 and that seed repeat one mutant.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of tests are small"
)]

mod beside;
mod changes;
mod drive;
mod forgeries;
mod found;
mod mutate;
mod stub;
mod unbound;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use pmdns_hierarchy::{Message, Status, TTL, World, oracle};
use pmdns_validator::{Cost, SecurityStatus, Validator, ValidatorLimits};

use changes::CHANGES;
use drive::{Judged, judge, seen, validator};
use mutate::{Mutant, Mutator};

/// Mutants of a run.
const MUTANTS: u64 = 100_000;
/// Mutants that a failure shows.
const SHOWN: usize = 10;

#[test]
fn no_mutant_passes_that_differs_from_the_truth() {
    let started = Instant::now();
    let world = World::new();
    let mutator = Mutator::new(&world, CHANGES);
    // Mutants share what is known about zones, as replies do. Those whose keys are tampered with find nothing known.
    let mut shared = validator(&world);
    let (mut verdicts, mut differ) = (BTreeMap::<&str, u64>::new(), 0_u64);
    let mut passed = Vec::new();
    for seed in run(MUTANTS) {
        let mutant = mutator.mutant(seed);
        let (verdict, outcome) = if mutant.forged.is_empty() {
            judge_mutant(&world, &mut shared, &mutant)
        } else {
            judge_mutant(&world, &mut validator(&world), &mutant)
        };
        *verdicts.entry(verdict).or_default() += 1;
        differ += u64::from(is_false(&world, &mutant));
        if let Err(why) = outcome {
            passed.push(format!("{verdict} passes, but {why}: {mutant}"));
        }
    }
    let count: u64 = verdicts.values().sum();
    println!("{count} mutants, {differ} with false data: {verdicts:?}, {:?}", started.elapsed());
    let wrong = passed.len();
    passed.truncate(SHOWN);
    assert!(passed.is_empty(), "{wrong} mutants pass:\n{}", passed.join("\n"));
    assert!(differ > count / 4, "mutants are worth refusing");
    nothing_is_remembered_wrongly(&world, &mut shared);
}

/// The seeds of a run of that many mutants, unless the environment says otherwise.
fn run(mutants: u64) -> Range<u64> {
    let number = |key: &str| std::env::var(key).ok().and_then(|text| text.parse().ok());
    let first = number("PMDNS_MUTANT_SEED").unwrap_or(1);
    first..first + number("PMDNS_MUTANTS").unwrap_or(mutants)
}

/// Whether a mutant is not true as it stands.
fn is_false(world: &World, mutant: &Mutant) -> bool {
    Message::parse(&mutant.reply).is_none_or(|message| {
        let (question, answer) = ((&mutant.name, mutant.qtype), &message.sections[0]);
        oracle::check(world, question, false, message.rcode(), answer).is_err()
    })
}

/// The verdict on a mutant; `Err` says what is not true of one that passes.
fn judge_mutant(
    world: &World,
    validator: &mut Validator,
    mutant: &Mutant,
) -> (&'static str, Result<(), String>) {
    let question = (&mutant.name, mutant.qtype);
    let judged = judge(validator, world, question, &mutant.reply, &mutant.forged);
    assert!(is_within_limits(&judged.cost), "{:?}: {mutant}", judged.cost);
    let verdict = match judged.judgement.verdict {
        SecurityStatus::Secure => "secure",
        SecurityStatus::Insecure => "insecure",
        SecurityStatus::Indeterminate => "indeterminate",
        SecurityStatus::Bogus(_) => return ("bogus", Ok(())),
        SecurityStatus::OverBudget(_) => return ("over budget", Ok(())),
    };
    (verdict, is_true(world, mutant, &judged))
}

fn is_true(world: &World, mutant: &Mutant, judged: &Judged) -> Result<(), String> {
    let is_secure = judged.judgement.verdict == SecurityStatus::Secure;
    let (rcode, answer) = seen(&mutant.reply, &judged.judgement).ok_or("nobody can read it")?;
    if is_secure && judged.judgement.max_ttl > TTL {
        return Err(format!("it is kept for {} seconds", judged.judgement.max_ttl));
    }
    oracle::check(world, (&mutant.name, mutant.qtype), is_secure, rcode, &answer)
}

fn is_within_limits(cost: &Cost) -> bool {
    let limits = ValidatorLimits::default();
    cost.checks <= limits.checks
        && cost.failed_checks <= limits.failed_checks
        && cost.hash_blocks <= limits.hash_blocks
        && cost.fetches <= limits.fetches
}

/// After all mutants, true answers are still found as they are.
fn nothing_is_remembered_wrongly(world: &World, validator: &mut Validator) {
    for (name, qtype) in world.questions() {
        let reply = world.reply(name, *qtype);
        let bytes = reply.message.to_bytes();
        let judged = judge(validator, world, (name, *qtype), &bytes, &[]);
        let verdict = judged.judgement.verdict;
        let is_right = match reply.status() {
            Status::Secure => verdict == SecurityStatus::Secure,
            Status::Insecure => verdict == SecurityStatus::Insecure,
            Status::Open => matches!(verdict, SecurityStatus::Secure | SecurityStatus::Insecure),
            Status::Bogus => matches!(verdict, SecurityStatus::Bogus(_)),
        };
        assert!(is_right, "{verdict:?}, but {:?}: {}", reply.status(), reply.message);
    }
}
