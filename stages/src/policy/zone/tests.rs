//! Names that exist and names that do not, wildcards, aliases, cuts, and what is answered with them.

use super::*;
use crate::testing::name_of;

fn record(name: &str, rtype: u16, ttl: u32, data: &[u8]) -> LocalRecord {
    LocalRecord { name: name_of(name).into(), rtype, ttl, data: data.into() }
}

fn alias(name: &str, target: &str) -> LocalRecord {
    record(name, rtype::CNAME, 60, &name_of(target))
}

/// An SOA record whose negative TTL is 30.
fn soa(name: &str) -> LocalRecord {
    let times = [1u32, 3600, 900, 604_800, 30].map(u32::to_be_bytes).concat();
    record(name, rtype::SOA, 600, &[name_of(name), name_of("admin."), times].concat())
}

fn ns(name: &str) -> LocalRecord {
    record(name, rtype::NS, 600, &name_of("ns.elsewhere."))
}

fn zone(records: &[LocalRecord]) -> LocalZone<'_> {
    LocalZone::new(records, |_| false).unwrap()
}

fn error(records: &[LocalRecord]) -> Option<LocalDataError> {
    LocalZone::new(records, |_| false).err()
}

#[test]
fn records_of_a_type_stand_in_file_order_with_their_least_ttl() {
    let records = [
        record("a.example.", 1, 300, &[192, 0, 2, 2]),
        record("a.example.", 16, 300, b"\x02hi"),
        record("A.example.", 1, 60, &[192, 0, 2, 1]),
        record("a.example.", 1, 90, &[192, 0, 2, 2]),
    ];
    let zone = zone(&records);
    let name = name_of("a.example.");
    let reply = zone.answer(&name, 1).unwrap();
    let expected = [
        [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 2],
        [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1],
    ];
    assert_eq!((reply.answers, reply.bytes), (2, expected.concat()));
    assert_eq!(zone.types(&name), [1, 16]);
    let denied = zone.answer(&name, 28).unwrap();
    assert_eq!((denied.rcode, denied.answers, denied.authorities), (Rcode::NOERROR, 0, 1));
}

#[test]
fn cname_records_lead_to_the_records_asked_for() {
    let records =
        [alias("w.x.", "W2.x."), alias("w2.x.", "h.x."), record("h.x.", 1, 300, &[192, 0, 2, 1])];
    let zone = zone(&records);
    let name = name_of("w.x.");
    let reply = zone.answer(&name, 1).unwrap();
    let expected = [
        b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x06\x02W2\x01x\0".as_slice(),
        b"\x02W2\x01x\0\0\x05\0\x01\0\0\0\x3c\0\x05\x01h\x01x\0",
        b"\x01h\x01x\0\0\x01\0\x01\0\0\x01\x2c\0\x04\xc0\0\x02\x01",
    ];
    assert_eq!((reply.answers, reply.bytes), (3, expected.concat()));
    assert_eq!(zone.types(&name), [5, 1]);
    let denied = zone.answer(&name, 28).unwrap();
    assert!(denied.bytes.starts_with(&expected[..2].concat()));
    assert_eq!((denied.answers, denied.authorities), (2, 1), "the SOA record of nobody");
    assert_eq!(zone.answer(&name, rtype::CNAME).unwrap().bytes, expected[0]);
}

#[test]
fn a_cname_record_stands_alone() {
    let (name, first, second) = ("w.x.", alias("w.x.", "a."), alias("w.x.", "b."));
    let not_alone = Some(LocalDataError::CnameNotAlone { name: name.into() });
    assert_eq!(error(&[first.clone(), second]), not_alone);
    assert_eq!(error(&[record(name, 1, 0, &[0; 4]), first.clone()]), not_alone);
    assert_eq!(error(&[first.clone(), first]), None, "the same record twice");
}

