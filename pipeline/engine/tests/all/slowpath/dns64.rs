//! DNS64 by the sections of RFC 6147: which addresses clients get, and what upstreams are asked for them.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{RData, RecordType};
use pmdns_config::{Blocklist, Dns64Settings, Prefetch};
use pmdns_stages::testing::{QueryFrame, name_of, query};
use pmdns_stages::wire::dns::{HEADER_LEN, header};
use pmdns_stages::wire::put16;

use super::rig::{Rig, SECOND, Setup};
use super::signed::Zone;
use super::stub::{Asked, Stub};

const A: u8 = 1;
const AAAA: u8 = 28;

/// CD in a query's flags.
const CD: u16 = 0x10;

fn prefix(text: &str) -> Dns64Settings {
    Dns64Settings {
        prefix: text.parse().unwrap(),
        exclude: vec!["::ffff:0:0/96".parse().unwrap()],
        exclude_ipv4: Vec::new(),
        views: Vec::new(),
    }
}

/// The type that is asked for.
fn qtype(asked: &Asked) -> u8 {
    asked.message
        [HEADER_LEN + pmdns_stages::wire::name::length(&asked.message[HEADER_LEN..]).unwrap() + 1]
}

/// An answer with records of the question's name, one for each of these data.
fn records(asked: &Asked, ttl: u32, data: &[&[u8]]) -> Vec<u8> {
    let mut reply = asked.rcode(0);
    put16(&mut reply, header::ANCOUNT, data.len() as u16);
    for data in data {
        reply.extend([0xc0, 12, 0, qtype(asked), 0, 1]);
        reply.extend(ttl.to_be_bytes());
        reply.extend([0, data.len() as u8]);
        reply.extend_from_slice(data);
    }
    reply
}

/// What upstreams say. The first letter of a name says what there is of it.
fn script(asked: &Asked) -> Vec<u8> {
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 1, 2, 3, 4];
    let real = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    match (asked.message[HEADER_LEN + 1], qtype(asked)) {
        // IPv4 only; the addresses live for 100 seconds.
        (b'v' | b'f' | b'm', A) => records(asked, 100, &[&[8, 8, 4, 4], &[8, 8, 8, 8]]),
        (b'v', AAAA) => asked.nodata(40),
        (b's', A) => records(asked, 30, &[&[8, 8, 4, 4]]),
        (b's', AAAA) => asked.nodata(40),
        // The upstream fails for one of the two.
        (b'f', AAAA) | (b'g', A) => asked.rcode(2),
        (b'g', AAAA) => asked.nodata(40),
        // Addresses that mean nothing, alone or beside a real one.
        (b'm', AAAA) => records(asked, 100, &[&mapped]),
        (b'p', AAAA) => records(asked, 100, &[&mapped, &real]),
        (b'6', AAAA) => records(asked, 100, &[&real]),
        (b'x', _) => asked.nxdomain(40),
        // An alias, to a name with IPv4 addresses or to none.
        (b'c', A) => {
            let mut reply = asked.rcode(0);
            put16(&mut reply, header::ANCOUNT, 2);
            reply.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 50, 0, 8]);
            reply.extend(name_of("v.test."));
            reply.extend(name_of("v.test."));
            reply.extend([0, 1, 0, 1, 0, 0, 0, 100, 0, 4, 8, 8, 4, 4]);
            reply
        }
        // An alias, and of its addresses one that means nothing.
        (b'q', AAAA) => {
            let mut reply = asked.rcode(0);
            put16(&mut reply, header::ANCOUNT, 3);
            reply.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 50, 0, 8]);
            reply.extend(name_of("v.test."));
            for address in [mapped, real] {
                reply.extend(name_of("v.test."));
                reply.extend([0, 28, 0, 1, 0, 0, 0, 100, 0, 16]);
                reply.extend(address);
            }
            reply
        }
        (b'c', AAAA) => {
            let mut reply = asked.nodata(40);
            let end = reply.split_off(asked.rcode(0).len());
            put16(&mut reply, header::ANCOUNT, 1);
            reply.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 50, 0, 8]);
            reply.extend(name_of("v.test."));
            reply.extend(end);
            reply
        }
        (_, 12) => records(asked, 100, &[&name_of("host.test.")]),
        _ => asked.nodata(40),
    }
}

