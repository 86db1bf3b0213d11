//! Replies that somebody made up, or put together of genuine parts.

use pmdns_hierarchy::message::SIGNER_AT;
use pmdns_hierarchy::{
    EXPIRATION, INCEPTION, Message, Name, OwnedRecord, SigningKey, World, rtype,
};
use pmdns_validator::{SecurityStatus, TrustAnchor, Validator, ValidatorLimits, ede};

use crate::judged::{A, forged, judge, judge_by, unsigned, validator};

fn name(text: &str) -> Name {
    Name::new(text)
}

/// Zones whose names a forger may write into a signature: not signed, beyond all anchors, or unrelated.
const SIGNERS: [&str; 7] =
    ["insec.a13.", "island.a8.", "open.", "sec.a8.", "www.sec.a13.", "nowhere.test.", "com."];

#[test]
fn audit_01_signers_that_are_not_above_the_owner_end_no_validation() {
    let world = World::new();
    for signer in SIGNERS {
        for (owner, qtype, data) in [
            ("new.sec.a13.", A, &[192, 0, 2, 66][..]),
            ("www.sec.a13.", A, &[192, 0, 2, 66]),
            ("mail.sec.a13.", rtype::MX, b"\0\x01\x04evil\x04test\0"),
            ("www.a13.", rtype::CNAME, b"\x04evil\x04test\0"),
            ("a13.", rtype::NS, b"\x04evil\x04test\0"),
        ] {
            let mut reply = unsigned(&name(owner), qtype, data);
            let signature = forged(&name(signer), &reply.sections[0]);
            reply.sections[0].push(signature);
            let verdict = judge(&world, &reply).verdict;
            assert!(
                matches!(verdict, SecurityStatus::Bogus(_)),
                "{owner} {qtype} {signer}: {verdict:?}"
            );
        }
    }
}

#[test]
fn audit_01_an_alias_to_a_foreign_name_is_the_owners_zone_to_give() {
    let world = World::new();
    for signer in SIGNERS {
        let mut reply = Message::reply(&name("www.sec.a13."), A);
        let alias = OwnedRecord::new(&name("www.sec.a13."), rtype::CNAME, *b"\x04evil\x04open\0");
        let address = OwnedRecord::new(&name("evil.open."), A, [192, 0, 2, 66]);
        let signature = forged(&name(signer), std::slice::from_ref(&alias));
        reply.sections[0] = vec![alias, signature, address];
        let verdict = judge(&world, &reply).verdict;
        assert!(matches!(verdict, SecurityStatus::Bogus(_)), "{signer}: {verdict:?}");
    }
}

#[test]
fn audit_01_a_denial_is_the_zones_whoever_signs_the_soa() {
    let world = World::new();
    for signer in SIGNERS {
        for (owner, apex) in [("www.sec.a13.", "sec.a13."), ("www.sec3.a13.", "sec3.a13.")] {
            for rcode in [0, 3] {
                for soa in [apex, signer, owner] {
                    let mut reply = Message::reply(&name(owner), A);
                    reply.set_rcode(rcode);
                    let numbers = [1, 2, 3, 4, 5].map(u32::to_be_bytes).concat();
                    let soa =
                        OwnedRecord::new(&name(soa), rtype::SOA, [&[0, 0], &*numbers].concat());
                    let signature = forged(&name(signer), std::slice::from_ref(&soa));
                    reply.sections[1] = vec![soa, signature];
                    let verdict = judge(&world, &reply).verdict;
                    assert!(matches!(verdict, SecurityStatus::Bogus(_)), "{reply}: {verdict:?}");
                }
            }
        }
    }
}

#[test]
fn audit_01_no_anchor_above_the_signer_is_no_anchor_above_the_owner() {
    let world = World::new();
    let zone = world.zone(&name("sec.a13."));
    let ds = zone.keys.as_ref().unwrap()[0].ds(&zone.apex, 2);
    let anchor = TrustAnchor::new(zone.apex.wire(), rtype::DS, &ds).unwrap();
    let mut validator = Validator::new(&[anchor], &[], ValidatorLimits::default());
    let honest = |name: &Name, qtype| Some(world.reply(name, qtype).message.to_bytes());
    let mut reply = unsigned(&name("www.sec.a13."), A, &[192, 0, 2, 66]);
    reply.sections[0].push(forged(&name("nowhere.test."), &reply.sections[0]));
    let verdict = judge_by(&mut validator, &reply, honest).verdict;
    assert_eq!(verdict, SecurityStatus::Bogus(ede::RRSIGS_MISSING));
    let beyond = unsigned(&name("www.a8."), A, &[192, 0, 2, 1]);
    let verdict = judge_by(&mut validator, &beyond, honest).verdict;
    assert_eq!(verdict, SecurityStatus::Indeterminate);
}

