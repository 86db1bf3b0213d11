//! The claims of a reply: the sets on the way from the question along its aliases, and the denial at the end.

use crate::message::{NOERROR, NXDOMAIN, Section, rtype};
use crate::name::{self, Name};
use crate::sets::{Reply, Set};

/// Something that a reply claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The records of a set, by its number.
    Set(usize),
    /// An alias that follows from the DNAME set claimed before it, by the number of its set: not signed itself.
    Follows(usize),
    /// That a name has no records of this type, does not exist, or cannot be resolved.
    Denial(Name, u16, Denial),
    /// Signatures as an answer, which are not signed themselves.
    Signatures,
    /// Something that no zone would answer.
    Nonsense,
}

/// The kind of denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    /// The type (NOERROR).
    Type,
    /// The name (NXDOMAIN).
    Name,
    /// The service: an error is no data, and no zone proves it.
    Service,
}

/// YXDOMAIN: a name that a DNAME makes is too long (RFC 6672 section 2.2).
const YXDOMAIN: u8 = 6;

/// The claims of a reply to a question; `None`: there are too many aliases.
pub(crate) fn claims(
    reply: &Reply,
    question: &[u8],
    qtype: u16,
    max_aliases: usize,
) -> Option<Vec<Claim>> {
    let mut claims = Vec::new();
    let mut name: Name = question.into();
    for _ in 0..=max_aliases {
        if answer(reply, &name, qtype, &mut claims) {
            // Data at the end of the aliases, and an rcode that denies them.
            if reply.message.rcode != NOERROR {
                claims.push(denial(reply, name, qtype));
            }
            return Some(claims);
        }
        match follow_alias(reply, &name, qtype, &mut claims) {
            Next::Name(next) => name = next,
            Next::End => {
                claims.push(denial(reply, name, qtype));
                return Some(claims);
            }
            Next::Nowhere => return Some(claims),
        }
    }
    None
}

/// Where an alias leads.
enum Next {
    Name(Name),
    /// There is none.
    End,
    /// To a name without a claim.
    Nowhere,
}

fn denial(reply: &Reply, name: Name, qtype: u16) -> Claim {
    let denied = match reply.message.rcode {
        NOERROR => Denial::Type,
        NXDOMAIN => Denial::Name,
        _ => Denial::Service,
    };
    Claim::Denial(name, qtype, denied)
}

/// Claims the records that were asked for; `false`: there are none.
fn answer(reply: &Reply, name: &[u8], qtype: u16, claims: &mut Vec<Claim>) -> bool {
    let before = claims.len();
    let is_answer =
        |set: &Set| set.section == Section::Answer && reply.owner(set) == name && !set.is_empty();
    match qtype {
        rtype::ANY => {
            let all = reply.sets.iter().enumerate().filter(|(_, set)| is_answer(set));
            claims.extend(all.map(|(at, _)| Claim::Set(at)));
        }
        rtype::RRSIG => {
            let is_signature = |set: &Set| {
                set.section == Section::Answer
                    && reply.owner(set) == name
                    && !set.signatures.is_empty()
            };
            let is_signed = reply.sets.iter().any(is_signature);
            let is_alias = reply.find(Section::Answer, name, rtype::CNAME).is_some();
            claims.extend((is_signed && !is_alias).then_some(Claim::Signatures));
        }
        _ => {
            let found = find(reply, name, qtype).filter(|at| !is_made(reply, name, *at));
            claims.extend(found.map(Claim::Set));
        }
    }
    claims.len() > before
}

/// Claims the alias at a name, and returns its target.
fn follow_alias(reply: &Reply, name: &[u8], qtype: u16, claims: &mut Vec<Claim>) -> Next {
    let alias = find(reply, name, rtype::CNAME);
    let above = dname_above(reply, name);
    let is_made = alias.is_some_and(|at| is_made(reply, name, at));
    match (alias, above) {
        (Some(alias), None) => claims.push(Claim::Set(alias)),
        (Some(alias), Some(_)) if !is_made => claims.push(Claim::Set(alias)),
        (_, Some(above)) => {
            claims.push(Claim::Set(above));
            let Some(substitute) = substitute(reply, name, above) else {
                let is_said = alias.is_none() && reply.message.rcode == YXDOMAIN;
                claims.extend((!is_said).then_some(Claim::Nonsense));
                return Next::Nowhere;
            };
            // The alias has to be there for clients that do not know DNAME (RFC 6672 section 3.1).
            let right = alias.filter(|at| target(reply, *at).as_deref() == Some(&substitute));
            claims.push(right.map_or(Claim::Nonsense, Claim::Follows));
            // The alias itself may be what was asked for.
            let is_end = qtype == rtype::CNAME && reply.message.rcode == NOERROR;
            return if is_end { Next::Nowhere } else { Next::Name(substitute) };
        }
        (None, None) => return Next::End,
    }
    match alias.and_then(|alias| target(reply, alias)) {
        Some(target) => Next::Name(target),
        None => {
            claims.push(Claim::Nonsense);
            Next::Nowhere
        }
    }
}

/// The records of a type in the answer.
fn find(reply: &Reply, owner: &[u8], rtype: u16) -> Option<usize> {
    let found = reply.find(Section::Answer, owner, rtype);
    found.filter(|at| !reply.sets[*at].is_empty())
}

/// The DNAME records of a name above.
fn dname_above(reply: &Reply, name: &[u8]) -> Option<usize> {
    name::upwards(name).skip(1).find_map(|owner| find(reply, owner, rtype::DNAME))
}

/// Whether a set is an alias that a server made from a DNAME above. It has no signature of its own.
fn is_made(reply: &Reply, name: &[u8], at: usize) -> bool {
    let set = &reply.sets[at];
    set.rtype == rtype::CNAME && set.signatures.is_empty() && dname_above(reply, name).is_some()
}

/// The only name in a set of aliases.
fn target(reply: &Reply, set: usize) -> Option<Name> {
    let mut records = reply.records(&reply.sets[set]);
    let only = records.next().filter(|record| record.is_sound)?;
    records.next().is_none().then(|| only.data.clone())
}

/// The name that a DNAME makes from a name below it (RFC 6672 section 2.2).
fn substitute(reply: &Reply, name: &[u8], set: usize) -> Option<Name> {
    let target = target(reply, set)?;
    let above = reply.owner(&reply.sets[set]);
    let prefix = name.get(..name.len().checked_sub(above.len())?)?;
    let substitute = [prefix, &target].concat();
    (substitute.len() <= name::MAX_LEN).then(|| substitute.into())
}
