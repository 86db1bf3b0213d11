//! Mutants of correct answers: what somebody in between can make who has all records of the world, but not its keys.

use std::collections::BTreeMap;

use pmdns_hierarchy::message::type_name;
use pmdns_hierarchy::{Fact, Message, Name, OwnedRecord, Rng, World, rtype};

use crate::drive::Forged;

/// Changes of one mutant, at most.
const MAX_CHANGES: usize = 4;

/// An answer that was tampered with.
pub(crate) struct Mutant {
    /// The seed that makes it again.
    pub(crate) seed: u64,
    pub(crate) name: Name,
    pub(crate) qtype: u16,
    pub(crate) reply: Vec<u8>,
    /// Tampered replies to what the validator fetches.
    pub(crate) forged: Vec<Forged>,
    /// What was done, in words.
    pub(crate) changes: Vec<&'static str>,
}

/// Changes a message, if there is something in it to change so.
pub(crate) type Change = fn(&mut Bench<'_, '_>) -> Option<()>;

/// Makes mutants; one seed is one mutant.
pub(crate) struct Mutator<'w> {
    pub(crate) world: &'w World,
    /// What mutants are made by, each with its name.
    changes: &'static [(&'static str, Change)],
    /// All correct answers.
    pub(crate) replies: Vec<Message>,
    /// The answers about each zone, by its apex, as places in `replies`.
    by_zone: BTreeMap<Name, Vec<usize>>,
}

/// What one change works on.
pub(crate) struct Bench<'m, 'w> {
    pub(crate) mutator: &'m Mutator<'w>,
    pub(crate) rng: &'m mut Rng,
    pub(crate) message: &'m mut Message,
    /// The zone in question.
    pub(crate) zone: Name,
}

impl<'w> Mutator<'w> {
    pub(crate) fn new(world: &'w World, changes: &'static [(&'static str, Change)]) -> Self {
        let (mut replies, mut by_zone) = (Vec::new(), BTreeMap::<Name, Vec<usize>>::new());
        for (name, qtype) in world.questions() {
            let zone = world.truth(name, *qtype).zone;
            by_zone.entry(zone).or_default().push(replies.len());
            replies.push(world.reply(name, *qtype).message);
        }
        Self { world, changes, replies, by_zone }
    }

    /// The mutant that this seed makes.
    pub(crate) fn mutant(&self, seed: u64) -> Mutant {
        let mut rng = Rng::new(seed);
        let mut message = self.any(&mut rng).clone();
        let (name, qtype, _) = message.question.clone();
        let mut changes = Vec::new();
        let mut forged = Vec::new();
        self.change(&mut rng, &mut message, &mut changes);
        // Keys that are tampered with are no danger to an answer that is true.
        if rng.one_in(5) {
            forged = self.forged_fetches(&mut rng, &name, qtype, &mut changes);
        }
        let mut reply = message.to_bytes();
        if rng.one_in(16) {
            change_bytes(&mut rng, &mut reply, &name);
            changes.push("change bytes");
        }
        Mutant { seed, name, qtype, reply, forged, changes }
    }

    fn change(&self, rng: &mut Rng, message: &mut Message, changes: &mut Vec<&'static str>) {
        let zone = self.world.truth(&message.question.0, message.question.1).zone;
        let count = 1 + rng.below(MAX_CHANGES) * usize::from(!rng.one_in(3));
        for _ in 0..count {
            let (what, change): &(&'static str, Change) = rng.pick(self.changes).unwrap();
            let mut bench = Bench { mutator: self, rng, message, zone: zone.clone() };
            if change(&mut bench).is_some() {
                changes.push(what);
            }
        }
    }

    /// Tampers with some of what is fetched on the way to a name.
    fn forged_fetches(
        &self,
        rng: &mut Rng,
        name: &Name,
        qtype: u16,
        changes: &mut Vec<&'static str>,
    ) -> Vec<Forged> {
        let mut names = vec![name.clone()];
        if let Fact::Alias(_, target) | Fact::Redirect(_, _, target) =
            self.world.truth(name, qtype).fact
        {
            names.push(target);
        }
        let mut forged = Vec::new();
        let above: Vec<Name> = names.iter().flat_map(Name::chain).collect();
        for name in above {
            for qtype in [rtype::DS, rtype::DNSKEY] {
                if !rng.one_in(3) || qtype == rtype::DS && name.count() == 0 {
                    continue;
                }
                let mut message = self.world.reply(&name, qtype).message;
                changes.push(if qtype == rtype::DS { "DS:" } else { "DNSKEY:" });
                self.change(rng, &mut message, changes);
                let reply = (!rng.one_in(20)).then(|| message.to_bytes());
                forged.push(((name.clone(), qtype), reply));
            }
        }
        forged
    }

    /// Any correct answer.
    pub(crate) fn any(&self, rng: &mut Rng) -> &Message {
        rng.pick(&self.replies).unwrap()
    }

    /// A correct answer about the same zone.
    pub(crate) fn of_zone(&self, rng: &mut Rng, zone: &Name) -> &Message {
        let places = self.by_zone.get(zone).map_or(&[][..], |places| places);
        rng.pick(places).map_or_else(|| &self.replies[0], |place| &self.replies[*place])
    }
}

impl std::fmt::Display for Mutant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, name, qtype, reply, forged, changes } = self;
        writeln!(f, "mutant {seed} of {name} {}: {}", type_name(*qtype), changes.join(", "))?;
        let mut write = |reply: &[u8]| match Message::parse(reply) {
            Some(message) => write!(f, "{message}"),
            None => writeln!(f, "{}", reply.escape_ascii()),
        };
        write(reply)?;
        for ((name, qtype), reply) in forged {
            writeln!(f, " fetch of {name} {}:", type_name(*qtype))?;
            match reply {
                Some(reply) => writeln!(f, "{}", Message::parse(reply).unwrap())?,
                None => writeln!(f, "  none")?,
            }
        }
        Ok(())
    }
}

