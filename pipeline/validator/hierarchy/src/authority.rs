//! Answers, as a resolver gives them to a forwarder that asks with DO and CD: aliases followed, proofs included.

use crate::message::{Message, OwnedRecord};
use crate::name::Name;
use crate::rtype;
use crate::truth::{Fact, Truth};
use crate::world::World;
use crate::zone::{Denial, Status, Zone};

/// The longest chain of aliases that is followed.
const MAX_ALIASES: usize = 8;

/// A correct answer, and the verdict on it.
#[derive(Clone)]
pub struct CorrectReply {
    /// The answer.
    pub message: Message,
    /// What each step of it rests on, aliases first.
    pub steps: Vec<Truth>,
}

impl CorrectReply {
    /// What a validator has to find about all of it.
    pub fn status(&self) -> Status {
        let has = |status| self.steps.iter().any(|step| step.status == status);
        let worst = [Status::Bogus, Status::Insecure, Status::Open].into_iter();
        worst.into_iter().find(|status| has(*status)).unwrap_or(Status::Secure)
    }
}

impl World {
    /// The answer to a question.
    pub fn reply(&self, name: &Name, qtype: u16) -> CorrectReply {
        let mut message = Message::reply(name, qtype);
        let mut steps = Vec::new();
        let mut here = name.clone();
        for _ in 0..MAX_ALIASES {
            let truth = self.truth(&here, qtype);
            let next = self.add_step(&mut message, &here, &truth);
            steps.push(truth);
            match next {
                // An alias that was asked for is the answer, also one that a DNAME record makes.
                Some(next) if qtype != rtype::CNAME => here = next,
                _ => break,
            }
        }
        message.sections[2].push(Self::edns());
        CorrectReply { message, steps }
    }

    /// The OPT record of a message, with DO.
    pub fn edns() -> OwnedRecord {
        let owner = Name::root();
        OwnedRecord { owner, rtype: rtype::OPT, class: 1232, ttl: 0x8000, data: Vec::new() }
    }

    /// Adds what proves one step of a chain; where it leads on.
    fn add_step(&self, message: &mut Message, name: &Name, truth: &Truth) -> Option<Name> {
        let zone = self.zone(&truth.zone);
        let [answer, authority, _] = &mut message.sections;
        match &truth.fact {
            Fact::Set(set) => {
                answer.extend(expanded(zone, truth, set));
                add_wildcard_proof(zone, truth, name, authority);
                None
            }
            Fact::Alias(record, target) => {
                answer.extend(expanded(zone, truth, std::slice::from_ref(record)));
                add_wildcard_proof(zone, truth, name, authority);
                Some(target.clone())
            }
            Fact::Redirect(record, alias, target) => {
                // Two names below one DNAME record in a chain need it once.
                if !answer.contains(record) {
                    answer.extend(zone.signed(std::slice::from_ref(record)));
                }
                answer.push(alias.clone());
                Some(target.clone())
            }
            Fact::NoData => {
                let mut proofs = no_data_proof(zone, truth, name);
                add_denial(zone, &mut proofs, authority);
                None
            }
            Fact::NoName => {
                let mut proofs = no_name_proof(zone, truth, name);
                add_denial(zone, &mut proofs, authority);
                message.set_rcode(3);
                None
            }
        }
    }
}

/// A set with the signature of its source.
fn expanded(zone: &Zone, truth: &Truth, set: &[OwnedRecord]) -> Vec<OwnedRecord> {
    let Some(source) = &truth.wildcard else { return zone.signed(set) };
    let stored = zone.set(source, set[0].rtype).map_or(set, |stored| stored);
    let own = |mut record: OwnedRecord| {
        record.owner = set[0].owner.clone();
        record
    };
    set.iter().cloned().chain(zone.signature(stored).map(own)).collect()
}

/// The name below its encloser: the one that must not exist.
fn next_closer(name: &Name, encloser: &Name) -> Name {
    name.chain().take_while(|above| above != encloser).last().unwrap_or_else(|| name.clone())
}

/// What shows that no name was nearer than the wildcard.
fn add_wildcard_proof(zone: &Zone, truth: &Truth, name: &Name, authority: &mut Vec<OwnedRecord>) {
    if truth.wildcard.is_some() {
        let proof = match zone.denial {
            Denial::Nsec3 { .. } => zone.covering(&next_closer(name, &truth.encloser)),
            _ => zone.covering(name),
        };
        add_proofs(zone, proof.into_iter().cloned().collect(), authority);
    }
}

fn no_data_proof(zone: &Zone, truth: &Truth, name: &Name) -> Vec<OwnedRecord> {
    let encloser = &truth.encloser;
    let proofs = match (&zone.denial, &truth.wildcard) {
        (Denial::Nsec3 { .. }, Some(source)) => {
            vec![
                zone.matching(encloser),
                zone.covering(&next_closer(name, encloser)),
                zone.matching(source),
            ]
        }
        (Denial::Nsec3 { .. }, None) if zone.is_left_out(name) => {
            let mut above = name.chain().skip(1);
            let encloser = above.find(|above| zone.matching(above).is_some());
            let encloser = encloser.unwrap_or_else(|| zone.apex.clone());
            vec![zone.matching(&encloser), zone.covering(&next_closer(name, &encloser))]
        }
        (_, Some(source)) => vec![zone.covering(name), zone.matching(source)],
        (Denial::Nsec, None) if zone.is_empty_non_terminal(name) => vec![zone.covering(name)],
        (_, None) => vec![zone.matching(name)],
    };
    proofs.into_iter().flatten().cloned().collect()
}

fn no_name_proof(zone: &Zone, truth: &Truth, name: &Name) -> Vec<OwnedRecord> {
    let encloser = &truth.encloser;
    let source = encloser.child("*");
    let proofs = match zone.denial {
        Denial::Nsec3 { .. } => vec![
            zone.matching(encloser),
            zone.covering(&next_closer(name, encloser)),
            zone.covering(&source),
        ],
        _ => vec![zone.covering(name), zone.covering(&source)],
    };
    proofs.into_iter().flatten().cloned().collect()
}

/// Adds the SOA record with its signature, and proofs with theirs.
fn add_denial(zone: &Zone, proofs: &mut Vec<OwnedRecord>, authority: &mut Vec<OwnedRecord>) {
    if let Some(soa) = zone.set(&zone.apex, rtype::SOA) {
        authority.extend(zone.signed(soa));
    }
    add_proofs(zone, std::mem::take(proofs), authority);
}

fn add_proofs(zone: &Zone, proofs: Vec<OwnedRecord>, authority: &mut Vec<OwnedRecord>) {
    for proof in proofs {
        if !authority.contains(&proof) {
            authority.extend(zone.signed(std::slice::from_ref(&proof)));
        }
    }
}