fn rig(stub: &Stub) -> Rig {
    let mut rig = Setup::asking(&[stub]).start();
    rig.translate(vec![prefix("64:ff9b::/96")]);
    rig
}

fn message(rig: &mut Rig, query: &QueryFrame) -> Message {
    Message::from_vec(&rig.resolve_whole(query)).unwrap()
}

/// The addresses in an answer, with their TTLs.
fn addresses(message: &Message) -> Vec<(String, u32)> {
    let address = |record: &hickory_proto::rr::Record| match &record.data {
        RData::AAAA(address) => Some((Ipv6Addr::from(*address).to_string(), record.ttl)),
        _ => None,
    };
    message.answers.iter().filter_map(address).collect()
}

fn made(rig: &mut Rig, text: &str) -> Vec<(String, u32)> {
    addresses(&message(rig, &query(text)))
}

fn types_asked(stub: &Stub) -> Vec<u8> {
    stub.asked().iter().map(qtype).collect()
}

#[test]
fn rfc_6147_5_1_addresses_are_made_of_a_records_once_and_then_cached() {
    let stub = Stub::replying(script);
    let mut rig = rig(&stub);
    let expected = [("64:ff9b::808:404".to_owned(), 40), ("64:ff9b::808:808".to_owned(), 40)];
    for _ in 0..3 {
        assert_eq!(made(&mut rig, "v.test. AAAA"), expected, "5.1.7: as long as the denial lives");
    }
    assert_eq!(types_asked(&stub), [AAAA, A]);
    assert_eq!(rig.resolve(&query("v.test. A")).records, 2, "the A records are cached as well");
    assert_eq!(types_asked(&stub), [AAAA, A]);
    assert_eq!(made(&mut rig, "s.test. AAAA"), [("64:ff9b::808:404".to_owned(), 30)]);
    assert_eq!(made(&mut rig, "6.test. AAAA"), [("2001:db8::1".to_owned(), 100)]);
    assert_eq!(types_asked(&stub)[4..], [AAAA], "no A records are asked for where there is one");
    let counters = rig.finish();
    assert_eq!((counters.synthesised, counters.servfail), (2, 0));
}

#[test]
fn rfc_6147_5_1_1_what_does_not_exist_is_not_made() {
    let stub = Stub::replying(script);
    let mut rig = rig(&stub);
    let answer = message(&mut rig, &query("x.test. AAAA"));
    assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
    assert_eq!(types_asked(&stub), [AAAA]);
    let answer = message(&mut rig, &query("nothing.test. AAAA"));
    assert_eq!(answer.metadata.response_code, ResponseCode::NoError);
    assert_eq!((answer.answers.len(), answer.authorities.len()), (0, 1), "the SOA record stays");
    assert_eq!(types_asked(&stub), [AAAA, AAAA, A]);
    rig.finish();
}

#[test]
fn rfc_6147_5_1_2_a_failure_is_as_if_there_were_no_aaaa_records() {
    let stub = Stub::replying(script);
    let mut rig = rig(&stub);
    assert_eq!(made(&mut rig, "f.test. AAAA").len(), 2);
    assert_eq!(made(&mut rig, "f.test. AAAA")[0].1, 100, "no SOA record, and less than 600 s");
    let answer = message(&mut rig, &query("g.test. AAAA"));
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail, "A records cannot be had");
    let counters = rig.finish();
    assert_eq!((counters.synthesised, counters.servfail), (1, 1));
}

#[test]
fn rfc_6147_5_1_4_excluded_addresses_are_as_good_as_none() {
    let stub = Stub::replying(script);
    let mut rig = rig(&stub);
    assert_eq!(made(&mut rig, "m.test. AAAA")[0].0, "64:ff9b::808:404");
    assert_eq!(made(&mut rig, "p.test. AAAA"), [("2001:db8::1".to_owned(), 100)]);
    rig.finish();
}

#[test]
fn rfc_6147_5_1_5_aliases_stay_before_the_addresses() {
    let stub = Stub::replying(script);
    let mut rig = rig(&stub);
    for _ in 0..2 {
        let answer = message(&mut rig, &query("c.test. AAAA"));
        let types: Vec<_> = answer.answers.iter().map(|one| one.record_type()).collect();
        assert_eq!(types, [RecordType::CNAME, RecordType::AAAA]);
        assert_eq!(answer.answers[1].name.to_string(), "v.test.");
        assert_eq!(addresses(&answer)[0].0, "64:ff9b::808:404");
    }
    assert_eq!(types_asked(&stub), [AAAA, A]);
    rig.finish();
}