#[test]
fn cve_2026_52690_an_unsigned_reply_to_the_validators_own_question_proves_nothing() {
    let world = World::new();
    // Somebody says that a server knows no EDNS: what comes has neither signatures nor proofs.
    let stripped = |name: &Name, qtype| {
        let mut reply = world.reply(name, qtype).message;
        for section in &mut reply.sections {
            section.retain(|record| {
                ![rtype::RRSIG, rtype::NSEC, rtype::NSEC3, rtype::OPT].contains(&record.rtype)
            });
        }
        Some(reply.to_bytes())
    };
    let reply = unsigned(&name("www.sec.a13."), A, &[192, 0, 2, 66]);
    let empty = |name: &Name, qtype| Some(Message::reply(name, qtype).to_bytes());
    let formerr = |name: &Name, qtype| {
        let mut reply = Message::reply(name, qtype);
        reply.set_rcode(1);
        Some(reply.to_bytes())
    };
    let verdicts = [
        judge_by(&mut validator(&world), &reply, stripped),
        judge_by(&mut validator(&world), &reply, empty),
        judge_by(&mut validator(&world), &reply, formerr),
        judge_by(&mut validator(&world), &reply, |_, _| None),
    ];
    for judged in verdicts {
        assert!(matches!(judged.verdict, SecurityStatus::Bogus(_)), "{:?}", judged.verdict);
    }
    // The same once the way down is known but for the last step.
    for qtype in [rtype::DS, rtype::DNSKEY] {
        let but = |asked: &Name, asked_type| {
            let is_spoiled = *asked == name("sec.a13.") && asked_type == qtype;
            if is_spoiled {
                stripped(asked, qtype)
            } else {
                Some(world.reply(asked, asked_type).message.to_bytes())
            }
        };
        let verdict = judge_by(&mut validator(&world), &reply, but).verdict;
        assert!(matches!(verdict, SecurityStatus::Bogus(_)), "{qtype}: {verdict:?}");
    }
}

/// An NSEC record of `a13.`, signed by that zone whatever it says.
fn signed_nsec(world: &World, owner: &str, next: &str) -> [OwnedRecord; 2] {
    let zone = world.zone(&name("a13."));
    let key = &zone.keys.as_ref().unwrap()[1];
    let bits = [0, 6, 0x40, 0, 0, 0, 0, 3];
    let record = OwnedRecord::new(&name(owner), rtype::NSEC, [name(next).wire(), &bits].concat());
    let signature =
        key.sign_set(&zone.apex, std::slice::from_ref(&record), [INCEPTION, EXPIRATION]);
    [record, signature]
}

#[test]
fn cve_2026_13321_a_next_name_outside_the_zone_denies_nothing() {
    let world = World::new();
    // In canonical order everything below a13. stands between these two.
    for next in ["b.", "zzz.", ".", "a13x.", "a.sec.a8."] {
        let mut reply = Message::reply(&name("none.a13."), A);
        reply.set_rcode(3);
        reply.sections[1] = signed_nsec(&world, "a13.", next).into();
        let verdict = judge(&world, &reply).verdict;
        assert!(matches!(verdict, SecurityStatus::Bogus(_)), "{next}: {verdict:?}");
        reply.sections[1] = signed_nsec(&world, "a.a13.", next).into();
        let verdict = judge(&world, &reply).verdict;
        assert!(matches!(verdict, SecurityStatus::Bogus(_)), "{next}: {verdict:?}");
    }
    let mut reply = Message::reply(&name("none.a13."), A);
    reply.set_rcode(3);
    reply.sections[1] = signed_nsec(&world, "a13.", "z.a13.").into();
    assert_eq!(judge(&world, &reply).verdict, SecurityStatus::Secure, "inside it does");
}

#[test]
fn cve_2026_11721_fewer_labels_than_the_signer_has_make_no_wildcard() {
    let world = World::new();
    let zone = world.zone(&name("sec.a13."));
    let key = &zone.keys.as_ref().unwrap()[1];
    let set = [OwnedRecord::new(&name("www.sec.a13."), A, [192, 0, 2, 66])];
    for labels in 0..=4 {
        let mut signature = key.sign_set(&zone.apex, &set, [INCEPTION, EXPIRATION]);
        signature.data[3] = labels;
        key.sign_again(&mut signature, &set);
        let mut reply = Message::reply(&set[0].owner, A);
        reply.sections[0] = vec![set[0].clone(), signature];
        // The zone's own denial of everything but its apex.
        reply.sections[1] = zone.signed(&[zone.covering(&name("vvv.sec.a13.")).unwrap().clone()]);
        let verdict = judge(&world, &reply).verdict;
        assert_eq!(verdict == SecurityStatus::Secure, labels == 3, "{labels} labels: {verdict:?}");
    }
}

