//! Changes that forge: with keys of zones that have no say, with wildcards, denials and aliases.

use pmdns_hierarchy::{EXPIRATION, Fact, INCEPTION, Name, OwnedRecord, SigningKey, rtype};

use crate::changes::{IS_DATA, IS_SIGNATURE, replay_message};
use crate::mutate::Bench;

impl Bench<'_, '_> {
    /// The apex of a signed zone that has no say about `name`: it is neither its zone nor above that.
    pub(crate) fn other_zone(&mut self, name: &Name) -> Name {
        let zones = self.mutator.world.zones();
        let others = zones.filter(|zone| zone.keys.is_some() && !name.is_within(&zone.apex));
        let others: Vec<_> = others.map(|zone| zone.apex.clone()).collect();
        self.rng.pick(&others).cloned().unwrap_or_else(Name::root)
    }

    /// A key of such a zone. Keys that make signatures fast are more likely.
    fn other_key(&mut self, name: &Name) -> Option<(Name, SigningKey)> {
        let mut apex = self.other_zone(name);
        for _ in 0..2 {
            let key = &self.mutator.world.zone(&apex).keys.as_ref()?[1];
            if (13..=15).contains(&key.algorithm()) {
                break;
            }
            apex = self.other_zone(name);
        }
        let zone = self.mutator.world.zone(&apex);
        let keys = zone.keys.as_ref().filter(|_| !name.is_within(&zone.apex))?;
        Some((apex, keys[self.rng.below(2)].clone()))
    }

    /// The set that a signature at that place is of.
    fn signed_set(&self, (section, number): (usize, usize)) -> Option<Vec<OwnedRecord>> {
        let records = &self.message.sections[section];
        let signature = records.get(number)?;
        let covered = signature.covered()?;
        let is_of =
            |record: &&OwnedRecord| record.owner == signature.owner && record.rtype == covered;
        Some(records.iter().filter(is_of).cloned().collect())
    }
}

/// Signs a set again: the fields stay, the signature is of another key.
pub(crate) fn sign_with_other(bench: &mut Bench<'_, '_>) -> Option<()> {
    let (section, number) = bench.place(IS_SIGNATURE)?;
    let set = bench.signed_set((section, number))?;
    let owner = bench.message.sections[section][number].owner.clone();
    let (_, key) = bench.other_key(&owner)?;
    let fits = bench.rng.one_in(2);
    let record = &mut bench.message.sections[section][number];
    if fits {
        *record.data.get_mut(2)? = key.algorithm();
        record.data.get_mut(16..18)?.copy_from_slice(&key.tag().to_be_bytes());
    }
    key.sign_again(record, &set);
    Some(())
}

/// Signs a set again, and says so.
pub(crate) fn sign_as_other(bench: &mut Bench<'_, '_>) -> Option<()> {
    let (section, number) = bench.place(IS_SIGNATURE)?;
    let set = bench.signed_set((section, number)).filter(|set| !set.is_empty())?;
    let (apex, key) = bench.other_key(&set[0].owner)?;
    bench.message.sections[section][number] = key.sign_set(&apex, &set, [INCEPTION, EXPIRATION]);
    Some(())
}

/// Other data, and a good signature of another zone.
pub(crate) fn forge_signed(bench: &mut Bench<'_, '_>) -> Option<()> {
    forge_data(bench)?;
    let mut renamed = false;
    let question = bench.message.question.0.clone();
    let place = bench.place(|record| IS_SIGNATURE(record) && record.owner == question);
    if let Some((section, number)) = place {
        let set = bench.signed_set((section, number)).filter(|set| !set.is_empty())?;
        let (apex, key) = bench.other_key(&set[0].owner)?;
        let signature = key.sign_set(&apex, &set, [INCEPTION, EXPIRATION]);
        bench.message.sections[section][number] = signature;
        renamed = true;
    }
    renamed.then_some(())
}

/// Puts false data into the answer.
pub(crate) fn forge_data(bench: &mut Bench<'_, '_>) -> Option<()> {
    let (name, qtype, _) = bench.message.question.clone();
    let answer = &mut bench.message.sections[0];
    let mut own = answer.iter_mut().filter(|record| record.owner == name && IS_DATA(record));
    match own.next() {
        Some(record) => *record.data.last_mut()? ^= 0x55,
        None => answer.push(OwnedRecord::new(&name, qtype, [192, 0, 2, 66])),
    }
    bench.message.set_rcode(0);
    Some(())
}

pub(crate) fn forge_bare(bench: &mut Bench<'_, '_>) -> Option<()> {
    forge_data(bench)?;
    for section in &mut bench.message.sections {
        section.retain(|record| !IS_SIGNATURE(record));
    }
    if bench.rng.one_in(2) {
        bench.message.sections[1].clear();
    }
    Some(())
}

/// Like that, with a signature that nobody can check: of a zone that is not signed, say.
pub(crate) fn forge_useless(bench: &mut Bench<'_, '_>) -> Option<()> {
    forge_bare(bench)?;
    let (name, qtype, _) = bench.message.question.clone();
    let zones: Vec<_> = bench.mutator.world.zones().map(|zone| zone.apex.clone()).collect();
    let apex = match bench.rng.below(4) {
        0 => bench.name(),
        1 => Name::new("nowhere.test."),
        _ => bench.rng.pick(&zones)?.clone(),
    };
    let algorithm = *bench.rng.pick(&[0, 1, 3, 5, 8, 12, 13, 15, 16, 200, 252])?;
    let mut data = qtype.to_be_bytes().to_vec();
    data.extend([algorithm, name.signed_count()]);
    data.extend([3600, EXPIRATION, INCEPTION].map(u32::to_be_bytes).concat());
    data.extend([bench.rng.number() as u8, 1]);
    data.extend(apex.lower().wire());
    data.extend([7; 64]);
    bench.message.sections[0].push(OwnedRecord::new(&name, rtype::RRSIG, data));
    Some(())
}