/// Changes bytes behind the question, which was compared before anybody validates.
fn change_bytes(rng: &mut Rng, bytes: &mut Vec<u8>, name: &Name) {
    let behind = 12 + name.wire().len() + 4;
    for _ in 0..1 + rng.below(4) {
        let Some(room) = bytes.len().checked_sub(behind).filter(|room| *room > 0) else { return };
        let at = behind + rng.below(room);
        match rng.below(8) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = rng.number() as u8,
            2 => bytes.insert(at, rng.number() as u8),
            3 => drop(bytes.remove(at)),
            4 => bytes.truncate(at),
            5 => bytes[at] = 0xc0,
            // The counts of the sections.
            6 => bytes[7 + 2 * rng.below(3)] = rng.below(12) as u8,
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
    }
}

impl Bench<'_, '_> {
    /// A correct answer: about the same zone more often than not.
    pub(crate) fn other(&mut self) -> Message {
        let zone = match self.rng.below(4) {
            0 => return self.mutator.any(self.rng).clone(),
            1 => self.zone.parent().map_or_else(Name::root, |above| self.zone_of(&above)),
            _ => self.zone.clone(),
        };
        self.mutator.of_zone(self.rng, &zone).clone()
    }

    fn zone_of(&self, name: &Name) -> Name {
        self.mutator.world.zone(name).apex.clone()
    }

    /// A name: of this message, of another, or above or below one.
    pub(crate) fn name(&mut self) -> Name {
        let other = if self.rng.one_in(2) { self.other() } else { self.message.clone() };
        let records: Vec<_> = other.records().collect();
        let name = match self.rng.below(3) {
            0 => self.message.question.0.clone(),
            1 => other.question.0.clone(),
            _ => self.rng.pick(&records).map_or_else(Name::root, |record| record.owner.clone()),
        };
        match self.rng.below(8) {
            0 => name.parent().unwrap_or(name),
            1 if name.wire().len() < 200 => name.child("x"),
            2 if name.wire().len() < 200 => name.child("*"),
            3 => self.zone.clone(),
            _ => name,
        }
    }

    /// The place of a record, as section and number, that `fits`.
    pub(crate) fn place(&mut self, fits: impl Fn(&OwnedRecord) -> bool) -> Option<(usize, usize)> {
        let mut places = Vec::new();
        for (section, records) in self.message.sections.iter().enumerate() {
            let fitting = records.iter().enumerate().filter(|(_, record)| fits(record));
            places.extend(fitting.map(|(number, _)| (section, number)));
        }
        self.rng.pick(&places).copied()
    }

    /// A record that `fits`, to be changed.
    pub(crate) fn record(
        &mut self,
        fits: impl Fn(&OwnedRecord) -> bool,
    ) -> Option<&mut OwnedRecord> {
        let (section, number) = self.place(fits)?;
        self.message.sections[section].get_mut(number)
    }

    /// A set of records of one owner and type with what signs it, of a correct answer.
    pub(crate) fn genuine_set(&mut self) -> Vec<OwnedRecord> {
        let other = self.other();
        let sets: Vec<_> = other.records().filter(|record| record.covered().is_none()).collect();
        let Some(first) = self.rng.pick(&sets) else { return Vec::new() };
        let belongs = |record: &&OwnedRecord| {
            let rtype = record.covered().unwrap_or(record.rtype);
            record.owner == first.owner && rtype == first.rtype
        };
        other.records().filter(belongs).cloned().collect()
    }

    /// An NSEC or NSEC3 record of the zone in question, with what signs it.
    pub(crate) fn genuine_denial(&mut self) -> Vec<OwnedRecord> {
        let world = self.mutator.world;
        let apex = match self.rng.below(6) {
            0 => self.zone.parent().unwrap_or_else(Name::root),
            1 => self.other().question.0,
            _ => self.zone.clone(),
        };
        let zone = world.zone(&apex);
        let denials: Vec<_> = zone.denials().collect();
        let denial = self.rng.pick(&denials);
        denial.map_or_else(Vec::new, |denial| zone.signed(std::slice::from_ref(denial)))
    }
}