#[test]
fn signatures_are_of_the_zone_itself_by_a_key_for_zones() {
    let world = World::new();
    let sec = world.zone(&name("sec.a13."));
    // The zone above signs for a name below a cut.
    let above = world.zone(&name("a13."));
    let set = [OwnedRecord::new(&name("www.sec.a13."), A, [192, 0, 2, 66])];
    for (zone, signer) in [(above, "sec.a13."), (sec, "a13."), (sec, "www.sec.a13.")] {
        let key = &zone.keys.as_ref().unwrap()[1];
        let signature = key.sign_set(&name(signer), &set, [INCEPTION, EXPIRATION]);
        let mut reply = Message::reply(&set[0].owner, A);
        reply.sections[0] = vec![set[0].clone(), signature];
        let verdict = judge(&world, &reply).verdict;
        assert!(matches!(verdict, SecurityStatus::Bogus(_)), "{signer}: {verdict:?}");
    }
    // Keys that are revoked, not for zones, or of another protocol.
    for (at, value) in [(0, 0), (1, 0x81), (2, 2)] {
        let key = SigningKey::of_zone(&sec.apex, "csk", 13);
        let mut data = key.dnskey.clone();
        data[at] = value;
        assert!(TrustAnchor::new(sec.apex.wire(), rtype::DNSKEY, &data).is_none());
        assert!(TrustAnchor::new(sec.apex.wire(), rtype::DNSKEY, &key.dnskey).is_some());
    }
}

#[test]
fn proofs_of_a_delegation_deny_nothing_below_it() {
    let world = World::new();
    for parent in ["a13.", "a8."] {
        let zone = world.zone(&name(parent));
        let cut = name("sec").below("").redirected(&Name::root(), &zone.apex);
        let cut = cut.unwrap_or_else(|| zone.apex.below("sec"));
        for owner in [cut.clone(), cut.below("www"), cut.below("x.y")] {
            for rcode in [0, 3] {
                let mut reply = Message::reply(&owner, A);
                reply.set_rcode(rcode);
                let soa = zone.set(&zone.apex, rtype::SOA).unwrap();
                reply.sections[1] = zone.signed(soa);
                for one in [zone.matching(&cut), zone.covering(&owner), zone.matching(&zone.apex)] {
                    let proof: Vec<OwnedRecord> = one.cloned().into_iter().collect();
                    if !proof.is_empty() {
                        reply.sections[1].extend(zone.signed(&proof));
                    }
                }
                let verdict = judge(&world, &reply).verdict;
                assert!(matches!(verdict, SecurityStatus::Bogus(_)), "{reply}: {verdict:?}");
            }
        }
    }
}

#[test]
fn an_error_code_over_secure_data_is_bogus() {
    let world = World::new();
    for rcode in [1, 2, 3, 4, 5, 6, 9] {
        for owner in ["www.sec.a13.", "none.sec.a13.", "to-none.sec.a13."] {
            let mut reply = world.reply(&name(owner), A).message;
            let honest = reply.rcode();
            reply.set_rcode(rcode);
            let verdict = judge(&world, &reply).verdict;
            let is_bogus = matches!(verdict, SecurityStatus::Bogus(_));
            assert_eq!(is_bogus, rcode != honest, "{owner} {rcode}: {verdict:?}");
        }
    }
}

#[test]
fn what_stands_beside_a_secure_answer_without_a_signature_is_not_passed_on() {
    let world = World::new();
    let mut reply = world.reply(&name("www.sec.a13."), A).message;
    let genuine = reply.records().count();
    let evil = OwnedRecord::new(&name("www.bank.test."), A, [192, 0, 2, 66]);
    reply.sections[0].push(evil.clone());
    reply.sections[1].push(OwnedRecord::new(&name("sec.a13."), rtype::NS, *b"\x04evil\0"));
    reply.sections[2].push(evil);
    let judged = judge(&world, &reply);
    assert_eq!(judged.verdict, SecurityStatus::Secure);
    let kept: Vec<_> =
        reply.records().zip(&judged.judgement.keep).filter(|(_, keep)| **keep).collect();
    assert_eq!(kept.len(), genuine, "{kept:?}");
    assert!(kept.iter().all(|(record, _)| record.data != [192, 0, 2, 66]));
}

#[test]
fn a_compressed_or_overlong_signer_is_no_signature() {
    let world = World::new();
    let mut reply = world.reply(&name("www.sec.a13."), A).message;
    let at = reply.sections[0].iter().position(|one| one.rtype == rtype::RRSIG).unwrap();
    let data = &mut reply.sections[0][at].data;
    // A pointer to the name in question, whose last two labels are the signer's.
    data.splice(SIGNER_AT..SIGNER_AT + 9, [0xc0, 16]);
    let verdict = judge(&world, &reply).verdict;
    assert!(matches!(verdict, SecurityStatus::Bogus(_)), "RFC 4034 section 3.1.7: {verdict:?}");
}
