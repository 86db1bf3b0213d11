//! Whether an answer is true, as far as anybody can know who trusts the root's key.

use crate::message::OwnedRecord;
use crate::name::Name;
use crate::rtype;
use crate::truth::Fact;
use crate::world::World;
use crate::zone::Status;

/// The longest chain of aliases that is looked through.
const MAX_ALIASES: usize = 20;

/// Types of which the hierarchy knows no truth.
const UNJUDGED: [u16; 4] = [rtype::RRSIG, rtype::NSEC, rtype::NSEC3, rtype::ANY];

/// `Err` says what is not true of an answer to `name` and `qtype` that was accepted, as secure or not.
pub fn check(
    world: &World,
    (name, qtype): (&Name, u16),
    is_secure: bool,
    rcode: u16,
    answer: &[OwnedRecord],
) -> Result<(), String> {
    // Errors say nothing, and signatures and denials as such are not looked into.
    if rcode != 0 && rcode != 3 || UNJUDGED.contains(&qtype) {
        return Ok(());
    }
    let answer: Vec<&OwnedRecord> = answer.iter().filter(|record| is_data(record, qtype)).collect();
    for record in &answer {
        each_is_true(world, record, &answer)?;
    }
    let mut here = name.clone();
    for _ in 0..MAX_ALIASES {
        let truth = world.truth(&here, qtype);
        match truth.status {
            Status::Open => return Ok(()),
            Status::Insecure if is_secure => return Err(format!("{here} is not signed")),
            Status::Insecure => return Ok(()),
            Status::Bogus => return Err(format!("{here} is bogus")),
            Status::Secure => {}
        }
        let has = |rtype| answer.iter().any(|record| record.owner == here && record.rtype == rtype);
        let is_denied = !answer.iter().any(|record| record.owner == here);
        match truth.fact {
            // That the set is whole is known by now.
            Fact::Set(_) if has(qtype) && rcode == 0 => return Ok(()),
            Fact::Redirect(..) if has(rtype::CNAME) && qtype == rtype::CNAME => return Ok(()),
            Fact::Alias(_, target) | Fact::Redirect(_, _, target) if has(rtype::CNAME) => {
                here = target;
            }
            Fact::NoData if rcode == 0 && is_denied => return Ok(()),
            Fact::NoName if rcode == 3 && is_denied => return Ok(()),
            fact => return Err(format!("of {here} is true: {fact:?}")),
        }
    }
    Ok(())
}

/// Whether a record is one that the client asked for, and no signature or proof.
fn is_data(record: &OwnedRecord, qtype: u16) -> bool {
    let proofs = [rtype::RRSIG, rtype::NSEC, rtype::NSEC3, rtype::OPT];
    record.rtype == qtype || !proofs.contains(&record.rtype)
}

/// Whether a record of a signed zone is one of the zone's, and all others of its set are there.
fn each_is_true(
    world: &World,
    record: &OwnedRecord,
    answer: &[&OwnedRecord],
) -> Result<(), String> {
    let truth = world.truth(&record.owner, record.rtype);
    match truth.status {
        Status::Insecure | Status::Open => return Ok(()),
        Status::Bogus => return Err(format!("{record} is of a bogus zone")),
        Status::Secure => {}
    }
    let mut set = match truth.fact {
        Fact::Set(set) => set,
        Fact::Redirect(_, alias, _) => vec![alias],
        fact => return Err(format!("{record} is not there, but {fact:?}")),
    };
    // Records about zones themselves do not follow aliases.
    set.retain(|other| other.rtype == record.rtype);
    let is_known = set.iter().any(|other| other.says_the_same(record));
    let is_whole = set.iter().all(|other| answer.iter().any(|record| record.says_the_same(other)));
    if !is_known {
        return Err(format!("{record} is not one of {set:?}"));
    }
    if is_whole { Ok(()) } else { Err(format!("not all of {set:?} are there")) }
}
