//! What mutants have shown.

use pmdns_hierarchy::{Message, Name, OwnedRecord, World, rtype};
use pmdns_validator::{Judgement, SecurityStatus};

use crate::drive::{judge, validator};

fn judged(world: &World, message: &Message) -> Judgement {
    let question = (&message.question.0, message.question.1);
    judge(&mut validator(world), world, question, &message.to_bytes(), &[]).judgement
}

#[test]
fn difference_an_insecure_answer_says_nothing_of_other_names() {
    let world = World::new();
    let mut message = world.reply(&Name::new("www.open."), rtype::A).message;
    assert_eq!(judged(&world, &message).keep, []);
    let at = message.sections[0].len();
    let forged = OwnedRecord::new(&Name::new("www.a13."), rtype::A, [192, 0, 2, 66]);
    message.sections[0].push(forged);
    let judgement = judged(&world, &message);
    assert_eq!((judgement.verdict, judgement.keep[at]), (SecurityStatus::Insecure, false));
    assert!(judgement.keep[..at].iter().all(|keep| *keep));
}

#[test]
fn difference_a_dname_without_its_alias_is_bogus() {
    let world = World::new();
    let mut message = world.reply(&Name::new("www.away.a13."), rtype::A).message;
    assert_eq!(judged(&world, &message).verdict, SecurityStatus::Secure);
    message.sections[0].retain(|record| record.rtype != rtype::CNAME);
    assert!(matches!(judged(&world, &message).verdict, SecurityStatus::Bogus(_)));
}

#[test]
fn difference_an_alias_in_place_of_ds_records_is_judged_above_the_cut() {
    let world = World::new();
    let mut message = world.reply(&Name::new("insec.a13."), rtype::DS).message;
    assert_eq!(judged(&world, &message).verdict, SecurityStatus::Secure);
    let alias = OwnedRecord::new(&Name::new("insec.a13."), rtype::CNAME, Name::new("open.").wire());
    message.sections[0].push(alias);
    assert!(matches!(judged(&world, &message).verdict, SecurityStatus::Bogus(_)));
}
