//! The changes that mutants are made by, each with its name.

use pmdns_hierarchy::message::{SIGNER_AT, flag};
use pmdns_hierarchy::{EXPIRATION, INCEPTION, Message, NOW, Name, OwnedRecord, rtype};

use crate::forgeries::{
    add_alias, change_bitmap, change_nsec_range, change_nsec3, change_nsec3_range, cut_chain,
    expand_wildcard, forge_alias, forge_bare, forge_signed, forge_useless, sign_as_other,
    sign_with_other,
};
use crate::mutate::{Bench, Change};

/// All there are.
pub(crate) const CHANGES: &[(&str, Change)] = &[
    ("drop a record", drop_record),
    ("drop a set", drop_set),
    ("drop all signatures", drop_signatures),
    ("drop a signature", drop_signature),
    ("duplicate a record", duplicate),
    ("add a genuine set", add_set),
    ("add a genuine denial", add_denial),
    ("replace a record by a genuine one", replace_record),
    ("replace a set by a genuine one", replace_set),
    ("swap two records", swap),
    ("move a record to another section", move_record),
    ("swap signatures", swap_signatures),
    ("replay another answer", replay),
    ("replay another answer under this name", replay_renamed),
    ("replay another answer section", replay_answer),
    ("replay another authority section", replay_authority),
    ("deny with genuine denials", deny),
    ("deny without a proof", deny_without_proof),
    ("deny with a replayed proof", deny_replayed),
    ("change the rcode", change_rcode),
    ("change flags", change_flags),
    ("change data", change_data),
    ("change an owner", change_owner),
    ("rename all owners", rename_owner),
    ("change a type", change_type),
    ("change a class", change_class),
    ("change a TTL", change_ttl),
    ("change letters", change_letters),
    ("change a signature's fields", change_fields),
    ("change a signer", change_signer),
    ("change labels", change_labels),
    ("sign with another key", sign_with_other),
    ("sign as another zone", sign_as_other),
    ("forge and sign with another key", forge_signed),
    ("forge without a signature", forge_bare),
    ("forge with a useless signature", forge_useless),
    ("expand a wildcard elsewhere", expand_wildcard),
    ("change an NSEC range", change_nsec_range),
    ("change a bitmap", change_bitmap),
    ("change NSEC3 parameters", change_nsec3),
    ("change an NSEC3 range", change_nsec3_range),
    ("lead an alias elsewhere", forge_alias),
    ("add a false alias", add_alias),
    ("cut a chain", cut_chain),
    ("change the order", reverse),
];

pub(crate) const IS_DATA: fn(&OwnedRecord) -> bool =
    |record| ![rtype::RRSIG, rtype::OPT, rtype::NSEC, rtype::NSEC3].contains(&record.rtype);
pub(crate) const IS_SIGNATURE: fn(&OwnedRecord) -> bool = |record| record.rtype == rtype::RRSIG;
const IS_PLAIN: fn(&OwnedRecord) -> bool = |record| record.rtype != rtype::OPT;

fn drop_record(bench: &mut Bench<'_, '_>) -> Option<()> {
    let (section, number) = bench.place(IS_PLAIN)?;
    bench.message.sections[section].remove(number);
    Some(())
}

fn drop_set(bench: &mut Bench<'_, '_>) -> Option<()> {
    let record = bench.record(IS_PLAIN)?.clone();
    let of = |record: &OwnedRecord| record.covered().unwrap_or(record.rtype);
    for section in &mut bench.message.sections {
        section.retain(|other| other.owner != record.owner || of(other) != of(&record));
    }
    Some(())
}

fn drop_signatures(bench: &mut Bench<'_, '_>) -> Option<()> {
    for section in &mut bench.message.sections {
        section.retain(|record| !IS_SIGNATURE(record));
    }
    Some(())
}

fn drop_signature(bench: &mut Bench<'_, '_>) -> Option<()> {
    let (section, number) = bench.place(IS_SIGNATURE)?;
    bench.message.sections[section].remove(number);
    Some(())
}

fn duplicate(bench: &mut Bench<'_, '_>) -> Option<()> {
    let record = bench.record(IS_PLAIN)?.clone();
    let section = bench.rng.below(3);
    bench.message.sections[section].push(record);
    Some(())
}

fn add_set(bench: &mut Bench<'_, '_>) -> Option<()> {
    let (set, section) = (bench.genuine_set(), bench.rng.below(3));
    bench.message.sections[section].extend(set);
    Some(())
}

fn add_denial(bench: &mut Bench<'_, '_>) -> Option<()> {
    let set = bench.genuine_denial();
    bench.message.sections[1].extend(set);
    Some(())
}

