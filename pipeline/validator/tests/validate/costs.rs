//! What hostile replies cost, counted.

use pmdns_hierarchy::{
    EXPIRATION, INCEPTION, Message, Name, OwnedRecord, SigningKey, World, rtype,
};
use pmdns_validator::{SecurityStatus, ValidatorLimits, ede};

use crate::judged::{A, judge, judge_by, judge_bytes, unsigned, validator};

fn name(text: &str) -> Name {
    Name::new(text)
}

/// The reply that ended the process: an RRSIG whose signer takes 66 octets and expands to 251, and a signature that
/// fills the record up to 64 KiB.
fn audit_02() -> Vec<u8> {
    let mut bytes = vec![0, 0, 0x81, 0x80, 0, 1, 0, 2, 0, 0, 0, 0];
    bytes.extend(b"\x03www\x06signed\0\0\x01\0\x01");
    bytes.extend([0xc0, 12, 0, 46, 0, 1, 0, 0, 0, 60, 0xff, 0x47]);
    assert_eq!(bytes.len(), 40);
    bytes.extend([0, 1, 15, 2, 0, 0, 0, 60]);
    bytes.extend([EXPIRATION, INCEPTION].map(u32::to_be_bytes).concat());
    bytes.extend([0, 7]);
    let signer = bytes.len();
    assert_eq!(signer, 58);
    bytes.extend([b'a'; 66]);
    for (at, value) in [(58, 0x3f), (60, 0x39), (63, 0x32), (65, 0x2d), (67, 0x1e), (98, 0)] {
        bytes[at] = value;
    }
    for (at, to) in [(122, 0x3c), (118, 0x3f), (114, 0x41), (111, 0x43)] {
        bytes[at..at + 2].copy_from_slice(&[0xc0, to]);
    }
    bytes.resize(40 + 0xff47, 1);
    bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
    bytes
}

#[test]
fn audit_02_a_signer_that_expands_does_no_harm() {
    let world = World::new();
    let mut validator = validator(&world);
    let owner = name("www.signed.");
    let honest = |name: &Name, qtype| Some(world.reply(name, qtype).message.to_bytes());
    let judged = judge_bytes(&mut validator, &owner, A, &audit_02(), honest);
    assert!(matches!(judged.verdict, SecurityStatus::Bogus(_)), "{judged:?}");
    // Where keys are asked for, too.
    let reply = world.reply(&name("www.sec.a13."), A).message;
    let hostile = |_: &Name, _| Some(audit_02());
    let judged = judge_by(&mut validator, &reply, hostile);
    assert!(matches!(judged.verdict, SecurityStatus::Bogus(_)), "{judged:?}");
}

#[test]
fn audit_03_a_name_of_many_labels_costs_a_bounded_number_of_questions() {
    let world = World::new();
    let zone = world.zone(&name("a13."));
    let labels = vec!["a"; 117].join(".");
    let owner = zone.apex.below(&labels);
    let reply = unsigned(&owner, A, &[192, 0, 2, 66]);
    let judged = judge(&world, &reply);
    assert!(matches!(judged.verdict, SecurityStatus::Bogus(_)), "{judged:?}");
    assert!(judged.fetched.len() <= 5, "the first label that is denied ends it: {judged:?}");
    // An empty name after the other: each has to be asked for, but not by one question.
    let key = &zone.keys.as_ref().unwrap()[1];
    let endless = |asked: &Name, qtype: u16| {
        if !(qtype == rtype::DS && asked.is_within(&zone.apex) && *asked != zone.apex) {
            return Some(world.reply(asked, qtype).message.to_bytes());
        }
        let bits = [0, 6, 0x40, 0, 0, 0, 0, 3];
        let proof = OwnedRecord::new(asked, rtype::NSEC, [asked.child("a").wire(), &bits].concat());
        let times = [INCEPTION, EXPIRATION];
        let signature = key.sign_set(&zone.apex, std::slice::from_ref(&proof), times);
        let mut reply = Message::reply(asked, qtype);
        reply.sections[1] = vec![proof, signature];
        Some(reply.to_bytes())
    };
    let judged = judge_by(&mut validator(&world), &reply, endless);
    assert_eq!(judged.verdict, SecurityStatus::OverBudget(ede::INDETERMINATE));
    assert_eq!(judged.cost.fetches, ValidatorLimits::default().fetches);
}

#[test]
fn one_proof_of_an_empty_name_is_for_all_down_to_the_next() {
    let world = World::new();
    // deep.a.ent.a13. exists; somebody strips its signature. One question finds out about ent and a.ent.
    let mut reply = world.reply(&name("deep.a.ent.a13."), A).message;
    reply.sections[0].truncate(1);
    let judged = judge(&world, &reply);
    assert_eq!(judged.verdict, SecurityStatus::Bogus(ede::RRSIGS_MISSING));
    let asked: Vec<_> = judged.fetched.iter().filter(|(name, _)| name.count() > 1).collect();
    assert_eq!(asked, [&(name("ent.a13."), rtype::DS), &(name("deep.a.ent.a13."), rtype::DS)]);
}