#[test]
fn rfc_6147_5_2_every_prefix_has_its_record_and_those_that_are_not_global_one_less() {
    let stub = Stub::replying(|asked| match qtype(asked) {
        A => records(asked, 60, &[&[10, 0, 0, 1], &[9, 9, 9, 9]]),
        _ => asked.nodata(40),
    });
    let mut rig = Setup::asking(&[&stub]).start();
    rig.translate(vec![prefix("64:ff9b::/96"), prefix("2001:db8:64::/48")]);
    let found = made(&mut rig, "v.test. AAAA");
    let found: Vec<&str> = found.iter().map(|(address, _)| &**address).collect();
    assert_eq!(found, ["2001:db8:64:a00:0:100::", "64:ff9b::909:909", "2001:db8:64:909:9:900::"]);
    rig.finish();
}

#[test]
fn rfc_6147_5_3_1_reverse_names_under_the_prefix_lead_to_those_of_ipv4() {
    let stub = Stub::replying(script);
    let mut rig = rig(&stub);
    let name = "4.0.4.0.8.0.8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa. PTR";
    for _ in 0..2 {
        let answer = message(&mut rig, &query(name));
        let types: Vec<_> = answer.answers.iter().map(|one| one.record_type()).collect();
        assert_eq!(types, [RecordType::CNAME, RecordType::PTR]);
        assert_eq!(answer.answers[1].name.to_string(), "4.4.8.8.in-addr.arpa.");
        assert_eq!(answer.answers[0].ttl, 600, "of its own");
    }
    assert_eq!(stub.asked().len(), 1, "the target is cached");
    rig.resolve(&query(&name.replace("b.9.f.f", "c.9.f.f")));
    assert_eq!(stub.asked()[1].message[HEADER_LEN + 1], b'4', "another prefix is not ours");
    rig.finish();
}

#[test]
fn rfc_6147_5_5_a_client_that_validates_gets_what_there_is() {
    let stub = Stub::replying(script);
    let mut rig = rig(&stub);
    let validating = QueryFrame { flags: 0x100 | CD, ..query("v.test. AAAA").edns(1232, true) };
    assert_eq!(addresses(&message(&mut rig, &validating)), []);
    assert_eq!(types_asked(&stub), [AAAA]);
    let only_do = query("v.test. AAAA").edns(1232, true);
    assert_eq!(addresses(&message(&mut rig, &only_do)).len(), 2);
    let only_cd = QueryFrame { flags: 0x100 | CD, ..query("v.test. AAAA") };
    assert_eq!(addresses(&message(&mut rig, &only_cd)).len(), 2);
    rig.finish();
}

/// In the signed zone `www` has an A record, and a signed proof that it has no AAAA record is not made by the stub.
#[test]
fn rfc_6147_5_5_a_denial_that_is_bogus_is_a_failure() {
    let zone = Zone::new();
    let setup_of = zone.trusted("dns64");
    let stub = Stub::replying(move |asked| match qtype(asked) {
        AAAA => asked.nodata(40),
        _ => zone.reply(asked),
    });
    let mut rig = Setup { dnssec: setup_of, ..Setup::asking(&[&stub]) }.start();
    rig.translate(vec![prefix("64:ff9b:1::/96")]);
    let answer = message(&mut rig, &query("www.signed. AAAA"));
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
    assert!(!types_asked(&stub).contains(&A), "an attacker must not get at the A records so");
    rig.finish();
}

#[test]
fn clients_wait_together_for_both_questions() {
    let stub = Stub::replying(script);
    let mut rig = rig(&stub);
    stub.faults.busy.set(true);
    rig.ask(&query("v.test. A"));
    for _ in 0..3 {
        rig.ask(&query("v.test. AAAA"));
    }
    rig.wait_for(|counters| counters.waiting == 4);
    stub.faults.busy.set(false);
    let answers = rig.answers(4);
    assert!(answers.iter().all(|answer| answer.records == 2), "{answers:?}");
    let mut asked = types_asked(&stub);
    asked.sort_unstable();
    assert_eq!(asked, [A, AAAA]);
    rig.finish();
}