/// Gives a name what a wildcard has, as its signature allows: the name may exist, or lie elsewhere.
pub(crate) fn expand_wildcard(bench: &mut Bench<'_, '_>) -> Option<()> {
    let world = bench.mutator.world;
    let zone = world.zone(&bench.zone);
    let wildcards: Vec<_> = zone.nodes.iter().filter(|(owner, _)| owner.is_wildcard()).collect();
    let (_, node) = bench.rng.pick(&wildcards)?;
    let sets: Vec<_> = node.values().collect();
    let set = bench.rng.pick(&sets)?;
    let name = if bench.rng.one_in(4) { bench.name() } else { bench.message.question.0.clone() };
    let signed = zone.signed(set).into_iter();
    let own = |record: OwnedRecord| OwnedRecord { owner: name.clone(), ..record };
    bench.message.sections[0] = signed.map(own).collect();
    bench.message.set_rcode(0);
    if bench.rng.one_in(2) {
        bench.message.sections[1].clear();
    }
    for _ in 0..bench.rng.below(3) {
        let denial = bench.genuine_denial();
        bench.message.sections[1].extend(denial);
    }
    Some(())
}

pub(crate) fn change_nsec_range(bench: &mut Bench<'_, '_>) -> Option<()> {
    let (name, at_owner) = (bench.name(), bench.rng.one_in(2));
    let record = bench.record(|record| record.rtype == rtype::NSEC)?;
    if at_owner {
        record.owner = name;
    } else {
        let (_, end) = Name::parse(&record.data, 0)?;
        record.data = [name.wire(), &record.data[end..]].concat();
    }
    Some(())
}

pub(crate) fn change_bitmap(bench: &mut Bench<'_, '_>) -> Option<()> {
    let bit = 1 << bench.rng.below(8);
    let back = bench.rng.below(6);
    let is_denial = |record: &OwnedRecord| [rtype::NSEC, rtype::NSEC3].contains(&record.rtype);
    let data = &mut bench.record(is_denial)?.data;
    let at = data.len().checked_sub(back + 1)?;
    data[at] ^= bit;
    Some(())
}

pub(crate) fn change_nsec3(bench: &mut Bench<'_, '_>) -> Option<()> {
    let (which, value) = (bench.rng.below(5), bench.rng.number() as u8);
    let data = &mut bench.record(|record| record.rtype == rtype::NSEC3)?.data;
    match which {
        0 => data[0] = value % 3,
        1 => data[1] ^= 1,
        2 => data[2] = value % 64,
        3 => data[3] = value,
        _ => *data.get_mut(5)? ^= value,
    }
    Some(())
}

pub(crate) fn change_nsec3_range(bench: &mut Bench<'_, '_>) -> Option<()> {
    let value = bench.rng.number() as u8;
    let at_owner = bench.rng.one_in(2);
    let zone = bench.mutator.world.zone(&bench.zone);
    let hash = zone.hash(&bench.message.question.0);
    let apex = zone.apex.clone();
    let record = bench.record(|record| record.rtype == rtype::NSEC3)?;
    if at_owner && !hash.is_empty() {
        record.owner = apex.child(&pmdns_hierarchy::zone::base32(&hash));
    } else {
        let at = 6 + usize::from(*record.data.get(4)?);
        *record.data.get_mut(at)? = value;
    }
    Some(())
}

pub(crate) fn forge_alias(bench: &mut Bench<'_, '_>) -> Option<()> {
    let name = bench.name();
    let is_alias = |record: &OwnedRecord| [rtype::CNAME, rtype::DNAME].contains(&record.rtype);
    bench.record(is_alias)?.data = name.wire().to_vec();
    Some(())
}

/// Leads the question away, to where the truth is something else or nothing is signed.
pub(crate) fn add_alias(bench: &mut Bench<'_, '_>) -> Option<()> {
    let (name, qtype, _) = bench.message.question.clone();
    let mut other = bench.other();
    if bench.rng.one_in(2) {
        other = bench.mutator.world.reply(&Name::new("www.insec.a13."), qtype).message;
    }
    let target = other.question.0.clone();
    let alias = OwnedRecord::new(&name, rtype::CNAME, target.wire());
    replay_message(bench.message, other);
    bench.message.sections[0].insert(0, alias);
    Some(())
}

/// Leaves the end of a chain of aliases out, or puts something else there.
pub(crate) fn cut_chain(bench: &mut Bench<'_, '_>) -> Option<()> {
    let (name, qtype, _) = bench.message.question.clone();
    let fact = bench.mutator.world.truth(&name, qtype).fact;
    let (Fact::Alias(..) | Fact::Redirect(..)) = fact else { return None };
    let keep = bench.rng.below(bench.message.sections[0].len() + 1);
    bench.message.sections[0].truncate(keep);
    let other = bench.other();
    match bench.rng.below(3) {
        0 => bench.message.sections[1] = other.sections[1].clone(),
        1 => bench.message.sections[0].extend(other.sections[0].iter().cloned()),
        _ => bench.message.sections[1].clear(),
    }
    bench.message.set_rcode(if bench.rng.one_in(2) { 3 } else { 0 });
    Some(())
}