#[test]
fn audit_06_thousands_of_records_are_not_even_read() {
    let world = World::new();
    for (owner, count) in [("www.sec.a13.", 4000_u16), ("www.open.", 4000), ("www.sec.a13.", 2049)]
    {
        let mut reply = Message::reply(&name(owner), A);
        let one = |n: u16| OwnedRecord::new(&name(owner), A, [10, 0, (n >> 8) as u8, n as u8]);
        reply.sections[0] = (0..count).map(one).collect();
        let judged = judge(&world, &reply);
        assert_eq!(judged.verdict, SecurityStatus::OverBudget(ede::INDETERMINATE));
        assert_eq!((judged.cost.records, judged.cost.checks, judged.fetched.len()), (0, 0, 0));
    }
}

#[test]
fn audit_06_many_signatures_over_many_sets_cost_no_more_than_one_set_has() {
    let world = World::new();
    let zone = world.zone(&name("sec.a13."));
    let key = &zone.keys.as_ref().unwrap()[1];
    let mut reply = world.reply(&name("www.sec.a13."), A).message;
    let long = name(&format!("{}sec.a13.", "x.".repeat(110)));
    for n in 0..250_u16 {
        let set = [OwnedRecord::new(&long, 1000 + n, [1; 200])];
        let mut signature = key.sign_set(&zone.apex, &set, [INCEPTION, EXPIRATION]);
        *signature.data.last_mut().unwrap() ^= 1;
        reply.sections[1].extend([set[0].clone(), signature]);
    }
    let judged = judge(&world, &reply);
    assert_eq!(judged.verdict, SecurityStatus::Secure, "what is beside the answer is left out");
    assert!(judged.cost.failed_checks <= 8, "{:?}", judged.cost);
    assert_eq!(judged.judgement.keep.iter().filter(|keep| **keep).count(), 4);
}

/// A DNSKEY set with `count` keys of the same tag, signed by the zone's own key, and a signature that names the tag.
pub(crate) fn colliding(world: &World, count: u16) -> (OwnedRecord, Vec<OwnedRecord>) {
    let zone = world.zone(&name("sec.a13."));
    let own = &zone.keys.as_ref().unwrap()[0];
    let mut keys = vec![OwnedRecord::new(&zone.apex, rtype::DNSKEY, &*own.dnskey)];
    for n in 1..=count {
        let mut data = own.dnskey.clone();
        // The tag is a sum: what is added to one word is taken from another.
        let at = 4 + 2 * usize::from(n % 14);
        let word = |data: &[u8], at: usize| u16::from_be_bytes([data[at], data[at + 1]]);
        let (one, other) = (word(&data, at), word(&data, at + 2));
        let more = (u16::MAX - one).min(other).min(1 + n / 14);
        data[at..at + 2].copy_from_slice(&(one + more).to_be_bytes());
        data[at + 2..at + 4].copy_from_slice(&(other - more).to_be_bytes());
        keys.push(OwnedRecord::new(&zone.apex, rtype::DNSKEY, data));
    }
    let signature = own.sign_set(&zone.apex, &keys, [INCEPTION, EXPIRATION]);
    (signature, keys)
}

#[test]
fn cve_2023_50387_keys_with_one_tag_and_many_signatures_cost_a_bounded_number_of_checks() {
    let world = World::new();
    let zone = world.zone(&name("sec.a13."));
    for (count, signatures) in [(40, 1), (40, 15), (40, 400), (5, 15)] {
        let (signature, keys) = colliding(&world, count);
        let hostile = |asked: &Name, qtype| {
            let mut reply = world.reply(asked, qtype).message;
            if *asked == zone.apex && qtype == rtype::DNSKEY {
                reply.sections[0] = [&keys[..], std::slice::from_ref(&signature)].concat();
            }
            Some(reply.to_bytes())
        };
        let mut reply = world.reply(&name("www.sec.a13."), A).message;
        let genuine = reply.sections[0].pop().unwrap();
        for n in 0..signatures {
            let mut junk = genuine.clone();
            let at = junk.data.len() - 1 - n % 60;
            junk.data[at] ^= (1 + n / 60) as u8;
            reply.sections[0].push(junk);
        }
        let judged = judge_by(&mut validator(&world), &reply, hostile);
        assert!(
            matches!(judged.verdict, SecurityStatus::OverBudget(_) | SecurityStatus::Bogus(_)),
            "{count} {signatures}: {judged:?}"
        );
        let limits = ValidatorLimits::default();
        assert!(judged.cost.failed_checks <= limits.failed_checks, "{:?}", judged.cost);
        assert!(judged.widest_step <= limits.checks_per_set, "{judged:?}");
    }
}

