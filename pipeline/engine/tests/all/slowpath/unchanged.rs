//! Validation changes no answer but its AD flag: letters, compression and records are the same with and without it.

use pmdns_config::Dnssec;
use pmdns_hierarchy::{EXPIRATION, INCEPTION, Message, Name, OwnedRecord, Status, World, rtype};
use pmdns_stages::cache::MAX_RECORDS;
use pmdns_stages::testing::{QueryFrame, query};
use pmdns_stages::wire::dns::flag;
use pmdns_stages::wire::put16;
use pmdns_stages::wire::record::Records;

use super::rig::{Rig, Setup};
use super::stub::{Asked, Stub};

thread_local! {
    static WORLD: World = World::new();
}

/// Records that DNSSEC adds to an answer.
const DNSSEC: [u16; 3] = [rtype::RRSIG, rtype::NSEC, rtype::NSEC3];

/// What a recursive resolver of the hierarchy replies: in the letters of the query, and as short as it can be written.
fn reply(asked: &Asked) -> Message {
    let query = Message::parse(&asked.message).unwrap();
    let (name, qtype, _) = &query.question;
    let is_opt = |record: &&OwnedRecord| record.rtype == rtype::OPT;
    let dnssec_ok = query.records().find(is_opt).is_some_and(|opt| opt.ttl & 0x8000 != 0);
    let mut message = WORLD.with(|world| world.reply(name, *qtype)).message;
    for section in &mut message.sections {
        section.retain(|one| dnssec_ok || one.rtype == *qtype || !DNSSEC.contains(&one.rtype));
    }
    message.id = query.id;
    message
}

/// A rig that validates by the hierarchy's anchor, or does not validate. Letters upstream are random, as by default.
fn rig(stub: &Stub, validates: Option<&str>) -> Rig {
    let dnssec = validates.map_or_else(Dnssec::default, |test| {
        let file = std::env::temp_dir().join(format!("pmdns-{}-{test}", std::process::id()));
        std::fs::write(&file, WORLD.with(World::anchor_line)).unwrap();
        Dnssec { validate: true, trust_anchor: Some(file), ..Dnssec::default() }
    });
    Setup { dnssec, ..Setup::asking(&[stub]).mixed() }.start()
}

/// A client's question, in letters of its own.
fn asking(name: &Name, qtype: u16, dnssec_ok: bool) -> QueryFrame {
    let every_other = |(at, byte): (usize, &u8)| match at % 2 {
        0 => byte.to_ascii_uppercase(),
        _ => *byte,
    };
    let name = name.wire().iter().enumerate().map(every_other).collect();
    QueryFrame { name, qtype, ..query("www. A").edns(4096, dnssec_ok) }
}

/// An answer without its AD flag and its TTLs, and these.
fn whole(rig: &mut Rig, query: &QueryFrame) -> (Vec<u8>, Vec<u32>) {
    let mut answer = rig.resolve_whole(query);
    let flags = u16::from_be_bytes([answer[2], answer[3]]);
    put16(&mut answer, 2, flags & !flag::AD);
    let records: Vec<_> = Records::new(&answer).unwrap().map(Result::unwrap).collect();
    for record in &records {
        answer[record.ttl_at..record.ttl_at + 4].fill(0);
    }
    (answer, records.iter().map(|record| record.ttl).collect())
}

/// Asks every question of the hierarchy that has an answer, with and without validation and DO.
fn compare(test: &str, reply: fn(&Asked) -> Message) {
    let stub = Stub::replying(move |asked| reply(asked).to_short_bytes());
    let (mut validating, mut plain) = (rig(&stub, Some(test)), rig(&stub, None));
    let questions = WORLD.with(|world| world.questions().to_vec());
    let (mut wrong, mut secure) = (Vec::new(), 0);
    for (name, qtype) in &questions {
        let status = WORLD.with(|world| world.reply(name, *qtype).status());
        if status == Status::Bogus {
            continue;
        }
        secure += usize::from(status == Status::Secure);
        for dnssec_ok in [false, true] {
            let query = asking(name, *qtype, dnssec_ok);
            let [with, without] = [&mut validating, &mut plain].map(|rig| whole(rig, &query));
            // Proofs and signatures may end earlier than data (RFC 4035 section 5.3.3).
            let is_sooner = with.1.iter().zip(&without.1).all(|(with, without)| with <= without);
            if with.0 != without.0 || !is_sooner {
                wrong.push(format!("{name} {qtype}, DO {dnssec_ok}:\n{with:02x?}\n{without:02x?}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(3)].join("\n")
    );
    assert!(secure > questions.len() / 3, "{secure} of {} are secure", questions.len());
    validating.finish();
    plain.finish();
}

#[test]
fn trap_02_validation_changes_nothing_but_ad() {
    compare("unchanged", reply);
}

/// A reply with a signed set of addresses, as many as the name says: `1000.large.a13.`
fn large(asked: &Asked) -> Message {
    let mut message = reply(asked);
    let name = message.question.0.clone();
    let first = name.labels().next().and_then(|label| std::str::from_utf8(label).ok());
    let Some(count) = first.and_then(|label| label.parse::<u32>().ok()) else { return message };
    let address = |host: u32| OwnedRecord::new(&name, rtype::A, (0xcb00_0000 + host).to_be_bytes());
    let set: Vec<OwnedRecord> = (0..count).map(address).collect();
    let signature = WORLD.with(|world| {
        let zone = world.zone(&Name::new("a13."));
        zone.keys.as_ref().unwrap()[1].sign_set(&zone.apex, &set, [INCEPTION, EXPIRATION])
    });
    // Instead of a denial.
    message.flags &= !0xf;
    message.sections = [[set, vec![signature]].concat(), Vec::new(), Vec::new()];
    message
}

#[test]
fn with_validation_an_answer_has_as_many_records_as_without() {
    let stub = Stub::replying(|asked| large(asked).to_short_bytes());
    let (mut validating, mut plain) = (rig(&stub, Some("large")), rig(&stub, None));
    for count in [500, 600, MAX_RECORDS - 1] {
        for dnssec_ok in [false, true] {
            let query = asking(&Name::new(&format!("{count}.large.a13.")), rtype::A, dnssec_ok);
            let [with, without] = [&mut validating, &mut plain].map(|rig| whole(rig, &query).0);
            // All of it is for a stream. It would be SERVFAIL if it could not be validated.
            let flags = u16::from_be_bytes([with[2], with[3]]);
            assert!(flags & flag::TC != 0 && flags & 0xf == 0, "{count} records, DO {dnssec_ok}");
            assert_eq!(with, without, "{count} records, DO {dnssec_ok}");
        }
    }
    validating.finish();
    plain.finish();
}