#[test]
fn a_cname_record_of_a_signed_zone_stands_beside_its_signature_and_both_are_answered() {
    let [key, rrsig, nsec] = BESIDE_CNAME;
    let records = [
        record("w.x.", rrsig, 60, b"cname signed"),
        alias("w.x.", "h.x."),
        record("w.x.", nsec, 60, b"next"),
        record("w.x.", key, 60, b"key"),
        record("h.x.", 1, 60, &[192, 0, 2, 1]),
        record("h.x.", rrsig, 60, b"address signed"),
    ];
    let signed = zone(&records);
    let name = name_of("w.x.");
    assert_eq!(signed.types(&name), [rrsig, rtype::CNAME, nsec, key, 1]);
    let answer = |qtype| signed.answer(&name, qtype).unwrap();
    for (qtype, data) in [(rrsig, b"cname signed".as_slice()), (nsec, b"next"), (key, b"key")] {
        let reply = answer(qtype);
        assert_eq!((reply.answers, reply.bytes.ends_with(data)), (1, true), "type {qtype}");
    }
    assert_eq!((answer(1).answers, answer(28).answers), (2, 1));

    let not_alone = Some(LocalDataError::CnameNotAlone { name: "w.x.".into() });
    let second = [&records[..], &[alias("w.x.", "i.x.")]].concat();
    assert_eq!(error(&second), not_alone);
    let with_address = [&records[..], &[record("w.x.", 1, 60, &[0; 4])]].concat();
    assert_eq!(error(&with_address), not_alone);
}

#[test]
fn chains_have_an_end() {
    let told = |records: &[LocalRecord], name: &str| {
        let reply = zone(records).answer(&name_of(name), 1).unwrap();
        (reply.rcode, reply.answers)
    };
    let circle = [alias("a.", "b."), alias("b.", "a.")];
    assert_eq!(told(&circle, "a."), (Rcode::SERVFAIL, 2));
    // A wildcard that leads to itself.
    assert_eq!(told(&[alias("*.a.", "b.a.")], "*.a."), (Rcode::SERVFAIL, 2));

    let chain: Vec<_> = (0..=MAX_CNAMES)
        .map(|step| alias(&format!("n{step}."), &format!("n{}.", step + 1)))
        .collect();
    let most = MAX_CNAMES as u16;
    assert_eq!(told(&chain, "n0."), (Rcode::SERVFAIL, most + 1));
    assert_eq!(told(&chain, "n1."), (Rcode::NOERROR, most));
}

#[test]
fn negative_answers_carry_the_zone_s_soa() {
    let records = [
        soa("lan."),
        record("a.lan.", 1, 300, &[0; 4]),
        alias("gone.lan.", "no.such.lan."),
        alias("there.lan.", "a.lan."),
        alias("out.lan.", "elsewhere."),
    ];
    let zone = zone(&records);
    let counts = |name: &str, qtype| {
        let reply = zone.answer(&name_of(name), qtype).unwrap();
        (reply.rcode, reply.answers, reply.authorities)
    };
    assert_eq!(counts("a.lan.", 1), (Rcode::NOERROR, 1, 0));
    assert_eq!(counts("a.lan.", 28), (Rcode::NOERROR, 0, 1));
    assert_eq!(counts("gone.lan.", 1), (Rcode::NXDOMAIN, 1, 1), "RFC 6604");
    assert_eq!(counts("there.lan.", 28), (Rcode::NOERROR, 1, 1));
    assert_eq!(counts("out.lan.", 1), (Rcode::NOERROR, 1, 0));
    let missing = zone.missing(&name_of("lan."));
    assert_eq!((missing.rcode, missing.authorities), (Rcode::NXDOMAIN, 1));
    assert_eq!(missing.bytes[..15], *b"\x03lan\0\0\x06\0\x01\0\0\0\x1e\0\x20");
    assert_eq!(zone.nodata(&name_of("lan.")).rcode, Rcode::NOERROR);
}

#[test]
fn what_is_handed_to_other_servers_is_not_ours() {
    let records = [
        soa("lan."),
        ns("lan."),
        ns("sub.lan."),
        record("ns.sub.lan.", 1, 300, &[0; 4]),
        soa("own.lan."),
        ns("own.lan."),
        ns("b.own.lan."),
        alias("w.lan.", "x.sub.lan."),
    ];
    let zone = zone(&records);
    let cut = |name: &str| zone.cut(&name_of(name)).map(text);
    assert_eq!(cut("ns.sub.lan.").as_deref(), Some("sub.lan."));
    assert_eq!(cut("sub.lan.").as_deref(), Some("sub.lan."));
    assert_eq!(cut("lan."), None);
    assert_eq!(cut("x.own.lan."), None);
    assert_eq!(cut("x.b.own.lan.").as_deref(), Some("b.own.lan."));
    let reply = zone.answer(&name_of("w.lan."), 1).unwrap();
    assert_eq!((reply.rcode, reply.answers, reply.authorities), (Rcode::NOERROR, 1, 0));
}