/// NSEC3 proofs of `a8.` with as many iterations and as much salt as hurts, correctly signed.
pub(crate) fn costly(world: &World, iterations: u16, salt: &[u8], owner: &Name) -> Message {
    let zone = world.zone(&name("a8."));
    let key = &zone.keys.as_ref().unwrap()[1];
    let mut reply = Message::reply(owner, A);
    reply.set_rcode(3);
    let head = [&[1, 0], &iterations.to_be_bytes()[..], &[salt.len() as u8], salt].concat();
    for n in 0..8 {
        let hash: Vec<u8> = (0..20_u8).map(|at| (at * 7) ^ (n * 31)).collect();
        let own = zone.apex.child(&pmdns_hierarchy::zone::base32(&hash));
        let next: Vec<u8> = hash.iter().map(|byte| byte.wrapping_add(1)).collect();
        let data = [&*head, &[20], &next, &[0, 1, 0x40]].concat();
        let record = OwnedRecord::new(&own, rtype::NSEC3, data);
        let signature =
            key.sign_set(&zone.apex, std::slice::from_ref(&record), [INCEPTION, EXPIRATION]);
        reply.sections[1].extend([record, signature]);
    }
    reply
}

#[test]
fn cve_2023_50868_hashes_of_many_labels_and_iterations_cost_a_bounded_number_of_blocks() {
    let world = World::new();
    let owner = name(&format!("{}a8.", "x.".repeat(120)));
    for (iterations, salt) in [(150, &[7; 255][..]), (150, &[]), (0, &[])] {
        let judged = judge(&world, &costly(&world, iterations, salt, &owner));
        assert!(
            matches!(judged.verdict, SecurityStatus::OverBudget(_) | SecurityStatus::Bogus(_)),
            "{iterations}: {judged:?}"
        );
        assert!(
            judged.cost.hash_blocks <= ValidatorLimits::default().hash_blocks,
            "{:?}",
            judged.cost
        );
    }
}

#[test]
fn cve_2026_1519_more_iterations_than_150_are_not_computed() {
    let world = World::new();
    let owner = name("x.y.z.a8.");
    for iterations in [151, 2500, u16::MAX] {
        let judged = judge(&world, &costly(&world, iterations, &[7; 255], &owner));
        assert_eq!(judged.verdict, SecurityStatus::Insecure, "RFC 9276 section 3.2");
        assert_eq!(judged.cost.hash_blocks, 0);
    }
    // In a proof that a delegation is not signed, as well.
    let reply = unsigned(&owner, A, &[192, 0, 2, 1]);
    let hostile = |asked: &Name, qtype| {
        let is_below = asked.is_within(&name("a8.")) && qtype == rtype::DS && asked.count() > 1;
        Some(match is_below {
            true => costly(&world, 2500, &[7; 255], asked).to_bytes(),
            false => world.reply(asked, qtype).message.to_bytes(),
        })
    };
    let judged = judge_by(&mut validator(&world), &reply, hostile);
    assert_eq!((judged.verdict, judged.cost.hash_blocks), (SecurityStatus::Insecure, 0));
}

#[test]
fn cve_2026_11605_padding_of_a_denial_costs_no_more_than_its_budget() {
    let world = World::new();
    let zone = world.zone(&name("a8."));
    let key = &zone.keys.as_ref().unwrap()[1];
    let mut reply = world.reply(&name("none.a8."), A).message;
    let proof = reply.sections[1].iter().find(|one| one.rtype == rtype::NSEC3).unwrap().clone();
    // More proofs with good signatures, and more signatures over a proof.
    let mut many = reply.clone();
    for n in 0..100_u8 {
        let hash = [n; 20];
        let mut record = proof.clone();
        record.owner = zone.apex.child(&pmdns_hierarchy::zone::base32(&hash));
        let times = [INCEPTION, EXPIRATION];
        let signature = key.sign_set(&zone.apex, std::slice::from_ref(&record), times);
        many.sections[1].extend([record, signature]);
    }
    let judged = judge(&world, &many);
    assert!(matches!(judged.verdict, SecurityStatus::OverBudget(_)), "{judged:?}");
    assert!(judged.cost.checks <= 4, "it ends before any of them: {:?}", judged.cost);
    for n in 0..200_u8 {
        let mut junk =
            key.sign_set(&zone.apex, std::slice::from_ref(&proof), [INCEPTION, EXPIRATION]);
        *junk.data.last_mut().unwrap() ^= n.max(1);
        reply.sections[1].insert(0, junk);
    }
    let judged = judge(&world, &reply);
    assert!(matches!(judged.verdict, SecurityStatus::OverBudget(_)), "{judged:?}");
    assert!(judged.cost.failed_checks <= 8, "{:?}", judged.cost);
    let _ = SigningKey::tag;
}