#[test]
fn made_addresses_are_refreshed_before_they_expire_and_served_when_upstreams_fail() {
    let fails = Arc::new(AtomicBool::new(false));
    let failing = Arc::clone(&fails);
    let stub = Stub::replying(move |asked| match failing.load(Ordering::Relaxed) {
        true => asked.rcode(2),
        false => script(asked),
    });
    let prefetch = Prefetch { enabled: true, cache_refresh_threshold: 0.0, ..Prefetch::default() };
    let mut setup = Setup { prefetch, ..Setup::asking(&[&stub]) };
    setup.keeping.stale_client_timeout_ms = 0;
    let mut rig = setup.start();
    rig.translate(vec![prefix("64:ff9b::/96")]);
    let popular = query("v.test. AAAA");
    assert_eq!(rig.resolve(&popular).records, 2);
    rig.hit(&popular, 10);
    rig.wait_for(|counters| counters.prefetched == 1 && counters.pending == 0);
    assert_eq!(types_asked(&stub), [AAAA, A, AAAA], "the A records are fresh");
    fails.store(true, Ordering::Relaxed);
    rig.pass(SECOND * 150);
    assert_eq!(made(&mut rig, "v.test. AAAA").len(), 2, "RFC 8767");
    assert!(rig.finish().stale >= 1);
}

#[test]
fn rules_about_ipv4_addresses_hold_for_what_is_made_of_them() {
    let stub = Stub::replying(script);
    let mut rig = rig(&stub);
    assert_eq!(made(&mut rig, "v.test. AAAA").len(), 2);
    rig.judge_by("dns64", "32.4.4.8.8.rpz-ip 60 CNAME .\n");
    // What was cached before is judged again.
    rig.wait_for(|counters| counters.withdrawn >= 2);
    let answer = message(&mut rig, &query("v.test. AAAA"));
    assert_eq!((answer.metadata.response_code, answer.answers.len()), (ResponseCode::NXDomain, 0));
    rig.finish();
}

#[test]
fn what_an_alias_leads_to_is_judged_for_each_view() {
    const KID: [u8; 4] = [10, 77, 0, 8];
    let stub = Stub::replying(script);
    let mut setup = Setup::asking(&[&stub, &stub]).view("kids", "10.77.0.8", 1);
    // Both views share answers.
    setup.views[0].group = None;
    setup.upstreams.truncate(1);
    let mut rig = setup.start();
    let file = std::env::temp_dir().join(format!("pmdns-dns64-{}", std::process::id()));
    std::fs::write(&file, "v.test\n").unwrap();
    let views = vec!["kids".to_owned()];
    rig.reload(|config| {
        config.dns64 = vec![prefix("64:ff9b::/96")];
        config.blocklists = vec![Blocklist { file: file.clone(), views, ..Blocklist::default() }];
    });
    std::fs::remove_file(&file).unwrap();
    // One that is made, and one of which a part is left.
    for (name, address) in [("c.test. AAAA", "64:ff9b::808:404"), ("q.test. AAAA", "2001:db8::1")] {
        for _ in 0..2 {
            assert_eq!(made(&mut rig, name)[0].0, address);
            let kid = QueryFrame { source: KID.into(), ..query(name) };
            let answer = message(&mut rig, &kid);
            assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain, "{name}");
        }
    }
    rig.finish();
}

#[test]
fn both_questions_are_charged_to_the_client() {
    let stub = Stub::start([127, 0, 0, 1].into(), |asked| match qtype(asked) {
        A => Vec::new(),
        _ => vec![super::stub::Send::Reply(script(asked))],
    });
    let mut setup = Setup::asking(&[&stub]);
    setup.settings.max_pending = 40;
    let mut rig = setup.start();
    rig.translate(vec![prefix("64:ff9b::/96")]);
    // Each of these keeps two places for as long as no A record comes.
    for number in 0..60u16 {
        rig.ask(&QueryFrame { id: number, ..query(&format!("v{number}.test. AAAA")) });
    }
    rig.wait_until(|rig| rig.counters().misses == 60);
    assert!(rig.counters().pending <= 40);
    let other = QueryFrame { id: 999, source: vec![10, 99, 0, 1], ..query("6.test. AAAA") };
    rig.ask(&other);
    let mut last = Vec::new();
    rig.wait_until(|rig| {
        last = rig.answers(1);
        last[0].id == 999
    });
    assert_eq!(last[0].records, 1, "another client finds room");
    rig.stop();
}