#[test]
fn answers_that_fit_no_message_are_refused_at_load() {
    let records = |owner: &str| -> Vec<_> {
        (0..4100u16)
            .map(|last| record(owner, 1, 60, &[192, 0, (last >> 8) as u8, last as u8]))
            .collect()
    };
    let answer = |owner: &str, count: usize| {
        zone(&records(owner)[..count]).answer(&name_of(owner), 1).map(|reply| reply.answers)
    };
    // 64511 bytes less header, question and OPT record: 64481, and 16 for each record.
    assert_eq!(answer("a.", 4030), Ok(4030), "over UDP with TC=1");
    let error = answer("a.", 4031).unwrap_err();
    assert!(
        matches!(error, LocalDataError::TooLong { bytes: 64_496, room: 64_481, .. }),
        "{error}"
    );
    // Behind the longest question 64229.
    assert_eq!(answer("*.a.", 4014), Ok(4014));
    assert!(answer("*.a.", 4015).is_err());
    // To compare all of so many with each other would take hours.
    let address = |one: u32| record("b.", 1, 60, &one.to_be_bytes());
    let many: Vec<_> = (0..1_000_000).map(address).collect();
    assert!(matches!(zone(&many).answer(&name_of("b."), 1), Err(LocalDataError::TooLong { .. })));
}

#[test]
fn a_dname_record_stands_for_all_names_below_it() {
    let tree = |owner: &str, target: &str| record(owner, rtype::DNAME, 60, &name_of(target));
    let records = [soa("lan."), tree("tree.lan.", "other."), alias("a.lan.", "x.tree.lan.")];
    let zone = zone(&records);
    let below = zone.below_tree(&name_of("tree.lan.")).unwrap();
    assert_eq!((below.answers, below.leads_on), (1, true));
    let alias = zone.answer(&name_of("a.lan."), 1).unwrap();
    assert_eq!((alias.rcode, alias.answers, alias.leads_on), (Rcode::NOERROR, 1, true));
    let own = zone.answer(&name_of("tree.lan."), rtype::DNAME).unwrap();
    assert_eq!((own.answers, own.leads_on), (1, false));
    let name = "tree.lan.".to_owned();
    let two = [tree("tree.lan.", "a."), tree("tree.lan.", "b.")];
    assert_eq!(error(&two), Some(LocalDataError::DnameNotAlone { name }));
    assert!(error(&[tree("*.lan.", "a.")]).is_some());
    let (name, owner) = ("x.tree.lan.".to_owned(), "tree.lan.".to_owned());
    let below = [tree("tree.lan.", "a."), record("x.tree.lan.", 1, 60, &[0; 4])];
    assert_eq!(error(&below), Some(LocalDataError::BelowDname { name, owner }));
}

#[test]
fn what_cannot_be_served_is_refused() {
    let name = Box::from(b"\x03www".as_slice());
    let broken = LocalRecord { name, ..record("a.", 1, 60, &[0; 4]) };
    assert_eq!(error(&[broken]), Some(LocalDataError::Name { name: "\\x03www".into() }));
    assert!(error(&[record("a.", rtype::CNAME, 60, b"\xc0\x0c")]).is_some());
    assert!(error(&[record("a.", rtype::DNAME, 60, b"\xc0\x0c")]).is_some());
    let mut second = soa("a.");
    second.data[0] = 0;
    assert!(error(&[soa("a."), second]).is_some());
}

#[test]
fn empty_names_lie_between_our_own_names() {
    let records = [
        record("a.b.c.lan.", 1, 60, &[0; 4]),
        record("lan.", 1, 60, &[0; 4]),
        record("www.ads.example.com.", 1, 60, &[0; 4]),
    ];
    let ads = name_of("ads.example.com.");
    let zone = LocalZone::new(&records, |name| name == ads).unwrap();
    let mut empty: Vec<String> = zone.empty().map(text).collect();
    empty.sort();
    // Not example.com, com and the root, which are not ours.
    assert_eq!(empty, ["ads.example.com.", "b.c.lan.", "c.lan."]);
}