fn replace_record(bench: &mut Bench<'_, '_>) -> Option<()> {
    let set = bench.genuine_set();
    let other = bench.rng.pick(&set)?.clone();
    *bench.record(IS_PLAIN)? = other;
    Some(())
}

fn replace_set(bench: &mut Bench<'_, '_>) -> Option<()> {
    drop_set(bench)?;
    add_set(bench)
}

fn swap(bench: &mut Bench<'_, '_>) -> Option<()> {
    let (one, other) = (bench.place(IS_PLAIN)?, bench.place(IS_PLAIN)?);
    let first = bench.message.sections[one.0][one.1].clone();
    let second = std::mem::replace(&mut bench.message.sections[other.0][other.1], first);
    bench.message.sections[one.0][one.1] = second;
    Some(())
}

fn move_record(bench: &mut Bench<'_, '_>) -> Option<()> {
    let (section, number) = bench.place(IS_PLAIN)?;
    let record = bench.message.sections[section].remove(number);
    let section = bench.rng.below(3);
    bench.message.sections[section].push(record);
    Some(())
}

/// Gives two sets each other's signatures, or one the signature of a set of another answer.
fn swap_signatures(bench: &mut Bench<'_, '_>) -> Option<()> {
    let other = bench.other();
    let signatures: Vec<_> = other.records().filter(|record| IS_SIGNATURE(record)).collect();
    let data = bench.rng.pick(&signatures)?.data.clone();
    if bench.rng.one_in(2) {
        let (one, two) = (bench.place(IS_SIGNATURE)?, bench.place(IS_SIGNATURE)?);
        let first = bench.message.sections[one.0][one.1].data.clone();
        bench.message.sections[two.0][two.1].data = first;
    } else {
        bench.record(IS_SIGNATURE)?.data = data;
    }
    Some(())
}

fn replay(bench: &mut Bench<'_, '_>) -> Option<()> {
    let other = bench.other();
    bench.message.sections = other.sections;
    bench.message.flags = other.flags;
    Some(())
}

fn replay_renamed(bench: &mut Bench<'_, '_>) -> Option<()> {
    let other = bench.other();
    let (from, to) = (other.question.0.clone(), bench.message.question.0.clone());
    replay_message(bench.message, other);
    for record in bench.message.sections.iter_mut().flatten() {
        if record.owner == from {
            record.owner = to.clone();
        }
    }
    Some(())
}

pub(crate) fn replay_message(message: &mut Message, other: Message) {
    message.sections = other.sections;
    message.flags = other.flags;
}

fn replay_answer(bench: &mut Bench<'_, '_>) -> Option<()> {
    bench.message.sections[0] = bench.other().sections[0].clone();
    Some(())
}

fn replay_authority(bench: &mut Bench<'_, '_>) -> Option<()> {
    bench.message.sections[1] = bench.other().sections[1].clone();
    Some(())
}

/// Says that there is no such name or type, with the zone's own SOA and some of its own denials.
fn deny(bench: &mut Bench<'_, '_>) -> Option<()> {
    let zone = bench.mutator.world.zone(&bench.zone);
    let mut authority = zone.signed(zone.set(&zone.apex, rtype::SOA)?);
    for _ in 0..1 + bench.rng.below(4) {
        authority.extend(bench.genuine_denial());
    }
    deny_with(bench, authority);
    Some(())
}

fn deny_without_proof(bench: &mut Bench<'_, '_>) -> Option<()> {
    let zone = bench.mutator.world.zone(&bench.zone);
    let authority = zone.signed(zone.set(&zone.apex, rtype::SOA)?);
    let is_bare = bench.rng.one_in(3);
    deny_with(bench, if is_bare { Vec::new() } else { authority });
    Some(())
}

fn deny_replayed(bench: &mut Bench<'_, '_>) -> Option<()> {
    let other = bench.other();
    let authority = other.sections[1].clone();
    deny_with(bench, authority);
    Some(())
}

/// Replaces the end of the answer, and all of it most of the time.
fn deny_with(bench: &mut Bench<'_, '_>, authority: Vec<OwnedRecord>) {
    if bench.rng.one_in(4) {
        let left = bench.rng.below(bench.message.sections[0].len() + 1);
        bench.message.sections[0].truncate(left);
    } else {
        bench.message.sections[0].clear();
    }
    bench.message.sections[1] = authority;
    bench.message.set_rcode(if bench.rng.one_in(2) { 3 } else { 0 });
}

