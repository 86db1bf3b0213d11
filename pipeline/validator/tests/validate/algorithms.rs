//! Each algorithm that must be known, from the DS record on: keys and signatures are BIND's.

use pmdns_hierarchy::{INCEPTION, Message, Name, OwnedRecord, World, rtype};
use pmdns_validator::{SecurityStatus, TrustAnchor, Validator, ValidatorLimits};

use crate::judged::{judge_by, validator};

/// One zone of the file.
struct Signed {
    apex: Name,
    records: Vec<OwnedRecord>,
}

impl Signed {
    /// Its records of a type, with their signature.
    fn set(&self, of: u16) -> Vec<OwnedRecord> {
        let is_of = |record: &&OwnedRecord| record.rtype == of || record.covered() == Some(of);
        self.records.iter().filter(is_of).cloned().collect()
    }

    fn reply(&self, qtype: u16) -> Message {
        let mut reply = Message::reply(&self.apex, qtype);
        reply.sections[0] = self.set(qtype);
        reply
    }

    fn algorithm(&self) -> u8 {
        self.set(rtype::DS)[0].data[2]
    }
}

fn zones() -> Vec<Signed> {
    let mut zones: Vec<Signed> = Vec::new();
    for line in include_str!("algorithms.txt").lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<_> = line.split(' ').collect();
        let pairs = fields[2].as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        let apex = Name::new(fields[0]);
        let data: Vec<u8> = pairs.map(byte).collect();
        let mut record = OwnedRecord::new(&apex, fields[1].parse().unwrap(), data);
        record.ttl = 300;
        match zones.last_mut().filter(|zone| zone.apex == apex) {
            Some(zone) => zone.records.push(record),
            None => zones.push(Signed { apex, records: vec![record] }),
        }
    }
    zones
}

#[test]
fn audit_07_every_algorithm_validates_from_the_ds_record_on() {
    let zones = zones();
    let algorithms: Vec<_> = zones.iter().map(Signed::algorithm).collect();
    assert_eq!(algorithms, [5, 7, 8, 10, 13, 14, 15, 16]);
    for zone in &zones {
        let ds = &zone.set(rtype::DS)[0];
        let anchor = TrustAnchor::new(zone.apex.wire(), rtype::DS, &ds.data).unwrap();
        let mut validator = Validator::new(&[anchor], &[], ValidatorLimits::default());
        let keys = |_: &Name, qtype| Some(zone.reply(qtype).to_bytes());
        let judged = judge_by(&mut validator, &zone.reply(rtype::TXT), keys);
        assert_eq!(judged.verdict, SecurityStatus::Secure, "algorithm {}", zone.algorithm());
        assert_eq!(judged.cost.checks, 2);
        // With any bit of the data or the signature changed, it is not.
        let mut spoiled = zone.reply(rtype::TXT);
        *spoiled.sections[0][0].data.last_mut().unwrap() ^= 1;
        let judged = judge_by(&mut validator, &spoiled, keys);
        assert_eq!(judged.verdict, SecurityStatus::Bogus(6), "algorithm {}", zone.algorithm());
        let mut spoiled = zone.reply(rtype::TXT);
        *spoiled.sections[0][1].data.last_mut().unwrap() ^= 1;
        let judged = judge_by(&mut validator, &spoiled, keys);
        assert_eq!(judged.verdict, SecurityStatus::Bogus(6), "algorithm {}", zone.algorithm());
    }
}

#[test]
fn audit_07_a_delegation_with_any_of_them_counts_as_signed() {
    let world = World::new();
    let root = world.zone(&Name::root());
    let key = &root.keys.as_ref().unwrap()[1];
    for zone in zones() {
        let resolver = |name: &Name, qtype| {
            if *name != zone.apex {
                return Some(world.reply(name, qtype).message.to_bytes());
            }
            let mut reply = zone.reply(qtype);
            if qtype == rtype::DS {
                let ds = zone.set(rtype::DS);
                let times = [INCEPTION, pmdns_hierarchy::EXPIRATION];
                let signature = key.sign_set(&root.apex, &ds, times);
                reply.sections[0] = [ds, vec![signature]].concat();
            }
            Some(reply.to_bytes())
        };
        let judged = judge_by(&mut validator(&world), &zone.reply(rtype::TXT), resolver);
        assert_eq!(
            judged.verdict,
            SecurityStatus::Secure,
            "algorithm {}: {judged:?}",
            zone.algorithm()
        );
        let mut naked = zone.reply(rtype::TXT);
        naked.sections[0].truncate(1);
        let judged = judge_by(&mut validator(&world), &naked, resolver);
        assert_eq!(judged.verdict, SecurityStatus::Bogus(10), "algorithm {}", zone.algorithm());
    }
}
