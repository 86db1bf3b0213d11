//! What is kept of a reply: the records of the question's own chain.

use crate::zone_text::{Line, reply};
use hickory_proto::op::Message;
use hickory_proto::rr::RecordType;
use pmdns_stages::cache::{Entry, Head, Key, Lifetimes, MAX_RECORDS, Unusable};
use pmdns_stages::testing::name_of;
use pmdns_stages::wire::dns::Rcode;
use pmdns_stages::wire::labels::{Labels, MAX_LABEL_STEPS};

const LIFETIMES: Lifetimes =
    Lifetimes { min_ttl: 0, max_ttl: 86_400, max_negative_ttl: 900, max_body: usize::MAX };

const A: u16 = 1;
const NS: u16 = 2;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const MX: u16 = 15;
const DNAME: u16 = 39;
const RRSIG: u16 = 46;
const NSEC: u16 = 47;
const ANY: u16 = 255;

/// What a client is told, and how many records were left out.
fn told(
    qtype: u16,
    flags: u8,
    rcode: u8,
    records: &[Line<'_>],
) -> Result<(Message, Head, usize), Unusable> {
    let name = name_of("www.example.");
    let message = reply(&name, qtype, rcode, records);
    let key = Key { name: &name, qtype, qclass: 1, flags };
    let (entry, dropped) = Entry::scrub(&message, key, 0, 0, &LIFETIMES, Vec::new())?;
    Ok((Message::from_vec(&entry.message()).expect("others can read it"), entry.head(), dropped))
}

/// The records of answer and authority: owner and type.
fn kept(qtype: u16, flags: u8, rcode: u8, records: &[Line<'_>]) -> Result<Vec<String>, Unusable> {
    let (message, ..) = told(qtype, flags, rcode, records)?;
    assert!(message.additionals.is_empty());
    let all = message.answers.iter().chain(&message.authorities);
    Ok(all.map(|one| format!("{} {}", one.name, one.record_type())).collect())
}

fn answer<'a>(owner: &'a str, rtype: u16, data: &'a str) -> Line<'a> {
    Line { section: 0, owner, rtype, data, class: 1 }
}

fn authority<'a>(owner: &'a str, rtype: u16, data: &'a str) -> Line<'a> {
    Line { section: 1, ..answer(owner, rtype, data) }
}

fn additional<'a>(owner: &'a str, rtype: u16, data: &'a str) -> Line<'a> {
    Line { section: 2, ..answer(owner, rtype, data) }
}

#[test]
fn difference_scrub_records_of_other_names_are_left_out() {
    let records = [
        answer("other.example.", A, ""),
        answer("www.example.", A, ""),
        answer("www.example.", MX, "mail.example."),
        Line { class: 3, ..answer("www.example.", A, "") },
        answer("www.example.", ANY, ""),
        authority("example.", NS, "ns.evil."),
        authority("com.", NS, "ns.evil."),
        authority("example.", SOA, "."),
        additional("ns.evil.", A, ""),
        additional("www.bank.", A, ""),
    ];
    assert_eq!(kept(A, 0, 0, &records).unwrap(), ["www.example. A"]);
    assert_eq!(kept(A, Key::DO, 0, &records).unwrap(), ["www.example. A"]);
    let (_, head, dropped) = told(A, 0, 0, &records).unwrap();
    assert_eq!((head.flags, head.expires, dropped), (0, 300, 7));
    let of_any = ["www.example. A", "www.example. MX"];
    assert_eq!(kept(ANY, 0, 0, &records).unwrap(), of_any);
}

#[test]
fn difference_scrub_aliases_are_followed_in_any_order() {
    let records = [
        answer("c.example.", A, ""),
        answer("b.example.", CNAME, "C.example."),
        answer("x.example.", CNAME, "y.example."),
        answer("www.example.", CNAME, "b.example."),
        answer("www.example.", CNAME, "z.example."),
        answer("z.example.", A, ""),
    ];
    let chain = ["www.example. CNAME", "b.example. CNAME", "c.example. A"];
    assert_eq!(kept(A, 0, 0, &records).unwrap(), chain);
    assert_eq!(kept(CNAME, 0, 0, &records).unwrap(), ["www.example. CNAME"]);
    // What was asked for is the answer, whatever stands beside it.
    let both = [records[3], answer("www.example.", A, ""), records[1]];
    assert_eq!(kept(A, 0, 0, &both).unwrap(), ["www.example. A"]);
}

#[test]
fn difference_scrub_a_circle_of_aliases_is_no_answer() {
    let records =
        [answer("www.example.", CNAME, "b.example."), answer("b.example.", CNAME, "WWW.example.")];
    assert_eq!(kept(A, 0, 0, &records), Err(Unusable::TooManyAliases));
    assert_eq!(kept(CNAME, 0, 0, &records).unwrap(), ["www.example. CNAME"]);
    let itself = [answer("www.example.", CNAME, "wWw.example.")];
    assert_eq!(kept(A, 0, 0, &itself), Err(Unusable::TooManyAliases));
    // Two names that lead to the same one are no circle.
    let beside =
        [records[0], answer("b.example.", CNAME, "c.example."), answer("c.example.", A, "")];
    assert_eq!(kept(A, 0, 0, &beside).unwrap().len(), 3);
}

/// A stub takes aliases without an address for a name without addresses.
#[test]
fn a_chain_of_aliases_that_is_too_long_is_no_answer() {
    for count in [15, 16, 17, 40] {
        let names: Vec<String> = (1..=count).map(|number| format!("n{number}.example.")).collect();
        let mut records = vec![answer("www.example.", CNAME, &names[0])];
        records.extend(names.windows(2).map(|pair| answer(&pair[0], CNAME, &pair[1])));
        records.push(answer(&names[count - 1], A, ""));
        let expected = if count > 16 { Err(Unusable::TooManyAliases) } else { Ok(count + 1) };
        assert_eq!(kept(A, 0, 0, &records).map(|kept| kept.len()), expected, "{count}");
        assert_eq!(kept(CNAME, 0, 0, &records).map(|kept| kept.len()), Ok(1));
    }
}

#[test]
fn difference_scrub_what_says_nothing_about_the_question_is_no_answer() {
    let soa = authority("example.", SOA, ".");
    for records in [
        vec![answer("other.example.", A, "")],
        vec![answer("other.example.", A, ""), soa],
        vec![answer("www.example.", MX, "mail.example.")],
        vec![Line { class: 3, ..answer("www.example.", A, "") }],
    ] {
        assert_eq!(kept(A, 0, 0, &records), Err(Unusable::NoAnswer), "{records:?}");
    }
    assert_eq!(kept(A, 0, 0, &[soa]).unwrap(), ["example. SOA"]);
    let root = authority(".", SOA, ".");
    assert_eq!(kept(A, 0, 3, &[answer("x.", A, ""), root, soa]).unwrap(), [". SOA"]);
    let alias = answer("www.example.", CNAME, "a.b.test.");
    let of_target = authority("b.test.", SOA, ".");
    let denied = kept(A, 0, 3, &[alias, soa, of_target]).unwrap();
    assert_eq!(denied, ["www.example. CNAME", "b.test. SOA"], "of the zone that the end is in");
}

#[test]
fn difference_scrub_a_denial_without_its_own_soa_is_not_kept() {
    let servers = authority("example.", NS, "ns.example.");
    for records in [
        vec![],
        vec![authority("other.", SOA, ".")],
        vec![authority("x.www.example.", SOA, ".")],
        vec![authority("other.", SOA, "."), servers],
        vec![servers, additional("ns.example.", A, "")],
    ] {
        let (message, head, _) = told(A, 0, 0, &records).unwrap();
        assert!(message.answers.is_empty() && message.authorities.is_empty(), "{records:?}");
        assert_eq!((head.flags, head.expires), (Head::NEGATIVE, 0), "{records:?}");
    }
    // RFC 2308 section 2.2: a server that does not recurse refers to others.
    let name = name_of("www.example.");
    let mut referral = reply(&name, A, 0, &[servers]);
    referral[3] &= 0x7f;
    let key = Key { name: &name, qtype: A, qclass: 1, flags: 0 };
    let read = Entry::from_reply(&referral, key, 0, 0, &LIFETIMES);
    assert_eq!(read.unwrap_err(), Unusable::NoAnswer);
}

#[test]
fn difference_scrub_a_dname_and_its_alias_agree() {
    let tree = answer("example.", DNAME, "test.");
    let made = ["example. DNAME", "www.example. CNAME", "www.test. A"];
    let end = answer("www.test.", A, "");
    assert_eq!(kept(A, 0, 0, &[end, tree]).unwrap(), made, "it is made");
    let (message, head, _) = told(A, 0, 0, &[tree, end]).unwrap();
    assert_eq!(message.answers[1].data.to_string(), "www.test.");
    assert_eq!((message.answers[1].ttl, head.ttl_count), (300, 3));
    let alias = answer("www.example.", CNAME, "WWW.test.");
    assert_eq!(kept(A, 0, 0, &[alias, tree, end]).unwrap(), made);
    assert_eq!(kept(CNAME, Key::DO, 0, &[tree, alias]).unwrap(), made[..2]);
    let wrong = answer("www.example.", CNAME, "www.evil.");
    let evil = answer("www.evil.", A, "");
    assert_eq!(kept(A, 0, 0, &[tree, wrong, evil]), Err(Unusable::NoAnswer));
    let label = "x".repeat(63);
    let long = format!("{label}.{label}.{label}.{}.", &label[..61]);
    let too_long = answer("example.", DNAME, &long);
    assert_eq!(kept(A, 0, 0, &[too_long, end]), Err(Unusable::NoAnswer), "YXDOMAIN");
    // RFC 6672 section 2.2: the server says so.
    let (message, head, _) = told(A, 0, 6, &[too_long, end]).unwrap();
    assert_eq!(message.answers.len(), 1);
    assert_eq!((head.rcode, head.flags, head.expires), (Rcode::YXDOMAIN, 0, 300));
    let long_lived = [(true, 900), (false, 0)];
    for (has_tree, expires) in long_lived {
        let records: &[Line<'_>] = if has_tree { &[too_long] } else { &[] };
        let mut message = reply(&name_of("www.example."), A, 6, records);
        if let Some(at) = message.windows(4).position(|ttl| ttl == 300_u32.to_be_bytes()) {
            message[at..at + 4].copy_from_slice(&100_000_u32.to_be_bytes());
        }
        let name = name_of("www.example.");
        let key = Key { name: &name, qtype: A, qclass: 1, flags: 0 };
        let head = Entry::from_reply(&message, key, 0, 0, &LIFETIMES).unwrap().head();
        assert_eq!((head.rcode, head.expires), (Rcode::YXDOMAIN, expires), "bounded like a denial");
    }
    let own = answer("www.example.", DNAME, "test.");
    assert_eq!(kept(A, 0, 0, &[own, end]), Err(Unusable::NoAnswer), "it says nothing of itself");
    assert_eq!(kept(DNAME, 0, 0, &[own]).unwrap(), ["www.example. DNAME"]);
}

#[test]
fn difference_scrub_proofs_are_for_those_who_asked_for_them() {
    let records = [
        answer("www.example.", A, ""),
        answer("www.example.", RRSIG, "A example."),
        answer("www.example.", RRSIG, "MX example."),
        answer("x.example.", RRSIG, "A example."),
        authority("a.example.", NSEC, "z.example."),
        authority("a.example.", RRSIG, "NSEC example."),
        authority("a.example.", RRSIG, "A example."),
        authority("a.test.", NSEC, "z.test."),
        authority("a.test.", RRSIG, "NSEC test."),
        authority("example.", SOA, "."),
    ];
    assert_eq!(kept(A, 0, 0, &records).unwrap(), ["www.example. A"]);
    let proven = ["www.example. A", "www.example. RRSIG", "a.example. NSEC", "a.example. RRSIG"];
    assert_eq!(kept(A, Key::DO, 0, &records).unwrap(), proven);
    let denial = [
        authority("example.", SOA, "."),
        authority("example.", RRSIG, "SOA example."),
        records[4],
        records[5],
        records[7],
        records[8],
    ];
    let expected = ["example. SOA", "example. RRSIG", "a.example. NSEC", "a.example. RRSIG"];
    assert_eq!(kept(A, Key::DO, 3, &denial).unwrap(), expected);
    assert_eq!(kept(A, 0, 3, &denial).unwrap(), ["example. SOA"]);
    // Who asks for them gets them.
    assert_eq!(kept(RRSIG, 0, 0, &records).unwrap().len(), 2);
}

#[test]
fn cve_2025_40778_name_servers_and_aliases_that_nobody_asked_for_go_to_nobody() {
    let records = [
        answer("www.example.", A, ""),
        answer("example.", DNAME, "evil."),
        answer("www.bank.", CNAME, "www.evil."),
        authority("example.", NS, "ns.evil."),
        authority(".", NS, "ns.evil."),
        additional("ns.evil.", A, ""),
    ];
    for flags in [0, Key::DO, Key::CD] {
        assert_eq!(kept(A, flags, 0, &records).unwrap(), ["www.example. A"]);
    }
}

#[test]
fn cve_2024_1737_a_set_of_thousands_of_records_is_not_kept() {
    let records = vec![answer("www.example.", A, ""); MAX_RECORDS + 1];
    let (_, head, _) = told(A, 0, 0, &records).unwrap();
    assert_eq!((head.flags, head.body_len, head.ttl_count), (Head::TOO_LONG, 0, 0));
    let (message, ..) = told(A, 0, 0, &records[..MAX_RECORDS]).unwrap();
    assert_eq!(message.answers.len(), MAX_RECORDS);
}

#[test]
fn cve_2024_11187_names_in_data_bring_no_records_with_them() {
    let names: Vec<String> = (0..100).map(|number| format!("mx{number}.example.")).collect();
    let mut records: Vec<_> = names.iter().map(|name| answer("www.example.", MX, name)).collect();
    records.extend(names.iter().map(|name| additional(name, A, "")));
    let kept = kept(MX, 0, 0, &records).unwrap();
    assert_eq!(kept.len(), 100);
    assert!(kept.iter().all(|record| record == "www.example. MX"));
}

/// A reply of 64 KB of records (a name server each) whose names are as deep as possible.
fn bomb(section: usize, is_found: bool) -> Vec<u8> {
    let mut message = reply(&name_of("www.example."), NS, 0, &[]);
    // 126 labels, one in each of as many pointers.
    message.extend(b"\0\0\x0a\0\x01\0\0\0\x09");
    let (mut tail, len_at) = (message.len() + 2, message.len());
    message.extend([0, 0]);
    message.extend(b"\x01y\0");
    for _ in 0..124 {
        let at = message.len();
        message.extend([1, b'x']);
        message.extend((0xc000 + tail as u16).to_be_bytes());
        tail = at;
    }
    let len = (message.len() - len_at - 2) as u16;
    message[len_at..len_at + 2].copy_from_slice(&len.to_be_bytes());
    let mut count = 1_u16;
    let pointer = (0xc000 + tail as u16).to_be_bytes();
    let owner = if is_found { [0xc0, 12] } else { pointer };
    while message.len() < 65_500 {
        message.extend([&owner[..], b"\0\x02\0\x01\0\0\0\x09\0\x02", &pointer].concat());
        count += 1;
    }
    let at = 6 + 2 * section;
    message[at..at + 2].copy_from_slice(&count.to_be_bytes());
    message
}

#[test]
fn cve_2024_8508_cve_2026_44390_names_are_read_and_written_within_a_budget() {
    let name = name_of("www.example.");
    let key = Key { name: &name, qtype: NS, qclass: 1, flags: Key::DO };
    for (section, is_found) in [(0, true), (0, false), (1, false), (2, true)] {
        let message = bomb(section, is_found);
        let outcome = Entry::from_reply(&message, key, 0, 0, &LIFETIMES);
        // It is refused, or cut: nothing goes on for longer than the budget allows.
        let is_cut = outcome.as_ref().is_ok_and(|entry| entry.head().flags & Head::TOO_LONG != 0);
        assert!(is_cut || section > 0 || outcome.is_err(), "{section} {is_found}");
    }
    let message = bomb(0, true);
    let mut labels = Labels::new(&message);
    let (mut at, mut read) = (message.len() - 2, 0);
    while labels.length(at).is_some() {
        at -= 14;
        read += 1;
    }
    assert_eq!(labels.steps(), MAX_LABEL_STEPS);
    assert!((500..550).contains(&read), "{read} of 4,600 names");
}

#[test]
fn audit_06_records_beyond_those_an_answer_may_have_are_not_read() {
    let name = name_of("www.example.");
    let key = Key { name: &name, qtype: A, qclass: 1, flags: 0 };
    let mut message = reply(&name, A, 0, &vec![answer("www.example.", A, ""); MAX_RECORDS]);
    // Behind them is one that nobody could read.
    message[6..8].copy_from_slice(&(MAX_RECORDS as u16 + 1).to_be_bytes());
    message.extend(b"\xc0\xff\0\x01\0\x01\0\0\0\x09\0\x01\0");
    let head = Entry::from_reply(&message, key, 0, 0, &LIFETIMES).unwrap().head();
    assert_eq!((head.rcode, head.flags), (Rcode::NOERROR, Head::TOO_LONG));
}

#[test]
fn records_that_no_table_knows_pass_bit_by_bit() {
    let (message, ..) = told(65_280, 0, 0, &[answer("www.example.", 65_280, "\u{1}x")]).unwrap();
    assert_eq!(message.answers[0].record_type(), RecordType::Unknown(65_280));
}