fn change_rcode(bench: &mut Bench<'_, '_>) -> Option<()> {
    let rcode = *bench.rng.pick(&[0, 3, 3 - bench.message.rcode().min(3), 1, 2, 5, 6])?;
    bench.message.set_rcode(rcode);
    Some(())
}

fn change_flags(bench: &mut Bench<'_, '_>) -> Option<()> {
    bench.message.flags ^= *bench.rng.pick(&[flag::AA, flag::AD, flag::CD, flag::RA, flag::RD])?;
    Some(())
}

fn change_data(bench: &mut Bench<'_, '_>) -> Option<()> {
    let (at, bit) = (bench.rng.number() as usize, 1 << bench.rng.below(8));
    let record = bench.record(|record| !record.data.is_empty())?;
    let at = at % record.data.len();
    record.data[at] ^= bit;
    Some(())
}

fn change_owner(bench: &mut Bench<'_, '_>) -> Option<()> {
    let name = bench.name();
    bench.record(IS_PLAIN)?.owner = name;
    Some(())
}

fn rename_owner(bench: &mut Bench<'_, '_>) -> Option<()> {
    let to = bench.name();
    let from = bench.record(IS_PLAIN)?.owner.clone();
    for record in bench.message.sections.iter_mut().flatten() {
        if record.owner == from {
            record.owner = to.clone();
        }
    }
    Some(())
}

fn change_type(bench: &mut Bench<'_, '_>) -> Option<()> {
    let types = [1, 2, 5, 6, 16, 28, 39, 43, 46, 47, 48, 50, 255, 0, 65_280];
    let rtype = *bench.rng.pick(&types)?;
    bench.record(IS_PLAIN)?.rtype = rtype;
    Some(())
}

fn change_class(bench: &mut Bench<'_, '_>) -> Option<()> {
    let class = *bench.rng.pick(&[0, 3, 4, 254, 255])?;
    bench.record(IS_PLAIN)?.class = class;
    Some(())
}

fn change_ttl(bench: &mut Bench<'_, '_>) -> Option<()> {
    let ttl = *bench.rng.pick(&[0, 1, 3600, 86_400, u32::MAX, 1 << 31])?;
    bench.record(IS_PLAIN)?.ttl = ttl;
    Some(())
}

fn change_letters(bench: &mut Bench<'_, '_>) -> Option<()> {
    let record = bench.record(IS_PLAIN)?;
    let upper = record.owner.wire().to_ascii_uppercase();
    record.owner = Name::parse(&upper, 0)?.0;
    Some(())
}

fn change_fields(bench: &mut Bench<'_, '_>) -> Option<()> {
    let times = [0, INCEPTION, EXPIRATION, NOW - 1, NOW + 1, u32::MAX];
    let time = bench.rng.pick(&times)?.to_be_bytes();
    let (which, byte) = (bench.rng.below(7), bench.rng.number() as u8);
    let types = [1, 2, 5, 6, 28, 43, 47, 48, 50, 255];
    let covered: u16 = *bench.rng.pick(&types)?;
    let data = &mut bench.record(|record| IS_SIGNATURE(record) && record.data.len() > 18)?.data;
    match which {
        0 => data[..2].copy_from_slice(&covered.to_be_bytes()),
        1 => data[2] = byte % 18,
        2 => data[4..8].copy_from_slice(&time),
        3 => data[8..12].copy_from_slice(&time),
        4 => data[12..16].copy_from_slice(&time),
        5 => data[17] = data[17].wrapping_add(byte),
        _ => data[18..].rotate_left(1),
    }
    Some(())
}

fn change_signer(bench: &mut Bench<'_, '_>) -> Option<()> {
    let name = if bench.rng.one_in(3) { bench.other_zone(&Name::root()) } else { bench.name() };
    set_signer(bench.record(IS_SIGNATURE)?, &name)
}

fn set_signer(record: &mut OwnedRecord, name: &Name) -> Option<()> {
    let (_, end) = Name::parse(&record.data, SIGNER_AT)?;
    let (head, signature) = (&record.data[..SIGNER_AT], &record.data[end..]);
    record.data = [head, name.lower().wire(), signature].concat();
    Some(())
}

fn change_labels(bench: &mut Bench<'_, '_>) -> Option<()> {
    let labels = bench.rng.below(6) as u8;
    *bench.record(IS_SIGNATURE)?.data.get_mut(3)? = labels;
    Some(())
}

fn reverse(bench: &mut Bench<'_, '_>) -> Option<()> {
    let section = bench.rng.below(2);
    bench.message.sections[section].reverse();
    Some(())
}
