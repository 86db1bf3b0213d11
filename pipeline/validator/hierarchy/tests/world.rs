//! The hierarchy itself: signatures are good, proofs are there, and all of it is the same every time.

use pmdns_hierarchy::{Denial, Fact, Message, Name, SigningKey, Status, World};
use pmdns_hierarchy::{OwnedRecord, rtype};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519,
    RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY as RSA_SHA1,
    RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY as RSA_SHA256,
    RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY as RSA_SHA512, RsaPublicKeyComponents,
    UnparsedPublicKey,
};

#[test]
fn keys_of_every_algorithm_sign_what_ring_finds_good() {
    let world = World::new();
    let mut seen = Vec::new();
    for key in world.zones().filter_map(|zone| zone.keys.as_ref()).flatten() {
        let (signature, public) = (key.sign(b"signed"), &key.dnskey[4..]);
        let good = match key.algorithm() {
            13 => {
                let point = [&[4], public].concat();
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                    .verify(b"signed", &signature)
            }
            14 => {
                let point = [&[4], public].concat();
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point)
                    .verify(b"signed", &signature)
            }
            // Two implementations agree on it elsewhere: Unbound checks it beside the validator.
            16 => continue,
            15 => UnparsedPublicKey::new(&ED25519, public).verify(b"signed", &signature),
            other => {
                let (e, n) = public[1..].split_at(usize::from(public[0]));
                let kind = match other {
                    5 | 7 => &RSA_SHA1,
                    8 => &RSA_SHA256,
                    _ => &RSA_SHA512,
                };
                RsaPublicKeyComponents { n, e }.verify(kind, b"signed", &signature)
            }
        };
        assert!(good.is_ok(), "algorithm {}", key.algorithm());
        seen.push(key.algorithm());
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [5, 7, 8, 10, 13, 14, 15]);
}

#[test]
fn a_message_that_is_written_and_read_is_the_same() {
    let world = World::new();
    for (name, qtype) in world.questions() {
        let message = world.reply(name, *qtype).message;
        assert_eq!(Message::parse(&message.to_bytes()), Some(message));
    }
}

#[test]
fn every_secure_answer_is_signed_and_every_denial_proven() {
    let world = World::new();
    let mut kinds = [0; 5];
    for (name, qtype) in world.questions() {
        let reply = world.reply(name, *qtype);
        let last = reply.steps.last().unwrap();
        let kind = match last.fact {
            Fact::Set(_) => 0,
            // An alias ends a chain only if it was asked for.
            Fact::Alias(..) | Fact::Redirect(..) => usize::from(*qtype != rtype::CNAME),
            Fact::NoData => 2,
            Fact::NoName => 3,
        };
        kinds[kind] += 1;
        kinds[4] += usize::from(last.wildcard.is_some());
        if reply.status() != Status::Secure {
            continue;
        }
        let records: Vec<&OwnedRecord> = reply.message.records().collect();
        for record in &records {
            let is_made = reply
                .steps
                .iter()
                .any(|step| matches!(&step.fact, Fact::Redirect(_, alias, _) if alias == *record));
            let has = |other: &&&OwnedRecord| {
                other.covered() == Some(record.rtype) && other.owner == record.owner
            };
            let free = matches!(record.rtype, rtype::RRSIG | rtype::OPT);
            assert!(free || is_made || records.iter().any(|other| has(&other)), "{record}");
        }
        if matches!(last.fact, Fact::NoData | Fact::NoName) || last.wildcard.is_some() {
            let proofs = [rtype::NSEC, rtype::NSEC3];
            assert!(records.iter().any(|record| proofs.contains(&record.rtype)), "{name} {qtype}");
        }
    }
    assert!(kinds[0] > 400 && kinds[2] > 200 && kinds[3] > 100 && kinds[4] > 100, "{kinds:?}");
    assert_eq!(kinds[1], 0);
}

#[test]
fn names_are_ordered_and_hashed_as_the_rfcs_say() {
    let ordered = ["example", "a.example", "yljkjljk.a.example", "Z.a.example", "zABC.a.EXAMPLE"];
    let ordered = ordered.map(Name::new);
    assert!(ordered.is_sorted());
    // RFC 5155 appendix A.
    let salt = [0xaa, 0xbb, 0xcc, 0xdd];
    let hash = pmdns_hierarchy::zone::hash(&Name::new("a.example"), 12, &salt);
    assert_eq!(pmdns_hierarchy::zone::base32(&hash), "35mthgpgcu1qg68fab165klnsnk3dpvl");
}

#[test]
fn the_same_name_has_the_same_key() {
    let [one, other] =
        ["one.", "other."].map(|name| SigningKey::of_zone(&Name::new(name), "csk", 15));
    assert_eq!(SigningKey::of_zone(&Name::new("one."), "csk", 15).dnskey, one.dnskey);
    assert_ne!(one.dnskey, other.dnskey);
    let world = World::new();
    let opt_out =
        |zone: &&pmdns_hierarchy::Zone| matches!(zone.denial, Denial::Nsec3 { opt_out: true, .. });
    assert_eq!(world.zones().filter(opt_out).count(), 1);
}
